"""A walk over the part of a stored graph that one query needs, fetched where the mass goes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from phasegraph._typing import BoolArray, Float32Array, FloatArray, IntArray
from phasegraph.errors import InvalidInputError, StoreError
from phasegraph.graph.entity_graph import EdgeWeights, across_weights, count_weights, home_weights, rarity_weights
from phasegraph.graph.linking import Seeding, relevance
from phasegraph.graph.pagerank import PageRankResult
from phasegraph.graph.pagerank.kernels import Kernel
from phasegraph.graph.pagerank.push import PushSettings, as_seeds
from phasegraph.graph.pagerank.solve import push_settings, run_push
from phasegraph.graph.words import MAX_WORDS, normalise_name, split_words
from phasegraph.neo4j.connection import Neo4jConnection, Row
from phasegraph.neo4j.edge_cache import LEAST_TOLERANCE, Codes, KeptEdges, KnownEdges, PartialGraph, merged
from phasegraph.neo4j.gds import most_common
from phasegraph.ranking import Ranking

Stamp: TypeAlias = tuple[str, int]
"""The corpus's node and how often it has changed: a corpus that was dropped and written anew counts from the start."""
# An entity that nothing mentions any more is none, even where a writer has not come to removing it.
_ALL = {
    "seen": "",
    "stated": "",
    "known": " AND (EXISTS { (o)<-[:`PHASEGRAPH_MENTIONS`]-() } OR EXISTS { (o)-[:`PHASEGRAPH_FACT`]-() })",
    "mentioned": "",
    "at_home": " WHERE h.home > 0",
}
_SOME = {
    "seen": " WHERE q.id IN $allowed",
    "stated": " AND f.passage IN $allowed",
    "mentioned": " WHERE p.id IN $allowed",
    "at_home": " WHERE h.home > 0 AND q.id IN $allowed",
    "known": (
        " AND (EXISTS { (o)<-[:`PHASEGRAPH_MENTIONS`]-(q) WHERE q.id IN $allowed }"
        " OR EXISTS { (o)-[f:`PHASEGRAPH_FACT`]-() WHERE f.passage IN $allowed })"
    ),
}
_FREQUENCY = "COUNT {{ (e)<-[:`PHASEGRAPH_MENTIONS`]-(q){seen} }}"
_ANCHORED = "EXISTS {{ (e)<-[h:`PHASEGRAPH_MENTIONS`]-(q){at_home} }}"
PASSAGE_IDS = "MATCH (p:`PhasegraphPassage` {corpus: $corpus}) RETURN p.id"
STAMP = "MATCH (c:`PhasegraphCorpus` {name: $corpus}) RETURN elementId(c), c.stamp"
COUNT_ALLOWED = "MATCH (p:`PhasegraphPassage` {corpus: $corpus}) WHERE p.id IN $allowed RETURN count(p)"
# Kind 0 is the corpus itself: its node and stamp tell whether what is kept of it still holds.
_LOOKUP = (
    """\
CALL () {{
MATCH (c:`PhasegraphCorpus` {{name: $corpus}})
RETURN 0 AS kind, elementId(c) AS name, c.stamp AS frequency, null AS anchored
UNION ALL
MATCH (p:`PhasegraphPassage` {{corpus: $corpus}}) WHERE p.id IN $passages
RETURN 1 AS kind, p.id AS name, null AS frequency, null AS anchored
UNION ALL
MATCH (e:`PhasegraphEntity` {{corpus: $corpus}}) WHERE e.name IN $entities
WITH e AS o, e WHERE true{known}
RETURN 2 AS kind, e.name AS name, """
    f"{_FREQUENCY} AS frequency, {_ANCHORED} AS anchored }}}}\n"
    "RETURN kind, name, frequency, anchored"
)
# One row per kind of edge: names of the ends; for each of them its edges, a number each, because a driver spends as
# much on a list as on a name: the place of the start in what was asked for, and in the low bits what the edge weighs
# by. Kind 0, passage to entity: nothing there, and in `more` the entities' frequencies. 1, entity to passage: four
# times the number of mentions and the kind of home. 2, entity to entity: the number of facts. 3, synonyms: nothing
# there, and in `more` the similarities. An entity in too many passages has no edges unless some passage is about it;
# one of a single passage is not entered from there, which would only lead back.
LOW_BITS = 40
_NEIGHBOURHOOD = (
    """\
CALL () {{
UNWIND range(0, size($passages) - 1) AS place
MATCH (p:`PhasegraphPassage` {{corpus: $corpus, id: $passages[place]}})-[:`PHASEGRAPH_MENTIONS`]->(e)
WITH e, collect(place * $shift) AS edges
"""
    f"WITH e, edges, {_FREQUENCY} AS df WHERE df > 1 AND (df <= $most_common OR {_ANCHORED})\n"
    """\
RETURN 0 AS kind, collect(e.name) AS names, collect(edges) AS edges, collect(df) AS more
UNION ALL
UNWIND range(0, size($entities) - 1) AS place
MATCH (e:`PhasegraphEntity` {{corpus: $corpus, name: $entities[place]}})
WITH collect(place) AS rows, collect(e) AS held
CALL (rows, held) {{
UNWIND range(0, size(held) - 1) AS row WITH rows[row] AS place, held[row] AS e
"""
    f"WITH place, e, {_FREQUENCY} AS df WHERE df <= $most_common OR {_ANCHORED}\n"
    """\
MATCH (e)<-[m:`PHASEGRAPH_MENTIONS`]-(p){mentioned}
WITH p, collect(place * $shift + 4 * m.count + m.home) AS own
RETURN 1 AS kind, collect(p.id) AS names, collect(own) AS edges, [] AS more
UNION ALL
UNWIND range(0, size(held) - 1) AS row WITH rows[row] AS place, held[row] AS e
MATCH (e)-[f:`PHASEGRAPH_FACT`]-(o) WHERE o <> e{stated}
WITH o, collect(place * $shift + f.count) AS own
RETURN 2 AS kind, collect(o.name) AS names, collect(own) AS edges, [] AS more
UNION ALL
UNWIND range(0, size(held) - 1) AS row WITH rows[row] AS place, held[row] AS e
MATCH (e)-[s:`PHASEGRAPH_SYNONYM`]-(o) WHERE o <> e{known}
WITH o, collect(place * $shift) AS own, collect(s.similarity) AS similarities
RETURN 3 AS kind, collect(o.name) AS names, collect(own) AS edges, collect(similarities) AS more }}
RETURN kind, names, edges, more }}
RETURN kind, names, edges, more"""
)
LOOKUP, LOOKUP_ALLOWED = _LOOKUP.format(**_ALL), _LOOKUP.format(**_SOME)
NEIGHBOURHOOD, NEIGHBOURHOOD_ALLOWED = _NEIGHBOURHOOD.format(**_ALL), _NEIGHBOURHOOD.format(**_SOME)


def look_up(
    connection: Neo4jConnection, corpus: str, query: str, ids: Sequence[str], allowed: frozenset[str] | None
) -> tuple[PartialGraph, Stamp]:
    """What linking asks of a graph, and the stamp of the corpus.

    Parameters
    ----------
    connection : Neo4jConnection
    corpus : str
    query : str
        Its sequences of words are looked for among the entities.
    ids : sequence of str
        Looked for among the passages.
    allowed : frozenset of str, optional
        Passages that may be seen; None allows all.

    Returns
    -------
    PartialGraph
        Those that there are, in order of their names, with the entities' frequencies.
    Stamp
        Another after every change of the corpus.

    Raises
    ------
    StoreError
        If the server fails.
    """
    texts = split_words(query).texts
    names = {
        " ".join(texts[start:end])
        for start in range(len(texts))
        for end in range(start + 1, min(start + MAX_WORDS, len(texts)) + 1)
    }
    values: dict[str, Any] = {
        "corpus": corpus,
        "passages": [one for one in ids if allowed is None or one in allowed],
        "entities": sorted({*names, normalise_name(query)}),
    }
    if allowed is not None:
        values["allowed"] = sorted(allowed)
    rows = connection.read(LOOKUP if allowed is None else LOOKUP_ALLOWED, values)
    stamp = next((stamp_of(*row[1:3]) for row in rows if row[0] == 0), ("", 0))
    passages = sorted(row[1] for row in rows if row[0] == 1)
    entities = sorted(row[1:] for row in rows if row[0] == 2)
    found = PartialGraph(
        range(len(passages)),
        tuple(row[0] for row in entities),
        MappingProxyType({name: row for row, name in enumerate(passages)}),
        MappingProxyType({row[0]: place for place, row in enumerate(entities)}),
        np.array([row[1] for row in entities], dtype=np.intp),
        np.array([row[2] for row in entities], dtype=bool),
    )
    return found, stamp


def stamp_of(node: object, changes: object) -> Stamp:
    """A stamp of what the server says of the corpus's node."""
    return str(node), changes if isinstance(changes, int) else 0


TO_ENTITY, TO_PASSAGE, FACT, SYNONYM = range(4)


def take(
    known: KnownEdges,
    rows: Sequence[Row],
    asked: tuple[Sequence[str], Sequence[str]],
    passage_count: int,
    weights: EdgeWeights,
) -> None:
    """Add the edges that a statement of `phasegraph.neo4j.remote_walk` found for the nodes it was asked for.

    Parameters
    ----------
    known : KnownEdges
        Grows; holds the nodes, without edges.
    rows : sequence of list
        What the server returned.
    asked : tuple of two sequences of str
        Passages and entities, as in the statement's parameters; those that were not found have no edges.
    passage_count : int
        Passages of the corpus.
    weights : EdgeWeights
        How counts become weights.
    """
    passages, entities = asked
    found = [_plain(known, row, len(passages), passage_count, weights) for row in rows if row[0] < FACT]
    found.append(_across(known, [row for row in rows if row[0] >= FACT], len(passages), weights))
    owners = np.concatenate([part[0] for part in found])
    ends = np.concatenate([part[1] for part in found])
    values = np.concatenate([part[2] for part in found])
    kept = np.flatnonzero(values)
    order = kept[np.argsort(owners[kept], kind="stable")]
    nodes = np.concatenate([known.codes(True, passages), known.codes(False, entities)])
    known.add(nodes, np.bincount(owners[kept], minlength=len(nodes)).astype(np.int32), ends[order], values[order])


def _plain(
    known: KnownEdges, row: Row, first: int, passage_count: int, weights: EdgeWeights
) -> tuple[IntArray, Codes, Float32Array]:
    """Edges between passages and entities: places of their starts, ends, weights."""
    kind, names, edges, frequencies = row
    owners, low, lengths = _edges(edges)
    ends = np.repeat(known.codes(kind == TO_PASSAGE, names), lengths)
    if kind == TO_ENTITY:
        values = rarity_weights(np.array(frequencies, dtype=np.int32), passage_count, weights).astype(np.float32)
        return owners, ends, np.repeat(values, lengths)
    return owners + first, ends, count_weights(low >> 2, weights) + home_weights(low & 3, weights)


def _across(
    known: KnownEdges, rows: Sequence[Row], first: int, weights: EdgeWeights
) -> tuple[IntArray, Codes, Float32Array]:
    """Edges between entities; facts stated more than once, and facts with synonyms, are one edge."""
    empty = np.empty(0, dtype=np.int32)
    owners, ends, values = [empty.astype(np.intp)], [empty], [empty.astype(np.float32)]
    for kind, names, edges, similarities in rows:
        starts, low, lengths = _edges(edges)
        ends.append(np.repeat(known.codes(False, names), lengths))
        owners.append(starts + first)
        near = np.zeros(len(low), dtype=np.float32)
        if kind == SYNONYM:
            near = np.fromiter(chain.from_iterable(similarities), dtype=np.float32)
        values.append(across_weights(low, near, weights))
    return merged(np.concatenate(owners), np.concatenate(ends), np.concatenate(values))


def _edges(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray, list[int]]:
    """Places of the starts of all edges, their low bits, and how many edges each end has."""
    packed = np.fromiter(chain.from_iterable(lists), dtype=np.int64)
    return packed >> LOW_BITS, packed & ((1 << LOW_BITS) - 1), [len(each) for each in lists]


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
    node_weights : (n,) array of float or None
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
    node_weights: FloatArray | None
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
        rows = self.connection.read(statement, values, timeout=left)
        take(self.grow(), rows, asked, self.passage_count, self.weights)
        self.fetched += len(nodes)
        self.rounds += 1

    def walk(self, here: BoolArray | None = None) -> LocalWalk:
        """Walk over what is known, or over these of its nodes."""
        graph = self.known.graph
        node_weights = None if self.ranking is None else relevance(graph.as_graph(), self.ranking)
        passages, entities = self.seeds
        seeding = Seeding(
            graph.rows_of(tuple(passages), tuple(entities)), np.array([*passages.values(), *entities.values()])
        )
        operator = graph.operator if here is None else graph.walkable(here)
        seeds = as_seeds((seeding.nodes, seeding.masses), graph.size)
        walked = run_push(operator.rows(node_weights), operator.pool, seeds, self.push, None)
        waiting = walked.values / (1.0 - self.push.follow)
        # A node that was pushed held more than its threshold, which is more than this; one that was not has
        # let the share (1 - follow) of what it holds stop.
        above = waiting > self.push.threshold * (1.0 - 1e-9)
        needed = np.zeros(graph.size, dtype=np.bool_)
        needed[walked.nodes[above]] = True
        unknown = min(float(waiting[above & ~operator.here[walked.nodes]].sum()), 1.0)
        complete = unknown <= self.limits.unknown
        return LocalWalk(graph, walked, node_weights, seeding, unknown, needed, self.fetched, self.rounds, complete)


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
    timeout: float | None = None,
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
    timeout : float, optional
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
        connection.timeout if timeout is None else timeout,
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
