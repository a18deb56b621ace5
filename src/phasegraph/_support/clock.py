"""Time as a value: a clock to read and to wait on, and the deadline of the work at hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from contextvars import ContextVar
from queue import SimpleQueue
from time import monotonic
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")

FOREVER = float("inf")
"""The time of a deadline that never comes."""

_LEAST_SECONDS = 1e-3


class Timer(Protocol):
    """A pending call of a function."""

    def cancel(self) -> None:
        """Do not call the function."""


class Clock:
    """The monotonic clock of the machine: read it, or wait until a time on it.

    A call reads and waits on one clock, that of its gatherer. A test passes another clock, which it advances itself
    (:class:`phasegraph.testing.ManualClock`).

    >>> Clock().now() <= Clock().now()
    True
    """

    __slots__ = ()

    now = staticmethod(monotonic)
    """Seconds since an arbitrary time."""

    def __reduce__(self) -> str | tuple[Any, ...]:
        return "CLOCK"

    def get(self, queue: SimpleQueue[Item], until: float) -> Item:
        """Wait for the next item of a queue; ``queue.Empty`` if there is none at the time `until`."""
        return queue.get() if until == FOREVER else queue.get(timeout=max(until - monotonic(), 0.0))

    def call_at(
        self, loop: asyncio.AbstractEventLoop, until: float, function: Callable[..., object], *arguments: object
    ) -> Timer:
        """Call a function on an event loop at the time `until`; use it on the thread of the loop."""
        return loop.call_later(max(until - monotonic(), 0.0), function, *arguments)

    async def wait_for(self, awaitable: Awaitable[Item], until: float) -> Item:
        """Await a value; cancel it and raise TimeoutError if it is not there at the time `until`."""
        if until == FOREVER:
            return await awaitable
        async with asyncio.timeout(None) as limit:
            timer = self.call_at(asyncio.get_running_loop(), until, limit.reschedule, 0.0)  # 0 is past: it expires
            try:
                return await awaitable
            finally:
                timer.cancel()

    async def wait(self, futures: Collection[asyncio.Future[Any]], until: float) -> None:
        """Wait for all futures, and not beyond the time `until`; cancel none of them."""
        with suppress(TimeoutError):
            await self.wait_for(asyncio.wait(futures), until)


CLOCK = Clock()
"""The clock of every call that is given no other."""


class Deadline:
    """A time on a clock, at which the work at hand is late.

    >>> Deadline.after(CLOCK, 60.0).part(0.5).left() <= 30.0, Deadline.after(CLOCK, None).left()
    (True, None)
    """

    __slots__ = ("clock", "due")

    def __init__(self, clock: Clock, due: float) -> None:
        self.clock = clock
        self.due = due

    @classmethod
    def after(cls, clock: Clock, seconds: float | None) -> Deadline:
        """The deadline in so many seconds; None is no deadline."""
        return cls(clock, FOREVER if seconds is None else clock.now() + seconds)

    def left(self) -> float | None:
        """The remaining seconds, at least one millisecond; None without a deadline."""
        return None if self.due == FOREVER else max(self.due - self.clock.now(), _LEAST_SECONDS)

    def part(self, share: float = 1.0, most: float | None = None) -> Deadline:
        """The deadline of a step that may take a share of the remaining time, and of `most` seconds if it is given."""
        left = self.left()
        if left is None or (most is not None and most < left):
            left = most
        return Deadline.after(self.clock, None if left is None else left * share)


NO_DEADLINE = Deadline(CLOCK, FOREVER)

DEADLINE: ContextVar[Deadline] = ContextVar("phasegraph_deadline", default=NO_DEADLINE)
"""The deadline of the work at hand."""
