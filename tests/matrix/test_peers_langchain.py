"""What LangChain's own retrievers get wrong, shown on them and not found here; a fix of theirs is seen here first."""

import json
import math

import numpy as np
import pytest
from langchain_classic.retrievers import EnsembleRetriever, MergerRetriever
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from matrix_langchain import bm25, faiss, in_memory, qdrant
from matrix_ours import ids, spec

from langchain_phasegraph import PhaseGraphRetriever
from phasegraph import InvalidInputError, PhasegraphWarning


def leg(*names, text="text of {}"):
    """A retriever that returns these, best first."""
    return RunnableLambda(lambda query: [Document(text.format(name), id=name) for name in names])


def ours(**legs):
    return PhaseGraphRetriever(retrievers=legs, timeout=None, score_key="score")


def test_the_fused_score_is_there():
    legs = {"one": leg("a", "b"), "other": leg("b", "c")}
    theirs = EnsembleRetriever(retrievers=list(legs.values())).invoke("q")
    assert all(not found.metadata for found in theirs), "it is computed and dropped"
    found = ours(**legs).invoke("q")
    assert [one.metadata["score"] for one in found] == sorted((one.metadata["score"] for one in found), reverse=True)


def test_the_id_says_which_passage_it_is_and_not_the_text():
    changed = {"one": leg("a"), "other": leg("a", text="text of {}, edited")}
    assert len(EnsembleRetriever(retrievers=list(changed.values())).invoke("q")) == 2, "one passage counts as two"
    found = ours(**changed).explain("q")
    assert found.ids == ("a",)
    assert "has different texts" in found.warnings[-1]
    equal = {"one": leg("a", text="the same"), "other": leg("b", text="the same")}
    assert len(EnsembleRetriever(retrievers=list(equal.values())).invoke("q")) == 1, "two passages count as one"
    with pytest.warns(PhasegraphWarning, match="return the same text under two ids"):
        assert set(ids(ours(**equal).invoke("q"))) == {"a", "b"}


def test_a_passage_that_one_list_repeats_counts_once():
    legs = {"one": leg("a", "b", "b", "b"), "other": leg("a", "c", "d", "e")}
    twice = EnsembleRetriever(retrievers=[leg("a", "b", "b", "b")]).invoke("q")
    assert ids(twice)[0] == "b", "repeating oneself wins"
    assert ids(ours(**legs).invoke("q"))[0] == "a"
    assert ids(ours(one=legs["one"]).invoke("q")) == ["a", "b"]


def test_k_is_heeded():
    legs = {"one": leg("a", "b", "c")}
    assert len(EnsembleRetriever(retrievers=list(legs.values())).invoke("q", k=1)) == 3
    assert len(ours(**legs).invoke("q", k=1)) == 1


@pytest.mark.parametrize("weights", [[1.0, -0.5], [1.0, math.nan]])
def test_weights_must_be_weights(weights):
    legs = {"one": leg("a"), "other": leg("b")}
    assert EnsembleRetriever(retrievers=list(legs.values()), weights=weights).invoke("q")
    with pytest.raises(InvalidInputError, match="weights"):
        PhaseGraphRetriever(retrievers=legs, weights=dict(zip(legs, weights, strict=True)))


def test_one_source_that_fails_does_not_take_the_others_with_it():
    def broken(query):
        raise OSError("down")

    legs = {"one": RunnableLambda(broken), "other": leg("b")}
    with pytest.raises(OSError, match="down"):
        EnsembleRetriever(retrievers=list(legs.values())).invoke("q")
    result = ours(**legs).explain("q")
    assert (result.ids, result.degraded) == (("b",), True)


def test_what_two_find_comes_once(data):
    store = in_memory(data, None).given
    legs = [store.as_retriever(), store.as_retriever()]
    assert len(ids(MergerRetriever(retrievers=legs).invoke(data.questions[0]))) == 8, "every passage twice"
    found = ids(ours(one=legs[0], other=legs[1]).invoke(data.questions[0]))
    assert len(found) == len(set(found)) == 10


@pytest.mark.parametrize("opened", [faiss("MAX_INNER_PRODUCT"), qdrant("Dot")], ids=["FAISS", "Qdrant"])
def test_relevance_functions_turn_inner_products_round_and_are_not_asked(data, opened):
    store = opened(data, None)
    best = store.own(data.questions[0], 1)[0]
    relevance = store.relevance(data.questions[0])
    assert relevance[0] < max(relevance), "the best passage is not the most relevant one"
    settings = {"k": 10, "score_threshold": 0.5}
    threshold = store.given.as_retriever(search_type="similarity_score_threshold", search_kwargs=settings)
    theirs = [found.id or found.metadata["_id"] for found in threshold.invoke(data.questions[0])]
    assert best[0] not in theirs, "a threshold keeps out the best"
    vector = PhaseGraphRetriever(vector=store.given, accept={"vector": 0.5}, timeout=None)
    assert ids(vector.invoke(data.questions[0]))[0] == best[0]
    store.close()


def test_a_store_in_memory_has_no_relevance_and_needs_none(data):
    store = in_memory(data, None).given
    with pytest.raises(NotImplementedError):
        store.similarity_search_with_relevance_scores(data.questions[0])
    assert PhaseGraphRetriever(vector=store, accept={"vector": 0.5}, timeout=None).invoke(data.questions[0])


def test_the_stores_own_retriever_drops_the_scores(data):
    store = in_memory(data, None)
    assert not any("score" in one.metadata for one in store.given.as_retriever().invoke(data.questions[0]))
    (ranking,) = PhaseGraphRetriever(vector=store.given).explain(data.questions[0]).candidates.rankings
    assert dict(zip(ranking.ids, ranking.scores.tolist(), strict=True)) == dict(store.own(data.questions[0], 50))


@pytest.mark.parametrize("opened", [faiss("EUCLIDEAN_DISTANCE"), bm25], ids=["FAISS", "BM25"])
def test_what_is_written_into_a_hit_stays_out_of_the_store(data, opened):
    store, question = opened(data, None).given, data.questions[0]
    plain = store if hasattr(store, "invoke") else store.as_retriever()
    retriever = PhaseGraphRetriever(vector=store, timeout=None)
    for found in retriever.invoke(question):
        found.metadata["note"] = "mine"
        found.metadata.pop("title")
    later = plain.invoke(question)
    assert not any({"note", "score", "phasegraph"} & set(one.metadata) for one in later)
    later[0].metadata["note"] = "leaked"
    assert plain.invoke(question)[0].metadata["note"] == "leaked", "the store hands out its own objects"


def test_scores_are_numbers_that_can_be_written_down(data):
    store = faiss("EUCLIDEAN_DISTANCE")(data, None).given
    ((document, score), *_) = store.similarity_search_with_score(data.questions[0])
    assert isinstance(score, np.float32)
    document = document.model_copy(deep=True, update={"metadata": {"score": score}})
    with pytest.raises(Exception, match="Unable to serialize"):
        document.model_dump_json()
    for found in PhaseGraphRetriever(vector=store, timeout=None, score_key="score").invoke(data.questions[0]):
        assert type(json.loads(found.model_dump_json())["metadata"]["score"]) is float


def test_a_direction_of_ones_own_that_is_wrong_is_not_taken_in_silence():
    hits = [(Document(name, id=name), score) for name, score in (("a", 0.1), ("b", 0.5), ("c", 0.9))]
    wrong = PhaseGraphRetriever(vector=spec("LangChain", lambda query: hits, higher_is_better=True))
    with pytest.warns(PhasegraphWarning, match="says the opposite"):
        assert ids(wrong.invoke("q")) == ["c", "b", "a"]
    assert ids(PhaseGraphRetriever(vector=lambda query: hits).invoke("q")) == ["a", "b", "c"]
