"""Parts of a pipeline beside each other: priors, exact matches, a re-scorer, and what is fitted."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from phasegraph import (
    Context,
    ExactMatchBonus,
    FusionPipeline,
    InvalidInputError,
    PhasegraphWarning,
    Ranking,
    RecencyPrior,
    UnitPrior,
)
from phasegraph.calibration import ListCalibrator
from phasegraph.evaluation.datasets import Dataset, Judgement, Passage, Query
from phasegraph.evaluation.experiment import pipeline_system
from phasegraph.pipeline import fit_confidence
from phasegraph.rescoring import Rescorer
from phasegraph.tuning import calibrated_pipeline

VECTOR = Ranking("vector", ["x", "y"], [-2.0, -3.0], payloads={"x": {"text": "zebra"}, "y": {"text": "other"}})
LEXICAL = Ranking("lexical", ["q"], [5.0], payloads={"q": {"text": "zebra"}})
TREE = {"sources": ["v"], "roots": [0], "feature": [0], "threshold": [0.0], "left": [0], "right": [0], "value": [1.0]}


def lists(count: int = 25) -> list[tuple[str, list[Ranking]]]:
    return [(f"q{row}", [Ranking("vector", ["x", "y"], [0.5 + row / 100, 0.3])]) for row in range(count)]


def test_confidence_is_fitted_under_priors_that_need_the_time() -> None:
    aged = FusionPipeline(priors=(RecencyPrior(half_life=1e7),), consensus_bonus=0.5)
    assert fit_confidence(lists(), aged) == fit_confidence(lists(), FusionPipeline())


def test_a_source_that_cannot_be_calibrated_has_no_exact_match() -> None:
    pipeline = replace(FusionPipeline.convex(), priors=(ExactMatchBonus(),))
    both, without = (pipeline.decide(given, Context("zebra")) for given in ([VECTOR, LEXICAL], [LEXICAL]))
    assert both.ids == without.ids == ("q",)
    assert both.fused.tobytes() == without.fused.tobytes()
    own = {"vector": ListCalibrator("theoretical_min_max", {"infimum": 0.0})}
    alone = FusionPipeline(calibrators=own, priors=(ExactMatchBonus(),)).decide([VECTOR], Context("zebra"))
    assert (alone.ids, alone.degraded) == ((), True)


def test_a_re_scorer_and_exact_matches_are_refused_together() -> None:
    with pytest.raises(InvalidInputError, match="rescorer and ExactMatchBonus cannot be used together"):
        FusionPipeline(rescorer=Rescorer.from_dict(TREE), priors=(ExactMatchBonus(),))


def test_calibrating_leaves_a_re_scorer_out_and_says_so() -> None:
    rankings = {"v": [Ranking("v", ["x", "y"], [0.5 + row / 100, 0.3]) for row in range(25)]}
    with pytest.warns(PhasegraphWarning, match="re-scorer was fitted on the calibration it had"):
        found = calibrated_pipeline(rankings, pipeline=FusionPipeline(rescorer=Rescorer.from_dict(TREE)))
    assert found.rescorer is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrated_pipeline(rankings, pipeline=FusionPipeline())


def test_priors_of_an_evaluated_pipeline_read_the_fields_of_the_corpus() -> None:
    passages = (
        Passage("a", "", "one", {"importance": 0.1, "timestamp": "2020-01-01"}),
        Passage("b", "", "two", {"importance": 1.0, "timestamp": "2026-01-01"}),
    )
    query = Query("q", "which?", Judgement("q", (("b",),)))
    data = Dataset("tiny", passages, (query,), np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32)[:1])
    batch = {"vector": [Ranking("vector", ["a", "b"], [0.61, 0.6])]}
    plain = FusionPipeline.reciprocal_rank()
    assert pipeline_system("plain", plain, ["vector"]).answer(data, batch, 2) == [("a", "b")]
    for prior in (UnitPrior("importance", 1.0), RecencyPrior(half_life=1e7)):
        system = pipeline_system("with a prior", replace(plain, priors=(prior,)), ["vector"])
        assert system.answer(data, batch, 2) == [("b", "a")]
