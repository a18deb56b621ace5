from __future__ import annotations

import numpy as np
import pytest

from phasegraph import Ranking
from phasegraph.acceptance import JudgedScores, judge, query_losses
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
    with pytest.raises(InsufficientDataError, match="all 3 are"):
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
        ([0.1, 0.2], [0], None, "one label per score"),
        ([[0.1, 0.2]], [[0, 1]], None, "one label per score"),
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
    with pytest.raises(InvalidInputError, match="'r' is not"):
        judge(answers, {"q": {"b"}, "none": set()})
    with pytest.raises(InsufficientDataError, match="at least one"):
        judge({}, {})


def test_no_query_left_and_unknown_risks_are_refused() -> None:
    judged = JudgedScores([0.1, 0.2], [0, 1])
    with pytest.raises(InsufficientDataError, match="at least one"):
        judged.only(np.array([False, False]))
    with pytest.raises(InvalidInputError, match="risk"):
        query_losses(judged, np.array([0.0]), risk="both")  # type: ignore[arg-type]


def test_one_query_cannot_be_split() -> None:
    with pytest.raises(InsufficientDataError, match="2 queries"):
        JudgedScores([0.1, 0.2], [0, 1], ["a", "a"]).split()


def test_what_was_given_is_not_changed_and_cannot_be_changed_through_it() -> None:
    scores = np.array([0.1, 0.2])
    judged = JudgedScores(scores, [0, 1])
    scores[0] = 9.0
    assert judged.scores[0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        judged.scores[0] = 1.0
