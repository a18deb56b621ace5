"""The facts of a data set: its unique normalised triples, with their embeddings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from phasegraph._typing import Float32Array, FloatArray, IntArray
from phasegraph.errors import InsufficientDataError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.reading import wrong
from phasegraph.evaluation.vectors import read_packed, read_vectors
from phasegraph.graph.entity_graph.records import Triple

_PLAIN = re.compile(r"[^A-Za-z0-9 ]")


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """Facts over entities and passages, as HippoRAG 2 builds them.

    Parameters
    ----------
    entities : tuple of str
        The E subjects and objects, normalised, ascending.
    pairs : (F, 2) array of int
        Subject and object of each fact, rows of `entities`.
    vectors : (F, d) array of float32
        Embedding of "subject predicate object".
    mentions : (P, E) sparse array
        1 where a passage states a fact about the entity.
    links : (E, E) sparse array
        In how many passages' triples two entities stand together, both directions, none with itself.
    """

    entities: tuple[str, ...]
    pairs: IntArray
    vectors: Float32Array
    mentions: Any
    links: Any

    @property
    def frequency(self) -> FloatArray:
        """(E,) array: number of passages that state something about each entity."""
        counted: FloatArray = np.asarray(self.mentions.sum(axis=0), dtype=np.float64).ravel()
        return counted


def normalised(text: str) -> str:
    """Lower case, everything but letters, digits and spaces a space, ends stripped: HippoRAG's names."""
    return _PLAIN.sub(" ", text.lower()).strip()


def load_facts(dataset: Dataset) -> Facts:
    """The facts of a data set that has triples and their embeddings.

    Parameters
    ----------
    dataset : Dataset
        Read from a folder with ``triples.jsonl`` and ``facts.f16.npy``, or ``facts.i8.npy`` with
        ``facts.scale.f16.npy``; row i is the i-th of the sorted unique normalised triples without an empty part.

    Returns
    -------
    Facts

    Raises
    ------
    InsufficientDataError
        If the data set has no triples or no embeddings of them.
    InvalidInputError
        Naming the file: if the embeddings do not have one row per fact, or the width of the queries', or are
        damaged.
    """
    if dataset.triples is None or dataset.path is None:
        raise InsufficientDataError(f"this walk needs triples; {dataset.name} has none")
    plain = {name: [_plain(triple) for triple in triples] for name, triples in dataset.triples.items()}
    stated = {name: [triple for triple in triples if all(triple)] for name, triples in plain.items()}
    unique = sorted({triple for triples in stated.values() for triple in triples})
    if not unique:
        raise InsufficientDataError(f"this walk needs triples with a name at both ends; {dataset.name} has none")
    vectors = _vectors(dataset, dataset.path, len(unique))
    names = tuple(sorted({end for subject, _, obj in unique for end in (subject, obj)}))
    place = {name: row for row, name in enumerate(names)}
    pairs = np.array([(place[subject], place[obj]) for subject, _, obj in unique], dtype=np.intp)
    mentions, links = _matrices(dataset, stated, place)
    return Facts(names, pairs, vectors, mentions, links)


def _plain(triple: Triple) -> Triple:
    return normalised(triple[0]), normalised(triple[1]), normalised(triple[2])


def _vectors(dataset: Dataset, folder: Path, count: int) -> Float32Array:
    whole, packed = folder / "facts.f16.npy", folder / "facts.i8.npy"
    rows_of = "unique normalised triples"
    if whole.is_file():
        file, vectors = whole, read_vectors(whole, count, rows_of)
    elif packed.is_file():
        file, vectors = packed, read_packed(packed, folder / "facts.scale.f16.npy", count, rows_of)
    else:
        raise InsufficientDataError(f"this walk needs embeddings of the facts; {dataset.name} has none")
    width = dataset.query_vectors.shape[1]
    if vectors.shape[1] != width:
        raise wrong(file, None, f"must have as many columns as queries.f16.npy ({width}); got {vectors.shape[1]}")
    return vectors


def _matrices(dataset: Dataset, stated: Mapping[str, list[Triple]], place: Mapping[str, int]) -> tuple[Any, Any]:
    """Mentions (0 or 1) and links (counted) as sparse arrays."""
    mentioned: list[tuple[int, int]] = []
    linked: list[tuple[int, int]] = []
    for row, passage in enumerate(dataset.passages):
        for subject, _, obj in stated.get(passage.id, ()):
            ends = place[subject], place[obj]
            mentioned += [(row, end) for end in ends]
            if ends[0] != ends[1]:
                linked += [ends, ends[::-1]]
    mentions = _counted(mentioned, (len(dataset.passages), len(place)))
    mentions.data[:] = 1.0
    return mentions, _counted(linked, (len(place), len(place)))


def _counted(entries: list[tuple[int, int]], shape: tuple[int, int]) -> Any:
    array = np.array(entries, dtype=np.intp).reshape(-1, 2)
    return sparse.coo_array((np.ones(len(array)), (array[:, 0], array[:, 1])), shape=shape).tocsr()
