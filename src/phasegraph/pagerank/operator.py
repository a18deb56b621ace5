"""A weighted graph prepared once for many walks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from scipy import sparse

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, FloatArray, Int32Array
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.pagerank.workspace import WorkspacePool

Precision = Literal["float64", "float32"]
Array = TypeVar("Array", bound=np.ndarray[Any, Any])
_AT_ONCE = 1_000_000
"""Edges whose weights are summed at once."""


@dataclass(frozen=True, eq=False)
class WalkOperator:
    """A weighted graph prepared for walks; made by :meth:`from_adjacency`.

    What only some methods need (the transposed matrix, whether the graph is undirected) is computed at first use and
    kept.

    Parameters
    ----------
    indptr : (n + 1,) array of int64
        Row u's out-edges are ``indices[indptr[u]:indptr[u + 1]]``.
    indices : (e,) array of int32
        The node each edge leads to.
    weights : (e,) array of float32 or float64
        Positive.
    inverse_out : (n,) array of float
        1 / the sum of a node's out-weights; 0 where it has none (a dangling node).
    """

    indptr: np.ndarray[Any, np.dtype[np.int64]]
    indices: Int32Array
    weights: Float32Array | FloatArray
    inverse_out: FloatArray

    @classmethod
    def from_adjacency(cls, adjacency: Any, /) -> WalkOperator:
        """Prepare a graph given as an (n, n) sparse matrix.

        Entry (u, v) is the weight of the edge u > v, finite and not negative. Zero is no edge, entries given twice are
        parallel edges and add up, self loops count; an undirected graph holds both directions. The matrix is not
        changed; int32 indices and float32 (or float64) data are used without a copy.

        >>> from scipy import sparse
        >>> graph = WalkOperator.from_adjacency(sparse.csr_array([[0.0, 1.0], [1.0, 0.0]]))
        >>> graph.size, graph.edges, graph.symmetric
        (2, 2, True)
        """
        matrix: Any = adjacency
        if not sparse.issparse(adjacency):
            raise InvalidTypeError(f"adjacency must be a scipy sparse matrix; got {type(adjacency).__name__}")
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
            raise InvalidInputError(f"adjacency must be square and not empty; got shape {matrix.shape}")
        matrix = matrix.tocsr()
        weights = np.asarray(matrix.data)
        if weights.dtype.kind not in "fiub":
            raise InvalidTypeError(f"adjacency weights must be real numbers; got {weights.dtype}")
        wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
        if len(wrong):
            bad = int(wrong[0])
            row = int(np.searchsorted(matrix.indptr, bad, side="right") - 1)
            raise InvalidInputError(
                f"adjacency weights must be finite and not negative; got {weights[bad]} on an edge of node {row}"
            )
        narrow = weights if weights.dtype == np.float64 else weights.astype(np.float32, copy=False)
        indptr, indices = matrix.indptr, matrix.indices
        if not narrow.all():
            kept = narrow != 0
            indptr = np.concatenate([[0], np.cumsum(kept)])[indptr]
            indices, narrow = indices[kept], narrow[kept]
        return cls(*prepared(indptr, indices, narrow))

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.weights, self.indices, self.indptr)
        return WalkOperator.from_adjacency, (sparse.csr_array(parts, shape=(self.size, self.size)),)

    def follows(self) -> bool:
        """Whether the weights are positive and finite, and the inverse sums are those of the weights.

        `indptr` must describe rows of the edges. A million edges at a time are converted to float64.
        """
        weights, nodes = self.weights, len(self.indptr) - 1
        if self.inverse_out.shape != (nodes,):
            return False
        if len(weights) and not (float(weights.min()) > 0 and float(weights.max()) < np.inf):
            return False
        filled = np.flatnonzero(np.diff(self.indptr) > 0)
        starts, sums, first = self.indptr[filled], np.zeros(nodes), 0
        while first < len(filled):
            begin = int(starts[first])
            last = max(int(np.searchsorted(starts, begin + _AT_ONCE)), first + 1)
            end = int(starts[last]) if last < len(starts) else len(weights)
            part = weights[begin:end].astype(np.float64)
            sums[filled[first:last]] = np.add.reduceat(part, starts[first:last] - begin)
            first = last
        inverse = np.divide(1.0, sums, out=np.zeros(nodes), where=sums > 0)
        return bool(np.allclose(self.inverse_out, inverse, 1e-9, 0.0))

    @lazy_property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.inverse_out)

    @lazy_property
    def edges(self) -> int:
        """How many directed edges there are."""
        return len(self.indices)

    @lazy_property
    def out_degrees(self) -> Int32Array:
        """(n,) array of int32: how many out-edges each node has; read-only."""
        return _read_only(np.diff(self.indptr).astype(np.int32))

    @lazy_property
    def costs(self) -> Int32Array:
        """(n,) array of int32: what a push of each node costs, its out-edges but at least 1; read-only."""
        return _read_only(np.maximum(self.out_degrees, 1))

    @lazy_property
    def stationary(self) -> FloatArray:
        """(n,) array of float: each node's share of the sum of all weights, 0 for dangling nodes; read-only."""
        shares: FloatArray = np.divide(1.0, self.inverse_out, out=np.zeros(self.size), where=self.inverse_out > 0)
        shares /= max(float(shares.sum()), np.finfo(np.float64).tiny)
        return _read_only(shares)

    @lazy_property
    def symmetric(self) -> bool:
        """Whether every edge has an equal edge back (the graph is undirected)."""
        graph = self.matrix()
        graph.sum_duplicates()
        back = graph.T.tocsr()
        back.sort_indices()
        return bool(
            np.array_equal(graph.indptr, back.indptr)
            and np.array_equal(graph.indices, back.indices)
            and np.allclose(graph.data, back.data, rtol=1e-6, atol=0.0)
        )

    def matrix(self) -> Any:
        """The adjacency as a fresh float64 CSR array."""
        parts = (self.weights.astype(np.float64), self.indices.copy(), self.indptr.copy())
        return sparse.csr_array(parts, shape=(self.size, self.size))

    @lazy_property
    def step(self) -> Any:
        """The (n, n) CSR matrix M of one step, ``M @ mass``; dangling columns are 0."""
        graph = self.matrix()
        graph.data *= np.repeat(self.inverse_out, np.diff(self.indptr))
        turned = graph.T.tocsr()
        parts = (turned.data, turned.indices.astype(np.int32, copy=False), turned.indptr)
        return sparse.csr_array(parts, shape=turned.shape)

    @lazy_property
    def narrow_step(self) -> Any:
        """As :attr:`step`, in half of the memory."""
        return self.step.astype("float32")

    @lazy_property
    def pool(self) -> WorkspacePool:
        """Scratch memory for walks over this graph."""
        return WorkspacePool(self.size)


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def prepared(
    indptr: Any, indices: Any, weights: Any
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Int32Array, Float32Array | FloatArray, FloatArray]:
    """Read-only arrays of the types the kernels expect, and the inverse sums of the rows."""
    starts = np.asarray(indptr, dtype=np.int64)
    sums = np.zeros(len(starts) - 1)
    filled = np.flatnonzero(np.diff(starts) > 0)
    if len(filled):
        sums[filled] = np.add.reduceat(weights, starts[filled], dtype=np.float64)
    inverse = np.zeros(len(sums))
    np.divide(1.0, sums, out=inverse, where=sums > 0)
    narrow = np.ascontiguousarray(indices, dtype=np.int32)
    arrays = (starts.view(), narrow.view(), np.ascontiguousarray(weights).view(), inverse)
    for array in arrays:
        array.flags.writeable = False
    return arrays
