"""A store that refuses more hits than it holds is asked again; one that fails for another reason is not."""

import numpy as np
import pytest
from sqlalchemy.exc import OperationalError

from phasegraph import InvalidInputError
from phasegraph.retrieval import Attempts


def asked(search, limit, notes=None):
    """The limits that `search` was called with, and its answer."""
    seen, answer = [], None
    for attempt in Attempts(limit, [] if notes is None else notes):
        with attempt as wanted:
            seen.append(wanted)
            answer = search(wanted)
    return seen, answer


def refusing(error):
    """A search over nine passages, whose own number of hits is four."""

    def search(wanted):
        if wanted is not None and wanted > 9:
            raise error(wanted)
        return wanted or 4

    return search


def test_a_search_that_answers_is_asked_once_without_a_note():
    assert asked(lambda wanted: "hits", 50, notes := []) == ([50], "hits")
    assert notes == []


def test_scikit_learn_is_asked_again_for_what_it_holds():
    from sklearn.neighbors import NearestNeighbors

    points = np.eye(9)
    nearest = NearestNeighbors().fit(points)
    notes = []
    seen, (_, rows) = asked(lambda wanted: nearest.kneighbors(points[:1], n_neighbors=wanted), 50, notes)
    assert (seen, rows.shape) == ([50, 9], (1, 9))
    assert notes == [
        "the source refused to return 50 hits (ValueError), so it was asked again for 9 hits: set fetch_k=9 to ask "
        "only once"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k of {} is larger than the number of available scores, which is 9", [50, 9]),
        ("kth(={}) out of bounds (9)", [50, 9]),
        ("Number of requested results {} is greater than number of elements in index 9", [50, 9]),
        ("top_k={} is too large", [50, None]),
        ("{} hits of 3,000 by 12 shards", [50, 12, None]),  # the count is no size, and its own number is asked for
    ],
)
def test_the_largest_smaller_count_that_the_error_names_is_asked_for_else_its_own_number(text, expected):
    notes = []
    seen, answer = asked(refusing(lambda wanted: RuntimeError(text.format(wanted))), 50, notes)
    assert seen == expected
    assert answer == (expected[-1] or 4)
    assert len(notes) == 1
    assert ("again for 9 hits: set fetch_k=9" if expected[-1] else "again for its own default number") in notes[0]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("the index is broken"),
        ValueError("version 1.50 of 9"),
        ConnectionError("50 of 9"),
        TimeoutError("50 of 9"),
        InvalidInputError("k must be at most 9; got 50"),
        MemoryError("50 of 9"),
    ],
)
def test_any_other_error_is_raised_at_once(error):
    seen = []

    def search(wanted):
        seen.append(wanted)
        raise error

    with pytest.raises(type(error)):
        asked(search, 50)
    assert seen == [50]


def test_the_numbers_in_a_failed_sql_statement_are_not_numbers_of_hits():
    parameters = {"dense_limit": 50}
    error = OperationalError("SELECT x LIMIT :dense_limit", parameters, Exception("the server closed the connection"))
    assert "'dense_limit': 50" in str(error)
    assert "sqlalche.me/e/20/" in str(error)
    with pytest.raises(OperationalError):
        asked(refusing(lambda wanted: error), 50, notes := [])
    assert notes == []


def test_where_every_attempt_fails_the_first_error_is_raised():
    errors = iter([ValueError("50 of 9"), ValueError("9 of 3"), TypeError("a number is needed")])
    with pytest.raises(ValueError, match="50 of 9"):
        asked(lambda wanted: (_ for _ in ()).throw(next(errors)), 50)


def test_what_ends_the_call_is_not_held_back_by_an_earlier_error():
    errors = iter([ValueError("50 of 9"), KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        asked(lambda wanted: (_ for _ in ()).throw(next(errors)), 50)


def test_a_source_that_is_given_no_limit_is_asked_once():
    with pytest.raises(ValueError, match="None"):
        asked(lambda wanted: (_ for _ in ()).throw(ValueError(f"{wanted} of 9")), None)
