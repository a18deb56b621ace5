"""A walk that prefers passages near the query."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from phasegraph._typing import FloatArray, Int32Array, IntArray
from phasegraph.candidates import Ranking
from phasegraph.graph.entity_graph import EntityGraph
from phasegraph.graph.linking.nearest import unit_vector
from phasegraph.graph.linking.seeds import similarities
from phasegraph.graph.pagerank import WalkOperator
from phasegraph.graph.pagerank.kernels import machine
from phasegraph.graph.pagerank.rows import DENSE_SHARE, ranges

FLOOR = 0.05
"""Least similarity a passage counts with: no passage is closed to the walk."""

UNLISTED = 0.5
"""What a passage outside the ranking counts with, as a share of the ranking's last similarity."""


def relevance(
    graph: EntityGraph, ranking: Ranking | None, vector: Any = None, *, floor: float = FLOOR
) -> FloatArray | None:
    """How readily the walk enters each node.

    Parameters
    ----------
    graph : EntityGraph
    ranking : Ranking, optional
        A dense ranking, used where there are no embeddings to compare.
    vector : (d,) array_like of float, optional
        The query's embedding; compared with `graph.embeddings`.
    floor : float, default 0.05
        Least similarity a passage counts with.

    Returns
    -------
    (P + E,) array of float or None
        The passages' cosine to the query, at least `floor`, and 1 for entities; None where nothing is known.

    Raises
    ------
    InvalidInputError
        If `vector` has another length than the graph's embeddings, or is not finite.
    """
    gains = np.ones(graph.size)
    count = len(graph.passages)
    if vector is not None and graph.embeddings is not None:
        near = graph.embeddings @ unit_vector(vector, graph.embeddings.shape[1])
        gains[:count] = np.maximum(near, floor)
        return gains
    if ranking is None or not len(ranking):
        return None
    near = np.maximum(similarities(ranking), floor)
    gains[:count] = max(UNLISTED * float(near[-1]), floor)
    for name, value in zip(ranking.ids, near.tolist(), strict=True):
        row = graph.passage_rows.get(name)
        if row is not None:
            gains[row] = value
    return gains


class RelevanceRows:
    """Rows of a graph whose edges are weighted by what they lead to, made only where the walk goes.

    The edge (u, v) weighs ``weight * gain[v]``; the out-edges of a node share its mass in proportion.

    Parameters
    ----------
    graph : WalkOperator
    gains : (n,) array of float
        Positive.
    """

    def __init__(self, graph: WalkOperator, gains: FloatArray) -> None:
        self.graph = graph
        self.gains = gains
        self._scaled: FloatArray | None = None

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return self.graph.size

    @property
    def dense_edges(self) -> int:
        """Above this many edges a round is dense."""
        return int(DENSE_SHARE * self.graph.edges)

    @property
    def edge_counts(self) -> Int32Array:
        """(n,) array of int32: out-edges."""
        return self.graph.out_degrees

    @property
    def costs(self) -> Int32Array:
        """(n,) array of int32: the same, at least 1."""
        return self.graph.costs

    @property
    def stationary(self) -> None:
        """Not known: it depends on the query."""
        return None

    def spread(self, nodes: IntArray, amounts: FloatArray) -> tuple[IntArray, FloatArray]:
        """Targets and what each gets."""
        graph = self.graph
        counts = graph.out_degrees.take(nodes).astype(np.int64)
        edges = ranges(graph.indptr.take(nodes), counts)
        targets = graph.indices.take(edges).astype(np.intp)
        values = graph.weights.take(edges) * self.gains.take(targets)
        owner = np.repeat(np.arange(len(nodes)), counts)
        sums = np.bincount(owner, weights=values, minlength=len(nodes))
        shares = np.divide(amounts, sums, out=np.zeros(len(nodes)), where=sums > 0)
        values *= shares.take(owner)
        return targets, values

    def sweep(self, amounts: FloatArray) -> FloatArray:
        """One sparse product."""
        pull = self.graph.pull()
        if self._scaled is None:
            sums = pull.T @ self.gains
            self._scaled = np.divide(1.0, sums, out=np.zeros(len(sums)), where=sums > 0)
        arrived: FloatArray = self.gains * (pull @ (amounts * self._scaled))
        return arrived

    def compiled(self) -> Callable[..., tuple[int, int, int, int]]:
        """The compiled rounds over these weights."""
        g = self.graph
        return partial(machine().relevance_rounds, g.indptr, g.indices, g.weights, self.gains, g.costs)
