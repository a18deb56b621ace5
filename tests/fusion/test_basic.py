from __future__ import annotations

import numpy as np
import pytest

from phasegraph import FusionPipeline, InvalidInputError, ListCalibrator, Ranking
from phasegraph.fusion import FUSION_RULES, comb_mnz, comb_sum, linear, reciprocal_rank

VECTOR = Ranking("vector", ["a", "b", "c", "d", "e"], [0.62, 0.55, 0.41, 0.40, 0.12])
GRAPH = Ranking("graph", ["c", "f", "b", "g"], [0.31, 0.02, 0.004, 0.001])
NAN = np.nan


def test_linear_over_percentiles_golden() -> None:
    pipeline = FusionPipeline(calibrator=ListCalibrator("percentile"), weights={"vector": 0.7, "graph": 0.3})
    result = pipeline.decide([VECTOR, GRAPH])
    assert dict(zip(result.ids, result.fused.round(6).tolist(), strict=True)) == {
        "c": 0.72, "b": 0.71, "a": 0.70, "d": 0.28, "f": 0.225, "e": 0.14, "g": 0.075,
    }  # fmt: skip
    assert result.ids[:3] == ("c", "b", "a")


def test_weighted_reciprocal_rank_golden() -> None:
    ranks = -np.array([[1, 2, NAN], [NAN, 1, 3], [NAN, NAN, 1], [5, 5, 5]], dtype=float)
    fillers = -np.array([[2, 3, 2], [3, 4, 4], [4, 6, 6]], dtype=float)
    fused = reciprocal_rank(np.vstack([ranks, fillers]), weights=np.array([1.0, 1.0, 0.35]))
    np.testing.assert_allclose(fused[:3], [0.0325224749, 0.0219489982, 0.0057377049], atol=5e-11)


def test_reciprocal_rank_on_the_same_lists_golden() -> None:
    result = FusionPipeline.reciprocal_rank().decide([VECTOR, GRAPH])
    doubled = dict(zip(result.ids, (2 * result.fused).round(6).tolist(), strict=True))
    assert doubled == {
        "c": 0.032266, "b": 0.032002, "a": 0.016393, "f": 0.016129, "d": 0.015625, "g": 0.015625, "e": 0.015385,
    }  # fmt: skip
    assert result.ids.index("d") < result.ids.index("g")


def test_ties_share_their_mean_rank() -> None:
    fused = reciprocal_rank(np.array([[2.0], [2.0], [1.0]]), rank_constant=1.0)
    np.testing.assert_allclose(fused, [1 / 2.5, 1 / 2.5, 1 / 4])


def test_comb_sum_and_comb_mnz_by_hand() -> None:
    values = np.array([[0.5, 0.25, NAN], [NAN, NAN, 1.0], [0.1, 0.2, 0.3]])
    np.testing.assert_allclose(comb_sum(values), [0.75, 1.0, 0.6])
    np.testing.assert_allclose(comb_mnz(values), [1.5, 1.0, 1.8])
    np.testing.assert_allclose(comb_mnz(values, weights=np.array([1.0, 0.0, 1.0])), [0.5, 1.0, 0.8])


def test_linear_takes_each_source_s_own_value_for_a_missing_candidate() -> None:
    fused = linear(np.array([[1.0, NAN]]), weights=np.array([0.5, 0.5]), missing=np.array([0.0, -2.0]))
    assert fused.tolist() == [-0.5]


@pytest.mark.parametrize("rank_constant", [0.0, -1.0, NAN, np.inf])
def test_a_rank_constant_that_is_not_positive_is_refused(rank_constant: float) -> None:
    with pytest.raises(InvalidInputError, match="rank_constant"):
        reciprocal_rank(np.ones((2, 2)), rank_constant=rank_constant)


@pytest.mark.parametrize("rule", ["linear", "comb_sum", "comb_mnz", "rrf", "boltzmann"])
@pytest.mark.parametrize(
    ("values", "weights"),
    [
        (np.ones(3), None),
        (np.full((2, 2), np.inf), None),
        (np.ones((2, 2)), np.ones(3)),
        (np.ones((2, 2)), np.array([1.0, -1.0])),
        (np.ones((2, 2)), np.array([1.0, NAN])),
    ],
)
def test_input_of_the_wrong_shape_or_sign_is_refused(rule: str, values: np.ndarray, weights: object) -> None:
    with pytest.raises(InvalidInputError):
        FUSION_RULES[rule].function(values, weights=weights)


@pytest.mark.parametrize("rule", sorted(FUSION_RULES))
def test_every_rule_answers_an_empty_pool_with_an_empty_array(rule: str) -> None:
    assert FUSION_RULES[rule].function(np.empty((0, 2)), weights=np.ones(2)).shape == (0,)
