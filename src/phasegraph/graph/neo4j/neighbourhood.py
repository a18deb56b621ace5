"""The part of a stored graph that one query's walk needs, fetched where the walk's mass goes.

Each round fetches the out-edges of the nodes that hold most mass and walks again over all that has been
fetched. A node whose edges are not here yet restarts the walk; what it would have sent on is the share of the
walk that is not known, and the rounds end when that share is small or the budget of nodes is spent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from phasegraph._typing import FloatArray
from phasegraph.candidates import Ranking
from phasegraph.errors import InvalidInputError, StoreError
from phasegraph.graph.entity_graph import EdgeWeights
from phasegraph.graph.linking import RelevanceRows, Seeding, relevance
from phasegraph.graph.neo4j.connection import Neo4jConnection
from phasegraph.graph.neo4j.edges import edge_parameters, neighbourhood_statement
from phasegraph.graph.neo4j.kept_edges import Edges, Found, KeptEdges, Node
from phasegraph.graph.neo4j.partial import PartialGraph
from phasegraph.graph.pagerank import PageRankResult
from phasegraph.graph.pagerank.push import PushSettings
from phasegraph.graph.pagerank.reset import as_seeds
from phasegraph.graph.pagerank.rows import StaticRows
from phasegraph.graph.pagerank.solve import push_settings, run_push

_STATEMENT = neighbourhood_statement()


@dataclass(frozen=True)
class FetchSettings:
    """How far a walk may fetch.

    Parameters
    ----------
    nodes : int, default 10_000
        Nodes whose edges are fetched at most, at least 1.
    per_round : int, default 2000
        Of them in one statement at most, at least 1.
    unknown : float, default 0.0005
        Share of the mass at nodes without edges here at which no more is fetched, in [0, 1].

    Raises
    ------
    InvalidInputError
        If a value is out of range.
    """

    nodes: int = 10_000
    per_round: int = 2000
    unknown: float = 0.0005

    def __post_init__(self) -> None:
        for name in ("nodes", "per_round"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidInputError(f"{name} must be an integer of at least 1; {value!r:.40} was given")
        if not 0.0 <= self.unknown <= 1.0:
            raise InvalidInputError(f"unknown must lie in [0, 1]; {self.unknown!r:.40} was given")


@dataclass(frozen=True, eq=False)
class LocalWalk:
    """A walk over what was fetched.

    Parameters
    ----------
    graph : PartialGraph
        What was fetched.
    walked : PageRankResult
        Its masses.
    gains : (n,) array of float or None
        How readily each node was entered.
    seeding : Seeding
        Where it restarted.
    unknown : float
        Share of the mass that stands at nodes whose edges were not fetched.
    fetched, rounds : int
        Nodes whose edges were fetched, and in how many statements.
    complete : bool
        Whether `unknown` came down to what was asked for.
    """

    graph: PartialGraph
    walked: PageRankResult
    gains: FloatArray | None
    seeding: Seeding
    unknown: float
    fetched: int
    rounds: int
    complete: bool


class _Fetched:
    """Nodes seen so far, as (is a passage, name), and the edges of those that were asked for."""

    def __init__(self, passages: Iterable[str], entities: Iterable[str]) -> None:
        self.rows: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.edges: list[tuple[Node, Edges]] = []
        self.asked: set[Node] = set()
        self.see(True, passages)
        self.see(False, entities)

    def see(self, is_passage: bool, names: Iterable[str]) -> None:
        """Give every new name a row; row order is the order of arrival, which the statement's rows decide."""
        rows = self.rows[is_passage]
        for name in names:
            rows.setdefault(name, len(rows))

    def take(self, found: Mapping[Node, Sequence[Edges]]) -> None:
        """Keep the edges of some nodes."""
        for node, kinds in found.items():
            self.asked.add(node)
            for edges in kinds:
                self.see(edges[0], edges[1])
                self.edges.append((node, edges))

    def graph(self) -> PartialGraph:
        """Return all of it, entities after passages."""
        entities, passages = self.rows
        count = len(passages)
        base = (count, 0)
        lengths = np.array([len(names) for _, (_, names, _) in self.edges], dtype=np.intp)
        starts = np.array([self.rows[kind][name] + base[kind] for (kind, name), _ in self.edges], dtype=np.intp)
        ends = [self.rows[kind][name] + base[kind] for _, (kind, names, _) in self.edges for name in names]
        weights = [weight for _, (_, _, each) in self.edges for weight in each]
        size = count + len(entities)
        matrix = sparse.csr_array((weights, (np.repeat(starts, lengths), ends)), shape=(size, size), dtype=np.float64)
        return PartialGraph(
            tuple(passages),
            tuple(entities),
            MappingProxyType(dict(passages)),
            MappingProxyType(dict(entities)),
            adjacency=matrix,
        )


def walk_neighbourhood(
    connection: Neo4jConnection,
    corpus: str,
    state: tuple[int, int],
    passages: Mapping[str, float],
    entities: Mapping[str, float],
    *,
    follow_probability: float,
    weights: EdgeWeights | None = None,
    ranking: Ranking | None = None,
    tolerance: float = 1e-6,
    settings: FetchSettings | None = None,
    kept: KeptEdges | None = None,
    deadline: float | None = None,
) -> LocalWalk:
    """Walk from weighted seeds, fetching edges as the walk comes to them.

    Parameters
    ----------
    connection : Neo4jConnection
        Where the corpus lies.
    corpus : str
        A corpus of our own schema.
    state : tuple of (int, int)
        What `corpus_state` says of it.
    passages, entities : mapping of str to float
        Seeds by id and by name, with positive masses that need not sum to 1; at least one.
    follow_probability : float
        Of walking on, in [0, 1).
    weights : EdgeWeights, optional
        How counts become weights.
    ranking : Ranking, optional
        A dense ranking: passages nearer to the query are then entered more readily.
    tolerance : float, default 1e-6
        Mass per out-edge below which the walk goes no further.
    settings : FetchSettings, optional
        The budget.
    kept : KeptEdges, optional
        Edges of earlier walks over this corpus with these weights; kept edges are not fetched again.
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
        If the server fails.
    """
    limits = FetchSettings() if settings is None else settings
    push = push_settings(follow_probability, tolerance, 0, None, "numpy")
    values = edge_parameters(corpus, state[0], EdgeWeights() if weights is None else weights)
    seconds = connection.deadline if deadline is None else deadline
    memory = KeptEdges(0) if kept is None else kept
    began, rounds = time.monotonic(), 0

    def fetch(nodes: Sequence[Node]) -> Found:
        return _fetch(connection, values, nodes, max(seconds - (time.monotonic() - began), 0.01))

    seen = _Fetched(passages, entities)
    wanted = [(True, name) for name in passages] + [(False, name) for name in entities]
    last: LocalWalk | None = None
    while True:
        try:
            seen.take(memory.edges_of(wanted, state[1], fetch))
        except StoreError:
            if last is None:
                raise
            return last  # what earlier rounds found is an answer, and says how much it does not know
        rounds += 1
        last, wanted = _walk_here(seen, passages, entities, ranking, push, limits, rounds)
        if last.complete or not wanted or time.monotonic() - began > seconds * 2 / 3:
            return last


def _walk_here(
    seen: _Fetched,
    passages: Mapping[str, float],
    entities: Mapping[str, float],
    ranking: Ranking | None,
    push: PushSettings,
    limits: FetchSettings,
    rounds: int,
) -> tuple[LocalWalk, list[Node]]:
    """Walk over what was fetched; return the nodes to fetch next as well, within the budget."""
    graph = seen.graph()
    gains = None if ranking is None else relevance(graph.as_graph(), ranking)
    seeding = _seeding(graph, passages, entities)
    walked = _walk(graph, gains, seeding, push)
    open_nodes = _open_nodes(graph, walked, seen.asked)
    unknown = float(sum(mass for mass, _ in open_nodes))
    walk = LocalWalk(graph, walked, gains, seeding, unknown, len(seen.asked), rounds, unknown <= limits.unknown)
    budget = max(min(limits.per_round, limits.nodes - len(seen.asked)), 0)
    return walk, [node for _, node in open_nodes[:budget]]


def _seeding(graph: PartialGraph, passages: Mapping[str, float], entities: Mapping[str, float]) -> Seeding:
    nodes = [graph.passage_rows[name] for name in passages]
    nodes += [graph.entity_rows[name] + len(graph.passages) for name in entities]
    return Seeding(np.array(nodes, dtype=np.intp), np.array([*passages.values(), *entities.values()]))


def _walk(graph: PartialGraph, gains: FloatArray | None, seeding: Seeding, push: PushSettings) -> PageRankResult:
    seeds = as_seeds((seeding.nodes, seeding.masses), graph.size)
    rows = StaticRows(graph.operator) if gains is None else RelevanceRows(graph.operator, gains)
    return run_push(rows, graph.operator.pool, seeds, push, None)


def _fetch(connection: Neo4jConnection, values: Mapping[str, Any], wanted: Sequence[Node], seconds: float) -> Found:
    names = {
        "passages": [name for is_passage, name in wanted if is_passage],
        "entities": [name for is_passage, name in wanted if not is_passage],
    }
    found: dict[Node, list[Edges]] = {}
    for from_passage, to_passage, *columns in connection.read(_STATEMENT, {**values, **names}, deadline=seconds):
        for name, ends, weights in zip(*columns, strict=True):
            found.setdefault((from_passage, name), []).append((to_passage, ends, weights))
    return found


def _open_nodes(graph: PartialGraph, walked: PageRankResult, asked: set[Node]) -> list[tuple[float, Node]]:
    """Nodes with mass whose edges were not fetched, most mass first, ties by name."""
    count = len(graph.passages)
    found = []
    for node, mass in zip(walked.nodes.tolist(), walked.values.tolist(), strict=True):
        key = (True, graph.passages[node]) if node < count else (False, graph.entities[node - count])
        if key not in asked and mass > 0:
            found.append((mass, key))
    found.sort(key=lambda each: (-each[0], each[1]))
    return found
