"""Walks that run in Neo4j's Graph Data Science library (GDS), for graphs that are too large for this process."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from phasegraph.errors import InvalidInputError, StoreError
from phasegraph.graph.model.entity_graph import FEWEST_COMMON, EdgeWeights
from phasegraph.neo4j.connection import BULK_SECONDS, Neo4jConnection

_FREQUENCY = "COUNT { (e)<-[:`PHASEGRAPH_MENTIONS`]-() }"
_ANCHORED = "EXISTS { (e)<-[h:`PHASEGRAPH_MENTIONS`]-() WHERE h.home > 0 }"
_PASSAGE = "MATCH (p:`PhasegraphPassage` {corpus: $corpus})"
_ENTITY = "MATCH (e:`PhasegraphEntity` {corpus: $corpus})"
STATE = """\
MATCH (c:`PhasegraphCorpus` {name: $corpus})
RETURN COUNT { MATCH (p:`PhasegraphPassage` {corpus: $corpus}) }, c.stamp"""
# An entry per kind of edge: the variable of its start, the variable of its end, the clauses that find it, its weight.
# An entity in too many passages has no edges, unless a passage is about it. An entity of a single passage has no edge
# from this passage, because a walk could only return to this passage.
_CLAUSES = (
    (
        "p",
        "e",
        f"MATCH (p)-[:`PHASEGRAPH_MENTIONS`]->(e) WITH p, e, {_FREQUENCY} AS df "
        f"WHERE df > 1 AND (df <= $most_common OR {_ANCHORED})",
        "log(1.0 + toFloat($passage_count) / df) ^ $rarity_power",
    ),
    (
        "e",
        "p",
        f"WITH e, {_FREQUENCY} AS df WHERE df <= $most_common OR {_ANCHORED} MATCH (e)<-[m:`PHASEGRAPH_MENTIONS`]-(p)",
        "toFloat(m.count) ^ $count_power + CASE m.home WHEN 2 THEN $home WHEN 1 THEN $lead ELSE 0.0 END",
    ),
    ("e", "o", "MATCH (e)-[f:`PHASEGRAPH_FACT`]-(o) WHERE o <> e", "f.count * $fact"),
    ("e", "o", "MATCH (e)-[s:`PHASEGRAPH_SYNONYM`]-(o) WHERE o <> e", "s.similarity * $synonym"),
)
_STARTS = {"p": _PASSAGE, "e": _ENTITY}


def projection_statement() -> str:
    """Return the Cypher statement that copies the edges of a corpus into a named in-memory graph of GDS.

    GDS is Neo4j's Graph Data Science library.
    """
    parts = [f"{match} RETURN {start} AS source, null AS target, 0.0 AS weight" for start, match in _STARTS.items()]
    for start, end, clauses, weight in _CLAUSES:
        parts.append(f"{_STARTS[start]} {clauses}\nRETURN {start} AS source, {end} AS target, {weight} AS weight")
    joined = "\nUNION ALL\n".join(parts)
    return (
        f"CALL () {{\n{joined} }}\n"
        "RETURN gds.graph.project($graph, source, target, {relationshipProperties: {weight: weight}}) AS projected"
    )


def most_common(passage_count: int, weights: EdgeWeights) -> float:
    """Return the maximum number of passages that may mention an entity with edges; a more common entity has no edges.

    The limit does not apply to entities with a home passage (a passage about the entity).
    """
    return max(weights.common_share * passage_count, FEWEST_COMMON)


def corpus_state(connection: Neo4jConnection, corpus: str, *, timeout: float | None = None) -> tuple[int, int]:
    """Return the number of passages of a corpus, and its stamp, a number that changes when the corpus changes.

    For an unknown corpus, both numbers are 0.
    """
    rows = connection.read(STATE, {"corpus": corpus}, timeout=timeout)
    return (int(rows[0][0]), int(rows[0][1] or 0)) if rows else (0, 0)


# The maximum number of seed sets if seed masses are written in binary. The part of each mass that is then neglected is
# less than a two-millionth of the largest mass.
DIGITS = 20
TOLERANCE = 2e-9
_ITERATIONS = 200
_WEIGHTED_SINCE = (2, 17)
_VERSION = "RETURN gds.version()"
_PREFIX = "phasegraph-"
# The pattern of our projection names. A graph of another program may start with the same prefix.
_OURS = re.compile(r"phasegraph-[0-9a-f]{12}-\d+-[0-9a-f]{12}")
_LIST = "CALL gds.graph.list() YIELD graphName WHERE graphName STARTS WITH $prefix RETURN graphName ORDER BY graphName"
_CATALOG = f"RETURN gds.version(), COLLECT {{ {_LIST} }}"
_DROP = "CALL gds.graph.drop($graph, false) YIELD graphName RETURN graphName"
# Without a log line per iteration, GDS needs a quarter less time. A seed set without nodes must not be walked, because
# GDS 2.13 treats an empty list of seeds as all nodes.
_WALK = """\
  CALL gds.pageRank.stream($graph, {
    sourceNodes: seeds, relationshipWeightProperty: 'weight', dampingFactor: $follow,
    maxIterations: $iterations, tolerance: $tolerance / share, concurrency: 1, logProgress: false
  }) YIELD nodeId, score WHERE score > 0
  RETURN nodeId, score * share AS part }
WITH gds.util.asNode(nodeId) AS node, sum(part) AS mass
RETURN CASE WHEN node:`PhasegraphPassage` THEN node.id END AS id, sum(mass)"""
_WALK_SETS = f"""\
UNWIND $sets AS each
CALL (each) {{
  OPTIONAL MATCH (p:`PhasegraphPassage` {{corpus: $corpus}}) WHERE p.id IN each.passages
  WITH each, collect(p) AS passages
  OPTIONAL MATCH (e:`PhasegraphEntity` {{corpus: $corpus}}) WHERE e.name IN each.entities
  WITH each, passages, collect(e) AS entities
  WITH each.share AS share, passages + entities AS seeds WHERE size(seeds) > 0
{_WALK}"""
_WALK_WEIGHTED = f"""\
CALL () {{
  UNWIND $passages AS row MATCH (p:`PhasegraphPassage` {{corpus: $corpus, id: row[0]}}) RETURN p AS seed, row[1] AS bias
  UNION ALL
  UNWIND $entities AS row MATCH (e:`PhasegraphEntity` {{corpus: $corpus, name: row[0]}})
  RETURN e AS seed, row[1] AS bias }}
WITH collect([seed, bias]) AS found
CALL (found) {{
  WITH 1.0 AS share, found AS seeds WHERE size(found) > 0
{_WALK}"""


@dataclass(frozen=True)
class Projection:
    """A projection of a corpus: a copy of its edges in the server's memory, on which Graph Data Science (GDS) walks.

    `name` is the projection's name in GDS. `weighted` is True if the server's GDS supports weighted seeds.
    """

    name: str  # in the catalog of GDS; it identifies corpus, stamp and weights
    corpus: str
    passage_count: int
    weighted: bool = False  # True if the server's GDS supports weighted seeds


def has_gds(connection: Neo4jConnection) -> bool:
    """Return True if the server has Neo4j's Graph Data Science library (GDS).

    Raises StoreError if the server cannot be reached.
    """
    try:
        connection.read(_VERSION)
    except StoreError as error:
        if str(error).startswith(("refused", "schema_missing")):
            return False
        raise
    return True


def project(connection: Neo4jConnection, corpus: str, weights: EdgeWeights | None = None) -> Projection:
    """Return the projection (:class:`Projection`) of a corpus's current state, and drop older projections.

    The projection is created if it does not exist. `weights` are the settings that convert counts to edge weights; None
    means the defaults. Each choice of weights has its own projection. Raises InvalidInputError if the corpus has no
    passages.
    """
    chosen = EdgeWeights() if weights is None else weights
    passages, stamp = corpus_state(connection, corpus, timeout=BULK_SECONDS)
    if not passages:
        raise InvalidInputError(f"the corpus {corpus!r:.60} has no passages: write passages with write_graph")
    kin = _PREFIX + _short(corpus)
    name = f"{kin}-{stamp}-{_short(repr(chosen))}"
    version, names = connection.read(_CATALOG, {"prefix": f"{kin}-"})[0]
    present = _ours(names)
    if name not in present:
        values = {
            "graph": name,
            "corpus": corpus,
            "passage_count": passages,
            "most_common": most_common(passages, chosen),
            "rarity_power": chosen.rarity_power,
            "count_power": chosen.count_power,
            "home": chosen.home,
            "lead": chosen.lead,
            "fact": chosen.fact,
            "synonym": chosen.synonym,
        }
        try:
            connection.read(projection_statement(), values, timeout=BULK_SECONDS)
        except StoreError:  # another client may have created the same projection at the same time
            if name not in list_projections(connection, corpus):
                raise
    for other in present:
        if int(other.split("-")[2]) < stamp:  # a later projection belongs to a client that knows a later state
            connection.read(_DROP, {"graph": other}, warm=False)
    numbers = re.match(r"(\d+)\.(\d+)", str(version))
    weighted = numbers is not None and (int(numbers[1]), int(numbers[2])) >= _WEIGHTED_SINCE
    return Projection(name, corpus, passages, weighted)


def list_projections(connection: Neo4jConnection, corpus: str | None = None) -> tuple[str, ...]:
    """Return the sorted names of phasegraph's projections of a corpus, or of all corpora if `corpus` is None.

    Raises StoreError if the server lacks Neo4j's Graph Data Science library (GDS).
    """
    prefix = _PREFIX if corpus is None else f"{_PREFIX}{_short(corpus)}-"
    return _ours(row[0] for row in connection.read(_LIST, {"prefix": prefix}))


def drop_projections(connection: Neo4jConnection, corpus: str | None = None) -> None:
    """Drop phasegraph's projections of a corpus, or of all corpora if `corpus` is None.

    Raises StoreError if the server lacks Neo4j's Graph Data Science library (GDS).
    """
    for name in list_projections(connection, corpus):
        connection.read(_DROP, {"graph": name}, warm=False)


def walk_projection(
    connection: Neo4jConnection,
    projection: Projection,
    passages: Mapping[str, float],
    entities: Mapping[str, float],
    *,
    follow_probability: float,
    tolerance: float = TOLERANCE,
) -> dict[str, float]:
    """Walk from weighted seeds; return the mass, in (0, 1], of every passage that the walk reaches, by id.

    The returned masses, together with the masses of the entities, which are not returned, sum to 1. `passages` and
    `entities` are the seeds: positive masses by passage id and by entity name, with any sum. A node does not pass on
    new mass that is below the share `tolerance` of all mass.
    """
    total = math.fsum((*passages.values(), *entities.values()))
    kinds = {"passages": passages, "entities": entities}
    shares = {kind: {name: mass / total for name, mass in seeds.items()} for kind, seeds in kinds.items()}
    values: dict[str, Any] = {
        "graph": projection.name,
        "corpus": projection.corpus,
        "follow": follow_probability,
        "iterations": _ITERATIONS,
        "tolerance": tolerance,
    }
    if projection.weighted:
        values |= {kind: [[name, share] for name, share in seeds.items()] for kind, seeds in shares.items()}
    else:
        values["sets"] = seed_sets(**shares)
    rows = connection.read(_WALK_WEIGHTED if projection.weighted else _WALK_SETS, values)
    walked = math.fsum(mass for _, mass in rows)
    return {name: mass / walked for name, mass in rows if name is not None}


def walk_corpus(
    connection: Neo4jConnection,
    corpus: str,
    weights: EdgeWeights | None,
    passages: Mapping[str, float],
    entities: Mapping[str, float],
    *,
    follow_probability: float,
) -> tuple[Projection, dict[str, float]]:
    """Walk the current projection of a corpus, and return the projection and the masses of passages by id.

    The seeds are as in :func:`walk_projection`, and `weights` as in :func:`project`. If another client replaces the
    projection during the walk, the new projection is walked.
    """
    walk = partial(walk_projection, passages=passages, entities=entities, follow_probability=follow_probability)
    projection = project(connection, corpus, weights)
    try:
        return projection, walk(connection, projection)
    except StoreError as error:
        answered = str(error).startswith(("refused", "schema_missing"))
        if not answered or projection.name in list_projections(connection, corpus):
            raise
    projection = project(connection, corpus, weights)
    return projection, walk(connection, projection)


def seed_sets(passages: Mapping[str, float], entities: Mapping[str, float]) -> list[dict[str, Any]]:
    """Divide weighted seeds into sets whose seeds all have the same mass, for a GDS without weighted seeds.

    A seed can be in several sets; the masses of these sets add up to the mass of the seed. With up to DIGITS distinct
    masses, each distinct mass gets a set. With more distinct masses, each mass is rounded to a sum of powers of two,
    and each power of two gets a set. A set is a mapping with the mass ``share`` of each seed, and the names of the
    seeds in ``passages`` and ``entities``.
    """
    seeds = [("passages", name, mass) for name, mass in passages.items()]
    seeds += [("entities", name, mass) for name, mass in entities.items()]
    exact = len({mass for *_, mass in seeds}) <= DIGITS
    lowest = math.frexp(max((mass for *_, mass in seeds), default=1.0))[1] - DIGITS
    sets: dict[float, dict[str, Any]] = {}
    for kind, name, mass in seeds:
        for part in (mass,) if exact else _binary(mass, lowest):
            sets.setdefault(part, {"share": part, "passages": [], "entities": []})[kind].append(name)
    return list(sets.values())


def _binary(mass: float, lowest: int) -> list[float]:
    """Round a mass to a multiple of ``2 ** lowest``, and return the powers of two that add up to the result."""
    whole = round(math.ldexp(mass, -lowest))
    return [math.ldexp(1.0, place + lowest) for place in range(whole.bit_length()) if whole >> place & 1]


def _ours(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if _OURS.fullmatch(name)))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
