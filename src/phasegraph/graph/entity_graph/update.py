"""A graph with some passages' counts replaced: what is not touched is copied, not recounted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from phasegraph._typing import Int32Array
from phasegraph.errors import InvalidInputError
from phasegraph.graph.entity_graph.build import count_record, count_rows, settle_counts, symmetric
from phasegraph.graph.entity_graph.graph import EntityGraph
from phasegraph.graph.entity_graph.records import Extraction
from phasegraph.graph.entity_graph.weights import Csr

Records = Mapping[str, Sequence[Extraction]]


def replace_passages(
    graph: EntityGraph, passages: Sequence[str], *, before: Records, after: Records, embeddings: Any = None
) -> EntityGraph:
    """The graph of other passages, most of which are those of a graph that is there.

    Parameters
    ----------
    graph : EntityGraph
        Left as it is.
    passages : sequence of str
        Ids of the new graph, in order.
    before : mapping of str to sequence of Extraction
        The records that the passages which leave or change had in `graph`.
    after : mapping of str to sequence of Extraction
        The records of the passages that come or change.
    embeddings : (P, d) array_like of float, optional
        One row per new passage.

    Returns
    -------
    EntityGraph
        To the bit what building from all records would give.

    Raises
    ------
    InvalidInputError
        If a passage is neither in `graph` nor in `after`, or an id repeats, or the graph has synonyms (their
        similarities belong to names that may come and go: ``GraphIndex`` updates both, for embedded names).

    Notes
    -----
    Python works on the records given; everything else is copied by array operations.
    """
    if graph.synonyms.nnz:
        raise InvalidInputError("a graph with synonym edges cannot be updated; update it first and add them again")
    ids = tuple(passages)
    if len(set(ids)) != len(ids):
        raise InvalidInputError("passage ids must be unique; one is given more than once")
    old_rows = graph.passage_rows
    lacking = next((name for name in ids if name not in after and name not in old_rows), None)
    if lacking is not None:
        raise InvalidInputError(f"a new passage must have a record; {lacking!r} has none")
    kept = np.array([-1 if name in after else old_rows[name] for name in ids], dtype=np.int64)
    mentioned, at_home, gained = _counted(ids, after)
    entities, moved = _entities(graph, kept, mentioned)
    place = {name: row for row, name in enumerate(entities)}
    shape = (len(ids), len(entities))
    lost: Counter[tuple[str, str]] = Counter()
    for records in before.values():
        for record in records:
            count_record(record, Counter(), {}, lost)
    return EntityGraph(
        ids,
        entities,
        _merged(graph.mentions, kept, moved, count_rows(mentioned, place, shape, np.int32)),
        _merged(graph.homes, kept, moved, count_rows(at_home, place, shape, np.int8)),
        _facts(graph, entities, moved, gained, lost),
        None,
        graph.weights,
        embeddings,
    )


def _counted(
    ids: Sequence[str], after: Records
) -> tuple[list[Counter[str]], list[dict[str, int]], Counter[tuple[str, str]]]:
    """Counts of the changed passages; an empty mapping for every other one."""
    mentioned: list[Counter[str]] = [Counter() for _ in ids]
    at_home: list[dict[str, int]] = [{} for _ in ids]
    facts: Counter[tuple[str, str]] = Counter()
    for row, name in enumerate(ids):
        for record in after.get(name, ()):
            count_record(record, mentioned[row], at_home[row], facts)
        settle_counts(mentioned[row], at_home[row])
    return mentioned, at_home, facts


def _entities(
    graph: EntityGraph, kept: np.ndarray[Any, Any], mentioned: Iterable[Mapping[str, int]]
) -> tuple[tuple[str, ...], Int32Array]:
    """Names of the new graph, ascending, and the new row of each old one (-1 where it is gone)."""
    held = np.zeros(len(graph.entities), dtype=np.bool_)
    held[graph.mentions[kept[kept >= 0]].indices] = True
    stays = [graph.entities[row] for row in np.flatnonzero(held).tolist()]
    fresh = {name for counts in mentioned for name in counts}
    entities = tuple(sorted(fresh.union(stays)))
    place = {name: row for row, name in enumerate(entities)}
    moved = np.array([place.get(name, -1) for name in graph.entities], dtype=np.int32)
    return entities, moved


def _merged(old: Csr, kept: np.ndarray[Any, Any], moved: Int32Array, changed: Csr) -> Csr:
    """Rows of `old` where `kept` names one, with their columns moved; rows of `changed` elsewhere."""
    stay = kept >= 0
    taken = old[kept[stay]]
    lengths = np.diff(changed.indptr).astype(np.int64)
    lengths[stay] = np.diff(taken.indptr)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    from_old = np.repeat(stay, lengths)
    indices = np.empty(int(indptr[-1]), dtype=np.int32)
    data = np.empty(int(indptr[-1]), dtype=old.dtype)
    indices[from_old], data[from_old] = moved[taken.indices], taken.data
    indices[~from_old], data[~from_old] = changed.indices, changed.data
    matrix = sparse.csr_array((data, indices, indptr), shape=changed.shape)
    matrix.sort_indices()
    return matrix


def _facts(
    graph: EntityGraph,
    entities: tuple[str, ...],
    moved: Int32Array,
    gained: Counter[tuple[str, str]],
    lost: Counter[tuple[str, str]],
) -> Csr:
    """Fact counts in the new columns, with what the changed records gain and lose."""
    place = {name: row for row, name in enumerate(entities)}
    square = (len(entities), len(entities))
    old = graph.facts.tocoo()
    rows, columns, counts = moved[old.row], moved[old.col], old.data
    there = (rows >= 0) & (columns >= 0)
    base = sparse.csr_array((counts[there], (rows[there], columns[there])), shape=square, dtype=np.int32)
    change = symmetric(gained, place, square, np.int32) - symmetric(lost, place, square, np.int32)
    total = (base + change).tocsr().astype(np.int32)
    total.eliminate_zeros()
    total.sort_indices()
    return total
