"""Compare shards with one process: CPU and memory of the build, equality of the index, and questions per second.

    python tools/scale/distributed.py CORPUS.jsonl [QUERIES.jsonl] [--engines local,ray,spark] [--shards 10]
    [--workers 2] [--speedup 1,2,4,8] [--json FILE]

Every build is a separate process. CPU is the time of the tasks, without an engine's own processes. With --speedup, the
index is built with the given numbers of processes on this machine. The machine may have fewer cores. So the time of n
workers (the critical path) is computed from measured processor seconds. It is the seconds of this process plus, for
each map, the seconds of the busiest of n workers. Each worker takes the next task when it is free.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ONE = """
import json, resource, sys, time
from phasegraph.evaluation.corpus_files import read_corpus
from phasegraph.graph import GraphIndex
started = time.process_time()
GraphIndex.build(read_corpus(sys.argv[1])).save(sys.argv[2])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"cpu": time.process_time() - started, "driver_peak": peak, "worker_peak": peak}))
"""
MANY = """
import json, sys
from dataclasses import asdict
from phasegraph.apps.cli.engines import Engine, started
from phasegraph.distributed import build_index
if __name__ == "__main__":
    with started(Engine(sys.argv[3]), int(sys.argv[5])) as engine:
        print(json.dumps(asdict(build_index(sys.argv[1], sys.argv[2], shards=int(sys.argv[4]), engine=engine))))
"""
PATH = """
import json, sys
from dataclasses import asdict
from phasegraph.distributed import build_index
from phasegraph.distributed.local import Processes
if __name__ == "__main__":
    maps = []
    def engine(task, arguments, label):
        took = Processes(int(sys.argv[4]))(task, arguments, label)
        maps.append([one.cpu for one in took])
        return took
    built = build_index(sys.argv[1], sys.argv[2], shards=int(sys.argv[3]), engine=engine)
    print(json.dumps({**asdict(built), "maps": maps}))
"""
ASKED = """
import json, sys
from dataclasses import asdict
from phasegraph.apps.cli.engines import Engine, started
from phasegraph.distributed import retrieve
if __name__ == "__main__":
    with started(Engine(sys.argv[4]), int(sys.argv[6])) as engine:
        took = retrieve(sys.argv[1], sys.argv[2], sys.argv[3], shards=int(sys.argv[5]), engine=engine)
    print(json.dumps(asdict(took)))
"""


def keep(file: Path | None, figures: dict[str, Any]) -> None:
    """Write the figures to `file`; do nothing if it is None."""
    if file:
        file.write_text(json.dumps(figures, indent=1) + "\n")


def run(program: str, *arguments: object) -> dict[str, float]:
    """Run a Python program given as text, and return the figures that it prints as JSON in its last line."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(program)
        script.flush()
        done = subprocess.run(
            [sys.executable, script.name, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True
        )
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def busiest(tasks: list[float], workers: int) -> float:
    """Return the seconds until all tasks are done by `workers` workers, each of which takes the next task when free.

    `tasks` holds the seconds of each task.
    """
    free = [0.0] * workers
    for one in tasks:
        heapq.heapreplace(free, free[0] + one)
    return max(free)


def speedup(corpus: Path, folder: Path, shards: int, counts: list[int]) -> dict[str, dict[str, float]]:
    """Build the index with each number of workers; return processor seconds and seconds of the critical path.

    The critical path is the time if there are enough cores. It is the seconds of the main process plus, for each map,
    the seconds of the busiest worker.
    """
    found = {}
    for workers in counts:
        built = run(PATH, corpus, folder / "many", shards, workers)
        shutil.rmtree(folder / "many")
        maps: Any = built["maps"]
        alone = built["cpu"] - sum(map(sum, maps))
        path = alone + sum(busiest(tasks, workers) for tasks in maps)
        found[str(workers)] = {"cpu_s": built["cpu"], "alone_s": alone, "path_s": path}
        print(f"{workers} workers: {built['cpu']:.1f} s of processor, {alone:.1f} alone, {path:.1f} critical path")
    return found


def main() -> None:
    """Build the indexes with each engine and in one process, ask the questions, and print the figures."""
    reads = argparse.ArgumentParser(description=__doc__)
    reads.add_argument("corpus", type=Path)
    reads.add_argument("queries", type=Path, nargs="?")
    reads.add_argument("--engines", default="local")
    reads.add_argument("--shards", type=int, default=10)
    reads.add_argument("--workers", type=int, default=2)
    reads.add_argument("--speedup", help="numbers of workers, with commas")
    reads.add_argument("--json", type=Path, help="figures; what else is in it stays")
    given = reads.parse_args()
    engines = given.engines.split(",")
    kept = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    if given.speedup:
        with tempfile.TemporaryDirectory(dir=given.corpus.parent) as made:
            counts = [*map(int, given.speedup.split(","))]
            kept["speedup"] = speedup(given.corpus, Path(made), given.shards, counts)
        keep(given.json, kept)
        return
    with tempfile.TemporaryDirectory(dir=given.corpus.parent) as made:
        folder = Path(made)
        took = {"one process": run(ONE, given.corpus, folder / "one")}
        for engine in engines:
            took[engine] = run(MANY, given.corpus, folder / engine, engine, given.shards, given.workers)
        same = {name: (folder / name / "manifest.json").read_bytes() for name in ["one", *engines]}
        kept["engines"] = {name: {**one, "shards": given.shards} for name, one in took.items()}
        keep(given.json, kept)
        print("| | CPU s | beside one process | MB a worker | MB driver | index equal |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name, one in took.items():
            equal = "" if name == "one process" else "yes" if same[name] == same["one"] else "NO"
            ratio = one["cpu"] / took["one process"]["cpu"]
            peaks = f"{one['worker_peak'] / 1e6:.0f} | {one['driver_peak'] / 1e6:.0f}"
            print(f"| {name} | {one['cpu']:.1f} | {ratio:.2f} | {peaks} | {equal} |")
        if given.queries is None:
            return
        questions = sum(bool(line.strip()) for line in given.queries.open(encoding="utf-8"))
        digests = set()
        for engine in engines:
            out = folder / f"{engine}.jsonl"
            asked = run(ASKED, given.queries, folder / "one", out, engine, given.shards, given.workers)
            digests.add(hashlib.sha256(out.read_bytes()).hexdigest())
            rate = questions / asked["cpu"]
            print(
                f"{engine}: {questions} questions, {rate:.0f} a second and core, {asked['peak'] / 1e6:.0f} MB a process"
            )
        print(f"runs equal: {'yes' if len(digests) == 1 else 'NO'}")


if __name__ == "__main__":
    main()
