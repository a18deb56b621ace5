"""Compare stores of vectors for a folder: time to build, search (also with a filter) and change; recall; size.

    python tools/benchmarks/vector_stores.py [--vectors 100000] [--data real|random] [--stores flat,...]
    python tools/benchmarks/vector_stores.py --page docs/research/vector-stores.json

The stores are `flat` (all vectors of an index are compared: the default of a folder), `int8` (the same with one byte
per number; the best 200 are compared exactly), `chroma` (an option of a folder), and `lancedb`, `usearch`, `hnswlib`,
`faiss-flat`, `faiss-hnsw` and `sqlite-vec`, each if it is installed. Lists have 50 hits; recall is the share of the
exact 50 nearest. The filter matches a seventh of the passages. `real` vectors are those of tools/scale/corpus.py;
`random` vectors lie around 500 centers. Seconds and milliseconds are processor time on one thread. Each store runs in a
separate process, so that its memory and its disk space are measured separately. With `--minutes`, a store that needs
more minutes of processor time is stopped, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "scale"))
WIDTH, LIMIT, PAGE, TEAMS, CHANGED = 384, 50, 5000, 7, 100
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1")


class Flat:
    """A store like a folder's default: a memory-mapped file, and further files for later vectors; all are compared."""

    needs: tuple[str, ...] = ()

    def __init__(self, folder: Path, vectors: Any) -> None:
        from phasegraph.graph.flat import nearest_rows

        self._nearest, self._file, self.count = nearest_rows, folder / "vectors.npy", len(vectors)
        self._base, self._more, self._gone = vectors[:0], vectors[:0], np.zeros(0, dtype=np.int64)

    def build(self, vectors: Any) -> None:
        """Write all vectors."""
        np.save(self._file, vectors)
        self._base = np.load(self._file, mmap_mode="r").view(np.ndarray)

    def add(self, first: int, vectors: Any) -> None:
        """Add a batch of vectors as a separate file; their rows begin at `first`."""
        np.save(self._file.with_name("more.npy"), vectors)
        self._more = np.concatenate([self._more, vectors])

    def delete(self, rows: list[int]) -> None:
        """Mark the vectors in some rows as deleted."""
        self._gone = np.array(sorted(rows))

    def search(self, query: Any, team: int | None) -> list[int]:
        """Return the rows of the 50 vectors nearest to `query`; with `team`, only vectors that match this filter."""
        if team is not None:
            rows = np.arange(team, len(self._base), TEAMS)
            return best_of(rows, self._base[rows], query)
        view = _View(self._base, self._more, self._gone)
        rows = self._nearest(view, query, LIMIT)
        return best_of(rows, view.embeddings[rows], query)


class _View:
    """The part of an entity graph that :func:`nearest_rows` reads, over the vectors of a :class:`Flat`."""

    def __init__(self, base: Any, more: Any, gone: Any) -> None:
        from phasegraph.graph.index.combined_arrays import StackedRows

        self.embeddings: Any = StackedRows(base, more) if len(more) else base
        self.count, self._gone = len(self.embeddings) - len(gone), gone

    def rows_at(self, places: Any) -> Any:
        """Return the rows of places among the vectors that are not deleted.

        It does what :meth:`phasegraph.graph.index.logged_graph.LoggedView.rows_at` does.
        """
        return places + np.searchsorted(self._gone - np.arange(len(self._gone)), places, side="right")

    def cosines_to(self, unit: Any) -> Any:
        """Return the cosines of all vectors with `unit`, as :meth:`phasegraph.graph.EntityGraph.cosines_to` does."""
        from phasegraph._support.products import times_vector

        held = self.embeddings
        return times_vector(held, unit) if isinstance(held, np.ndarray) else held.times(unit)


def best_of(rows: Any, vectors: Any, query: Any) -> list[int]:
    """Return the 50 best of the given rows for a query, by exact comparison of their vectors."""
    scores = np.einsum("ij,j->i", vectors, query)
    found: list[int] = rows[np.argsort(-scores)[:LIMIT]].tolist()
    return found


class Int8(Flat):
    """A store of vectors with one byte per number, scanned block by block; the best 200 are compared exactly."""

    def build(self, vectors: Any) -> None:
        """Write all vectors twice: with one byte per number, and exactly."""
        super().build(vectors)
        self._scale = float(np.abs(vectors[:20_000]).max()) / 127
        file = self._file.with_name("int8.npy")
        held = np.lib.format.open_memmap(file, "w+", np.int8, vectors.shape)
        for first in range(0, len(vectors), PAGE):
            part = np.rint(vectors[first : first + PAGE] / self._scale)
            held[first : first + PAGE] = np.clip(part, -127, 127)
        held.flush()
        self._bytes = np.load(file, mmap_mode="r").view(np.ndarray)

    def search(self, query: Any, team: int | None) -> list[int]:
        """Return the rows of the 50 vectors nearest to `query`; with `team`, only vectors that match this filter."""
        if team is not None:
            return super().search(query, team)
        scores, room = np.empty(len(self._bytes), dtype=np.float32), np.empty((2048, WIDTH), dtype=np.float32)
        for first in range(0, len(scores), 2048):
            part = self._bytes[first : first + 2048]
            np.copyto(room[: len(part)], part)
            np.dot(room[: len(part)], query, out=scores[first : first + len(part)])
        scores[self._gone] = -np.inf
        rows, first = np.sort(np.argpartition(scores, -200)[-200:]), len(self._base)
        later = np.arange(first, first + len(self._more))
        return best_of(np.concatenate([rows, later]), np.concatenate([self._base[rows], self._more]), query)


class Chroma:
    """A store in a persistent collection of Chroma, as ``vector_store="chroma"`` makes it."""

    needs = ("chromadb",)

    def __init__(self, folder: Path, vectors: Any) -> None:
        import chromadb

        client = chromadb.PersistentClient(str(folder), settings=chromadb.config.Settings(anonymized_telemetry=False))
        made = client.create_collection("passages", configuration={"hnsw": {"space": "cosine", "ef_search": 200}})
        self._held: Any = made

    def build(self, vectors: Any) -> None:
        """Add all vectors."""
        for first in range(0, len(vectors), PAGE):
            self.add(first, vectors[first : first + PAGE])

    def add(self, first: int, vectors: Any) -> None:
        """Add a batch of vectors; their rows begin at `first`."""
        rows = range(first, first + len(vectors))
        teams = [{"team": row % TEAMS} for row in rows]
        self._held.add(ids=[str(row) for row in rows], embeddings=vectors, metadatas=teams)

    def delete(self, rows: list[int]) -> None:
        """Delete the vectors in some rows."""
        self._held.delete(ids=[str(row) for row in rows])

    def search(self, query: Any, team: int | None) -> list[int]:
        """Return the rows of the 50 vectors nearest to `query`; with `team`, only vectors that match this filter."""
        within = None if team is None else {"team": team}
        return [int(one) for one in self._held.query(query_embeddings=[query], n_results=LIMIT, where=within)["ids"][0]]


class Lance:
    """A store in a LanceDB table without an index."""

    needs = ("lancedb",)

    def __init__(self, folder: Path, vectors: Any) -> None:
        import lancedb

        self._database, self._held = lancedb.connect(str(folder)), None

    def build(self, vectors: Any) -> None:
        """Add all vectors."""
        for first in range(0, len(vectors), 10 * PAGE):
            self.add(first, vectors[first : first + 10 * PAGE])

    def add(self, first: int, vectors: Any) -> None:
        """Add a batch of vectors; their rows begin at `first`."""
        rows = [
            {"id": first + row, "vector": vector, "team": (first + row) % TEAMS} for row, vector in enumerate(vectors)
        ]
        if self._held is None:
            self._held = self._database.create_table("passages", rows)
        else:
            self._held.add(rows)

    def delete(self, rows: list[int]) -> None:
        """Delete the vectors in some rows."""
        assert self._held is not None
        self._held.delete(f"id IN ({', '.join(map(str, rows))})")

    def search(self, query: Any, team: int | None) -> list[int]:
        """Return the rows of the 50 vectors nearest to `query`; with `team`, only vectors that match this filter."""
        assert self._held is not None
        asked = self._held.search(query).metric("cosine").select(["id", "_distance"]).limit(LIMIT)
        found = asked if team is None else asked.where(f"team = {team}", prefilter=True)
        ids: list[int] = found.to_arrow()["id"].to_pylist()
        return ids


class Usearch:
    """A store in a usearch HNSW index; rows that match a filter are compared exactly.

    The file of the index is written again for every change.
    """

    needs = ("usearch",)

    def __init__(self, folder: Path, vectors: Any) -> None:
        from usearch.index import Index

        self._file = folder / "index.usearch"
        self._held = Index(ndim=WIDTH, metric="ip", dtype="f32", expansion_search=200)

    def build(self, vectors: Any) -> None:
        """Add all vectors."""
        self.add(0, vectors)

    def add(self, first: int, vectors: Any) -> None:
        """Add a batch of vectors; their rows begin at `first`."""
        self._held.add(np.arange(first, first + len(vectors)), np.ascontiguousarray(vectors))
        self._held.save(str(self._file))

    def delete(self, rows: list[int]) -> None:
        """Delete the vectors in some rows."""
        self._held.remove(np.array(rows))
        self._held.save(str(self._file))

    def search(self, query: Any, team: int | None) -> list[int]:
        """Return the rows of the 50 vectors nearest to `query`; with `team`, only vectors that match this filter."""
        if team is not None:
            rows = np.arange(team, len(self._held), TEAMS)
            return best_of(rows, self._held.get(rows), query)
        found: list[int] = self._held.search(query, LIMIT).keys.tolist()
        return found


class Hnswlib:
    """A store in a hnswlib HNSW index, whose filter is a function of a label.

    The file of the index is written again for every change.
    """

    needs = ("hnswlib",)

    def __init__(self, folder: Path, vectors: Any) -> None:
        import hnswlib

        self._file = folder / "index.hnsw"
        self._held = hnswlib.Index(space="ip", dim=WIDTH)
        self._held.init_index(max_elements=len(vectors) + 2 * CHANGED, ef_construction=100, M=16)
        self._held.set_ef(200)

    def build(self, vectors: Any) -> None:
        """Add all vectors."""
        self.add(0, vectors)

    def add(self, first: int, vectors: Any) -> None:
        """Add a batch of vectors; their rows begin at `first`."""
        self._held.add_items(vectors, np.arange(first, first + len(vectors)))
        self._held.save_index(str(self._file))

    def delete(self, rows: list[int]) -> None:
        """Mark the vectors in some rows as deleted."""
        for row in rows:
            self._held.mark_deleted(row)
        self._held.save_index(str(self._file))

    def search(self, query: Any, team: int | None) -> list[int]:
        """Return the rows of the 50 vectors nearest to `query`; with `team`, only vectors that match this filter."""
        allowed = None if team is None else (lambda label: label % TEAMS == team)
        found: list[int] = self._held.knn_query(query, k=LIMIT, filter=allowed)[0][0].tolist()
        return found


class Faiss:
    """A store in an exact faiss index, whose file is written again for every change."""

    needs = ("faiss",)
    kind = "Flat"

    def __init__(self, folder: Path, vectors: Any) -> None:
        import faiss

        self._faiss, self._file = faiss, folder / "index.faiss"
        self._held = faiss.index_factory(WIDTH, f"IDMap2,{self.kind}", faiss.METRIC_INNER_PRODUCT)

    def build(self, vectors: Any) -> None:
        """Add all vectors."""
        self.add(0, vectors)

    def add(self, first: int, vectors: Any) -> None:
        """Add a batch of vectors; their rows begin at `first`."""
        self._held.add_with_ids(np.ascontiguousarray(vectors), np.arange(first, first + len(vectors)))
        self._faiss.write_index(self._held, str(self._file))

    def delete(self, rows: list[int]) -> None:
        """Delete the vectors in some rows."""
        self._held.remove_ids(np.array(rows))
        self._faiss.write_index(self._held, str(self._file))

    def _options(self, selector: Any) -> Any:
        return self._faiss.SearchParameters(sel=selector)

    def search(self, query: Any, team: int | None) -> list[int]:
        """Return the rows of the 50 vectors nearest to `query`; with `team`, only vectors that match this filter."""
        options = None
        if team is not None:
            allowed = np.arange(team, self._held.ntotal, TEAMS)
            options = self._options(self._faiss.IDSelectorBatch(allowed))
        found: list[int] = self._held.search(query[None], LIMIT, params=options)[1][0].tolist()
        return found


class FaissHnsw(Faiss):
    """A store in a faiss HNSW index, which does not support deletion."""

    kind = "HNSW32"

    def delete(self, rows: list[int]) -> None:
        """Raise an error, because this index does not support deletion."""
        raise NotImplementedError

    def _options(self, selector: Any) -> Any:
        return self._faiss.SearchParametersHNSW(efSearch=200, sel=selector)

    def search(self, query: Any, team: int | None) -> list[int]:
        """Return the rows of the 50 vectors nearest to `query`; with `team`, only vectors that match this filter."""
        self._faiss.downcast_index(self._held.index).hnsw.efSearch = 200
        return super().search(query, team)


class SqliteVec:
    """A store in a virtual table of SQLite (sqlite-vec); a search compares all its vectors."""

    needs = ("sqlite_vec",)

    def __init__(self, folder: Path, vectors: Any) -> None:
        import sqlite3

        import sqlite_vec

        self._held = sqlite3.connect(folder / "vectors.db")
        self._held.enable_load_extension(True)
        sqlite_vec.load(self._held)
        fields = f"id integer primary key, team integer, vector float[{WIDTH}] distance_metric=cosine"
        self._held.execute(f"create virtual table passages using vec0({fields})")

    def build(self, vectors: Any) -> None:
        """Add all vectors."""
        self.add(0, vectors)

    def add(self, first: int, vectors: Any) -> None:
        """Add a batch of vectors; their rows begin at `first`."""
        rows = ((first + row, (first + row) % TEAMS, vector.tobytes()) for row, vector in enumerate(vectors))
        self._held.executemany("insert into passages(id, team, vector) values (?, ?, ?)", rows)
        self._held.commit()

    def delete(self, rows: list[int]) -> None:
        """Delete the vectors in some rows."""
        self._held.executemany("delete from passages where id = ?", [(row,) for row in rows])
        self._held.commit()

    def search(self, query: Any, team: int | None) -> list[int]:
        """Return the rows of the 50 vectors nearest to `query`; with `team`, only vectors that match this filter."""
        where, given = ("", ()) if team is None else (" and team = ?", (team,))
        asked = f"select id from passages where vector match ? and k = {LIMIT}{where}"
        return [row for (row,) in self._held.execute(asked, (query.tobytes(), *given))]


STORES: dict[str, Any] = {
    "flat": Flat, "int8": Int8, "chroma": Chroma, "lancedb": Lance, "usearch": Usearch, "hnswlib": Hnswlib,
    "faiss-flat": Faiss, "faiss-hnsw": FaissHnsw, "sqlite-vec": SqliteVec,
}  # fmt: skip


def vectors_of(data: str, count: int, questions: int) -> tuple[Any, Any]:
    """Return the vectors of `count` passages and of CHANGED further passages, and the vectors of the questions.

    `data` is "real" or "random".
    """
    if data == "real":
        from corpus import ZipfCorpus

        made = ZipfCorpus()
        return made.vectors(count + CHANGED), made.questions(count, questions)[1].astype(np.float32)
    draw = np.random.default_rng(0)
    centres = draw.standard_normal((500, WIDTH), dtype=np.float32)
    held = centres[draw.integers(0, 500, count + CHANGED)]
    held += np.float32(0.8) * draw.standard_normal(held.shape, dtype=np.float32)
    held /= np.linalg.norm(held, axis=1, keepdims=True)
    asked = held[draw.integers(0, count, questions)]
    asked = asked + np.float32(0.02) * draw.standard_normal(asked.shape, dtype=np.float32)
    return held, asked / np.linalg.norm(asked, axis=1, keepdims=True)


def measured(name: str, place: Path) -> dict[str, Any]:
    """Measure one store in this process, with the vectors below `place`; return times, recall and size in MB."""
    vectors = np.load(place / "vectors.npy", mmap_mode="r").view(np.ndarray)
    asked, count = np.load(place / "asked.npy"), len(vectors) - CHANGED
    exact: list[Any] = json.loads((place / "exact.json").read_text())
    folder = place / name
    folder.mkdir()
    store = STORES[name](folder, vectors[:count])

    def clocked(work: Callable[[], object]) -> float:
        started = time.process_time()
        work()
        return time.process_time() - started

    def each(team: int | None) -> float:
        return 1000 * median(clocked(lambda q=query: store.search(q, team)) for query in asked)  # type: ignore[misc]

    told: dict[str, Any] = {"build": clocked(lambda: store.build(vectors[:count]))}
    store.search(asked[0], None)
    found = [store.search(query, None) for query in asked]
    told["recall"] = float(np.mean([len({*one} & {*best}) / LIMIT for one, best in zip(found, exact[0], strict=True)]))
    within = [store.search(query, 3) for query in asked[:10]]
    shares = [len({*one} & {*best}) / LIMIT for one, best in zip(within, exact[1], strict=False)]
    told["recall within"] = float(np.mean(shares))
    told["question"], told["within"] = each(None), each(3)
    told["mb"] = sum(one.stat().st_size for one in folder.rglob("*") if one.is_file()) / 2**20
    told["add"] = clocked(lambda: store.add(count, vectors[count:]))
    try:
        told["delete"] = clocked(lambda: store.delete(list(range(CHANGED))))
        left = {row for query in asked for row in store.search(query, None)}
        if left & set(range(CHANGED)):
            raise RuntimeError("a search found a vector that was deleted")
    except NotImplementedError:
        told["delete"] = None
    return told


def exact_lists(vectors: Any, asked: Any) -> list[list[list[int]]]:
    """Return the exact nearest rows of each question, among all vectors and among those that match the filter.

    The result is a list for all vectors, and a list for those that match the filter.
    """
    out: list[list[list[int]]] = [[], []]
    rows = np.arange(3, len(vectors), TEAMS)
    for query in asked:
        scores = vectors @ query
        out[0].append(np.argsort(-scores)[:LIMIT].tolist())
        out[1].append(rows[np.argsort(-scores[rows])[:LIMIT]].tolist())
    return out


def shown(value: float) -> str:
    """Return a figure as text: with three digits, or from 1000 on as a whole number."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def page(files: list[Path]) -> str:
    """Return the tables as Markdown; each file has the figures of one size, or a list of several."""
    lines = []
    read = (json.loads(file.read_text()) for file in files)
    for told in (one for each in read for one in (each if isinstance(each, list) else [each])):
        lines += [f"**{told['vectors']:,} vectors** of {WIDTH} numbers, {told['data']}.", ""]
        lines += [
            "| store | built, s | a question, ms | within a filter, ms | recall | 100 added, s | 100 deleted, s | MB |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for name, one in told["stores"].items():
            if "stopped" in one:
                said = f"stopped after {one['stopped']} minutes"
                lines.append(f"| {name} {one['version']} | {said} | – | – | – | – | – | – |")
                continue
            cells = [*map(shown, (one["build"], one["question"], one["within"])), f"{one['recall']:.3f}"]
            deleted = "–" if one["delete"] is None else shown(one["delete"])
            cells += [shown(one["add"]), deleted, f"{one['mb']:,.0f}"]
            named = name if not one["version"] else f"{name} {one['version']}"
            lines.append(f"| {named} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def version_of(name: str) -> str:
    """Return the installed version of the package that a store uses; "" if it uses none."""
    package = {"chroma": "chromadb", "faiss-flat": "faiss-cpu", "faiss-hnsw": "faiss-cpu"}.get(name, name)
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def main() -> None:
    """Measure the stores that the command line names, or print the page's tables from files of figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--data", choices=("real", "random"), default="real")
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--minutes", type=int, help="most processor time of a store; default: no limit")
    parser.add_argument("--page", type=Path, nargs="+", help="files of --json: print their tables, measure nothing")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.page:
        print(page(options.page))
        return
    if options.one:
        if options.minutes:
            resource.setrlimit(resource.RLIMIT_CPU, (60 * options.minutes, resource.RLIM_INFINITY))
        print(json.dumps(measured(options.one[0], Path(options.one[1]))))
        return
    place = Path(tempfile.mkdtemp())
    vectors, asked = vectors_of(options.data, options.vectors, options.questions)
    np.save(place / "vectors.npy", vectors)
    np.save(place / "asked.npy", asked)
    (place / "exact.json").write_text(json.dumps(exact_lists(vectors[: options.vectors], asked)))
    told: dict[str, Any] = {"vectors": options.vectors, "data": options.data, "stores": {}}
    for name in options.stores.split(","):
        lacking = [one for one in STORES[name].needs if find_spec(one) is None]
        if lacking:
            print(f"{name}: {', '.join(lacking)} is not installed")
            continue
        command = [sys.executable, __file__, "--one", name, str(place)]
        done = subprocess.run(
            [*command, *(["--minutes", str(options.minutes)] if options.minutes else [])],
            capture_output=True, text=True, check=False, env={**os.environ, **ONE_THREAD},
        )  # fmt: skip
        if done.returncode == -signal.SIGXCPU:
            told["stores"][name] = {"stopped": options.minutes, "version": version_of(name)}
        elif done.returncode:
            print(f"{name}: failed: {done.stderr.strip().splitlines()[-1]}")
            continue
        else:
            told["stores"][name] = json.loads(done.stdout.splitlines()[-1]) | {"version": version_of(name)}
        shutil.rmtree(place / name, ignore_errors=True)
        print(name, told["stores"][name], flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(told, indent=1))
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
