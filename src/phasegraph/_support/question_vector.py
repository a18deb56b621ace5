"""Embed a question once in a retrieval call, although several sources need its vector."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

from phasegraph._support.shared import fork_safe_lock, go_on, of_call

_SECONDS = 0.05
"""Time in seconds after which a waiting search checks whether its call has ended."""


class _QuestionVector:
    """The vector of a question by one model, for all sources of a retrieval call.

    The object contains the model, so that no other model gets its address during the call.
    """

    __slots__ = ("_failures", "_lock", "_model", "_turns", "_vector")

    def __init__(self, model: object) -> None:
        self._model, self._vector, self._failures = model, None, list[Exception]()
        self._lock, self._turns = fork_safe_lock(), dict[object, asyncio.Lock]()

    def get(self, embed: Callable[[], Any]) -> Any:
        if self._vector is None:
            failed = len(self._failures)
            while not self._lock.acquire(timeout=_SECONDS):
                go_on()
            try:
                if self._is_missing(failed):
                    with self._failing():
                        self._vector = embed()
            finally:
                self._lock.release()
        return copy(self._vector)

    async def aget(self, embed: Callable[[], Awaitable[Any]]) -> Any:
        if self._vector is None:  # a lock of asyncio belongs to one event loop
            failed = len(self._failures)
            async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
                if self._is_missing(failed):
                    with self._failing():
                        self._vector = await embed()
        return copy(self._vector)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Keep an error of the model for the searches that wait."""
        try:
            yield
        except Exception as error:
            self._failures.append(error)
            raise

    def _is_missing(self, failed: int) -> bool:
        """Return True if the search must compute the vector.

        Raise the error of an attempt that failed while the search waited; `failed` is the former number of failures.
        """
        if self._vector is None and len(self._failures) > failed:
            raise self._failures[-1]
        return self._vector is None


def question_vector(model: object, question: Hashable, embed: Callable[[], Any]) -> Any:
    """Return a copy of the question's vector; ``embed()`` computes it at the first request of a retrieval call.

    Searches that request the vector at the same time wait for the first search, and raise its error if its ``embed()``
    fails. A later search then calls its own ``embed()``. Outside of a retrieval call, each request computes the vector.

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
