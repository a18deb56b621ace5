from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from repeats import repeats

from phasegraph.acceptance import (
    JudgedScores,
    Threshold,
    certify_sources,
    certify_threshold,
    conformal_threshold,
    fit_threshold,
    queries_needed,
    three_way,
)
from phasegraph.acceptance.certified import betting, candidate_thresholds, hoeffding_bentkus
from phasegraph.acceptance.judged import query_losses
from phasegraph.errors import InsufficientDataError, InvalidInputError

ALPHA, DELTA = 0.2, 0.05
CALIBRATIONS = repeats(2000, 500)
ALLOWED = {2000: 131, 500: 41}[CALIBRATIONS]
GRID = np.linspace(-2.0, 5.0, 141)


def _draw(rng: np.random.Generator, queries: int, clustered: bool, hits: int = 5) -> JudgedScores:
    """Hits of queries whose share of relevant ones is the same, or varies widely from query to query."""
    share = rng.beta(0.6, 0.6, size=(queries, 1)) if clustered else 0.5
    labels = rng.random((queries, hits)) < share
    scores = rng.normal(size=(queries, hits)) + 2.0 * labels
    return JudgedScores(scores.ravel(), labels.ravel(), np.repeat(np.arange(queries), hits))


@cache
def _truth(clustered: bool, risk: str) -> np.ndarray:
    losses = query_losses(_draw(np.random.default_rng(99), 30_000, clustered), GRID, risk=risk)  # type: ignore[arg-type]
    counted = ~np.isnan(losses)
    return np.where(counted, losses, 0).sum(axis=0) / np.maximum(counted.sum(axis=0), 1)


def _certified(clustered: bool, risk: str, repeats: int, seed: int) -> Iterator[tuple[float | None, JudgedScores]]:
    rng = np.random.default_rng(seed)
    for _ in range(repeats):
        judged = _draw(rng, 100, clustered)
        try:
            yield certify_threshold(judged, risk=risk, alpha=ALPHA, delta=DELTA, rng=rng).value, judged  # type: ignore[arg-type]
        except InsufficientDataError:
            yield None, judged


@pytest.mark.parametrize("clustered", [False, True], ids=["independent hits", "clustered hits"])
def test_calibrations_break_the_promise_about_as_often_as_is_allowed(clustered: bool) -> None:
    truth = _truth(clustered, "wrong")
    broken = certified = 0
    for value, _ in _certified(clustered, "wrong", CALIBRATIONS, seed=1):
        if value is not None:
            certified += 1
            broken += float(np.interp(value, GRID, truth)) > ALPHA
    assert broken <= ALLOWED
    assert certified >= CALIBRATIONS / 2  # abstaining always would keep the promise too


def test_the_simulation_catches_a_method_that_does_not_keep_the_promise() -> None:
    """The lowest threshold whose observed precision reaches the target misses it about every second time."""
    truth = _truth(False, "wrong")
    rng = np.random.default_rng(2)
    values = [fit_threshold(_draw(rng, 100, False), objective="precision", target=1 - ALPHA).value for _ in range(200)]
    broken = sum(float(np.interp(value, GRID, truth)) > ALPHA for value in values)
    assert broken > 200 * ALLOWED / CALIBRATIONS * 2


@pytest.mark.parametrize("clustered", [False, True])
def test_the_promise_about_missed_hits_holds_and_is_not_wasteful(clustered: bool) -> None:
    truth = _truth(clustered, "missed")
    risks = [
        float(np.interp(value, GRID, truth))
        for value, _ in _certified(clustered, "missed", 300, seed=3)
        if value is not None
    ]
    assert len(risks) == 300
    assert sum(risk > ALPHA for risk in risks) <= 41 * 300 // 500
    assert np.mean(risks) > 0.08


@pytest.mark.parametrize("bound", [hoeffding_bentkus, betting])
@pytest.mark.parametrize("mean", [0.2, 0.5])
def test_p_values_are_valid_when_the_mean_loss_is_at_the_level(bound, mean: float) -> None:
    rng = np.random.default_rng(4)
    for losses in (rng.random((40, 3000)) < mean, np.minimum(rng.random((40, 3000)) * 2 * mean, 1.0)):
        values = bound(np.asarray(losses, dtype=float), mean)
        assert ((values >= 0) & (values <= 1)).all()
        assert (values <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 3000)


def test_p_values_golden() -> None:
    clean = np.zeros((14, 1))
    assert hoeffding_bentkus(clean, 0.2)[0] == pytest.approx(0.8**14)
    one_bad = np.array([[1.0]] + [[0.0]] * 29)
    hoeffding = np.exp(-30 * (1 / 30 * np.log(1 / 30 / 0.2) + 29 / 30 * np.log(29 / 30 / 0.8)))
    bentkus = np.e * (0.8**30 + 30 * 0.2 * 0.8**29)
    assert hoeffding_bentkus(one_bad, 0.2)[0] == pytest.approx(min(hoeffding, bentkus))
    bets = np.array([0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])
    wealth = (1 + bets * 0.2 / 0.8) ** 29 * (1 - bets)
    assert betting(one_bad, 0.2)[0] == pytest.approx(1 / wealth.mean())


def test_rows_that_do_not_count_are_as_if_they_were_not_there() -> None:
    losses = np.array([[0.0], [1.0], [0.0], [0.0], [0.0]])
    padded = np.vstack([losses, np.full((7, 1), np.nan)])
    for bound in (hoeffding_bentkus, betting):
        np.testing.assert_allclose(bound(losses, 0.5), bound(padded, 0.5))
        for level in (0.05, 0.5, 0.95):
            assert bound(np.full((3, 1), np.nan), level)[0] == 1.0


def test_the_least_number_of_clean_queries_golden() -> None:
    assert [queries_needed(level, 0.05) for level in (0.5, 0.2, 0.1, 0.05, 0.01)] == [5, 14, 29, 59, 299]
    assert queries_needed(0.2, 0.05, risk=0.1) > queries_needed(0.2, 0.05, risk=0.05) > 14
    with pytest.raises(InvalidInputError, match="risk"):
        queries_needed(0.2, 0.05, risk=0.2)


def test_too_few_queries_are_refused_with_the_number_needed() -> None:
    judged = _draw(np.random.default_rng(0), 27, False)
    with pytest.raises(InsufficientDataError, match=r"at least 28 judged queries.*got 27"):
        certify_threshold(judged, alpha=0.2)
    with pytest.raises(InsufficientDataError, match="at least 14"):
        certify_threshold(_draw(np.random.default_rng(0), 13, False), risk="missed", alpha=0.2)


def test_scores_that_cannot_reach_the_level_say_that_labels_will_not_help() -> None:
    rng = np.random.default_rng(5)
    labels = rng.random(400) < 0.5
    judged = JudgedScores(rng.normal(size=400), labels)
    with pytest.raises(InsufficientDataError, match="more judged queries are unlikely to help"):
        certify_threshold(judged, alpha=0.2)


def test_promising_scores_say_how_many_labels_it_would_take() -> None:
    rng = np.random.default_rng(6)
    labels = rng.random(60) < 0.9
    judged = JudgedScores(rng.normal(size=60), labels)
    with pytest.raises(InsufficientDataError, match=r"about \d+ judged queries; got 60"):
        certify_threshold(judged, alpha=0.2)


def test_missed_hits_that_no_threshold_can_avoid_cannot_be_certified() -> None:
    """Ties: everything or nothing. With a certificate for everything only, the lowest threshold is given."""
    judged = JudgedScores([1.0, 1.0] * 40, [0, 1] * 40, np.repeat(np.arange(40), 2))
    assert certify_threshold(judged, risk="missed", alpha=0.2).value == 1.0


def test_a_certified_threshold_says_what_it_is() -> None:
    judged = _draw(np.random.default_rng(7), 400, False)
    found = certify_threshold(judged, alpha=0.3, delta=0.1, sources=("vector", "graph"))
    assert found.method == "certified-wrong/hoeffding-bentkus"
    assert (found.level, found.confidence, found.queries, found.hits) == (0.3, 0.9, 400, 2000)
    assert "at most 0.3, with probability at least 0.9" in found.promise
    assert found.sources == ("graph", "vector")
    assert found.certified
    assert found.statistics["observed_risk"] < 0.3


def test_the_same_labels_give_the_same_threshold() -> None:
    judged = _draw(np.random.default_rng(8), 300, True)
    assert certify_threshold(judged, alpha=0.3, rng=5) == certify_threshold(judged, alpha=0.3, rng=5)


def test_a_query_in_both_parts_is_refused() -> None:
    rng = np.random.default_rng(9)
    judged = _draw(rng, 200, False)
    with pytest.raises(InvalidInputError, match="must not share a query; 200 are in both"):
        certify_threshold(judged, alpha=0.2, ordering=_draw(rng, 200, False))


def test_an_ordering_of_other_queries_leaves_all_of_the_judged_ones_for_the_test() -> None:
    rng = np.random.default_rng(10)
    other = _draw(rng, 100, False)
    ordering = JudgedScores(other.scores, other.labels, [f"o{group}" for group in other.groups])
    found = certify_threshold(_draw(rng, 20, False), alpha=0.4, ordering=ordering)
    assert found.queries == 20


@pytest.mark.parametrize("field", ["alpha", "delta"])
@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, float("nan"), True])
def test_levels_outside_their_range_are_refused(field: str, value: float) -> None:
    judged = _draw(np.random.default_rng(0), 100, False)
    with pytest.raises(InvalidInputError, match=field):
        certify_threshold(judged, **{"alpha": 0.2, field: value})


@pytest.mark.parametrize(("field", "value"), [("risk", "both"), ("bound", "normal")])
def test_unknown_names_are_refused(field: str, value: str) -> None:
    judged = _draw(np.random.default_rng(0), 100, False)
    with pytest.raises(InvalidInputError, match=field):
        certify_threshold(judged, alpha=0.2, **{field: value})


def test_several_sources_share_the_chance_of_being_wrong() -> None:
    rng = np.random.default_rng(11)
    judged = {name: _draw(rng, 600, False) for name in ("vector", "graph")}
    found = certify_sources(judged, alpha=0.3, delta=0.1)
    assert list(found) == ["graph", "vector"]
    assert found["graph"].confidence == pytest.approx(0.95)
    assert found["vector"].sources == ("vector",)
    few = {**judged, "text": _draw(rng, 10, False)}
    with pytest.raises(InsufficientDataError, match="source 'text'"):
        certify_sources(few, alpha=0.3)


def test_candidate_thresholds_lie_between_scores_and_are_few() -> None:
    judged = JudgedScores([1.0, 2.0, 2.0, 4.0], [0, 1, 0, 1])
    np.testing.assert_allclose(candidate_thresholds(judged), [1.0, 1.5, 3.0])
    many = JudgedScores(np.arange(1000.0), np.arange(1000) % 2)
    assert len(candidate_thresholds(many)) <= 100


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
    assert three_way(0.2, 0.6) == three_way(Threshold(0.2), Threshold(0.6))
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
