"""Measure how many passages per second are indexed, and whether time and memory grow in proportion to the passages.

    python tools/benchmarks/index_speed.py [CORPUS.jsonl] [--copies 4 8 16] [--matcher auto] [--updatable]

Rules find the names, and there are no embeddings. The corpus (default: the bundled corpus) is repeated with changed
names: in each copy, every capitalized word gets the copy's own ending. Each size is built in a separate process. The
time is the lowest processor time of `--repeat` runs, and the memory is the largest growth of the process. The garbage
collector has the interpreter's default settings.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time

from phasegraph.evaluation.corpus_files import read_corpus
from phasegraph.graph import RuleExtractor, build_graph
from phasegraph.graph.index.graph_index import GraphIndex

BUNDLED = Path(__file__).parents[2] / "data" / "musique-openie" / "corpus.jsonl"
_NAME = re.compile(r"\b[A-Z][a-z]{2,}\b")
BAR, GROWTH = 3000, 2.2


def corpus(file: Path, copies: int) -> list[dict[str, str]]:
    """Return the passages of a file, `copies` times, with different names in each copy."""
    passages = read_corpus(file)
    rows = []
    for copy in range(copies):
        ending = "".join("aeioubdg"[int(digit)] for digit in oct(copy)[2:]) if copy else ""

        def renamed(text: str, ending: str = ending) -> str:
            return _NAME.sub(lambda found: found[0] + ending, text) if ending else text

        rows += [{"id": f"{copy}-{one.id}", "title": renamed(one.title), "text": renamed(one.text)} for one in passages]
    return rows


def build_once(options: argparse.Namespace) -> dict[str, float]:
    """Build the index once in this process; return its processor and wall seconds, and its memory in MB."""
    rows = corpus(options.corpus, options.copies[0])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = perf_counter(), process_time()
    if options.updatable:
        graph = GraphIndex.build(rows).graph
    else:
        titles = [row["title"] for row in rows]
        graph = build_graph(rows, extractor=RuleExtractor(titles=titles, matcher=options.matcher))
    spent = {"cpu": process_time() - cpu, "wall": perf_counter() - wall}
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {
        **spent,
        "mb": grown,
        "passages": len(rows),
        "entities": len(graph.entities),
        "mentions": graph.mentions.nnz,
    }


def main() -> None:
    """Measure every size, and print the growth of time and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?", type=Path, default=BUNDLED)
    parser.add_argument("--copies", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--matcher", choices=("auto", "automaton", "python"), default="auto")
    parser.add_argument("--updatable", action="store_true", help="build an index that can be updated")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(build_once(options)))
        return
    last: dict[str, float] | None = None
    for copies in options.copies:
        command = [sys.executable, __file__, str(options.corpus), "--once", "--copies", str(copies)]
        command += ["--matcher", options.matcher, *(["--updatable"] if options.updatable else [])]
        runs = [
            json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            for _ in range(options.repeat)
        ]
        best = min(runs, key=lambda run: run["cpu"])
        line = (
            f"{best['passages']:7.0f} passages  {best['entities']:7.0f} entities  {best['mentions']:8.0f} mentions  "
            f"{best['cpu']:6.2f} s cpu  {best['wall']:6.2f} s wall  {best['mb']:6.0f} MB  "
            f"{best['passages'] / best['cpu']:6.0f} passages/s (bar {BAR})"
        )
        if last is not None and best["passages"] == 2 * last["passages"]:
            line += f"  time x {best['cpu'] / last['cpu']:.2f}, memory x {best['mb'] / last['mb']:.2f} (bar {GROWTH})"
        print(line, flush=True)
        last = best


if __name__ == "__main__":
    main()
