"""A process that only computes answers, beside the process that receives, checks and refuses requests.

In a single process, the event loop and the searches would wait for the same interpreter, and hostile clients would slow
down every search.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Protocol

from phasegraph.apps.server.json_answers import Answers
from phasegraph.errors import InvalidInputError, StoreError, portable
from phasegraph.sources.workers import SPENT, metered, outcome_of

_GRACE = 2.0
"""Seconds that the process has to end by itself when the server stops; a model may have to remove its files."""

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
    once. If the process ends, this process gets SIGINT, which stops a server, and StoreError is raised at the end.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs without SIGINT
    process = _AnswerProcess(make, concurrent)
    try:
        yield {caller: _RemoteAnswers(process, caller, vectors) for caller, vectors in process.has_vectors.items()}
    finally:
        if process.stop():
            raise StoreError(process.fate())


class _RemoteAnswers:
    """The answers to one caller, computed by the other process."""

    def __init__(self, process: _AnswerProcess, caller: str, has_vectors: bool) -> None:
        self._process, self._caller, self.has_vectors = process, caller, has_vectors

    def answer(self, method: str, body: bytes) -> str:
        """Answer a request; see :class:`Answers`."""
        return self._process.answer(self._caller, method, body)


class _AnswerProcess:
    """The process that computes the answers, with a connection for each of its concurrent requests."""

    def __init__(self, make: Callable[[], Answering], concurrent: int) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = zip(*(context.Pipe() for _ in range(1 + concurrent)), strict=True)
        self._control: Connection = ours[0]
        self._process = context.Process(target=_work, args=(make, theirs), name="phasegraph-answers")
        self._ended = self._stopping = False
        self._process.start()
        for connection in theirs:
            connection.close()  # so that the end of the process closes the connection
        try:
            self.has_vectors, error, place = self._control.recv()
        except EOFError:
            self._process.join()
            raise StoreError(self.fate()) from None
        except BaseException:
            self._process.kill()
            raise
        if error is not None:
            self._end()
            error.place = place
            raise error
        self._free: SimpleQueue[Connection] = SimpleQueue()
        for connection in ours[1:]:
            self._free.put(connection)
        threading.Thread(target=self._watch, name="phasegraph-watch", daemon=True).start()

    def answer(self, caller: str, method: str, body: bytes) -> str:
        """Answer a request of a caller; its processor time is added to the list in :data:`SPENT`."""
        connection = self._free.get()
        try:
            connection.send((caller, method, body))
            answer, refused, failed, seconds = connection.recv()
        except (EOFError, OSError):
            raise StoreError("the process that computes the answers ended") from None
        finally:
            self._free.put(connection)
        if (spent := SPENT.get()) is not None:
            spent.append(seconds)
        if refused:
            raise InvalidInputError(refused)
        if failed:
            raise StoreError(failed)
        found: str = answer
        return found

    def _watch(self) -> None:
        self._process.join()
        if not self._stopping:
            self._ended = True
            signal.raise_signal(signal.SIGINT)

    def _end(self) -> None:
        try:
            self._process.join(_GRACE)
        finally:
            self._process.kill()

    def stop(self) -> bool:
        """Stop the process; return True if it had already ended."""
        self._stopping = True
        with suppress(OSError):
            self._control.send("stop")
        self._end()
        return self._ended

    def fate(self) -> str:
        """Return a sentence that says how the process ended."""
        return f"the process that computes the answers ended (exit code {self._process.exitcode})"


def _work(make: Callable[[], Answering], connections: tuple[Connection, ...]) -> None:
    """Answer requests until the server stops. The first connection is for control; each other one has a thread."""
    control, *requests = connections
    for number in (signal.SIGINT, signal.SIGTERM):  # a signal may reach both processes, and this process ends last
        signal.signal(number, lambda *_: None)
    stopped = threading.Event()
    threading.Thread(target=_end_with_server, args=(control, stopped), daemon=True).start()
    made, error = outcome_of(make)
    if error is not None:
        _log.debug("", exc_info=error)
        where = traceback.extract_tb(error.__traceback__)[-1]
        control.send((None, portable(error), f"{where.filename}, line {where.lineno}"))
        return
    control.send(({caller: one.has_vectors for caller, one in made.views.items()}, None, ""))
    gc.freeze()  # or else each full garbage collection stops all threads until it has visited every loaded object
    for one in requests:
        threading.Thread(target=_answer_all, args=(made.views, one), daemon=True).start()
    stopped.wait()


def _end_with_server(control: Connection, stopped: threading.Event) -> None:
    """Set `stopped` if the server stops; end this process if the server's process has ended."""
    with suppress(EOFError, OSError):
        control.recv()
        stopped.set()
        control.recv()
    os._exit(1)


def _failure(error: BaseException) -> str:
    """Return the text of a StoreError, and only the class of any other error, which may have no text."""
    return str(error) if isinstance(error, StoreError) else f"the search failed ({type(error).__name__})"


def _answer_all(views: Mapping[str, Answers], connection: Connection) -> None:
    try:
        while True:
            caller, method, body = connection.recv()
            jobs = list[float]()
            SPENT.set(jobs)
            answer, error = metered(outcome_of, partial(views[caller].answer, method, body))
            refused = str(error) if isinstance(error, InvalidInputError) else ""
            failed = "" if error is None or refused else _failure(error)
            connection.send((answer, refused, failed, sum(jobs)))
    finally:  # the server's process has ended, or requests of this connection would wait for ever
        os._exit(1)
