"""Tests and intervals against published figures, against scipy, and against each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from phasegraph.errors import InsufficientDataError, InvalidInputError
from phasegraph.evaluation.significance import (
    bootstrap_intervals,
    holm,
    mcnemar_exact,
    paired_bootstrap,
    sign_flip,
    sign_flips,
    wins_and_losses,
)

PUBLISHED_PAIRS = [
    (8, 1, 0.039063),
    (11, 2, 0.022461),
    (15, 6, 0.078354),
    (11, 5, 0.210114),
    (1, 6, 0.125),
    (0, 3, 0.25),
    (5, 4, 1.0),
    (26, 11, 0.020074),
    (24, 7, 0.003327),
    (15, 1, 0.000519),
    (8, 0, 0.007813),
    (17, 6, 0.034690),
    (12, 0, 0.000488),
    (7, 5, 0.774414),
    (16, 5, 0.026604),
    (36, 81, 3.9e-5),
    (32, 39, 0.476688),
    (2, 22, 3.6e-5),
    (1, 5, 0.21875),
    (5, 3, 0.726563),
    (0, 0, 1.0),
]
DIFFERENCES = [0.1, 0.2, -0.05, 0.3, 0, 0, 0.15, -0.1, 0.05, 0.2]


@pytest.mark.parametrize(("wins", "losses", "expected"), PUBLISHED_PAIRS)
def test_mcnemar_gives_the_published_p_value(wins, losses, expected):
    assert mcnemar_exact(wins, losses) == pytest.approx(expected, abs=6e-7)


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_mcnemar_is_the_two_sided_binomial_test_of_scipy(wins, losses):
    if wins + losses:
        expected = stats.binomtest(wins, wins + losses).pvalue
        assert mcnemar_exact(wins, losses) == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert mcnemar_exact(wins, losses) == mcnemar_exact(losses, wins)


@pytest.mark.parametrize(("wins", "losses"), [(-1, 2), (1.5, 2), (True, 2)])
def test_mcnemar_refuses_what_is_no_count(wins, losses):
    with pytest.raises(InvalidInputError, match="wins"):
        mcnemar_exact(wins, losses)


def test_wins_and_losses_leave_out_what_neither_is_scored_on():
    system = np.array([1.0, 0.0, 1.0, np.nan])
    baseline = np.array([0.0, 1.0, 1.0, np.nan])
    assert wins_and_losses(system, baseline) == (1, 1)
    with pytest.raises(InvalidInputError, match="same queries"):
        wins_and_losses(system, np.zeros(4))
    with pytest.raises(InvalidInputError, match="one value per query"):
        wins_and_losses(system, np.zeros(3))


def test_paired_bootstrap_gives_the_golden_interval_and_p():
    found = paired_bootstrap(DIFFERENCES, rng=0)
    assert found.p == pytest.approx(0.0228, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((0.015, 0.16), abs=1e-12)
    assert found.mean == pytest.approx(np.mean(DIFFERENCES), abs=1e-15)


def test_paired_bootstrap_is_the_formula_written_out():
    values = np.random.default_rng(3).normal(0.03, 1.0, 700)
    rows = np.random.default_rng(5).integers(0, 700, (10_000, 700))
    means = values[rows].mean(axis=1)
    found = paired_bootstrap(values, rng=5)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=1e-12)
    assert found.p == pytest.approx((np.abs(means - means.mean()) >= abs(values.mean())).mean(), abs=1e-12)


def test_paired_bootstrap_never_gives_a_p_of_zero():
    assert paired_bootstrap(np.ones(50) + np.arange(50) * 1e-3, resamples=200).p == 1 / 200


def test_bootstrap_holds_its_level_when_there_is_no_difference():
    draws = np.random.default_rng(1).normal(size=(200, 80))
    share = np.mean([paired_bootstrap(row, resamples=500, rng=2).p <= 0.05 for row in draws])
    assert 0.01 <= share <= 0.11


def test_many_columns_get_the_interval_each_would_get_alone():
    rng = np.random.default_rng(0)
    columns = rng.random((60, 3))
    together = bootstrap_intervals(columns, resamples=2000, rng=7)
    for column in range(3):
        alone = paired_bootstrap(columns[:, column], resamples=2000, rng=7)
        assert together[column] == pytest.approx([alone.low, alone.high], abs=1e-12)


def test_a_column_scored_on_some_queries_ignores_the_others():
    columns = np.array([[1.0, 0.0], [1.0, np.nan], [1.0, 1.0], [1.0, np.nan]])
    low_high = bootstrap_intervals(columns, resamples=500)
    assert low_high[0] == pytest.approx([1.0, 1.0])
    assert 0.0 <= low_high[1, 0] < low_high[1, 1] <= 1.0
    assert np.isnan(bootstrap_intervals(np.full((3, 1), np.nan), resamples=10)).all()


@given(st.lists(st.integers(-320, 320).map(lambda x: x / 64), min_size=2, max_size=9))  # sums are exact, and so ties
def test_sign_flip_is_the_exact_permutation_test_of_scipy(values):
    found = stats.permutation_test(
        (np.array(values),), np.mean, permutation_type="samples", n_resamples=10_000, vectorized=True
    )
    assert sign_flip(values) == pytest.approx(found.pvalue, abs=1e-12)


@given(st.integers(0, 10), st.integers(0, 10), st.integers(0, 5))
def test_sign_flip_on_hits_and_misses_is_mcnemar(wins, losses, ties):
    values = [1.0] * wins + [-1.0] * losses + [0.0] * (ties + 1)
    assert sign_flip(values) == pytest.approx(mcnemar_exact(wins, losses), abs=1e-12)


def test_sign_flip_by_chance_comes_close_to_the_exact_one_and_repeats():
    values = np.random.default_rng(0).normal(0.3, 1.0, 60)
    exact_like = stats.ttest_1samp(values, 0.0).pvalue
    assert sign_flip(values, rng=1) == pytest.approx(exact_like, abs=0.02)
    assert sign_flip(values, rng=1) == sign_flip(values, rng=1)


@pytest.mark.parametrize("values", [[], [[1.0]]])
def test_resampling_needs_something_to_resample(values):
    for test in (paired_bootstrap, sign_flip):
        with pytest.raises(InsufficientDataError):
            test(values)


def test_resampling_refuses_nan_and_senseless_settings():
    with pytest.raises(InvalidInputError, match="finite"):
        paired_bootstrap([1.0, float("nan")])
    with pytest.raises(InvalidInputError, match="resamples"):
        paired_bootstrap([1.0], resamples=0)
    with pytest.raises(InvalidInputError, match="permutations"):
        sign_flip([1.0], permutations=0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.2))
def test_holm_rejects_what_the_step_down_rule_rejects(values, level):
    adjusted = holm(values)
    order = np.argsort(values, kind="stable")
    rejected = np.zeros(len(values), dtype=bool)
    for step, row in enumerate(order):
        if values[row] * (len(values) - step) > level:
            break
        rejected[row] = True
    assert ((adjusted <= level) == rejected).all()
    assert (adjusted >= np.array(values)).all()
    assert (adjusted <= 1).all()


def test_holm_gives_the_published_family_of_eight():
    raw = [0.0001, 0.0001, 0.0035, 0.0047, 0.2129, 0.2144, 0.4783, 1.0]
    assert holm(raw).round(4).tolist() == [0.0008, 0.0008, 0.021, 0.0235, 0.8516, 0.8516, 0.9566, 1.0]
    assert ((stats.false_discovery_control(raw) <= 0.05) == (holm(raw) <= 0.05)).all()


@pytest.mark.parametrize("values", [[1.2], [-0.1], [float("nan")], [[0.1]]])
def test_the_correction_refuses_what_is_no_p_value(values):
    with pytest.raises(InvalidInputError, match="p_values"):
        holm(values)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "10", None, float("nan")])
def test_resamples_and_permutations_are_whole_numbers_of_at_least_one(wrong):
    columns = np.array([[0.0], [1.0]])
    with pytest.raises(InvalidInputError, match=r"resamples must be (an integer|>= 1)"):
        paired_bootstrap([0.1, 0.2], resamples=wrong)
    with pytest.raises(InvalidInputError, match=r"resamples must be (an integer|>= 1)"):
        bootstrap_intervals(columns, resamples=wrong)
    with pytest.raises(InvalidInputError, match=r"permutations must be (an integer|>= 1)"):
        sign_flip([0.1, 0.2], permutations=wrong)


@pytest.mark.parametrize("wrong", [0, 1, 1.5, True, "0.95", None, float("nan")])
def test_levels_are_numbers_between_zero_and_one(wrong):
    for call in (
        lambda: paired_bootstrap([0.1, 0.2], level=wrong),
        lambda: bootstrap_intervals(np.array([[0.0], [1.0]]), level=wrong),
    ):
        with pytest.raises(InvalidInputError, match=r"level must (be a number|be finite|lie in \(0, 1\))"):
            call()


@pytest.mark.parametrize("columns", [np.zeros(3), np.zeros((2, 2, 2)), [[0.0], [1.0]], np.array([[np.inf], [0.0]])])
def test_intervals_need_a_table_of_finite_floats(columns):
    with pytest.raises(InvalidInputError, match="columns must be"):
        bootstrap_intervals(columns)


@given(st.lists(st.tuples(st.floats(-5, 5).map(lambda x: round(x, 2)), st.sampled_from("abcdefg")), min_size=1))
def test_groups_change_their_sign_together(rows):
    values, groups = [value for value, _ in rows], [group for _, group in rows]
    totals = [sum(value for value, of in rows if of == group) for group in dict.fromkeys(groups)]
    assert sign_flip(values, groups=groups) == pytest.approx(sign_flip(totals), abs=1e-12)


def test_many_columns_get_the_p_each_would_get_alone():
    rng = np.random.default_rng(0)
    columns = rng.normal(0.1, 1.0, (60, 4))
    columns[:, 1] = np.where(rng.random(60) < 0.8, 0.0, columns[:, 1])
    columns[::2, 2] = np.nan
    groups = rng.integers(0, 30, 60)
    for of in (None, groups):
        together = sign_flips(columns, groups=of, rng=7)
        alone = [sign_flip(np.nan_to_num(columns[:, place]), groups=of, rng=7) for place in (0, 1, 3)]
        assert together[[0, 1, 3]] == pytest.approx(alone, abs=1e-12)
    assert np.isnan(sign_flips(np.full((3, 1), np.nan))).all()


def test_ten_queries_of_every_collection_are_no_ten_draws():
    """Each collection has one difference, ten times over: queries alone make p tiny, whole collections do not."""
    of_collection = np.random.default_rng(2).normal(0.3, 1.0, 12)
    values, groups = np.repeat(of_collection, 10), np.repeat(np.arange(12), 10)
    assert sign_flip(values) < 0.01
    assert sign_flip(values, groups=groups) == pytest.approx(sign_flip(of_collection), abs=1e-12)
    alone = bootstrap_intervals(values[:, None], rng=0)[0]
    grouped = bootstrap_intervals(values[:, None], groups=groups, rng=0)[0]
    assert grouped[1] - grouped[0] > 2 * (alone[1] - alone[0])
    assert grouped == pytest.approx(bootstrap_intervals(of_collection[:, None], rng=0)[0], abs=1e-12)


def test_a_group_of_many_weighs_as_many_in_the_mean_of_a_resample():
    values, groups = np.array([0.0, 0.0, 0.0, 1.0])[:, None], ["a", "a", "a", "b"]
    drawn = np.random.default_rng(0).integers(0, 2, (500, 2))
    times = np.stack([(drawn == place).sum(axis=1) for place in (0, 1)], axis=1)
    means = times @ [0.0, 1.0] / (times @ [3.0, 1.0])
    expected = np.quantile(means, [0.025, 0.975])
    assert bootstrap_intervals(values, groups=groups, resamples=500)[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("groups", [["a"], [["a", "b"]], "ab"])
def test_there_is_one_group_per_query(groups):
    for call in (sign_flips, bootstrap_intervals):
        with pytest.raises(InvalidInputError, match=r"groups must have one entry per query \(2\)"):
            call(np.array([[0.0], [1.0]]), groups=groups)


def test_wins_and_losses_are_told_apart():
    assert wins_and_losses(np.array([1.0, 1.0, 1.0, 0.0, 0.5]), np.array([0.0, 0.0, 1.0, 1.0, 0.5])) == (2, 1)
    for system, baseline in (((3,), (4,)), ((4,), (3,))):
        with pytest.raises(InvalidInputError, match="one value per query"):
            wins_and_losses(np.zeros(system), np.zeros(baseline))


def test_sign_flip_does_not_depend_on_the_unit():
    differences = np.array([1.0, 2.0, -0.5, 3.0])
    assert sign_flip(1e-15 * differences) == sign_flip(differences) == sign_flip(1e15 * differences) == 0.25


@pytest.mark.parametrize("kind", [bool, int, complex, object])
def test_intervals_of_what_is_no_float_are_refused(kind):
    with pytest.raises(InvalidInputError, match="array of floats"):
        bootstrap_intervals(np.zeros((3, 1), dtype=kind))


def test_a_query_left_out_takes_no_part_in_the_mean():
    found = bootstrap_intervals(np.array([[1.0, 0.0], [np.nan, 1.0], [1.0, 1.0], [np.nan, 0.0], [1.0, 1.0]]))
    assert found[0].tolist() == [1.0, 1.0]
    assert found[1, 0] < 0.6 < found[1, 1]


def test_intervals_are_those_of_one_draw_however_many_blocks_it_takes():
    values = np.random.default_rng(1).random((3000, 2))
    drawn = np.random.default_rng(0).integers(0, 3000, (3000, 3000))  # more than fits into one block
    means = np.stack([values[:, column][drawn].mean(axis=1) for column in range(2)])
    expected = np.quantile(means, [0.025, 0.975], axis=1).T
    np.testing.assert_allclose(bootstrap_intervals(values, resamples=3000), expected, atol=1e-12)
