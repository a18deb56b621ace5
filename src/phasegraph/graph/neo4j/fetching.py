"""One query's walk over what has been fetched, and how it fetches more."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from phasegraph._typing import BoolArray, FloatArray, IntArray
from phasegraph.candidates import Ranking
from phasegraph.errors import InvalidInputError
from phasegraph.graph.entity_graph import EdgeWeights
from phasegraph.graph.linking import Seeding, relevance
from phasegraph.graph.neo4j.connection import Neo4jConnection
from phasegraph.graph.neo4j.decoding import take
from phasegraph.graph.neo4j.edges import most_common
from phasegraph.graph.neo4j.kept_edges import KnownEdges
from phasegraph.graph.neo4j.lookups import LOW_BITS, NEIGHBOURHOOD, NEIGHBOURHOOD_ALLOWED
from phasegraph.graph.neo4j.partial import PartialGraph
from phasegraph.graph.pagerank import PageRankResult
from phasegraph.graph.pagerank.push import PushSettings
from phasegraph.graph.pagerank.reset import as_seeds
from phasegraph.graph.pagerank.solve import run_push


@dataclass(frozen=True)
class FetchSettings:
    """How far a walk may fetch.

    Parameters
    ----------
    nodes : int, default 20_000
        Nodes whose edges the walk may need at most, at least 1.
    per_round : int, default 5000
        Of them in one statement at most, at least 1.
    unknown : float, default 0
        Share of the mass waiting at nodes without edges here at which no more is fetched, in [0, 1]; at 0 the walk
        is the one in memory.

    Raises
    ------
    InvalidInputError
        If a value is out of range.
    """

    nodes: int = 20_000
    per_round: int = 5000
    unknown: float = 0.0

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
        What is here, fetched by this query or before.
    walked : PageRankResult
        Its masses.
    gains : (n,) array of float or None
        How readily each node was entered.
    seeding : Seeding
        Where it restarted.
    unknown : float
        Share of the mass that waits at nodes whose edges the walk would need and has not.
    needed : (n,) array of bool
        Nodes whose edges it needed.
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
    needed: BoolArray
    fetched: int
    rounds: int
    complete: bool


@dataclass(eq=False)
class QueryWalk:
    """One query's walk on its way: what it asks for, what is known, and what it has spent."""

    connection: Neo4jConnection
    corpus: str
    passage_count: int
    seeds: tuple[Mapping[str, float], Mapping[str, float]]
    weights: EdgeWeights
    ranking: Ranking | None
    push: PushSettings
    limits: FetchSettings
    allowed: Sequence[str] | None
    seconds: float
    known: KnownEdges
    began: float = field(default_factory=time.monotonic)
    shared: bool = True
    fetched: int = 0
    rounds: int = 0

    def grow(self) -> KnownEdges:
        """What is known, as this query's own."""
        if self.shared:
            self.known, self.shared = self.known.copy(), False
        return self.known

    def see(self, passages: Iterable[str], entities: Iterable[str]) -> None:
        """Give rows to those that have none."""
        if self.known.lacks(passages, entities):
            mine = self.grow()
            mine.codes(True, passages)
            mine.codes(False, entities)

    def late(self) -> bool:
        """Whether it is too late for another round."""
        return time.monotonic() - self.began > self.seconds * 2 / 3

    def fetch(self, nodes: IntArray) -> None:
        """Fetch the edges of nodes of the graph at hand."""
        asked = self.known.graph.names_of(nodes)
        values = {
            "corpus": self.corpus,
            "most_common": most_common(self.passage_count, self.weights),
            "passages": asked[0],
            "entities": asked[1],
            "shift": 1 << LOW_BITS,
        }
        statement = NEIGHBOURHOOD
        if self.allowed is not None:
            statement, values["allowed"] = NEIGHBOURHOOD_ALLOWED, self.allowed
        left = max(self.seconds - (time.monotonic() - self.began), 0.01)
        rows = self.connection.read(statement, values, deadline=left)
        take(self.grow(), rows, asked, self.passage_count, self.weights)
        self.fetched += len(nodes)
        self.rounds += 1

    def walk(self, here: BoolArray | None = None) -> LocalWalk:
        """Walk over what is known, or over these of its nodes."""
        graph = self.known.graph
        gains = None if self.ranking is None else relevance(graph.as_graph(), self.ranking)
        passages, entities = self.seeds
        seeding = Seeding(
            graph.rows_of(tuple(passages), tuple(entities)), np.array([*passages.values(), *entities.values()])
        )
        operator = graph.operator if here is None else graph.walkable(here)
        seeds = as_seeds((seeding.nodes, seeding.masses), graph.size)
        walked = run_push(operator.rows(gains), operator.pool, seeds, self.push, None)
        waiting = walked.values / (1.0 - self.push.follow)
        # A node that was pushed held more than its threshold, which is more than this; one that was not has
        # let the share (1 - follow) of what it holds stop.
        above = waiting > self.push.threshold * (1.0 - 1e-9)
        needed = np.zeros(graph.size, dtype=np.bool_)
        needed[walked.nodes[above]] = True
        unknown = min(float(waiting[above & ~operator.here[walked.nodes]].sum()), 1.0)
        complete = unknown <= self.limits.unknown
        return LocalWalk(graph, walked, gains, seeding, unknown, needed, self.fetched, self.rounds, complete)
