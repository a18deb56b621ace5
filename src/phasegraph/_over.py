"""How long anybody waits for the work at hand: what goes on after its deadline slows down what comes after it."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from time import monotonic

OVER: ContextVar[Sequence[bool]] = ContextVar("phasegraph_over", default=())
"""Of the work at hand: not empty once nobody waits for it any more."""

DUE: ContextVar[float] = ContextVar("phasegraph_due", default=float("inf"))
"""When the work at hand is late, on the monotonic clock."""


def seconds_left() -> float:
    """Until the work at hand is late, >= 0; infinite where it has no deadline."""
    return max(DUE.get() - monotonic(), 0.0)


def go_on() -> None:
    """TimeoutError where nobody waits any more; for loops that compute for long."""
    if OVER.get():
        raise TimeoutError("nobody waits for this any more")
