"""What shards cost beside one process: CPU, memory and equality of the index, and questions a second and core.

    python tools/scale/distributed.py CORPUS.jsonl QUERIES.jsonl [--engines local,ray,spark] [--shards 10] [--workers 2]

Every build is a process of its own. CPU is that of the work: an engine's own processes are not in it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ONE = """
import json, resource, sys, time
from phasegraph.evaluation.datasets import read_corpus
from phasegraph.graph import GraphIndex
started = time.process_time()
GraphIndex.build(read_corpus(sys.argv[1])).save(sys.argv[2])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"cpu": time.process_time() - started, "driver_peak": peak, "worker_peak": peak}))
"""
MANY = """
import json, sys
from dataclasses import asdict
from phasegraph.cli.engines import Engine, started
from phasegraph.distributed import build_index
if __name__ == "__main__":
    with started(Engine(sys.argv[3]), int(sys.argv[5])) as engine:
        print(json.dumps(asdict(build_index(sys.argv[1], sys.argv[2], shards=int(sys.argv[4]), engine=engine))))
"""
ASKED = """
import json, sys
from dataclasses import asdict
from phasegraph.cli.engines import Engine, started
from phasegraph.distributed import retrieve
if __name__ == "__main__":
    with started(Engine(sys.argv[4]), int(sys.argv[6])) as engine:
        took = retrieve(sys.argv[1], sys.argv[2], sys.argv[3], shards=int(sys.argv[5]), engine=engine)
    print(json.dumps(asdict(took)))
"""


def run(program: str, *arguments: object) -> dict[str, float]:
    """What the program says on its last line."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(program)
        script.flush()
        done = subprocess.run(
            [sys.executable, script.name, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True
        )
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    """Build, ask, print."""
    reads = argparse.ArgumentParser(description=__doc__)
    reads.add_argument("corpus", type=Path)
    reads.add_argument("queries", type=Path)
    reads.add_argument("--engines", default="local")
    reads.add_argument("--shards", type=int, default=10)
    reads.add_argument("--workers", type=int, default=2)
    given = reads.parse_args()
    engines = given.engines.split(",")
    with tempfile.TemporaryDirectory(dir=given.corpus.parent) as made:
        folder = Path(made)
        took = {"one process": run(ONE, given.corpus, folder / "one")}
        for engine in engines:
            took[engine] = run(MANY, given.corpus, folder / engine, engine, given.shards, given.workers)
        same = {name: (folder / name / "manifest.json").read_bytes() for name in ["one", *engines]}
        print("| | CPU s | beside one process | MB a worker | MB driver | index equal |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name, one in took.items():
            equal = "" if name == "one process" else "yes" if same[name] == same["one"] else "NO"
            ratio = one["cpu"] / took["one process"]["cpu"]
            peaks = f"{one['worker_peak'] / 1e6:.0f} | {one['driver_peak'] / 1e6:.0f}"
            print(f"| {name} | {one['cpu']:.1f} | {ratio:.2f} | {peaks} | {equal} |")
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
