"""Processes that only compute answers, beside the process that receives, checks and refuses requests.

In a single process, the event loop and the searches would wait for the same interpreter, and hostile clients would slow
down every search. Another process of low priority computes the answers that take long, so that they slow down the other
answers only a little.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from phasegraph.apps.server.json_answers import Answers
from phasegraph.apps.server.turns import LOW_PRIORITY
from phasegraph.errors import InvalidInputError, StoreError, portable
from phasegraph.sources.workers import SPENT, metered, outcome_of

_GRACE = 2.0
"""Seconds that the process has to end by itself when the server stops; a model may have to remove its files."""

_NICENESS = 10
"""Niceness of the process of low priority (POSIX only)."""

_log = logging.getLogger("phasegraph")


class Answering(Protocol):
    """The interface of an object with the answers of each caller, such as a :class:`Served`."""

    @property
    def views(self) -> Mapping[str, Answers]:
        """The answers by caller."""
        ...


@contextmanager
def answer_processes(
    make: Callable[[], Answering], most: int, make_low: Callable[[], Answering] | None = None, most_low: int = 1
) -> Iterator[dict[str, Answers]]:
    """Start processes that answer requests; yield their answers by caller, and stop the processes at the end.

    One process calls `make` and answers `most` requests at once. If `make_low` is given, another process of low
    priority calls it, and answers the requests in whose context :data:`LOW_PRIORITY` is true, `most_low` of them at
    once. The functions must be picklable; an error that they raise is raised here, too. If a process ends, this process
    gets SIGINT, which stops a server, and StoreError is raised at the end.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs without SIGINT
    with ExitStack() as stack:
        normal = low = stack.enter_context(_AnswerProcess(make, most, "the process that computes the answers"))
        if make_low is not None:
            said = "the process that computes the answers of low priority"
            low = stack.enter_context(_AnswerProcess(make_low, most_low, said, _NICENESS))
        stack.callback(low.stop)  # the processes stop at the same time, and are then joined one by one
        stack.callback(normal.stop)
        _wait_until_ready({normal, low})
        yield {caller: _RemoteAnswers(normal, low, caller, vectors) for caller, vectors in normal.has_vectors.items()}


def _wait_until_ready(processes: Collection[_AnswerProcess]) -> None:
    """Wait until all processes can answer; raise the error of a process that cannot, and StoreError if one ends."""
    loading: dict[Any, _AnswerProcess] = {one.control: one for one in processes}
    try:
        while loading:
            ends: dict[Any, _AnswerProcess] = {one.sentinel: one for one in processes if one.control not in loading}
            for ready in wait([*loading, *ends]):
                if ready in ends:
                    raise StoreError(ends[ready].fate())
                loading.pop(ready).receive_readiness()
    except BaseException:
        for one in processes:
            one.kill()
        raise
    for one in processes:
        one.watch()


class _RemoteAnswers:
    """The answers to one caller, computed by another process."""

    def __init__(self, normal: _AnswerProcess, low: _AnswerProcess, caller: str, has_vectors: bool) -> None:
        self._normal, self._low, self._caller, self.has_vectors = normal, low, caller, has_vectors

    def answer(self, method: str, body: bytes) -> str:
        """Answer a request; see :class:`Answers`."""
        return (self._low if LOW_PRIORITY.get() else self._normal).answer(self._caller, method, body)


class _AnswerProcess:
    """The process that computes the answers, with a connection for each of its concurrent requests."""

    def __init__(self, make: Callable[[], Answering], concurrent: int, name: str, niceness: int = 0) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = zip(*(context.Pipe() for _ in range(1 + concurrent)), strict=True)
        self._name, self.has_vectors = name, dict[str, bool]()
        self.control: Connection = ours[0]
        self._process = context.Process(target=_work, args=(make, theirs, niceness), name="phasegraph-answers")
        self._ended = self._stopping = False
        self._free: SimpleQueue[Connection] = SimpleQueue()
        for connection in ours[1:]:
            self._free.put(connection)
        self._process.start()
        self.sentinel = self._process.sentinel
        for connection in theirs:
            connection.close()  # so that the end of the process closes the connection

    def __enter__(self) -> _AnswerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the process; raise StoreError if it had already ended."""
        self.stop()
        self._end()
        if self._ended:
            raise StoreError(self.fate())

    def stop(self) -> None:
        """Tell the process to end, and do not wait for its end."""
        if not self._stopping:  # the process understands a second message as the end of this process
            self._stopping = True
            with suppress(OSError):
                self.control.send("stop")

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def receive_readiness(self) -> None:
        """Receive whether there are vectors, by caller, or the error of the process."""
        try:
            self.has_vectors, error, place = self.control.recv()
        except EOFError:
            self._process.join()
            raise StoreError(self.fate()) from None
        if error is not None:
            self._end()
            error.place = place
            raise error

    def watch(self) -> None:
        """Start the thread that interrupts the server if the process ends."""
        threading.Thread(target=self._watch, name="phasegraph-watch", daemon=True).start()

    def fate(self) -> str:
        """Return a sentence that says how the process ended; wait for its end."""
        self._process.join(_GRACE)
        return f"{self._name} ended (exit code {self._process.exitcode})"

    def answer(self, caller: str, method: str, body: bytes) -> str:
        """Answer a request of a caller; its processor time is added to the list in :data:`SPENT`."""
        connection = self._free.get()
        try:
            connection.send((caller, method, body))
            answer, refused, failed, seconds = connection.recv()
        except (EOFError, OSError):
            raise StoreError(f"{self._name} ended") from None
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


def _work(make: Callable[[], Answering], connections: tuple[Connection, ...], niceness: int) -> None:
    """Answer requests until the server stops. The first connection is for control; each other one has a thread."""
    control, *requests = connections
    for number in (signal.SIGINT, signal.SIGTERM):  # a signal may reach both processes, and this process ends last
        signal.signal(number, lambda *_: None)
    stopped = threading.Event()
    threading.Thread(target=_end_with_server, args=(control, stopped), daemon=True).start()
    made, error = outcome_of(make)
    if niceness:
        _lower_priority(niceness)
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


def _lower_priority(niceness: int) -> None:
    """Add to the niceness of all threads of this process; BLAS has already started threads."""
    if hasattr(os, "nice"):
        new = os.nice(niceness)
        for thread in Path("/proc/self/task").glob("*"):  # on Linux, each thread has its own niceness
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), new)


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
