"""Golden numbers of the remaining rules: the specification's, or worked out by hand."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from phasegraph import FusionPipeline, Ranking
from phasegraph.errors import InvalidInputError, NotConvergedError
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.experimental import (
    copula_theta,
    gumbel_copula,
    interference,
    log_linear,
    normal_scores,
    plackett_luce,
    power_mean,
    tsallis,
    wasserstein_temperature,
)
from phasegraph.fusion.rules import boltzmann, borda, comb_anz, comb_med, dbsf, inverse_square_rank, linear

N = np.nan
IDS = "abcdefg"
#: Columns vector (a b c d e) and graph (c f b g): own-list percentiles, and the scores they come from.
PERCENTILES = np.array([[1, N], [0.8, 0.5], [0.6, 1], [0.4, N], [0.2, N], [N, 0.75], [N, 0.25]])
SCORES = np.array([[0.62, N], [0.55, 0.004], [0.41, 0.31], [0.40, N], [0.12, N], [N, 0.02], [N, 0.001]])
WEIGHTS = np.array([0.7, 0.3])
GRAPH_DEFORMED = {
    "a": 0.393196, "c": 0.253040, "b": 0.234565, "f": 0.077425, "d": 0.023649, "g": 0.015305, "e": 0.002821,
}  # fmt: skip


def _ordered(values: np.ndarray) -> dict[str, float]:
    return {IDS[row]: round(float(values[row]), 6) for row in np.argsort(-values, kind="stable")}


def _same(found: dict[str, float], golden: dict[str, float]) -> None:
    assert found == golden
    assert list(found) == list(golden)


def test_log_linear_golden() -> None:
    _same(
        _ordered(log_linear(PERCENTILES, weights=WEIGHTS)),
        {
            "c": -1.619032, "b": -1.704027, "a": -4.548393, "d": -6.516055, "e": -8.004393, "f": -10.080863,
            "g": -11.194688,
        },
    )  # fmt: skip


def test_power_mean_golden() -> None:
    _same(
        _ordered(power_mean(PERCENTILES, weights=WEIGHTS)),
        {"c": 0.709331, "b": 0.702631, "a": 0.49, "d": 0.196, "e": 0.098, "f": 0.0675, "g": 0.0225},
    )


def test_power_mean_joins_the_weighted_mean_and_the_geometric_mean() -> None:
    both = PERCENTILES[1:3]
    np.testing.assert_allclose(
        power_mean(PERCENTILES, weights=WEIGHTS, exponent=1), linear(PERCENTILES, weights=WEIGHTS)
    )
    geometric = both[:, 0] ** 0.7 * both[:, 1] ** 0.3
    np.testing.assert_allclose(power_mean(both, weights=WEIGHTS, exponent=0), geometric)
    np.testing.assert_allclose(power_mean(both, weights=WEIGHTS, exponent=1e-9), geometric, rtol=1e-6)
    harmonic = 1 / (0.7 / both[:, 0] + 0.3 / both[:, 1])
    np.testing.assert_allclose(power_mean(both, weights=WEIGHTS, exponent=-1), harmonic)


def test_power_mean_without_a_positive_exponent_vetoes_what_is_missing() -> None:
    for exponent in (0.0, -1.0):
        values = power_mean(PERCENTILES, weights=WEIGHTS, exponent=exponent)
        assert (values[[0, 3, 4, 5, 6]] == 0).all()
        assert (values[[1, 2]] > 0).all()


def test_tsallis_golden() -> None:
    """The graph's list deformed, the vector's not; and both."""
    _same(_ordered(tsallis(PERCENTILES, weights=WEIGHTS, q=np.array([1.0, 1.5]))), GRAPH_DEFORMED)
    assert _ordered(tsallis(PERCENTILES, weights=WEIGHTS))["a"] == pytest.approx(0.329, abs=5e-4)


def test_the_pipeline_named_tsallis_deforms_the_graphs_list_alone() -> None:
    """Through a pipeline the order of the sources is another: by name."""
    columns = zip(("vector", "graph"), SCORES.T, strict=True)
    lists = [
        Ranking.from_hits(name, *zip(*((i, s) for i, s in zip(IDS, of, strict=True) if s == s), strict=True))
        for name, of in columns
    ]
    pipeline = FusionPipeline.named("tsallis", {"vector": 0.7, "graph": 0.3})
    found = pipeline.decide(lists)
    _same(dict(zip(found.ids, found.fused.round(6).tolist(), strict=True)), GRAPH_DEFORMED)
    np.testing.assert_allclose(found.contributions.sum(axis=1), found.fused, atol=1e-9)
    alone = pipeline.decide(lists[:1])
    assert alone.fused.tolist() == FusionPipeline.named("boltzmann").decide(lists[:1]).fused.tolist()
    both = replace(pipeline, rule_options={"q": 1.5}).decide(lists)
    assert both.fused[both.ids.index("a")] == pytest.approx(0.329, abs=5e-4)


def test_an_option_by_source_name_outlives_copies_and_refuses_what_it_cannot_use() -> None:
    pipeline = FusionPipeline.named("tsallis")
    for copied in (pickle.loads(pickle.dumps(pipeline)), FusionPipeline.from_dict(pipeline.to_dict())):  # noqa: S301
        assert copied == pipeline
        assert copied.rule_options["q"] == {"graph": 1.5}
    with pytest.raises(TypeError):
        pipeline.rule_options["q"]["graph"] = 2.0
    with pytest.raises(InvalidInputError, match=r"names only sources of weights \(a, b\); it names graph"):
        FusionPipeline.named("tsallis", {"a": 1.0, "b": 1.0})
    with pytest.raises(InvalidInputError, match=r"q must .*2.*got 7"):
        replace(pipeline, rule_options={"q": {"vector": 1.2, "graph": 7.0}})
    with pytest.raises(InvalidInputError, match="have a value of a wrong type"):
        replace(pipeline, rule_options={"epsilon": {"graph": 1e-6}})
    with pytest.raises(InvalidInputError, match=r"one per source \(2\); got 3"):
        tsallis(PERCENTILES, q=np.array([1.0, 1.5, 1.5]))


def test_tsallis_at_one_is_boltzmann_and_close_by_above() -> None:
    plain = boltzmann(PERCENTILES, weights=WEIGHTS)
    np.testing.assert_array_equal(tsallis(PERCENTILES, weights=WEIGHTS, q=1.0), plain)
    np.testing.assert_allclose(tsallis(PERCENTILES, weights=WEIGHTS, q=1 + 1e-7), plain, atol=1e-6)


def test_gumbel_copula_golden() -> None:
    _same(
        _ordered(gumbel_copula(PERCENTILES, theta=2.0)),
        {"c": 0.6, "b": 0.482787, "a": 0.2, "f": 0.162886, "d": 0.156924, "g": 0.103784, "e": 0.102685},
    )


def test_gumbel_copula_at_one_is_the_product_and_few_shared_candidates_give_one() -> None:
    assert copula_theta(PERCENTILES) == 1.0
    filled = np.where(np.isnan(PERCENTILES), [1 / 6, 1 / 5], PERCENTILES)
    np.testing.assert_allclose(gumbel_copula(PERCENTILES), filled.prod(axis=1))


def test_copula_theta_golden() -> None:
    """Four shared candidates, one of six pairs discordant: tau 4/6 - ... = (5 - 1) / 6, theta 1 / (1 - 2/3) = 3."""
    table = np.array([[1.0, 1.0], [0.75, 0.75], [0.5, 0.25], [0.25, 0.5], [N, 0.1]])
    assert copula_theta(table) == pytest.approx(3.0)
    assert copula_theta(np.array([[1.0, 1.0], [0.5, 0.5], [0.2, 0.2]])) == 20.0
    assert copula_theta(np.array([[1.0, 0.2], [0.5, 0.5], [0.2, 1.0]])) == 1.0


def test_interference_golden() -> None:
    _same(
        _ordered(interference(PERCENTILES, weights=WEIGHTS)),
        {"c": 0.541865, "a": 0.393196, "b": 0.341863, "f": 0.076485, "d": 0.023649, "e": 0.002821, "g": 0.001867},
    )


def test_interference_at_a_right_angle_is_boltzmann() -> None:
    np.testing.assert_allclose(
        interference(PERCENTILES, weights=WEIGHTS, phase=math.pi / 2),
        boltzmann(PERCENTILES, weights=WEIGHTS),
        atol=1e-15,
    )


def test_normal_scores_golden() -> None:
    """Quantiles of .9 .7 .5 .3 .1 (vector), .875 .625 .375 .125 (graph); missing .5/6 and .5/5."""
    z = {"v": [1.281552, 0.524401, 0.0, -0.524401, -1.281552], "g": [1.150349, 0.318639, -0.318639, -1.150349]}
    vector, graph = (
        [*z["v"], -1.382994, -1.382994],
        [-1.281552, z["g"][2], z["g"][0], *[-1.281552] * 2, z["g"][1], z["g"][3]],
    )
    golden = 0.7 * np.array(vector) + 0.3 * np.array(graph)
    np.testing.assert_allclose(normal_scores(SCORES, weights=WEIGHTS), golden, atol=1e-6)


def test_wasserstein_temperature_golden() -> None:
    """Lists (0, 1) and (0, .5, 1): shares 1/2, 1/2 against 1/3, 2/3 over two gaps of .5: W = 1/6."""
    table = np.array([[2.0, N], [1.0, 8.0], [N, 6.0], [N, 4.0]])
    shares = np.array([[1.0, N], [0.5, 1.0], [N, 2 / 3], [N, 1 / 3]])
    golden = np.zeros(4)
    for column in (0, 1):
        rows = ~np.isnan(shares[:, column])
        energy = -np.log(shares[rows, column] + 1e-6)
        weights = np.exp(-energy / (0.5 * energy.mean() * (1 + 1 / 6)))
        golden[rows] += 0.5 * weights / weights.sum()
    np.testing.assert_allclose(wasserstein_temperature(table, weights=np.array([0.5, 0.5])), golden)


def test_wasserstein_temperature_without_strength_is_boltzmann() -> None:
    np.testing.assert_allclose(
        wasserstein_temperature(SCORES, weights=WEIGHTS, strength=0.0), boltzmann(PERCENTILES, weights=WEIGHTS)
    )


def test_plackett_luce_golden() -> None:
    """Two candidates and the phantom: the second's strength is 1 / x, 2 = x^2 / (x^2 + 1) + 2 x / (x + 1)."""
    first, second = plackett_luce(np.array([[9.0], [3.0]]))
    x = math.exp(first)
    assert first == pytest.approx(-second)
    assert x**2 / (x**2 + 1) + 2 * x / (x + 1) == pytest.approx(2.0)


def test_plackett_luce_solves_its_own_equations_for_a_list_with_ties_and_absent_candidates() -> None:
    strengths = np.exp(plackett_luce(np.array([[9.0], [3.0], [3.0], [N], [1.0]])))
    a, b, c, absent, last = strengths
    assert b == pytest.approx(c)
    everyone, rest = strengths.sum(), strengths.sum() - a
    tail = absent + last
    stages = 1 / everyone + 2 / rest + 1 / tail
    for strength, wins, met in (
        (a, 1, 1 / everyone),
        (b, 1, 1 / everyone + 2 / rest),
        (last, 1, stages),
        (absent, 0, stages),
    ):
        assert wins + 1 == pytest.approx(strength * (met + 2 / (strength + 1)))
    assert a > b > last > absent


def test_plackett_luce_without_the_prior_would_diverge_and_too_few_steps_are_an_error() -> None:
    weak = plackett_luce(np.array([[9.0], [3.0]]), prior=0.05)[0]
    assert weak > 2 * plackett_luce(np.array([[9.0], [3.0]]))[0]
    with pytest.raises(NotConvergedError, match="within 2 steps"):
        plackett_luce(np.array([[9.0], [3.0]]), iterations=2)


def test_comb_anz_and_comb_med_golden() -> None:
    anz = comb_anz(PERCENTILES, weights=WEIGHTS)
    np.testing.assert_allclose(anz, [1, 0.71, 0.72, 0.4, 0.2, 0.75, 0.25])
    np.testing.assert_allclose(comb_med(PERCENTILES), [1, 0.65, 0.8, 0.4, 0.2, 0.75, 0.25])
    three = np.array([[0.1, 0.9, 0.5]])
    np.testing.assert_allclose(comb_med(three), [0.5])
    np.testing.assert_allclose(comb_med(three, weights=np.array([1.0, 3.0, 1.0])), [0.9])
    np.testing.assert_allclose(comb_med(three, weights=np.array([1.0, 0.0, 1.0])), [0.3])
    assert comb_anz(three, weights=np.zeros(3))[0] == comb_med(three, weights=np.zeros(3))[0] == 0.0


def test_inverse_square_rank_golden() -> None:
    """c: two lists, ranks 3 and 1: 2 * (.7 / 9 + .3)."""
    found = inverse_square_rank(PERCENTILES, weights=WEIGHTS)
    np.testing.assert_allclose(found[[0, 1, 2, 3]], [0.7, 2 * (0.7 / 4 + 0.3 / 9), 2 * (0.7 / 9 + 0.3), 0.7 / 16])


def test_borda_golden() -> None:
    """Seven candidates: the vector's five get 7 to 3 and leave 1.5 each; the graph's four 7 to 4 and leave 2 each."""
    np.testing.assert_allclose(
        borda(PERCENTILES),
        [7 + 2, 6 + 5, 5 + 7, 4 + 2, 3 + 2, 1.5 + 6, 1.5 + 4],
    )


def test_dbsf_golden() -> None:
    """3, 2, 1: mean 2, deviation sqrt(2/3); .5 + 1 / (6 * .8165) = .7041. A single score is worth one half."""
    table = np.array([[3.0, N], [2.0, 5.0], [1.0, N]])
    np.testing.assert_allclose(dbsf(table), [0.704124, 1.0, 0.295876], atol=1e-6)
    assert dbsf(np.array([[7.0], [7.0]])).tolist() == [0.5, 0.5]


def test_dbsf_clips_beyond_three_deviations() -> None:
    column = np.r_[np.zeros(30), 1.0][:, None]
    assert dbsf(column)[-1] == 1.0


@pytest.mark.parametrize(
    ("rule", "option", "value"),
    [
        (log_linear, "epsilon", 0.0), (power_mean, "exponent", math.inf), (tsallis, "q", 0.9), (tsallis, "q", 2.1),
        (gumbel_copula, "theta", 0.5), (interference, "phase", -0.1), (interference, "phase", 2.0),
        (wasserstein_temperature, "strength", -1.0), (plackett_luce, "prior", 0.0), (plackett_luce, "iterations", 0),
        (plackett_luce, "tolerance", math.nan),
    ],
)  # fmt: skip
def test_options_outside_their_range_are_refused(rule, option: str, value: float) -> None:
    with pytest.raises(InvalidInputError, match=option):
        rule(PERCENTILES, **{option: value})


@pytest.mark.parametrize("rule", [log_linear, power_mean, tsallis, gumbel_copula, interference])
def test_values_that_are_no_percentiles_are_refused(rule) -> None:
    with pytest.raises(InvalidInputError, match="percentile"):
        rule(np.array([[1.5], [0.2]]))


@pytest.mark.parametrize("rule", [power_mean, gumbel_copula])
def test_a_mean_needs_a_weight(rule) -> None:
    with pytest.raises(InvalidInputError, match="weights"):
        rule(PERCENTILES, weights=np.zeros(2))


@pytest.mark.parametrize("name", FUSION_RULES)
def test_every_rule_refuses_infinity_and_weights_that_do_not_fit(name: str) -> None:
    rule = FUSION_RULES[name].function
    with pytest.raises(InvalidInputError, match="finite"):
        rule(np.array([[np.inf], [0.5]]))
    for weights in ([1.0], [1.0, -1.0], [1.0, np.nan]):
        with pytest.raises(InvalidInputError, match="weights"):
            rule(PERCENTILES, weights=np.array(weights))
