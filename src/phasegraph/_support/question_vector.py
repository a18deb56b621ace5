"""Embed a question once in a retrieval call, although several sources need its vector."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from copy import copy
from typing import Any

from phasegraph._support.shared import fork_safe_lock, go_on, of_call

_SECONDS = 0.05
"""Time in seconds after which a waiting search checks whether its call has ended."""


class _QuestionVector:
    """The vector of a question by one model, for all sources of a retrieval call.

    The object contains the model, so that no other model gets its address during the call.
    """

    __slots__ = ("_lock", "_model", "_turns", "_vector")

    def __init__(self, model: object) -> None:
        self._model, self._vector = model, None
        self._lock, self._turns = fork_safe_lock(), dict[object, asyncio.Lock]()

    def get(self, embed: Callable[[], Any]) -> Any:
        if self._vector is None:
            while not self._lock.acquire(timeout=_SECONDS):
                go_on()
            try:
                if self._vector is None:
                    self._vector = embed()
            finally:
                self._lock.release()
        return copy(self._vector)

    async def aget(self, embed: Callable[[], Awaitable[Any]]) -> Any:
        if self._vector is None:  # a lock of asyncio belongs to one event loop
            async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                if self._vector is None:
                    self._vector = await embed()
        return copy(self._vector)


def question_vector(model: object, question: Hashable, embed: Callable[[], Any]) -> Any:
    """Return a copy of the question's vector; ``embed()`` computes it at the first request of a retrieval call.

    Searches that request the vector at the same time wait for the first search. If ``embed()`` raises an error, the
    next search calls its own ``embed()``. Outside of a retrieval call, each request computes the vector.

    >>> from phasegraph._support.shared import one_call
    >>> with one_call():
    ...     question_vector("model", "Who?", lambda: [1.0]), question_vector("model", "Who?", lambda: [2.0])
    ([1.0], [1.0])
    """
    return _of(model, question).get(embed)


async def aquestion_vector(model: object, question: Hashable, embed: Callable[[], Awaitable[Any]]) -> Any:
    """Run :func:`question_vector` on the event loop; a search waits only for other searches on the same event loop."""
    return await _of(model, question).aget(embed)


def _of(model: object, question: Hashable) -> _QuestionVector:
    return of_call((_QuestionVector, id(model), question), _QuestionVector(model))
