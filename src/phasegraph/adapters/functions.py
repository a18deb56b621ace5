"""What a plain function takes, and what it hands back lazily."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from phasegraph.sources.answers import MalformedAnswerError

_MOST_LAZY_HITS = 100_000


def parameters_of(function: Callable[..., Any]) -> frozenset[str]:
    """Names of a function's parameters; none where it does not tell."""
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return frozenset()


def drained(answer: Iterable[object]) -> list[object]:
    """What an iterator of hits gives.

    Raises
    ------
    MalformedAnswerError
        If it raises, or does not end within 100,000 hits.
    """
    items: list[object] = []
    try:
        items.extend(islice(answer, _MOST_LAZY_HITS + 1))
    except MemoryError:
        raise
    except Exception as error:
        raise MalformedAnswerError(f"malformed: {type(error).__name__} raised by an iterator of hits") from error
    if len(items) > _MOST_LAZY_HITS:
        raise MalformedAnswerError(f"malformed: an iterator of hits must end within {_MOST_LAZY_HITS}; it went on")
    return items
