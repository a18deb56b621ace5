"""Inject faults into the real retrievers: ``python tools/reliability/chaos.py [--queries 10000] [--json FILE]``.

A retriever has three sources. In a fifth of all pairs of source and query, the source has a fault of one of at least 22
kinds. The retrievers are LangChain's PhaseGraphRetriever and LlamaIndex's CalibratedFusionRetriever, in three modes:
one query after another (sync), 16 at once on one event loop (async), and 8 at once in threads. Two such runs take place
at a time, each in a process. Every answer must equal, to the bit and with its passages, the answer of a retriever that
was built without the failed sources. The answer must report the failed sources, and no others. A call may raise only
AllSourcesFailed, if every source failed, and SystemExit, if a source raised it. For calls with a hanging source, p99
may be at most 50 ms above the deadline plus the stalls of the call.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from typing import Any

from fusers import NAMES, OURS, QUESTIONS, Answered, question, seed_of
from runs import Stalls, arguments, bar, finish, percentiles, quiet

from phasegraph import AllSourcesFailed
from phasegraph.testing import FAILING, FATAL, FAULTS, HARMLESS, FaultPlan

RATE = 0.2
DEADLINE, HANG = 1.0, 1.6
NO_FAULT = {"text", "wrong name"}  # one text is an answer in both frameworks; rankings have no name there
KINDS = tuple(kind for kind in (*FAULTS, *FATAL) if kind not in NO_FAULT)
ONE_DROPPED = set(HARMLESS) - {"duplicates", "reversed"}
HELD_UP = 0.2  # seconds of stalls within a call, from which on the machine decides what is in time
MOST_BEYOND_MS = 50.0
AT_ONCE, THREADS, PROCESSES = 16, 8, 2
Outcome = tuple[str, float, float, Answered | BaseException]
"""Query, when it was asked and answered, and what came."""


def oracle(fuser: Callable[..., Any]) -> dict[tuple[tuple[str, ...], int], Answered]:
    """Return the right answers, from retrievers without faults.

    The keys are the sources with which a retriever is built, and the number of the prepared answer that a question
    gets.
    """
    spelled: dict[int, str] = {}
    for number in range(100 * QUESTIONS):
        spelled.setdefault(seed_of(question(number)), question(number))
    subsets = [names for size in range(1, len(NAMES) + 1) for names in combinations(NAMES, size)]
    built = {names: fuser(names, timeout=30.0) for names in subsets}
    return {(names, seed): one.ask(query) for names, one in built.items() for seed, query in spelled.items()}


def one_by_one(fuser: Any, queries: list[str]) -> Iterator[Outcome]:
    for query in queries:
        begun = time.perf_counter()
        try:
            found: Answered | BaseException = fuser.ask(query)
        except BaseException as error:  # noqa: BLE001 - counted
            found = error
        yield query, begun, time.perf_counter(), found


def on_one_loop(fuser: Any, queries: list[str]) -> Iterator[Outcome]:
    async def ask(query: str, places: asyncio.Semaphore) -> Outcome:
        async with places:
            begun = time.perf_counter()
            try:
                found: Answered | BaseException = await fuser.aask(query)
            except BaseException as error:  # noqa: BLE001 - counted
                found = error
            return query, begun, time.perf_counter(), found

    async def several(part: list[str]) -> tuple[list[Outcome], int]:
        places = asyncio.Semaphore(AT_ONCE)
        found = await asyncio.gather(*(ask(query, places) for query in part))
        return found, len(asyncio.all_tasks()) - 1

    for start in range(0, len(queries), 500):
        found, left = asyncio.run(several(queries[start : start + 500]))
        if left:
            raise AssertionError(f"{left} tasks are left on the loop")
        yield from found


def in_threads(fuser: Any, queries: list[str]) -> Iterator[Outcome]:
    with ThreadPoolExecutor(THREADS) as threads:
        yield from threads.map(lambda query: next(one_by_one(fuser, [query])), queries)


MODES = {"sync": one_by_one, "async": on_one_loop, "threads": in_threads}


class Tally:
    """The counts of one mode (sync, async, threads) of a framework: faults, answers, and each kind of wrong answer."""

    def __init__(
        self, expected: dict[tuple[tuple[str, ...], int], Answered], plan: FaultPlan, stalls: Stalls | None = None
    ) -> None:
        self.expected = expected
        self.plan = plan
        self.stalls = stalls
        self.counts: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.examples: list[str] = []
        self.seconds: list[float] = []
        self.hung: list[float] = []
        self.beyond: list[float] = []  # of those that hang: past the deadline, and not by a stall

    def wrong(self, what: str, query: str, said: object) -> None:
        self.counts[what] += 1
        if len(self.examples) < 20:
            struck = {name: self.plan.strikes(name, query) for name in NAMES}
            self.examples.append(f"{what}: {query!r} struck by {struck}: {said!r:.300}")

    def see(self, query: str, begun: float, ended: float, found: Answered | BaseException) -> None:
        struck = {name: kind for name in NAMES if (kind := self.plan.strikes(name, query)) is not None}
        self.kinds.update(struck.values())
        late = {name for name, kind in struck.items() if kind == "hang"}
        failed = {name for name, kind in struck.items() if kind in FAILING} | late
        lost = failed | {name for name, kind in struck.items() if kind == "unusable"}
        self.counts["queries"] += 1
        (self.hung if late else self.seconds).append(ended - begun)
        if late:
            self.beyond.append(ended - begun - DEADLINE - self._stalled(begun, ended))
        told = _lost_in_time(found)
        if set(struck.values()) & set(FATAL):
            self.counts["exits"] += 1
            if isinstance(found, SystemExit):
                return
            exits = {name for name, kind in struck.items() if kind in FATAL}
            if told is None or not exits <= told or not self._held_up(begun, ended):
                self.wrong("exit_swallowed", query, found)
                return
        if told is not None and told ^ late and self._held_up(begun, ended):
            # The machine stood still: what was late, or was not, is taken as it was told; all else must hold.
            self.counts["held_up"] += 1
            failed, lost = (failed - late) | told, (lost - late) | told
        if len(failed) == len(NAMES):
            self.counts["all_failed"] += 1
            if not isinstance(found, AllSourcesFailed) or set(found.causes) != failed:
                self.wrong("all_failed_not_raised", query, found)
        elif isinstance(found, BaseException):
            self.wrong("leaked", query, found)
        else:
            left = tuple(name for name in NAMES if name not in lost and struck.get(name) != "empty")
            self._answer(query, struck, lost, left, found)

    def _held_up(self, begun: float, ended: float) -> bool:
        return self._stalled(begun, ended) >= HELD_UP

    def _stalled(self, begun: float, ended: float) -> float:
        return 0.0 if self.stalls is None else self.stalls.during(begun, ended)

    def _answer(
        self, query: str, struck: dict[str, str], lost: set[str], left: tuple[str, ...], found: Answered
    ) -> None:
        self.counts["answered"] += 1
        self.counts["degraded"] += bool(lost)
        expected = self.expected[left, seed_of(query)] if left else None
        if (found.passages, found.bits) != ((expected.passages, expected.bits) if expected else ((), b"")):
            self.wrong("different", query, found.passages[:3])
        missing, false = lost - set(found.degraded or ()), set(found.degraded or ()) - lost
        if missing:
            self.wrong("unreported", query, sorted(missing))
        if false:
            self.wrong("falsely_reported", query, sorted(false))
        dropped = {name: 1 for name, kind in struck.items() if kind in ONE_DROPPED and name not in lost}
        told = {name: count for name, count in found.dropped.items() if name not in lost}
        if told != dropped:
            self.wrong("miscounted", query, told)


def _lost_in_time(found: Answered | BaseException) -> set[str] | None:
    """Return the sources that an answer or an AllSourcesFailed reports as late; None if it cannot report them."""
    if isinstance(found, AllSourcesFailed):
        return {name for name, cause in found.causes.items() if isinstance(cause, TimeoutError)}
    return set(found.late) if isinstance(found, Answered) and found.degraded is not None else None


SEEN = ("queries", "answered", "degraded", "all_failed", "exits", "held_up")
WRONG = (
    "leaked", "different", "unreported", "falsely_reported", "miscounted", "exit_swallowed", "all_failed_not_raised",
)  # fmt: skip


def lateness(row: dict[str, Any]) -> list[str]:
    """Return a sentence if the calls with a hanging source exceed the deadline by too much; otherwise an empty list."""
    late = row["beyond_stalls_ms"].get("p99", 0.0)
    return [f"p99 is {late:g} ms beyond the deadline and the stalls"] if late > MOST_BEYOND_MS else []


def run(framework: str, mode: str, count: int, seed: int) -> dict[str, Any]:
    """Ask `count` questions with faults in one mode of one framework; return the counts and times, as JSON types."""
    fuser, plan = OURS[framework], FaultPlan(RATE, KINDS, seed)
    queries = [question(number) for number in range(count)]
    with quiet():
        expected = oracle(fuser)
        struck = fuser(plan=plan, seconds=HANG, timeout=DEADLINE)
        begun = time.perf_counter()
        with Stalls() as stalls:
            tally = Tally(expected, plan, stalls)
            for outcome in bar(MODES[mode](struck, queries), f"{framework}, {mode}", count):
                tally.see(*outcome)
    return {
        **{name: tally.counts[name] for name in (*SEEN, *WRONG)},
        "faults": sum(tally.kinds.values()),
        "kinds": len(tally.kinds),
        "ms": percentiles(tally.seconds),
        "over_deadline_ms": percentiles([one - DEADLINE for one in tally.hung]),
        "beyond_stalls_ms": percentiles(tally.beyond),
        "longest_stall_ms": round(stalls.longest * 1000, 1),
        "seconds": round(time.perf_counter() - begun, 1),
        "examples": tally.examples,
    }


def main() -> None:
    given = arguments(__doc__, queries=10_000, seed=1)
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as processes:
        running = {
            f"{framework}, {mode}": processes.submit(run, framework, mode, given.queries, given.seed)
            for mode in MODES
            for framework in reversed(OURS)  # the longest first
        }
        rows = {name: one.result() for name, one in running.items()}
    broken = [f"{name}: {row[what]} {what}" for name, row in sorted(rows.items()) for what in WRONG if row[what]]
    broken += [f"{name}: {said}" for name, row in sorted(rows.items()) for said in lateness(row)]
    figures = {"rate": RATE, "kinds": list(KINDS), "deadline_ms": DEADLINE * 1000, "modes": rows}
    finish("chaos", given, figures, broken)


if __name__ == "__main__":
    main()
