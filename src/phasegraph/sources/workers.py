"""Daemon threads, kept between calls, and one event loop in a daemon thread.

A thread pool of the standard library joins its threads when the interpreter ends: a search that hangs would
keep the process alive. These threads are daemons, and there are always at least as many as there are jobs, so
that no search waits behind another.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

Job: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any, Any], None], Any]
_IDLE_SECONDS = 30.0
_MOST_IDLE = 64


class WorkerPool:
    """Threads that run every job at once.

    Notes
    -----
    All threads read one queue: a thread that has finished takes the next job without a wake-up, which makes
    short jobs cheap. A thread ends after 30 idle seconds, or when more than 64 are idle.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._outstanding = 0

    @property
    def threads(self) -> int:
        """How many threads are alive."""
        return self._threads

    @property
    def outstanding(self) -> int:
        """How many jobs are queued or running."""
        return self._outstanding

    def submit(self, run: Callable[[Any], Any], then: Callable[[Any, Any], None], argument: object) -> None:
        """Call ``then(argument, run(argument))`` on a worker; neither may raise.

        RuntimeError if a new thread is needed and the system gives none; the job is then not run.
        """
        with self._lock:
            self._outstanding += 1
            short = self._outstanding > self._threads
            if short:
                self._threads += 1
        if short:
            try:
                threading.Thread(target=self._work, name="phasegraph-worker", daemon=True).start()
            except BaseException:
                with self._lock:
                    self._outstanding -= 1
                    self._threads -= 1
                raise
        self._jobs.put((run, then, argument))

    def _work(self) -> None:
        while True:
            try:
                run, then, argument = self._jobs.get(timeout=_IDLE_SECONDS)
            except Empty:
                if self._leave(0):
                    return
                continue
            result = run(argument)
            with self._lock:
                self._outstanding -= 1
            then(argument, result)
            del run, then, argument, result
            if self._threads - self._outstanding > _MOST_IDLE and self._leave(_MOST_IDLE):
                return

    def _leave(self, spare: int) -> bool:
        """Count this thread out, unless fewer than `spare` would be left idle."""
        with self._lock:
            if self._threads - self._outstanding <= spare:
                return False
            self._threads -= 1
            return True


class _Process:
    """The workers and the event loop of this process; a forked child starts with new ones."""

    def __init__(self) -> None:
        self.pool = WorkerPool()
        self.lock = threading.Lock()
        self.turn = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None


_process = _Process()


def _renew() -> None:
    global _process
    _process = _Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def pool() -> WorkerPool:
    """The workers of this process."""
    return _process.pool


OVER: ContextVar[Sequence[bool]] = ContextVar("phasegraph_over", default=())
"""Of the search at hand: not empty once nobody waits for it any more."""


@contextmanager
def turn() -> Iterator[None]:
    """One at a time: for computing that keeps the interpreter to itself, which many at once make slower.

    TimeoutError where, when its turn has come, nobody waits for the search any more.
    """
    with _process.turn:
        if OVER.get():
            raise TimeoutError("nobody waits for this search any more")
        yield


def own_loop() -> asyncio.AbstractEventLoop:
    """The event loop of our own thread, started on first use: for ``asearch`` when the caller is not async."""
    process = _process
    with process.lock:
        if process.loop is None:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="phasegraph-loop", daemon=True).start()
            process.loop = loop
        return process.loop
