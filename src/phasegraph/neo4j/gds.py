"""The walk run by the server's Graph Data Science library, for graphs too large to hold here."""

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
# One per kind of edge: where it starts, where it leads, the clauses that find it, its weight. An entity in
# too many passages has no edges unless some passage is about it; one of a single passage is not entered from
# there, which would only lead back.
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
    """The statement that projects a whole corpus into a named graph of GDS."""
    parts = [f"{match} RETURN {start} AS source, null AS target, 0.0 AS weight" for start, match in _STARTS.items()]
    for start, end, clauses, weight in _CLAUSES:
        parts.append(f"{_STARTS[start]} {clauses}\nRETURN {start} AS source, {end} AS target, {weight} AS weight")
    joined = "\nUNION ALL\n".join(parts)
    return (
        f"CALL () {{\n{joined} }}\n"
        "RETURN gds.graph.project($graph, source, target, {relationshipProperties: {weight: weight}}) AS projected"
    )


def most_common(passage_count: int, weights: EdgeWeights) -> float:
    """In how many passages an entity may be that no passage is about, and still have edges."""
    return max(weights.common_share * passage_count, FEWEST_COMMON)


def corpus_state(connection: Neo4jConnection, corpus: str, *, timeout: float | None = None) -> tuple[int, int]:
    """How many passages a corpus has, and a stamp that is another after every change of it."""
    rows = connection.read(STATE, {"corpus": corpus}, timeout=timeout)
    return (int(rows[0][0]), int(rows[0][1] or 0)) if rows else (0, 0)


# Sets of seeds at most where their masses are written in binary; what is left out of each seed then is less than a
# two-millionth of the largest mass.
DIGITS = 20
TOLERANCE = 2e-9
_ITERATIONS = 200
_WEIGHTED_SINCE = (2, 17)
_VERSION = "RETURN gds.version()"
_PREFIX = "phasegraph-"
# The form of our names; another graph whose name merely starts like them is not ours to list or drop.
_OURS = re.compile(r"phasegraph-[0-9a-f]{12}-\d+-[0-9a-f]{12}")
_LIST = "CALL gds.graph.list() YIELD graphName WHERE graphName STARTS WITH $prefix RETURN graphName ORDER BY graphName"
_CATALOG = f"RETURN gds.version(), COLLECT {{ {_LIST} }}"
_DROP = "CALL gds.graph.drop($graph, false) YIELD graphName RETURN graphName"
# Without its log of every iteration GDS takes a quarter less time. A set of which nothing is found must not be walked:
# GDS 2.13 takes an empty list of seeds for all nodes.
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
    """A corpus in the server's memory, ready to be walked."""

    name: str  # in the catalog of GDS; it tells corpus, stamp and weights apart
    corpus: str
    passage_count: int
    weighted: bool = False  # whether the server's GDS takes seeds with masses of their own


def has_gds(connection: Neo4jConnection) -> bool:
    """Whether the server has GDS; an unreachable server is an error, not a no."""
    try:
        connection.read(_VERSION)
    except StoreError as error:
        if str(error).startswith(("refused", "schema_missing")):
            return False
        raise
    return True


def project(connection: Neo4jConnection, corpus: str, weights: EdgeWeights | None = None) -> Projection:
    """Return the projection of a corpus as it is now, making it if need be and dropping the corpus's older ones."""
    chosen = EdgeWeights() if weights is None else weights
    passages, stamp = corpus_state(connection, corpus, timeout=BULK_SECONDS)
    if not passages:
        raise InvalidInputError(f"the corpus {corpus!r:.60} has no passages")
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
        except StoreError:  # somebody else may have made the same at the same time
            if name not in list_projections(connection, corpus):
                raise
    for other in present:
        if int(other.split("-")[2]) < stamp:  # a later one belongs to a client that has seen a later corpus
            connection.read(_DROP, {"graph": other}, warm=False)
    numbers = re.match(r"(\d+)\.(\d+)", str(version))
    weighted = numbers is not None and (int(numbers[1]), int(numbers[2])) >= _WEIGHTED_SINCE
    return Projection(name, corpus, passages, weighted)


def list_projections(connection: Neo4jConnection, corpus: str | None = None) -> tuple[str, ...]:
    """Return the names of the projections we made, of one corpus or of all, sorted; an error without GDS."""
    prefix = _PREFIX if corpus is None else f"{_PREFIX}{_short(corpus)}-"
    return _ours(row[0] for row in connection.read(_LIST, {"prefix": prefix}))


def drop_projections(connection: Neo4jConnection, corpus: str | None = None) -> None:
    """Drop the projections we made, of one corpus or of all, and nobody else's; an error without GDS."""
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
    """The mass, in (0, 1], of every passage that a walk from weighted seeds reaches; with the entities' they sum to 1.

    Seeds are given by id and by name, with positive masses that need not sum to 1. At a share of `tolerance` of all
    mass a node no longer hands on what has newly arrived.
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
    """Project a corpus if need be and walk it; where another client drops the projection for a newer one, that."""
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
    """Sets of seeds with one mass each that add up to seeds with masses of their own.

    There is one set per different mass, or, where that would be more than DIGITS, one per binary digit of the masses.
    A set has its ``share``, and the names under ``passages`` and ``entities``.
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
    """The powers of two, none below that of `lowest`, that add up to a mass."""
    whole = round(math.ldexp(mass, -lowest))
    return [math.ldexp(1.0, place + lowest) for place in range(whole.bit_length()) if whole >> place & 1]


def _ours(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if _OURS.fullmatch(name)))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
