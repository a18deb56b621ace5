"""Write the folder of a new corpus; if its index is too large for the free memory, build the index in shards."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from phasegraph._support.files import BUILDING, building_place, make_folder, naming_full_disk, one_writer
from phasegraph._support.progress import with_progress
from phasegraph._support.typing import Float32Array
from phasegraph._support.validation import check_names
from phasegraph.embedding.identity import ModelIdentity
from phasegraph.errors import InvalidInputError, StoreError, warn
from phasegraph.graph.corpus.corpus import create_folder
from phasegraph.graph.corpus.folder import check_new
from phasegraph.graph.corpus.passage_input import Keys, fields_of
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.model.entity_graph import checked_embeddings
from phasegraph.retrieval.framework import Framework
from phasegraph.retrieval.indexing import MANY, BuildPlan, Indexing

EMBEDDED = 10_240
"""Number of passages that are embedded before their vectors are written to a file; a multiple of usual batch sizes."""
CREATING = f"{BUILDING}lock"
"""The lock file of a folder whose passages are being embedded."""
_logger = logging.getLogger("phasegraph")


def write_folder(
    path: str | os.PathLike[str],
    framework: Framework,
    model: Any,
    hits: Sequence[Any],
    passages: Sequence[Mapping[str, Any]],
    how: Indexing,
    *,
    made_by: ModelIdentity | None,
    settings: Mapping[str, object],
    uncounted: Collection[str] = (),
) -> None:
    """Embed and index passages, and write them to a new or empty folder.

    If the index would not fit in the free memory and pyarrow is installed, the index is built in shards, by this
    process; the folder then equals, to the bit, a folder whose index was built in memory. Without pyarrow, a warning
    states the needed and the available memory.

    Parameters
    ----------
    path : path
        The folder.
    framework, model, hits
        `hits` are the framework's documents or nodes. ``framework.embedded(model, hits)`` returns their vectors; None
        if the passages get no vectors.
    passages : sequence of mapping
        The checked passages, in the order of `hits`.
    how : Indexing
        The options of the index.
    made_by, settings, uncounted
        See :func:`~phasegraph.graph.corpus.corpus.create_folder`.

    Raises
    ------
    StoreError
        If the folder cannot be written, or another process is writing it.
    InvalidInputError, InvalidTypeError
        If the vectors, triples or known names are invalid.
    """
    with _locked(Path(path)):
        keys, text = Keys(how.title_key, how.source_key), sum(len(one["title"]) + len(one["text"]) for one in passages)
        create = partial(create_folder, path, keys=keys, made_by=made_by, settings=settings, uncounted=uncounted)
        plan, vectors = BuildPlan.of(text), None
        _tell(plan)
        if not plan.in_shards:
            vectors = framework.embedded(model, hits, how.progress)
        if not plan.sizes and vectors is not None:
            plan = BuildPlan.of(text, _bytes_of(vectors))
            _tell(plan)
        if plan.in_shards:
            parts = _embedded(framework, model, hits, how.progress) if vectors is None else iter([(len(hits), vectors)])
            vectors = None  # its memory is free when the vectors are in a file
            with ExitStack() as stack:
                with _translated(Path(path)):
                    place = stack.enter_context(building_place(Path(path)))
                create(_built(Path(path), place, passages, parts, how))
            return
        many = how.progress if len(passages) > MANY else False
        create(
            GraphIndex.build(
                passages, triples=how.triples, embeddings=vectors, known_names=how.known_names, tokenizer=how.tokenizer,
                progress=lambda rows: with_progress(rows, many, label="index", unit="passage"),
            )
        )  # fmt: skip


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock a new or empty folder, so that no other process embeds passages for it; raise StoreError if one does.

    On an error, the folders that did not exist before are deleted.
    """
    made = [one for one in (path, *path.absolute().parents) if not one.exists()]
    try:
        with ExitStack() as stack:
            with _translated(path):
                make_folder(path)
                stack.enter_context(one_writer(path, patience=0.0, name=CREATING))
            try:
                check_new(path)
                yield
            finally:
                with suppress(OSError):  # Windows deletes no open file
                    (path / CREATING).unlink()
    except BaseException:
        with suppress(OSError):  # a folder contains the files of another process
            for one in made:
                one.rmdir()
        raise


def _tell(plan: BuildPlan) -> None:
    """Log that the index is built in shards if the `plan` says so; otherwise warn if it is too large for the memory."""
    if plan.in_shards:
        _logger.info("%s", plan.message)
    elif plan.sizes:
        warn(plan.message)


def _bytes_of(vectors: Any) -> int:
    """Return the number of bytes of vectors as float32 numbers."""
    return 4 * len(vectors) * int(np.size(vectors[0])) if len(vectors) else 0


def _embedded(
    framework: Framework, model: Any, hits: Sequence[Any], progress: bool | None
) -> Iterator[tuple[int, Any]]:
    """Embed the passages in parts, and yield the length and vectors of each part; without a model, yield nothing."""
    starts = range(0, len(hits), EMBEDDED)
    several = len(starts) > 1
    for first in with_progress(starts, progress if several else False, label="embed", unit="part"):
        some = hits[first : first + EMBEDDED]
        vectors = framework.embedded(model, some, False if several else progress)
        if vectors is None:
            return
        yield len(some), vectors


def _built(
    path: Path, place: Path, passages: Sequence[Mapping[str, Any]], parts: Iterable[tuple[int, Any]], how: Indexing
) -> Path:
    """Build the index of passages in shards in the temporary folder `place`, and return the folder of the index.

    `path` is the new folder, which error messages name. `parts` are the vectors of the passages, with the number of
    passages in each part; no parts mean no vectors.
    """
    from phasegraph.distributed.building import in_turn
    from phasegraph.distributed.local import VectorFile, build_files, write_passages
    from phasegraph.distributed.shards import BuildSettings

    settings = BuildSettings(how.tokenizer, check_names("known_names", how.known_names))
    given = fields_of(how.triples, {one["id"]: None for one in passages})
    rows = _VectorRows(place / "vectors.npy", len(passages))
    for count, part in parts:  # an error of the embedding model is not translated
        vectors = checked_embeddings("embeddings", part, count)
        with _translated(path):
            rows.add(vectors)
    with _translated(path):
        write_passages(place / "passages.jsonl", passages, given)
        build_files(
            place / "passages.jsonl", place / "index", settings, partial(in_turn, progress=how.progress),
            vectors=VectorFile(rows.file, own=True) if rows.width else None, work=place / "work",
        )  # fmt: skip
    return place / "index"


class _VectorRows:
    """An ``.npy`` file with `total` rows, to which vectors are appended; `width` is the length of a vector."""

    def __init__(self, file: Path, total: int) -> None:
        self.file, self._total, self.width = file, total, 0

    def add(self, vectors: Float32Array) -> None:
        """Append vectors to the file."""
        width = vectors.shape[1]
        if self.width not in (0, width):
            raise InvalidInputError(
                f"embeddings must be numbers in rows of equal length; got rows of {self.width} and of {width} numbers"
            )
        with self.file.open("ab") as handle:
            if not self.width:
                header = {"descr": vectors.dtype.str, "fortran_order": False, "shape": (self._total, width)}
                np.lib.format.write_array_header_1_0(handle, header)
            handle.write(vectors.data)
        self.width = width


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Convert an error of the file system to a StoreError that names the folder `path`."""
    try:
        with naming_full_disk(path):
            yield
    except OSError as error:
        raise StoreError(f"{path.name}: the folder could not be written: {error}") from error
