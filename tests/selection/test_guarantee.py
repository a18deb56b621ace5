"""The greedy choice against the best there is, found by trying every set."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from phasegraph.selection import SelectionPolicy, redundancy, unit_rows

SHARE = 1 - 1 / np.e


def _value(relevance: np.ndarray, unit: np.ndarray, rows: tuple[int, ...], mu: float, theta: float) -> float:
    gram = np.eye(len(rows)) + theta * unit[list(rows)] @ unit[list(rows)].T
    return float(relevance[list(rows)].sum() + mu / 2 * np.linalg.slogdet(gram)[1])


def _case(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float, float, int]:
    count = int(rng.integers(1, 8))
    embeddings = rng.normal(size=(count, int(rng.integers(1, 5))))
    if count > 2 and rng.random() < 0.3:
        embeddings[1] = embeddings[0]
    relevance = np.sort(rng.random(count) ** 2)[::-1].copy()
    return relevance, embeddings, float(rng.choice([0, 0.2, 1, 20])), float(rng.choice([0, 0.5, 3])), count


def test_a_thousand_small_cases_reach_the_guaranteed_share_of_the_best_set() -> None:
    rng = np.random.default_rng(0)
    worst = 1.0
    for _ in range(1000):
        relevance, embeddings, mu, theta, count = _case(rng)
        k = int(rng.integers(1, min(count, 4) + 1))
        found = SelectionPolicy(mu=mu, theta=theta).select(relevance, embeddings, k)
        unit = unit_rows(embeddings)
        best = max(_value(relevance, unit, rows, mu, theta) for rows in combinations(range(count), k))
        own = _value(relevance, unit, tuple(found.rows.tolist()), mu, theta)
        assert found.objective == pytest.approx(own, abs=1e-9)
        assert own >= SHARE * best - 1e-9
        worst = min(worst, own / best)
    assert worst > 0.9  # far better in practice than the guarantee


def test_a_thousand_small_cases_with_a_budget_reach_half_of_that() -> None:
    rng = np.random.default_rng(1)
    for _ in range(1000):
        relevance, embeddings, mu, theta, count = _case(rng)
        costs = rng.integers(1, 10, size=count).astype(float)
        budget = float(rng.integers(1, 20))
        found = SelectionPolicy(mu=mu, theta=theta, budget=budget).select(relevance, embeddings, count, costs=costs)
        unit = unit_rows(embeddings)
        fitting = [
            rows
            for size in range(1, count + 1)
            for rows in combinations(range(count), size)
            if costs[list(rows)].sum() <= budget
        ]
        assert found.spent is not None
        assert found.spent <= budget
        if fitting:
            best = max(_value(relevance, unit, rows, mu, theta) for rows in fitting)
            assert found.objective >= SHARE / 2 * best - 1e-9


def test_lazy_and_exhaustive_greedy_pick_the_same_rows() -> None:
    rng = np.random.default_rng(2)
    for count in (3, 60, 400):
        relevance = np.sort(rng.random(count))[::-1].copy()
        embeddings = rng.normal(size=(count, 6))
        unit = unit_rows(embeddings)
        rows: list[int] = []
        for _ in range(min(count, 8)):
            gains = [
                -np.inf if row in rows else _value(relevance, unit, (*rows, row), 0.7, 2.0) for row in range(count)
            ]
            rows.append(int(np.argmax(gains)))
        found = SelectionPolicy(mu=0.7, theta=2.0).select(relevance, embeddings, min(count, 8))
        assert found.rows.tolist() == rows


@pytest.mark.parametrize("policy", [SelectionPolicy(mu=5.0), SelectionPolicy("von_neumann", penalty=1.0)])
def test_the_best_is_found_behind_many_whose_bounds_are_out_of_date(policy: SelectionPolicy) -> None:
    """Three hundred copies of one passage come first; after one of them the strangers are worth more."""
    embeddings = np.vstack([np.tile(np.eye(41)[0], (300, 1)), np.eye(41)[1:]])
    relevance = np.r_[np.full(300, 1.0), np.linspace(0.9, 0.8, 40)]
    assert policy.select(relevance, embeddings, 4).rows.tolist() == [0, 300, 301, 302]


def test_lazy_and_exhaustive_penalised_greedy_pick_the_same_rows() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        relevance = np.sort(rng.random(80))[::-1].copy()
        embeddings = rng.normal(size=(80, 4)) + 1.0
        unit = unit_rows(embeddings)
        rows: list[int] = []
        while len(rows) < 6:
            values = [
                -np.inf if row in rows else relevance[[*rows, row]].sum() - 0.3 * redundancy(unit[[*rows, row]])
                for row in range(80)
            ]
            base = relevance[rows].sum() - 0.3 * redundancy(unit[rows])
            if max(values) - base < 0:
                break
            rows.append(int(np.argmax(values)))
        found = SelectionPolicy("von_neumann", penalty=0.3).select(relevance, embeddings, 6)
        assert found.rows.tolist() == rows


def test_the_log_determinant_is_monotone_and_submodular_and_so_is_minus_the_redundancy() -> None:
    rng = np.random.default_rng(4)
    for _ in range(300):
        unit = unit_rows(rng.normal(size=(6, 3)) + rng.normal())
        order = rng.permutation(6).tolist()
        small, large, extra = order[:1], order[:4], order[5]
        zero = np.zeros(6)

        def log_det(rows: list[int], unit: np.ndarray = unit, zero: np.ndarray = zero) -> float:
            return _value(zero, unit, tuple(rows), 1.0, 2.0)

        assert log_det([*large, extra]) >= log_det(large) - 1e-9
        assert log_det([*small, extra]) - log_det(small) >= log_det([*large, extra]) - log_det(large) - 1e-9
        assert (
            redundancy(unit[[*small, extra]]) - redundancy(unit[small])
            <= redundancy(unit[[*large, extra]]) - redundancy(unit[large]) + 1e-9
        )
