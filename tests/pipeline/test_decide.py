from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from phasegraph import (
    Background,
    DegradedError,
    FusionPipeline,
    InvalidInputError,
    ListCalibrator,
    Ranking,
    SourceReport,
)
from phasegraph.errors import InvalidTypeError

VECTOR = Ranking("vector", ["a", "b", "c", "d", "e"], [0.62, 0.55, 0.41, 0.40, 0.12], payloads={"a": "document a"})
GRAPH = Ranking("graph", ["c", "f", "b", "g"], [0.31, 0.02, 0.004, 0.001], size=1000,
                background=Background(-9.0, 0.6, "log", 1e-4))  # fmt: skip


def test_the_default_adds_up_and_explains_every_source() -> None:
    result = FusionPipeline().decide([VECTOR, GRAPH])
    evidence = result.evidence("c")
    assert [one.source for one in evidence.sources] == ["graph", "vector"]
    assert sum(one.contribution for one in evidence.sources) == pytest.approx(evidence.fused, abs=1e-12)
    assert (evidence.sources[0].rank, evidence.sources[0].raw) == (1.0, 0.31)
    assert (evidence.sources[1].rank, evidence.sources[1].score) == (3.0, 0.41)
    for one in evidence.sources:
        assert one.contribution == pytest.approx(one.weight * one.calibrated)


def test_evidence_says_what_a_source_did_not_return() -> None:
    found = FusionPipeline().decide([VECTOR, GRAPH]).evidence("a")
    graph, vector = found.sources
    assert (graph.rank, graph.raw, graph.payload) == (None, None, None)
    assert vector.payload == "document a"


def test_evidence_of_an_unknown_id_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="nowhere"):
        FusionPipeline().decide([VECTOR]).evidence("nowhere")


def test_scores_are_the_published_form_of_the_fused_value() -> None:
    result = FusionPipeline().decide([VECTOR, GRAPH])
    np.testing.assert_allclose(result.scores, 0.5 * (1 + result.fused / (1 + np.abs(result.fused))))


def test_a_list_cap_cuts_the_graph_before_its_percentiles_are_taken() -> None:
    capped = FusionPipeline(calibrator=ListCalibrator("percentile"), pool_caps={"graph": 2}).decide([VECTOR, GRAPH])
    assert "g" not in capped.ids
    column = capped.candidates.sources.index("graph")
    assert capped.calibrated[capped.ids.index("f"), column] == 0.5


def test_a_unique_only_cap_keeps_what_others_also_returned() -> None:
    pipeline = FusionPipeline(pool_caps={"graph": 1}, pool_cap_mode="unique_only")
    found = pipeline.decide([VECTOR, GRAPH])
    assert set(found.candidates.rankings[0].ids) == {"c", "f", "b"}


def test_a_consensus_bonus_goes_to_what_two_sources_returned() -> None:
    result = FusionPipeline(consensus_bonus=0.25).decide([VECTOR, GRAPH])
    assert {i for i, bonus in zip(result.ids, result.bonuses, strict=True) if bonus} == {"b", "c"}
    bounded = FusionPipeline(consensus_bonus=0.1, consensus_bounded=True).decide([VECTOR, GRAPH])
    plain = FusionPipeline().decide([VECTOR, GRAPH])
    assert bounded.bonuses.max() == pytest.approx(0.1 * np.abs(plain.fused).max())


def test_sources_that_agree_on_nothing_are_warned_about() -> None:
    other = Ranking("graph", [f"x{i}" for i in range(12)], np.arange(12.0, 0, -1))
    result = FusionPipeline().decide([VECTOR, other])
    assert result.agreement == {("graph", "vector"): 0.0, ("vector", "graph"): 0.0}
    assert "agree on nothing" in result.warnings[0]


def test_agreement_is_the_share_of_one_s_top_ten_in_the_other_s_top_fifty() -> None:
    result = FusionPipeline().decide([VECTOR, GRAPH])
    assert result.agreement == {("graph", "vector"): 0.5, ("vector", "graph"): 0.4}


def test_nothing_found_and_could_not_look_are_different_values() -> None:
    empty = FusionPipeline().decide([Ranking("vector", [], [])])
    assert (empty.reason, empty.degraded, empty.ids) == ("nothing_found", False, ())
    failed = SourceReport("graph", "error", "it broke", "OSError")
    half = FusionPipeline().decide([Ranking("vector", [], [])], reports=[failed, SourceReport("vector", "empty")])
    assert (half.reason, half.degraded) == ("could_not_look", True)


def test_a_failed_source_leaves_no_trace_but_its_report() -> None:
    failed = SourceReport("graph", "timeout", "timeout", "TimeoutError")
    ok = SourceReport("vector", "ok", hits=5)
    alone = FusionPipeline().decide([VECTOR])
    degraded = FusionPipeline().decide([VECTOR], reports=[failed, ok])
    assert degraded.degraded
    assert degraded.ids == alone.ids
    assert degraded.fused.tobytes() == alone.fused.tobytes()
    assert [report.status for report in degraded.reports] == ["timeout", "ok"]


def test_the_reports_name_the_tier_each_source_was_calibrated_by() -> None:
    result = FusionPipeline().decide([VECTOR, GRAPH])
    assert {report.source: report.calibration for report in result.reports} == {
        "graph": "exact",
        "vector": "estimated",
    }


def test_strict_refuses_a_degraded_answer_and_the_list_tier() -> None:
    with pytest.raises(DegradedError, match="vector: calibrated from its returned list alone"):
        FusionPipeline(strict=True).decide([VECTOR, GRAPH])
    with pytest.raises(DegradedError, match="graph: timeout"):
        FusionPipeline(strict=True, calibrator=ListCalibrator("min_max")).decide(
            [VECTOR], reports=[SourceReport("graph", "timeout"), SourceReport("vector", "ok", hits=5)]
        )


def test_a_source_that_the_weights_do_not_name_is_an_error() -> None:
    with pytest.raises(InvalidInputError, match="'graph'"):
        FusionPipeline(weights={"vector": 1.0}).decide([VECTOR, GRAPH])


@pytest.mark.parametrize("k", [0, 1, 3, 10**9])
def test_k_is_only_how_many_come_back(k: int) -> None:
    assert len(FusionPipeline(k=k).decide([VECTOR, GRAPH])) == min(k, 7)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"k": -1}, "k"),
        ({"k": True}, "k"),
        ({"k": 2.0}, "k"),
        ({"k": None}, "k"),
        ({"weights": {}}, "weights"),
        ({"weights": {"v": -1.0}}, r"weights\['v'\]"),
        ({"weights": {"v": float("nan")}}, r"weights\['v'\]"),
        ({"weights": {"v": True}}, r"weights\['v'\]"),
        ({"weights": {"v": 0.0, "g": 0}}, "all be 0"),
        ({"weights": [1, 2]}, "weights"),
        ({"rule": "magic"}, "rule"),
        ({"rule_options": {"temperature": 1.0}}, "rule_options"),
        ({"pool_caps": {"graph": 0}}, "pool_caps"),
        ({"pool_cap_mode": "both"}, "pool_cap_mode"),
        ({"consensus_bonus": -0.1}, "consensus_bonus"),
        ({"weighting": "magic"}, "weighting"),
        ({"weighting": ["x"]}, "weighting"),
        ({"rule": ["x"]}, "rule"),
        ({"rule_options": None}, "rule_options"),
        ({"rule": "rrf", "rule_options": {"rank_constant": 0}}, "rule_options of 'rrf': rank_constant"),
        ({"rule": "rrf", "rule_options": {"rank_constant": "x"}}, "rule_options of 'rrf'"),
        ({"rule": "plackett_luce", "rule_options": {"iterations": 0}}, "rule_options of 'plackett_luce': iterations"),
        ({"rule": "linear", "pool_caps": 5}, "pool_caps"),
        ({"calibrator": "percentile"}, "calibrator"),
        ({"calibrator": ListCalibrator}, "calibrator"),
        ({"calibrators": ["percentile"]}, "calibrators"),
        ({"calibrators": {"vector": 5}}, r"calibrators\['vector'\]"),
        ({"priors": "unit"}, "priors"),
        ({"priors": (5,)}, "priors"),
        ({"strict": "no"}, "strict"),
        ({"consensus_bounded": 1}, "consensus_bounded"),
    ],
)
def test_a_wrong_field_is_named_when_the_pipeline_is_built(fields: dict[str, object], name: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        FusionPipeline(**fields)  # type: ignore[arg-type]


def test_wrong_types_are_type_errors_too() -> None:
    with pytest.raises(InvalidTypeError):
        FusionPipeline(k="10")  # type: ignore[arg-type]


def test_a_pipeline_is_a_value_that_can_be_varied() -> None:
    pipeline = FusionPipeline(k=3)
    assert dataclasses.replace(pipeline, k=5).k == 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        pipeline.k = 4  # type: ignore[misc]


def test_contributions_of_a_rule_that_does_not_add_are_shapley_values() -> None:
    pipeline = FusionPipeline(calibrator=ListCalibrator("min_max"), rule="comb_mnz", weighting="equal")
    one, two = Ranking("a", ["x", "y"], [1.0, 0.0]), Ranking("b", ["x", "y"], [4.0, 2.0])
    result = pipeline.decide([one, two])
    # alone: 1 each; together (1 + 1) * 2 = 4, so each earns the mean of 1 and 3
    np.testing.assert_allclose(result.contributions[0], [2.0, 2.0])


def test_a_source_that_its_calibrator_refuses_costs_the_others_nothing() -> None:
    pipeline = FusionPipeline(
        calibrator=ListCalibrator("min_max"),
        calibrators={"vector": ListCalibrator("theoretical_min_max", {"infimum": -1.0})},
    )
    broken = Ranking("vector", ["a"], [-1.0000001])
    result = pipeline.decide([broken, GRAPH])
    assert result.ids == pipeline.decide([GRAPH]).ids
    assert result.degraded
    report = next(one for one in result.reports if one.source == "vector")
    assert (report.status, "infimum" in report.reason) == ("error", True)


def test_an_only_heavy_tailed_source_keeps_its_order_below_the_precision_of_the_line() -> None:
    walk = Ranking("graph", list("edcba"), [0.9, 0.05, 1e-17, 5e-18, 1e-18])
    assert FusionPipeline().decide([walk]).ids == ("e", "d", "c", "b", "a")


def test_hits_that_were_all_unusable_are_not_called_empty() -> None:
    gone = Ranking.from_hits("vector", ["a"], [float("nan")])
    result = FusionPipeline().decide([gone])
    assert (result.reports[0].status, result.degraded, result.reason) == ("partial", True, "could_not_look")


def test_arrays_and_mappings_of_a_result_are_read_only() -> None:
    result = FusionPipeline().decide([VECTOR, GRAPH])
    with pytest.raises(ValueError, match="read-only"):
        result.scores[0] = 1.0
    with pytest.raises(TypeError):
        result.agreement[("a", "b")] = 1.0  # type: ignore[index]


def test_what_is_no_ranking_and_a_second_report_are_refused() -> None:
    with pytest.raises(InvalidTypeError, match="Ranking"):
        FusionPipeline().decide([VECTOR, None])  # type: ignore[list-item]
    with pytest.raises(InvalidTypeError, match="Ranking"):
        FusionPipeline().decide("vector")  # type: ignore[arg-type]
    twice = [SourceReport("vector", "ok"), SourceReport("vector", "error")]
    with pytest.raises(InvalidInputError, match="one report per source"):
        FusionPipeline().decide([VECTOR], reports=twice)


@pytest.mark.parametrize(("status", "late"), [("timeout", True), ("ok", True), ("empty", False)])
def test_a_source_that_ran_without_a_late_ranking_degrades_the_answer_and_without_an_empty_one_does_not(
    status: str, late: bool
) -> None:
    reports = [
        SourceReport("vector", status, hits=5 if status == "ok" else 0),  # type: ignore[arg-type]
        SourceReport("graph", "ok", hits=4, missing=("vector",)),
    ]
    rankings = [GRAPH, VECTOR] if status == "ok" else [GRAPH]
    assert FusionPipeline().decide(rankings, reports=reports).degraded is late
    strict = FusionPipeline(strict=True, calibrator=ListCalibrator("min_max"))
    if late:
        with pytest.raises(DegradedError, match=r"graph: ran without vector|vector: timeout"):
            strict.decide(rankings, reports=reports)
    else:
        assert strict.decide(rankings, reports=reports).ids


def test_a_list_without_a_usable_score_is_partial_whoever_reports_it() -> None:
    broken = Ranking.from_hits("vector", ["a", "b"], [float("nan"), float("inf")])
    result = FusionPipeline().decide([broken, GRAPH])
    assert result.degraded
    assert result.reports[1] == SourceReport.of(broken)
    assert (result.reports[1].status, result.reports[1].dropped) == ("partial", 2)
