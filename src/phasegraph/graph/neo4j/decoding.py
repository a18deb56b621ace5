"""What a fetch brought, as arrays: names become nodes, and counts become weights by the code of `EdgeWeights`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from phasegraph._typing import Float32Array, IntArray
from phasegraph.graph.entity_graph import EdgeWeights
from phasegraph.graph.entity_graph.weights import across_weights, count_weights, home_weights, rarity_weights
from phasegraph.graph.neo4j.connection import Row
from phasegraph.graph.neo4j.kept_edges import Codes, KnownEdges, merged

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
    kind, names, places, counts, more = row
    lengths = [len(each) for each in places]
    ends = np.repeat(known.codes(kind == TO_PASSAGE, names), lengths)
    owners = _flat(places, np.intp)
    if kind == TO_ENTITY:
        values = rarity_weights(np.array(counts, dtype=np.int32), passage_count, weights).astype(np.float32)
        return owners, ends, np.repeat(values, lengths)
    values = count_weights(_flat(counts, np.int32), weights) + home_weights(_flat(more, np.int8), weights)
    return owners + first, ends, values


def _across(
    known: KnownEdges, rows: Sequence[Row], first: int, weights: EdgeWeights
) -> tuple[IntArray, Codes, Float32Array]:
    """Edges between entities; facts stated more than once, and facts with synonyms, are one edge."""
    empty = np.empty(0, dtype=np.int32)
    owners, ends, values = [empty.astype(np.intp)], [empty], [empty.astype(np.float32)]
    for kind, names, places, numbers, _ in rows:
        ends.append(np.repeat(known.codes(False, names), [len(each) for each in places]))
        owners.append(_flat(places, np.intp) + first)
        own = _flat(numbers, np.float32)
        none = np.zeros_like(own)
        values.append(across_weights(own, none, weights) if kind == FACT else across_weights(none, own, weights))
    return merged(np.concatenate(owners), np.concatenate(ends), np.concatenate(values))


def _flat(lists: Sequence[Sequence[Any]], dtype: Any) -> Any:
    return np.fromiter(chain.from_iterable(lists), dtype=dtype)
