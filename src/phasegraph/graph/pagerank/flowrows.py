"""Edges of a semantic flow as a push reads them: sorted once, weighted when a node is pushed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from phasegraph._typing import Float32Array, FloatArray, Int32Array, IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.pagerank.kernels import machine
from phasegraph.graph.pagerank.parameters import FlowParameters
from phasegraph.graph.pagerank.rows import DENSE_SHARE, Positions, ranges


class Chances(NamedTuple):
    """Step probabilities of each node that no query changes; (n,) arrays.

    Parameters
    ----------
    down, up : (n,) array of float
        Of taking some link downhill, or uphill.
    other : (n,) array of float
        Of taking each single passage edge.
    stay : (n,) array of float
        Of the self loop.
    """

    down: FloatArray
    up: FloatArray
    other: FloatArray
    stay: FloatArray


@dataclass(frozen=True, eq=False)
class FlowArrays:
    """CSR rows: an entity's downhill links, its uphill links, its passages; a passage's entities."""

    indptr: Positions
    indices: Int32Array
    penalties: Float32Array
    downs: Int32Array
    semantics: Int32Array
    chances: Chances
    edge_counts: Int32Array
    costs: Int32Array


def flow_arrays(links: Any, members: Any, heights: FloatArray, parameters: FlowParameters) -> FlowArrays:
    """Sort the links of every entity downhill first, append the passage edges, fix what no query changes."""
    entities, passages = members.shape
    u, v, uphill = _links(links, heights)
    mentioned = np.repeat(np.arange(entities), np.diff(members.indptr))
    passage = members.indices.astype(np.int64) + entities
    sources = np.concatenate([u, mentioned, passage])
    targets = np.concatenate([v, passage, mentioned])
    group = np.concatenate([uphill, np.full(2 * len(passage), 2, dtype=np.int8)])
    penalties = np.zeros(len(sources), dtype=np.float32)
    penalties[: len(u)] = parameters.penalty * np.abs(heights[v] - heights[u])
    order = np.lexsort((targets, group, sources))
    size = entities + passages
    counts = np.bincount(sources, minlength=size)
    downs = np.bincount(u[uphill == 0], minlength=size)
    ups = np.bincount(u[uphill == 1], minlength=size)
    chances = _chances(entities, downs, ups, counts - downs - ups, parameters)
    edge_counts = counts + (chances.stay > 0)
    arrays = FlowArrays(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        targets[order].astype(np.int32),
        penalties[order],
        downs.astype(np.int32),
        (downs + ups).astype(np.int32),
        chances,
        edge_counts.astype(np.int32),
        np.maximum(edge_counts, 1).astype(np.int32),
    )
    for array in (*chances, *(x for x in vars(arrays).values() if isinstance(x, np.ndarray))):
        array.flags.writeable = False
    return arrays


def _links(links: Any, heights: FloatArray) -> tuple[IntArray, IntArray, Any]:
    """Both ends of every link, and whether it goes uphill (1) or not (0)."""
    if not sparse.issparse(links):
        raise InvalidTypeError(f"links must be a scipy sparse matrix; got {type(links).__name__}")
    given: Any = links
    if given.ndim != 2 or given.shape != (len(heights), len(heights)):
        raise InvalidInputError(
            f"links must be square with one row per entity ({len(heights)}); got shape {given.shape}"
        )
    matrix = sparse.csr_array(given, copy=True)
    matrix.sum_duplicates()
    pairs = matrix.tocoo()
    kept = (pairs.data != 0) & (pairs.row != pairs.col)
    u, v = pairs.row[kept].astype(np.intp), pairs.col[kept].astype(np.intp)
    return u, v, (heights[v] > heights[u]).astype(np.int8)


def _chances(entities: int, downs: IntArray, ups: IntArray, others: IntArray, parameters: FlowParameters) -> Chances:
    """What share of its mass each node sends which way."""
    is_entity = np.arange(len(downs)) < entities
    lowest = (downs == 0) & (ups > 0)
    down = np.where(downs > 0, np.where(ups > 0, parameters.down_share, 1.0), 0.0)
    up = np.where(ups > 0, 1.0 - parameters.down_share, 0.0)
    stay = np.where(is_entity & (downs + ups + others == 0), 1.0, 0.0)
    if parameters.local_min == "merge":
        up[lowest] = 1.0
    elif parameters.local_min == "self_loop":
        stay[lowest] = parameters.down_share
    semantic = down + up + stay
    if parameters.passage_share is None:
        total = semantic + others
        each = np.divide(1.0, total, out=np.zeros(len(total)), where=others > 0)
    else:
        share = np.where(semantic > 0, parameters.passage_share, 1.0)
        each = np.divide(share, others, out=np.zeros(len(share)), where=others > 0)
        left = 1.0 - each * others
        total = np.divide(semantic, left, out=np.full(len(left), np.inf), where=left > 0)
    scale = np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)
    return Chances(down * scale, up * scale, each, stay * scale)


@dataclass(frozen=True, eq=False)
class FlowRows:
    """The rows of a semantic flow for one query."""

    arrays: FlowArrays
    relevance: FloatArray
    floor: float

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.arrays.costs)

    @property
    def dense_edges(self) -> int:
        """Above this many edges a round is dense."""
        return int(DENSE_SHARE * len(self.arrays.indices))

    @property
    def edge_counts(self) -> Int32Array:
        """(n,) array of int32: out-edges, a self loop included."""
        return self.arrays.edge_counts

    @property
    def costs(self) -> Int32Array:
        """(n,) array of int32: the same, at least 1."""
        return self.arrays.costs

    @property
    def stationary(self) -> None:
        """Not known: it depends on the query."""
        return None

    def spread(self, nodes: IntArray, amounts: FloatArray) -> tuple[IntArray, FloatArray]:
        """Targets and what each gets: all links, then all passage edges, then the self loops."""
        arrays, chances = self.arrays, self.arrays.chances
        starts = arrays.indptr.take(nodes)
        ends = arrays.indptr.take(nodes + 1)
        semantics = arrays.semantics.take(nodes).astype(np.int64)
        targets, values = self._links(nodes, amounts, starts, semantics)
        others = ends - starts - semantics
        edges = ranges(starts + semantics, others)
        stay = chances.stay.take(nodes)
        loops = np.flatnonzero(stay)
        return (
            np.concatenate([targets, arrays.indices.take(edges), nodes.take(loops)]).astype(np.intp),
            np.concatenate(
                [values, np.repeat(amounts * chances.other.take(nodes), others), (amounts * stay).take(loops)]
            ),
        )

    def _links(
        self, nodes: IntArray, amounts: FloatArray, starts: Positions, semantics: Positions
    ) -> tuple[Int32Array, FloatArray]:
        """Links of `nodes`, and what flows along each."""
        arrays, chances = self.arrays, self.arrays.chances
        edges = ranges(starts, semantics)
        targets = arrays.indices.take(edges)
        weights = np.maximum(self.floor, self.relevance.take(targets) - arrays.penalties.take(edges))
        group = 2 * np.repeat(np.arange(len(nodes)), semantics)
        group += edges >= np.repeat(starts + arrays.downs.take(nodes), semantics)
        sums = np.bincount(group, weights=weights, minlength=2 * len(nodes))
        shares = np.empty(2 * len(nodes))
        shares[0::2] = amounts * chances.down.take(nodes)
        shares[1::2] = amounts * chances.up.take(nodes)
        np.divide(shares, sums, out=shares, where=sums > 0)
        return targets, shares.take(group) * weights

    def matrix(self) -> Any:
        """The (n, n) matrix of step probabilities."""
        nodes = np.arange(self.size)
        targets, values = self.spread(nodes, np.ones(self.size))
        arrays = self.arrays
        others = np.diff(arrays.indptr) - arrays.semantics
        loops = np.flatnonzero(arrays.chances.stay)
        sources = np.concatenate([np.repeat(nodes, arrays.semantics), np.repeat(nodes, others), loops])
        return sparse.coo_array((values, (sources, targets)), shape=(self.size, self.size)).tocsr()

    @cached_property
    def _pull(self) -> Any:
        return self.matrix().T.tocsr()

    def sweep(self, amounts: FloatArray) -> FloatArray:
        """One sparse product; the first of a query works out all weights."""
        arrived: FloatArray = self._pull @ amounts
        return arrived

    def compiled(self) -> Callable[..., tuple[int, int, int, int]]:
        """The compiled rounds over this graph and query."""
        arrays = self.arrays
        flow = (
            arrays.indptr,
            arrays.indices,
            arrays.penalties,
            arrays.downs,
            arrays.semantics,
            tuple(arrays.chances),
        )
        bound = (flow, self.relevance, arrays.edge_counts, arrays.costs, self.floor)
        return partial(machine().semantic_rounds, *bound)
