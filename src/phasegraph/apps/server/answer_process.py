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
    """The interface of an object with the answers of each caller, such as a :class:`Served`."""

    @property
    def views(self) -> Mapping[str, Answers]:
        """The answers by caller."""
        ...


@contextmanager
def answer_process(make: Callable[[], Answering], concurrent: int) -> Iterator[dict[str, Answers]]:
    """Start a process that calls `make` and answers requests; yield its answers by caller, and stop it at the end.

    `make` must be picklable; an error that it raises is raised here, too. The process answers `concurrent` requests at
    once. If the process ends, its current requests fail with StoreError, and a new process is started.
    """
    process = _AnswerProcess(make, concurrent)
    try:
        yield {caller: _RemoteAnswers(process, caller, vectors) for caller, vectors in process.now.has_vectors.items()}
    finally:
        process.now.stop()


class _RemoteAnswers:
    """The answers to one caller, computed by the other process."""

    def __init__(self, process: _AnswerProcess, caller: str, has_vectors: bool) -> None:
        self._process, self._caller, self.has_vectors = process, caller, has_vectors

    def answer(self, method: str, body: bytes) -> str:
        """Answer a request; see :class:`Answers`."""
        return self._process.answer(self._caller, method, body)


class _AnswerProcess:
    """The process that computes the answers; if it ends, a new process takes its place (`now`)."""

    def __init__(self, make: Callable[[], Answering], concurrent: int) -> None:
        self._start = partial(_Process, make, concurrent)
        self._lock = threading.Lock()
        self.now = self._start()

    def answer(self, caller: str, method: str, body: bytes) -> str:
        """Answer a request of a caller; its processor time is added to the list in :data:`SPENT`."""
        process, connection = self._sent((caller, method, body))
        try:
            value, error, seconds = connection.recv()
        except (EOFError, OSError) as ended:
            self._replace(process)
            raise StoreError("the process that computes the answers ended; a new process was started") from ended
        finally:
            process.free.put(connection)
        if (spent := SPENT.get()) is not None:
            spent.append(seconds)
        if error is not None:
            raise error
        found: str = value
        return found

    def _sent(self, request: tuple[str, str, bytes]) -> tuple[_Process, Connection]:
        """Send a request; return the process that has received it, and the connection on which it will answer."""
        while True:
            process = self.now
            connection = process.free.get()
            try:
                connection.send(request)
                return process, connection
            except OSError:  # the process ended before it received the request
                process.free.put(connection)
                self._replace(process)

    def _replace(self, ended: _Process) -> None:
        with self._lock:
            if self.now is ended:
                code = ended.stop()
                _log.error("the process that computes the answers ended (exit code %s); starting a new process", code)
                self.now = self._start()


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
        try:
            self.has_vectors, error = pairs[0][0].recv()
        except EOFError:
            raise StoreError(f"the process that computes the answers ended (exit code {self.stop()})") from None
        except BaseException:
            self.stop()
            raise
        if error is not None:
            raise error
        self.free: SimpleQueue[Connection] = SimpleQueue()
        for connection, _ in pairs:
            self.free.put(connection)

    def stop(self) -> int | None:
        """End the process, and return its exit code."""
        self._process.kill()
        self._process.join()
        return self._process.exitcode


def _work(make: Callable[[], Answering], connections: list[Connection]) -> None:
    """Answer the requests of each connection in a thread of its own until the server's process closes it."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a signal may reach both processes; this process ends last
        signal.signal(number, signal.SIG_IGN)
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
