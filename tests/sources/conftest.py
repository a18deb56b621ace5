"""Sources that behave, hang or break, and one way to ask them both sync and async."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from tests.suites.manual_time import PATIENCE, clock, hang  # noqa: F401 - fixtures
from tests.suites.manual_time import until as wait_until

from phasegraph.ranking import Ranking
from phasegraph.sources import CallableSource, Gathered, Gatherer
from phasegraph.testing import ManualClock

Ask = Callable[[Gatherer, Mapping[str, Any], str], Gathered]


def _sync(gatherer: Gatherer, sources: Mapping[str, Any], query: str) -> Gathered:
    return gatherer.gather(sources, query)


def _async(gatherer: Gatherer, sources: Mapping[str, Any], query: str) -> Gathered:
    async def once() -> Gathered:
        found = await gatherer.agather(sources, query)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"
        return found

    return asyncio.run(once())


@pytest.fixture(params=[_sync, _async], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    return request.param


class Held:
    """Searches that hang until released; released at the end of the test in any case."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.entered = 0
        self._lock = threading.Lock()

    def search(self, query: str, limit: int | None, upstream: object) -> Ranking:
        with self._lock:
            self.entered += 1
        self.released.wait(PATIENCE)
        return Ranking("held", ["late"], [9.0])


@pytest.fixture
def held() -> Iterator[Held]:
    source = Held()
    yield source
    source.released.set()


@pytest.fixture
def healthy() -> CallableSource:
    return CallableSource("healthy", lambda query, limit: [("a", 0.9), ("b", 0.5)])


class Native:
    """A source with only `asearch`, named after what it is told to do."""

    def __init__(self, name: str, seconds: float = 0.0) -> None:
        self.name, self.seconds = name, seconds
        self.started = self.cancelled = 0

    async def asearch(self, query: str, limit: int | None, upstream: object) -> Ranking:
        self.started += 1
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Ranking(self.name, ["n1", "n2"], [2.0, 1.0])


@pytest.fixture
def native() -> type[Native]:
    return Native


@pytest.fixture
def statuses() -> Callable[[Gathered], dict[str, str]]:
    return lambda found: {report.source: report.status for report in found.reports}


@pytest.fixture
def source() -> Callable[..., CallableSource]:
    """A source by name and, if wanted, by what it does."""
    return lambda name, fn=lambda query, limit: [("a", 1.0)]: CallableSource(name, fn)


@pytest.fixture
def takes(clock: ManualClock) -> Callable[[str, float], CallableSource]:  # noqa: F811 - the fixture
    """A source that finds itself after so many seconds."""

    def make(name: str, seconds: float) -> CallableSource:
        def fn(query: str, limit: int | None) -> list[tuple[str, float]]:
            clock.advance(seconds)
            return [(name, 1.0)]

        return CallableSource(name, fn)

    return make


@pytest.fixture
def until() -> Callable[..., None]:
    """Wait until other threads have made a condition true."""
    return wait_until
