"""Routers: the published entropies and measures, and what each router makes of a query."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasegraph import InsufficientDataError, InvalidInputError, Ranking
from phasegraph.retrieval.stages.routing import (
    KeywordRouter,
    compositional_router,
    fit_entropy_gates,
    is_multi_hop,
    keyword_router,
    neighbour_entropy,
    neighbour_entropy_router,
    oracle_router,
    query_features,
    read_route,
)

SHARED = Path(os.environ.get("PHASEGRAPH_SHARED", Path(__file__).resolve().parents[3] / "shared"))
PUBLISHED = SHARED / "data" / "published"
needs_published = pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published results are not at hand")
FIRST_QUERY = [
    0.5714175701141357, 0.5799600481987, 0.590988278388977, 0.590988278388977, 0.5923300981521604, 0.6025063991546631,
    0.6100768446922302, 0.6109291315078735, 0.6109291315078735, 0.6125696301460268, 0.6136345267295837,
    0.6236253976821902, 0.6236253976821902, 0.6247357130050659, 0.6247357130050659, 0.6247357130050659,
    0.6247357130050659, 0.6249263882637024, 0.6277577877044676, 0.6291901469230652,
]  # fmt: skip


@pytest.fixture(scope="module")
def musique() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PUBLISHED / "routing_musique.json").read_text(encoding="utf-8"))
    return found


def test_the_entropy_of_the_first_published_query() -> None:
    assert abs(neighbour_entropy(FIRST_QUERY, normalise=False) - 2.995589909696) < 5e-13
    assert neighbour_entropy([1.0] * 20, normalise=False) == pytest.approx(2.995732273554, abs=1e-10)


@needs_published
def test_the_200_published_entropies(musique: dict[str, Any]) -> None:
    found = {query: neighbour_entropy(d, normalise=False) for query, d in musique["knn_distances"].items()}
    assert len(found) == 200
    # Two steps between neighbouring floats: NumPy 1.26 and 2 round some exponentials and logarithms differently.
    assert max(abs(found[query] - given) for query, given in musique["entropy"].items()) <= 2 * np.spacing(2.0)
    values = np.array(list(found.values()))
    assert (values.min(), values.mean(), values.max()) == pytest.approx((2.990759, 2.994591, 2.995707), abs=5e-7)


@needs_published
def test_the_papers_router_sends_every_query_one_way_and_normalised_distances_tell_them_apart(
    musique: dict[str, Any],
) -> None:
    strategies = ("semantic", "dphf", "stepback")
    faithful = neighbour_entropy_router(*strategies, normalise=False)
    mended = neighbour_entropy_router(*strategies)
    found = {query: faithful.by_distances(d) for query, d in musique["knn_distances"].items()}
    assert found == musique["egr"]
    assert set(found.values()) == {"stepback"}
    told = [mended.by_distances(d) for d in musique["knn_distances"].values()]
    assert {one: told.count(one) for one in strategies} == {"semantic": 72, "dphf": 122, "stepback": 6}


@needs_published
def test_the_measures_of_the_published_routes_on_musique(musique: dict[str, Any]) -> None:
    rewards = musique["per_strategy_ndcg"]
    best = oracle_router(rewards)

    def mean(route: Any) -> float:
        return float(np.mean([rewards[route(query)][query] for query in musique["entropy"]]))

    assert round(mean(best), 4) == 0.7080
    rows = {name: round(mean(lambda query, name=name: name), 4) for name in rewards}
    assert rows == {"semantic": 0.6266, "dphf": 0.6886, "stepback": 0.6430}
    assert round(mean(musique["egr"].__getitem__), 4) == 0.6430


@needs_published
@pytest.mark.parametrize(
    ("route", "ndcg", "f1"),
    [
        ("always-semantic", 0.5419, 0.4812), ("always-dphf", 0.6499, 0.5495), ("always-stepback", 0.5622, 0.5026),
        ("keyword", 0.6389, 0.5459), ("egr", 0.5622, 0.5026), ("compositional", 0.6442, 0.5481),
        ("oracle", 0.6918, 0.5256),
    ],
)  # fmt: skip
def test_the_measures_of_the_published_routes_on_hetdocqa(route: str, ndcg: float, f1: float) -> None:
    found = json.loads((PUBLISHED / "hetdocqa_test_perquery.json").read_text(encoding="utf-8"))
    chosen, forced = found["routing"][route], found["forced"]
    assert len(chosen) == 363
    for measure, golden in (("ndcg", ndcg), ("f1", f1)):
        values = [forced[measure][name][query] for query, name in chosen.items()]
        assert round(float(np.mean(values)), 4) == golden
    best = oracle_router(forced["ndcg"])
    assert np.mean([forced["ndcg"][best(query)][query] for query in chosen]) >= ndcg - 1e-12


def test_the_entropy_router_reads_a_rankings_distances() -> None:
    rising = np.array(FIRST_QUERY)
    ids = [f"p{row:02}" for row in range(20)]
    as_distances = Ranking.from_hits("vector", ids, rising, higher_is_better=False)
    as_scores = Ranking("vector", ids, 1.0 / (1.0 + rising))
    for normalise in (True, False):
        router = neighbour_entropy_router("s", "f", "b", normalise=normalise)
        assert router("q", as_distances) == router.by_distances(rising)
    assert neighbour_entropy_router("s", "f", "b", normalise=False)("q", as_scores) == "b"


def test_the_multi_hop_flag_is_that_of_the_published_code_and_needs_a_flat_neighbourhood() -> None:
    flagged = ["Is Rome in Italy?", "who is Ada Lovelace?", "salt and pepper", "cats vs dogs", "do both work?"]
    plain = ["Who is it?", "who is Ada?", "AB CD in 19", "Ada, Ada", "sand", "bands of android"]
    assert [is_multi_hop(one) for one in flagged] == [True] * 5
    assert [is_multi_hop(one) for one in plain] == [False] * 6
    router = neighbour_entropy_router("s", "f", "b", multi_hop={"graph": 1.0}, normalise=False)
    flat, steep = np.ones(20), np.array([0.1, *np.full(19, 9.0)])
    assert router.by_distances(flat, flagged[0]) == {"graph": 1.0}
    assert router.by_distances(flat, plain[0]) == router.by_distances(flat) == "b"
    assert router.by_distances(steep, flagged[0]) == "s"
    ranking = Ranking.from_hits("vector", [f"p{row:02}" for row in range(20)], flat, higher_is_better=False)
    assert router(flagged[0], ranking) == {"graph": 1.0}
    assert neighbour_entropy_router("s", "f", "b", normalise=False)(flagged[0], ranking) == "b"


def test_fitted_gates_are_the_first_best_pair_of_the_grid() -> None:
    rng = np.random.default_rng(0)
    entropies, best = rng.normal(2.0, 0.5, 60), rng.integers(0, 3, 60)
    found = fit_entropy_gates(entropies, best)
    gates = np.linspace(entropies.min(), entropies.max(), 40)
    wanted = (0.0, 0.0, -1.0)
    for low in gates:
        for high in gates[gates > low]:
            routes = [0 if one < low else 1 if one < high else 2 for one in entropies]
            agreement = float(np.mean(routes == best))
            if agreement > wanted[2]:
                wanted = (float(low), float(high), agreement)
    assert tuple(found) == pytest.approx(wanted, abs=1e-12)
    for entropies_, best_, error in (
        ([1.0] * 30, [0] * 30, InsufficientDataError),
        ([1.0, 2.0], [0, 1], InsufficientDataError),
        (np.arange(30.0), [3] * 30, InvalidInputError),
        (np.arange(30.0), [0] * 29, InvalidInputError),
    ):
        with pytest.raises(error):
            fit_entropy_gates(entropies_, best_)


@needs_published
@pytest.mark.parametrize(
    ("normalise", "low", "high", "agreement"),
    [(False, 2.99557995, 2.99570682, 0.715), (True, 2.73687557, 2.78277858, 0.7)],
)
def test_gates_fitted_to_the_published_queries_agree_with_the_oracle_as_often_as_one_strategy(
    musique: dict[str, Any], normalise: bool, low: float, high: float, agreement: float
) -> None:
    """In the sample itself; plain semantic search is the oracle's choice for 142 of the 200."""
    labels = musique["labels"]
    best = [labels.index(one) for one in musique["oracle"].values()]
    assert np.bincount(best).tolist() == [142, 51, 7]
    distances = [musique["knn_distances"][query] for query in musique["oracle"]]
    found = fit_entropy_gates([neighbour_entropy(one, normalise=normalise) for one in distances], best)
    assert tuple(found) == pytest.approx((low, high, agreement), abs=5e-9)
    router = neighbour_entropy_router(*labels, low=found.low, high=found.high, normalise=normalise)
    routes = [labels.index(str(router.by_distances(one))) for one in distances]
    assert np.mean(np.array(routes) == best) == pytest.approx(agreement)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_normalised_entropy_does_not_change_with_unit_or_origin(temperature: float) -> None:
    d = np.array(FIRST_QUERY)
    found = neighbour_entropy(d, temperature)
    assert neighbour_entropy(7.0 * d + 3.0, temperature) == pytest.approx(found, abs=1e-9)
    assert 0.0 <= found <= np.log(20)


def test_a_keyword_is_a_whole_word_in_any_case_and_the_first_rule_counts() -> None:
    router = keyword_router({"class": "code", "who is": {"graph": 2.0}}, default="all")
    assert router("Which CLASS?") == "code"
    assert router("a classic") == "all"
    assert router("Who is of that class, and who is not?") == "code"
    assert router("who is it") == {"graph": 2.0}
    for rules in ({}, {"": "code"}, {3: "code"}):
        with pytest.raises(InvalidInputError, match="rules"):
            KeywordRouter(rules, "all")  # type: ignore[arg-type]


def test_a_fitted_router_finds_what_the_words_and_the_neighbours_tell() -> None:
    queries = [f"{cue} is it, {n}" for cue in ("who", "code") for n in range(15)]
    rewards = {
        "graph": {query: float(query.startswith("who")) for query in queries},
        "vector": {query: float(query.startswith("code")) for query in queries},
    }
    router = compositional_router(rewards)
    oracle = oracle_router(rewards)
    assert [router(query) for query in queries] == [oracle(query) for query in queries]
    assert query_features("who?").shape == (26,)
    with pytest.raises(InsufficientDataError, match="20 queries"):
        compositional_router({name: dict(list(one.items())[:19]) for name, one in rewards.items()})
    with pytest.raises(InvalidInputError, match="oracle router has no value of the measure for"):
        oracle("unheard of")


def test_ridge_is_that_of_the_normal_equations_with_a_free_intercept() -> None:
    rng = np.random.default_rng(0)
    seen = {f"q{n}": rng.normal(size=4) for n in range(40)}
    rewards = {"a": {q: float(rng.normal()) for q in seen}}
    router = compositional_router(rewards, features=lambda query, ranking: seen[query], alpha=2.0)
    x = np.column_stack([np.array([seen[q] for q in sorted(seen)]), np.ones(40)])
    y = np.array([rewards["a"][q] for q in sorted(seen)])
    penalty = np.diag([2.0, 2.0, 2.0, 2.0, 0.0])
    assert router.coefficients[0] == pytest.approx(np.linalg.solve(x.T @ x + penalty, x.T @ y))


def test_what_a_router_gives_is_read_or_refused() -> None:
    sources = ["graph", "vector"]
    assert read_route(sources, "graph") == {"graph": None}
    assert read_route(sources, {"vector": 2, "graph": 0}) == {"vector": 2.0}
    for answer in (None, 3, "other", ["graph", 3], {"graph": "much"}, {"graph": 0}, []):
        with pytest.raises(InvalidInputError):
            read_route(sources, answer)
