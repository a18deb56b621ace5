"""Transactions that end by a deadline, whatever the state of the server and the network.

Neo4j's driver does not enforce a deadline: its retries exceed their limit, and a silent server blocks a reading thread
until the connection ends. This module therefore makes the attempts itself, each with the remaining time. The caller
never waits longer than the deadline. A connection that stays silent after the deadline is closed, which frees the
thread.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any, TypeVar

from phasegraph.errors import StoreError
from phasegraph.neo4j.errors import late
from phasegraph.sources.workers import own_loop, pool

_Answer = TypeVar("_Answer")
# Number of rows per request to the server. Large requests are faster; small requests waste less work at a deadline.
BULK_ROWS, ONLINE_ROWS, BULK_FROM_SECONDS = 10_000, 1000, 30.0
# Time after the deadline, in seconds, after which a connection is closed. The server checks its time limits every two
# seconds. If it ends the slow transaction itself, the connection can be used again.
CUT_SECONDS = 2.5
_FIRST_DELAY, _LONGEST_DELAY = 1 / 16, 1.0
# Maximum time for retries after connection errors, in seconds. It covers an election of a leader, and limits the wait
# for a wrong address.
LONGEST_TRYING = 15.0


class Transactions:
    """Transactions with retries and a deadline, over the sessions of a driver."""

    def __init__(self, driver: Any, database: str | None) -> None:
        self.driver = driver
        self._database = database
        self._sessions: set[Any] = set()
        self._closed = False

    def run_in_time(
        self, method: str, work: Callable[[Any], _Answer], seconds: float, afterwards: Callable[[], None]
    ) -> _Answer:
        """Run a transaction function in a worker thread, as `run` does; raise a `StoreError` after `seconds`.

        After the deadline, the worker continues until its transaction ends or its connection is closed. It then calls
        `afterwards`, which must not raise an error.
        """
        answers: SimpleQueue[tuple[_Answer | None, BaseException | None]] = SimpleQueue()
        given_up = threading.Event()
        mine: set[Any] = set()

        def run(context: Any) -> None:
            outcome: tuple[_Answer | None, BaseException | None]
            try:
                outcome = context.run(self._tried, method, work, seconds, mine), None
            except BaseException as error:  # noqa: BLE001 - passed on to the caller
                outcome = None, error
            answers.put(outcome)
            if given_up.is_set():
                afterwards()

        own_loop()  # started now, because it may be needed at the deadline
        pool().submit(run, lambda _, nothing: None, copy_context())
        try:
            answer, error = answers.get(timeout=seconds)
        except Empty:
            given_up.set()
            _cut_later(mine, CUT_SECONDS)
            raise late(seconds) from None
        if error is not None:
            try:
                raise error
            finally:
                del error
        return answer  # type: ignore[return-value]

    def run(self, method: str, work: Callable[[Any], _Answer], seconds: float) -> _Answer:
        """Run a transaction function with the session method `method`, and wait for its end.

        `method` is "execute_read" or "execute_write". After a temporary failure, the transaction is retried for half of
        `seconds`, at most 15 seconds. If the server itself reports the first failure, such as a deadlock, the
        transaction is retried for `seconds`. An attempt waits for a connection for at most half of `seconds`.
        """
        mine: set[Any] = set()
        _cut_later(mine, seconds + CUT_SECONDS)
        return self._tried(method, work, seconds, mine)

    def _tried(self, method: str, work: Callable[[Any], _Answer], seconds: float, mine: set[Any]) -> _Answer:
        """Attempt a transaction until it succeeds or the time is over, and return its result.

        The set `mine` contains the session of the current attempt, so that other threads can close its connection.
        """
        import neo4j

        began = monotonic()
        delay = min(seconds * _FIRST_DELAY, _LONGEST_DELAY)
        settings = {
            "database": self._database,
            "fetch_size": BULK_ROWS if seconds >= BULK_FROM_SECONDS else ONLINE_ROWS,
            "default_access_mode": neo4j.READ_ACCESS if method == "execute_read" else neo4j.WRITE_ACCESS,
            "max_transaction_retry_time": 0.0,
            # Otherwise, the driver would log a warning for each schema preset that the database does not use.
            "notifications_min_severity": "OFF",
        }
        again = False
        while True:
            if self._closed:
                raise StoreError("this Neo4jConnection has been closed: make a new connection")
            left = max(seconds - (monotonic() - began), 0.001)
            patience = min(seconds / 2, left, 60.0)
            try:
                with self.driver.session(connection_acquisition_timeout=patience, **settings) as session:
                    self._sessions.add(session)
                    mine.add(session)
                    try:
                        answer: _Answer = getattr(session, method)(neo4j.unit_of_work(timeout=left)(work))
                        return answer
                    finally:
                        mine.discard(session)
                        self._sessions.discard(session)
            except (neo4j.exceptions.DriverError, neo4j.exceptions.Neo4jError) as error:
                pause = delay * random.uniform(0.8, 1.2)  # random, because clients must not all retry at the same time
                answered = isinstance(error, neo4j.exceptions.Neo4jError)
                trying = seconds if answered and not again else min(seconds / 2, LONGEST_TRYING)
                if not error.is_retryable() or monotonic() - began + pause > trying:
                    raise
            sleep(pause)
            delay *= 2
            again = True

    def close(self) -> None:
        """Close the driver; first, close connections in use, and wait at most a second for their sessions to end.

        Otherwise, the driver would write into buffers that other threads are reading.
        """
        self._closed = True
        end = monotonic() + 1.0
        while self._sessions and monotonic() < end:
            _cut(self._sessions)
            sleep(0.005)
        try:
            self.driver.close()
        except BufferError:  # a connection could not be closed; it ends with its session
            self.driver.close()


def _cut_later(sessions: set[Any], seconds: float) -> None:
    """Wait for `seconds`, then close the connections of all `sessions` that are still in use."""
    loop = own_loop()
    loop.call_soon_threadsafe(loop.call_later, seconds, _cut, sessions)


def _cut(sessions: set[Any]) -> None:
    """Shut down the sockets of sessions; the driver then removes their connections from its pool.

    This function is the only code that uses private attributes of the driver, because the public methods do not
    suffice. Synchronous sessions cannot be canceled (only ``AsyncSession`` has ``cancel``), and reading has no time
    limit. ``Session.close`` waits for the server. ``Driver.close`` from another thread ends all sessions of the driver,
    including sessions of the caller, and raises a BufferError while a session is receiving. If a future driver stores
    its socket elsewhere, no socket is shut down, and the worker thread waits until the connection ends.
    """
    for session in tuple(sessions):
        wire = getattr(getattr(session, "_connection", None), "socket", None)
        raw = getattr(wire, "_socket", None)
        if isinstance(raw, socket.socket):
            with contextlib.suppress(OSError):
                raw.shutdown(socket.SHUT_RDWR)
