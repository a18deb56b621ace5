"""The rounds of a push, compiled by numba; imported through :func:`.workspace.compiled_kernels` only.

They do, number for number and in the same order, what the rounds in :mod:`phasegraph.pagerank.push` do
with numpy, so that values and counters are the same to the bit. Lists are written without branches: an entry
that does not count is overwritten by the next, for which each list has one place more than there are nodes.
Columns of the state: mass left, mass gained, last round in which mass arrived. Places are unsigned where they are
read most: numba would look at each whether it counts from the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock

from phasegraph._support.shared import wait_before_forks

wait_before_forks(global_compiler_lock)  # a child would wait for ever for what another thread was compiling


def _compiled(function: Callable[..., Any]) -> Any:
    """Compile at the first call; cached on disk where that can be written."""
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no folder to cache in
        return numba.njit(nogil=True)(function)


@_compiled
def take_out(frontier: Any, size: int, follow: float, state: Any, amounts: Any) -> None:
    """Let the share (1 - follow) of the frontier's mass stop; the rest is what each node sends."""
    for i in range(size):
        u = frontier[i]
        amounts[i] = follow * state[u, 0]
        state[u, 1] += (1.0 - follow) * state[u, 0]
        state[u, 0] = 0.0


@_compiled
def arrive(
    v: int, amount: float, now: int, state: Any, touched: Any, held: int, received: Any, arrived: int
) -> tuple[int, int]:
    """Add `amount` to node `v`; returns how many nodes have been touched, and how many in this round."""
    node = np.uint32(v)
    state[node, 0] += amount
    before = state[node, 2]
    state[node, 2] = now
    touched[np.uint64(held)] = node
    received[np.uint64(arrived)] = node
    return held + (before == 0), arrived + (before < now)


@_compiled
def above(received: Any, arrived: int, state: Any, threshold: float, costs: Any, frontier: Any) -> int:
    """Write the next frontier; returns its size."""
    size = 0
    for i in range(arrived):
        v = np.uint32(received[i])
        frontier[np.uint64(size)] = v
        size += state[v, 0] > threshold * costs[v]
    return size


@_compiled
def collect(nodes: Any, state: Any, gained_out: Any, left_out: Any) -> None:
    """Copy out what the touched nodes hold, and clear the workspace, in one pass."""
    for i in range(len(nodes)):
        v = nodes[i]
        left_out[i] = state[v, 0]
        gained_out[i] = state[v, 1]
        state[v, 0] = 0.0
        state[v, 1] = 0.0
        state[v, 2] = 0.0


@_compiled
def static_rounds(
    graph: Any, settings: Any, state: Any, queues: Any, held: int, size: int, rounds: int
) -> tuple[int, int, int, int]:
    """Rounds over fixed weights, until nothing is above the threshold, one gets dense, or the limit is passed.

    Returns the new frontier's size, the rounds done, the edges scanned and the number of touched nodes.
    """
    indptr, indices, weights, inverse_out, costs = graph
    follow, threshold, dense_edges, limit = settings
    touched, frontier, received, amounts = queues
    scanned = 0
    while size > 0 and rounds <= limit:
        edges = 0
        for i in range(size):
            edges += indptr[frontier[i] + 1] - indptr[frontier[i]]
        if edges > dense_edges:
            break
        take_out(frontier, size, follow, state, amounts)
        arrived = 0
        for i in range(size):
            u = frontier[i]
            share = amounts[i] * inverse_out[u]
            for e in range(indptr[u], indptr[u + 1]):
                held, arrived = arrive(
                    indices[e], share * weights[e], rounds + 1, state, touched, held, received, arrived
                )
        size = above(received, arrived, state, threshold, costs, frontier)
        rounds += 1
        scanned += edges
    return size, rounds, scanned, held


@_compiled
def edge_weight(edge: int, target: int, weights: Any, node_weights: Any, rest: float, count: int) -> Any:
    """Weight of an edge times that of the node it leads to: `rest` where that is 0, and 1 for nodes from `count` on."""
    if target >= count:
        return np.float64(weights[edge])
    gain = node_weights[target]
    return weights[edge] * (gain if gain > 0.0 else rest)


@_compiled
def unweighed(graph: Any, lookout: Any, follow: float, state: Any, frontier: Any, size: int) -> int:
    """Write the nodes of weight 0 to which the frontier is about to send much; returns how many, -1 if it sends little.

    A node may be written more than once.
    """
    indptr, indices, weights, node_weights, _, _ = graph
    much, inverse_out, found = lookout
    heavy, count = False, 0
    for i in range(size):
        u = frontier[i]
        amount = follow * state[u, 0]
        if amount > much:
            heavy = True
            amount *= inverse_out[u]
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                if amount * weights[e] > much and v < len(node_weights) and node_weights[v] == 0.0:
                    found[count] = v
                    count += 1
    return count if heavy else -1


@_compiled
def relevance_rounds(
    graph: Any, lookout: Any, settings: Any, state: Any, queues: Any, held: int, size: int, rounds: int
) -> tuple[int, int, int, int]:
    """Rounds over weights that are multiplied by the weight of the node an edge leads to.

    That is `rest` where it is 0, and 1 for nodes beyond the array of them. `lookout` holds the mass, if any, from which
    on a node of weight 0 is to be weighed before mass flows there; 1 / the sums of out-weights; and an array for those
    nodes, whose last place says how many they are: where there are some, the round is left to be done again.
    """
    indptr, indices, weights, node_weights, rest, costs = graph
    count = np.uint32(len(node_weights))
    follow, threshold, dense_edges, limit = settings
    touched, frontier, received, amounts = queues
    much, _, found = lookout
    scanned = 0
    while size > 0 and rounds <= limit:
        if much > 0.0 and found[-1] >= 0:
            found[-1] = unweighed(graph, lookout, follow, state, frontier, size)
            if found[-1] > 0:
                break
        edges = 0
        for i in range(size):
            edges += indptr[frontier[i] + 1] - indptr[frontier[i]]
        if edges > dense_edges:
            break
        take_out(frontier, size, follow, state, amounts)
        arrived = 0
        for i in range(size):
            u = np.uint32(frontier[i])
            first, last = np.uint64(indptr[u]), np.uint64(indptr[u + np.uint32(1)])
            total = 0.0
            for e in range(first, last):
                total += edge_weight(e, np.uint32(indices[e]), weights, node_weights, rest, count)
            share = amounts[i] / total if total > 0.0 else 0.0
            for e in range(first, last):
                v = np.uint32(indices[e])
                amount = edge_weight(e, v, weights, node_weights, rest, count) * share
                held, arrived = arrive(v, amount, rounds + 1, state, touched, held, received, arrived)
        size = above(received, arrived, state, threshold, costs, frontier)
        rounds += 1
        scanned += edges
    return size, rounds, scanned, held


@_compiled
def flow_links(
    flow: Any, relevance: Any, floor: float, size: int, now: int, state: Any, queues: Any, held: int
) -> tuple[int, int]:
    """What flows along the links of the frontier; their weights are worked out here."""
    indptr, indices, penalties, downs, semantics, chances = flow
    touched, frontier, received, amounts = queues
    down_chance, up_chance, _, _ = chances
    arrived = 0
    for i in range(size):
        u = frontier[i]
        first, middle, last = indptr[u], indptr[u] + downs[u], indptr[u] + semantics[u]
        for start, end, chance in ((first, middle, down_chance[u]), (middle, last, up_chance[u])):
            total = 0.0
            for e in range(start, end):
                total += max(floor, relevance[indices[e]] - penalties[e])
            for e in range(start, end):
                v = indices[e]
                amount = amounts[i] * chance / total * max(floor, relevance[v] - penalties[e])
                held, arrived = arrive(v, amount, now, state, touched, held, received, arrived)
    return held, arrived


@_compiled
def plain_edges(flow: Any, size: int, now: int, state: Any, queues: Any, held: int, arrived: int) -> tuple[int, int]:
    """What flows along passage edges and stays in self loops, which no query changes."""
    indptr, indices, _, _, semantics, chances = flow
    touched, frontier, received, amounts = queues
    _, _, other_chance, stay_chance = chances
    for i in range(size):
        u = frontier[i]
        amount = amounts[i] * other_chance[u]
        for e in range(indptr[u] + semantics[u], indptr[u + 1]):
            held, arrived = arrive(indices[e], amount, now, state, touched, held, received, arrived)
    for i in range(size):
        u = frontier[i]
        if stay_chance[u] > 0.0:
            amount = amounts[i] * stay_chance[u]
            held, arrived = arrive(u, amount, now, state, touched, held, received, arrived)
    return held, arrived


@_compiled
def semantic_rounds(
    graph: Any, settings: Any, state: Any, queues: Any, held: int, size: int, rounds: int
) -> tuple[int, int, int, int]:
    """Rounds over a semantic flow; the weights of a node's edges are worked out when it is pushed."""
    flow, relevance, edge_counts, costs, floor = graph
    follow, threshold, dense_edges, limit = settings
    _, frontier, received, amounts = queues
    scanned = 0
    while size > 0 and rounds <= limit:
        edges = 0
        for i in range(size):
            edges += edge_counts[frontier[i]]
        if edges > dense_edges:
            break
        take_out(frontier, size, follow, state, amounts)
        held, arrived = flow_links(flow, relevance, floor, size, rounds + 1, state, queues, held)
        held, arrived = plain_edges(flow, size, rounds + 1, state, queues, held, arrived)
        size = above(received, arrived, state, threshold, costs, frontier)
        rounds += 1
        scanned += edges
    return size, rounds, scanned, held
