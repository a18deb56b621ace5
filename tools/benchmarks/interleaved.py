"""Measure times of jobs that take turns, and their ratios; other load of the machine then affects all jobs equally."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

TEXT = "A passage of about eight hundred characters, as passages are. " * 13


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Call a function; return the seconds of processor time of this thread that it took, and its return value."""
    start = time.thread_time()
    value = function()
    return time.thread_time() - start, value


class Times(NamedTuple):
    """The seconds of one job over many turns: the median, and the lowest decile, which other load affects least."""

    median: float
    quiet: float

    @classmethod
    def of(cls, found: list[float]) -> Times:
        """Compute the statistics from the seconds of all turns."""
        return cls(statistics.median(found), statistics.quantiles(found, n=10)[0])


def interleaved(
    jobs: Sequence[Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> list[Times]:
    """Run the jobs by turns, `rounds` times, and return the times of each; `clock` is wall or processor time."""
    times: list[list[float]] = [[] for _ in jobs]
    for job in jobs:
        for _ in range(max(3, rounds // 10)):
            job()
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            for job, found in zip(jobs, times, strict=True):
                start = clock()
                job()
                found.append(clock() - start)
            if turn % 50 == 0:
                gc.collect()
    finally:
        gc.enable()
    return [Times.of(found) for found in times]


async def interleaved_async(jobs: Sequence[Callable[[], Awaitable[object]]], rounds: int) -> list[Times]:
    """Run the asynchronous jobs by turns on one event loop, `rounds` times, and return the times of each."""
    times: list[list[float]] = [[] for _ in jobs]
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds + 100):
            for job, found in zip(jobs, times, strict=True):
                start = time.perf_counter()
                await job()
                if turn >= 100:
                    found.append(time.perf_counter() - start)
            if turn % 50 == 0:
                gc.collect()
    finally:
        gc.enable()
    return [Times.of(found) for found in times]


def report(name: str, ours: Times, theirs: Times, bar: float | None = None) -> None:
    """Print one line of the table: the times of both, their ratio, and the highest accepted ratio `bar`."""
    limit = "" if bar is None else f"  (at most {bar})"
    quiet = ours.quiet / theirs.quiet
    ratio = f"ratio {ours.median / theirs.median:5.2f}, of the quickest tenths {quiet:5.2f}{limit}"
    print(f"{name:52s} {ours.median * 1e6:9.0f} us  {theirs.median * 1e6:9.0f} us  {ratio}")
