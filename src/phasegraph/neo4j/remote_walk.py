"""A walk over a graph in Neo4j, which fetches the edges of a node only when the walk reaches the node."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from phasegraph._support.typing import BoolArray, Float32Array, FloatArray, IntArray
from phasegraph._support.validation import check_count, check_range
from phasegraph.errors import StoreError
from phasegraph.graph.model.entity_graph import EdgeWeights, across_weights, count_weights, home_weights, rarity_weights
from phasegraph.graph.model.words import MAX_WORDS, normalise_name, split_words
from phasegraph.graph.walk.linking import Seeding
from phasegraph.graph.walk.relevance import relevance
from phasegraph.neo4j.connection import Neo4jConnection, Row
from phasegraph.neo4j.edge_cache import LEAST_TOLERANCE, Codes, KeptEdges, KnownEdges, PartialGraph, merged
from phasegraph.neo4j.gds import most_common
from phasegraph.pagerank import PageRankResult
from phasegraph.pagerank.push import as_seeds, run_push
from phasegraph.pagerank.solve import push_settings
from phasegraph.pagerank.workspace import Kernel
from phasegraph.ranking import Ranking

Stamp: TypeAlias = tuple[str, int]
"""The state of a corpus: the element id of its node and the number of changes; a new corpus gets a new node."""
# An entity without mentions is ignored, even if a writer has not removed it yet.
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
# Kind 0 is the node of the corpus with its stamp, which shows whether cached data of the corpus is valid.
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
# A row per kind of edge: the names of the end nodes, and for each end node its edges. An edge is a single number,
# because the driver is slow with nested lists. The high bits are the position of the start node among the requested
# nodes. The low bits contain the counts for the edge weight. Kind 0, passage to entity: low bits unused, and `more`
# contains the frequencies of the entities. Kind 1, entity to passage: four times the number of mentions, plus the kind
# of home. Kind 2, entity to entity: the number of facts. Kind 3, synonyms: low bits unused, and `more` contains the
# similarities. An entity in too many passages has no edges, unless a passage is about it. An entity of a single passage
# has no edge from this passage, because a walk could only return to this passage.
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
    """Look up the passages `ids`, and the entities that the query may name, in the database.

    Returns a graph of the nodes that exist, without edges, and the stamp, which identifies the state of the corpus. In
    the graph, nodes are sorted by name, and entities have their frequencies. Passages that are not in `allowed` are
    ignored; None allows all passages.
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
        {name: row for row, name in enumerate(passages)},
        {row[0]: place for place, row in enumerate(entities)},
        np.array([row[1] for row in entities], dtype=np.intp),
        np.array([row[2] for row in entities], dtype=bool),
    )
    return found, stamp


def stamp_of(node: object, changes: object) -> Stamp:
    """Return the stamp of a corpus from the element id of its node and the node's number of changes.

    The stamp identifies the state of the corpus.
    """
    return str(node), changes if isinstance(changes, int) else 0


TO_ENTITY, TO_PASSAGE, FACT, SYNONYM = range(4)


def take(
    known: KnownEdges,
    rows: Sequence[Row],
    asked: tuple[Sequence[str], Sequence[str]],
    passage_count: int,
    weights: EdgeWeights,
) -> None:
    """Add the rows that the statement `NEIGHBOURHOOD` returned to the known edges.

    `asked` are the requested passages and entities; a requested node without rows has no edges. `passage_count` is the
    number of passages of the corpus.
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
    """Return the edges between passages and entities in a row that the statement `NEIGHBOURHOOD` returned.

    The result is three arrays with an entry per edge: start node, end node, and weight. A start node is given by its
    position among the requested nodes. An end node is given by its code, the number that :class:`KnownEdges` assigns to
    it. `first` is the number of requested passages, and `passage_count` the number of passages of the corpus.
    """
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
    """Return the edges between entities in `rows`, which the statement `NEIGHBOURHOOD` returned.

    The result has the form of the result of :func:`_plain`. All facts and synonyms between two entities become a single
    edge.
    """
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
    """Unpack edges; each list of integers in `lists` contains the edges into an end node.

    Returns three values. The first is the position of each edge's start node among the requested nodes of its kind (the
    high bits of the integer). The second is each edge's value (the low bits): a number of facts, or of mentions with
    the kind of home. The third is the number of edges of each end node.
    """
    packed = np.fromiter(chain.from_iterable(lists), dtype=np.int64)
    return packed >> LOW_BITS, packed & ((1 << LOW_BITS) - 1), [len(each) for each in lists]


@dataclass(frozen=True)
class FetchSettings:
    """The limits for the edges that a walk may fetch.

    Parameters
    ----------
    nodes : int, default 20_000
        Maximum number of nodes whose edges a walk may use, at least 1.
    per_round : int, default 5000
        Maximum number of nodes whose edges a statement fetches, at least 1.
    unknown : float, default 0
        Fetching stops when nodes without fetched edges have at most this share of the mass, in [0, 1]. With 0, the walk
        equals a walk in memory.

    Raises
    ------
    InvalidInputError
        If a value is out of range.
    """

    nodes: int = 20_000
    per_round: int = 5000
    unknown: float = 0.0

    def __post_init__(self) -> None:
        check_count("nodes", self.nodes, minimum=1)
        check_count("per_round", self.per_round, minimum=1)
        check_range("unknown", self.unknown, 0, 1)


@dataclass(frozen=True, eq=False)
class LocalWalk:
    """The masses after a walk over the edges in `graph`, which this query or earlier queries fetched.

    `node_weights` are factors for the weights of edges into each node; None leaves the weights unchanged. `needed` is
    True for each node whose edges the walk needed. `unknown` is the share of the mass at needed nodes without fetched
    edges, and `complete` is True if this share is small enough. `fetched` is the number of nodes whose edges this query
    fetched.
    """

    graph: PartialGraph  # the edges that this query or earlier queries fetched
    walked: PageRankResult
    node_weights: FloatArray | None  # the weight of entering each node, by its relevance to the query
    seeding: Seeding
    unknown: float  # share of the mass at nodes whose edges the walk needs but lacks
    needed: BoolArray  # mask of the nodes whose edges the walk needed
    fetched: int  # number of nodes whose edges this query fetched
    complete: bool  # True if `unknown` is at most `FetchSettings.unknown`


@dataclass(eq=False)
class NeighbourhoodWalk:
    """A walk from weighted seeds that fetches the edges of a node from Neo4j when it reaches the node.

    `passages` and `entities` are the masses of the seeds, by passage id and by entity name. `state` is the number of
    allowed passages and the stamp of the corpus. `ranking` is the dense ranking, whose similarities are factors for
    the weights of edges into passages; None leaves these weights unchanged. `allowed` are the ids of the allowed
    passages; None allows all passages.
    """

    connection: Neo4jConnection
    corpus: str
    state: tuple[int, object]  # number of allowed passages and the stamp of the corpus
    passages: Mapping[str, float]  # masses of seed passages by id, positive; the sum of all masses need not be 1
    entities: Mapping[str, float]  # masses of seed entities by name
    follow_probability: float
    weights: EdgeWeights = field(default_factory=EdgeWeights)
    ranking: Ranking | None = None
    tolerance: float = 1e-6  # values below 1e-9 count as 1e-9
    limits: FetchSettings = field(default_factory=FetchSettings)
    kept: KeptEdges = field(default_factory=lambda: KeptEdges(0))  # for these weights and allowed passages
    allowed: Sequence[str] | None = None
    kernel: Kernel = "auto"

    def run(self) -> LocalWalk:
        """Run the walk; raise a `StoreError` only if the server fails before any edges are fetched."""
        self._push = push_settings(self.follow_probability, max(self.tolerance, LEAST_TOLERANCE), 0, None, self.kernel)
        self._known, self._shared = self.kept.known(self.state[1]), True
        self._began, self._fetched, self._rounds = time.monotonic(), 0, 0
        if self._known.lacks(self.passages, self.entities):
            mine = self._grow()
            mine.codes(True, self.passages)
            mine.codes(False, self.entities)
        walk = self._unbounded()
        if int(walk.needed.sum()) > self.limits.nodes:
            walk = self._within_budget()
        self.kept.keep(self.state[1], self._known, walk.needed)
        return walk

    def _unbounded(self) -> LocalWalk:
        """Walk over all known edges, and fetch missing edges until the walk is complete.

        Stops earlier if the walk needs the edges of more nodes than `FetchSettings.nodes`, or if a fetch fails.
        """
        walk = self._walk()
        while not walk.complete and int(walk.needed.sum()) <= self.limits.nodes:
            wanted = _greatest(walk, walk.needed & ~walk.graph.here, self.limits.per_round)
            if not self._fetch(wanted):
                break
            walk = self._walk()
        return walk

    def _within_budget(self) -> LocalWalk:
        """Walk as if the cache of edges were empty, so that the result does not depend on earlier queries.

        Each round adds the edges of the nodes with the most mass, until the number of nodes reaches
        `FetchSettings.nodes`. Edges in the cache are not fetched again.
        """
        passages: list[str] = []
        entities: list[str] = []
        while True:
            graph = self._known.graph
            here = np.zeros(graph.size, dtype=np.bool_)
            here[graph.rows_of(passages, entities)] = True
            walk = self._walk(here)
            budget = min(self.limits.per_round, self.limits.nodes - len(passages) - len(entities))
            wanted = _greatest(walk, walk.needed & ~here, budget)
            missing = wanted[~graph.here[wanted]]
            if walk.complete or not len(wanted) or (len(missing) and not self._fetch(missing)):
                return walk
            ids, names = graph.names_of(wanted)
            passages += ids
            entities += names

    def _grow(self) -> KnownEdges:
        """Return this query's own copy of the known edges, to which it can add edges; the first call makes the copy."""
        if self._shared:
            self._known, self._shared = self._known.copy(), False
        return self._known

    def _fetch(self, nodes: IntArray) -> bool:
        """Fetch the edges of `nodes`, and return True; return False if they could not be fetched.

        The first fetch always starts; if it fails, its StoreError is raised. A later fetch starts only if less than two
        thirds of the timeout have passed.
        """
        elapsed = time.monotonic() - self._began
        if self._rounds and elapsed > self.connection.timeout * 2 / 3:
            return False
        asked = self._known.graph.names_of(nodes)
        values = {
            "corpus": self.corpus,
            "most_common": most_common(self.state[0], self.weights),
            "passages": asked[0],
            "entities": asked[1],
            "shift": 1 << LOW_BITS,
        }
        statement = NEIGHBOURHOOD
        if self.allowed is not None:
            statement, values["allowed"] = NEIGHBOURHOOD_ALLOWED, self.allowed
        try:
            rows = self.connection.read(statement, values, timeout=max(self.connection.timeout - elapsed, 0.01))
        except StoreError:
            if not self._rounds:
                raise
            return False
        take(self._grow(), rows, asked, self.state[0], self.weights)
        self._fetched += len(nodes)
        self._rounds += 1
        return True

    def _walk(self, here: BoolArray | None = None) -> LocalWalk:
        """Walk over the known edges, or, with `here`, only over the edges of some nodes.

        `here` is a boolean array that is True for these nodes.
        """
        graph = self._known.graph
        node_weights = None if self.ranking is None else relevance(graph.as_graph(), self.ranking)
        masses = np.array([*self.passages.values(), *self.entities.values()])
        seeding = Seeding(graph.rows_of(tuple(self.passages), tuple(self.entities)), masses)
        operator = graph.operator if here is None else graph.walkable(here)
        seeds = as_seeds((seeding.nodes, seeding.masses), graph.size)
        walked = run_push(operator.rows(node_weights), operator.pool, seeds, self._push, None)
        waiting = walked.values / (1.0 - self._push.follow)
        # A pushed node had more mass than its threshold, so it is above this bound. For a node that was not pushed, the
        # share (1 - follow) of its mass has stopped at the node.
        above = waiting > self._push.threshold * (1.0 - 1e-9)
        needed = np.zeros(graph.size, dtype=np.bool_)
        needed[walked.nodes[above]] = True
        unknown = min(float(waiting[above & ~operator.here[walked.nodes]].sum()), 1.0)
        complete = unknown <= self.limits.unknown
        return LocalWalk(graph, walked, node_weights, seeding, unknown, needed, self._fetched, complete)


def _greatest(walk: LocalWalk, among: BoolArray, count: int) -> IntArray:
    """Return the `count` nodes with the most mass for which `among` is True; ties are broken by name.

    `among` is a boolean array with an entry per node. If it has at most `count` True entries, all these nodes are
    returned.
    """
    nodes = np.flatnonzero(among)
    if len(nodes) <= count:
        return nodes
    masses = walk.walked.mass[nodes]
    near = masses >= np.partition(masses, len(nodes) - count)[len(nodes) - count] if count else masses > np.inf
    nodes, masses = nodes[near], masses[near]
    ids, names = walk.graph.names_of(nodes)  # nodes ascend, so passages precede entities
    keys = [(True, one) for one in ids] + [(False, one) for one in names]
    order = sorted(range(len(nodes)), key=lambda place: (-masses[place], keys[place]))
    return nodes[order[:count]]
