from __future__ import annotations

import numpy as np
import pytest

from phasegraph.acceptance import JudgedScores, Threshold, conformal_threshold, query_losses, three_way
from phasegraph.errors import InsufficientDataError, InvalidInputError


def test_by_passage_golden() -> None:
    """19 relevant scores 1 to 19: k = floor(.1 * 20) = 2, the second smallest."""
    judged = JudgedScores([*range(1, 20), 0.5], [1] * 19 + [0])
    assert conformal_threshold(judged, miss_rate=0.1, unit="passage").value == 2.0
    assert conformal_threshold(judged, miss_rate=0.05, unit="passage").value == 1.0


def test_by_passage_too_few_relevant_hits_are_refused_with_the_number_needed() -> None:
    judged = JudgedScores([*range(1, 19), 0.5], [1] * 18 + [0])
    with pytest.raises(InsufficientDataError, match="at least 19 relevant judged hits; got 18"):
        conformal_threshold(judged, miss_rate=0.05, unit="passage")


def test_by_query_golden() -> None:
    """9 queries with one relevant hit each, scores 1 to 9: (misses + 1) / 10 <= .3 allows 2 misses."""
    scores = [*range(1, 10), *([0.0] * 9)]
    judged = JudgedScores(scores, [1] * 9 + [0] * 9, [*range(9), *range(9)])
    found = conformal_threshold(judged, miss_rate=0.3)
    assert found.value == 2.5
    assert (judged.scores[judged.labels] < found.value).sum() == 2


def test_by_query_too_few_queries_are_refused_with_the_number_needed() -> None:
    judged = JudgedScores([1.0, 0.5] * 8, [1, 0] * 8, np.repeat(np.arange(8), 2))
    with pytest.raises(InsufficientDataError, match="at least 9 judged queries"):
        conformal_threshold(judged, miss_rate=0.1)


def test_the_expected_miss_rate_is_kept_on_average() -> None:
    rng = np.random.default_rng(0)
    missed = []
    for _ in range(400):
        labels = rng.random((41, 4)) < rng.beta(1, 1, size=(41, 1))
        labels[:, 0] = True
        scores = rng.normal(size=(41, 4)) + rng.normal(size=(41, 1))
        names = np.repeat(np.arange(41), 4)
        kept = names < 40
        seen = JudgedScores(scores.ravel()[kept], labels.ravel()[kept], names[kept])
        value = conformal_threshold(seen, miss_rate=0.2).value
        new = scores[40][labels[40]]
        missed.append((new < value).mean())
    assert np.mean(missed) <= 0.2 + 3 * np.std(missed) / np.sqrt(400)
    assert np.mean(missed) >= 0.1


def test_a_lower_miss_rate_never_raises_the_threshold() -> None:
    rng = np.random.default_rng(1)
    judged = JudgedScores(rng.normal(size=400), rng.random(400) < 0.5, np.repeat(np.arange(100), 4))
    values = [conformal_threshold(judged, miss_rate=rate).value for rate in (0.02, 0.05, 0.1, 0.3)]
    assert values == sorted(values)
    loss = query_losses(judged, np.array(values), risk="missed")
    assert (np.nanmean(loss, axis=0) <= [0.02, 0.05, 0.1, 0.3]).all()


def test_levels_and_units_outside_their_range_are_refused() -> None:
    judged = JudgedScores([0.1, 0.2], [0, 1])
    with pytest.raises(InvalidInputError, match="miss_rate"):
        conformal_threshold(judged, miss_rate=0.0)
    with pytest.raises(InvalidInputError, match="unit"):
        conformal_threshold(judged, miss_rate=0.5, unit="chunk")  # type: ignore[arg-type]


def test_three_way_joins_both_promises_and_has_no_band_where_they_cross() -> None:
    low, high = Threshold(0.2, promise="Low."), Threshold(0.6, promise="High.", level=0.1, sources=("v",))
    band = three_way(low, high)
    assert (band.floor, band.value, band.level, band.sources) == (0.2, 0.6, 0.1, ("v",))
    assert "Low." in band.promise
    assert "High." in band.promise
    assert three_way(high, low).lower is None
    assert three_way(low.revoke("drift"), high).revoked == "drift"


def test_a_band_of_given_numbers_promises_nothing() -> None:
    band = three_way(Threshold(0.2), Threshold(0.6))
    assert band.promise == Threshold(0.6).promise
    assert not band.certified


@pytest.mark.parametrize(
    ("floor", "accept", "promise"), [("keeps", "", "Not rejected: keeps"), ("", "x", "Accepted: x")]
)
def test_a_band_names_only_the_part_that_promises(floor: str, accept: str, promise: str) -> None:
    low = Threshold(0.2, promise=floor) if floor else Threshold(0.2)
    high = Threshold(0.6, promise=accept) if accept else Threshold(0.6)
    assert three_way(low, high).promise == promise
    assert three_way(low, high).certified
