"""Acceptance, selection and correction, through the retriever."""

from __future__ import annotations

import asyncio
import copy
import pickle
import time
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from langchain_phasegraph import PhaseGraphRetriever
from phasegraph import FusionPipeline, InvalidInputError, ListCalibrator, PhasegraphWarning, Result
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.calibration import BackgroundCalibrator
from phasegraph.errors import InvalidTypeError
from phasegraph.selection import SelectionPolicy

TEXTS = ["red apple", "red apple pie", "green pear", "blue plum", "white fig", "black grape"]


def _source(scores: dict[str, list[float]]) -> Any:
    def search(query: str) -> list[tuple[Document, float]]:
        return [(Document(text, id=text), score) for text, score in zip(TEXTS, scores[query], strict=True)]

    return search


HIGH, LOW = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.3, 0.25, 0.2, 0.15, 0.1, 0.05]
VECTOR = _source({"fruit": HIGH, "nothing": LOW, "rewritten": HIGH})


class Letters(Embeddings):
    """Counts of letters: nearly equal texts have nearly equal vectors."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def test_thresholds_by_source_decide_what_comes_back() -> None:
    retriever = PhaseGraphRetriever(vector=VECTOR, accept={"vector": 0.65})
    assert [one.id for one in retriever.invoke("fruit")] == TEXTS[:3]
    assert retriever.invoke("nothing") == []
    assert retriever.explain("nothing").reason == "all_rejected"


async def test_everything_rejected_may_be_asked_once_more() -> None:
    asked: list[str] = []

    def correct(result: Result) -> str:
        asked.append(result.reason)
        return "rewritten"

    async def later(result: Result) -> str:
        return correct(result)

    retriever = PhaseGraphRetriever(vector=VECTOR, accept={"vector": 0.65}, correct=correct)
    assert [one.id for one in retriever.invoke("nothing")] == TEXTS[:3]
    assert [one.id for one in retriever.invoke("fruit")] == TEXTS[:3]
    slow = PhaseGraphRetriever(vector=VECTOR, accept={"vector": 0.65}, correct=later)
    assert [one.id for one in await slow.ainvoke("nothing")] == TEXTS[:3]
    assert asked == ["all_rejected", "all_rejected"]


def test_correction_is_asked_once_and_not_again() -> None:
    retriever = PhaseGraphRetriever(vector=VECTOR, accept={"vector": 0.65}, correct=lambda result: "nothing")
    assert retriever.invoke("nothing") == []


def test_a_selection_uses_the_framework_s_embeddings() -> None:
    plain = PhaseGraphRetriever(vector=VECTOR, k=2)
    apart = PhaseGraphRetriever(vector=VECTOR, k=2, selection=SelectionPolicy(mu=5.0), embeddings=Letters())
    assert [one.id for one in plain.invoke("fruit")] == TEXTS[:2]
    assert [one.id for one in apart.invoke("fruit")] != TEXTS[:2]
    assert PhaseGraphRetriever(vector=VECTOR, k=2, selection="top").invoke("fruit")[0].id == TEXTS[0]


def test_a_selection_without_embeddings_says_what_it_needs() -> None:
    with pytest.raises(InvalidInputError, match="embedding"):
        PhaseGraphRetriever(vector=VECTOR, selection="mmr").invoke("fruit")


@pytest.mark.parametrize(
    ("fields", "error", "field"),
    [
        ({"accept": {"grph": 0.5}}, InvalidInputError, "accept"),
        ({"accept": {"vector": float("nan")}}, InvalidInputError, "(?i)threshold"),
        ({"accept": 0.5}, InvalidTypeError, "accept"),
        ({"selection": "best"}, InvalidInputError, "method"),
        ({"selection": 3}, InvalidTypeError, "selection"),
    ],
)
def test_wrong_arguments_name_the_field_when_the_retriever_is_built(
    fields: dict[str, Any], error: type[Exception], field: str
) -> None:
    with pytest.raises(error, match=field):
        PhaseGraphRetriever(vector=VECTOR, **fields)


def test_the_stages_are_kept_with_the_pipeline(tmp_path: Any) -> None:
    path = tmp_path / "pipeline.json"
    PhaseGraphRetriever(vector=VECTOR, accept=AcceptancePolicy({"vector": 0.65}), k=4).save(path)
    again = PhaseGraphRetriever(vector=VECTOR, pipeline=path)
    assert [one.id for one in again.invoke("fruit")] == TEXTS[:3]


@pytest.mark.parametrize("given", ["to the constructor", "as pipeline"])
def test_what_the_constructor_was_given_wins_over_a_file(tmp_path: Any, given: str) -> None:
    path = tmp_path / "pipeline.json"
    policy = AcceptancePolicy({"vector": 0.45})
    FusionPipeline(k=6, accept=policy, selection=SelectionPolicy("top"), weights={"vector": 2.0}).save(path)
    own: dict[str, Any] = {"accept": {"vector": 0.65}, "selection": "legacy_entropy", "k": 3, "weights": {"vector": 1}}
    if given == "as pipeline":
        fusion = PhaseGraphRetriever(vector=VECTOR, pipeline=path, **own).fusion
    else:
        fusion = PhaseGraphRetriever(vector=VECTOR, **own).load(path).fusion
    assert fusion.accept == AcceptancePolicy({"vector": 0.65})
    assert fusion.selection == SelectionPolicy("legacy_entropy")
    assert (fusion.k, dict(fusion.weights or {})) == (3, {"vector": 1.0})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("accept", AcceptancePolicy({"grph": 0.5})),
        ("calibrators", {"grph": BackgroundCalibrator()}),
        ("pool_caps", {"grph": 5}),
    ],
)
def test_a_pipeline_that_names_a_source_which_is_not_there_is_refused(tmp_path: Any, field: str, value: object) -> None:
    pipeline = FusionPipeline(**{field: value})  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=f"{field}.*grph"):
        PhaseGraphRetriever(vector=VECTOR, pipeline=pipeline)
    pipeline.save(tmp_path / "pipeline.json")
    with pytest.raises(InvalidInputError, match=f"{field}.*grph"):
        PhaseGraphRetriever(vector=VECTOR).load(tmp_path / "pipeline.json")


def test_what_the_constructor_was_not_given_comes_from_the_file(tmp_path: Any) -> None:
    path = tmp_path / "pipeline.json"
    kept = FusionPipeline(k=6, accept=AcceptancePolicy({"vector": 0.45}), weights={"vector": 2.0})
    kept.save(path)
    retriever = PhaseGraphRetriever(vector=VECTOR).load(path)
    assert retriever.fusion == kept
    assert retriever.k == 6


async def _coroutine(result: Result) -> str:
    return "rewritten"


def _raises(result: Result) -> str:
    raise ConnectionError("no model")


@pytest.mark.parametrize(
    ("correct", "why"),
    [
        (_raises, "correct raised ConnectionError"),
        (lambda result: " ", "correct returned a blank query"),
        (lambda result: 5, "correct must return a query or None; it returned int"),
        (_coroutine, "correct returned a coroutine"),
        (lambda result: "a query that no source knows", "correct gave a query that no source answered"),
    ],
)
def test_a_correction_of_no_use_keeps_the_first_result_and_says_why(correct: Any, why: str) -> None:
    retriever = PhaseGraphRetriever(vector=VECTOR, accept={"vector": 0.65}, correct=correct)
    result = retriever.explain("nothing")
    assert result.reason == "all_rejected"
    assert result.warnings[-1] == result.warnings[-1].strip()
    assert why in result.warnings[-1]


async def test_a_correction_shares_the_deadline_of_its_call() -> None:
    def slow(query: str) -> Any:
        time.sleep(0.25 if query == "nothing" else 30)
        return VECTOR(query)

    async def never(result: Result) -> str:
        await asyncio.sleep(30)
        return "rewritten"

    for correct, why in ((lambda result: "rewritten", "no source answered"), (never, "left no time")):
        retriever = PhaseGraphRetriever(vector=slow, accept={"vector": 0.65}, correct=correct, timeout=0.5)
        begun = time.monotonic()
        result = await retriever.aexplain("nothing")
        assert time.monotonic() - begun < 0.75
        assert why in result.warnings[-1]


def test_a_source_that_failed_on_every_query_does_not_keep_the_others_from_being_fitted() -> None:
    def dead(query: str) -> Any:
        raise ConnectionError("gone")

    sources: dict[str, Any] = {"vector": VECTOR, "graph": dead}
    with pytest.warns(PhasegraphWarning, match="'graph': it returned nothing"):
        retriever = PhaseGraphRetriever(**sources).calibrate(["fruit", "nothing", "rewritten"] * 2, progress=False)
    assert list(retriever.fusion.calibrators) == ["vector"]


def test_calibrating_for_a_rule_over_0_to_1_fits_percentiles() -> None:
    pipeline = FusionPipeline(rule="comb_sum", calibrator=ListCalibrator("min_max"))
    retriever = PhaseGraphRetriever(vector=VECTOR, pipeline=pipeline)
    found = retriever.calibrate(["fruit", "nothing", "rewritten"] * 2, progress=False).explain("fruit")
    assert found.reports[0].calibration == "fitted"
    assert 0 <= found.calibrated.min() <= found.calibrated.max() <= 1


@pytest.mark.parametrize("way", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_a_retriever_survives_a_copy_and_a_trip_to_another_process(way: Any) -> None:
    retriever = PhaseGraphRetriever(vector=by_name, weights={"vector": 2}, accept={"vector": 0.65}, k=2)
    assert way(retriever).invoke("fruit") == retriever.invoke("fruit")


def by_name(query: str) -> list[tuple[Document, float]]:
    return list(VECTOR(query))
