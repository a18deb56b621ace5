"""A part of a stored graph, under the attributes of a whole one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np

from phasegraph._typing import IntArray
from phasegraph.graph.entity_graph import EntityGraph
from phasegraph.graph.pagerank import WalkOperator


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
    """

    passages: Sequence[Any]
    entities: tuple[str, ...]
    passage_rows: Mapping[str, int]
    entity_rows: Mapping[str, int]
    frequency: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    anchored: Any = field(default_factory=lambda: np.empty(0, dtype=bool))
    adjacency: Any = None
    embeddings: None = None

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.passages) + len(self.entities)

    @cached_property
    def operator(self) -> WalkOperator:
        """The edges, prepared for walks."""
        return WalkOperator.from_adjacency(self.adjacency)

    def as_graph(self) -> EntityGraph:
        """Return this under the type whose attributes it has."""
        return cast(EntityGraph, self)
