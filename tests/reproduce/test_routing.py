"""The entropy router's page: gates fitted on one part and judged on the other, on made-up and published queries."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from tiny import many_queries, write_dataset

from phasegraph.evaluation.datasets import load_dataset
from routing import (
    FITTED,
    FIXED,
    GATED,
    ORACLE,
    Choices,
    FlagEffect,
    _effects,
    _flag_verdicts,
    flag_effect,
    own_choices,
    published_choices,
    routes_of,
    routing_page,
)

SHARED = Path(os.environ.get("PHASEGRAPH_SHARED", Path(__file__).resolve().parents[3] / "shared"))
PUBLISHED = SHARED / "data" / "published"


def choices(told):
    """Sixty queries in three bands of entropy; the band tells the best strategy, or nothing does."""
    entropies = np.linspace(0.5, 2.9, 60)
    best = np.repeat([0, 1, 2], 20) if told else np.tile([0, 1, 2], 20)
    rows = np.arange(60)
    parts = [(rows[::2], rows[1::2]), (rows[1::2], rows[::2])]
    return Choices(
        ("a", "b", "c"), np.eye(3)[best], {False: np.full(60, 2.99) + entropies / 1e3, True: entropies}, parts
    )


def test_gates_are_fitted_on_one_part_and_judged_on_the_other():
    told, blind = choices(told=True), choices(told=False)
    found = {name: told.reached(routes).mean() for name, routes in routes_of(told).items()}
    assert found[ORACLE] == 1.0
    assert found[FITTED[0]] >= 0.95
    assert found[FITTED[1]] >= 0.95
    assert found[GATED[0]] == pytest.approx(1 / 3), "the published gates send every query to the third"
    assert found[FIXED] == pytest.approx(1 / 3)
    routes = routes_of(blind)
    assert sorted(blind.judged.tolist()) == list(range(60))
    assert blind.reached(routes[FITTED[1]]).mean() <= 0.5


def test_the_page_of_a_data_set_with_a_calibration_split(tmp_path):
    folder = write_dataset(tmp_path / "split", many_queries())
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    for place, row in enumerate(rows):
        row |= {"split": "calibration" if place < 24 else "dev", "type": "factual" if place % 2 else "code"}
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    dataset = load_dataset(folder)
    own = own_choices(dataset)
    assert own.judged.tolist() == list(range(24, 36))
    assert own.rewards.shape == (36, 3)
    rng = np.random.default_rng(0)
    queries = [f"q{row}" for row in range(60)]
    state = {
        "knn_distances": {query: np.sort(rng.random(20)).tolist() for query in queries},
        "per_strategy_ndcg": {
            name: {q: float(rng.random()) for q in queries} for name in ("semantic", "dphf", "stepback")
        },
    }
    (tmp_path / "routing_musique.json").write_text(json.dumps(state), encoding="utf-8")
    page = routing_page(tmp_path, [dataset])
    assert "**split, our systems** (12 queries judged" in page.text()
    assert "| split | code | 18 |" in page.text()
    assert len(page.verdicts) == 7
    effect = flag_effect(dataset)
    assert [len(part) for part in effect.split()] == [int(effect.flags.sum()), 36 - int(effect.flags.sum())]
    assert "| split | 36 |" in page.text() or f"| split | {int(effect.flags.sum())} |" in page.text()


def told_by_the_flag(told):
    """Sixty questions of which every second has the flag; the walk gains on these alone, or on all alike."""
    flags = np.arange(60) % 2 == 0
    return FlagEffect("made up", flags, np.where(flags, 0.3, -0.2 if told else 0.3), 7)


def test_a_flag_that_tells_what_a_walk_helps_is_worth_routing_by():
    told, blind = told_by_the_flag(True), told_by_the_flag(False)
    assert told.by_flag().mean() == pytest.approx(0.1)
    assert blind.by_flag().mean() == pytest.approx(-0.15)
    assert [one.holds for one in _flag_verdicts([told])] == [True, True]
    assert [one.holds for one in _flag_verdicts([blind])] == [False, False]
    everywhere = FlagEffect("all", np.ones(60, dtype=bool), told.gains, 7)
    assert [one.holds for one in _flag_verdicts([everywhere])] == [None, None]
    assert "| made up | 30 | +30.0 [+30.0, +30.0] | -20.0 [-20.0, -20.0] |" in _effects([told])
    assert "| all | 60 |" in _effects([everywhere])


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published results are not at hand")
def test_the_published_queries_to_the_digit():
    """Golden: the fixed strategies and the oracle as published; gates fitted on the other half gain nothing."""
    found = published_choices(PUBLISHED)
    means = {name: round(float(found.reached(routes).mean()), 4) for name, routes in routes_of(found).items()}
    assert means == {
        "always semantic": 0.6266, "always dphf": 0.6886, "always stepback": 0.6430, FIXED: 0.6886,
        GATED[0]: 0.6430, FITTED[0]: 0.6335, GATED[1]: 0.6573, FITTED[1]: 0.6266, ORACLE: 0.7080,
    }  # fmt: skip
