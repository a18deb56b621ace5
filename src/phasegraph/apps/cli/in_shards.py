"""Decide whether to build an index in shards, because the free memory is too small for the whole index."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from phasegraph._support import memory
from phasegraph._support.typing import Float32Array
from phasegraph.apps.cli.output import console
from phasegraph.evaluation.datasets import Passage

WORKER = 1024**3
"""Free memory required per process that builds shards, in bytes."""


def workers_that_fit(passages: Sequence[Passage], vectors: Float32Array | None) -> int | None:
    """Return the number of processes that build these passages in shards; None if the index is built in memory.

    If memory is too small, a message with the needed and the available memory is printed.
    """
    text = sum(len(one.title) + len(one.text) for one in passages)
    sizes = memory.too_large(text, 0 if vectors is None else vectors.nbytes)
    if not sizes:
        return None
    if find_spec("pyarrow") is None:
        console().print(f"{sizes}: to build the index in shards, pip install 'phasegraph[distributed]'")
        return None
    console().print(f"{sizes}: the index is built in shards")
    return max(1, min(os.cpu_count() or 1, (memory.free_memory() or 0) // WORKER))


@contextmanager
def written(passages: Sequence[Passage], vectors: Float32Array | None, out: Path) -> Iterator[tuple[Path, Path | None]]:
    """Write the passages and their vectors to temporary files beside the index, and delete the files on exit."""
    with TemporaryDirectory(prefix=f".{out.name}-", dir=out.absolute().parent) as folder:
        corpus, rows = Path(folder) / "corpus.jsonl", Path(folder) / "embeddings.npy"
        with corpus.open("w", encoding="ascii") as lines:
            for one in passages:
                row = {"id": one.id, "title": one.title, "text": one.text, "metadata": one.metadata}
                lines.write(json.dumps(row) + "\n")
        if vectors is not None:
            np.save(rows, vectors)
        embedded = None if vectors is None else rows
        del passages, vectors  # free their memory for building
        yield corpus, embedded
