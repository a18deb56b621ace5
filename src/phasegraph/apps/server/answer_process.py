"""A process that only computes answers, so that a flood of requests leaves its interpreter free.

The event loop of a server receives, checks and refuses requests. In one process, it and the searches would wait for the
same interpreter, and hostile clients would slow down every search.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Protocol

from phasegraph.apps.server.json_answers import Answers
from phasegraph.errors import StoreError, portable
from phasegraph.sources.workers import SPENT, metered, outcome_of

_log = logging.getLogger("phasegraph")


class Answering(Protocol):
    """The interface of an object that has the answers of each caller, such as a :class:`Served`."""

    @property
    def views(self) -> Mapping[str, Answers]:
        """The answers by caller."""
        ...


@contextmanager
def answer_process(make: Callable[[], Answering], concurrent: int) -> Iterator[dict[str, Answers]]:
    """Start a process that calls `make` and answers requests; yield its answers by caller, and stop it at the end.

    `make` must be picklable; an error that it raises is raised here. The process answers `concurrent` requests at once.
    If the process ends, the requests that it had fail with StoreError, and a new process is started.
    """
    restarting = _Restarting(make, concurrent)
    try:
        yield {caller: _Remote(restarting, caller, vectors) for caller, vectors in restarting.now.has_vectors.items()}
    finally:
        restarting.now.stop()


class _Remote:
    """The answers to one caller, computed by the other process."""

    def __init__(self, process: _Restarting, caller: str, has_vectors: bool) -> None:
        self._process, self._caller, self.has_vectors = process, caller, has_vectors

    def answer(self, method: str, body: bytes) -> str:
        """Answer a request; see :class:`Answers`."""
        return self._process.answer(self._caller, method, body)


class _Restarting:
    """A process that computes answers, or its successor."""

    def __init__(self, make: Callable[[], Answering], concurrent: int) -> None:
        self._start = partial(_Process, make, concurrent)
        self._lock = threading.Lock()
        self.now = self._start()

    def answer(self, caller: str, method: str, body: bytes) -> str:
        process = self.now
        connection = process.free.get()
        try:
            connection.send((caller, method, body))
            value, error, seconds = connection.recv()
        except (EOFError, OSError) as ended:
            with self._lock:
                if self.now is process:
                    code = process.stop()
                    _log.error("the process that computes the answers ended (exit code %s); it is started again", code)
                    self.now = self._start()
            raise StoreError("the process that computes the answers ended; a new process was started") from ended
        finally:
            process.free.put(connection)
        if (spent := SPENT.get()) is not None:
            spent.append(seconds)
        if error is not None:
            raise error
        found: str = value
        return found


class _Process:
    """A running process that computes answers; `free` are its connections that have no request."""

    def __init__(self, make: Callable[[], Answering], concurrent: int) -> None:
        context = multiprocessing.get_context("spawn")
        pairs = [context.Pipe() for _ in range(concurrent)]
        theirs = [connection for _, connection in pairs]
        self._process = context.Process(target=_work, args=(make, theirs), name="phasegraph-answers", daemon=True)
        self._process.start()
        for connection in theirs:
            connection.close()  # so that the end of the process closes the pair
        self.free: SimpleQueue[Connection] = SimpleQueue()
        try:
            self.has_vectors, error = pairs[0][0].recv()
        except EOFError:
            raise StoreError(f"the process that computes the answers ended (exit code {self.stop()})") from None
        if error is not None:
            raise error
        for connection, _ in pairs:
            self.free.put(connection)

    def stop(self) -> int | None:
        """End the process, and return its exit code."""
        self._process.kill()
        self._process.join()
        return self._process.exitcode


def _work(make: Callable[[], Answering], connections: list[Connection]) -> None:
    """Answer the requests of each connection in a thread of its own until the server's process closes it."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches both processes, and the server's process stops this one
    made, error = outcome_of(make)
    if error is not None:
        connections[0].send((None, portable(error)))
        return
    connections[0].send(({caller: one.has_vectors for caller, one in made.views.items()}, None))
    gc.freeze()  # or else each full garbage collection stops all threads until it has visited every loaded object
    threads = [threading.Thread(target=_answer_all, args=(made.views, one), daemon=True) for one in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _answer_all(views: Mapping[str, Answers], connection: Connection) -> None:
    while True:
        try:
            caller, method, body = connection.recv()
        except EOFError:
            return
        jobs = list[float]()
        SPENT.set(jobs)
        value, error = metered(outcome_of, partial(views[caller].answer, method, body))
        if error is not None:
            _log.debug("", exc_info=error)
        connection.send((value, portable(error), sum(jobs)))
