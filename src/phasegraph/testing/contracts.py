# ruff: noqa: D102 - the name of each test states its requirement
"""Tests of the requirements on a source, to inherit in your own test suite.

Derive a class in your test suite, and override ``make_source``. pytest then runs all tests below for your source::

    class TestMySource(SourceContract):
        def make_source(self):
            return MySource(index)

        queries = ("who wrote it?", "where?")
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import numpy as np

from phasegraph.ranking import Ranking
from phasegraph.sources import Gatherer, SourceSettings
from phasegraph.sources.protocol import AnySource, Upstream
from phasegraph.sources.source_task import asearch_of, search_of

_AWKWARD = (
    "\x00 null",
    "🙂 née naïve",
    "\u202eright to left",
    'AND (title:/["!~ OR :*',
    "x" * 20_000,
    "a\nb\tc",
    "\ud800 alone",
)


class SourceContract:
    """Tests of a :class:`~phasegraph.sources.Source`; derive a class named ``Test…`` and override `make_source`.

    Attributes
    ----------
    name : str
        The source name in the source's rankings.
    queries : sequence of str
        Queries for which the source finds at least one hit.
    depends_on : sequence of str
        Names of other sources whose rankings this source needs.
    """

    name: str = "source"
    queries: Sequence[str] = ("what is it?",)
    depends_on: Sequence[str] = ()

    def make_source(self) -> AnySource:
        """Return a source that is ready for searches; override this method."""
        raise NotImplementedError("override make_source() so that it returns your source")

    def upstream(self) -> Mapping[str, Ranking | None]:
        """Return the rankings to pass to the source, for each name in `depends_on`; by default, each is None."""
        return dict.fromkeys(self.depends_on)

    def _ask(self, source: AnySource, query: str | None = None, limit: int | None = 10) -> Ranking:
        return _ask(source, self.queries[0] if query is None else query, limit, self.upstream())

    def test_returns_a_ranking_under_its_own_name(self) -> None:
        source = self.make_source()
        for query in self.queries:
            found = self._ask(source, query)
            assert found.source == self.name, f"the ranking must be named {self.name!r}; got {found.source!r}"

    def test_finds_something_for_its_own_queries(self) -> None:
        source = self.make_source()
        assert all(len(self._ask(source, query)) for query in self.queries)

    def test_returns_at_most_as_many_hits_as_asked_for(self) -> None:
        source = self.make_source()
        for limit in (1, 2, 5):
            assert len(self._ask(source, limit=limit)) <= limit

    def test_takes_no_limit_and_a_limit_beyond_what_it_holds(self) -> None:
        source = self.make_source()
        for limit in (None, 100_000):
            self._ask(source, limit=limit)

    def test_answers_the_same_when_asked_again(self) -> None:
        source = self.make_source()
        for query in self.queries:
            _assert_same(self._ask(source, query), self._ask(source, query))

    def test_answers_the_same_in_many_threads(self) -> None:
        source = self.make_source()
        expected = self._ask(source)
        with ThreadPoolExecutor(8) as threads:
            for found in threads.map(lambda _: self._ask(source), range(32)):
                _assert_same(found, expected)

    def test_answers_the_same_awaited_and_called(self) -> None:
        source = self.make_source()
        if search_of(source) is not None and asearch_of(source) is not None:
            awaited = asyncio.run(_await(source, self.queries[0], 10, self.upstream()))
            _assert_same(awaited, self._ask(source))

    def test_leaves_what_it_is_given_alone(self) -> None:
        handed = dict(self.upstream())
        before = copy.copy(handed)
        _ask(self.make_source(), self.queries[0], 10, MappingProxyType(handed))
        assert handed == before

    def test_answers_without_what_it_needs(self) -> None:
        _ask(self.make_source(), self.queries[0], 10, dict.fromkeys(self.depends_on))

    def test_takes_awkward_queries(self) -> None:
        source = self.make_source()
        for query in _AWKWARD:
            self._ask(source, query)

    def test_answers_through_a_gatherer(self) -> None:
        settings = {self.name: SourceSettings(limit=10, depends_on=tuple(self.depends_on))}
        settings.update({need: SourceSettings() for need in self.depends_on})
        gathered = Gatherer(settings, timeout=60.0).gather({self.name: self.make_source()}, self.queries[0])
        assert [report.status for report in gathered.reports] == ["ok"], gathered.reports


def _ask(source: AnySource, query: str, limit: int | None, upstream: Upstream) -> Ranking:
    search = search_of(source)
    if search is None:
        return asyncio.run(_await(source, query, limit, upstream))
    found = search(query, limit, upstream)
    assert not inspect.isawaitable(found), "search must not be a coroutine function; name it asearch"
    assert isinstance(found, Ranking), f"search must return a Ranking; got {type(found).__name__}"
    return found


async def _await(source: AnySource, query: str, limit: int | None, upstream: Upstream) -> Ranking:
    asearch = asearch_of(source)
    assert asearch is not None, "a source must have search or asearch"
    pending = asearch(query, limit, upstream)
    assert inspect.isawaitable(pending), "asearch must be a coroutine function"
    found = await pending
    assert isinstance(found, Ranking), f"asearch must return a Ranking; got {type(found).__name__}"
    return found


def _assert_same(one: Ranking, other: Ranking) -> None:
    assert one.ids == other.ids, "the same query must give the same ids"
    assert np.array_equal(one.scores, other.scores), "the same query must give the same scores"
