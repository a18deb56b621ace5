"""Measure the seconds to change, open and ask a retriever of 100,000 documents in a folder, without embedding.

    python tools/benchmarks/update_speed.py [CORPUS.jsonl] [--documents 100000] [--batch 100] [--repeat 5]

The corpus (default: the bundled corpus) is repeated with changed names, as in index_speed.py. Vectors are random, with
384 numbers, around 500 centers. A batch is added and then deleted, `--repeat` times, through LangChain.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from zlib import crc32

import numpy as np
from index_speed import BUNDLED, corpus
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from langchain_phasegraph import PhaseGraphRetriever

BAR = 2.0
WIDTH = 384


class Ready(Embeddings):
    """An embedding model that returns one of the vectors computed before, chosen by a checksum of the text."""

    def __init__(self, count: int) -> None:
        draw = np.random.default_rng(0)
        centres = draw.standard_normal((500, WIDTH))
        self.vectors = (centres[draw.integers(0, 500, count)] + 0.8 * draw.standard_normal((count, WIDTH))).tolist()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a vector for each text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        vector: list[float] = self.vectors[crc32(text.encode()) % len(self.vectors)]
        return vector


def main() -> None:
    """Add and delete batches of documents, open and ask the retriever, and print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="?", type=Path, default=BUNDLED)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    lines = sum(1 for _ in options.corpus.open())
    count = options.documents + options.batch
    rows = corpus(options.corpus, -(-count // lines))[:count]
    documents = [Document(row["text"], id=row["id"], metadata={"title": row["title"]}) for row in rows]
    model, folder = Ready(count), Path(tempfile.mkdtemp()) / "corpus"
    timed: dict[str, list[float]] = {name: [] for name in ("build", "load", "first answer", "add", "delete", "answer")}

    def clock(name: str, started: float) -> None:
        timed[name].append(perf_counter() - started)

    started = perf_counter()
    PhaseGraphRetriever.from_documents(documents[: options.documents], model, path=folder, progress=False)
    clock("build", started)
    started = perf_counter()
    retriever = PhaseGraphRetriever.load(folder, model)
    clock("load", started)
    titles = [row["title"] for row in rows[:: max(count // 50, 1)]]
    started = perf_counter()
    retriever.invoke(f"Who is {titles[0]}?")
    clock("first answer", started)
    for _ in range(options.repeat):
        started = perf_counter()
        ids = retriever.add_documents(documents[options.documents :], progress=False)
        clock("add", started)
        started = perf_counter()
        retriever.delete(ids)
        clock("delete", started)
    for title in titles:
        started = perf_counter()
        retriever.invoke(f"Who is {title}?")
        clock("answer", started)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20
    shutil.rmtree(folder.parent)
    print(f"{options.documents} documents, {size:.0f} MB in the folder; batches of {options.batch}")
    for name, seconds in timed.items():
        bar = f" (bar {BAR})" if name in ("add", "delete") else ""
        print(f"{name:>13} {median(seconds):8.3f} s median of {len(seconds)}, most {max(seconds):.3f}{bar}")
    print(json.dumps({name: median(seconds) for name, seconds in timed.items()}))


if __name__ == "__main__":
    main()
