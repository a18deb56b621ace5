"""Forward push: follow the mass from the seeds outwards, and stop where there is too little to matter.

Every node holds `gained` mass, which has stopped there, and `left` mass, which still has to be pushed on. In a
round all nodes with ``left > threshold * out-edges`` let the share (1 - f) stop and send the share f along
their edges. A push of a node with d edges settles more than (1 - f) * threshold * d, so that the rounds read
at most 1 / ((1 - f) * threshold) edges, whatever the size of the graph. What is left at the end would let at
least the share (1 - f) stop where it is: that free half step makes the values a closer lower bound.

The rest of it is spread over very many nodes, each with less than its out-edges' worth, which is nearly how
a walk without restarts spreads in an undirected graph: in proportion to the weighted degree. Such a walk
stays as it is, so the rest will stop in that proportion, too. Completing the values with it takes the errors
of scores down by a factor of five or more, at the price of the lower bound. The nodes with most mass, hubs
among them, to which many small rests flow, get the next step exactly.

References
----------
Andersen, R., Chung, F., Lang, K. (2006). Local graph partitioning using PageRank vectors.
doi:10.1109/FOCS.2006.44
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from phasegraph._typing import FloatArray, Int32Array, IntArray
from phasegraph.errors import NotConvergedError
from phasegraph.graph.pagerank.reset import Seeds
from phasegraph.graph.pagerank.result import PageRankResult
from phasegraph.graph.pagerank.workspace import PushWorkspace, State


class Rows(Protocol):
    """Out-edges as a push needs them."""

    @property
    def size(self) -> int:
        """How many nodes there are."""
        ...

    @property
    def dense_edges(self) -> int:
        """A round that would read more edges than this is done as one pass over the whole graph."""
        ...

    @property
    def edge_counts(self) -> Int32Array:
        """(n,) array of int: what pushing a node costs."""
        ...

    @property
    def costs(self) -> Int32Array:
        """(n,) array of int: the same, at least 1; the threshold of a node is in proportion to it."""
        ...

    @property
    def stationary(self) -> FloatArray | None:
        """(n,) array: where a walk without restarts spends its time in the end; None where that is not known."""
        ...

    def spread(self, nodes: IntArray, amounts: FloatArray) -> tuple[IntArray, FloatArray]:
        """Targets and what each gets when `nodes` send `amounts`, in the order of nodes and edges."""
        ...

    def sweep(self, amounts: FloatArray) -> FloatArray:
        """The (n,) array that arrives when every node sends its (n,) `amounts`."""
        ...

    def compiled(self) -> Callable[..., tuple[int, int, int, int]]:
        """The compiled rounds, its graph arrays already bound."""
        ...


@runtime_checkable
class Invertible(Protocol):
    """Rows that know their edges backwards, too."""

    def inflow(self, nodes: IntArray) -> tuple[IntArray, FloatArray, IntArray]:
        """Sources of the edges into `nodes`, the share of its mass each sends, and whose edge it is (by place)."""
        ...


@dataclass(frozen=True, slots=True)
class PushSettings:
    """How a push goes: see :func:`phasegraph.graph.pagerank.personalized_pagerank`."""

    follow: float
    threshold: float
    polish: int
    limit: int
    compiled: bool
    complete: bool = True
    refine: int = 100


@dataclass(slots=True)
class _Progress:
    """Where a push stands."""

    frontier: Int32Array
    touched: list[Int32Array]
    rounds: int = 0
    scanned: int = 0
    everywhere: bool = False


def push(rows: Rows, seeds: Seeds, settings: PushSettings, space: PushWorkspace) -> PageRankResult:
    """Push until no node is above its threshold, then polish; leaves `space` clean.

    The values get the free half step, and are scaled for what dangling nodes have sent back to the reset.
    """
    state = space.state(settings.compiled)
    state.left[seeds.nodes] = seeds.weights
    state.stamp[seeds.nodes] = 1
    at = _Progress(seeds.nodes[seeds.weights > settings.threshold * rows.costs[seeds.nodes]], [seeds.nodes], rounds=1)
    if settings.compiled:
        touched, *_ = space.queues
        touched[: len(seeds.nodes)] = seeds.nodes
    try:
        while len(at.frontier):
            if at.rounds > settings.limit:
                raise NotConvergedError(
                    f"push must settle within {settings.limit} rounds; {len(at.frontier)} nodes are still above it"
                )
            if settings.compiled:
                _compiled_rounds(rows, settings, space, at)
            else:
                _numpy_rounds(rows, settings, space, at)
            if len(at.frontier) and at.rounds <= settings.limit:
                _dense_round(rows, settings, state, at)
        for _ in range(settings.polish):
            _dense_round(rows, settings, state, at)
        nodes = np.arange(rows.size, dtype=np.int32) if at.everywhere else np.concatenate(at.touched)
        values, left = space.collect(nodes, settings.compiled)
    except BaseException:
        space.reset(settings.compiled)
        raise
    kept = float(values.sum()) + float(left.sum())
    values += (1.0 - settings.follow) * left
    values /= kept
    residual = settings.follow * float(left.sum()) / kept
    if settings.complete and rows.stationary is not None:
        expected = residual * rows.stationary.take(nodes)
        values += expected
        if settings.refine and isinstance(rows, Invertible):
            at.scanned += _refine(rows, settings, space, _Ends(nodes, values, left / kept, expected))
    return PageRankResult(nodes, values, rows.size, residual, at.rounds - 1, at.scanned, len(nodes))


@dataclass(frozen=True, slots=True)
class _Ends:
    """What a push has come to, for each touched node; `expected` is the part of `values` that completes them."""

    nodes: Int32Array
    values: FloatArray
    left: FloatArray
    expected: FloatArray


def _refine(rows: Invertible, settings: PushSettings, space: PushWorkspace, ends: _Ends) -> int:
    """Replace, for the nodes with most mass, the expected inflow of the next step by the exact one.

    Returns how many edges that has read.
    """
    count = min(settings.refine, len(ends.nodes))
    first = np.argpartition(ends.values, len(ends.values) - count)[len(ends.values) - count :]
    sources, shares, receiver = rows.inflow(ends.nodes.take(first).astype(np.intp))
    space.first[ends.nodes] = np.arange(len(ends.nodes), dtype=np.int32)
    place = space.first.take(sources)
    known = ends.nodes.take(place, mode="clip") == sources
    shares *= ends.left.take(place, mode="clip")
    shares *= known
    inflow = settings.follow * np.bincount(receiver, weights=shares, minlength=count)
    ends.values[first] += (1.0 - settings.follow) * (inflow - ends.expected[first])
    return len(sources)


def _numpy_rounds(rows: Rows, settings: PushSettings, space: PushWorkspace, at: _Progress) -> None:
    """Rounds until nothing is above the threshold, a round gets dense, or the limit is passed."""
    counts = rows.edge_counts
    left, gained, stamp = space.plain
    while len(at.frontier) and at.rounds <= settings.limit:
        nodes = at.frontier.astype(np.intp)
        edges = int(counts.take(nodes).sum())
        if edges > rows.dense_edges:
            return
        amounts = left.take(nodes)
        left[nodes] = 0.0
        gained[nodes] += (1.0 - settings.follow) * amounts
        targets, values = rows.spread(nodes, settings.follow * amounts)
        np.add.at(left, targets, values)
        if not at.everywhere:
            fresh = targets.compress(stamp.take(targets) == 0)
            if len(fresh):
                stamp[fresh] = 1
                at.touched.append(space.distinct(fresh))
        above = left.take(targets) > settings.threshold * rows.costs.take(targets)
        at.frontier = space.distinct(targets.compress(above))
        at.rounds += 1
        at.scanned += edges


def _compiled_rounds(rows: Rows, settings: PushSettings, space: PushWorkspace, at: _Progress) -> None:
    """The same rounds, with the same numbers, in machine code."""
    touched, frontier, *_ = space.queues
    held = rows.size if at.everywhere else sum(map(len, at.touched))
    frontier[: len(at.frontier)] = at.frontier
    size, rounds, scanned, reached = rows.compiled()(
        (settings.follow, settings.threshold, rows.dense_edges, settings.limit),
        space.records,
        space.queues,
        held,
        len(at.frontier),
        at.rounds,
    )
    at.frontier = frontier[:size].copy()
    at.rounds = rounds
    at.scanned += scanned
    if reached > held:
        at.touched.append(touched[held:reached].copy())


def _dense_round(rows: Rows, settings: PushSettings, state: State, at: _Progress) -> None:
    """Push every node at once, however little it holds: one sparse product."""
    left, gained, stamp = state
    gained += (1.0 - settings.follow) * left
    left[:] = rows.sweep(settings.follow * left)
    if not at.everywhere:
        at.everywhere = True
        stamp.fill(1)
    at.frontier = np.flatnonzero(left > settings.threshold * rows.costs).astype(np.int32)
    at.rounds += 1
    at.scanned += int(rows.edge_counts.sum())
