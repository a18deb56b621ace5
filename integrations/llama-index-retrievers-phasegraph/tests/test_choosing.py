"""Acceptance and selection, through the retriever."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeWithScore, TextNode
from llamaindex_stores import listed

from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, HitFields, SourceSpec
from phasegraph import DegradedError, FusionPipeline, InvalidInputError, ListCalibrator, PhasegraphWarning
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.calibration import BackgroundCalibrator
from phasegraph.errors import InvalidTypeError
from phasegraph.selection import SelectionPolicy

TEXTS = ["red apple", "red apple pie", "green pear", "blue plum", "white fig", "black grape"]
HIGH, LOW = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.3, 0.25, 0.2, 0.15, 0.1, 0.05]
SCORES = {"fruit": HIGH, "nothing": LOW, "rewritten": HIGH}


def _vector(query: str) -> list[tuple[TextNode, float]]:
    return [(TextNode(id_=text, text=text), score) for text, score in zip(TEXTS, SCORES[query], strict=True)]


class Letters(BaseEmbedding):
    """Counts of letters: nearly equal texts have nearly equal vectors."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return [float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def _ids(retriever: CalibratedFusionRetriever, query: str = "fruit") -> list[str]:
    return [hit.node_id for hit in retriever.retrieve(query)]


def test_thresholds_by_source_decide_what_comes_back() -> None:
    retriever = CalibratedFusionRetriever(vector=_vector, accept={"vector": 0.65})
    assert _ids(retriever) == TEXTS[:3]
    assert _ids(retriever, "nothing") == []
    assert retriever.explain("nothing").reason == "all_rejected"


def test_a_selection_uses_the_framework_s_embeddings() -> None:
    vector: Any = listed(**dict(zip(TEXTS, HIGH, strict=True)))
    vector._embed_model = Letters()
    plain = CalibratedFusionRetriever(vector=vector, k=2)
    apart = CalibratedFusionRetriever(vector=vector, k=2, selection=SelectionPolicy(mu=5.0))
    assert _ids(plain) == TEXTS[:2]
    assert _ids(apart) != TEXTS[:2]


def test_a_selection_without_embeddings_says_what_it_needs() -> None:
    result = CalibratedFusionRetriever(vector=_vector, selection="mmr", k=2).explain("fruit")
    assert list(result.ids) == TEXTS[:2]
    assert "no source has an embedding model" in result.warnings[-1]
    with pytest.raises(DegradedError, match="no source has an embedding model"):
        CalibratedFusionRetriever(vector=_vector, selection="mmr", strict=True).calibrate(
            ["fruit", "nothing", "rewritten"] * 2, progress=False
        ).explain("fruit")


@pytest.mark.parametrize(
    ("fields", "error", "field"),
    [
        ({"accept": {"grph": 0.5}}, InvalidInputError, "accept"),
        ({"selection": "best"}, InvalidInputError, "method"),
        ({"embed_model": "minilm"}, InvalidTypeError, "unexpected argument 'embed_model'"),
        ({"correct": "again"}, InvalidTypeError, "unexpected argument 'correct'"),
    ],
)
def test_wrong_arguments_name_the_field_when_the_retriever_is_built(
    fields: dict[str, Any], error: type[Exception], field: str
) -> None:
    with pytest.raises(error, match=field):
        CalibratedFusionRetriever(vector=_vector, **fields)


def test_what_the_constructor_was_given_wins_over_a_file(tmp_path: Any) -> None:
    path = tmp_path / "pipeline.json"
    policy = AcceptancePolicy({"vector": 0.45})
    FusionPipeline(k=6, accept=policy, selection=SelectionPolicy("top"), weights={"vector": 2.0}).save(path)
    own: dict[str, Any] = {"accept": {"vector": 0.65}, "selection": "legacy_entropy", "k": 3, "weights": {"vector": 1}}
    fusion = CalibratedFusionRetriever(vector=_vector, **own).load(path).fitted_pipeline
    assert CalibratedFusionRetriever(vector=_vector, pipeline=path, k=3).fitted_pipeline.k == 3
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
        CalibratedFusionRetriever(vector=_vector, pipeline=pipeline)
    pipeline.save(tmp_path / "pipeline.json")
    with pytest.raises(InvalidInputError, match=f"{field}.*grph"):
        CalibratedFusionRetriever(vector=_vector).load(tmp_path / "pipeline.json")


def test_what_the_constructor_was_not_given_comes_from_the_file(tmp_path: Any) -> None:
    path = tmp_path / "pipeline.json"
    kept = FusionPipeline(k=6, accept=AcceptancePolicy({"vector": 0.45}), weights={"vector": 2.0})
    kept.save(path)
    retriever = CalibratedFusionRetriever(vector=_vector).load(path)
    assert retriever.fitted_pipeline == kept
    assert retriever.similarity_top_k == 6


def test_a_number_of_nodes_that_was_assigned_is_saved_and_wins_over_a_file(tmp_path: Any) -> None:
    path = tmp_path / "pipeline.json"
    retriever = CalibratedFusionRetriever(vector=_vector)
    retriever.similarity_top_k = 2
    retriever.save(path)
    assert FusionPipeline.load(path).k == 2
    FusionPipeline(k=5).save(path)
    assert len(_ids(retriever.load(path))) == 2


def test_a_source_that_failed_on_every_query_does_not_keep_the_others_from_being_fitted() -> None:
    def dead(query: str) -> Any:
        raise ConnectionError("gone")

    sources: dict[str, Any] = {"vector": _vector, "graph": dead}
    with pytest.warns(PhasegraphWarning, match="'graph': it returned nothing"):
        retriever = CalibratedFusionRetriever(**sources).calibrate(
            ["fruit", "nothing", "rewritten"] * 2, progress=False
        )
    assert list(retriever.fitted_pipeline.calibrators) == ["vector"]


def test_calibrating_for_a_rule_over_0_to_1_fits_percentiles() -> None:
    pipeline = FusionPipeline(rule="comb_sum", calibrator=ListCalibrator("min_max"))
    retriever = CalibratedFusionRetriever(vector=_vector, pipeline=pipeline)
    found = retriever.calibrate(["fruit", "nothing", "rewritten"] * 2, progress=False).explain("fruit")
    assert found.reports[0].calibration == "fitted"
    assert 0 <= found.calibrated.min() <= found.calibrated.max() <= 1


@pytest.mark.parametrize("way", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_a_retriever_survives_a_copy_and_a_trip_to_another_process(way: Any) -> None:
    retriever = CalibratedFusionRetriever(vector=_vector, weights={"vector": 2}, accept={"vector": 0.65}, k=2)
    assert _ids(way(retriever)) == _ids(retriever)


def test_a_threshold_on_distances_is_the_highest_distance() -> None:
    nodes = [
        TextNode(text=text, id_=text, metadata={"distance": row / 10}) for row, text in enumerate("abcde", start=1)
    ]
    spec = SourceSpec(
        retriever=lambda query: [NodeWithScore(node=node) for node in nodes],
        fields=HitFields(score="distance", higher_is_better=False),
    )
    retriever = CalibratedFusionRetriever(vector=spec, accept={"vector": 0.35})
    assert [hit.node_id for hit in retriever.retrieve("Which?")] == ["a", "b", "c"]
    assert "its threshold is a distance: accepted at most 0.35" in retriever.explain("Which?").reports[0].notes


@pytest.mark.parametrize("k", [2, 4, 6, 9])
def test_a_selection_by_its_bare_name_returns_no_copy_while_others_are_at_hand(k: int) -> None:
    nodes = [TextNode(text="red apple", id_=f"copy{row}") for row in range(4)]
    index = VectorStoreIndex([*nodes, *(TextNode(text=text, id_=text) for text in TEXTS[1:])], embed_model=Letters())
    plain = CalibratedFusionRetriever(vector=index, k=4).retrieve("red apple")
    assert {hit.text for hit in plain} == {"red apple"}
    found = CalibratedFusionRetriever(vector=index, k=k, selection="log_det").retrieve("red apple")
    assert len(found) == k
    assert sum(hit.text == "red apple" for hit in found) == max(1, k - 5)
