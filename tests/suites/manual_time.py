"""A clock that a test moves by hand, functions that hang without sleeping, and waits for other threads.

No test here depends on the speed of the machine. A wait for another thread fails after `PATIENCE` seconds, which only a
defect can cause.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from phasegraph.retrieval import FusionEngine
from phasegraph.sources.workers import WorkerPool, pool
from phasegraph.testing import ManualClock

Retriever = TypeVar("Retriever")

PATIENCE = 60.0
"""Maximum real time of a wait for other threads, in seconds; a longer wait fails the test."""


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until other threads have made a condition true; fail after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"the condition is still false after {seconds} s"
        time.sleep(0.001)


async def auntil(condition: Callable[[], object]) -> None:
    """Wait like :func:`until`, without blocking the event loop."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


class Hang:
    """A factory of functions that hang: each advances the clock, and returns only after `released` is set.

    Before a function advances the clock, it waits until the caller has begun every source, and until at most `beside`
    other jobs are running. Therefore only the hanging function misses the deadline.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.released = threading.Event()
        self.entered = 0
        self._lock = threading.Lock()

    @property
    def jobs(self) -> int:
        """Number of sources and steps that are running in worker threads."""
        return pool().outstanding

    def function(self, seconds: float, answer: Any = None, beside: float = 0) -> Callable[..., Any]:
        """Create a plain function that hangs in a worker thread and advances the clock by `seconds`."""

        def hang(*arguments: Any) -> Any:
            if self.released.is_set():
                return answer
            with self._lock:
                self.entered += 1
            until(lambda: self.clock.waiting and self.jobs <= 1 + beside)
            if seconds:
                self.clock.advance(seconds)
            self.released.wait(PATIENCE)
            return answer

        return hang

    def coroutine(self, seconds: float, beside: float = 0) -> Callable[..., Awaitable[Any]]:
        """Create a coroutine function that advances the clock and hangs until it is cancelled or released."""

        async def hang(*arguments: Any) -> Any:
            self.entered += 1
            await auntil(lambda: self.clock.waiting and self.jobs <= beside)
            if seconds:
                self.clock.advance(seconds)
            await auntil(self.released.is_set)

        return hang


@contextmanager
def hanging(clock: ManualClock, patch: pytest.MonkeyPatch) -> Iterator[Hang]:
    """Give the test its own worker threads and a :class:`Hang`, which is released at the end."""
    patch.setattr("phasegraph.sources.workers._process.pool", WorkerPool())
    hang = Hang(clock)
    try:
        yield hang
    finally:
        hang.released.set()


@pytest.fixture
def clock() -> ManualClock:
    """Return the clock that :func:`on_clock` can give to retrievers."""
    return ManualClock()


@pytest.fixture
def hang(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hang]:
    """Return a factory of functions that let the others answer, let time pass, and hang until the end of the test."""
    with hanging(clock, monkeypatch) as made:
        yield made


def on_clock(retriever: Retriever, clock: ManualClock) -> Retriever:
    """Make a retriever use a clock that the test moves, and return the retriever."""
    engine: FusionEngine = retriever._engine  # type: ignore[attr-defined]
    engine.gatherer.clock = clock
    return retriever
