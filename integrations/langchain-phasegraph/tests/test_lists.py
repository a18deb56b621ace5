"""Lists that are already there."""

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableParallel
from langchain_stores import ids_of, listed, pairs

from langchain_phasegraph import HitFields, PhaseGraphRetriever, fuse_lists
from phasegraph import DegradedError, FusionPipeline, ListCalibrator

LISTS = {"vector": pairs(a=3.0, b=2.0, c=1.0, d=0.5, e=0.2), "bm25": pairs(c=9.0, a=8.0, f=7.0, g=6.0, h=5.0)}


async def test_lists_are_fused_as_the_retriever_fuses_them():
    retriever = PhaseGraphRetriever(retrievers={name: (lambda q, own=own: own) for name, own in LISTS.items()}, k=4)
    fused = fuse_lists(k=4)
    assert fused.invoke(LISTS) == retriever.invoke("q") == await fused.ainvoke(LISTS)


async def test_it_stands_at_the_end_of_a_chain():
    chain = RunnableParallel(vector=listed("a", "b"), bm25=listed("b", "c")) | fuse_lists(k=2)
    assert ids_of(chain.invoke("q")) == ids_of(await chain.ainvoke("q"))
    assert ids_of(chain.invoke("q"))[0] == "b"


def test_weights_fields_and_pipelines_are_used():
    lists = {"x": [Document("", id="a", metadata={"d": 2.0}), Document("", id="b", metadata={"d": 1.0})], "y": []}
    fields = HitFields(score="d", higher_is_better=False)
    one = fuse_lists(fields={"x": fields}, pipeline=FusionPipeline.reciprocal_rank())
    assert ids_of(one.invoke(lists)) == ["b", "a"]
    heavy = fuse_lists(weights={"vector": 0, "bm25": 1})
    assert ids_of(heavy.invoke(LISTS)) == list("cafgh")
    with pytest.raises(ValueError, match="weights"):
        fuse_lists(weights={"vector": 1}).invoke(LISTS)


def test_the_callers_documents_are_left_alone_and_evidence_comes_on_request():
    assert all(document.metadata == {} for document in fuse_lists().invoke(LISTS))
    rich = fuse_lists(score_key="score", metadata_key="phasegraph").invoke(LISTS)
    assert all(document.metadata["phasegraph"]["score"] == document.metadata["score"] for document in rich)
    assert all(document.metadata == {} for hits in LISTS.values() for document, _ in hits)


def test_empty_lists_give_an_empty_list():
    assert fuse_lists().invoke({"a": [], "b": []}) == []


def test_a_list_whose_scores_are_all_nan_degrades_the_answer():
    strict = FusionPipeline(strict=True, calibrator=ListCalibrator("min_max"))
    with pytest.raises(DegradedError, match=r"bm25: partial \(none of its 2 hits had a usable score"):
        fuse_lists(pipeline=strict).invoke({**LISTS, "bm25": pairs(c=float("nan"), a=float("nan"))})


def test_the_pipelines_own_k_is_kept_and_the_whole_answer_can_be_had():
    fused = fuse_lists(pipeline=FusionPipeline(k=2))
    assert len(fused.invoke(LISTS)) == len(fused.explain(LISTS).ids) == 2
    assert len(fuse_lists(pipeline=FusionPipeline(k=2), k=3).invoke(LISTS)) == 3
    texts = {name: [(Document(f"text of {name}", id="a"), 2.0)] for name in ("one", "two")}
    assert "id 'a' has another text in two than in one" in fused.explain(texts).warnings[-1]
