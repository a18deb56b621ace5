"""Presets and rules by name: what each is, and the textbook's values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from phasegraph import (
    FUSION_RULES,
    Context,
    ExactMatchBonus,
    FusionPipeline,
    InvalidInputError,
    ListCalibrator,
    Ranking,
    UnitPrior,
)
from phasegraph.evaluation.runs import Run, read_run, write_run
from phasegraph.fusion.pipeline import PIPELINE_NAMES

VECTOR = Ranking("vector", ["a", "b", "c", "d", "e"], [0.62, 0.55, 0.41, 0.40, 0.12])
GRAPH = Ranking("graph", ["c", "f", "b", "g"], [0.31, 0.02, 0.004, 0.001])
LEXICAL = Ranking("bm25", ["b", "h"], [7.0, 3.5])


@pytest.mark.parametrize("name", PIPELINE_NAMES)
def test_every_preset_and_rule_answers_by_its_name_and_survives_its_state(name: str) -> None:
    weights = None if name in FUSION_RULES or "paper" not in name else {"vector": 0.7, "graph": 0.3, "bm25": 0}
    pipeline = FusionPipeline.named(name, weights)
    if name in ("adr", "convex"):
        pipeline = FusionPipeline.named(name, {"vector": 1.0, "graph": 0.5, "bm25": 0.5})
    result = pipeline.decide([VECTOR, GRAPH, LEXICAL], k=9)
    assert len(result) >= 7
    assert [one.status for one in result.reports if one.source != "exact_match"] == ["ok"] * 3
    assert FusionPipeline.from_dict(pipeline.to_dict()).to_dict() == pipeline.to_dict()
    assert {*FUSION_RULES, "default", "reciprocal_rank", "adr", "convex"} <= set(PIPELINE_NAMES)


def test_a_name_that_there_is_not_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(InvalidInputError, match="comb_mnz"):
        FusionPipeline.named("best")


def test_the_papers_presets() -> None:
    graph = Ranking("graph", [f"g{i:02d}" for i in range(80)], np.arange(80, 0, -1.0))
    vector = Ranking("vector", [f"g{i:02d}" for i in range(10)], np.arange(10, 0, -1.0))
    hits = {}
    for name in ("musique", "2wiki", "hard-slice", "legacy"):
        pipeline = FusionPipeline.paper(name)
        hits[name] = (pipeline.weights["vector"], len(pipeline.decide([vector, graph], k=99)))  # type: ignore[index]
    assert hits == {"musique": (0.7, 30), "2wiki": (0.4, 20), "hard-slice": (0.3, 80), "legacy": (0.4, 60)}
    with pytest.raises(InvalidInputError, match="hard-slice"):
        FusionPipeline.paper("hard")


def test_the_design_record_s_preset() -> None:
    """Weights 1, 1, .35, exact matches, importance .7 + .3 i: by hand."""
    pages = {"b": {"text": "Ada Vole", "importance": 0.5}, "a": {"text": "Sea"}}
    lists = [replace(one, payloads={i: pages[i] for i in one.ids if i in pages}) for one in (VECTOR, GRAPH, LEXICAL)]
    pipeline = FusionPipeline.adr()
    assert pipeline.priors == (ExactMatchBonus(1.0), UnitPrior("importance", 0.3))
    result = pipeline.decide(lists, Context(query="Who was Ada?"), k=9)
    total = 1.0 + 1.0 + 0.35 + 1.0
    value = dict(zip(result.ids, result.fused.tolist(), strict=True))
    assert value["b"] == pytest.approx((1 / 62 + 0.35 / 63 + 1 / 61 + 1 / 61) / total, abs=1e-15)
    assert value["f"] == pytest.approx(0.35 / 62 / total, abs=1e-15)
    assert dict(zip(result.ids, result.priors.tolist(), strict=True))["b"] == pytest.approx(0.85)


def test_convex_is_tm2c2_with_the_infimum_of_every_source() -> None:
    found = FusionPipeline.convex().decide([VECTOR, LEXICAL], k=9)
    value = dict(zip(found.ids, found.fused.tolist(), strict=True))
    assert value["b"] == pytest.approx(0.8 * 1.55 / 1.62 + 0.2)
    assert value["h"] == pytest.approx(0.2 * 0.5)
    other = FusionPipeline.convex({"vector": 0.8, "bm25": 0.2}, infima={"vector": 0.0}).decide([VECTOR, LEXICAL])
    assert dict(zip(other.ids, other.fused.tolist(), strict=True))["b"] == pytest.approx(0.8 * 0.55 / 0.62 + 0.2)
    with pytest.raises(InvalidInputError, match="infima must name sources"):
        FusionPipeline.convex(infima={"words": 0.0})


@pytest.mark.parametrize("weights", [None, {"vector": 1.0, "graph": 1.0}, {"vector": 0.35, "graph": 0.35}])
def test_reciprocal_rank_shows_the_textbook_value_where_weights_are_equal(weights: dict[str, float] | None) -> None:
    result = FusionPipeline.reciprocal_rank(weights).decide([VECTOR, GRAPH])
    assert dict(zip(result.ids, result.fused.tolist(), strict=True))["c"] == 1 / 61 + 1 / 63
    assert result.weights.tolist() == [1.0, 1.0]


def test_weights_that_differ_are_still_divided_by_their_sum() -> None:
    result = FusionPipeline.reciprocal_rank({"vector": 1.0, "graph": 0.35}).decide([VECTOR, GRAPH])
    assert result.weights.sum() == pytest.approx(1.0)
    assert dict(zip(result.ids, result.fused.tolist(), strict=True))["a"] == pytest.approx(1 / 61 / 1.35)


# Against ranx, and, quicker, against the formulas in a few lines of plain Python.


def _random_runs(folder) -> list[Run]:  # type: ignore[no-untyped-def]
    """Three TREC runs of 20 queries, written and read again: scores of any size, lists of different lengths."""
    rng = np.random.default_rng(5)
    for name, scale in (("one", 1.0), ("two", 30.0), ("three", 1e-3)):
        rankings = {}
        for query in range(20):
            ids = [f"d{i}" for i in rng.choice(60, int(rng.integers(2, 40)), replace=False)]
            rankings[f"q{query}"] = Ranking(name, ids, scale * rng.normal(size=len(ids)))
        write_run(Run(name, rankings), folder / f"{name}.run")
    return [read_run(folder / f"{name}.run") for name in ("one", "two", "three")]


def _normal(how: str | None, scores: list[float]) -> list[float]:
    if how == "min-max":
        low, high = min(scores), max(scores)
        return [(one - low) / (high - low) for one in scores]
    mean = sum(scores) / len(scores)
    spread = (sum((one - mean) ** 2 for one in scores) / len(scores)) ** 0.5
    return [(one - mean) / spread for one in scores] if how == "zmuv" else scores


def _by_hand(runs: list[Run], query: str, norm: str | None, method: str) -> dict[str, float]:
    parts: dict[str, list[float]] = {}
    for run in runs:
        ranking = run.rankings[query]
        values = _normal(norm, ranking.scores.tolist())
        for rank, (identifier, value) in enumerate(zip(ranking.ids, values, strict=True), start=1):
            parts.setdefault(identifier, []).append(1 / (60 + rank) if method == "rrf" else value)
    return {one: sum(got) * (len(got) if method == "mnz" else 1) for one, got in parts.items()}


CASES = [
    ("rrf", None, "rrf"),
    ("comb_sum", "min-max", "sum"),
    ("comb_mnz", "min-max", "mnz"),
    ("min-max-sum", "min-max", "sum"),
    ("z-score-sum", "zmuv", "sum"),
]


@pytest.mark.parametrize(("name", "norm", "method"), CASES)
def test_random_runs_get_the_textbook_s_values(tmp_path, name, norm, method) -> None:  # type: ignore[no-untyped-def]
    runs = _random_runs(tmp_path)
    for query in runs[0].rankings:
        found = FusionPipeline.named(name).decide([run.rankings[query] for run in runs], k=99)
        expected = _by_hand(runs, query, norm, method)
        assert dict(zip(found.ids, found.fused.tolist(), strict=True)) == pytest.approx(expected, rel=0, abs=1e-12)


@pytest.mark.usefixtures("ranx_in_python")
def test_ranx_agrees_on_random_runs(tmp_path) -> None:  # type: ignore[no-untyped-def]
    import ranx

    runs = _random_runs(tmp_path)
    theirs = [ranx.Run.from_file(str(tmp_path / f"{run.name}.run"), kind="trec") for run in runs]
    for name, norm, method in CASES:
        fused = ranx.fuse(runs=theirs, norm=norm, method=method).to_dict()
        for query, expected in fused.items():
            found = FusionPipeline.named(name).decide([run.rankings[query] for run in runs], k=99)
            assert dict(zip(found.ids, found.fused.tolist(), strict=True)) == pytest.approx(expected, rel=0, abs=1e-12)


def test_a_z_score_sum_takes_nothing_for_a_missing_candidate() -> None:
    pipeline = FusionPipeline.named("z-score-sum")
    assert pipeline.calibrator == ListCalibrator("z_score")
    lists = [Ranking("v", ["a", "b"], [2.0, 1.0]), Ranking("w", ["a", "c"], [2.0, 1.0])]
    assert pipeline.decide(lists).fused.tolist() == [2.0, -1.0, -1.0]
