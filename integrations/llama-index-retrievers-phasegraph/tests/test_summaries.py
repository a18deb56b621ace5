"""A summary tree in LlamaIndex: alone, in a fusion, filtered, with an LLM as the writer."""

import asyncio

import numpy as np
import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.schema import MetadataMode, TextNode
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters
from llamaindex_stores import TextModel

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever, text_model
from phasegraph.graph import ClusterSettings, SummaryTree, summarise_with

TOPICS = ("harbour", "orchard", "railway")
NODES = [
    TextNode(text=f"The {topic} has part {row}. It is the {topic} of old.", id_=f"{topic}{row}",
             metadata={"topic": topic, "even": row % 2})
    for topic in TOPICS for row in range(8)
]  # fmt: skip


class Topical(TextModel):
    """An embedding model with a direction for each topic and a small part that differs for each text."""

    def _get_text_embedding(self, text):
        vector = np.array([float(topic in text.lower()) for topic in TOPICS] + [0.0] * 5)
        vector[3:] = 0.03 * np.cos(np.arange(5) * sum(map(ord, text)))
        return vector.tolist()


MODEL = Topical()


def tree(**options):
    passages = [{"id": one.id_, "text": one.text} for one in NODES]
    vectors = [MODEL.get_text_embedding(one.text) for one in NODES]
    return SummaryTree.build(passages, vectors, clusters=ClusterSettings(reducer="pca"), **options)


def fused(source, **options):
    index = VectorStoreIndex(NODES, embed_model=MODEL)
    return CalibratedFusionRetriever(
        retrievers={"vector": index, "summaries": source}, **{"similarity_top_k": 8, **options}
    )


def only(key, value, operator=FilterOperator.EQ):
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


def test_leaves_are_nodes_of_the_other_sources():
    retriever = fused(tree().source(MODEL.get_query_embedding))
    found = retriever.retrieve("Tell me of the railway")
    assert {one.metadata["topic"] for one in found} == {"railway"}
    result = retriever.explain("Tell me of the railway")
    assert [(one.source, one.status) for one in result.reports] == [("summaries", "ok"), ("vector", "ok")]
    again = asyncio.run(retriever.aretrieve("Tell me of the railway"))
    assert [one.node_id for one in again] == [one.node_id for one in found]


def test_summaries_stand_for_themselves():
    made = tree(summarise=summarise_with(text_model(MockLLM(max_tokens=5))), workers=1)
    source = made.source(MODEL.get_query_embedding, resolve="summaries")
    alone = EntityGraphRetriever(source, NODES, similarity_top_k=30).retrieve("The orchard?")
    summaries = [one for one in alone if one.node_id.startswith("summary:")]
    assert summaries
    assert all(one.text.startswith("text text") for one in summaries)
    assert "summary_of" not in summaries[0].node.get_content(MetadataMode.LLM)
    for retriever in (source, EntityGraphRetriever(source, NODES)):
        found = fused(retriever, similarity_top_k=30).retrieve("The orchard?")
        assert {one.node_id for one in summaries} <= {one.node_id for one in found}
    first = next(one for one in found if one.node_id.startswith("summary:"))
    assert first.metadata["summary_of"] == sorted(one.id_ for one in NODES if one.metadata["topic"] == "orchard")


@pytest.mark.parametrize("resolve", ["leaves", "summaries"])
@pytest.mark.parametrize(
    "wanted", [only("topic", "orchard"), only("topic", ["orchard", "harbour"], FilterOperator.IN), only("even", 0)]
)
def test_a_filter_shuts_out_summaries_of_others(resolve, wanted):
    source = EntityGraphRetriever(tree().source(MODEL.get_query_embedding, resolve=resolve), NODES, similarity_top_k=40)
    topical = wanted.filters[0].key == "topic"
    for retriever in (source, fused(source, similarity_top_k=40)):
        found = retriever.within(wanted).retrieve("harbour and orchard and railway")
        assert found
        for one in found:
            under = [each for each in NODES if each.id_ in one.metadata.get("summary_of", [one.node_id])]
            assert {each.metadata["topic"] for each in under} <= ({"orchard", "harbour"} if topical else set(TOPICS))
            assert topical or all(each.metadata["even"] == 0 for each in under)
    whole = source.within(only("topic", "orchard")).retrieve("orchard")
    assert any(one.node_id.startswith("summary:") for one in whole) == (resolve == "summaries")
