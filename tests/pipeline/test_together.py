"""Parts of a pipeline beside each other: priors, exact matches, and what is fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from phasegraph import (
    Context,
    ExactMatchBonus,
    FusionPipeline,
    InvalidInputError,
    Ranking,
    RecencyPrior,
    UnitPrior,
)
from phasegraph.acceptance import AcceptancePolicy, Threshold
from phasegraph.calibration import ListCalibrator
from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.query_files import Query
from phasegraph.evaluation.systems import pipeline_system
from phasegraph.fusion.fitting import fit_confidence

VECTOR = Ranking("vector", ["x", "y"], [-2.0, -3.0], payloads={"x": {"text": "zebra"}, "y": {"text": "other"}})
LEXICAL = Ranking("bm25", ["q"], [5.0], payloads={"q": {"text": "zebra"}})


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


def test_the_certificate_of_a_final_threshold_knows_that_exact_matches_joined() -> None:
    promised = Threshold(0.1, promise="At most a fifth is wrong.", sources=("bm25", "vector"))
    texts = {"p": {"text": "zebra"}, "q": {"text": "horse"}}
    given = [Ranking("vector", ["p", "q"], [0.9, 0.3]), Ranking("bm25", ["q", "p"], [9.0, 2.0])]
    pipeline = FusionPipeline(accept=AcceptancePolicy(final=promised), priors=(ExactMatchBonus(),))
    (joined,), (apart,) = (
        pipeline.decide(given, Context(query, attributes=texts)).extras["acceptance"].certificates  # type: ignore[attr-defined]
        for query in ("zebra", "unicorn")
    )
    assert (joined.valid, joined.reason) == (False, "fitted without exact_match, which answered")
    assert (apart.valid, apart.reason) == (True, "")


def test_a_ranking_named_as_the_exact_matches_is_refused_where_there_are_none() -> None:
    with pytest.raises(InvalidInputError, match="the ranking 'exact_match' needs an ExactMatchBonus"):
        FusionPipeline().decide([Ranking("exact_match", ["x"], [1.0])])
