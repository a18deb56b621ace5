"""The facts of a data set: its distinct normalized triples, with their embeddings and the passages that state them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from phasegraph._support.typing import Float32Array, FloatArray, IntArray
from phasegraph._support.validation import file_error
from phasegraph._support.vector_files import read_packed, read_vectors
from phasegraph.errors import InsufficientDataError
from phasegraph.evaluation.datasets import Dataset


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """The facts that passages state about entities, as HippoRAG 2 builds them from triples.

    `entities` are the E normalized subjects and objects, in ascending order. `pairs`, of shape (F, 2), gives the
    subject and the object of each of the F facts as rows of `entities`. `vectors`, of shape (F, d), are the embeddings
    of "subject predicate object". `mentions`, a sparse array of shape (P, E), is 1 if a passage states a fact about the
    entity. `links`, a sparse symmetric array of shape (E, E), counts the triples that join two different entities,
    summed over the passages.
    """

    entities: tuple[str, ...]
    pairs: IntArray
    vectors: Float32Array
    mentions: Any
    links: Any

    @property
    def frequency(self) -> FloatArray:
        """The number of passages that state a fact about each entity, as an array of shape (E,)."""
        counted: FloatArray = np.asarray(self.mentions.sum(axis=0), dtype=np.float64).ravel()
        return counted


def normalised(text: str) -> str:
    """Normalize a name as HippoRAG does.

    The name is converted to lower case. All characters except ASCII letters, ASCII digits and spaces become spaces.
    """
    return re.sub(r"[^A-Za-z0-9 ]", " ", text.lower()).strip()


def load_facts(dataset: Dataset) -> Facts:
    """Load the facts of a data set from its folder, which has ``triples.jsonl`` and embeddings of the facts.

    The embeddings are in ``facts.f16.npy``, or in ``facts.i8.npy`` with ``facts.scale.f16.npy``; row i is the embedding
    of fact i. The facts are the distinct normalized triples without an empty part, in ascending order. Raise
    InsufficientDataError if triples or their embeddings are missing. Raise InvalidInputError if the embeddings do not
    have one row per fact, or differ in width from the queries' embeddings.
    """
    if dataset.triples is None or dataset.path is None:
        raise InsufficientDataError(f"this walk needs triples; {dataset.name} has no triples.jsonl")
    plain = {
        name: [(normalised(subject), normalised(predicate), normalised(item)) for subject, predicate, item in triples]
        for name, triples in dataset.triples.items()
    }
    stated = {name: [triple for triple in triples if all(triple)] for name, triples in plain.items()}
    unique = sorted({triple for triples in stated.values() for triple in triples})
    if not unique:
        raise InsufficientDataError(
            f"this walk needs triples with a subject and an object; {dataset.name} has no such triple"
        )
    vectors = _fact_vectors(dataset, dataset.path, len(unique))
    names = tuple(sorted({end for subject, _, item in unique for end in (subject, item)}))
    place = {name: row for row, name in enumerate(names)}
    pairs = np.array([(place[subject], place[item]) for subject, _, item in unique], dtype=np.intp)
    mentioned: list[tuple[int, int]] = []
    linked: list[tuple[int, int]] = []
    for row, passage in enumerate(dataset.passages):
        for subject, _, item in stated.get(passage.id, ()):
            ends = place[subject], place[item]
            mentioned += [(row, end) for end in ends]
            if ends[0] != ends[1]:
                linked += [ends, ends[::-1]]
    mentions = _counted(mentioned, (len(dataset.passages), len(names)))
    mentions.data[:] = 1.0
    return Facts(names, pairs, vectors, mentions, _counted(linked, (len(names), len(names))))


def _fact_vectors(dataset: Dataset, folder: Path, count: int) -> Float32Array:
    whole, packed = folder / "facts.f16.npy", folder / "facts.i8.npy"
    rows_of = "unique normalised triples"
    if whole.is_file():
        file, vectors = whole, read_vectors(whole, count, rows_of)
    elif packed.is_file():
        file, vectors = packed, read_packed(packed, folder / "facts.scale.f16.npy", count, rows_of)
    else:
        raise InsufficientDataError(
            f"this walk needs embeddings of the facts; {dataset.name} has neither {whole.name} nor {packed.name}"
        )
    width = dataset.query_vectors.shape[1]
    if vectors.shape[1] != width:
        raise file_error(
            file, None, f"the file must have as many columns as queries.f16.npy ({width}); got {vectors.shape[1]}"
        )
    return vectors


def _counted(entries: list[tuple[int, int]], shape: tuple[int, int]) -> Any:
    array = np.array(entries, dtype=np.intp).reshape(-1, 2)
    return sparse.coo_array((np.ones(len(array)), (array[:, 0], array[:, 1])), shape=shape).tocsr()
