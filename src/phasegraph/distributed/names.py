"""Find synonyms among embedded names in worker processes; a task compares the names of one or two blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phasegraph._support.serialization import StreamedArray, read_bundle, write_bundle
from phasegraph._support.validation import check_range
from phasegraph._support.vector_files import read_vectors
from phasegraph.distributed.array_files import Part, Spool, as_pointer
from phasegraph.distributed.merging import merged
from phasegraph.distributed.shards import OF, digest_of
from phasegraph.errors import InvalidInputError
from phasegraph.graph.model.entity_graph import checked_embeddings
from phasegraph.graph.model.storage import VERSION, packed
from phasegraph.graph.model.synonyms import MAX_PAIRS, pairs_across, synonym_pairs, too_many
from phasegraph.graph.model.words import normalise_name

NAMES, ENTITIES, PAIRS = "embedded-names", "entities", "synonym-pairs"
NAMES_PER_BLOCK = 32_768
"""Number of names in a block. A worker has the vectors of one block in memory, or of two when it compares blocks."""
Mapped = Callable[[Callable[..., None], Sequence[tuple[Any, ...]], str, str], int]
"""A function ``mapped(task, arguments, kind, label)`` that runs a task for each tuple of arguments.

The last argument of a task is the folder to which the task writes a bundle of the kind `kind`. The function returns the
number of tasks whose output existed already.
"""


@dataclass(frozen=True, slots=True)
class EmbeddedNames:
    """The files of entity names and their embeddings; names with similar embeddings are synonyms.

    Parameters
    ----------
    names : path
        A text file with a name per line. If several names have the same normal form, the first name counts. Entities
        that are not in the file have no synonyms.
    embeddings : path
        A ``.npy`` file with the embedding of each name, in the order of the lines.
    threshold : float, default 0.8
        Minimum cosine of synonyms, in (0, 1].

    Examples
    --------
    >>> EmbeddedNames("names.txt", "names.npy", threshold=0.9).threshold
    0.9
    """

    names: str | os.PathLike[str]
    embeddings: str | os.PathLike[str]
    threshold: float = 0.8

    def __post_init__(self) -> None:
        check_range("threshold", self.threshold, 0, 1, ends="(]")


class Linked(NamedTuple):
    """The synonyms of an index: their arrays, their entry in the manifest of the index, and the number of pairs."""

    arrays: dict[str, Any]
    body: dict[str, object]
    pairs: int


@dataclass(frozen=True)
class NameBlocks:
    """The files of :class:`EmbeddedNames`, divided into blocks of names for the workers.

    `digest` is a checksum of both files, and `embeddings` is the file of vectors. `pieces` contains, for each block, a
    part of the file of names and the range of the block's rows in the file of vectors. `threshold` is the minimum
    cosine of synonyms.
    """

    digest: str
    embeddings: Path
    pieces: tuple[tuple[Any, tuple[int, int]], ...]
    threshold: float

    def link(self, entities: Mapping[str, StreamedArray], folder: Path, run: Mapped) -> Linked:
        """Find the synonyms among the entities, with the same result as ``NameSynonyms``.

        `entities` are the arrays of the entity names, `folder` is a folder for temporary files, and `run` runs tasks in
        workers. This process needs some bytes of memory per name and 50 bytes per pair of synonyms, with at most 20
        million pairs. A worker has two blocks in memory.
        """
        total = self.pieces[-1][1][1] if self.pieces else 0
        blocks = [folder / "blocks" / digest_of(self.digest, str(n)) for n in range(len(self.pieces))]
        tasks = zip(self.pieces, blocks, strict=True)
        run(sort_names, [(piece, self.embeddings, span, total, to) for (piece, span), to in tasks], NAMES, "names")
        names = self._merged([Part.read(one, NAMES) for one in blocks], folder)
        listed = {f"names_{part}": entities[f"entities_{part}"] for part in ("text", "ends")}
        write_bundle(folder / "entities", ENTITIES, VERSION, {}, listed)
        own = Part.read(folder / "entities", ENTITIES)
        rows = self._held([own, names], folder)
        held = [(n, min(n + NAMES_PER_BLOCK, len(rows))) for n in range(0, len(rows), NAMES_PER_BLOCK)]
        key = digest_of(self.digest, str(self.threshold), *own.sums("names_text", "names_ends"))
        compared = [
            (folder / "held", names.entries["vectors"]["shape"][1], one, other, self.threshold,
             folder / "pairs" / digest_of(key, str(one), str(other)))
            for one, other in combinations_with_replacement(held, 2)
        ]  # fmt: skip
        run(compare, compared, PAIRS, "compare")
        count = entities["entities_ends"].shape[0]
        arrays = self._edges([one[-1] for one in compared], rows, count)
        stored: dict[str, Any] = {f"names_{part}": _whole(names, f"names_{part}") for part in ("text", "ends")}
        if names.length("vectors"):
            stored["names_vectors"] = _whole(names, "vectors")
        body: dict[str, object] = {"threshold": float(self.threshold), "required": False}
        return Linked(stored | arrays, body, len(arrays["synonyms_data"]) // 2)

    def _merged(self, blocks: Sequence[Part], folder: Path) -> Part:
        """Merge the sorted blocks, and store all distinct names in ascending order with their vectors.

        If several blocks contain the same name, the name gets its vector from the first of these blocks.
        """
        width = blocks[0].entries["vectors"]["shape"][1] if blocks else 0
        text, ends, vectors = (
            Spool(folder / name, dtype) for name, dtype in (("text", np.uint8), ("ends", np.int64), ("vectors", "f4"))
        )
        base = 0
        for found, codes, spans in merged(blocks, "names", NAMES_PER_BLOCK):
            own = np.empty((len(found), width), dtype=np.float32)
            for block, code, span in reversed([*zip(blocks, codes, spans, strict=True)]):  # so the first vector wins
                own[code - base] = block.array("vectors", *span)
            base += len(found)
            ends.add(found.ends + len(text))
            text.add(found.text)
            vectors.add(own.ravel())
        arrays = {
            "names_text": text.streamed(), "names_ends": ends.streamed(), "vectors": vectors.streamed(width)
        }  # fmt: skip
        write_bundle(folder / "names", NAMES, VERSION, {}, arrays)
        for spool in (text, ends, vectors):
            spool.path.unlink()
        return Part.read(folder / "names", NAMES)

    def _held(self, parts: Sequence[Part], folder: Path) -> Any:
        """Return the ascending rows of the entities that have a vector, and write these vectors to a file.

        `parts` are the stored entity names and the stored names with vectors, both sorted.
        """
        vectors, held = Spool(folder / "held", np.float32), []
        for _, (entities, names), (first, second) in merged(parts, "names", NAMES_PER_BLOCK):
            _, ours, theirs = np.intersect1d(entities, names, assume_unique=True, return_indices=True)
            held.append(first[0] + ours)
            vectors.add(parts[1].array("vectors", *second)[theirs].ravel())
        return np.concatenate([np.empty(0, np.int64), *held])

    def _edges(self, parts: Sequence[Path], rows: Any, entities: int) -> dict[str, Any]:
        """Return the arrays of the matrix of synonyms, by name; its shape is (`entities`, `entities`).

        `parts` are folders with pairs of synonyms. A pair has two positions in `rows`, the rows of the entities with a
        vector.
        """
        found = [read_bundle(one, PAIRS, VERSION)[1] for one in parts]
        if sum(len(one["left"]) for one in found) > MAX_PAIRS:
            raise too_many(self.threshold, MAX_PAIRS)
        left, right, cosine = (
            np.concatenate([np.empty(0, dtype), *(one[name] for one in found)])
            for name, dtype in (("left", np.int64), ("right", np.int64), ("cosine", np.float32))
        )
        ends = rows[np.concatenate([left, right])], rows[np.concatenate([right, left])]
        order = np.argsort(ends[0] * entities + ends[1])
        degrees = np.bincount(ends[0], minlength=entities)
        return {
            "synonyms_data": np.concatenate([cosine, cosine])[order],
            "synonyms_indices": ends[1][order].astype(np.int32),
            "synonyms_indptr": np.concatenate([[0], np.cumsum(degrees)]).astype(as_pointer(len(order))),
        }


def sort_names(piece: Any, embeddings: Path, span: tuple[int, int], total: int, to: Path) -> None:
    """Convert the names of a block to normal form, and write the distinct names in ascending order with their vectors.

    If several names of the block have the same normal form, only the vector of the first of these names is written.
    `piece` is the block's part of the file of names. `span` is the range of the block's rows in the file `embeddings`,
    which has `total` rows. `to` is the output folder.
    """
    listed = piece.texts()
    if len(listed) != span[1] - span[0]:
        raise InvalidInputError(f"{piece}: a line of the file of names is blank; remove it together with its vector")
    vectors = checked_embeddings(
        "name embeddings", read_vectors(embeddings, total, piece.file.name, span=span), len(listed)
    )
    first: dict[str, int] = {}
    for row, name in enumerate(map(normalise_name, listed)):
        first.setdefault(name, row)
    first.pop("", None)
    names = sorted(first)
    rows = np.array([first[name] for name in names], dtype=np.int64)
    write_bundle(to, NAMES, VERSION, {OF: to.name}, packed("names", names) | {"vectors": vectors[rows]})


def compare(
    vectors: Path, width: int, one: tuple[int, int], other: tuple[int, int], threshold: float, to: Path
) -> None:
    """Find the synonyms within a block, or between two blocks, and write the pairs to the folder `to`.

    `one` and `other` are the ranges of the blocks' rows in the file `vectors`, whose vectors have `width` numbers.
    """

    def rows(span: tuple[int, int]) -> Any:
        found = np.fromfile(vectors, np.float32, (span[1] - span[0]) * width, offset=4 * span[0] * width)
        return found.reshape(-1, width)

    if one == other:
        found, turn = synonym_pairs(rows(one), threshold=threshold), one[0]
    else:
        found, turn = pairs_across(rows(one), rows(other), threshold=threshold), other[0] - (one[1] - one[0])
    arrays: dict[str, Any] = {
        "left": found.left.astype(np.int64) + one[0], "right": found.right.astype(np.int64) + turn,
        "cosine": found.cosine.astype(np.float32),
    }  # fmt: skip
    write_bundle(to, PAIRS, VERSION, {OF: to.name}, arrays)


def _whole(part: Part, name: str) -> StreamedArray:
    entry = part.entries[name]
    return StreamedArray(np.dtype(entry["dtype"]), tuple(entry["shape"]), lambda: part.slices(name))
