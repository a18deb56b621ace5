"""Measure the cost of syncs of a folder of 100,000 passages, and how much syncs and merges slow down searches.

    python tools/benchmarks/living_speed.py [CORPUS.jsonl] [--passages 100000] [--questions 100] [--json FILE]

The corpus (default: the bundled corpus) is repeated with changed names, as in index_speed.py. Ten consecutive passages
form a document. Vectors are random, with 384 numbers, and cost nothing. Through LangChain, one sync of all documents
changes nothing, and a further sync changes 100 documents; the figures do not include reading and embedding. Then the
same questions are asked in three situations, which alternate. In the first, there is no other work. In the second,
another process syncs 100 documents and merges. In the third, this process syncs. Use the processor times and their
ratios; the output also states the load of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from zlib import crc32

import numpy as np
from index_speed import BUNDLED, corpus
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from langchain_phasegraph import PhaseGraphRetriever
from phasegraph import PhasegraphWarning

WIDTH, TOGETHER, CHANGED = 384, 10, 100
"""Numbers in a vector; passages in a document; documents that a sync changes."""
ROUNDS = 3


class Free(Embeddings):
    """An embedding model that looks up the vectors of texts in a table."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        centres = draw.standard_normal((500, WIDTH))
        rows = centres[draw.integers(0, 500, 4096)] + 0.8 * draw.standard_normal((4096, WIDTH))
        self.rows = rows.astype(np.float32)

    def embed_documents(self, texts: list[str]) -> Any:
        """Return a row of the table for each text, as an array."""
        return self.rows[[crc32(text.encode()) % len(self.rows) for text in texts]]

    def embed_query(self, text: str) -> list[float]:
        """Return the row of the table for a text."""
        found: list[float] = self.embed_documents([text])[0].tolist()
        return found


def documents(rows: Sequence[dict[str, str]], said: str = "", count: int | None = None) -> list[Document]:
    """Return passages as documents; in each of the first `count` sources, `said` is added to the first passage."""
    changed = TOGETHER * (0 if count is None else count)
    return [
        Document(
            one["text"] + (f" {said}" if row < changed and not row % TOGETHER else ""),
            metadata={"title": one["title"], "source": f"{row // TOGETHER}.md"},
        )
        for row, one in enumerate(rows)
    ]


def spent(work: Callable[[], Any]) -> dict[str, Any]:
    """Call a function; return its processor and wall seconds, the load of the machine, and its return value as text."""
    load, cpu, wall = os.getloadavg()[0], process_time(), perf_counter()
    found = work()
    return {"cpu_s": process_time() - cpu, "wall_s": perf_counter() - wall, "load": load, "said": str(found)}


Spans = list[tuple[float, float]]


def latencies(retriever: PhaseGraphRetriever, questions: Sequence[str], goes_on: Callable[[], bool]) -> Spans:
    """Ask all questions, and ask again while `goes_on()`; return wall and processor seconds for each question."""
    found: Spans = []
    while True:
        for question in questions:
            begun, cpu = perf_counter(), process_time()
            retriever.invoke(question)
            found.append((perf_counter() - begun, process_time() - cpu))
            if len(found) >= len(questions) and not goes_on():
                return found


def beside_a_process(folder: Path, rows_file: Path, number: int) -> Callable[[], bool]:
    """Start a process that syncs and merges; return a function that says whether the process still runs."""
    code = "import living_speed, sys; living_speed.sync_and_merge(*sys.argv[1:])"
    arguments = [sys.executable, "-c", code, str(folder), str(rows_file), str(number)]
    done = subprocess.Popen(arguments, cwd=Path(__file__).parent)
    return lambda: done.poll() is None


def sync_and_merge(folder: str, rows_file: str, number: str) -> None:
    """Sync 100 changed documents into a folder, and merge its changes; a separate process runs this function."""
    from phasegraph.graph.corpus.folder import Folder

    rows = json.loads(Path(rows_file).read_text())[: TOGETHER * CHANGED]
    retriever = PhaseGraphRetriever.load(folder, Free())
    retriever.sync(documents(rows, f"Round {number}.", CHANGED), progress=False)
    held = Folder(folder)
    held.load()
    held.merge(held.last)


def beside_a_thread(retriever: PhaseGraphRetriever, rows: Sequence[dict[str, str]], number: int) -> Callable[[], bool]:
    """Start a thread that syncs 100 changed documents; return a function that says whether it still runs."""
    given = documents(rows[: TOGETHER * CHANGED], f"Turn {number}.", CHANGED)
    thread = threading.Thread(target=lambda: retriever.sync(given, progress=False))
    thread.start()
    return thread.is_alive


def main() -> None:
    """Measure syncs, and searches beside syncs and merges; print or write the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?", type=Path, default=BUNDLED)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    lines = sum(1 for _ in options.corpus.open())
    rows = corpus(options.corpus, -(-options.passages // lines))[: options.passages]
    place = Path(tempfile.mkdtemp())
    folder, rows_file, model = place / "corpus", place / "rows.json", Free()
    rows_file.write_text(json.dumps(rows[: TOGETHER * CHANGED]))
    figures: dict[str, Any] = {"passages": len(rows), "processors": len(os.sched_getaffinity(0))}

    def measure(name: str, work: Callable[[], Any]) -> None:
        found = figures[name] = spent(work)
        print(f"{name:>38} {found['cpu_s']:7.2f} s of a processor, {found['wall_s']:7.2f} s, load {found['load']:.1f}")

    warnings.simplefilter("ignore", PhasegraphWarning)
    whole = documents(rows)
    measure("build", lambda: PhaseGraphRetriever.from_documents(whole, model, path=folder, progress=False) and "")
    retriever = PhaseGraphRetriever.load(folder, model)
    measure("first sync, nothing changed", lambda: retriever.sync(whole, full=True, progress=False))
    measure("sync, nothing changed", lambda: retriever.sync(whole, full=True, progress=False))
    fresh = documents(rows, "Changed.", CHANGED)
    measure("sync of all, 100 documents changed", lambda: retriever.sync(fresh, full=True, progress=False))
    again = documents(rows[: TOGETHER * CHANGED], "Again.", CHANGED)
    measure("sync of 100 changed documents", lambda: retriever.sync(again, progress=False))
    reopened = PhaseGraphRetriever.load(folder, model)
    measure("first sync after opening", lambda: reopened.sync(whole[TOGETHER * CHANGED :], progress=False))
    reopened = None
    questions = [f"Who is {row['title']}?" for row in rows[:: max(len(rows) // options.questions, 1)]]
    latencies(retriever, questions, lambda: False)
    kinds: dict[str, list[Spans]] = {"quiet": [], "beside a process": [], "beside a thread": []}
    loads: list[float] = []
    for number in range(ROUNDS):
        kinds["quiet"].append(latencies(retriever, questions, lambda: False))
        kinds["beside a process"].append(latencies(retriever, questions, beside_a_process(folder, rows_file, number)))
        kinds["beside a thread"].append(latencies(retriever, questions, beside_a_thread(retriever, rows, number)))
        loads.append(os.getloadavg()[0])
    retriever._corpus.settle()
    shutil.rmtree(place)
    figures["loads"] = loads
    for column, clock in enumerate(("wall", "processor")):
        p95 = {name: [float(np.percentile(one, 95, axis=0)[column]) for one in each] for name, each in kinds.items()}
        quiet = float(np.median(p95["quiet"]))
        for name, each in p95.items():
            ratio, asked = float(np.median(each)) / quiet, sum(map(len, kinds[name]))
            figures[f"searches {name}, {clock}"] = {"p95_s": each, "to_quiet": ratio, "asked": asked}
            shown = ", ".join(f"{1000 * one:.0f}" for one in each)
            print(f"searches {name:>17}: p95 {shown} ms of {clock} time, {ratio:.2f} times quiet; {asked} asked")
    print("loads: " + ", ".join(f"{one:.1f}" for one in loads))
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
