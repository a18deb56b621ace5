"""The part of a stored graph that one query's walk needs, fetched where the walk's mass goes.

Each round walks over all edges that are here, nodes without edges keeping what flows to them, and then fetches
the edges of those among them that hold more than the tolerance, which the walk in memory would push on. Where no
such node is left the walk is the one in memory, whatever else has been fetched, by this query or by others.
Where the budget would not do, the walk is done again with the nodes this query would have fetched, and no others:
an answer never depends on what was asked before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from phasegraph._typing import BoolArray, IntArray
from phasegraph.candidates import Ranking
from phasegraph.errors import StoreError
from phasegraph.graph.entity_graph import EdgeWeights
from phasegraph.graph.neo4j.connection import Neo4jConnection
from phasegraph.graph.neo4j.fetching import FetchSettings, LocalWalk, QueryWalk
from phasegraph.graph.neo4j.kept_edges import KeptEdges
from phasegraph.graph.neo4j.partial import LEAST_TOLERANCE
from phasegraph.graph.pagerank.kernels import Kernel
from phasegraph.graph.pagerank.solve import push_settings

__all__ = ["FetchSettings", "LocalWalk", "walk_neighbourhood"]


def walk_neighbourhood(
    connection: Neo4jConnection,
    corpus: str,
    state: tuple[int, object],
    passages: Mapping[str, float],
    entities: Mapping[str, float],
    *,
    follow_probability: float,
    weights: EdgeWeights | None = None,
    ranking: Ranking | None = None,
    tolerance: float = 1e-6,
    settings: FetchSettings | None = None,
    kept: KeptEdges | None = None,
    allowed: Sequence[str] | None = None,
    kernel: Kernel = "auto",
    deadline: float | None = None,
) -> LocalWalk:
    """Walk from weighted seeds, fetching edges as the walk comes to them.

    Parameters
    ----------
    connection : Neo4jConnection
        Where the corpus lies.
    corpus : str
        A corpus of our own schema.
    state : tuple of (int, object)
        How many passages it has (of the allowed ones, where some are not), and what is another after every change
        of it.
    passages, entities : mapping of str to float
        Seeds by id and by name, with positive masses that need not sum to 1; at least one.
    follow_probability : float
        Of walking on, in [0, 1).
    weights : EdgeWeights, optional
        How counts become weights.
    ranking : Ranking, optional
        A dense ranking: passages nearer to the query are then entered more readily.
    tolerance : float, default 1e-6
        Mass per out-edge below which the walk goes no further; taken for 1e-9 where it is less.
    settings : FetchSettings, optional
        The budget.
    kept : KeptEdges, optional
        Edges of earlier walks over this corpus with these weights and these passages allowed; they are not fetched
        again.
    allowed : sequence of str, optional
        Passages that may be seen; None allows all. Others are neither fetched nor counted.
    kernel : {"auto", "numpy", "compiled"}, default "auto"
        As for :class:`phasegraph.graph.WalkSettings`.
    deadline : float, optional
        Seconds for all rounds together; None takes the connection's. No round is begun after two thirds of
        it.

    Returns
    -------
    LocalWalk
        The walk and how much of it is not known.

    Raises
    ------
    StoreError
        If the server fails before there is anything to walk over.
    """
    memory = KeptEdges(0) if kept is None else kept
    query = QueryWalk(
        connection,
        corpus,
        state[0],
        (passages, entities),
        EdgeWeights() if weights is None else weights,
        ranking,
        push_settings(follow_probability, max(tolerance, LEAST_TOLERANCE), 0, None, kernel),
        FetchSettings() if settings is None else settings,
        allowed,
        connection.deadline if deadline is None else deadline,
        memory.known(state[1]),
    )
    query.see(passages, entities)
    walk = _grown(query)
    if int(walk.needed.sum()) > query.limits.nodes:
        walk = _within_budget(query)
    memory.keep(state[1], query.known, walk.needed)
    return walk


def _grown(query: QueryWalk) -> LocalWalk:
    """The walk over all that is here, fetching what it needs until it needs more than the budget."""
    walk = query.walk()
    while not walk.complete and int(walk.needed.sum()) <= query.limits.nodes:
        wanted = _greatest(walk, walk.needed & ~walk.graph.here, query.limits.per_round)
        if not _fetched(query, wanted):
            break
        walk = query.walk()
    return walk


def _within_budget(query: QueryWalk) -> LocalWalk:
    """The walk over the nodes that this query alone would fetch, those with most mass first."""
    passages: list[str] = []
    entities: list[str] = []
    while True:
        graph = query.known.graph
        here = np.zeros(graph.size, dtype=np.bool_)
        here[graph.rows_of(passages, entities)] = True
        walk = query.walk(here)
        budget = min(query.limits.per_round, query.limits.nodes - len(passages) - len(entities))
        wanted = _greatest(walk, walk.needed & ~here, budget)
        missing = wanted[~graph.here[wanted]]
        if walk.complete or not len(wanted) or (len(missing) and not _fetched(query, missing)):
            return walk
        ids, names = graph.names_of(wanted)
        passages += ids
        entities += names


def _fetched(query: QueryWalk, nodes: IntArray) -> bool:
    """Whether the nodes' edges are here now: what earlier rounds found is an answer, too."""
    if query.rounds and query.late():
        return False
    try:
        query.fetch(nodes)
    except StoreError:
        if not query.rounds:
            raise
        return False
    return True


def _greatest(walk: LocalWalk, among: BoolArray, count: int) -> IntArray:
    """Some of these nodes at most: those with most mass, ties by name."""
    nodes = np.flatnonzero(among)
    if len(nodes) <= count:
        return nodes
    masses = walk.walked.mass[nodes]
    near = masses >= np.partition(masses, len(nodes) - count)[len(nodes) - count] if count else masses > np.inf
    nodes, masses = nodes[near], masses[near]
    ids, names = walk.graph.names_of(nodes)  # nodes ascend, so that passages come first here, too
    keys = [(True, one) for one in ids] + [(False, one) for one in names]
    order = sorted(range(len(nodes)), key=lambda place: (-masses[place], keys[place]))
    return nodes[order[:count]]
