"""Forward push: send mass from the seeds along edges, round by round, until no node has much mass left to send.

A push of a node keeps the share (1 - follow probability) of its unsent mass and sends the rest along its out-edges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import FloatArray, Int32Array, IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError, NotConvergedError
from phasegraph.pagerank.operator import WalkOperator
from phasegraph.pagerank.workspace import PushWorkspace, State, WorkspacePool, compiled_kernels

Positions: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
DENSE_SHARE = 0.25
"""Share of all edges; a round that would read more is dense: it multiplies with the whole transition matrix."""


def ranges(starts: Positions, counts: Positions) -> Positions:
    """Return the concatenation of ``arange(start, start + count)`` for all pairs of start and count.

    >>> ranges(np.array([5, 0, 9]), np.array([2, 0, 3]))
    array([ 5,  6,  9, 10, 11])
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    out: Positions = np.repeat(starts - ends + counts, counts)
    out += np.arange(total)
    return out


def out_edges(graph: Any, nodes: Any) -> tuple[IntArray, IntArray]:
    """Return two arrays with an entry for each out-edge of `nodes`.

    The first array contains the position in `nodes` of the edge's source node. The second array contains the position
    of the edge in the graph's arrays `indices` and `weights`.
    """
    counts = graph.out_degrees.take(nodes).astype(np.int64)
    return np.repeat(np.arange(len(nodes)), counts), ranges(graph.indptr.take(nodes).astype(np.int64), counts)


class Transitions(ABC):
    """The base class of the transitions of a walk, by which a push sends mass along the edges of a graph.

    Subclasses differ in how the weight of an edge is computed.

    `edges` is the number of edges. `edge_counts`, of shape (n,), is the number of edges that a push of each node reads.
    `costs` is the same number, but at least 1; the threshold of a node is proportional to its cost.
    """

    def __init__(self, edges: int, edge_counts: Int32Array, costs: Int32Array) -> None:
        self.edges, self.edge_counts, self.costs = edges, edge_counts, costs

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.costs)

    @property
    def dense_edges(self) -> int:
        """The number of edges above which a round multiplies with the whole matrix instead of reading the edges."""
        return min(int(DENSE_SHARE * self.edges), 2**62)

    @property
    def stationary(self) -> FloatArray | None:
        """The stationary distribution of a walk without restarts, of shape (n,); None if it is unknown."""
        return None

    stepwise = False
    """If True, :meth:`before` is called before each round; :meth:`before` can set it to False."""

    def before(self, nodes: IntArray, amounts: FloatArray) -> None:
        """Prepare a round in which `nodes` send `amounts` of mass, for example by computing weights of edges."""
        raise NotImplementedError

    def resumes(self) -> bool:
        """If the compiled rounds have paused, do the work of :meth:`before`, and return True to continue the rounds.

        Return False if the rounds have ended.
        """
        return False

    @abstractmethod
    def spread(self, nodes: IntArray, amounts: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return, for each out-edge of `nodes`, its target and the mass that arrives when `nodes` send `amounts`.

        The edges are in the order of `nodes`, and for each node in the order of the graph.
        """

    @abstractmethod
    def sweep(self, amounts: FloatArray) -> FloatArray:
        """Return the mass that arrives at each node when every node sends its amount, by one sparse product.

        `amounts` and the result have shape (n,).
        """

    @abstractmethod
    def compiled(self) -> Callable[..., tuple[int, int, int, int]]:
        """Return the compiled function that runs rounds of pushes, with the arrays of the graph as bound arguments."""


class StaticTransitions(Transitions):
    """The transitions of a prepared graph with fixed edge weights."""

    def __init__(self, graph: WalkOperator) -> None:
        super().__init__(graph.edges, graph.out_degrees, graph.costs)
        self.graph = graph

    @property
    def stationary(self) -> FloatArray | None:
        """The sum of the weights of each node's out-edges, divided by the sum of all weights, of shape (n,).

        None for a directed graph, whose stationary distribution is not known in advance.
        """
        return self.graph.stationary if self.graph.symmetric else None

    def spread(self, nodes: IntArray, amounts: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the target of each out-edge and the mass that arrives; see :meth:`Transitions.spread`."""
        graph = self.graph
        counts = graph.out_degrees.take(nodes).astype(np.int64)
        edges = ranges(graph.indptr.take(nodes), counts)
        values = np.repeat(amounts * graph.inverse_out.take(nodes), counts)
        values *= graph.weights.take(edges)
        return graph.indices.take(edges).astype(np.intp), values

    def inflow(self, nodes: IntArray) -> tuple[IntArray, FloatArray, IntArray]:
        """Return the edges into `nodes` of an undirected graph.

        The result is three arrays with an entry per edge: source node, share, and position of the target in `nodes`.
        The share is the part of the source's mass that flows along the edge.
        """
        graph = self.graph
        counts = graph.out_degrees.take(nodes).astype(np.int64)
        edges = ranges(graph.indptr.take(nodes), counts)
        sources = graph.indices.take(edges).astype(np.intp)
        shares = graph.inverse_out.take(sources) * graph.weights.take(edges)
        return sources, shares, np.repeat(np.arange(len(nodes)), counts)

    def sweep(self, amounts: FloatArray) -> FloatArray:
        """Return the mass that arrives at each node; see :meth:`Transitions.sweep`."""
        arrived: FloatArray = self.graph.step @ amounts
        return arrived

    def compiled(self) -> Callable[..., tuple[int, int, int, int]]:
        """Return the compiled function that pushes mass along the edges, round by round."""
        graph = self.graph
        arrays = (graph.indptr, graph.indices, graph.weights, graph.inverse_out, graph.costs)
        return partial(compiled_kernels().static_rounds, arrays)


_NOWHERE: Int32Array = np.zeros(1, dtype=np.int32)


class RelevanceTransitions(Transitions):
    """Transitions that multiply the weight of each edge by the weight of its target node.

    The weight of the edge from u to v is ``weight * node_weights[v]``; node weights are positive. A node divides its
    mass among its out-edges in proportion to these weights. The weights are computed only for nodes that the walk
    reaches. If there are fewer node weights than nodes, the remaining nodes have the weight 1.
    """

    def __init__(self, graph: WalkOperator, node_weights: FloatArray) -> None:
        super().__init__(graph.edges, graph.out_degrees, graph.costs)
        self.graph, self.node_weights = graph, node_weights

    def spread(self, nodes: IntArray, amounts: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the target of each out-edge and the mass that arrives; see :meth:`Transitions.spread`."""
        graph = self.graph
        counts = graph.out_degrees.take(nodes).astype(np.int64)
        edges = ranges(graph.indptr.take(nodes), counts)
        targets = graph.indices.take(edges).astype(np.intp)
        values = graph.weights.take(edges).astype(np.float64) * self.weights_of(targets)
        owner = np.repeat(np.arange(len(nodes)), counts)
        sums = np.bincount(owner, weights=values, minlength=len(nodes))
        shares = np.divide(amounts, sums, out=np.zeros(len(nodes)), where=sums > 0)
        values *= shares.take(owner)
        return targets, values

    def weights_of(self, nodes: IntArray) -> FloatArray:
        """Return the node weight of each node in `nodes`: the factor for the weights of edges into this node."""
        return np.where(nodes < len(self.node_weights), self.node_weights.take(nodes, mode="clip"), 1.0)

    @lazy_property
    def _shares(self) -> FloatArray:
        """1 / (sum of the weights of a node's out-edges after multiplication by node weights), of shape (n,)."""
        sums = self.graph.step.T @ self.weights_of(np.arange(self.size))
        shares: FloatArray = np.divide(1.0, sums, out=np.zeros(len(sums)), where=sums > 0)
        return shares

    def sweep(self, amounts: FloatArray) -> FloatArray:
        """Return the mass that arrives at each node; see :meth:`Transitions.sweep`."""
        arrived: FloatArray = self.weights_of(np.arange(self.size)) * (self.graph.step @ (amounts * self._shares))
        return arrived

    def compiled(self) -> Callable[..., tuple[int, int, int, int]]:
        """Return the compiled function that pushes mass along the edges, round by round."""
        return self._rounds(0.0, 0.0, _NOWHERE)

    def _rounds(self, rest: float, much: float, found: Int32Array) -> Callable[..., tuple[int, int, int, int]]:
        """Return the compiled function that runs rounds of pushes; it replaces a node weight of 0 by `rest`.

        The function pauses before a node with weight 0 receives more mass than `much`, and writes the node to `found`.
        """
        g = self.graph
        arrays = (g.indptr, g.indices, g.weights, self.node_weights, rest, g.costs)
        return partial(compiled_kernels().relevance_rounds, arrays, (much, g.inverse_out, found))


Reset: TypeAlias = ArrayLike | tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, eq=False, slots=True)
class Seeds:
    """The seeds of a walk: distinct nodes in ascending order, and positive weights that sum to 1."""

    nodes: Int32Array
    weights: FloatArray

    def dense(self, size: int) -> FloatArray:
        """Return the weights of all `size` nodes as an array; nodes that are not seeds have weight 0."""
        out = np.zeros(size)
        out[self.nodes] = self.weights
        return out


def as_seeds(reset: Reset, size: int) -> Seeds:
    """Check a reset distribution, divide it by its sum, and return it as seeds.

    `reset` is an array with a weight for each of `size` nodes, or a pair (nodes, weights). Weights must be finite and
    not negative, with a positive sum. The weights of a repeated node are added.
    """
    if isinstance(reset, tuple):
        if len(reset) != 2:
            raise InvalidInputError(f"reset must be an array or (nodes, weights); got {len(reset)} parts")
        nodes, weights = _nodes(reset[0], size), _weights(reset[1])
        if len(nodes) != len(weights):
            raise InvalidInputError(
                f"reset must have one weight per node; got {len(nodes)} nodes and {len(weights)} weights"
            )
    else:
        weights = _weights(reset)
        if len(weights) != size:
            raise InvalidInputError(f"reset must have one weight per node ({size}); got {len(weights)}")
        nodes = np.flatnonzero(weights)
        weights = weights[nodes]
    distinct, place = np.unique(nodes, return_inverse=True)
    summed = np.bincount(place, weights=weights, minlength=len(distinct))
    total = float(summed.sum())
    if not 0 < total < np.inf:
        raise InvalidInputError(f"reset must have a positive finite sum; got {total}")
    shares: FloatArray = summed / total
    held = shares > 0
    return Seeds(distinct[held].astype(np.int32), shares[held])


def _nodes(given: Any, size: int) -> np.ndarray[Any, np.dtype[np.integer[Any]]]:
    nodes = np.asarray(given)
    if nodes.ndim != 1:
        raise InvalidInputError(f"reset nodes must be one-dimensional; got shape {nodes.shape}")
    if not len(nodes):
        raise InvalidInputError("reset nodes are empty: give at least one node")
    if nodes.dtype.kind not in "iu":
        raise InvalidTypeError(f"reset nodes must be integers; got {nodes.dtype}")
    if nodes.min() < 0 or nodes.max() >= size:
        raise InvalidInputError(f"reset nodes must be in [0, {size}); got {nodes.min()} to {nodes.max()}")
    return nodes


def _weights(given: Any) -> FloatArray:
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"reset weights must be numbers; got {given!r:.80}") from error
    if weights.ndim != 1:
        raise InvalidInputError(f"reset weights must be one-dimensional; got shape {weights.shape}")
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if len(bad):
        raise InvalidInputError(
            f"reset weights must be finite and not negative; got {weights[bad[0]]} at position {bad[0]}"
        )
    return weights


@dataclass(frozen=True, eq=False)
class PageRankResult:
    """The stationary mass of a walk at each node (its personalized PageRank), and the cost of computing it.

    Parameters
    ----------
    nodes : (t,) array of int32
        The nodes that the walk reached; every other node has mass 0.
    values : (t,) array of float
        The masses of these nodes, in [0, 1].
    size : int
        Number of nodes of the graph.
    residual : float
        For "power" and "chebyshev", a bound on the L1 distance of the values to the exact masses. For "push", the mass
        that was still to be sent at the end. The values are then lower bounds with the sum 1 - `residual`, so the
        distance is `residual`. Exception: with the option `complete`, on undirected graphs without node weights, the
        distance is at most twice `residual`, and usually much smaller.
    iterations : int
        Number of iterations, or of rounds of a push.
    edges_scanned, nodes_touched : int
        Number of edges that were read, and number of nodes that received mass.
    converged : bool
        Always True, because a walk that does not converge raises an error.
    """

    nodes: Int32Array = field(repr=False)
    values: FloatArray = field(repr=False)
    size: int
    residual: float
    iterations: int
    edges_scanned: int
    nodes_touched: int
    converged: bool = True

    @lazy_property
    def mass(self) -> FloatArray:
        """The mass of every node, a read-only array of shape (n,); it is created at first use, in time O(n)."""
        dense = np.zeros(self.size)
        dense[self.nodes] = self.values
        dense.flags.writeable = False
        return dense

    def mass_of(self, nodes: IntArray, pool: WorkspacePool) -> FloatArray:
        """Return the masses of m nodes, an array of shape (m,), without creating the array :attr:`mass`.

        `pool` has the workspaces of the graph. The scratch array of a workspace replaces a search for each node.

        >>> walk = PageRankResult(np.array([3, 1], np.int32), np.array([0.2, 0.8]), 5, 0.0, 1, 2, 3)
        >>> walk.mass_of(np.array([1, 2, 3]), WorkspacePool(5)).tolist()
        [0.8, 0.0, 0.2]
        """
        if "mass" in vars(self):
            return self.mass[nodes]
        space = pool.borrow()
        found = space.among(self.nodes, self.values, nodes)
        pool.give_back(space)
        return found

    def top(self, k: int, *, first: int = 0, stop: int | None = None) -> tuple[IntArray, FloatArray]:
        """Return the `k` nodes with the greatest masses, and their masses, in descending order of mass.

        Ties are broken by node. Nodes without mass are never returned. With `first` or `stop`, only nodes in [first,
        stop) are returned, for example only passages.

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


@dataclass(frozen=True, slots=True)
class PushSettings:
    """The settings of a push; see :func:`phasegraph.pagerank.personalized_pagerank` for their meaning."""

    follow: float
    threshold: float
    polish: int
    limit: int
    compiled: bool
    complete: bool = True
    refine: int = 100


@dataclass(slots=True)
class _Progress:
    """The progress of a push.

    `frontier` contains the nodes to push next, and `touched` the nodes that received mass. `rounds` and `scanned` are
    the numbers of rounds and of edges read. `everywhere` is True after a dense round, which reaches every node.
    """

    frontier: Int32Array
    touched: list[Int32Array]
    rounds: int = 0
    scanned: int = 0
    everywhere: bool = False


def push(transitions: Transitions, seeds: Seeds, settings: PushSettings, space: PushWorkspace) -> PageRankResult:
    """Send mass along edges until no node's unsent mass is above its threshold; then run rounds over the whole graph.

    The number of these final rounds is ``settings.polish``. At the end, each node keeps the share (1 - follow
    probability) of its unsent mass, and the workspace `space` is cleared. The values are scaled, because mass that
    arrives at nodes without out-edges restarts at the seeds.
    """
    state = space.state(settings.compiled)
    state.left[seeds.nodes] = seeds.weights
    state.stamp[seeds.nodes] = 1
    at = _Progress(
        seeds.nodes[seeds.weights > settings.threshold * transitions.costs[seeds.nodes]], [seeds.nodes], rounds=1
    )
    compiled = None
    if settings.compiled:
        compiled, (touched, *_) = transitions.compiled(), space.queues
        touched[: len(seeds.nodes)] = seeds.nodes
    try:
        while len(at.frontier):
            if at.rounds > settings.limit:
                raise NotConvergedError(
                    f"push did not converge within {settings.limit} rounds: {len(at.frontier)} nodes are above the "
                    "threshold; raise tolerance or max_iterations"
                )
            if compiled is not None:
                _compiled_rounds(transitions, settings, space, at, compiled)
            else:
                _numpy_rounds(transitions, settings, space, at)
            if len(at.frontier) and at.rounds <= settings.limit:
                _dense_round(transitions, settings, state, at)
        for _ in range(settings.polish):
            _dense_round(transitions, settings, state, at)
        nodes = np.arange(transitions.size, dtype=np.int32) if at.everywhere else np.concatenate(at.touched)
        values, left = space.collect(nodes, settings.compiled)
    except BaseException:
        space.reset(settings.compiled)
        raise
    kept = float(values.sum()) + float(left.sum())
    values += (1.0 - settings.follow) * left
    values /= kept
    residual = settings.follow * float(left.sum()) / kept
    if settings.complete and transitions.stationary is not None:
        expected = residual * transitions.stationary.take(nodes)
        values += expected
        if settings.refine and isinstance(transitions, StaticTransitions):
            at.scanned += _refine(transitions, settings, space, _Ends(nodes, values, left / kept, expected))
    return PageRankResult(nodes, values, transitions.size, residual, at.rounds - 1, at.scanned, len(nodes))


@dataclass(frozen=True, slots=True)
class _Ends:
    """The result of a push for each node that received mass.

    `values` are the masses. `left` is the mass that a node received but has not sent on. `expected` estimates the mass
    that a node would get if all nodes sent this mass on; with the option `complete`, `values` already include this
    estimate.
    """

    nodes: Int32Array
    values: FloatArray
    left: FloatArray
    expected: FloatArray


def _refine(transitions: StaticTransitions, settings: PushSettings, space: PushWorkspace, ends: _Ends) -> int:
    """For the nodes with the greatest masses, replace the estimated mass by the exact inflow of a further step.

    `ends.values` contains the masses. Returns the number of edges that were read.
    """
    count = min(settings.refine, len(ends.nodes))
    first = np.argpartition(ends.values, len(ends.values) - count)[len(ends.values) - count :]
    sources, shares, receiver = transitions.inflow(ends.nodes.take(first).astype(np.intp))
    shares *= space.among(ends.nodes, ends.left, sources)
    inflow = settings.follow * np.bincount(receiver, weights=shares, minlength=count)
    ends.values[first] += (1.0 - settings.follow) * (inflow - ends.expected[first])
    return len(sources)


def _numpy_rounds(transitions: Transitions, settings: PushSettings, space: PushWorkspace, at: _Progress) -> None:
    """Push mass with numpy, round by round, until no node's unsent mass is above its threshold.

    Also stop before a dense round, which would read more edges than `transitions.dense_edges`, and after the maximum
    number of rounds.
    """
    counts = transitions.edge_counts
    left, gained, stamp = space.plain
    while len(at.frontier) and at.rounds <= settings.limit:
        nodes = at.frontier.astype(np.intp)
        edges = int(counts.take(nodes).sum())
        if edges > transitions.dense_edges:
            return
        amounts = left.take(nodes)
        left[nodes] = 0.0
        gained[nodes] += (1.0 - settings.follow) * amounts
        if transitions.stepwise:
            transitions.before(nodes, settings.follow * amounts)
        targets, values = transitions.spread(nodes, settings.follow * amounts)
        np.add.at(left, targets, values)
        if not at.everywhere:
            fresh = targets.compress(stamp.take(targets) == 0)
            if len(fresh):
                stamp[fresh] = 1
                at.touched.append(space.distinct(fresh))
        above = left.take(targets) > settings.threshold * transitions.costs.take(targets)
        at.frontier = space.distinct(targets.compress(above))
        at.rounds += 1
        at.scanned += edges


def _compiled_rounds(
    transitions: Transitions,
    settings: PushSettings,
    space: PushWorkspace,
    at: _Progress,
    compiled: Callable[..., tuple[int, int, int, int]],
) -> None:
    """Push mass with the compiled kernel; values and counters equal the results of :func:`_numpy_rounds`."""
    touched, frontier, *_ = space.queues
    held = transitions.size if at.everywhere else sum(map(len, at.touched))
    limits = settings.follow, settings.threshold, transitions.dense_edges, settings.limit
    frontier[: len(at.frontier)] = at.frontier
    size, began = len(at.frontier), held
    while True:
        size, at.rounds, scanned, held = compiled(limits, space.records, space.queues, held, size, at.rounds)
        at.scanned += scanned
        if not transitions.resumes():
            break
    at.frontier = frontier[:size].copy()
    if held > began:
        at.touched.append(touched[began:held].copy())


def _dense_round(transitions: Transitions, settings: PushSettings, state: State, at: _Progress) -> None:
    """Push all nodes, including nodes below their thresholds, by one product with the transition matrix."""
    left, gained, stamp = state
    gained += (1.0 - settings.follow) * left
    left[:] = transitions.sweep(settings.follow * left)
    if not at.everywhere:
        at.everywhere = True
        stamp.fill(1)
    at.frontier = np.flatnonzero(left > settings.threshold * transitions.costs).astype(np.int32)
    at.rounds += 1
    at.scanned += int(transitions.edge_counts.sum())


def run_push(
    transitions: Transitions, pool: WorkspacePool, seeds: Seeds, settings: PushSettings, workspace: PushWorkspace | None
) -> PageRankResult:
    """Run a push in the given workspace, or in a workspace of the pool if `workspace` is None."""
    if workspace is None:
        space = pool.borrow()
        result = push(transitions, seeds, settings, space)
        pool.give_back(space)
        return result
    if not isinstance(workspace, PushWorkspace):
        raise InvalidTypeError(f"workspace must be a PushWorkspace or None; got {workspace!r:.80}")
    if workspace.size != transitions.size:
        raise InvalidInputError(
            f"workspace must have the size of the graph, {transitions.size} nodes; got a workspace for {workspace.size}"
        )
    return push(transitions, seeds, settings, workspace)
