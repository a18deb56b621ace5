"""Shared data for searches that compare a query only with a list of candidates, and not with all passages of a graph.

The shared data are a sample of the graph's passages, and scratch arrays.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.lexical.index import WordIn

SAMPLED = 1024
"""Number of sampled passages, which represent all passages of a large graph; a smaller graph is used completely."""


@dataclass(eq=False)
class ListedSpaces:
    """A sample of a graph's passages, and scratch arrays; all searches of the graph share them."""

    graph: EntityGraph
    _idle: deque[FloatArray] = field(default_factory=deque)

    @lazy_property
    def sample(self) -> IntArray:
        """The rows of the sampled passages, which are evenly spaced; all rows of a small graph."""
        count = self.graph.count
        return self.graph.rows_at(np.arange(count) if count <= SAMPLED else np.arange(SAMPLED) * count // SAMPLED)

    @lazy_property
    def vectors(self) -> Any:
        """The embeddings of the sampled passages; None if the graph has no embeddings."""
        vectors = self.graph.embeddings
        return None if vectors is None else vectors[self.sample]

    @lazy_property
    def words(self) -> dict[str, WordIn]:
        """A cache that maps a word to its occurrences in the sampled passages."""
        return {}

    def borrow(self) -> FloatArray:
        """Return a scratch array of zeros with shape (P,); the caller resets it and returns it by :meth:`give_back`."""
        try:
            return self._idle.pop()
        except IndexError:
            return np.zeros(len(self.graph.passages))

    def give_back(self, weights: FloatArray) -> None:
        """Take back a scratch array, which must be all zeros, for the next search."""
        self._idle.append(weights)
