"""A summary tree in LangChain: alone, in a fusion, filtered, with a chat model as the writer."""

import asyncio

import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import FakeListChatModel
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever, text_model
from phasegraph.graph import ClusterSettings, SummaryTree, summarise_with

TOPICS = ("harbour", "orchard", "railway")
DOCUMENTS = [
    Document(f"The {topic} has part {row}. It is the {topic} of old.", id=f"{topic}{row}",
             metadata={"topic": topic, "even": row % 2 == 0})
    for topic in TOPICS for row in range(8)
]  # fmt: skip


class Topical(Embeddings):
    """An embedding model with a direction for each topic and a small part that differs for each text."""

    def embed_query(self, text):
        vector = np.array([float(topic in text.lower()) for topic in TOPICS] + [0.0] * 5)
        vector[3:] = 0.03 * np.cos(np.arange(5) * sum(map(ord, text)))
        return vector.tolist()

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


MODEL = Topical()


def tree(**options):
    passages = [{"id": one.id, "text": one.page_content} for one in DOCUMENTS]
    vectors = MODEL.embed_documents([one.page_content for one in DOCUMENTS])
    return SummaryTree.build(passages, vectors, clusters=ClusterSettings(reducer="pca"), **options)


def fused(source, **options):
    store = InMemoryVectorStore.from_documents(DOCUMENTS, MODEL)
    return PhaseGraphRetriever(retrievers={"vector": store, "summaries": source}, **{"k": 8, **options})


def test_leaves_are_documents_of_the_other_sources():
    retriever = fused(tree().source(MODEL.embed_query))
    found = retriever.invoke("Tell me of the railway")
    assert {one.metadata["topic"] for one in found} == {"railway"}
    assert all(one.page_content.startswith("The railway") for one in found)
    result = retriever.explain("Tell me of the railway")
    assert [(one.source, one.status) for one in result.reports] == [("summaries", "ok"), ("vector", "ok")]
    again = asyncio.run(retriever.ainvoke("Tell me of the railway"))
    assert [one.id for one in again] == [one.id for one in found]


def test_summaries_stand_for_themselves():
    made = tree(summarise=summarise_with(text_model(FakeListChatModel(responses=["All of the one topic."]))), workers=1)
    source = made.source(MODEL.embed_query, resolve="summaries")
    alone = EntityGraphRetriever(graph=source, documents=DOCUMENTS, k=30).invoke("The orchard?")
    summaries = [one for one in alone if one.id.startswith("summary:")]
    assert summaries
    assert all(one.page_content == "All of the one topic." for one in summaries)
    for retriever in (source, EntityGraphRetriever(graph=source, documents=DOCUMENTS)):
        found = fused(retriever, k=30).invoke("The orchard?")
        assert {one.id for one in summaries} <= {one.id for one in found}
    first = next(one for one in found if one.id.startswith("summary:"))
    assert first.metadata["summary_of"] == sorted(one.id for one in DOCUMENTS if one.metadata["topic"] == "orchard")


@pytest.mark.parametrize("resolve", ["leaves", "summaries"])
@pytest.mark.parametrize("wanted", [{"topic": "orchard"}, {"topic": {"$in": ["orchard", "harbour"]}}, {"even": True}])
def test_a_filter_shuts_out_summaries_of_others(resolve, wanted):
    source = EntityGraphRetriever(graph=tree().source(MODEL.embed_query, resolve=resolve), documents=DOCUMENTS, k=40)
    for retriever in (source, fused(source, k=40)):
        found = retriever.invoke("harbour and orchard and railway", filter=wanted)
        assert found
        assert not any("railway" in one.page_content for one in found) or wanted == {"even": True}
        for one in found:
            under = one.metadata.get("summary_of", [one.id])
            topics = {each.metadata["topic"] for each in DOCUMENTS if each.id in under}
            assert topics <= ({"orchard", "harbour"} if "topic" in wanted else set(TOPICS))
            assert wanted != {"even": True} or all(each.metadata["even"] for each in DOCUMENTS if each.id in under)
    whole = [one for one in source.invoke("orchard", filter={"topic": "orchard"}) if one.id.startswith("summary:")]
    assert bool(whole) == (resolve == "summaries")
