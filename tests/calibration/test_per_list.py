from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from phasegraph import InvalidInputError, ListCalibrator, Ranking
from phasegraph.calibration import CALIBRATORS, calibrator_from_dict
from phasegraph.calibration.per_list import (
    log_z_score,
    max_normalise,
    min_max,
    percentile_rank,
    theoretical_min_max,
    z_score,
)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.62, 0.55, 0.41, 0.40, 0.12], [1, 0.8, 0.6, 0.4, 0.2]),
        ([0.5, 0.5, 0.2], [1, 1, 1 / 3]),
        ([1, 1, 1], [1, 1, 1]),
        ([7.0], [1]),
        ([], []),
    ],
)
def test_percentile_rank_golden(scores: list[float], expected: list[float]) -> None:
    np.testing.assert_array_equal(percentile_rank(np.array(scores, dtype=float)), expected)


def test_percentile_rank_is_a_function_of_ranks_only() -> None:
    scores = np.array([0.9, 0.3, 0.31, -0.2, 0.05])
    assert percentile_rank(scores).tobytes() == percentile_rank(np.exp(5 * scores)).tobytes()


@pytest.mark.parametrize("function", [percentile_rank, min_max, max_normalise, z_score, log_z_score])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_refused(function: object, bad: float) -> None:
    with pytest.raises(InvalidInputError, match="finite"):
        function(np.array([1.0, bad]))  # type: ignore[operator]


@pytest.mark.parametrize("constant", [0.0, 0.5, 1.0])
def test_min_max_of_a_constant_list_is_the_callers_choice(constant: float) -> None:
    assert min_max(np.array([3.0, 3.0]), constant=constant).tolist() == [constant, constant]


def test_min_max_survives_the_ends_of_the_float_range() -> None:
    assert min_max(np.array([1e308, 0.0, -1e308])).tolist() == [1.0, 0.5, 0.0]


def test_min_max_refuses_a_constant_outside_the_unit_interval() -> None:
    with pytest.raises(InvalidInputError, match="constant"):
        min_max(np.array([1.0]), constant=1.5)


def test_theoretical_min_max_keeps_the_infimum_a_parameter() -> None:
    cosines = np.array([0.6, 0.2])
    np.testing.assert_allclose(theoretical_min_max(cosines, infimum=-1.0), [1.0, 0.75])
    np.testing.assert_allclose(theoretical_min_max(cosines, infimum=0.0), [1.0, 1 / 3])


def test_theoretical_min_max_of_a_best_score_at_the_infimum_is_zero() -> None:
    assert theoretical_min_max(np.array([0.0, 0.0]), infimum=0.0).tolist() == [0.0, 0.0]


def test_theoretical_min_max_names_a_score_below_the_infimum() -> None:
    with pytest.raises(InvalidInputError, match="infimum"):
        theoretical_min_max(np.array([-0.5]), infimum=0.0)


@pytest.mark.parametrize("scores", [[-1.0, 2.0], [0.0, 0.0]])
def test_max_normalise_refuses_what_it_cannot_divide(scores: list[float]) -> None:
    with pytest.raises(InvalidInputError, match="max normalization"):
        max_normalise(np.array(scores))


@pytest.mark.parametrize("function", [z_score, log_z_score])
def test_equal_scores_have_no_z_score_whatever_their_mean_is_rounded_to(function: Callable[..., np.ndarray]) -> None:
    for score in (0.215111, 0.1, 1 / 3):
        for count in (3, 7, 10):
            assert function(np.full(count, score)).tolist() == [0.0] * count


def test_z_score_by_hand() -> None:
    np.testing.assert_allclose(z_score(np.array([4.0, 2.0])), [1.0, -1.0])
    assert z_score(np.array([2.0, 2.0])).tolist() == [0.0, 0.0]


def test_log_z_score_refuses_negative_scores_and_a_floor_of_zero() -> None:
    with pytest.raises(InvalidInputError, match="scores >= 0"):
        log_z_score(np.array([-0.1]))
    with pytest.raises(InvalidInputError, match="floor"):
        log_z_score(np.array([0.1]), floor=0.0)


@pytest.mark.parametrize("name", sorted(set(CALIBRATORS) - {"background", "reference_ecdf"}))
def test_every_list_calibrator_survives_its_state(name: str) -> None:
    options = {"infimum": 0.0} if name == "theoretical_min_max" else {}
    calibrator = ListCalibrator(name, options)
    ranking = Ranking("v", ["a", "b", "c"], [0.9, 0.2, 0.1])
    again = calibrator_from_dict(calibrator.to_dict())
    assert again(ranking).values.tobytes() == calibrator(ranking).values.tobytes()


def test_a_missing_candidate_takes_zero_on_a_bounded_scale_and_the_lowest_value_elsewhere() -> None:
    ranking = Ranking("v", ["a", "b"], [4.0, 2.0])
    assert ListCalibrator("min_max")(ranking).missing == 0.0
    assert ListCalibrator("z_score")(ranking).missing == -1.0


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [("nonsense", {}, "name"), ("min_max", {"floor": 1.0}, "options"), ("theoretical_min_max", {}, "infimum")],
)
def test_a_wrong_list_calibrator_is_refused_when_built(name: str, options: dict[str, float], field: str) -> None:
    with pytest.raises(InvalidInputError, match=field):
        ListCalibrator(name, options)


def test_an_unknown_calibrator_state_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="calibrator name"):
        calibrator_from_dict({"name": "pickle"})
