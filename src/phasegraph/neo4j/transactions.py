"""One managed transaction within a deadline, whatever the server and the network do.

The driver keeps to no deadline of its own: its retries overshoot their budget, and a server that falls silent
holds a reading thread for as long as the connection lives. So the attempts are made here, each with the time
that is left; the caller waits no longer than its deadline; and a connection that is silent long after it is cut,
which gives thread and connection back.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import random
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import copy_context
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any, TypeVar

from phasegraph.neo4j.errors import closed, late
from phasegraph.sources.workers import pool

_Answer = TypeVar("_Answer")
# Rows in one pull: a large one is quicker, a small one leaves less to throw away when time is over.
BULK_ROWS, ONLINE_ROWS, BULK_FROM_SECONDS = 10_000, 1000, 30.0
# The server looks at its clock every two seconds: within that it ends a slow transaction itself, and the
# connection lives on.
CUT_SECONDS = 2.5
_FIRST_DELAY, _LONGEST_DELAY = 1 / 16, 1.0
# A change of leader is over by then; whoever loads a corpus from an address that is wrong waits no longer.
LONGEST_TRYING = 15.0


def in_time(work: Callable[[], _Answer], seconds: float, afterwards: Callable[[], None]) -> _Answer:
    """Call `work` in a worker and return what it returns, or raise what it raises, within `seconds`.

    Where it comes too late the worker calls `afterwards`, which may take its time and must not raise.

    Raises
    ------
    StoreError
        If there is no answer in time; the worker is left to end by itself.
    """
    answers: SimpleQueue[tuple[_Answer | None, BaseException | None]] = SimpleQueue()
    given_up = threading.Event()

    def run(context: Any) -> None:
        outcome: tuple[_Answer | None, BaseException | None]
        try:
            outcome = context.run(work), None
        except BaseException as error:  # noqa: BLE001 - the caller gets it, whatever it is
            outcome = None, error
        answers.put(outcome)
        if given_up.is_set():
            afterwards()

    pool().submit(run, lambda _, nothing: None, copy_context())
    try:
        answer, error = answers.get(timeout=seconds)
    except Empty:
        given_up.set()
        raise late(seconds) from None
    if error is not None:
        try:
            raise error
        finally:
            del error
    return answer  # type: ignore[return-value]


def run_managed(
    driver: Any, method: str, work: Callable[[Any], _Answer], seconds: float, settings: dict[str, Any]
) -> _Answer:
    """Run a transaction function, and again what may be tried again, for half of `seconds`, 15 at most.

    Parameters
    ----------
    driver : neo4j.Driver
    method : {"execute_read", "execute_write"}
    work : callable
        Takes the transaction; may be called several times.
    seconds : float
        For all attempts together. One waits for a connection for at most half of it.
    settings : dict
        Of the sessions: database, access mode.
    """
    import neo4j

    began = monotonic()
    rows = BULK_ROWS if seconds >= BULK_FROM_SECONDS else ONLINE_ROWS
    delay = min(seconds * _FIRST_DELAY, _LONGEST_DELAY)
    while True:
        if driver in _closed:
            raise closed()
        left = max(seconds - (monotonic() - began), 0.001)
        limits = {"max_transaction_retry_time": 0.0, "connection_acquisition_timeout": min(seconds / 2, left, 60.0)}
        try:
            with driver.session(fetch_size=rows, **settings, **limits) as session, _cutter.watch(driver, session, left):
                answer: _Answer = getattr(session, method)(neo4j.unit_of_work(timeout=left)(work))
                return answer
        except (neo4j.exceptions.DriverError, neo4j.exceptions.Neo4jError) as error:
            pause = delay * random.uniform(0.8, 1.2)  # so that clients do not all come back at once
            if not error.is_retryable() or monotonic() - began + pause > min(seconds / 2, LONGEST_TRYING):
                raise
        sleep(pause)
        delay *= 2


def close_driver(driver: Any) -> None:
    """Close a driver whose sessions may still be at work: it would write into the messages that they are reading.

    They are cut, and waited for for a second at most.
    """
    _closed.add(driver)
    end = monotonic() + 1.0
    while _cutter.cut_all(driver) and monotonic() < end:
        sleep(0.005)
    try:
        driver.close()
    except BufferError:  # a session that could not be cut; its connection ends with it
        driver.close()


class _Cutter:
    """Cuts the connection of a session that has been silent for too long; one thread for all of them."""

    def __init__(self) -> None:
        # When to cut, a number that settles ties, and the driver with its session: nothing once that has ended.
        self._due: list[tuple[float, int, list[Any]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._running = False

    @contextlib.contextmanager
    def watch(self, driver: Any, session: Any, seconds: float) -> Iterator[None]:
        """Give the session `seconds` and what the server needs to notice, then cut it."""
        held = [driver, session]
        due = monotonic() + seconds + CUT_SECONDS
        with self._changed:
            heapq.heappush(self._due, (due, next(self._numbers), held))
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="phasegraph-cutter", daemon=True).start()
            elif self._due[0][2] is held:
                self._changed.notify()
        try:
            yield
        finally:
            held.clear()

    def cut_all(self, driver: Any) -> bool:
        """Cut every session of a driver; whether there was one."""
        with self._changed:
            every = [tuple(held) for _, _, held in self._due]
        live = [held[1] for held in every if held and held[0] is driver]
        for session in live:
            _cut(session)
        return bool(live)

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._due and not self._due[0][2]:
                    heapq.heappop(self._due)
                if not self._due:
                    if not self._changed.wait(30.0) and not self._due:
                        self._running = False
                        return
                    continue
                wait = self._due[0][0] - monotonic()
                if wait > 0:
                    self._changed.wait(wait)
                    continue
                held = heapq.heappop(self._due)[2]
            for session in tuple(held)[1:]:
                _cut(session)


def _cut(session: Any) -> None:
    """End what the session's socket waits for; the driver then takes the connection out of its pool.

    The driver has no public way to do so; where a release of it keeps its socket elsewhere, the worker stays
    until the connection ends by itself.
    """
    wire = getattr(getattr(session, "_connection", None), "socket", None)
    raw = getattr(wire, "_socket", None)
    if isinstance(raw, socket.socket):
        with contextlib.suppress(OSError):
            raw.shutdown(socket.SHUT_RDWR)


_cutter = _Cutter()
# Drivers of ours that were closed: a search that was given up may still be about to try again.
_closed: weakref.WeakSet[Any] = weakref.WeakSet()


def _renew() -> None:
    global _cutter
    _cutter = _Cutter()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
