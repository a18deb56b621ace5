"""Laws of a rule by itself; where a rule breaks one by its nature, the counterexample of its docstring."""

from __future__ import annotations

import numpy as np
import pytest

from phasegraph.calibration.per_list import percentile_rank
from phasegraph.fusion import FUSION_RULES

N = np.nan
NAMES = sorted(FUSION_RULES)

Matrix = list[list[float]]
#: (rule, law) -> scores, row and column of the change that breaks the law.
BROKEN: dict[tuple[str, str], tuple[Matrix, int, int]] = {
    ("boltzmann", "appended"): ([[0.2, 0.6], [0.5, 0.7], [0.8, 0.1]], -1, 1),
    ("borda", "appended"): ([[0.2, 0.7], [N, 0.8], [N, 0.9]], -1, 0),
    ("dbsf", "appended"): ([[0.3, 0.5], [0.6, N], [0.4, 0.6]], -1, 0),
    ("log_linear", "appended"): ([[1.0, 0.5], [0.4, 0.6], [1.0, 0.9]], -1, 0),
    ("power_mean", "appended"): ([[0.1, 0.4], [0.6, 0.3], [0.8, 0.3]], -1, 0),
    ("tsallis", "appended"): ([[0.2, 0.6], [0.5, 0.7], [0.8, 0.1]], -1, 1),
    ("gumbel_copula", "appended"): ([[0.8, 0.1], [0.9, 0.8], [N, 0.3]], -1, 0),
    ("interference", "appended"): ([[0.8, 0.1], [0.9, 0.8], [N, 0.3]], -1, 0),
    ("normal_scores", "appended"): ([[0.2, 0.1], [0.3, N]], -1, 1),
    ("wasserstein_temperature", "appended"): ([[0.2, 0.6], [0.5, 0.7], [0.8, 0.1]], -1, 1),
    ("plackett_luce", "appended"): ([[0.2, 0.1], [0.3, N]], -1, 1),
    ("boltzmann", "extra"): ([[N, 0.5], [0.6, 0.9], [0.5, N]], 0, 0),
    ("comb_anz", "extra"): ([[0.9, 0.1], [0.7, N]], 1, 1),
    ("comb_med", "extra"): ([[0.9, 0.1], [0.7, N]], 1, 1),
    ("tsallis", "extra"): ([[N, 0.5], [0.6, 0.9], [0.5, N]], 0, 0),
    ("gumbel_copula", "extra"): ([[0.5, 0.4], [0.4, 0.6], [N, 0.9]], 2, 0),
    ("interference", "extra"): ([[N, 0.5], [0.6, 0.9], [0.5, N]], 0, 0),
    ("normal_scores", "extra"): ([[0.1, N], [N, 0.3]], 0, 1),
    ("wasserstein_temperature", "extra"): ([[N, 0.5], [0.6, 0.9], [0.5, N]], 0, 0),
    ("log_linear", "raised"): ([[0.5, 1.0], [N, 1.0], [0.8, 0.5], [0.8, 0.6]], 2, 0),
    ("gumbel_copula", "raised"): ([[0.8, N], [0.6, 0.7], [0.5, 0.6], [0.4, 0.4], [N, 0.6]], 3, 0),
    ("wasserstein_temperature", "raised"): ([[N, 0.5], [0.7, 0.5], [N, 0.9], [0.6, N], [0.1, N]], 1, 0),
}


def _fused(name: str, scores: np.ndarray) -> np.ndarray:
    rule = FUSION_RULES[name]
    values = scores
    if rule.expects == "percentile":
        values = np.full(scores.shape, N)
        for column in range(scores.shape[1]):
            rows = ~np.isnan(scores[:, column])
            values[rows, column] = percentile_rank(scores[rows, column])
    return rule.function(values, weights=np.full(scores.shape[1], 1 / scores.shape[1]))


def _above(values: np.ndarray, row: int) -> int:
    return int((values > values[row] + 1e-9).sum())


def _appended(name: str, scores: np.ndarray, _: int, column: int) -> bool:
    """A new worst hit of a list changes no order among the others."""
    low = 0.0 if FUSION_RULES[name].expects == "bounded" else float(np.nanmin(scores[:, column])) - 0.3
    new = np.full((1, scores.shape[1]), N)
    new[0, column] = low
    before, after = _fused(name, scores), _fused(name, np.vstack([scores, new]))[:-1]
    turned = np.sign(np.round(before[:, None] - before, 9)) * np.sign(np.round(after[:, None] - after, 9))
    return bool((turned >= 0).all())


def _extra(name: str, scores: np.ndarray, row: int, column: int) -> bool:
    """A candidate that one more source returns, last, loses no place."""
    if not np.isnan(scores[row, column]):
        return True
    more = scores.copy()
    more[row, column] = max(float(np.nanmin(scores[:, column])) - 0.05, 0.0)
    return _above(_fused(name, more), row) <= _above(_fused(name, scores), row)


def _raised(name: str, scores: np.ndarray, row: int, column: int) -> bool:
    """A candidate whose score rises is passed by nobody it was level with or above."""
    if np.isnan(scores[row, column]):
        return True
    more = scores.copy()
    more[row, column] = min(more[row, column] + 0.15, 1.0 if FUSION_RULES[name].expects == "bounded" else np.inf)
    before, after = _fused(name, scores), _fused(name, more)
    return not bool(((after > after[row] + 1e-9) & (before <= before[row] + 1e-9)).any())


LAWS = {"appended": _appended, "extra": _extra, "raised": _raised}


def _draw(rng: np.random.Generator) -> np.ndarray:
    while True:
        scores = np.round(rng.random((int(rng.integers(2, 6)), 2)), 1)
        scores[rng.random(scores.shape) < 0.3] = N
        scores = scores[~np.isnan(scores).all(axis=1)]
        if len(scores) >= 2 and not np.isnan(scores).all(axis=0).any():
            return scores


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", NAMES)
def test_a_law_holds_or_its_counterexample_breaks_it(name: str, law: str) -> None:
    if (name, law) in BROKEN:
        scores, row, column = BROKEN[name, law]
        assert not LAWS[law](name, np.array(scores), row, column)
        return
    rng = np.random.default_rng(0)
    for _ in range(250):
        scores = _draw(rng)
        row, column = int(rng.integers(len(scores))), int(rng.integers(2))
        assert LAWS[law](name, scores, row, column), (scores.tolist(), row, column)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_rows_and_of_sources_does_not_matter(name: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        scores = _draw(rng)
        plain = _fused(name, scores)
        rows = rng.permutation(len(scores))
        np.testing.assert_allclose(_fused(name, scores[rows]), plain[rows], atol=1e-8)
        np.testing.assert_allclose(_fused(name, scores[:, ::-1]), plain, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_a_source_of_weight_zero_is_as_if_it_were_not_there(name: str) -> None:
    rng = np.random.default_rng(2)
    rule = FUSION_RULES[name]
    for _ in range(50):
        scores = _draw(rng)
        values = np.where(np.isnan(scores), N, np.clip(scores, 0.05, 1.0))
        rows = ~np.isnan(values[:, 0])
        alone = rule.function(values[rows, :1], weights=np.array([1.0]))
        beside = rule.function(values[rows], weights=np.array([1.0, 0.0]))
        np.testing.assert_allclose(beside, alone, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_given_is_not_changed_and_nothing_is_infinite(name: str) -> None:
    values = np.array([[1.0, 0.5], [0.5, N], [N, 1.0]])
    weights = np.array([0.3, 0.7])
    fused = FUSION_RULES[name].function(values, weights=weights)
    assert np.isfinite(fused).all()
    np.testing.assert_array_equal(values, [[1.0, 0.5], [0.5, N], [N, 1.0]])
    np.testing.assert_array_equal(weights, [0.3, 0.7])


@pytest.mark.parametrize("name", NAMES)
def test_a_column_that_returned_nothing_and_no_candidates_at_all_are_fine(name: str) -> None:
    rule = FUSION_RULES[name].function
    assert np.isfinite(rule(np.array([[1.0, N], [0.5, N]]))).all()
    assert rule(np.empty((0, 2))).shape == (0,)
