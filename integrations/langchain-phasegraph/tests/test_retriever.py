"""The retriever as a whole: the sources' own documents, scores, evidence, k, weights, save and load."""

import asyncio
import json
import re

import pytest
from langchain_core.documents import Document
from langchain_core.prompts import PromptTemplate, format_document
from langchain_core.runnables import ConfigurableField, RunnableLambda
from langchain_stores import Fixed, Listed, ids_of, in_memory, listed, pairs, passages

from langchain_phasegraph import HitFields, PhaseGraphRetriever, SourceSpec
from phasegraph.errors import PhasegraphWarning

SHOWN = {"score_key": "score", "evidence_key": "phasegraph"}


def two(**more):
    first = pairs(a=9.0, b=8.0, c=5.0, d=2.0, e=1.0)
    second = pairs(c=0.9, a=0.8, f=0.3, g=0.2, h=0.1)
    return PhaseGraphRetriever(retrievers={"first": lambda q: first, "second": lambda q: second}, **more)


def test_batches_agree_and_k_is_a_keyword_too():
    retriever = two()
    answer = retriever.invoke("q")
    assert retriever.batch(["q", "q"]) == [answer, answer] == asyncio.run(retriever.abatch(["q", "q"]))
    for k in (0, 1, 3, 8, 1_000_000_000):
        assert retriever.invoke("q", k=k) == answer[:k] == asyncio.run(retriever.ainvoke("q", k=k))


def test_a_users_own_score_is_kept_and_score_and_evidence_come_on_request():
    source = {"s": listed("a", "b", score="A+")}
    with pytest.warns(PhasegraphWarning, match="already use the metadata key 'score'"):
        first = PhaseGraphRetriever(retrievers=source, **SHOWN).invoke("q")[0]
    assert first.metadata["score"] == "A+"
    assert 0 <= first.metadata["phasegraph"]["score"] <= 1
    assert (
        type(PhaseGraphRetriever(retrievers=source, score_key="relevance").invoke("q")[0].metadata["relevance"])
        is float
    )
    assert PhaseGraphRetriever(retrievers={"s": listed("a")}).invoke("q")[0].metadata == {}


def test_a_score_under_a_known_key_is_read():
    scored = [Document("x", id=i, metadata={"relevance_score": score}) for i, score in (("a", -3.0), ("b", -1.0))]
    assert PhaseGraphRetriever(vector=Listed(answer=scored)).explain("q").candidates.rankings[0].ids == ("b", "a")


def test_resolve_serves_a_retriever_with_an_asynchronous_search_of_its_own():
    async def resolve(ids):
        return [Document("resolved", id=ids[0])]

    class Native(Listed):
        async def _aget_relevant_documents(self, query, *, run_manager):
            return self.answer

    spec = SourceSpec(retriever=Native(answer=[Document("one", id="1")]), fields=HitFields(resolve=resolve))
    retriever = PhaseGraphRetriever(graph=spec)
    for (found,) in (retriever.invoke("q"), asyncio.run(retriever.ainvoke("q"))):
        assert found.page_content == "resolved"


def test_provenance_stays_out_of_a_prompt():
    document = two(k=1, **SHOWN).invoke("q")[0]
    assert format_document(document, PromptTemplate.from_template("{page_content}")) == "text of a"
    assert two(k=1).invoke("q")[0].metadata == {}


def test_ids_come_from_metadata_where_documents_have_none_and_are_set():
    answer = [Document("x", metadata={"pk": 7})]
    assert ids_of(PhaseGraphRetriever(retrievers={"s": Listed(answer=answer)}).invoke("q")) == ["7"]


async def test_runnables_texts_coroutines_and_nested_retrievers_are_sources():
    async def search(query):
        return pairs(a=3.0, b=2.0, c=1.0)

    inner = PhaseGraphRetriever(retrievers={"s": lambda q: pairs(a=3.0, b=2.0, c=1.0)}, **SHOWN)
    retriever = PhaseGraphRetriever(
        retrievers={
            "async": search,
            "lambda": RunnableLambda(lambda q: [Document("text of a", id="a")]),
            "inner": inner,
        },
        **SHOWN,
    )
    for found in (retriever.invoke("q"), await retriever.ainvoke("q")):
        assert found[0].id == "a"
        block = found[0].metadata["phasegraph"]
        assert block["sources"]["inner"]["evidence"]["sources"]["s"]["raw"] == 3.0
        assert found[0].metadata["score"] == block["score"]
        json.dumps(block, allow_nan=False)


def test_configurable_fields_of_a_source_reach_it(store):
    own = store.as_retriever().configurable_fields(search_kwargs=ConfigurableField(id="search_kwargs"))
    retriever = PhaseGraphRetriever(vector=own)
    config = {"configurable": {"search_kwargs": {"filter": lambda d: d.metadata["page"] == 3}}}
    assert ids_of(retriever.invoke("what?", config)) == ["p3"]
    assert ids_of(asyncio.run(retriever.ainvoke("what?", config))) == ["p3"]


def test_its_own_fields_can_be_made_configurable():
    retriever = two().configurable_fields(k=ConfigurableField(id="k"))
    assert len(retriever.invoke("q", {"configurable": {"k": 2}})) == 2


def test_its_repr_names_the_stores_and_indexes_behind_its_sources():
    store = in_memory()
    assert repr(PhaseGraphRetriever(vector=store)) == "PhaseGraphRetriever(vector=InMemoryVectorStore)"
    said = repr(PhaseGraphRetriever(vector=store.as_retriever()))
    assert said == "PhaseGraphRetriever(vector=VectorStoreRetriever of InMemoryVectorStore)"
    said = repr(PhaseGraphRetriever.from_documents(passages(), Fixed(), progress=False))
    for name, kind in {"vector": "VectorSource", "graph": "GraphSource", "bm25": "LexicalSource"}.items():
        assert re.search(rf"{name}[=:] ?EntityGraphRetriever of {kind}", said), said
