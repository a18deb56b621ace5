"""Parts of a pipeline beside each other: priors, exact matches, a re-scorer, and what is fitted."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from phasegraph import (
    Background,
    Context,
    DegradedError,
    ExactMatchBonus,
    FusionPipeline,
    InvalidInputError,
    PhasegraphWarning,
    Ranking,
    RecencyPrior,
    UnitPrior,
)
from phasegraph.acceptance import AcceptancePolicy, Threshold
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
    with pytest.raises(DegradedError, match="re-scorer"):
        calibrated_pipeline(rankings, pipeline=FusionPipeline(rescorer=Rescorer.from_dict(TREE), strict=True))
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


def test_strict_raises_where_a_re_scorer_is_left_out_of_an_answer() -> None:
    tree = Rescorer.from_dict(TREE)
    given = [Ranking("elsewhere", ["x", "y"], [0.9, 0.3], background=Background(0.0, 1.0, "identity"))]
    pipeline = FusionPipeline(rescorer=tree)
    assert "re-scorer is left out of this answer" in pipeline.decide(given).warnings[-1]
    with pytest.raises(DegradedError, match="re-scorer is left out of this answer"):
        replace(pipeline, strict=True).decide(given)


def test_the_certificate_of_a_final_threshold_knows_that_exact_matches_joined() -> None:
    promised = Threshold(0.1, promise="At most a fifth is wrong.", sources=("lexical", "vector"))
    texts = {"p": {"text": "zebra"}, "q": {"text": "horse"}}
    given = [Ranking("vector", ["p", "q"], [0.9, 0.3]), Ranking("lexical", ["q", "p"], [9.0, 2.0])]
    pipeline = FusionPipeline(accept=AcceptancePolicy(final=promised), priors=(ExactMatchBonus(),))
    (joined,), (apart,) = (
        pipeline.decide(given, Context(query, attributes=texts)).extras["acceptance"].certificates  # type: ignore[attr-defined]
        for query in ("zebra", "unicorn")
    )
    assert (joined.valid, joined.reason) == (False, "fitted without exact_match, which answered")
    assert (apart.valid, apart.reason) == (True, "")


def test_a_ranking_named_as_the_exact_matches_is_refused_where_there_are_none() -> None:
    with pytest.raises(InvalidInputError, match="a ranking named 'exact_match' is ExactMatchBonus's"):
        FusionPipeline().decide([Ranking("exact_match", ["x"], [1.0])])
