"""Asking servers that misbehave, again and again, and how late a plain timer was in the meantime."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import neo4j
from fake_bolt import FAULTS, FakeBolt, fake_bolt

from phasegraph.neo4j import Neo4jConnection
from phasegraph.sources import BreakerSettings, CallableSource, Gatherer, SourceSettings

VECTOR = CallableSource("vector", lambda query, limit: [("v", 1.0)])
TICK_SECONDS, HELD_SECONDS = 0.005, 0.002
FAILURES, PROBE_SECONDS = 5, 0.5


class Metronome:
    """A thread that does nothing but sleep, and notes when it was not let go on in time.

    What keeps it waiting (no processor, a garbage collection, the interpreter's lock) would keep any call of
    this process waiting.
    """

    def __init__(self) -> None:
        self._held: list[tuple[float, float]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Metronome:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            due = time.monotonic() + TICK_SECONDS
            time.sleep(TICK_SECONDS)
            now = time.monotonic()
            if now - due > HELD_SECONDS:
                self._held.append((due, now))

    def held_up(self, since: float, until: float) -> float:
        """Seconds of that time in which a plain sleep would not have ended."""
        return sum(max(0.0, min(end, until) - max(begin, since)) for begin, end in self._held)

    def excused(self, since: float, until: float) -> float:
        """Seconds that a call may be late on this machine: what it was held up, and the worst wait of this run for each
        of the three threads (its timer, its loop and its caller) that hand its end on.
        """
        return self.held_up(since, until) + 3 * max((end - begin for begin, end in self._held), default=0.0)


@dataclass
class Run:
    """What came of the calls to one misbehaving server: when each began and ended, and its two reports."""

    fault: str
    calls: list[tuple[float, float]] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)
    lost: int = 0
    silent: int = 0
    in_flight: int = 0

    def take(self, found: object, began: float) -> None:
        self.calls.append((began, time.monotonic()))
        report = {one.source: one for one in found.reports}["graph"]
        self.statuses.append(report.status)
        self.reasons.add(report.reason)
        self.lost += [each.ids for each in found.rankings if each.source == "vector"] != [("v",)]
        self.silent += report.status not in ("ok", "empty") and not found.degraded

    def overtime(self, timeout: float, metronome: Metronome | None = None) -> list[float]:
        """Seconds over the deadline, longest first, less what the machine excuses."""
        over = []
        for began, ended in self.calls:
            excused = metronome.excused(began + timeout, ended) if metronome else 0.0
            over.append(ended - began - timeout - excused)
        return sorted(over, reverse=True)


def graph_source(connection: Neo4jConnection) -> CallableSource:
    return CallableSource("graph", lambda query, limit: [tuple(row) for row in connection.read("RETURN 1")])


def gatherer_of(timeout: float, **graph: object) -> Gatherer:
    """Calls that end when their graph is late; the vectors, which answer at once, may wait for a busy machine."""
    settings = {"graph": SourceSettings(timeout=timeout, **graph), "vector": SourceSettings(circuit_breaker=None)}
    return Gatherer(settings, timeout=20.0)


@contextlib.contextmanager
def connected(server: FakeBolt, timeout: float) -> Iterator[Neo4jConnection]:
    """Our connection to it; where the pool is to be exhausted, its only connection is in use."""
    auth = ("neo4j", "s3cret-pw")
    if server.fault != "pool_exhausted":
        with Neo4jConnection.connect(server.uri, auth=auth, timeout=timeout) as connection:
            yield connection
        return
    with neo4j.GraphDatabase.driver(server.uri, auth=auth, max_connection_pool_size=1) as own, own.session() as busy:
        busy.run("RETURN 1")
        yield Neo4jConnection(own, timeout=timeout)


def ask(fault: str, calls: int, timeout: float, *, circuit_breaker: bool) -> Run:
    """Ask one misbehaving server that often, by turns from a thread and from an event loop."""
    breaker = BreakerSettings(failures=FAILURES, probe_interval=PROBE_SECONDS) if circuit_breaker else None
    gatherer = gatherer_of(timeout, circuit_breaker=breaker)
    run = Run(fault)
    with fake_bolt(fault) as server, connected(server, timeout) as connection, asyncio.Runner() as loop:
        sources = {"graph": graph_source(connection), "vector": VECTOR}

        async def awaited() -> None:
            began = time.monotonic()
            run.take(await gatherer.agather(sources, "who?"), began)

        for turn in itertools.islice(itertools.cycle((0, 1)), calls):
            if turn:
                loop.run(awaited())
            else:
                began = time.monotonic()
                run.take(gatherer.gather(sources, "who?"), began)
        run.in_flight = gatherer.health["graph"].in_flight
    return run


def ask_all(
    calls: int, timeout: float, *, circuit_breaker: bool, faults: tuple[str, ...] = FAULTS
) -> tuple[dict[str, Run], Metronome]:
    """Ask every misbehaving server that often, all at the same time."""
    runs: dict[str, Run] = {}

    def ask_one(fault: str) -> None:
        runs[fault] = ask(fault, calls, timeout, circuit_breaker=circuit_breaker)

    # What a test run has loaded is not to be searched for garbage while calls are timed.
    gc.collect()
    gc.freeze()
    try:
        with Metronome() as metronome:
            threads = [threading.Thread(target=ask_one, args=(fault,)) for fault in faults]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        gc.unfreeze()
    return runs, metronome
