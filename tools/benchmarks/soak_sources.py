"""Ask sources many times: ``python tools/benchmarks/soak_sources.py [--queries 10000] [--json FILE]``.

Part S4 uses threads and tasks: no answer may differ from the answer of a single thread. Part S5 has a source that hangs
until it recovers. Each call must return within its deadline plus 50 ms, the number of blocked workers must be bounded,
and the source must work again after it recovers. The last part measures the overhead of two sources that do nothing.
For faults and memory in the frameworks' own retrievers, see ``make chaos`` and ``make soak``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from phasegraph.ranking import Ranking
from phasegraph.sources import BreakerSettings, Gathered, Gatherer, SourceSettings
from phasegraph.sources.workers import pool

NAMES = ("graph", "lexical", "vector")
DEADLINE = 0.02


class Prepared:
    """A source that at once returns prepared hits, which depend on the query."""

    def __init__(self, name: str) -> None:
        self.kept = [
            Ranking(name, [f"{(seed * 7 + row) % 97:02}" for row in range(50)], np.linspace(2.0, 1.0, 50))
            for seed in range(16)
        ]

    def search(self, query: str, limit: int | None, upstream: object) -> Ranking:
        return self.kept[zlib.crc32(query.encode()) % 16]

    async def asearch(self, query: str, limit: int | None, upstream: object) -> Ranking:
        return self.search(query, limit, upstream)


SOURCES = {name: Prepared(name) for name in NAMES}


def content(found: Gathered) -> list[tuple[object, ...]]:
    return [(one.source, one.ids, one.scores.tobytes()) for one in found.rankings]


def percentiles(seconds: list[float], scale: float = 1000.0) -> dict[str, float]:
    named = zip(("p50", "p90", "p99", "max"), np.percentile(seconds, [50, 90, 99, 100]), strict=True)
    return {name: round(float(value) * scale, 3) for name, value in named}


def concurrency(per_thread: int) -> dict[str, object]:
    """Run part S4 (threads and tasks); return the numbers of wrong answers, and the calls in a second."""
    gatherer = Gatherer(dict.fromkeys(NAMES, SourceSettings()), timeout=60.0, strict=True)
    queries = [f"question {number}" for number in range(50)]
    expected = {query: content(gatherer.gather(SOURCES, query)) for query in queries}

    def ask(_: int) -> int:
        return sum(content(gatherer.gather(SOURCES, q)) != expected[q] for q in (queries * per_thread)[:per_thread])

    async def ask_as_task() -> int:
        wrong = 0
        for query in queries:
            wrong += content(await gatherer.agather(SOURCES, query)) != expected[query]
        return wrong

    async def many() -> int:
        return sum(await asyncio.gather(*(ask_as_task() for _ in range(200))))

    start = time.perf_counter()
    with ThreadPoolExecutor(8) as threads:
        mismatches = sum(threads.map(ask, range(8)))
    between = time.perf_counter()
    in_tasks = asyncio.run(many())
    return {
        "threads": 8,
        "per_thread": per_thread,
        "mismatches": mismatches,
        "per_second": round(8 * per_thread / (between - start)),
        "tasks": 200,
        "mismatches_in_tasks": in_tasks,
        "per_second_in_tasks": round(10_000 / (time.perf_counter() - between)),
    }


class Hanging:
    """A source that hangs in every search until `healed` is set."""

    def __init__(self) -> None:
        self.healed = threading.Event()

    def search(self, query: str, limit: int | None, upstream: object) -> Ranking:
        self.healed.wait()
        return SOURCES["graph"].search(query, limit, upstream)


def hang(queries: int) -> dict[str, object]:
    """Run part S5 (a source that hangs); return times in milliseconds, blocked workers and the time to recover."""
    interval = 0.5
    settings = {
        "graph": SourceSettings(circuit_breaker=BreakerSettings(failures=5, probe_interval=interval), max_in_flight=16),
        "vector": SourceSettings(),
    }
    gatherer = Gatherer(settings, timeout=DEADLINE)
    alone = {"vector": SOURCES["vector"]}
    hanging = Hanging()
    sources = {**alone, "graph": hanging}
    clean = [_timed(lambda: gatherer.gather(alone, "q"))[0] for _ in range(queries)]
    waited, skipped, stuck = [], [], 0
    for _ in range(queries):
        seconds, found = _timed(lambda: gatherer.gather(sources, "q"))
        (skipped if found.reports[0].status == "skipped" else waited).append(seconds)
        stuck = max(stuck, gatherer.health["graph"].in_flight)
    hanging.healed.set()
    healed = time.perf_counter()
    while gatherer.gather(sources, "q").reports[0].status != "ok":
        time.sleep(0.005)
    return {
        "queries": queries,
        "deadline_ms": DEADLINE * 1000,
        "waited": len(waited),
        "over_deadline_ms": percentiles([seconds - DEADLINE for seconds in waited]),
        "behind_the_breaker_ms": percentiles(skipped),
        "without_the_source_ms": percentiles(clean),
        "ratio_p50": round(float(np.median(skipped) / np.median(clean)), 3),
        "most_stuck": stuck,
        "recovery_in_probe_intervals": round((time.perf_counter() - healed) / interval, 2),
    }


def overhead(queries: int) -> dict[str, object]:
    """Return percentiles of the microseconds of a call with two sources that do nothing."""
    two = {name: SOURCES[name] for name in NAMES[:2]}
    gatherer = Gatherer(dict.fromkeys(NAMES[:2], SourceSettings()))
    only_search = {name: _OnlySearch(one) for name, one in two.items()}

    async def awaited(sources: dict[str, Prepared]) -> list[float]:
        taken = []
        for _ in range(queries):
            start = time.perf_counter()
            await gatherer.agather(sources, "q")
            taken.append(time.perf_counter() - start)
        return taken

    return {
        "sync_us": percentiles([_timed(lambda: gatherer.gather(two, "q"))[0] for _ in range(queries)], 1e6),
        "native_async_us": percentiles(asyncio.run(awaited(two)), 1e6),
        "async_in_workers_us": percentiles(asyncio.run(awaited(only_search)), 1e6),
    }


class _OnlySearch:
    def __init__(self, source: Prepared) -> None:
        self.search = source.search


def _timed(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--json", default="-")
    arguments = parser.parse_args()
    n = arguments.queries
    table: dict[str, object] = {
        "overhead": overhead(max(200, n // 5)),
        "S4": concurrency(max(50, n // 2)),
        "S5": hang(max(100, n // 10)),
        "threads_left": pool().threads,
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    text = json.dumps(table, indent=2)
    if arguments.json == "-":
        sys.stdout.write(text + "\n")
    else:
        Path(arguments.json).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
