"""What Chroma and LanceDB cost as the store of a folder's vectors, beside comparing all of them in memory.

    python tools/benchmarks/vector_stores.py [--vectors 100000] [--questions 50]

Vectors of 384 numbers around 500 centres, texts of 500 characters, lists of 50; LanceDB without an index, as
LangChain's class leaves it. Recall is the share of the exact 50 nearest.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

WIDTH, LIMIT, PAGE = 384, 50, 5000


class InChroma:
    """A persistent collection, as ``path=`` makes it."""

    def __init__(self, folder: Path) -> None:
        import chromadb

        client = chromadb.PersistentClient(str(folder), settings=chromadb.config.Settings(anonymized_telemetry=False))
        self.held: Any = client.create_collection("passages", configuration={"hnsw": {"space": "cosine"}})

    def add(self, rows: range, vectors: Any) -> None:
        """Add a batch."""
        texts, teams = [f"word{row} " * 60 for row in rows], [{"team": row % 7} for row in rows]
        self.held.add(ids=[str(row) for row in rows], embeddings=vectors, documents=texts, metadatas=teams)

    def delete(self, rows: range) -> None:
        """Delete a batch."""
        self.held.delete(ids=[str(row) for row in rows])

    def search(self, query: Any, team: int | None) -> list[int]:
        """Rows of the nearest."""
        within = None if team is None else {"team": team}
        return [int(one) for one in self.held.query(query_embeddings=[query], n_results=LIMIT, where=within)["ids"][0]]


class InLance:
    """A table without an index."""

    def __init__(self, folder: Path) -> None:
        import lancedb

        self.database, self.held = lancedb.connect(str(folder)), None

    def add(self, rows: range, vectors: Any) -> None:
        """Add a batch."""
        made = [
            {"id": str(row), "vector": vector, "text": f"word{row} " * 60, "team": row % 7}
            for row, vector in zip(rows, vectors, strict=True)
        ]
        if self.held is None:
            self.held = self.database.create_table("passages", made)
        else:
            self.held.add(made)

    def delete(self, rows: range) -> None:
        """Delete a batch."""
        self.held.delete(f"id IN ({', '.join(repr(str(row)) for row in rows)})")

    def search(self, query: Any, team: int | None) -> list[int]:
        """Rows of the nearest."""
        asked = self.held.search(query).metric("cosine").select(["id", "_distance"]).limit(LIMIT)
        found = asked if team is None else asked.where(f"team = {team}", prefilter=True)
        return [int(one) for one in found.to_arrow()["id"].to_pylist()]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=50)
    options = parser.parse_args()
    draw, count = np.random.default_rng(0), options.vectors
    centres = draw.standard_normal((500, WIDTH))
    vectors = centres[draw.integers(0, 500, count + 100)] + 0.8 * draw.standard_normal((count + 100, WIDTH))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    asked = vectors[draw.integers(0, count, options.questions)]
    asked = asked + np.float32(0.02) * draw.standard_normal(asked.shape).astype(np.float32)
    exact = [np.argsort(-(vectors[:count] @ one))[:LIMIT].tolist() for one in asked]

    def each(search: Callable[[Any], Any]) -> str:
        seconds = []
        for query in asked:
            started = perf_counter()
            search(query)
            seconds.append(perf_counter() - started)
        return f"{1000 * median(seconds):.1f} ms"

    print(
        f"{count} vectors, {options.questions} questions; in memory {each(lambda q: (vectors @ q).argpartition(-50))}"
    )
    for kind in (InChroma, InLance):
        store, started = kind(Path(tempfile.mkdtemp())), perf_counter()
        for first in range(0, count, PAGE):
            rows = range(first, min(first + PAGE, count))
            store.add(rows, vectors[rows.start : rows.stop])
        built = perf_counter() - started
        store.search(asked[0], None)
        found = [store.search(query, None) for query in asked]
        recall = np.mean([len({*one} & {*best}) / LIMIT for one, best in zip(found, exact, strict=True)])
        plain, within = each(lambda q, s=store: s.search(q, None)), each(lambda q, s=store: s.search(q, 3))
        started = perf_counter()
        store.add(range(count, count + 100), vectors[count:])
        added, started = perf_counter() - started, perf_counter()
        store.delete(range(100))
        deleted = perf_counter() - started
        print(
            f"{kind.__name__}: built in {built:.1f} s; question {plain}, within a filter {within}; "
            f"recall {recall:.3f}; 100 added in {added:.3f} s, deleted in {deleted:.3f} s"
        )


if __name__ == "__main__":
    main()
