from __future__ import annotations

import numpy as np
import pytest

from phasegraph import FusionPipeline, InvalidInputError, ListCalibrator, PhasegraphWarning, Ranking
from phasegraph.calibration.per_list import percentile_rank
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.rules import boltzmann, boltzmann_temperature, comb_mnz, comb_sum, linear, reciprocal_rank

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
    assert dict(zip(result.ids, result.fused.round(6).tolist(), strict=True)) == {
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


def _untied(count: int) -> np.ndarray:
    return percentile_rank(np.arange(count, 0, -1.0))


def _paper(vector: float, bonus: float = 0.0) -> dict[str, float]:
    pipeline = FusionPipeline(
        calibrator=ListCalibrator("percentile"),
        rule="boltzmann",
        weights={"vector": vector, "graph": 1 - vector},
        consensus_bonus=bonus,
    )
    result = pipeline.decide([VECTOR, GRAPH])
    return dict(zip(result.ids, result.fused.round(6).tolist(), strict=True))


def test_temperatures_and_weights_golden() -> None:
    vector, graph = percentile_rank(VECTOR.scores), percentile_rank(GRAPH.scores)
    assert boltzmann_temperature(vector) == pytest.approx(0.32596864, abs=5e-9)
    assert boltzmann_temperature(graph) == pytest.approx(0.29588941, abs=5e-9)
    np.testing.assert_allclose(
        boltzmann(vector[:, None]), [0.56170805, 0.28327771, 0.11720022, 0.03378472, 0.0040293], atol=5e-9
    )
    np.testing.assert_allclose(boltzmann(graph[:, None]), [0.67406475, 0.25494942, 0.06476342, 0.00622242], atol=1e-8)


def test_fused_golden_at_vector_weight_seven_tenths() -> None:
    assert _paper(0.7) == {
        "a": 0.393196, "c": 0.284260, "b": 0.217723, "f": 0.076485, "d": 0.023649, "e": 0.002821, "g": 0.001867,
    }  # fmt: skip
    assert list(_paper(0.7))[:3] == ["a", "c", "b"]


def test_fused_golden_with_a_bonus() -> None:
    found = _paper(0.7, 0.05)
    assert (found["a"], found["c"], found["b"]) == (0.393196, 0.334260, 0.267723)


def test_a_bonus_above_every_value_makes_the_order_lexicographic_and_warns() -> None:
    with pytest.warns(PhasegraphWarning, match="consensus_bonus"):
        found = _paper(0.7, 1.0)
    assert list(found)[:3] == ["c", "b", "a"]
    assert (found["c"], found["b"]) == (1.284260, 1.217723)


def test_fused_golden_at_vector_weight_four_tenths() -> None:
    assert _paper(0.4) == {
        "c": 0.451319, "a": 0.224683, "f": 0.152970, "b": 0.152169, "d": 0.013514, "g": 0.003733, "e": 0.001612,
    }  # fmt: skip


def test_linear_and_boltzmann_order_the_same_lists_differently() -> None:
    linear = FusionPipeline(calibrator=ListCalibrator("percentile"), weights={"vector": 0.7, "graph": 0.3})
    assert linear.decide([VECTOR, GRAPH]).ids[:3] == ("c", "b", "a")
    assert tuple(_paper(0.7))[:3] == ("a", "c", "b")


@pytest.mark.parametrize(
    ("count", "temperature"),
    [
        (2, 0.173286), (3, 0.250679), (5, 0.325969), (10, 0.396070), (20, 0.439474), (30, 0.456293), (50, 0.471232),
        (100, 0.483886), (200, 0.491076), (1000, 0.497810), (2000, 0.498816),
    ],
)  # fmt: skip
def test_the_temperature_of_an_untied_list_depends_on_its_length_only(count: int, temperature: float) -> None:
    assert boltzmann_temperature(_untied(count)) == pytest.approx(temperature, abs=2e-6)


@pytest.mark.parametrize(
    ("count", "top"),
    [
        (5, 0.561708), (10, 0.297787), (20, 0.151159), (30, 0.100950), (50, 0.060538), (100, 0.030201),
        (200, 0.015067), (1000, 0.003004), (2000, 0.001501),
    ],
)  # fmt: skip
def test_the_top_of_a_list_falls_like_three_over_its_length(count: int, top: float) -> None:
    assert boltzmann(_untied(count)[:, None])[0] == pytest.approx(top, abs=6e-7)


def test_the_max_norm_s_top_does_not_depend_on_the_length() -> None:
    tops = [boltzmann(_untied(count)[:, None], norm="max")[0] for count in (2, 5, 50, 500)]
    assert tops == [1.0, 1.0, 1.0, 1.0]


def test_rank_five_of_ten_weighs_the_same_whether_the_scores_are_flat_or_drop() -> None:
    flat = percentile_rank(np.linspace(0.9, 0.8, 10))
    sharp = percentile_rank(np.array([0.99, 0.98, 0.97, 0.96, 0.2, 0.1, 0.09, 0.08, 0.07, 0.06]))
    for percentiles in (flat, sharp):
        assert boltzmann(percentiles[:, None])[4] == pytest.approx(0.0819940192, abs=5e-11)


@pytest.mark.parametrize("norm", ["sum", "max"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_list_without_energy_gets_equal_weights(count: int, norm: str) -> None:
    expected = 1 / count if norm == "sum" else 1.0
    np.testing.assert_allclose(boltzmann(np.ones((count, 1)), norm=norm), expected)  # type: ignore[arg-type]


def test_a_fixed_temperature_of_one_half_is_nearly_the_automatic_one_for_long_lists() -> None:
    percentiles = _untied(1000)[:, None]
    np.testing.assert_allclose(boltzmann(percentiles, temperature=0.5), boltzmann(percentiles), atol=2e-5)


@pytest.mark.parametrize(
    ("option", "value"),
    [("epsilon", 0.0), ("temperature_factor", -1.0), ("temperature", 0.0), ("temperature", np.nan), ("norm", "l2")],
)
def test_an_option_outside_its_range_is_refused(option: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=option):
        boltzmann(np.ones((2, 1)), **{option: value})  # type: ignore[arg-type]


def test_values_that_are_no_percentiles_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="percentile"):
        boltzmann(np.array([[17.0], [0.3]]))


def test_the_named_configurations_are_the_paper_s() -> None:
    musique, two_wiki = FusionPipeline.paper(), FusionPipeline.paper("2wiki")
    assert (musique.weights, dict(musique.pool_caps)) == ({"graph": pytest.approx(0.3), "vector": 0.7}, {"graph": 30})
    assert (two_wiki.weights, dict(two_wiki.pool_caps)) == ({"graph": 0.6, "vector": 0.4}, {"graph": 20})
    with pytest.raises(InvalidInputError, match="configuration"):
        FusionPipeline.paper("hotpot")
