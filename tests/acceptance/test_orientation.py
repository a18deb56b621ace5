"""Scores that fall where relevance rises are refused before anything is fitted to them."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from phasegraph import InvalidInputError, InvalidTypeError, Ranking
from phasegraph.acceptance import (
    JudgedScores,
    certify_sources,
    certify_threshold,
    check_orientation,
    check_orientations,
    conformal_threshold,
    fit_global_threshold,
    fit_grid,
    fit_threshold,
    judge,
)
from phasegraph.acceptance.judged import rank_correlation


def drawn(queries=60, hits=12, *, strength=1.5, seed=0, source=""):
    """Hits of queries that differ in how high they score and in how much is relevant."""
    rng = np.random.default_rng(seed)
    labels = rng.random((queries, hits)) < rng.uniform(0.1, 0.6, (queries, 1))
    labels[0, :2] = True, False
    scores = rng.normal(size=(queries, hits)) + strength * labels + 3 * rng.normal(size=(queries, 1))
    return JudgedScores(scores.ravel(), labels.ravel(), np.repeat(np.arange(queries), hits), source=source)


def reversed_of(judged):
    return JudgedScores(-judged.scores, judged.labels, judged.groups, source=judged.source)


DOORS = {
    "grid": fit_grid,
    "threshold": fit_threshold,
    "global": lambda judged: fit_global_threshold({"vector": judged}),
    "certified wrong": lambda judged: certify_threshold(judged, alpha=0.7),
    "certified missed": lambda judged: certify_threshold(judged, risk="missed", alpha=0.3),
    "certified sources": lambda judged: certify_sources({"vector": judged}, risk="missed", alpha=0.3),
    "conformal": lambda judged: conformal_threshold(judged, miss_rate=0.2),
    "check": check_orientation,
}


@pytest.mark.parametrize("door", DOORS)
def test_no_threshold_is_fitted_to_distances(door):
    judged = drawn(source="vector")
    DOORS[door](judged)
    with pytest.raises(InvalidInputError, match=r"source 'vector' must score relevant.*say higher_is_better=False"):
        DOORS[door](reversed_of(judged))


def test_it_is_spearmans_correlation_inside_each_query():
    judged = drawn(30)
    own = [
        spearmanr(judged.scores[judged.groups == one], judged.labels[judged.groups == one]).statistic
        for one in range(30)
        if 0 < judged.labels[judged.groups == one].sum() < 12
    ]
    found = rank_correlation(judged)
    assert found.value == pytest.approx(np.mean(own))
    assert found.queries == len(own)
    assert -1 <= found.low < found.value < found.high <= 1


def test_ties_share_their_mean_rank():
    judged = JudgedScores([1.0, 1.0, 0.0, 0.5] * 10, [1, 0, 0, 1] * 10, np.repeat(np.arange(10), 4))
    assert rank_correlation(judged).value == pytest.approx(spearmanr([1.0, 1.0, 0.0, 0.5], [1, 0, 0, 1]).statistic)


def test_queries_that_score_high_and_hold_little_do_not_count_against_a_source():
    """Over all hits the scores fall with relevance; inside every query they rise."""
    rng = np.random.default_rng(1)
    easy = np.repeat(np.arange(40) % 2, 10).astype(bool)
    labels = np.tile(np.arange(10), 40) < np.where(easy, 1, 8)
    scores = rng.normal(size=400) * 0.1 + 0.5 * labels + 5.0 * easy
    judged = JudgedScores(scores, labels, np.repeat(np.arange(40), 10))
    assert spearmanr(judged.scores, judged.labels).statistic < -0.3
    assert rank_correlation(judged).low > 0
    check_orientation(judged)


def test_one_hit_a_query_is_compared_over_all_hits():
    rng = np.random.default_rng(2)
    labels = rng.random(200) < 0.5
    scores = rng.normal(size=200) + labels
    judged = JudgedScores(scores, labels)
    assert rank_correlation(judged).value == pytest.approx(spearmanr(scores, labels).statistic)
    check_orientation(judged)
    with pytest.raises(InvalidInputError, match="a source must score relevant"):
        check_orientation(JudgedScores(-scores, labels))


@pytest.mark.parametrize("judged", [drawn(9), JudgedScores(np.arange(19.0), np.arange(19) < 9)])
def test_too_little_says_nothing(judged):
    assert rank_correlation(judged) is None
    check_orientation(reversed_of(judged))


def test_queries_whose_hits_do_not_differ_say_nothing():
    flat = JudgedScores(np.ones(60), [1, 0, 1] * 20, np.repeat(np.arange(20), 3))
    assert rank_correlation(flat) is None


def test_a_source_that_knows_nothing_is_seldom_refused():
    """The interval is one of 99.9 %: about one in two thousand; three in 600 would have a chance of 0.4 %."""
    refused = sum(rank_correlation(drawn(25, 6, strength=0.0, seed=seed)).high < 0 for seed in range(600))
    assert refused < 3


def rankings(judged, name, sign=1.0):
    for query in range(judged.query_count):
        own = judged.groups == query
        ids = [f"p{row}" for row in np.flatnonzero(own)]
        yield str(query), [Ranking(name, ids, sign * judged.scores[own])]


def gold(judged):
    found = {str(query): set() for query in range(judged.query_count)}
    for row in np.flatnonzero(judged.labels):
        found[str(judged.groups[row])].add(f"p{row}")
    return found


def test_rankings_are_checked_source_by_source():
    judged = drawn()
    both = [
        (query, one + other)
        for (query, one), (_, other) in zip(rankings(judged, "bm25"), rankings(judged, "graph", -1.0), strict=True)
    ]
    check_orientations(rankings(judged, "bm25"), gold(judged))
    check_orientations(both, {})
    with pytest.raises(InvalidInputError, match="source 'graph'"):
        check_orientations(both, gold(judged))


def test_ranks_without_scores_are_passed_over():
    judged = drawn()
    ranked = [
        (query, [Ranking.from_hits("graph", found[0].ids, None)]) for query, found in rankings(judged, "graph", -1.0)
    ]
    check_orientations(ranked, gold(judged))


@pytest.mark.parametrize("relevant", [["p1"], {"q": "p1"}, {"q": [1]}, {"q": None}])
def test_labels_that_are_none_are_named(relevant):
    with pytest.raises(InvalidTypeError, match="relevant"):
        check_orientations([], relevant)


def test_judged_rankings_know_their_source():
    found = judge({query: one[0] for query, one in rankings(drawn(), "graph")}, gold(drawn()))
    assert found.source == "graph"
    assert found.split()[0].source == "graph"
    with pytest.raises(InvalidInputError, match="source 'graph'"):
        fit_threshold(reversed_of(found))
