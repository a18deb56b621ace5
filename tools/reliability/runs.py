"""Shared parts of the reliability runs: arguments, progress bar, resources of a process, figures, and the verdict."""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import importlib.metadata
import json
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from phasegraph.sources.workers import pool

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs" / "reliability"


def arguments(doc: str | None, **counts: int) -> argparse.Namespace:
    """Read the command line of a run: a whole number for each name in `counts`, and a file for the figures."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in counts.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument(
        "--json", type=Path, help="write the figures to this file (make writes docs/reliability/*.json)"
    )
    return parser.parse_args()


def bar(items: Iterable[Any], what: str, total: int | None = None) -> Iterable[Any]:
    """Return the items, with a progress bar named `what` on standard error."""
    return tqdm(items, desc=what, total=total, mininterval=1.0, file=sys.stderr, disable=None)


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Return the median, the 99th percentile and the maximum of times, in milliseconds; empty if there are no times."""
    if not seconds:
        return {}
    named = zip(("p50", "p99", "max"), np.percentile(seconds, [50, 99, 100]), strict=True)
    return {name: round(float(value) * 1000, 2) for name, value in named}


def resident_kb() -> int:
    """Return the resident memory of this process, in kilobytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def held() -> dict[str, int]:
    """Return the resources of this process after a garbage collection: memory, file descriptors, tasks and threads.

    The C library keeps a varying amount of freed memory. It must return this memory to the system before the resident
    kilobytes are read; `untrimmed_kb` is the value before. `objects` is the number of containers that Python counts.
    Workers of sources are counted separately, because their number depends on the running calls.
    """
    gc.collect()
    untrimmed = resident_kb()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    try:
        tasks = len(asyncio.all_tasks())
    except RuntimeError:
        tasks = 0
    return {
        "resident_kb": resident_kb(),
        "untrimmed_kb": untrimmed,
        "objects": len(gc.get_objects()),
        "threads": threading.active_count() - pool().threads,
        "workers": pool().threads,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "tasks": tasks,
    }


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the library's warnings and log, of which a run of faults would print thousands."""
    log = logging.getLogger("phasegraph")
    level = log.level
    log.setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    log.setLevel(level)


_STALL = 0.02


class Stalls:
    """A record of the periods in which this process was held up, because the machine was busy.

    A stall is a period in which a plain timer of 5 ms was at least 20 ms late.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._found: list[tuple[float, float]] = []
        self._since = time.perf_counter()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.is_set():
            begun = self._since = time.perf_counter()
            time.sleep(0.005)
            late = time.perf_counter() - begun - 0.005
            self.longest = max(self.longest, late)
            if late >= _STALL:
                self._found.append((begun, begun + late))

    def during(self, begun: float, ended: float) -> float:
        """Return the seconds of stalls between two times; a stall that still continues counts until now."""
        since, now = self._since, time.perf_counter()
        stalls = [*self._found, *([(since, now)] if now - since >= _STALL + 0.005 else [])]
        return sum(max(0.0, min(end, ended) - max(start, begun)) for start, end in stalls)

    def __enter__(self) -> Stalls:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def versions(*names: str) -> dict[str, str]:
    """Return the installed versions of distributions, by name."""
    return {name: importlib.metadata.version(name) for name in names}


def finish(name: str, given: argparse.Namespace, figures: Mapping[str, Any], broken: list[str]) -> None:
    """Write or print the figures, print the verdict, and exit: with 1 if `broken` lists promises, otherwise with 0."""
    command = " ".join(
        ["python", f"tools/reliability/{name}.py"]
        + [f"--{key} {value}" for key, value in vars(given).items() if key != "json"]
    )
    document = {"command": command, **figures, "broken": broken}
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    else:
        print(json.dumps(document, indent=1, sort_keys=True))
    for one in broken:
        print(f"BROKEN: {one}")
    print(f"{name}: {'every promise held' if not broken else f'{len(broken)} promises broken'}")
    sys.exit(1 if broken else 0)
