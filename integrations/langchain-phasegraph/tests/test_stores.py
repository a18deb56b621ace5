"""Scores of real stores: the direction is known, ids are kept, and nothing is written into the index."""

import copy

import numpy as np
import pytest
from langchain_community.retrievers import BM25Retriever
from langchain_community.vectorstores import SKLearnVectorStore
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_stores import ORDER, STORES, Fixed, ids_of, in_memory, passages

from langchain_phasegraph import HitFields, PhaseGraphRetriever, SourceSpec
from phasegraph import PhasegraphWarning


def test_bm25_and_vectors_meet_by_id():
    bm25 = BM25Retriever.from_documents(passages())
    retriever = PhaseGraphRetriever(vector=in_memory(), retrievers={"bm25": bm25}, evidence_key="phasegraph")
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
    """A store that has only a search without scores."""

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
    retriever = PhaseGraphRetriever(vector=wrapped(store)[kind], fetch_k=7)
    expected = PhaseGraphRetriever(vector=store, fetch_k=7).invoke("what?")
    assert len(expected) == 7
    if kind == "configured configurable":
        assert ids_of(retriever.invoke("what?")) == ids_of(expected)
    else:
        assert retriever.invoke("what?") == expected == await retriever.ainvoke("what?")


def test_stores_that_count_in_different_directions_leave_the_ranks(store):
    other = STORES["Chroma l2"]()
    mixed = store.as_retriever().with_fallbacks([other.as_retriever()])
    retriever = PhaseGraphRetriever(vector=mixed, fetch_k=9)
    assert ids_of(retriever.invoke("what?")) == ids_of(store.similarity_search("what?", k=9))
    assert retriever.explain("what?").reports[0].notes == ("rank only: it returns no scores",)


def test_a_bound_bm25_takes_the_limit_too():
    bm25 = BM25Retriever.from_documents(passages()).with_config(tags=["x"])
    assert len(PhaseGraphRetriever(retrievers={"bm25": bm25}).explain("p3").candidates.ids) == 9


@pytest.mark.parametrize("search", ["similarity", "similarity_score_threshold"])
async def test_a_store_that_refuses_more_hits_than_it_holds_is_asked_again(search):
    store = SKLearnVectorStore.from_documents(passages(), Fixed())
    with pytest.raises(ValueError, match="n_neighbors = 50, n_samples_fit = 9"):
        store.similarity_search_with_score("what?", k=50)
    given = store.as_retriever(search_type=search, search_kwargs={"score_threshold": 0.0} if "_" in search else {})
    retriever = PhaseGraphRetriever(vector=given, retrievers={"bm25": BM25Retriever.from_documents(passages())}, k=9)
    for result in (retriever.explain("what?"), await retriever.aexplain("what?")):
        vector = next(one for one in result.reports if one.source == "vector")
        assert (vector.status, vector.hits) == ("ok", 9)
        assert (
            "the source refused to return 50 hits (ValueError), so it was asked again for 9 hits: set fetch_k=9 to ask "
            "only once" in vector.notes
        )
        ranking = next(one for one in result.candidates.rankings if one.source == "vector")
        assert ranking.ids == tuple(one.metadata["id"] for one in store.similarity_search("what?", k=9))
    store.add_documents([Document(page_content="text of p10", id="p10")])
    assert next(one.hits for one in retriever.explain("what?").reports if one.source == "vector") == 10
    few = PhaseGraphRetriever(vector=SourceSpec(retriever=given, fetch_k=9))
    assert not any("refused" in note for note in few.explain("what?").reports[0].notes)


async def test_a_store_that_refuses_is_asked_within_a_filter_and_its_size_is_not_told():
    store = SKLearnVectorStore.from_documents(passages(), Fixed())
    retriever = PhaseGraphRetriever(vector=store, filter={"page": {"$gt": 5}}, k=9)
    for result in (retriever.explain("what?"), await retriever.aexplain("what?")):
        assert set(result.ids) == {"p6", "p7", "p8"}
        assert "9" not in str(result.reports[0].notes)

    def search(query, k, filter):  # noqa: A002
        if k > 9:
            raise ValueError(f"{k} of 9")
        return [one for one in passages() if one.metadata["page"] > 5]

    (report,) = PhaseGraphRetriever(vector=search, filter={"page": {"$gt": 5}}).explain("what?").reports
    assert (report.hits, "9" in str(report.notes)) == (3, False)
    assert "the source refused to return 50 hits (ValueError), so it was asked again for fewer hits" in report.notes


async def test_a_function_over_an_index_that_refuses_is_asked_again():
    from sklearn.neighbors import NearestNeighbors

    texts, points = [one.page_content for one in passages()], np.array(Fixed().embed_documents(ORDER))
    nearest = NearestNeighbors().fit(points)

    def search(query, k=4):
        distances, rows = nearest.kneighbors([Fixed().embed_query(query)], n_neighbors=k)
        return [(texts[row], float(one)) for row, one in zip(rows[0], distances[0], strict=True)]

    async def later(query, k=4):
        return search(query, k)

    for function in (search, later):
        spec = SourceSpec(retriever=function, fields=HitFields(higher_is_better=False))
        with pytest.warns(PhasegraphWarning, match="without an id"):
            result = await PhaseGraphRetriever(vector=spec).aexplain("what?")
        assert (result.reports[0].status, result.reports[0].hits) == ("ok", 9)
