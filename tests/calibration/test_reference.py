from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats
from scipy.stats import norm

from phasegraph import InsufficientDataError, InvalidInputError, Ranking, ReferenceECDF, fit_reference_ecdf
from phasegraph.calibration.background import order_statistic


@settings(max_examples=repeats(80, 20), deadline=None, derandomize=True, database=None)
@given(
    st.lists(st.floats(-5, 5).map(lambda x: round(x, 3)), min_size=20, max_size=200).filter(lambda x: len(set(x)) > 1),
    st.lists(st.floats(-50, 50).map(lambda x: round(x, 3)), min_size=2, max_size=30, unique=True),
    st.booleans(),
)
def test_it_is_strictly_increasing_everywhere(sample: list[float], scores: list[float], normal: bool) -> None:
    ecdf = fit_reference_ecdf(np.array(sample), normal_scores=normal)
    values = ecdf.transform(np.sort(np.array(scores)))
    assert (np.diff(values) > 0).all()
    if not normal:
        assert ((values > 0) & (values < 1)).all()


def test_ties_get_their_mid_rank() -> None:
    ecdf = fit_reference_ecdf(np.repeat([1.0, 2.0], 10))
    np.testing.assert_allclose(ecdf.transform(np.array([1.0, 2.0])), [0.25, 0.75])


def test_twenty_scores_of_twenty_get_twenty_values() -> None:
    sample = np.random.default_rng(0).normal(size=1000)
    values = fit_reference_ecdf(sample).transform(np.linspace(2.5, 6, 20))
    assert len(np.unique(values)) == 20


def test_the_normal_form_of_a_normal_sample_is_the_score_itself() -> None:
    sample = norm.ppf((np.arange(2000) + 0.5) / 2000)
    ecdf = fit_reference_ecdf(sample, normal_scores=True)
    np.testing.assert_allclose(ecdf.transform(np.array([-1.0, 0.0, 1.5])), [-1.0, 0.0, 1.5], atol=0.01)


def test_a_sample_of_list_tops_lands_on_the_scale_of_the_background() -> None:
    """The top 50 of a million, as order statistics, come back as those order statistics (about)."""
    tops = np.array([order_statistic(rank, 1_000_000) for rank in range(1, 51)])
    ecdf = fit_reference_ecdf(np.tile(0.2 + 0.1 * tops, 40), normal_scores=True, fraction=50 / 1e6)
    values = ecdf(Ranking("v", [str(i) for i in range(50)], 0.2 + 0.1 * tops)).values
    np.testing.assert_allclose(values, tops, atol=0.12)


def test_magnitude_is_kept_across_queries() -> None:
    ecdf = fit_reference_ecdf(np.linspace(0, 1, 200), normal_scores=True)
    rich = ecdf(Ranking("v", list("abcde"), [0.99, 0.98, 0.97, 0.96, 0.95])).values
    poor = ecdf(Ranking("v", list("abcde"), [0.15, 0.14, 0.13, 0.12, 0.11])).values
    assert rich.min() > poor.max()


def test_its_state_gives_the_same_bits() -> None:
    ecdf = fit_reference_ecdf(np.random.default_rng(1).normal(size=5000), normal_scores=True, fraction=0.01)
    again = ReferenceECDF.from_dict(ecdf.to_dict())
    scores = np.linspace(-8, 8, 101)
    assert again.transform(scores).tobytes() == ecdf.transform(scores).tobytes()


def test_values_that_are_not_finite_are_left_out_of_the_fit() -> None:
    sample = np.r_[np.linspace(0, 1, 50), np.nan, np.inf]
    assert fit_reference_ecdf(sample).transform(np.array([0.5]))[0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (np.arange(19.0), "at least 20"),
        (np.ones(50), "all 50 are 1.0: "),
        ([], "at least 20"),
        (np.full(30, np.nan), "got 0"),
    ],
)
def test_too_small_a_sample_is_refused_with_the_number_needed(sample: object, message: str) -> None:
    with pytest.raises(InsufficientDataError, match=message):
        fit_reference_ecdf(sample)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "state",
    [
        {"knots": [1.0, 0.5], "levels": [0.1, 0.9], "fraction": 1.0, "normal_scores": False, "size": 10},
        {"knots": [0.0, 1.0], "levels": [0.0, 0.9], "fraction": 1.0, "normal_scores": False, "size": 10},
        {"knots": [0.0, 1.0], "levels": [0.1, 0.9], "fraction": 0.0, "normal_scores": False, "size": 10},
        {"knots": "x", "levels": [0.1, 0.9], "fraction": 1.0, "normal_scores": False, "size": 10},
        {"knots": [0.0, 1.0], "levels": [0.1, 0.9], "fraction": "1", "normal_scores": False, "size": 10},
    ],
)
def test_a_state_that_does_not_fit_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        ReferenceECDF.from_dict(state)
