"""Fixed edge weights as a push reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from phasegraph._typing import FloatArray, Int32Array, IntArray
from phasegraph.graph.pagerank.kernels import machine
from phasegraph.graph.pagerank.operator import WalkOperator

Positions: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

DENSE_SHARE = 0.25
"""A round that would read more than this share of all edges is done as one sparse product."""


def ranges(starts: Positions, counts: Positions) -> Positions:
    """The concatenation of ``arange(start, start + count)``.

    Examples
    --------
    >>> ranges(np.array([5, 0, 9]), np.array([2, 0, 3]))
    array([ 5,  6,  9, 10, 11])
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    out: Positions = np.repeat(starts - ends + counts, counts)
    out += np.arange(total)
    return out


@dataclass(frozen=True)
class StaticRows:
    """The rows of a prepared graph."""

    graph: WalkOperator

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
    def stationary(self) -> FloatArray | None:
        """(n,) array of float: each node's share of all weight; None if an edge goes one way only."""
        return self.graph.stationary if self.graph.symmetric else None

    def spread(self, nodes: IntArray, amounts: FloatArray) -> tuple[IntArray, FloatArray]:
        """Targets and what each gets."""
        graph = self.graph
        starts = graph.indptr.take(nodes)
        counts = graph.out_degrees.take(nodes).astype(np.int64)
        edges = ranges(starts, counts)
        values = np.repeat(amounts * graph.inverse_out.take(nodes), counts)
        values *= graph.weights.take(edges)
        return graph.indices.take(edges).astype(np.intp), values

    def inflow(self, nodes: IntArray) -> tuple[IntArray, FloatArray, IntArray]:
        """What flows into `nodes`; of an undirected graph, so that out-edges serve."""
        graph = self.graph
        counts = graph.out_degrees.take(nodes).astype(np.int64)
        edges = ranges(graph.indptr.take(nodes), counts)
        sources = graph.indices.take(edges).astype(np.intp)
        shares = graph.inverse_out.take(sources) * graph.weights.take(edges)
        return sources, shares, np.repeat(np.arange(len(nodes)), counts)

    def sweep(self, amounts: FloatArray) -> FloatArray:
        """One sparse product."""
        arrived: FloatArray = self.graph.pull() @ amounts
        return arrived

    def compiled(self) -> Callable[..., tuple[int, int, int, int]]:
        """The compiled rounds over this graph."""
        graph = self.graph
        bound = (graph.indptr, graph.indices, graph.weights, graph.inverse_out, graph.costs)
        return partial(machine().static_rounds, *bound)
