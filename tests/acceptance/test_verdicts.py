"""Which source's verdict counts, and what happens where ``on_empty`` raises."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasegraph import DegradedError, FusionPipeline, ListCalibrator, Ranking
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.fusion.context import Context
from phasegraph.ranking import RERANK

BI = Ranking("vector", ["a", "b", "c", "d"], [0.9, 0.8, 0.4, 0.3])
CROSS = Ranking(RERANK, ["a", "b", "c"], [-0.2, 0.4, 0.1])


def kept(policy: AcceptancePolicy, *rankings: Ranking) -> set[str]:
    return set(FusionPipeline(accept=policy).decide(rankings).ids)


def test_under_any_the_best_verdict_counts_and_under_all_the_lowest() -> None:
    other = Ranking("graph", ["a", "c"], [1.0, 9.0])
    thresholds = {"vector": 0.5, "graph": 5.0}
    assert kept(AcceptancePolicy(thresholds), BI, other) == {"a", "b", "c"}
    assert kept(AcceptancePolicy(thresholds, verdict="all"), BI, other) == {"b"}


def test_under_last_stage_the_reranker_decides_what_it_scored_and_the_sources_the_rest() -> None:
    policy = AcceptancePolicy({"vector": 0.25, RERANK: 0.0}, verdict="last_stage")
    assert kept(policy, BI, CROSS) == {"b", "c", "d"}
    assert kept(policy, BI) == {"a", "b", "c", "d"}  # no reranker: the sources' own


def test_a_reranker_without_a_threshold_accepts_nothing_by_itself() -> None:
    assert kept(AcceptancePolicy({"vector": 0.5}), BI, CROSS) == {"a", "b"}


def test_the_verdict_is_stored() -> None:
    policy = AcceptancePolicy({RERANK: 0.5}, verdict="last_stage")
    assert AcceptancePolicy.from_dict(policy.to_dict()) == policy
    with pytest.raises(ValueError, match="verdict"):
        AcceptancePolicy(verdict="most")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "error",
    [ValueError("secret"), KeyError("a"), StopIteration(), AttributeError(), OSError(), SystemExit(2), GeneratorExit(),
     asyncio.CancelledError()],
)  # fmt: skip
def test_an_on_empty_that_raises_costs_no_answer(error: BaseException) -> None:
    def on_empty(candidates: object, scores: object) -> list[str]:
        raise error

    policy = AcceptancePolicy({"vector": 2.0}, on_empty=on_empty)
    result = FusionPipeline(accept=policy).decide([BI])
    assert (result.ids, result.reason) == ((), "all_rejected")
    raised = type(error).__name__
    assert result.warnings[-1] == f"on_empty raised {raised}, so no candidate is accepted"
    outcome: Any = result.extras["acceptance"]
    assert (outcome.reason, outcome.error, outcome.failed) == (f"callback_failed: {raised}", raised, True)
    assert "secret" not in " ".join(result.warnings)
    with pytest.raises(DegradedError, match="on_empty"):
        FusionPipeline(accept=policy, strict=True, calibrator=ListCalibrator("raw")).decide([BI])


def test_blend_mixes_and_replays_to_the_bit() -> None:
    pipeline = FusionPipeline()
    graph = Ranking("graph", ["c", "e", "a"], [3.0, 2.0, 1.0])
    plain = pipeline.decide([BI, graph])
    for blend in (0.0, 0.3, 1.0):
        context = Context(blend=blend)
        found = pipeline.decide([BI, graph, CROSS], context)
        again = pipeline.decide(found.candidates.rankings, context, reports=found.reports)
        assert (again.ids, again.fused.tobytes()) == (found.ids, found.fused.tobytes())
        assert np.allclose(found.contributions.sum(axis=1) + found.bonuses, found.fused, atol=1e-9)
        if blend == 0.0:
            assert (found.ids, found.fused.tobytes(), found.scores.tobytes()) == (
                plain.ids, plain.fused.tobytes(), plain.scores.tobytes(),
            )  # fmt: skip
        if blend == 1.0:
            assert found.ids[:3] == ("b", "c", "a")
            assert found.ids[3:] == tuple(one for one in plain.ids if one in {"d", "e"})
    assert found.evidence("b").sources[-1].raw == 0.4


def test_a_reranker_may_have_a_calibrator_of_its_own_and_any_finite_scores() -> None:
    raw = FusionPipeline(calibrators={RERANK: ListCalibrator("raw")})
    assert raw.decide([BI, CROSS]).calibrated[:3, -1].tolist() == [0.4, 0.1, -0.2]
    refused = FusionPipeline(calibrators={RERANK: ListCalibrator("theoretical_min_max", {"infimum": 0.0})})
    assert refused.decide([BI, CROSS]).ids == FusionPipeline().decide([BI, CROSS]).ids
    huge = Ranking(RERANK, ["a", "b", "c", "d"], [-1e308, 1e308, 1e-308, 0.0])
    for blend in (0.5, 1.0):
        found = FusionPipeline().decide([BI, huge], Context(blend=blend))
        assert np.isfinite(found.fused).all()
    assert found.ids == ("b", "c", "d", "a")


SHARED = Path(os.environ.get("PHASEGRAPH_SHARED", Path(__file__).resolve().parents[3] / "shared"))
PUBLISHED = SHARED / "data" / "published" / "sscc.json"


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="the published scores are not at hand")
@pytest.mark.parametrize(
    ("stage", "caught", "spared", "balanced"), [("bi", 1.0, 0.0, 0.5), ("cross", 0.9511, 0.7014, 0.8263)]
)
def test_the_rule_of_sscc_on_its_published_scores(stage: str, caught: float, spared: float, balanced: float) -> None:
    """Its default thresholds, .5 for the bi-encoder and 0 for the cross-encoder, each for what that stage scored."""
    pairs = json.loads(PUBLISHED.read_text(encoding="utf-8"))[stage]
    policy = AcceptancePolicy({"vector": 0.5, RERANK: 0.0}, verdict="last_stage")
    ids = [f"p{row:02}" for row in range(30)]
    verdicts = []
    for start in range(0, len(pairs), 30):
        scores = [score for score, _ in pairs[start : start + 30]]
        lists = [Ranking("vector", ids, scores if stage == "bi" else np.arange(1.0, 31.0))]
        lists += [] if stage == "bi" else [Ranking(RERANK, ids, scores)]
        accepted = set(FusionPipeline(accept=policy, k=30).decide(lists).ids)
        verdicts += [one in accepted for one in ids]
    labels = np.array([label for _, label in pairs], dtype=bool)
    kept = np.array(verdicts)
    found = kept[labels].mean(), (~kept[~labels]).mean()
    assert (round(float(found[0]), 4), round(float(found[1]), 4)) == (caught, spared)
    assert round(float(sum(found)) / 2, 4) == balanced
