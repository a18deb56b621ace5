"""Records to a graph by array operations: the one that `graph_from_extractions` builds of the same counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from phasegraph.errors import InvalidInputError
from phasegraph.graph.checks import check_range
from phasegraph.graph.entity_graph import EdgeWeights, EntityGraph, normalise_name
from phasegraph.graph.entity_graph.build import symmetric
from phasegraph.graph.entity_graph.weights import HOME_LEAD, HOME_TITLE, Csr

if TYPE_CHECKING:
    from phasegraph.graph.neo4j.records import PassageRecord

# Nearly all names are of this form, and normalised by making them small.
_PLAIN = re.compile(r"[A-Za-z0-9]+(?: [A-Za-z0-9]+)*")


class Normalised(dict[str, str]):
    """Normalised names by the name as it was written, each worked out once."""

    def __missing__(self, name: str) -> str:
        normal = self[name] = name.lower() if _PLAIN.fullmatch(name) else normalise_name(name)
        return normal


def assemble(
    records: Sequence[PassageRecord],
    synonyms: Iterable[tuple[str, str, float]],
    *,
    embeddings: Any = None,
    weights: EdgeWeights | None = None,
) -> EntityGraph:
    """Return the graph of records; see `GraphRecords.graph`."""
    ids = tuple(record.id for record in records)
    if len(set(ids)) < len(ids):
        raise InvalidInputError("passage ids must be unique; one is given more than once")
    normal = Normalised()
    ends = [[normal[end] for fact in record.facts for end in (fact[0], fact[2])] for record in records]
    named = [[name for name, _ in record.mentions] for record in records]
    homes = [[row for row in record.homes if row[1] in (HOME_LEAD, HOME_TITLE)] for record in records]
    entities = tuple(sorted({*chain.from_iterable(named), *chain.from_iterable(ends)} - {""}))
    place = {"": -1, **{name: row for row, name in enumerate(entities)}}
    stated = _rows_of(ends, place)
    counts = np.fromiter((count for record in records for _, count in record.mentions), dtype=np.int32)
    shape, square = (len(ids), len(entities)), (len(entities), len(entities))
    return EntityGraph(
        ids,
        entities,
        _mentions(_rows_of(named, place), counts, stated, shape),
        _summed(
            _rows_of([[name for name, _ in row] for row in homes], place),
            np.fromiter((kind for row in homes for _, kind in row), dtype=np.int8),
            shape,
        ),
        _facts(stated[1], np.fromiter((fact[3] for each in records for fact in each.facts), dtype=np.int32), square),
        synonym_edges(synonyms, entities),
        weights if weights is not None else EdgeWeights(),
        embeddings,
    )


def synonym_edges(synonyms: Iterable[tuple[str, str, float]], entities: Sequence[str]) -> Csr:
    """Return the matrix of similarities, each in (0, 1], of entities."""
    pairs = {
        (one, other): check_range(f"the similarity of {(one, other)!r:.120}", similarity, 0, 1, ends="(]")
        for one, other, similarity in synonyms
    }
    place = {name: row for row, name in enumerate(entities)} if pairs else {}
    return symmetric(pairs, place, (len(entities), len(entities)), np.float32)


def _rows_of(names: Sequence[Sequence[str]], place: dict[str, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return row and column of every name of every row."""
    rows = np.repeat(np.arange(len(names)), [len(row) for row in names])
    columns = np.fromiter((place[name] for row in names for name in row), dtype=np.int64, count=len(rows))
    return rows, columns


def _summed(cells: tuple[Any, Any], counts: NDArray[Any], shape: tuple[int, int]) -> Csr:
    """Return a matrix with the counts of equal cells added up; one of 0 stays a cell."""
    matrix = sparse.csr_array((counts, cells), shape=shape, dtype=counts.dtype)
    matrix.sum_duplicates()
    return matrix


def _mentions(
    named: tuple[Any, Any], counts: NDArray[np.int32], stated: tuple[Any, Any], shape: tuple[int, int]
) -> Csr:
    """Return how often passages mention entities; where one only states a fact of it, once."""
    there = stated[1] >= 0
    rows = np.concatenate([named[0], stated[0][there]])
    columns = np.concatenate([named[1], stated[1][there]])
    counts = np.concatenate([counts, np.zeros(int(there.sum()), dtype=np.int32)])
    matrix = _summed((rows, columns), counts, shape)
    matrix.data = np.maximum(matrix.data, 1)
    return matrix


def _facts(ends: NDArray[np.int64], counts: NDArray[np.int32], shape: tuple[int, int]) -> Csr:
    """Return how often facts join two different entities, in both directions."""
    one, other = ends[0::2], ends[1::2]
    kept = (one >= 0) & (other >= 0) & (one != other)
    one, other, counts = one[kept], other[kept], counts[kept]
    both = np.concatenate([one, other]), np.concatenate([other, one])
    return _summed(both, np.concatenate([counts, counts]), shape)
