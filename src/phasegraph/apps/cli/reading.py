"""Read and embed the user's files, for ``index`` and ``try``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from phasegraph._support.progress import with_progress
from phasegraph._support.typing import Float32Array
from phasegraph.apps.cli.output import console, progress
from phasegraph.errors import InvalidInputError
from phasegraph.reading import FilesRead, read_files

BATCH = 64
"""Number of passages per call of the embedding model."""


def read_and_tell(path: Path, out: Path | None) -> FilesRead:
    """Read the files of a path; print the number of files (except for a single file) and the skipped files.

    The folder `out`, in which an index is built, is left out.
    """
    found = read_files(path, progress=progress, without=() if out is None else (out,))
    to = console()
    if not path.is_file() or sum(found.files.values()) > 1:
        to.print(f"read {found}")
    for line in found.notes():
        to.print(line)
    return found


def embedded(model: Any, passages: Sequence[Any], *, show: bool = True) -> Float32Array:
    """Embed the title and text of each passage, with a progress bar if `show` is true; the result has shape (n, d).

    `model` is an embedding model of LangChain or LlamaIndex, or a function from text to vector.
    """
    from phasegraph.distributed.shards import embed_texts

    texts = [passage.content for passage in passages]
    whole = any(callable(getattr(model, name, None)) for name in ("embed_documents", "get_text_embedding_batch"))
    if not whole:
        if not callable(model):
            raise InvalidInputError(
                "--embedder must name an embedding model of LangChain or LlamaIndex, or a function from text to "
                f"vector; got {type(model).__name__}"
            )
        rows = [model(text) for text in with_progress(texts, show, label="embedding", unit="passage")]
        return _array_of(rows, [passage.id for passage in passages])
    starts = with_progress(range(0, len(texts), BATCH), show, label="embedding", unit="batch")
    return np.concatenate([embed_texts(model, texts[start : start + BATCH]) for start in starts])


def _array_of(vectors: Sequence[Any], ids: Sequence[str]) -> Float32Array:
    """Return the vectors of passages as an array; raise InvalidInputError that names the first passage without one."""
    try:
        found = np.asarray(vectors, dtype=np.float32)
    except (TypeError, ValueError):
        found = np.empty(0, dtype=np.float32)
    if found.ndim == 2 or not len(vectors):
        return found
    shapes = [_shape(one) for one in vectors]
    bad = next((row for row, shape in enumerate(shapes) if len(shape) != 1 or shape != shapes[0]), 0)
    raise InvalidInputError(
        "--embedder must give vectors of numbers, all of the same length; got "
        f"{type(vectors[bad]).__name__} for {ids[bad]!r}: {vectors[bad]!r:.80}"
    )


def _shape(vector: Any) -> tuple[int, ...]:
    """Return the shape of an array of numbers, and an empty tuple for any other value."""
    try:
        return np.asarray(vector, dtype=np.float32).shape
    except (TypeError, ValueError):
        return ()
