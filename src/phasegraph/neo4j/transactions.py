"""One managed transaction within a deadline, whatever the server and the network do.

The driver keeps to no deadline of its own: its retries overshoot their budget, and a server that falls silent holds a
reading thread for as long as the connection lives. So the attempts are made here, each with the time that is left;
the caller waits no longer than its deadline; and a connection that is silent long after it is cut, which frees both
the thread and the connection.
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
# Rows in one pull: a large one is quicker, a small one leaves less to throw away at the deadline.
BULK_ROWS, ONLINE_ROWS, BULK_FROM_SECONDS = 10_000, 1000, 30.0
# The server looks at its clock every two seconds: within that it ends a slow transaction itself, and the
# connection can be used again.
CUT_SECONDS = 2.5
_FIRST_DELAY, _LONGEST_DELAY = 1 / 16, 1.0
# A change of leader is over by then; loading a corpus from a wrong address waits no longer.
LONGEST_TRYING = 15.0


class Transactions:
    """Managed transactions of one driver."""

    def __init__(self, driver: Any, database: str | None) -> None:
        self.driver = driver
        self._database = database
        self._sessions: set[Any] = set()
        self._closed = False

    def run_in_time(
        self, method: str, work: Callable[[Any], _Answer], seconds: float, afterwards: Callable[[], None]
    ) -> _Answer:
        """As `run`, in a worker: its result, its error, or a `StoreError` after `seconds`.

        A worker that is too late is left to end by itself, or cut, and then calls `afterwards`, which must not raise.
        """
        answers: SimpleQueue[tuple[_Answer | None, BaseException | None]] = SimpleQueue()
        given_up = threading.Event()
        mine: set[Any] = set()

        def run(context: Any) -> None:
            outcome: tuple[_Answer | None, BaseException | None]
            try:
                outcome = context.run(self._tried, method, work, seconds, mine), None
            except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
                outcome = None, error
            answers.put(outcome)
            if given_up.is_set():
                afterwards()

        own_loop()  # begun now rather than at the deadline, where it may be needed
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
        """Run a transaction function by "execute_read" or "execute_write", and wait for its end.

        A failure that may pass is tried again for half of `seconds`, 15 at most. The first failure that the server
        itself reports, such as a deadlock, is tried again for as long as there is time. An attempt waits for a
        connection for half of `seconds` at most.
        """
        mine: set[Any] = set()
        _cut_later(mine, seconds + CUT_SECONDS)
        return self._tried(method, work, seconds, mine)

    def _tried(self, method: str, work: Callable[[Any], _Answer], seconds: float, mine: set[Any]) -> _Answer:
        """`run`; the session at work is in `mine`."""
        import neo4j

        began = monotonic()
        delay = min(seconds * _FIRST_DELAY, _LONGEST_DELAY)
        settings = {
            "database": self._database,
            "fetch_size": BULK_ROWS if seconds >= BULK_FROM_SECONDS else ONLINE_ROWS,
            "default_access_mode": neo4j.READ_ACCESS if method == "execute_read" else neo4j.WRITE_ACCESS,
            "max_transaction_retry_time": 0.0,
            # Counting a preset that the database lacks is not worth a warning in the caller's log.
            "notifications_min_severity": "OFF",
        }
        again = False
        while True:
            if self._closed:
                raise StoreError("this Neo4jConnection has been closed")
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
                pause = delay * random.uniform(0.8, 1.2)  # so that clients do not all come back at once
                answered = isinstance(error, neo4j.exceptions.Neo4jError)
                trying = seconds if answered and not again else min(seconds / 2, LONGEST_TRYING)
                if not error.is_retryable() or monotonic() - began + pause > trying:
                    raise
            sleep(pause)
            delay *= 2
            again = True

    def close(self) -> None:
        """Close the driver; sessions that are still at work are cut first and waited for, a second at most.

        The driver would write into the messages that they are reading.
        """
        self._closed = True
        end = monotonic() + 1.0
        while self._sessions and monotonic() < end:
            _cut(self._sessions)
            sleep(0.005)
        try:
            self.driver.close()
        except BufferError:  # a session that could not be cut; its connection ends with it
            self.driver.close()


def _cut_later(sessions: set[Any], seconds: float) -> None:
    """Cut those sessions that are still at work in `seconds`."""
    loop = own_loop()
    loop.call_soon_threadsafe(loop.call_later, seconds, _cut, sessions)


def _cut(sessions: set[Any]) -> None:
    """End what the sockets of sessions wait for; the driver then takes their connections out of its pool.

    This is the only place that looks inside the driver. Its synchronous sessions cannot be cancelled (only
    ``AsyncSession`` has ``cancel``), it has no time limit for reading, ``Session.close`` waits for the server as well,
    and ``Driver.close`` from another thread ends every session of a driver, which may be the caller's own, and fails
    with a BufferError where one is receiving. Where another release keeps its socket elsewhere nothing is cut, and
    the worker stays until the connection ends by itself.
    """
    for session in tuple(sessions):
        wire = getattr(getattr(session, "_connection", None), "socket", None)
        raw = getattr(wire, "_socket", None)
        if isinstance(raw, socket.socket):
            with contextlib.suppress(OSError):
                raw.shutdown(socket.SHUT_RDWR)
