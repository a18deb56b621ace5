"""A clock for tests of deadlines, on which time passes only when the test advances it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from phasegraph._support.clock import Clock
from phasegraph._support.validation import check_seconds

Item = TypeVar("Item")

_GLANCE_SECONDS = 0.001
"""Interval, in seconds of real time, at which a waiting thread reads the clock."""


class ManualClock(Clock):
    """A clock on which time passes only in calls of :meth:`advance`.

    With this clock, tests of deadlines never sleep, and pass on a busy machine. Pass the clock to a
    :class:`~phasegraph.sources.Gatherer`, and let a source advance it by the time that the source would take. Use times
    that are exact as floats, such as 0.5 and 0.25, because a wait ends exactly at its deadline.

    >>> from phasegraph.sources import CallableSource, Gatherer, SourceSettings
    >>> clock, released = ManualClock(), threading.Event()
    >>> def hangs(query, limit):
    ...     clock.advance(0.5)
    ...     released.wait()
    >>> gatherer = Gatherer({"fast": SourceSettings(), "slow": SourceSettings(timeout=0.5)}, clock=clock)
    >>> fast = CallableSource("fast", lambda query, limit: [("a", 1.0)])
    >>> found = gatherer.gather({"fast": fast, "slow": CallableSource("slow", hangs)}, "who?")
    >>> [report.status for report in found.reports], clock.now()
    (['ok', 'timeout'], 0.5)
    >>> released.set()
    """

    __slots__ = ("_lock", "_now", "_threads", "_timers")

    def __init__(self) -> None:
        self._now = 0.0
        self._lock = threading.Lock()
        self._threads = 0
        self._timers: list[_Timer] = []

    def __reduce__(self) -> str | tuple[Any, ...]:
        return ManualClock, ()

    def __deepcopy__(self, memo: object) -> ManualClock:
        return self

    def now(self) -> float:
        """Return the time of the clock: the sum of all advances in seconds, from 0."""
        return self._now

    @property
    def waiting(self) -> int:
        """The number of waits on the clock by threads and event loops."""
        return self._threads + len(self._timers)

    def advance(self, seconds: float) -> None:
        """Advance the clock by `seconds`, and end every wait whose deadline is reached."""
        check_seconds("seconds", seconds)
        with self._lock:
            self._now += seconds
            due = [timer for timer in self._timers if timer.until <= self._now]
            self._timers = [timer for timer in self._timers if timer.until > self._now]
        for timer in sorted(due, key=lambda one: one.until):
            timer.ring()

    def drop(self, timer: _Timer) -> None:
        """Remove a canceled timer."""
        with self._lock:
            self._timers = [one for one in self._timers if one is not timer]

    def get(self, queue: SimpleQueue[Item], until: float) -> Item:
        """Wait for the next item of a queue; raise ``queue.Empty`` when the clock reaches `until`."""
        with self._lock:
            self._threads += 1
        try:
            while True:
                is_over = self._now >= until
                try:
                    return queue.get(timeout=0.0 if is_over else _GLANCE_SECONDS)
                except Empty:
                    if is_over:
                        raise
        finally:
            with self._lock:
                self._threads -= 1

    def call_at(
        self, loop: asyncio.AbstractEventLoop, until: float, function: Callable[..., object], *arguments: object
    ) -> _Timer:
        """Schedule a function on an event loop for the clock time `until`; return a timer that can be canceled."""
        timer = _Timer(self, loop, until, function, arguments)
        with self._lock:
            is_over = self._now >= until
            if not is_over:
                self._timers.append(timer)
        if is_over:
            timer.ring()
        return timer


class _Timer:
    """A scheduled call of a function on an event loop, which can be canceled."""

    def __init__(
        self,
        clock: ManualClock,
        loop: asyncio.AbstractEventLoop,
        until: float,
        function: Callable[..., object],
        arguments: tuple[object, ...],
    ) -> None:
        self.until = until
        self._clock, self._loop, self._function, self._arguments = clock, loop, function, arguments
        self._cancelled = False

    def ring(self) -> None:
        """Make the event loop call the function."""
        with suppress(RuntimeError):  # the loop is closed, so no task waits
            self._loop.call_soon_threadsafe(self._call)

    def cancel(self) -> None:
        """Cancel the call."""
        self._cancelled = True
        self._clock.drop(self)

    def _call(self) -> None:
        if not self._cancelled:
            self._function(*self._arguments)
