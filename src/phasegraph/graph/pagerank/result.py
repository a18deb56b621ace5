"""What a walk returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from phasegraph._typing import FloatArray, Int32Array, IntArray
from phasegraph.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class PageRankResult:
    """The stationary mass of one walk, and what it cost.

    Parameters
    ----------
    nodes : (t,) array of int32
        The nodes the walk reached; every other node has mass 0.
    values : (t,) array of float
        Their mass, in [0, 1].
    size : int
        How many nodes the graph has.
    residual : float
        Bound on the L1 distance to the exact mass. For a push, the mass not placed exactly: if not completed,
        the values are lower bounds and add up to 1 - `residual`, which is the distance; if completed, the
        distance is at most twice that and commonly a small part of it.
    iterations : int
        Steps of an iteration, rounds of a push.
    edges_scanned, nodes_touched : int
        Exact counts: edges read, and nodes that held mass at some time.
    converged : bool
        Always True: a walk that does not converge raises instead.
    """

    nodes: Int32Array = field(repr=False)
    values: FloatArray = field(repr=False)
    size: int
    residual: float
    iterations: int
    edges_scanned: int
    nodes_touched: int
    converged: bool = True

    @cached_property
    def mass(self) -> FloatArray:
        """(n,) array of float: the mass of every node, laid out at first use (O(n)); read-only."""
        dense = np.zeros(self.size)
        dense[self.nodes] = self.values
        dense.flags.writeable = False
        return dense

    def top(self, k: int, *, first: int = 0, stop: int | None = None) -> tuple[IntArray, FloatArray]:
        """The nodes with most mass, by (mass descending, node ascending), in O(touched).

        Parameters
        ----------
        k : int
            How many at most; nodes without mass are never returned.
        first, stop : int
            Only nodes in [first, stop); by default all. Passages, say, where they follow the entities.

        Returns
        -------
        nodes : (at most k,) array of int
        masses : (at most k,) array of float

        Raises
        ------
        InvalidInputError
            If `k` is negative.

        Examples
        --------
        >>> walk = PageRankResult(np.array([3, 1, 0], np.int32), np.array([0.2, 0.2, 0.6]), 5, 0.0, 1, 2, 3)
        >>> walk.top(2)[0].tolist(), walk.top(2, first=1)[0].tolist()
        ([0, 1], [1, 3])
        """
        if k < 0:
            raise InvalidInputError(f"k must be at least 0; got {k}")
        end = self.size if stop is None else stop
        held = (self.nodes >= first) & (self.nodes < end) & (self.values > 0)
        nodes, values = self.nodes[held], self.values[held]
        if k < len(values):
            cut = np.partition(values, len(values) - k)[len(values) - k] if k else np.inf
            kept = values >= cut
            nodes, values = nodes[kept], values[kept]
        order = np.lexsort((nodes, -values))[:k]
        return nodes[order].astype(np.intp), values[order]
