"""Acceptance and selection, through the retriever."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_phasegraph import HitFields, PhaseGraphRetriever, SourceSpec
from phasegraph import FusionPipeline, InvalidInputError, ListCalibrator, PhasegraphWarning
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


def test_a_selection_uses_the_embedding_model_of_a_vector_store() -> None:
    plain = PhaseGraphRetriever(vector=VECTOR, k=2)
    sources = {"vector": VECTOR, "store": InMemoryVectorStore(Letters())}
    apart = PhaseGraphRetriever(
        retrievers=sources, weights={"vector": 1, "store": 0}, k=2, selection=SelectionPolicy(mu=5.0)
    )
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


def test_what_the_constructor_was_given_wins_over_a_file_that_is_loaded(tmp_path: Any) -> None:
    path = tmp_path / "pipeline.json"
    policy = AcceptancePolicy({"vector": 0.45})
    FusionPipeline(k=6, accept=policy, selection=SelectionPolicy("top"), weights={"vector": 2.0}).save(path)
    own: dict[str, Any] = {"accept": {"vector": 0.65}, "selection": "legacy_entropy", "k": 3, "weights": {"vector": 1}}
    fusion = PhaseGraphRetriever(vector=VECTOR, **own).load(path).fitted_pipeline
    assert fusion.accept == AcceptancePolicy({"vector": 0.65})
    assert fusion.selection == SelectionPolicy("legacy_entropy")
    assert (fusion.k, dict(fusion.weights or {})) == (3, {"vector": 1.0})


@pytest.mark.parametrize("own", [{"weights": {"vector": 1}}, {"accept": {"vector": 0.5}}, {"selection": "top"}])
def test_what_is_said_beside_a_pipeline_which_has_it_itself_is_an_error_that_names_both(own: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=f"{next(iter(own))}= and pipeline= both"):
        PhaseGraphRetriever(vector=VECTOR, pipeline=FusionPipeline(), **own)
    with pytest.raises(InvalidInputError, match=r"SourceSpec\.weight and pipeline= both"):
        PhaseGraphRetriever(vector=SourceSpec(retriever=VECTOR, weight=2), pipeline=FusionPipeline())


def test_a_pipeline_that_is_no_file_says_what_there_is_instead() -> None:
    with pytest.raises(
        InvalidInputError, match=r"there is no file 'rrf' \(for RRF: FusionPipeline.reciprocal_rank\(\)\)"
    ):
        PhaseGraphRetriever(vector=VECTOR, pipeline="rrf")


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
    assert retriever.fitted_pipeline == kept


def test_a_source_that_failed_on_every_query_does_not_keep_the_others_from_being_fitted() -> None:
    def dead(query: str) -> Any:
        raise ConnectionError("gone")

    sources: dict[str, Any] = {"vector": VECTOR, "graph": dead}
    with pytest.warns(PhasegraphWarning, match="'graph': it returned nothing"):
        retriever = PhaseGraphRetriever(**sources).calibrate(["fruit", "nothing", "rewritten"] * 2, progress=False)
    assert list(retriever.fitted_pipeline.calibrators) == ["vector"]


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


def test_a_threshold_on_a_distance_store_is_the_highest_distance() -> None:
    documents = [Document("", id=text, metadata={"distance": place / 10}) for place, text in enumerate(TEXTS, start=1)]
    fields = HitFields(score="distance", higher_is_better=False)
    spec = SourceSpec(retriever=lambda query: documents, fields=fields)
    retriever = PhaseGraphRetriever(vector=spec, accept={"vector": 0.35})
    assert [one.id for one in retriever.invoke("fruit")] == TEXTS[:3]
    assert "its threshold is a distance: accepted at most 0.35" in retriever.explain("fruit").reports[0].notes


@pytest.mark.parametrize("k", [2, 4, 6, 9])
def test_a_selection_by_its_bare_name_returns_no_copy_while_others_are_at_hand(k: int) -> None:
    documents = [Document("red apple", id=f"copy{row}") for row in range(4)]
    documents += [Document(text, id=text) for text in TEXTS[1:]]
    store = InMemoryVectorStore.from_documents(documents, Letters())
    plain = PhaseGraphRetriever(vector=store, k=4).invoke("red apple")
    assert {one.page_content for one in plain} == {"red apple"}
    found = PhaseGraphRetriever(vector=store, k=k, selection="log_det").invoke("red apple")
    assert len(found) == k
    assert sum(one.page_content == "red apple" for one in found) == max(1, k - 5)


def test_the_document_s_worked_example_through_a_retriever() -> None:
    scores = [0.45, 0.425, 0.4, 0.05]

    def search(query: str) -> list[tuple[Document, float]]:
        return [(Document(str(row), id=str(row)), score) for row, score in enumerate(scores)]

    legacy = SelectionPolicy("legacy_entropy", penalty=1.5)
    found = PhaseGraphRetriever(vector=search, k=3, selection=legacy, metadata_key="why").invoke("?")
    assert [one.id for one in found] == ["0", "3", "1"]
    assert found[0].metadata["why"]["set_entropy"] == 0.0
    assert found[1].metadata["why"]["set_entropy"] == pytest.approx(0.325083, abs=1e-6)
