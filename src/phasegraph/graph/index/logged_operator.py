"""The edges of a base graph with the changes of a change log, for walks that do not first merge the log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, FloatArray, Int32Array, IntArray
from phasegraph.graph.index.combined_arrays import ComputedArray, patched
from phasegraph.pagerank import WalkOperator
from phasegraph.pagerank.operator import LoggedEdges
from phasegraph.pagerank.push import ranges
from phasegraph.pagerank.workspace import WorkspacePool, compiled_kernels


class LoggedOperator:
    """The edges of a base graph, with new edges for some nodes, for walks by :class:`ListedTransitions`.

    `base` contains the edges of the base graph, which has `passages` passages; `size` is the new number of nodes.
    `came` is the number of new passages. Their nodes follow the base passages, so the nodes of entities shift by this
    number. The m ascending `nodes` have new edges; `ends`, of shape (m + 1,), are the boundaries of their edges in
    `targets` and `weights`. ``rarity(entities)`` returns the new weights of base edges from passages to entities.
    """

    edges = 2**62
    """A huge number of edges, because no round may multiply with the whole transition matrix."""

    def __init__(
        self,
        base: WalkOperator,
        passages: int,
        came: int,
        size: int,
        nodes: IntArray,
        ends: IntArray,
        targets: Int32Array,
        weights: Float32Array,
        rarity: Callable[[IntArray], Float32Array],
    ) -> None:
        self._base, self._passages, self._came, self.size = base, passages, came, size
        self._own_targets, self._own_weights, self._rarity = targets, weights, rarity
        self._held, self._outward = base.edges, int(base.indptr[passages])
        self._slots, self._ends = np.zeros(size, dtype=np.int32), ends
        slots = self._slots
        slots[nodes] = np.arange(1, len(nodes) + 1)
        starts, degrees = ends[:-1] + self._held, np.diff(ends)
        self.indptr, self.out_degrees, self.costs = (
            patched(old, slots, new, lambda nodes: np.where(nodes < passages, nodes, nodes - came))
            for old, new in (
                (base.indptr, starts), (base.out_degrees, degrees), (base.costs, np.maximum(degrees, 1)),
            )
        )  # fmt: skip
        self.indices, self.weights = ComputedArray(self._targets), ComputedArray(self._weights)
        self.inverse_out = ComputedArray(self._inverse)

    @lazy_property
    def pool(self) -> WorkspacePool:
        """The pool of scratch memory for walks over this graph."""
        return WorkspacePool(self.size)

    @lazy_property
    def _compiled(self) -> tuple[Any, ...]:
        """The data that compiled walks read, as a tuple.

        It contains the base edges, the changed edges, the cost of pushing each node, and the largest cost.
        """
        base, nodes = self._base, np.arange(self.size)
        log = LoggedEdges(
            self._slots, self._ends, self._own_targets, self._own_weights,
            self._rarity(np.arange(base.size - self._passages)),
            np.uint64(self._outward), np.uint32(self._passages), np.uint32(self._came),
        )  # fmt: skip
        costs = self.costs.take(nodes)
        # plain tuples: numba's cache on disk would refer to a class, which a later version may rename
        return (base.indptr, base.indices, base.weights), tuple(log), costs, int(costs.max())

    def rounds(
        self, node_weights: FloatArray, rest: float, much: float, found: Int32Array
    ) -> Callable[..., tuple[int, int, int, int]]:
        """Return the compiled function that pushes mass along the edges; see :meth:`RelevanceTransitions._rounds`."""
        edges, log, costs, most = self._compiled
        graph = edges, log, node_weights, rest, costs, np.empty(most, dtype=np.uint32), np.empty(most)
        return partial(compiled_kernels().logged_rounds, graph, (much, found))

    def _targets(self, edges: IntArray) -> Int32Array:
        own = edges >= self._held
        if not self._held:
            return self._own_targets.take(edges)
        out: Int32Array = self._base.indices.take(np.where(own, 0, edges))
        out[out >= self._passages] += self._came
        out[own] = self._own_targets.take(edges[own] - self._held)
        return out

    def _weights(self, edges: IntArray) -> Float32Array:
        if not self._held:
            return self._own_weights.take(edges)
        own, outward = edges >= self._held, edges < self._outward
        out: Any = self._base.weights.take(np.where(own, 0, edges))
        out[outward] = self._rarity(self._base.indices.take(edges[outward]).astype(np.int64) - self._passages)
        out[own] = self._own_weights.take(edges[own] - self._held)
        found: Float32Array = out
        return found

    def _inverse(self, nodes: IntArray) -> FloatArray:
        counts = self.out_degrees.take(nodes).astype(np.int64)
        weights = self._weights(ranges(self.indptr.take(nodes), counts))
        owner = np.repeat(np.arange(len(nodes)), counts)
        sums = np.bincount(owner, weights=weights.astype(np.float64), minlength=len(nodes))
        return np.divide(1.0, sums, out=np.zeros(len(nodes)), where=sums > 0)
