from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from phasegraph import Background, BackgroundCalibrator, FusionPipeline, InvalidInputError, Ranking
from phasegraph.calibration.background import order_statistic

N = 1_000_000


def _ids(count: int) -> list[str]:
    return [f"p{i:04d}" for i in range(count)]


def test_order_statistics_are_blom_s_quantiles() -> None:
    for rank, size in [(1, 10), (3, 100), (50, N)]:
        assert order_statistic(rank, size) == pytest.approx(norm.ppf(1 - (rank - 0.375) / (size + 0.25)), abs=1e-12)


def test_a_list_that_is_exactly_normal_gets_its_order_statistics_back() -> None:
    expected = np.array([order_statistic(rank, N) for rank in range(1, 21)])
    found = BackgroundCalibrator()(Ranking("v", _ids(20), 0.3 + 0.05 * expected))
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-9)
    assert found.missing == pytest.approx(order_statistic(21, N), abs=1e-9)
    assert found.tier == "estimated"


def test_a_stated_background_is_used_as_it_is() -> None:
    background = Background(location=-9.0, scale=2.0, transform="log", floor=1e-4)
    found = BackgroundCalibrator()(Ranking("graph", _ids(2), [0.1, 0.0], background=background, size=1000))
    np.testing.assert_allclose(found.values, [(np.log(0.1001) + 9) / 2.0, (np.log(1e-4) + 9) / 2.0])
    assert found.tier == "exact"
    assert found.missing == pytest.approx(min(found.values[-1], order_statistic(3, 1000)))


def test_values_beyond_six_are_squeezed_below_twelve_and_keep_their_order() -> None:
    scores = np.array([1e6, 38.0, 36.0, 7.0, 6.0, 5.0, -6.0, -60.0])
    found = BackgroundCalibrator()(Ranking("g", _ids(8), scores, background=Background(0.0, 1.0)))
    np.testing.assert_allclose(found.values[1:6], [6 + 32 / (1 + 32 / 6), 11.0, 6 + 6 / 7, 6.0, 5.0])
    assert found.values[0] < 12
    assert found.values[-1] > -12
    assert (np.diff(found.values) < 0).all()


@pytest.mark.parametrize("scores", [[1.0] * 7, [0.9, 0.5, 0.3, 0.2], [0.4]])
def test_a_short_or_constant_list_is_uninformative_and_shares_one_value(scores: list[float]) -> None:
    found = BackgroundCalibrator()(Ranking("v", _ids(len(scores)), scores))
    shared = np.mean([order_statistic(rank, N) for rank in range(1, 21)])
    np.testing.assert_allclose(found.values, shared)
    assert not found.informative
    assert found.missing < shared


def test_a_missing_candidate_never_takes_the_background_s_mean() -> None:
    rich = BackgroundCalibrator()(Ranking("v", _ids(50), np.linspace(1, 0.5, 50)))
    assert rich.missing > 3.0
    assert rich.missing <= rich.values[-1]


def test_the_size_of_the_collection_is_used_where_it_is_stated() -> None:
    scores = np.linspace(1, 0.5, 10)
    small = BackgroundCalibrator()(Ranking("v", _ids(10), scores, size=100))
    large = BackgroundCalibrator()(Ranking("v", _ids(10), scores))
    assert small.values[0] < large.values[0]
    assert small.values[0] == pytest.approx(BackgroundCalibrator(100)(Ranking("v", _ids(10), scores)).values[0])


def test_a_rank_only_list_takes_the_order_statistics_of_its_ranks() -> None:
    ranking = Ranking.from_hits("v", _ids(8), None)
    np.testing.assert_allclose(
        BackgroundCalibrator()(ranking).values, [order_statistic(rank, N) for rank in range(1, 9)]
    )


def test_hits_that_share_one_rank_are_members_and_nothing_more() -> None:
    shared = Ranking("v", _ids(8), [-4.5] * 8, [np.nan] * 8, rank_only=True)
    found = BackgroundCalibrator()(shared)
    assert not found.informative
    assert len(set(found.values.tolist())) == 1
    for pipeline in (FusionPipeline(), FusionPipeline.reciprocal_rank()):
        result = pipeline.decide([shared])
        assert result.ids == shared.ids
        assert len(set(result.fused.tolist())) == 1


def test_the_list_tier_is_affine_invariant_and_therefore_cannot_tell_a_poor_list() -> None:
    one = BackgroundCalibrator()(Ranking("v", _ids(5), [0.5, 0.4, 0.3, 0.2, 0.1])).values
    other = BackgroundCalibrator()(Ranking("v", _ids(5), [5.0, 4.0, 3.0, 2.0, 1.0])).values
    np.testing.assert_allclose(one, other, atol=1e-9)


def test_a_collection_smaller_than_the_list_does_not_break_the_scale() -> None:
    found = BackgroundCalibrator()(Ranking("v", _ids(6), np.arange(6, 0, -1.0), size=3))
    assert np.isfinite(found.values).all()
    assert np.isfinite(found.missing)


@pytest.mark.parametrize("size", [0, -1, True, 2.5])
def test_a_wrong_assumed_size_is_refused(size: object) -> None:
    with pytest.raises(InvalidInputError, match="assumed_size"):
        BackgroundCalibrator(size)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"), [("scale", 0.0), ("scale", np.nan), ("location", np.inf), ("floor", -1.0), ("transform", "exp")]
)
def test_a_wrong_background_names_its_field(field: str, value: object) -> None:
    fields: dict[str, object] = {"location": 0.0, "scale": 1.0, field: value}
    with pytest.raises(InvalidInputError, match=f"Background.{field}"):
        Background(**fields)  # type: ignore[arg-type]
