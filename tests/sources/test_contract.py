"""The contract that is shipped, kept by our own helpers and broken on purpose."""

from __future__ import annotations

import itertools

import pytest

from phasegraph.ranking import Ranking
from phasegraph.sources import AsyncCallableSource, CallableSource
from phasegraph.testing import SourceContract

_HITS = [("a", 3.0), ("b", 2.0), ("c", 1.0)]


class TestCallableSource(SourceContract):
    name = "mine"

    def make_source(self):
        return CallableSource("mine", lambda query, limit: _HITS[:limit])


class TestAsyncCallableSource(SourceContract):
    name = "mine"

    def make_source(self):
        async def look_up(query, limit):
            return _HITS[:limit]

        return AsyncCallableSource("mine", look_up)


class TestASourceWithNeeds(SourceContract):
    name = "walk"
    depends_on = ("vector",)

    def make_source(self):
        class Walk:
            def search(self, query, limit, upstream):
                return Ranking("walk", ["a"], [1.0 if upstream["vector"] is None else 2.0])

            async def asearch(self, query, limit, upstream):
                return self.search(query, limit, upstream)

        return Walk()


_drift = itertools.count()


class _Wrong:
    def __init__(self, search):
        self.search = lambda query, limit, upstream: search(query, limit, upstream)


def _surprised(query, limit, upstream):
    upstream["vector"] = 1
    return Ranking("mine", ["a"], [1.0])


def _fragile(query, limit, upstream):
    query.encode()
    return Ranking("mine", ["a"], [1.0])


@pytest.mark.parametrize(
    ("test", "search"),
    [
        ("returns_a_ranking_under_its_own_name", lambda q, n, g: Ranking("other", ["a"], [1.0])),
        ("returns_a_ranking_under_its_own_name", lambda q, n, g: [("a", 1.0)]),
        ("finds_something_for_its_own_queries", lambda q, n, g: Ranking("mine", [], [])),
        ("returns_at_most_as_many_hits_as_asked_for", lambda q, n, g: Ranking("mine", ["a", "b"], [2.0, 1.0])),
        ("takes_no_limit_and_a_limit_beyond_what_it_holds", lambda q, n, g: Ranking("mine", ["a"] * n, [1.0] * n)),
        ("answers_the_same_when_asked_again", lambda q, n, g: Ranking("mine", ["a"], [float(next(_drift))])),
        ("answers_the_same_in_many_threads", lambda q, n, g: Ranking("mine", ["a"], [float(next(_drift))])),
        ("leaves_what_it_is_given_alone", _surprised),
        ("takes_awkward_queries", _fragile),
        ("answers_through_a_gatherer", lambda q, n, g: None),
    ],
)
def test_a_source_that_breaks_the_contract_is_found_out(test, search):
    class Contract(SourceContract):
        name = "mine"

        def make_source(self):
            return _Wrong(search)

    with pytest.raises((AssertionError, TypeError, UnicodeError, RuntimeError)):
        getattr(Contract(), f"test_{test}")()
