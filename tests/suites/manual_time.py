"""Time that a test moves by hand: functions that hang without sleeping, and waiting for what happens in other threads.

No test here depends on the speed of the machine. A wait for another thread has a limit that only a defect reaches.
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
"""Seconds of real time after which a wait counts as stuck."""


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until other threads have made a condition true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.001)


async def auntil(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """As :func:`until`, while the event loop runs on."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.001)


class Hang:
    """Makes functions that hang: each waits until no other job runs, lets time pass, and stays until it is released.

    A function waits until the caller has begun every source, and until all other jobs have settled, so that only the
    hanging function misses the deadline. `beside` is the number of other jobs that may go on.
    """

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.released = threading.Event()
        self.entered = 0
        self._lock = threading.Lock()

    @property
    def jobs(self) -> int:
        """How many sources and steps run in workers."""
        return pool().outstanding

    def function(self, seconds: float, answer: Any = None, beside: float = 0) -> Callable[..., Any]:
        """A plain function that hangs in a worker."""

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
        """A coroutine function that hangs until it is cancelled or released."""

        async def hang(*arguments: Any) -> Any:
            self.entered += 1
            await auntil(lambda: self.clock.waiting and self.jobs <= beside)
            if seconds:
                self.clock.advance(seconds)
            await auntil(self.released.is_set)

        return hang


@contextmanager
def hanging(clock: ManualClock, patch: pytest.MonkeyPatch) -> Iterator[Hang]:
    """Functions that hang, among workers of the test's own."""
    patch.setattr("phasegraph.sources.workers._process.pool", WorkerPool())
    hang = Hang(clock)
    try:
        yield hang
    finally:
        hang.released.set()


class ManualTime:
    """The fixtures of a suite whose tests move the time."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        """The time of the retrievers that :func:`on_clock` was called with."""
        return ManualClock()

    @pytest.fixture
    def hang(self, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hang]:
        """Functions that hang until the end of the test."""
        with hanging(clock, monkeypatch) as made:
            yield made


def on_clock(retriever: Retriever, clock: ManualClock) -> Retriever:
    """The same retriever of an integration, on a clock that the test moves."""
    engine: FusionEngine = retriever._engine  # type: ignore[attr-defined]
    engine.gatherer.clock = clock
    return retriever
