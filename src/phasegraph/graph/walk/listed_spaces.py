"""Shared data for searches of a graph by lists: a sample of its passages, and scratch arrays."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.lexical.index import WordIn
from phasegraph.pagerank import PageRankResult

SAMPLED = 1024
"""Passages in the sample, all where there are fewer."""


@dataclass(eq=False)
class ListedSpaces:
    """A graph's sample of passages, and scratch arrays that its searches share."""

    graph: EntityGraph
    _idle: deque[FloatArray] = field(default_factory=deque)

    @lazy_property
    def sample(self) -> IntArray:
        """Evenly spaced rows of passages; all rows of a small graph."""
        count = self.graph.count
        return self.graph.rows_at(np.arange(count) if count <= SAMPLED else np.arange(SAMPLED) * count // SAMPLED)

    @lazy_property
    def vectors(self) -> Any:
        """The embeddings of the sample."""
        vectors = self.graph.embeddings
        return None if vectors is None else vectors[self.sample]

    @lazy_property
    def words(self) -> dict[str, WordIn]:
        """A cache for the positions of words in the sample."""
        return {}

    def borrow(self) -> FloatArray:
        """Return an array of zeros, one for each passage."""
        try:
            return self._idle.pop()
        except IndexError:
            return np.zeros(len(self.graph.passages))

    def masses(self, walked: PageRankResult, rows: IntArray) -> FloatArray:
        """Return the (n,) masses of these passages."""
        space, inside = self.borrow(), walked.nodes < len(self.graph.passages)
        reached = walked.nodes[inside]
        space[reached] = walked.values[inside]
        found: FloatArray = space[rows]
        space[reached] = 0.0
        self.give_back(space)
        return found

    def give_back(self, weights: FloatArray) -> None:
        """Return an array of zeros for the next search."""
        self._idle.append(weights)
