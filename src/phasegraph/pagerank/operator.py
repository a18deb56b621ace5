"""A weighted graph in a form that is prepared once and used by many walks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import Float32Array, FloatArray, Int32Array
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.pagerank.workspace import WorkspacePool

Precision = Literal["float64", "float32"]
Array = TypeVar("Array", bound=np.ndarray[Any, Any])
_AT_ONCE = 1_000_000
"""Number of edges whose weights are summed at a time."""


class LoggedEdges(NamedTuple):
    """The changes of a log to the edges of a base graph, for compiled walks.

    If ``slots[u]`` is positive, node u has the edges of the log from ``ends[slots[u] - 1]`` to ``ends[slots[u]]``, with
    `targets` and `weights`. Otherwise, node u has its edges in the base graph. The nodes of the base graph from number
    `passages` on are entities; with the log, their numbers rise by `came`, the number of new passages. The base edges
    before number `outward` lead from passages to entities, and `rarities` contains the weight of these edges by entity.
    """

    slots: Int32Array
    ends: np.ndarray[Any, np.dtype[np.int64]]
    targets: Int32Array
    weights: Float32Array
    rarities: Float32Array
    outward: np.uint64
    passages: np.uint32
    came: np.uint32


@dataclass(frozen=True, eq=False)
class WalkOperator:
    """A weighted graph of n nodes that is prepared for walks; :meth:`from_adjacency` creates it.

    Data that only some methods need, such as the transposed matrix, are computed at first use and cached.

    Parameters
    ----------
    indptr : (n + 1,) array of int64
        The targets of the out-edges of node u are ``indices[indptr[u]:indptr[u + 1]]``.
    indices : (e,) array of int32
        The target node of each edge.
    weights : (e,) array of float32 or float64
        The positive weight of each edge.
    inverse_out : (n,) array of float
        1 / (sum of the weights of a node's out-edges); 0 for a dangling node, which has no out-edges.
    """

    indptr: np.ndarray[Any, np.dtype[np.int64]]
    indices: Int32Array
    weights: Float32Array | FloatArray
    inverse_out: FloatArray

    @classmethod
    def from_adjacency(cls, adjacency: Any, /) -> WalkOperator:
        """Prepare a graph that is given as a sparse matrix of shape (n, n).

        Entry (u, v) is the weight of the edge from u to v, finite and not negative. A zero means no edge. Duplicate
        entries are parallel edges, whose weights are added. Self loops count. The matrix of an undirected graph
        contains both directions of each edge. The matrix is not changed; int32 indices and float32 or float64 data are
        used without a copy.

        >>> from scipy import sparse
        >>> graph = WalkOperator.from_adjacency(sparse.csr_array([[0.0, 1.0], [1.0, 0.0]]))
        >>> graph.size, graph.edges, graph.symmetric
        (2, 2, True)
        """
        matrix: Any = adjacency
        if not sparse.issparse(adjacency):
            raise InvalidTypeError(f"adjacency must be a scipy sparse matrix; got {type(adjacency).__name__}")
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InvalidInputError(f"adjacency must be square; got shape {matrix.shape}")
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
        """Check the arrays: return True if the weights are positive and finite, and `inverse_out` matches them.

        `indptr` must be valid. At most about a million weights at a time are converted to float64.
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
        """The number of nodes."""
        return len(self.inverse_out)

    @lazy_property
    def edges(self) -> int:
        """The number of directed edges."""
        return len(self.indices)

    @lazy_property
    def out_degrees(self) -> Int32Array:
        """The number of out-edges of each node, a read-only int32 array of shape (n,)."""
        return _read_only(np.diff(self.indptr).astype(np.int32))

    @lazy_property
    def costs(self) -> Int32Array:
        """The cost of pushing each node: its number of out-edges, but at least 1; read-only int32, of shape (n,)."""
        return _read_only(np.maximum(self.out_degrees, 1))

    @lazy_property
    def stationary(self) -> FloatArray:
        """The sum of the weights of each node's out-edges, divided by the sum of all weights; read-only, shape (n,)."""
        shares: FloatArray = np.divide(1.0, self.inverse_out, out=np.zeros(self.size), where=self.inverse_out > 0)
        shares /= max(float(shares.sum()), np.finfo(np.float64).tiny)
        return _read_only(shares)

    @lazy_property
    def symmetric(self) -> bool:
        """True if the graph is undirected: every edge has a reverse edge with the same weight."""
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
        """Return the adjacency matrix as a new float64 CSR array."""
        parts = (self.weights.astype(np.float64), self.indices.copy(), self.indptr.copy())
        return sparse.csr_array(parts, shape=(self.size, self.size))

    @lazy_property
    def step(self) -> Any:
        """The transition matrix M of shape (n, n), in CSR format: ``M @ mass`` is the mass after a step.

        The columns of nodes without out-edges are 0.
        """
        graph = self.matrix()
        graph.data *= np.repeat(self.inverse_out, np.diff(self.indptr))
        turned = graph.T.tocsr()
        parts = (turned.data, turned.indices.astype(np.int32, copy=False), turned.indptr)
        return sparse.csr_array(parts, shape=turned.shape)

    @lazy_property
    def narrow_step(self) -> Any:
        """The matrix :attr:`step` in float32, which needs half of the memory."""
        return self.step.astype("float32")

    @lazy_property
    def pool(self) -> WorkspacePool:
        """The pool of scratch memory for walks over this graph."""
        return WorkspacePool(self.size)


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def prepared(
    indptr: Any, indices: Any, weights: Any
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Int32Array, Float32Array | FloatArray, FloatArray]:
    """Convert a CSR matrix to the arrays of a :class:`WalkOperator`, read-only and with the types that kernels need."""
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
