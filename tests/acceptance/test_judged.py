from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from phasegraph import Ranking
from phasegraph.acceptance import (
    JudgedScores,
    certify_sources,
    certify_threshold,
    conformal_threshold,
    fit_global_threshold,
    fit_grid,
    fit_threshold,
    judge,
)
from phasegraph.acceptance.judged import (
    check_orientation,
    check_orientations,
    query_losses,
    rank_correlation,
    relevant_ids,
)
from phasegraph.errors import InsufficientDataError, InvalidInputError, InvalidTypeError


def test_losses_golden() -> None:
    """Query a: 0.9 relevant, 0.5 not; query b: 0.7 not, 0.3 relevant; query c: 0.2 not."""
    judged = JudgedScores([0.9, 0.5, 0.7, 0.3, 0.2], [1, 0, 0, 1, 0], list("aabbc"))
    thresholds = np.array([0.0, 0.4, 0.8])
    nan = np.nan
    np.testing.assert_array_equal(
        query_losses(judged, thresholds, risk="wrong"), [[0.5, 0.5, 0.0], [0.5, 1.0, nan], [1.0, nan, nan]]
    )
    np.testing.assert_array_equal(
        query_losses(judged, thresholds, risk="missed"), [[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [nan, nan, nan]]
    )


def test_a_score_on_the_threshold_is_accepted() -> None:
    judged = JudgedScores([0.5, 0.4], [0, 1], ["a", "a"])
    np.testing.assert_array_equal(query_losses(judged, np.array([0.4, 0.5]), risk="wrong"), [[0.5, 1.0]])


def test_a_split_never_parts_a_query() -> None:
    rng = np.random.default_rng(0)
    queries = rng.integers(0, 20, size=100).tolist()
    judged = JudgedScores(rng.random(100), np.arange(100) % 2, queries)
    first, second = judged.split(rng=3)
    assert set(first.names).isdisjoint(second.names)
    assert len(first) + len(second) == 100
    assert sorted([*first.names, *second.names]) == sorted(set(queries))
    for part in (first, second):
        for row, score in enumerate(part.scores):
            assert queries[int(np.flatnonzero(judged.scores == score)[0])] == part.names[part.groups[row]]


def test_without_queries_every_hit_is_its_own() -> None:
    assert JudgedScores([1.0, 2.0], [0, 1]).query_count == 2


@pytest.mark.parametrize("labels", [[1, 1, 1], [0, 0, 0]])
def test_labels_of_one_kind_are_refused(labels: list[int]) -> None:
    with pytest.raises(InsufficientDataError, match="all 3 hits are"):
        JudgedScores([0.1, 0.2, 0.3], labels)


def test_no_hits_are_refused() -> None:
    with pytest.raises(InsufficientDataError, match="at least one"):
        JudgedScores([], [])


@pytest.mark.parametrize(
    ("scores", "labels", "queries", "message"),
    [
        ([0.1, np.nan], [0, 1], None, "finite"),
        ([0.1, np.inf], [0, 1], None, "finite"),
        ([0.1, 0.2], [0, 2], None, "0 or 1"),
        ([0.1, 0.2], ["0", "1"], None, "0 or 1"),
        ([0.1, 0.2], [0], None, "flat arrays of equal length"),
        ([[0.1, 0.2]], [[0, 1]], None, "flat arrays of equal length"),
        ([0.1, 0.2], [0, 1], ["a"], "one query per hit"),
    ],
)
def test_bad_input_is_refused(scores: list, labels: list, queries: list | None, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        JudgedScores(scores, labels, queries)


def test_queries_must_be_usable_as_keys() -> None:
    with pytest.raises(InvalidTypeError, match="hashable"):
        JudgedScores([0.1, 0.2], [0, 1], [["a"], ["b"]])


def test_rankings_are_judged_query_by_query() -> None:
    answers = {
        "q": Ranking("v", ["a", "b"], [0.9, 0.5]),
        "none": Ranking("v", [], np.empty(0)),
        "r": Ranking("v", ["b"], [0.4]),
    }
    judged = judge(answers, {"q": {"b"}, "none": {"a"}, "r": set(), "other": {"z"}})
    assert judged.scores.tolist() == [0.9, 0.5, 0.4]
    assert judged.labels.tolist() == [False, True, False]
    assert judged.names == ("q", "r")
    with pytest.raises(InvalidInputError, match="lacks 'r'"):
        judge(answers, {"q": {"b"}, "none": set()})
    with pytest.raises(InsufficientDataError, match="at least one"):
        judge({}, {})


def test_gains_of_zero_or_less_are_not_relevant() -> None:
    answers = {"q": Ranking("v", ["a", "b", "c"], [3.0, 2.0, 1.0])}
    assert judge(answers, {"q": {"a": 2, "b": 0, "c": -1.0}}).labels.tolist() == [True, False, False]
    assert relevant_ids({"q": {"a": 1, "b": 0}, "r": ["b"]}) == {"q": {"a"}, "r": {"b"}}
    with pytest.raises(InvalidInputError, match=r"relevant\['q'\]\['a'\] must be finite; got nan"):
        judge(answers, {"q": {"a": np.nan}})


@pytest.mark.parametrize("ids", ["ab", None, [1], b"a"])
def test_relevant_ids_of_another_type_are_refused(ids: object) -> None:
    with pytest.raises(InvalidTypeError, match=r"relevant\['q'\] must be a collection of ids of passages; got "):
        judge({"q": Ranking("v", ["a", "b"], [2.0, 1.0])}, {"q": ids})


def test_answers_that_are_no_ranking_or_result_are_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"answers\['q'\] must be a Ranking or a Result; got list.*one source"):
        judge({"q": [Ranking("v", ["a", "b"], [2.0, 1.0])]}, {"q": ["a"]})


def test_no_query_left_and_unknown_risks_are_refused() -> None:
    judged = JudgedScores([0.1, 0.2], [0, 1])
    with pytest.raises(InsufficientDataError, match="at least one"):
        judged.only(np.array([False, False]))
    with pytest.raises(InvalidInputError, match="risk"):
        query_losses(judged, np.array([0.0]), risk="both")  # type: ignore[arg-type]


def test_one_query_cannot_be_split() -> None:
    with pytest.raises(InsufficientDataError, match="at least 2 judged queries"):
        JudgedScores([0.1, 0.2], [0, 1], ["a", "a"]).split()


def test_two_queries_can_be_split_into_one_and_one() -> None:
    both = JudgedScores([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1], ["a", "a", "b", "b"]).split()
    assert sorted(part.names for part in both) == [("a",), ("b",)]


def test_what_was_given_is_not_changed_and_cannot_be_changed_through_it() -> None:
    scores = np.array([0.1, 0.2])
    judged = JudgedScores(scores, [0, 1])
    scores[0] = 9.0
    assert judged.scores[0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        judged.scores[0] = 1.0


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
    with pytest.raises(InvalidInputError, match=r"source 'vector' must score relevant.*set higher_is_better=False"):
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
