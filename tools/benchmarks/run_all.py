"""Run the benchmarks that need only the repository, one after the other; each prints its own output.

    python tools/benchmarks/run_all.py [NAME ...]

They print ratios to named peers, each measured in one run. Machines differ, and other load changes times: use ratios,
not times. The scripts about quality need data sets; ``graph_quality.py data/musique-openie`` uses bundled data.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "data" / "musique-openie"
RUNS: dict[str, list[str]] = {
    "decide_speed": [],
    "end_to_end": ["--stores", "faiss", "simple", "--passages", "4000", "--questions", "60"],
    "langchain_overhead": [],
    "llamaindex_overhead": [],
    "filtered_calls": ["--passages", "20000", "--calls", "10"],
    "llamaindex_concurrency": ["--rounds", "2"],
    "pagerank_speed": ["--queries", "4"],
    "graph_query_speed": [str(DATA)],
    "semflow_speed": [],
    "synonym_speed": [],
    "selection_speed": [],
    "index_speed": [],
    "soak_sources": ["--queries", "2000"],
    "acceptance_coverage": [],
    "graph_quality": [str(DATA)],
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in RUNS]
    if unknown:
        print(f"benchmarks must be among {', '.join(RUNS)}; got {', '.join(unknown)}", file=sys.stderr)
        return 2
    failed = []
    for name in names or list(RUNS):
        print(f"\n== {name} ==", flush=True)
        done = subprocess.run([sys.executable, str(HERE / f"{name}.py"), *RUNS[name]], check=False)
        if done.returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
