"""Values travel: to a worker process by pickle, to another owner by a copy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from phasegraph import Background, FusionPipeline, ListCalibrator, Ranking, Result, fit_reference_ecdf
from phasegraph.acceptance import AcceptancePolicy, Threshold
from phasegraph.selection import SelectionPolicy

VECTOR = Ranking("vector", ["a", "b", "c"], [0.9, 0.5, 0.5], payloads={"a": {"text": "A"}})
GRAPH = Ranking("graph", ["c", "d"], [0.3, 0.1], background=Background(-9.0, 0.6, "log", 1e-4), size=100)
PIPELINE = FusionPipeline(
    pool_caps={"vector": 20},
    calibrators={"vector": fit_reference_ecdf(np.arange(40.0), normal_scores=True), "x": ListCalibrator("min_max")},
    weights={"vector": 2.0, "graph": 1.0},
    accept=AcceptancePolicy({"vector": Threshold(0.1, statistics={"recall": 0.5})}),
    selection=SelectionPolicy("top"),
)
WAYS = [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy, copy.copy]  # noqa: S301


@pytest.mark.parametrize("way", WAYS)
def test_pipelines_rankings_and_results_survive_pickle_and_copies(way: Callable[[Result], Result]) -> None:
    result = PIPELINE.decide([VECTOR, GRAPH])
    found = way(result)
    again = way(PIPELINE).decide([way(VECTOR), way(GRAPH)])  # type: ignore[arg-type, attr-defined]
    for other in (found, again):
        assert other.ids == result.ids
        assert other.fused.tobytes() == result.fused.tobytes()
        assert other.evidence("a") == result.evidence("a")
        assert not other.scores.flags.writeable
    assert way(PIPELINE).to_dict() == PIPELINE.to_dict()  # type: ignore[arg-type, attr-defined]


def test_equal_pipelines_have_equal_hashes() -> None:
    one, other = (FusionPipeline(calibrator=ListCalibrator("raw"), weights={"a": 1}) for _ in range(2))
    assert one == other
    assert len({one, other, FusionPipeline(k=3)}) == 2


@pytest.mark.parametrize("pipeline", [PIPELINE, FusionPipeline(), FusionPipeline.paper()])
def test_a_result_replays_to_the_bit_without_its_sources(pipeline: FusionPipeline) -> None:
    first = pipeline.decide([VECTOR, GRAPH])
    again = pipeline.decide(first.candidates.rankings, reports=first.reports)
    assert (again.ids, again.reports, again.agreement) == (first.ids, first.reports, first.agreement)
    for name in ("scores", "fused", "contributions", "calibrated", "weights"):
        assert getattr(again, name).tobytes() == getattr(first, name).tobytes()
