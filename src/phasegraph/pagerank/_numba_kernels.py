"""The rounds of a push, compiled by numba; only :func:`.workspace.compiled_kernels` imports this module.

The functions do the same operations in the same order as the numpy rounds in :mod:`phasegraph.pagerank.push`, so values
and counters are identical to the bit. Lists are written without branches: the next entry overwrites an entry that does
not count. Each list therefore has space for an additional entry.

The `state` is an array with a row per node and three columns. The first is the unsent mass, which has arrived and is
not pushed yet. The second is the gained mass, which has stopped at the node. The third is the last round in which mass
arrived. The `frontier` contains the nodes that the next round pushes. Positions in inner loops are unsigned, because
numba checks signed positions for negative values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock

from phasegraph._support.shared import wait_before_forks
from phasegraph.errors import warn

# Earlier versions mistake the types in a long tuple for others, and then run code that was compiled for those.
if numba.version_info.short < (0, 61):
    warn(f'walks do not use numba {numba.__version__}, because it is too old: pip install "phasegraph[graph]"')
    raise ImportError("the compiled kernel needs numba 0.61 or later")

wait_before_forks(global_compiler_lock)  # otherwise, a forked child could wait forever for another thread's lock


def _compiled(function: Callable[..., Any]) -> Any:
    """Return a function that numba compiles at the first call; cache the compiled code on disk if possible."""
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no writable cache folder
        return numba.njit(nogil=True)(function)


@_compiled
def take_out(frontier: Any, size: int, follow: float, state: Any, amounts: Any) -> None:
    """Take the unsent mass out of the first `size` nodes of `frontier`, which are the nodes to push.

    The share (1 - follow) of the mass stops at the node. The rest is written to `amounts`, for sending along edges.
    """
    for i in range(size):
        u = frontier[i]
        amounts[i] = follow * state[u, 0]
        state[u, 1] += (1.0 - follow) * state[u, 0]
        state[u, 0] = 0.0


@_compiled
def arrive(
    v: int, amount: float, now: int, state: Any, touched: Any, held: int, received: Any, arrived: int
) -> tuple[int, int]:
    """Add `amount` to the unsent mass of node `v`, in round `now`.

    `held` is the number of nodes that ever received mass, which are listed in `touched`. `arrived` is the number of
    nodes that received mass in this round, which are listed in `received`. Returns both numbers after the addition.
    """
    node = np.uint32(v)
    state[node, 0] += amount
    before = state[node, 2]
    state[node, 2] = now
    touched[np.uint64(held)] = node
    received[np.uint64(arrived)] = node
    return held + (before == 0), arrived + (before < now)


@_compiled
def above(received: Any, arrived: int, state: Any, threshold: float, costs: Any, frontier: Any) -> int:
    """Write the nodes to push in the next round to `frontier`, and return their number.

    These are the first `arrived` nodes of `received`, except for nodes whose unsent mass is not above their threshold.
    The threshold of a node is `threshold` times its cost.
    """
    size = 0
    for i in range(arrived):
        v = np.uint32(received[i])
        frontier[np.uint64(size)] = v
        size += state[v, 0] > threshold * costs[v]
    return size


@_compiled
def collect(nodes: Any, state: Any, gained_out: Any, left_out: Any) -> None:
    """Copy the gained and the unsent mass of `nodes` to the two output arrays, and clear the state of these nodes."""
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
    """Push mass along edges with fixed weights, round by round.

    `held` is the number of nodes that have received mass, `size` the number of nodes to push, and `rounds` the number
    of rounds so far. `queues` are the scratch arrays of :attr:`.workspace.PushWorkspace.queues`. The rounds end
    when no node's unsent mass is above its threshold, or at the maximum number of rounds. They also end before a dense
    round, which would read more than `dense_edges` edges. Returns the number of nodes to push next, the number of
    rounds, the number of edges read, and the number of nodes that have received mass.
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
    """Return the weight of an edge times the weight of its target node.

    A node weight of 0 is replaced by `rest`. A node with a number of `count` or higher has the node weight 1.
    """
    if target >= count:
        return np.float64(weights[edge])
    gain = node_weights[target]
    return weights[edge] * (gain if gain > 0.0 else rest)


@_compiled
def unweighed(graph: Any, lookout: Any, follow: float, state: Any, frontier: Any, size: int) -> int:
    """Write to `found` the nodes with weight 0 to which a node of `frontier` is about to send more than `much` mass.

    `much` and `found` are parts of `lookout`, which :func:`relevance_rounds` describes. A node may be written more than
    once. Returns the number of entries, or -1 if no node of `frontier` sends more than `much`.
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
    """Push mass round by round along edges whose weights are multiplied by the weights of their target nodes.

    A node weight of 0 is replaced by `rest`; nodes beyond the array of node weights have weight 1. `lookout` is the
    tuple (`much`, `inverse_out`, `found`). `inverse_out` is 1 / (sum of the weights of a node's out-edges). The rounds
    pause if nodes with weight 0 are about to receive more than the mass `much`. These nodes are written to `found`,
    whose last entry is their number. The caller then sets the weights of these nodes and calls the function again. If
    `much` is 0, the rounds never pause. :func:`static_rounds` describes the other arguments and the result.
    """
    indptr, indices, weights, node_weights, rest, costs = graph
    count = np.uint32(len(node_weights))
    follow, threshold, dense_edges, limit = settings
    touched, frontier, received, amounts = queues
    much, _, found = lookout
    scanned, products = 0, np.empty(64)
    while size > 0 and rounds <= limit:
        if much > 0.0 and found[-1] >= 0:
            found[-1] = unweighed(graph, lookout, follow, state, frontier, size)
            if found[-1] > 0:
                break
        edges, most = 0, 0
        for i in range(size):
            degree = indptr[frontier[i] + 1] - indptr[frontier[i]]
            edges += degree
            most = max(most, degree)
        if edges > dense_edges:
            break
        if most > len(products):
            products = np.empty(most)
        take_out(frontier, size, follow, state, amounts)
        arrived = 0
        for i in range(size):
            u = np.uint32(frontier[i])
            first, last = np.uint64(indptr[u]), np.uint64(indptr[u + np.uint32(1)])
            total = 0.0
            for e in range(first, last):
                products[e - first] = edge_weight(e, np.uint32(indices[e]), weights, node_weights, rest, count)
                total += products[e - first]
            share = amounts[i] / total if total > 0.0 else 0.0
            for e in range(first, last):
                held, arrived = arrive(
                    indices[e], products[e - first] * share, rounds + 1, state, touched, held, received, arrived
                )
        size = above(received, arrived, state, threshold, costs, frontier)
        rounds += 1
        scanned += edges
    return size, rounds, scanned, held


@_compiled
def edges_of(node: int, indptr: Any, slots: Any, ends: Any, passages: int, came: int) -> tuple[Any, Any, bool]:
    """Return a node's first edge, the edge after its last edge, and True if these edges are in the log.

    :class:`.operator.LoggedEdges` describes the arguments from `slots` on. They are not passed as a tuple, because
    numba counts references whenever a tuple of arrays is unpacked.
    """
    u = np.uint32(node)
    slot = slots[u]
    if slot > 0:
        return np.uint64(ends[slot - 1]), np.uint64(ends[slot]), True
    if u >= passages:
        u = np.uint32(u - came)
    return np.uint64(indptr[u]), np.uint64(indptr[u + np.uint32(1)]), False


@_compiled
def read_edges(
    first: int, last: int, indices: Any, weights: Any, rarities: Any, outward: int, passages: int, came: int,
    targets_out: Any, weights_out: Any,
) -> None:  # fmt: skip
    """Copy the targets and weights of the base edges `first` to `last` - 1, and apply the changes of a log.

    The changed copies are written to `targets_out` and `weights_out`. :class:`.operator.LoggedEdges` describes
    `rarities`, `outward`, `passages` and `came`.
    """
    for e in range(first, last):
        place, v = np.uint64(e - first), np.uint32(indices[e])
        weights_out[place] = rarities[np.uint32(v - passages)] if e < outward else weights[e]
        targets_out[place] = v + came if v >= passages else v


@_compiled
def unweighed_in_log(graph: Any, lookout: Any, follow: float, state: Any, frontier: Any, size: int) -> int:
    """Do the same as :func:`unweighed` in a graph with a change log: find nodes with weight 0 that receive much mass.

    `lookout` contains `much` and `found`. The nodes are written to `found`. Returns the number of entries, or -1 if no
    node of `frontier` sends more than `much`.
    """
    (indptr, indices, base_weights), log, node_weights, _, _, targets, weights = graph
    slots, ends, own_targets, own_weights, rarities, outward, passages, came = log
    much, found = lookout
    heavy, count = False, 0
    for i in range(size):
        amount = follow * state[frontier[i], 0]
        if amount > much:
            heavy = True
            first, last, own = edges_of(frontier[i], indptr, slots, ends, passages, came)
            degree = np.int64(last - first)
            if own:
                targets[:degree], weights[:degree] = own_targets[first:last], own_weights[first:last]
            else:
                read_edges(first, last, indices, base_weights, rarities, outward, passages, came, targets, weights)
            total = 0.0
            for e in range(degree):
                total += weights[e]
            amount *= 1.0 / total if total > 0.0 else 0.0
            for e in range(degree):
                v = targets[e]
                if amount * weights[e] > much and v < len(node_weights) and node_weights[v] == 0.0:
                    found[count] = v
                    count += 1
    return count if heavy else -1


@_compiled
def logged_rounds(
    graph: Any, lookout: Any, settings: Any, state: Any, queues: Any, held: int, size: int, rounds: int
) -> tuple[int, int, int, int]:
    """Push mass as :func:`relevance_rounds` does, along the edges of a graph with a change log.

    The last two arrays of `graph` are scratch arrays for the edges of a node. This is a function of its own, because a
    common function made walks over graphs without a log slower by a quarter or more.
    """
    (indptr, indices, base_weights), log, node_weights, rest, costs, targets, weights = graph
    slots, ends, own_targets, own_weights, rarities, outward, passages, came = log
    count = len(node_weights)
    follow, threshold, dense_edges, limit = settings
    touched, frontier, received, amounts = queues
    much, found = lookout
    scanned = 0
    while size > 0 and rounds <= limit:
        if much > 0.0 and found[-1] >= 0:
            found[-1] = unweighed_in_log(graph, lookout, follow, state, frontier, size)
            if found[-1] > 0:
                break
        edges: Any = 0
        for i in range(size):
            first, last, _ = edges_of(frontier[i], indptr, slots, ends, passages, came)
            edges += np.int64(last - first)
        if edges > dense_edges:
            break
        take_out(frontier, size, follow, state, amounts)
        arrived = 0
        for i in range(size):
            first, last, own = edges_of(frontier[i], indptr, slots, ends, passages, came)
            degree = np.int64(last - first)
            if own:
                targets[:degree], weights[:degree] = own_targets[first:last], own_weights[first:last]
            else:
                read_edges(first, last, indices, base_weights, rarities, outward, passages, came, targets, weights)
            total = 0.0
            for e in range(degree):
                v = targets[e]
                if v < count:
                    gain = node_weights[v]
                    weights[e] *= gain if gain > 0.0 else rest
                total += weights[e]
            share = amounts[i] / total if total > 0.0 else 0.0
            for e in range(degree):
                held, arrived = arrive(
                    targets[e], weights[e] * share, rounds + 1, state, touched, held, received, arrived
                )
        size = above(received, arrived, state, threshold, costs, frontier)
        rounds += 1
        scanned += edges
    return size, rounds, scanned, held


@_compiled
def flow_links(
    flow: Any, relevance: Any, floor: float, size: int, now: int, state: Any, queues: Any, held: int
) -> tuple[int, int]:
    """Send mass along the links between entities, from the first `size` nodes of the frontier, as in SemFlowRAG.

    Each of these nodes sends the amount of mass that :func:`take_out` wrote for it. The weight of a link depends on the
    relevance of its target. Returns two numbers of nodes: nodes that ever received mass (`held` is the number so far),
    and nodes that received mass in this round, which has the number `now`.
    """
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
    """Send mass along passage edges and self loops, from the first `size` nodes of the frontier, as in SemFlowRAG.

    Each of these nodes sends the amount of mass that :func:`take_out` wrote for it. The weights of these edges do not
    depend on the query. Returns two numbers of nodes: nodes that ever received mass, and nodes that received mass in
    this round, which has the number `now`. `held` and `arrived` are these numbers so far.
    """
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
    """Push mass round by round along the directed edges of SemFlowRAG's graph.

    The weights of a node's links are computed from the relevance when the node is pushed. :func:`static_rounds`
    describes the other arguments and the result.
    """
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
