"""The clock that all waiting code uses, and deadlines on this clock."""

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
"""The time of a deadline that never occurs."""

_LEAST_SECONDS = 1e-3


class Timer(Protocol):
    """A function call that is scheduled for a later time."""

    def cancel(self) -> None:
        """Cancel the call, if it has not happened yet."""


class Clock:
    """The monotonic clock of the machine, with methods that wait until a time on this clock.

    All code within a retrieval call uses the same clock. A test passes a :class:`phasegraph.testing.ManualClock`, whose
    time the test controls.

    >>> Clock().now() <= Clock().now()
    True
    """

    __slots__ = ()

    now = staticmethod(monotonic)
    """Return the time of the clock: seconds since an arbitrary moment."""

    def __reduce__(self) -> str | tuple[Any, ...]:
        return "CLOCK"

    def get(self, queue: SimpleQueue[Item], until: float) -> Item:
        """Return the next item of a queue; wait for it until the time `until`, then raise ``queue.Empty``."""
        return queue.get() if until == FOREVER else queue.get(timeout=max(until - monotonic(), 0.0))

    def call_at(
        self, loop: asyncio.AbstractEventLoop, until: float, function: Callable[..., object], *arguments: object
    ) -> Timer:
        """Let an event loop call a function at the time `until`; this method must run on the thread of the loop."""
        return loop.call_later(max(until - monotonic(), 0.0), function, *arguments)

    async def wait_for(self, awaitable: Awaitable[Item], until: float) -> Item:
        """Await a value; at the time `until`, cancel the awaitable and raise TimeoutError."""
        if until == FOREVER:
            return await awaitable
        async with asyncio.timeout(None) as limit:
            timer = self.call_at(
                asyncio.get_running_loop(), until, limit.reschedule, 0.0
            )  # time 0 is past: the timeout expires
            try:
                return await awaitable
            finally:
                timer.cancel()

    async def wait(self, futures: Collection[asyncio.Future[Any]], until: float) -> None:
        """Wait until all futures are done or the time `until` is reached; do not cancel any future."""
        with suppress(TimeoutError):
            await self.wait_for(asyncio.wait(futures), until)


CLOCK = Clock()
"""The default clock, which is the monotonic clock of the machine."""


class Deadline:
    """The time by which a call or a step of a call must end: `due`, a time on `clock`.

    >>> Deadline.after(CLOCK, 60.0).part(0.5).left() <= 30.0, Deadline.after(CLOCK, None).left()
    (True, None)
    """

    __slots__ = ("clock", "due")

    def __init__(self, clock: Clock, due: float) -> None:
        self.clock = clock
        self.due = due

    @classmethod
    def after(cls, clock: Clock, seconds: float | None) -> Deadline:
        """Return the deadline that is `seconds` from now; None means no deadline."""
        return cls(clock, FOREVER if seconds is None else clock.now() + seconds)

    def left(self) -> float | None:
        """Return the remaining time in seconds, at least 0.001; return None if there is no deadline."""
        return None if self.due == FOREVER else max(self.due - self.clock.now(), _LEAST_SECONDS)

    def part(self, share: float = 1.0, most: float | None = None) -> Deadline:
        """Return the deadline of a step that may use only a part of the remaining time.

        The step may use `share`, a number in [0, 1], times the remaining time. If more than `most` seconds remain, or
        if there is no deadline, the step may use `share` times `most` seconds. Without a deadline and without `most`,
        the step has no deadline either.
        """
        left = self.left()
        if left is None or (most is not None and most < left):
            left = most
        return Deadline.after(self.clock, None if left is None else left * share)


NO_DEADLINE = Deadline(CLOCK, FOREVER)

DEADLINE: ContextVar[Deadline] = ContextVar("phasegraph_deadline", default=NO_DEADLINE)
"""The deadline of the running search or step, for code that it calls."""
