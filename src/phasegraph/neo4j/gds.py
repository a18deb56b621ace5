"""The walk run on the server by its Graph Data Science library, for graphs that are not to be held here."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from phasegraph.errors import InvalidInputError, StoreError
from phasegraph.graph.entity_graph import FEWEST_COMMON, EdgeWeights
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
    """Return the statement that projects a whole corpus into a named graph of GDS."""
    parts = [f"{match} RETURN {start} AS source, null AS target, 0.0 AS weight" for start, match in _STARTS.items()]
    for start, end, clauses, weight in _CLAUSES:
        parts.append(f"{_STARTS[start]} {clauses}\nRETURN {start} AS source, {end} AS target, {weight} AS weight")
    joined = "\nUNION ALL\n".join(parts)
    return (
        f"CALL () {{\n{joined} }}\n"
        "RETURN gds.graph.project($graph, source, target, {relationshipProperties: {weight: weight}}) AS projected"
    )


def edge_parameters(corpus: str, passage_count: int, weights: EdgeWeights) -> dict[str, Any]:
    """Return what the statement takes besides the name of the graph."""
    return {
        "corpus": corpus,
        "passage_count": passage_count,
        "most_common": most_common(passage_count, weights),
        "rarity_power": weights.rarity_power,
        "count_power": weights.count_power,
        "home": weights.home,
        "lead": weights.lead,
        "fact": weights.fact,
        "synonym": weights.synonym,
    }


def most_common(passage_count: int, weights: EdgeWeights) -> float:
    """Return in how many passages an entity may be that no passage is about, and still have edges."""
    return max(weights.common_share * passage_count, FEWEST_COMMON)


def corpus_state(connection: Neo4jConnection, corpus: str, *, timeout: float | None = None) -> tuple[int, int]:
    """Return how many passages a corpus has, and a stamp that is another after every change of it."""
    rows = connection.read(STATE, {"corpus": corpus}, timeout=timeout)
    return (int(rows[0][0]), int(rows[0][1] or 0)) if rows else (0, 0)


# Sets of seeds at most where their masses are written in binary: what is left out then is less than a
# two-millionth of the largest mass for each seed.
DIGITS = 20
TOLERANCE = 2e-9
_ITERATIONS = 200
_WEIGHTED_SINCE = (2, 17)
_VERSION = "RETURN gds.version()"
_PREFIX = "phasegraph-"
# The form of our names: another graph whose name merely starts like them is nobody's to list or drop but its owner's.
_OURS = re.compile(r"phasegraph-[0-9a-f]{12}-\d+-[0-9a-f]{12}")
_LIST = "CALL gds.graph.list() YIELD graphName WHERE graphName STARTS WITH $prefix RETURN graphName ORDER BY graphName"
_CATALOG = f"RETURN gds.version(), COLLECT {{ {_LIST} }}"
_DROP = "CALL gds.graph.drop($graph, false) YIELD graphName RETURN graphName"
# Without its log of every iteration GDS takes a quarter less time. Where nothing is found of a set it must not
# be walked: GDS 2.13 takes an empty list of seeds for all nodes.
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
    """A corpus in the server's memory, ready to be walked.

    Parameters
    ----------
    name : str
        The graph's name in the catalog of GDS; it tells corpus, stamp and weights apart.
    corpus : str
        The corpus.
    passage_count : int
        How many passages it has.
    weighted : bool, default False
        Whether the server's GDS takes seeds with masses of their own.
    """

    name: str
    corpus: str
    passage_count: int
    weighted: bool = False


def has_gds(connection: Neo4jConnection) -> bool:
    """Return whether the server has GDS; an unreachable server is an error, not a no."""
    try:
        connection.read(_VERSION)
    except StoreError as error:
        if str(error).startswith(("refused", "schema_missing")):
            return False
        raise
    return True


def project(connection: Neo4jConnection, corpus: str, weights: EdgeWeights | None = None) -> Projection:
    """Return the projection of a corpus as it is now, making it if need be and dropping the corpus's older ones.

    Parameters
    ----------
    connection : Neo4jConnection
        A server with GDS.
    corpus : str
        A corpus of our own schema.
    weights : EdgeWeights, optional
        How counts become weights.

    Returns
    -------
    Projection
        To be made again after a write.

    Raises
    ------
    InvalidInputError
        If the corpus has no passage.
    StoreError
        If the server fails or has no GDS.
    """
    chosen = EdgeWeights() if weights is None else weights
    passages, stamp = corpus_state(connection, corpus, timeout=BULK_SECONDS)
    if not passages:
        raise InvalidInputError(f"the corpus must hold passages; {corpus!r:.60} holds none")
    kin = _PREFIX + _short(corpus)
    name = f"{kin}-{stamp}-{_short(repr(chosen))}"
    version, names = connection.read(_CATALOG, {"prefix": f"{kin}-"})[0]
    present = _ours(names)
    if name not in present:
        values = {**edge_parameters(corpus, passages, chosen), "graph": name}
        try:
            connection.read(projection_statement(), values, timeout=BULK_SECONDS)
        except StoreError:  # somebody else may have made the same at the same time
            if name not in list_projections(connection, corpus):
                raise
    for other in present:
        if int(other.split("-")[2]) < stamp:  # a later one is another's, who has seen a later corpus
            connection.read(_DROP, {"graph": other}, warm=False)
    return Projection(name, corpus, passages, _takes_masses(str(version)))


def list_projections(connection: Neo4jConnection, corpus: str | None = None) -> tuple[str, ...]:
    """Return the names of the projections we made, of one corpus or of all, sorted.

    Raises
    ------
    StoreError
        If the server fails or has no GDS.
    """
    prefix = _PREFIX if corpus is None else f"{_PREFIX}{_short(corpus)}-"
    return _ours(row[0] for row in connection.read(_LIST, {"prefix": prefix}))


def drop_projections(connection: Neo4jConnection, corpus: str | None = None) -> None:
    """Drop the projections we made, of one corpus or of all; nobody else's.

    Raises
    ------
    StoreError
        If the server fails or has no GDS.
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
    timeout: float | None = None,
) -> dict[str, float]:
    """Return the mass of every passage that a walk from weighted seeds reaches.

    Parameters
    ----------
    connection : Neo4jConnection
        The server of the projection.
    projection : Projection
        Made by `project`.
    passages, entities : mapping of str to float
        Seeds by id and by name, with positive masses that need not sum to 1.
    follow_probability : float
        Of walking on, in [0, 1).
    tolerance : float, default 2e-9
        Share of all mass at which a node no longer hands on what has newly arrived; > 0.
    timeout : float, optional
        Seconds; the server ends the transaction then.

    Returns
    -------
    dict of str to float
        Masses in (0, 1]; with those of the entities they sum to 1.

    Raises
    ------
    StoreError
        If the server fails, or the projection is gone.
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
    rows = connection.read(_WALK_WEIGHTED if projection.weighted else _WALK_SETS, values, timeout=timeout)
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
    """Project a corpus if need be and walk it, see `project` and `walk_projection`; return both results.

    Where the corpus changes meanwhile and another client drops the projection for a newer one, that is walked.
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
    """Return sets of seeds with one mass each that add up to seeds with masses of their own.

    There is one set per different mass, or, where that would be more, one per binary digit of the masses.

    Parameters
    ----------
    passages, entities : mapping of str to float
        Masses > 0.

    Returns
    -------
    list of dict
        ``share``, and the names under ``passages`` and ``entities``; at most DIGITS + 1 sets.
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


def _takes_masses(version: str) -> bool:
    """Whether seeds may have masses of their own in this version of GDS, as 2.13.9 or 2026.03.0."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= _WEIGHTED_SINCE


def _ours(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if _OURS.fullmatch(name)))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
