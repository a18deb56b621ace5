"""Measure the cost of an index of ten thousand passages or more: building, disk, opening, searching, updating.

    python tools/scale/measure.py 10000 100000 1000000 [--work FOLDER] [--json FILE] [--data DIR ...] [--queries 200]
    [--steps build shards open search batch share update] [--ways auto all listed]

The corpus is the corpus of corpus.py. Every step runs in a separate process, on one thread. The seconds of building are
processor time without the time to make the corpus. "private" is memory of the process alone (Private_Dirty of
smaps_rollup). "mapped" is the part of mapped files that the process has read; other processes share it, and the system
may drop it (Private_Clean, while only one process maps the files). The vector store's lists are computed beforehand by
exact comparison, and not measured. Growth is the exponent of the size between the smallest and the largest corpus.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from corpus import ZipfCorpus

BATCH, LISTED, DEPTH, PROCESSES, TURNS = 100, 50, 10, 4, 9
STEPS = ("build", "shards", "open", "search", "batch", "share", "update")


def private_mb(kind: str = "Dirty") -> float:
    """Return the memory in MB that only this process holds.

    With "Clean", return the memory of mapped files that no other process maps.
    """
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"Private_{kind}:")) / 1024


def peak_mb() -> float:
    """Return the highest memory of the process so far, in MB, shared pages included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def clocked(call: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> tuple[Any, float, float]:
    """Call a function; return its value, its wall seconds, and its seconds by `clock`, by default processor time."""
    wall, cpu = time.perf_counter(), clock()
    found = call()
    return found, time.perf_counter() - wall, clock() - cpu


def build(made: ZipfCorpus, size: int, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """Build the index of `size` passages, and save it in a folder; return times, memory and size in MB."""
    from phasegraph.graph.corpus.folder import Folder
    from phasegraph.graph.index.graph_index import GraphIndex

    rows, vectors = list(made.rows(size)), made.vectors(size)
    before = peak_mb()
    index, _, cpu = clocked(lambda: GraphIndex.build(rows, embeddings=vectors))
    built = peak_mb()
    _, wall, saving = clocked(lambda: Folder.create(folder, index, {}))
    graph = index.graph
    return {
        "passages": size, "entities": len(graph.entities), "mentions": int(graph.mentions.nnz),
        "cpu_s": cpu, "corpus_mb": before, "peak_mb": built, "save_s": wall, "save_cpu_s": saving,
        "disk_mb": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20,
    }  # fmt: skip


def shards(made: ZipfCorpus, size: int, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """Build the index in shards, from files to a folder, in one process without workers; return times and memory."""
    from phasegraph.distributed import build_index

    files, out = (folder.with_name(f"{folder.name}-{name}") for name in ("files", "shards"))
    command = [sys.executable, str(Path(__file__).with_name("corpus.py")), str(size), str(files)]
    subprocess.run([*command, *(["--data", *map(str, options.data)] if options.data else [])], check=True)
    files_mb = sum(one.stat().st_size for one in files.iterdir()) / 2**20
    built, wall, cpu = clocked(
        lambda: build_index(files / "corpus.jsonl", out, embeddings=files / "passages.f16.npy", workers=1)
    )
    disk = sum(one.stat().st_size for one in out.iterdir()) / 2**20
    for one in (files, out):
        shutil.rmtree(one)
    return {
        "shards": built.shards, "cpu_s": cpu, "s": wall, "files_mb": files_mb, "disk_mb": disk,
        "peak_mb": built.driver_peak / 2**20,
    }  # fmt: skip


def open_index(made: ZipfCorpus, size: int, folder: Path, options: argparse.Namespace) -> Mapping[str, object]:
    """Open the index for updates, for searches and without checks; return time and memory of each way."""
    from phasegraph.graph import GraphSource, load_graph
    from phasegraph.graph.index.graph_index import GraphIndex

    found: dict[str, dict[str, float]] = {}
    texts, _, _ = made.questions(size, 1)

    def first_answer() -> Any:
        index = GraphIndex.load(folder / "graph")
        GraphSource(index.graph).search(texts[0], LISTED, {})
        return index

    ways: dict[str, Callable[[], Any]] = {
        "for_updating": lambda: GraphIndex.load(folder / "graph"),
        "for_searching": lambda: load_graph(folder / "graph"),
    }
    if "verify" in inspect.signature(GraphIndex.load).parameters:
        time.sleep(3)  # files that were just written are not yet at rest
        ways = {
            "saved": lambda: GraphIndex.load(folder / "graph"),
            "unverified": lambda: GraphIndex.load(folder / "graph", verify=False),
            "first": lambda: GraphIndex.load(folder / "graph"),
            "answer": first_answer,
            **ways,
        }
    for name, call in ways.items():
        if name in ("unverified", "answer"):  # as if it had been copied here
            os.environ["XDG_CACHE_HOME"] = str(folder / f"no-notes-{name}")
        empty, spent = private_mb(), time.process_time()
        opened, wall, cpu = clocked(call, time.thread_time)
        found[name] = {"s": wall, "cpu_s": cpu, "private_mb": private_mb() - empty}
        getattr(opened, "graph", opened).check_files(settled=True)
        found[name]["settled_cpu_s"] = time.process_time() - spent
        del opened
    return found


def search(made: ZipfCorpus, size: int, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """Search the index with every way of comparing passages in `options.ways`; return times, memory and recall."""
    from phasegraph.graph import GraphSource, WalkSettings, load_graph
    from phasegraph.ranking import Ranking

    texts, vectors, gold = made.questions(size, options.queries)
    files = sorted((folder / "graph").glob("embeddings.*.npy"))
    lists = nearest(np.load(files[0], mmap_mode="r"), vectors, LISTED)
    known = dict(zip(texts, vectors, strict=True))
    found: dict[str, object] = {}
    for way in options.ways:
        empty = private_mb()
        graph, opened, _ = clocked(lambda: load_graph(folder / "graph"))
        given = {} if way in ("full", "handed") else {"walk": WalkSettings(compare=way)}
        source = GraphSource(graph, embedder=None if way == "handed" else known.__getitem__, **given)
        _, prepared, _ = clocked(source.prepare)
        ids = graph.passages
        handed = [Ranking("vector", [ids[row] for row in rows], scores) for rows, scores in lists]
        seconds, spent, hits = [], [], []
        for turn in range(2):  # the first reads the pages
            for text, ranking, hops in zip(texts, handed, gold, strict=True):
                ask = partial(source.search, text, LISTED, {"vector": ranking})
                answer, wall, cpu = clocked(ask)
                if turn:
                    seconds.append(wall)
                    spent.append(cpu)
                    hits.append(len(set(hops) & set(answer.ids[:DEPTH])) / len(hops))
        found[way] = {
            "open_s": opened, "prepare_s": prepared, "p50_ms": 1000 * float(np.quantile(seconds, 0.5)),
            "p95_ms": 1000 * float(np.quantile(seconds, 0.95)),
            "cpu_p50_ms": 1000 * float(np.quantile(spent, 0.5)), "cpu_p95_ms": 1000 * float(np.quantile(spent, 0.95)),
            "private_mb": private_mb() - empty,
            "mapped_mb": private_mb("Clean"), "recall_at_10": float(np.mean(hits)),
        }  # fmt: skip
    return found


def batch(made: ZipfCorpus, size: int, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """Answer `options.queries` questions with embeddings at once, as ``phasegraph retrieve`` does, in nine turns.

    Return processor times per question. If the corpus has fewer questions, they are repeated.
    """
    from phasegraph.distributed.retrieval import Answering

    texts, vectors, _ = made.questions(size, options.queries)
    places = np.resize(np.arange(len(texts)), options.queries)
    rows = [{"id": str(row), "text": texts[place]} for row, place in enumerate(places.tolist())]
    answering = Answering(folder / "graph")
    answering.rows(rows, vectors[places])  # reads the pages, and compiles the walk
    spent = [clocked(lambda: answering.rows(rows, vectors[places]))[2] / len(rows) for _ in range(TURNS)]
    return {
        "questions": len(rows), "cpu_p50_ms": 1000 * float(np.median(spent)), "least_cpu_ms": 1000 * min(spent),
        "per_second_and_core": 1 / float(np.median(spent)), "load": os.getloadavg()[0],
    }  # fmt: skip


def nearest(held: Any, vectors: Any, count: int) -> list[tuple[list[int], Any]]:
    """Return, for each question, the rows and cosines of the `count` nearest passages; vectors are read in blocks."""
    rows = np.empty((len(vectors), 0), dtype=np.int64)
    near = np.empty((len(vectors), 0), dtype=np.float32)
    for first in range(0, len(held), 50_000):
        cosines = vectors @ held[first : first + 50_000].T
        rows = np.concatenate(
            [rows, np.broadcast_to(np.arange(first, first + cosines.shape[1]), cosines.shape)], axis=1
        )
        near = np.concatenate([near, cosines], axis=1)
        best = np.argpartition(-near, min(count, near.shape[1] - 1), axis=1)[:, :count]
        rows, near = np.take_along_axis(rows, best, 1), np.take_along_axis(near, best, 1)
    order = np.argsort(-near, axis=1, kind="stable")
    rows, near = np.take_along_axis(rows, order, 1), np.take_along_axis(near, order, 1)
    return list(zip(rows.tolist(), near, strict=True))


def update(made: ZipfCorpus, size: int, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """Add two batches of passages, remove the first, and merge all changes; return times and memory.

    The changes are logged in the folder, as by a retriever of the folder.
    """
    from phasegraph.graph.corpus.corpus import Corpus
    from phasegraph.graph.corpus.folder import Folder

    rows = [{**row, "metadata": {}} for row in made.rows(size + 2 * BATCH, size)]
    vectors = made.vectors(size + 2 * BATCH, size)
    empty, kept = private_mb(), Folder(folder)
    (index, _), wall, _ = clocked(kept.load)
    corpus, preparing, _ = clocked(lambda: Corpus(index, lambda text: vectors[0], folder=kept))
    found: dict[str, object] = {"open_s": wall, "prepare_s": preparing}
    ids = [row["id"] for row in rows[:BATCH]]
    for name, call in {
        "first_add": lambda: corpus.replace((), rows[:BATCH], vectors[:BATCH]),
        "next_add": lambda: corpus.replace((), rows[BATCH:], vectors[BATCH:]),
        "remove": lambda: corpus.replace(ids),
    }.items():
        _, wall, cpu = clocked(call)
        found[name] = {"s": wall, "cpu_s": cpu}
    found |= {"private_mb": private_mb() - empty}
    _, wall, cpu = clocked(corpus.index.compact)
    found |= {"merge": {"s": wall, "cpu_s": cpu}, "peak_mb": peak_mb()}
    shutil.rmtree(folder / "changes")
    Folder(folder)._write_state(0, {})
    return found


def share(made: ZipfCorpus, size: int, folder: Path, options: argparse.Namespace) -> dict[str, object]:
    """Search the index in four processes at once; return the private memory of each, and the memory of all in MB."""
    context = multiprocessing.get_context("spawn")
    questions = made.questions(size, options.queries)[:2]
    barrier, said = context.Barrier(PROCESSES), context.Queue()
    members = [context.Process(target=_member, args=(folder, questions, barrier, said)) for _ in range(PROCESSES)]
    for one in members:
        one.start()
    found = [said.get(timeout=600) for _ in members]
    for one in members:
        one.join()
    return {
        "processes": PROCESSES, "private_each_mb": max(one["dirty"] for one in found),
        "all_together_mb": sum(one["pss"] for one in found), "one_maps_mb": max(one["rss"] for one in found),
    }  # fmt: skip


def _member(folder: Path, questions: Any, barrier: Any, said: Any) -> None:
    from phasegraph.graph import GraphSource, WalkSettings, load_graph

    texts, vectors = questions
    before = _held()
    known = dict(zip(texts, vectors, strict=True))
    walk = WalkSettings(compare="listed")
    source = GraphSource(load_graph(folder / "graph"), embedder=known.__getitem__, walk=walk)
    barrier.wait(600)
    for text in texts:
        source.search(text, LISTED, {})
    barrier.wait(600)
    now = _held()
    said.put({name: now[name] - before[name] for name in now})
    barrier.wait(600)


def _held() -> dict[str, float]:
    lines = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    named = {"dirty": "Private_Dirty", "pss": "Pss", "rss": "Rss"}
    return {name: int(lines[one].split()[0]) / 1024 for name, one in named.items()}


def growth(figures: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return, for each figure, the exponent e for which it grows as size ** e from the smallest to the largest corpus.

    Figures that are missing or 0 for one of the two sizes are left out.
    """
    sizes = sorted(map(int, figures))
    if len(sizes) < 2:
        return {}
    low, high = (_flat(figures[str(size)]) for size in (sizes[0], sizes[-1]))
    ratio = math.log(sizes[-1] / sizes[0])
    return {
        name: math.log(high[name] / low[name]) / ratio
        for name in low
        if low[name] > 0 and high.get(name, 0) > 0 and "recall" not in name
    }


def _flat(value: dict[str, Any], before: str = "") -> dict[str, float]:
    out: dict[str, float] = {}
    for name, one in value.items():
        out |= _flat(one, f"{before}{name}.") if isinstance(one, dict) else {f"{before}{name}": float(one)}
    return out


def main() -> None:
    """Measure every step at every size in separate processes, and write the figures and their growth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", type=int, nargs="+")
    parser.add_argument("--work", type=Path, help="folder for the indexes; default: one that is removed")
    parser.add_argument("--json", type=Path, help="figures; those of other sizes and steps in it stay")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--ways", nargs="+", default=["auto", "all", "listed"], help="how passages are compared")
    parser.add_argument("--data", type=Path, nargs="+")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        call = {
            "build": build,
            "shards": shards,
            "open": open_index,
            "search": search,
            "batch": batch,
            "share": share,
            "update": update,
        }[options.step]
        size = options.sizes[0]
        print(json.dumps(call(ZipfCorpus(options.data), size, options.work / str(size), options)))
        return
    work = options.work or Path(tempfile.mkdtemp(prefix="phasegraph-scale-"))
    work.mkdir(parents=True, exist_ok=True)
    kept: dict[str, Any] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    figures = kept.setdefault("sizes", {})
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    for size in sorted(options.sizes):
        for step in options.steps:
            command = [sys.executable, __file__, str(size), "--step", step, "--work", str(work)]
            command += ["--queries", str(options.queries), "--ways", *options.ways]
            command += ["--data", *map(str, options.data)] if options.data else []
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | threads)
            found = json.loads(done.stdout)
            before = figures.setdefault(str(size), {}).get(step, {})
            figures[str(size)][step] = {**before, **found}
            print(f"{size} {step}: {json.dumps(found)}", flush=True)
            kept["growth"] = growth(figures)
            if options.json:
                options.json.write_text(json.dumps(kept, indent=1) + "\n")
    for name, exponent in kept["growth"].items():
        print(f"{name:>30} {exponent:6.2f}")
    if options.work is None:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
