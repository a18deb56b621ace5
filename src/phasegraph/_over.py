"""Whether anybody still waits for the work at hand: what goes on after its deadline slows down what comes after it."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

OVER: ContextVar[Sequence[bool]] = ContextVar("phasegraph_over", default=())
"""Of the work at hand: not empty once nobody waits for it any more."""


def go_on() -> None:
    """TimeoutError where nobody waits any more; for loops that compute for long."""
    if OVER.get():
        raise TimeoutError("nobody waits for this any more")
