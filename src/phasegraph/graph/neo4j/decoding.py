"""What a fetch brought, as arrays: names become nodes, and counts become weights by the code of `EdgeWeights`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from phasegraph._typing import Float32Array, IntArray
from phasegraph.graph.entity_graph import EdgeWeights
from phasegraph.graph.entity_graph.weights import across_weights, count_weights, home_weights, rarity_weights
from phasegraph.graph.neo4j.connection import Row
from phasegraph.graph.neo4j.kept_edges import Codes, KnownEdges, merged
from phasegraph.graph.neo4j.lookups import LOW_BITS

TO_ENTITY, TO_PASSAGE, FACT, SYNONYM = range(4)


def take(
    known: KnownEdges,
    rows: Sequence[Row],
    asked: tuple[Sequence[str], Sequence[str]],
    passage_count: int,
    weights: EdgeWeights,
) -> None:
    """Add the edges that a statement of `phasegraph.graph.neo4j.lookups` found for the nodes it was asked for.

    Parameters
    ----------
    known : KnownEdges
        Grows; holds the nodes, without edges.
    rows : sequence of list
        What the server returned.
    asked : tuple of two sequences of str
        Passages and entities, as in the statement's parameters; those that were not found have no edges.
    passage_count : int
        Passages of the corpus.
    weights : EdgeWeights
        How counts become weights.
    """
    passages, entities = asked
    found = [_plain(known, row, len(passages), passage_count, weights) for row in rows if row[0] < FACT]
    found.append(_across(known, [row for row in rows if row[0] >= FACT], len(passages), weights))
    owners = np.concatenate([part[0] for part in found])
    ends = np.concatenate([part[1] for part in found])
    values = np.concatenate([part[2] for part in found])
    kept = np.flatnonzero(values)
    order = kept[np.argsort(owners[kept], kind="stable")]
    nodes = np.concatenate([known.codes(True, passages), known.codes(False, entities)])
    known.add(nodes, np.bincount(owners[kept], minlength=len(nodes)).astype(np.int32), ends[order], values[order])


def _plain(
    known: KnownEdges, row: Row, first: int, passage_count: int, weights: EdgeWeights
) -> tuple[IntArray, Codes, Float32Array]:
    """Edges between passages and entities: places of their starts, ends, weights."""
    kind, names, edges, frequencies = row
    owners, low, lengths = _edges(edges)
    ends = np.repeat(known.codes(kind == TO_PASSAGE, names), lengths)
    if kind == TO_ENTITY:
        values = rarity_weights(np.array(frequencies, dtype=np.int32), passage_count, weights).astype(np.float32)
        return owners, ends, np.repeat(values, lengths)
    return owners + first, ends, count_weights(low >> 2, weights) + home_weights(low & 3, weights)


def _across(
    known: KnownEdges, rows: Sequence[Row], first: int, weights: EdgeWeights
) -> tuple[IntArray, Codes, Float32Array]:
    """Edges between entities; facts stated more than once, and facts with synonyms, are one edge."""
    empty = np.empty(0, dtype=np.int32)
    owners, ends, values = [empty.astype(np.intp)], [empty], [empty.astype(np.float32)]
    for kind, names, edges, similarities in rows:
        starts, low, lengths = _edges(edges)
        ends.append(np.repeat(known.codes(False, names), lengths))
        owners.append(starts + first)
        near = np.zeros(len(low), dtype=np.float32)
        if kind == SYNONYM:
            near = np.fromiter(chain.from_iterable(similarities), dtype=np.float32)
        values.append(across_weights(low, near, weights))
    return merged(np.concatenate(owners), np.concatenate(ends), np.concatenate(values))


def _edges(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray, list[int]]:
    """Places of the starts of all edges, their low bits, and how many edges each end has."""
    packed = np.fromiter(chain.from_iterable(lists), dtype=np.int64)
    return packed >> LOW_BITS, packed & ((1 << LOW_BITS) - 1), [len(each) for each in lists]
