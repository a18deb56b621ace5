"""A part of a stored graph, under the attributes of a whole one, and the walk's rules where edges are missing.

A node whose edges are not here is never pushed: what flows to it waits there. A walk in which no such node would
have been pushed is the walk over the whole graph, whatever else is here or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from phasegraph._typing import BoolArray, FloatArray, Int32Array, IntArray
from phasegraph.graph.entity_graph import EntityGraph
from phasegraph.graph.linking import RelevanceRows
from phasegraph.graph.pagerank import WalkOperator
from phasegraph.graph.pagerank.push import Rows
from phasegraph.graph.pagerank.rows import StaticRows

UNBOUNDED = np.iinfo(np.int32).max
"""What pushing a node costs whose edges are not here."""

LEAST_TOLERANCE = 1e-9
"""Times `UNBOUNDED`, more than all the mass there is."""

_NEVER = 2**62


@dataclass(frozen=True, eq=False)
class PartialOperator(WalkOperator):
    """The edges that are here, prepared for walks; ``here[node]`` says whether a node's edges are."""

    here: BoolArray = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    @cached_property
    def costs(self) -> Int32Array:
        """(n,) array of int32: as of a whole graph, `UNBOUNDED` for nodes whose edges are not here."""
        costs: Int32Array = np.where(self.here, np.maximum(self.out_degrees, 1), UNBOUNDED).astype(np.int32)
        costs.flags.writeable = False
        return costs

    def rows(self, gains: FloatArray | None) -> Rows:
        """How a push reads the edges, with or without gains."""
        return _Static(self) if gains is None else _Relevant(self, gains)


class _Static(StaticRows):
    @property
    def dense_edges(self) -> int:
        """No round is dense: it would push nodes that are below their thresholds, and those that are not here."""
        return _NEVER

    @property
    def stationary(self) -> None:
        """Not known: part of the edges are missing."""
        return


class _Relevant(RelevanceRows):
    @property
    def dense_edges(self) -> int:
        """As for fixed weights."""
        return _NEVER


@dataclass(frozen=True, eq=False)
class PartialGraph:
    """Some nodes of a stored graph, with as much of `EntityGraph` as linking, walking and trails look at.

    Parameters
    ----------
    passages : sequence of str
        Ids; nodes 0 to P - 1. A ``range`` where only their number counts.
    entities : tuple of str
        Names; nodes P to P + E - 1.
    passage_rows, entity_rows : mapping of str to int
        Their rows.
    frequency : (E,) array of int
        How many passages of the whole corpus mention each entity.
    anchored : (E,) array of bool
        Whether some passage is about it.
    adjacency : sparse matrix, optional
        Edges fetched so far.
    here : (P + E,) array of bool, optional
        Nodes whose edges were fetched.
    """

    passages: Sequence[Any]
    entities: tuple[str, ...]
    passage_rows: Mapping[str, int]
    entity_rows: Mapping[str, int]
    frequency: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    anchored: Any = field(default_factory=lambda: np.empty(0, dtype=bool))
    adjacency: Any = None
    here: Any = None
    embeddings: None = None

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.passages) + len(self.entities)

    @cached_property
    def operator(self) -> PartialOperator:
        """The edges, prepared for walks."""
        return self.walkable(self.here)

    def walkable(self, here: BoolArray) -> PartialOperator:
        """The edges, prepared for a walk that pushes these nodes at most."""
        plain = WalkOperator.from_adjacency(self.adjacency)
        return PartialOperator(plain.indptr, plain.indices, plain.weights, plain.inverse_out, here=here)

    def rows_of(self, passages: Sequence[str], entities: Sequence[str]) -> IntArray:
        """Nodes of these ids and names, which must all be here."""
        first = len(self.passages)
        rows = [self.passage_rows[name] for name in passages]
        rows += [first + self.entity_rows[name] for name in entities]
        return np.array(rows, dtype=np.intp)

    def names_of(self, nodes: IntArray) -> tuple[list[str], list[str]]:
        """Ids of the passages and names of the entities among nodes."""
        first = len(self.passages)
        ids = [self.passages[node] for node in nodes[nodes < first].tolist()]
        return ids, [self.entities[node - first] for node in nodes[nodes >= first].tolist()]

    def as_graph(self) -> EntityGraph:
        """Return this under the type whose attributes it has."""
        return cast(EntityGraph, self)
