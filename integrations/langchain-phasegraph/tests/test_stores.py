"""Scores out of real stores: direction known, ids kept, nothing written into the index."""

import copy

import pytest
from langchain_community.retrievers import BM25Retriever
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_stores import ORDER, STORES, ids_of, in_memory, passages

from langchain_phasegraph import PhaseGraphRetriever


def test_bm25_and_vectors_meet_by_id():
    bm25 = BM25Retriever.from_documents(passages())
    retriever = PhaseGraphRetriever(vector=in_memory(), retrievers={"bm25": bm25}, metadata_key="phasegraph")
    first, *_ = retriever.invoke("text of p0")
    assert first.id == "p0"
    assert {name: one["rank"] for name, one in first.metadata["phasegraph"]["sources"].items()} == {
        "bm25": 1.0,
        "vector": 1.0,
    }
    reports = {report.source: report for report in retriever.explain("text of p0").reports}
    assert reports["bm25"].notes == ("rank only: it returns no scores",)


def test_bm25_keeps_its_documents_and_its_own_k():
    bm25 = BM25Retriever.from_documents(passages())
    before = copy.deepcopy(bm25.docs)
    found = PhaseGraphRetriever(retrievers={"bm25": bm25}, k=9).invoke("p3")
    assert len(found) == 9
    assert (bm25.k, bm25.docs) == (4, before)


def test_filters_of_the_caller_stay_in_force_and_are_read_at_every_call(store):
    own = store.as_retriever(search_kwargs={"filter": lambda document: document.metadata["page"] > 5})
    retriever = PhaseGraphRetriever(vector=own)
    assert ids_of(retriever.invoke("what?")) == ["p6", "p8", "p7"] or set(ids_of(retriever.invoke("what?"))) == {
        "p6",
        "p7",
        "p8",
    }
    own.search_kwargs["filter"] = lambda document: document.metadata["page"] == 0
    assert ids_of(retriever.invoke("what?")) == ["p0"]


@pytest.mark.parametrize("name", ["InMemory", "FAISS L2", "FAISS IP", "Chroma cosine"])
def test_mmr_decides_membership_and_a_score_search_the_scores(name):
    store = STORES[name]()
    own = store.as_retriever(search_type="mmr", search_kwargs={"k": 5, "fetch_k": 9, "lambda_mult": 0.1})
    members = {document.id for document in own.invoke("what?")}
    found = PhaseGraphRetriever(vector=own).invoke("what?")
    assert {document.id for document in found} == members != set(ORDER[:5])
    scores = {d.id: float(s) for d, s in store.similarity_search_with_score("what?", k=9)}
    order = [scores[str(document.id)] for document in found]
    assert order == sorted(order, reverse=scores["p0"] > scores["p8"])


def test_a_score_threshold_decides_membership():
    store = STORES["Chroma cosine"]()
    own = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"k": 9, "score_threshold": 0.8})
    members = {document.id for document in own.invoke("what?")}
    found = PhaseGraphRetriever(vector=own).invoke("what?")
    assert {document.id for document in found} == members
    assert 0 < len(members) < 9


async def test_mmr_is_the_same_async(store):
    own = store.as_retriever(search_type="mmr", search_kwargs={"k": 4, "fetch_k": 9})
    retriever = PhaseGraphRetriever(vector=own)
    assert await retriever.ainvoke("what?") == retriever.invoke("what?")


def test_relevance_functions_are_never_asked(store, monkeypatch):
    def refuse(self):
        pytest.fail("asked for a relevance function")

    monkeypatch.setattr(InMemoryVectorStore, "_select_relevance_score_fn", refuse)
    assert PhaseGraphRetriever(vector=store).invoke("what?")


class Unscored(VectorStore):
    """A store with nothing but a plain search."""

    def similarity_search(self, query, k=4, **kwargs):
        return passages()[:k]

    @classmethod
    def from_texts(cls, texts, embedding, metadatas=None, **kwargs):
        return cls()


class Refusing(Unscored):
    def similarity_search_with_score(self, *args, **kwargs):
        raise NotImplementedError


@pytest.mark.parametrize("kind", [Unscored, Refusing])
async def test_a_store_without_a_score_search_gives_ranks(kind):
    retriever = PhaseGraphRetriever(vector=kind(), k=3)
    assert ids_of(retriever.invoke("what?")) == ["p0", "p1", "p2"] == ids_of(await retriever.ainvoke("what?"))
    assert retriever.explain("what?").reports[0].notes == ("rank only: it returns no scores",)


def test_an_overridden_search_is_called_as_it_is(store):
    class Own(type(store.as_retriever())):
        def _get_relevant_documents(self, query, *, run_manager, **kwargs):
            return [Document("mine", id="mine")]

    assert ids_of(PhaseGraphRetriever(vector=Own(vectorstore=store)).invoke("what?")) == ["mine"]


def wrapped(store):
    own = store.as_retriever()
    return {
        "configured": own.with_config(tags=["x"]),
        "retried": own.with_config(tags=["x"]).with_retry(),
        "with fallbacks": own.with_fallbacks([store.as_retriever()]),
        "configurable": own.configurable_fields(search_kwargs=ConfigurableField(id="search_kwargs")),
        "configured configurable": own.configurable_fields(tags=ConfigurableField(id="t")).with_config(tags=["x"]),
    }


@pytest.mark.parametrize("kind", list(wrapped(in_memory())))
async def test_a_wrapped_retriever_keeps_its_scores_and_takes_the_limit(store, kind):
    retriever = PhaseGraphRetriever(vector=wrapped(store)[kind], limit=7)
    expected = PhaseGraphRetriever(vector=store, limit=7).invoke("what?")
    assert len(expected) == 7
    if kind == "configured configurable":
        assert ids_of(retriever.invoke("what?")) == ids_of(expected)
    else:
        assert retriever.invoke("what?") == expected == await retriever.ainvoke("what?")


def test_stores_that_count_in_different_directions_leave_the_ranks(store):
    other = STORES["Chroma l2"]()
    mixed = store.as_retriever().with_fallbacks([other.as_retriever()])
    retriever = PhaseGraphRetriever(vector=mixed, limit=9)
    assert ids_of(retriever.invoke("what?")) == ids_of(store.similarity_search("what?", k=9))
    assert retriever.explain("what?").reports[0].notes == ("rank only: it returns no scores",)


def test_a_bound_bm25_takes_the_limit_too():
    bm25 = BM25Retriever.from_documents(passages()).with_config(tags=["x"])
    assert len(PhaseGraphRetriever(retrievers={"bm25": bm25}).explain("p3").candidates.ids) == 9
