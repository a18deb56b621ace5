"""The walk run on the server by its Graph Data Science library, for graphs that do not fit beside the caller.

GDS before 2.17 (Neo4j 5.26 has 2.13) restarts all seeds with equal mass. A walk is linear in where it
restarts, so the seeds are put into classes of equal mass, one walk is run per class, and the results are
added with the classes' masses. GDS loses the mass of nodes without out-edges where ours restarts it;
restarted mass is spread like the first, so dividing by the sum gives the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from phasegraph.errors import InvalidInputError, StoreError
from phasegraph.graph.entity_graph import EdgeWeights
from phasegraph.graph.neo4j.connection import BULK_SECONDS, Neo4jConnection
from phasegraph.graph.neo4j.edges import corpus_state, edge_parameters, projection_statement

_VERSION = "RETURN gds.version()"
_PREFIX = "phasegraph-"
_LIST = "CALL gds.graph.list() YIELD graphName WHERE graphName STARTS WITH $prefix RETURN graphName ORDER BY graphName"
_DROP = "CALL gds.graph.drop($graph, false) YIELD graphName RETURN graphName"
_WALK = """\
UNWIND $classes AS class
CALL (class) {
  OPTIONAL MATCH (p:`PhasegraphPassage` {corpus: $corpus}) WHERE p.id IN class.passages
  WITH class, collect(p) AS passages
  OPTIONAL MATCH (e:`PhasegraphEntity` {corpus: $corpus}) WHERE e.name IN class.entities
  WITH class, passages, collect(e) AS entities
  CALL gds.pageRank.stream($graph, {
    sourceNodes: passages + entities, relationshipWeightProperty: 'weight',
    dampingFactor: $follow, maxIterations: $iterations, tolerance: $tolerance, concurrency: 1
  }) YIELD nodeId, score WHERE score > 0
  RETURN nodeId, score * class.mass AS part }
WITH nodeId, sum(part) AS mass
WITH collect([nodeId, mass]) AS reached, sum(mass) AS total
UNWIND reached AS each
WITH gds.util.asNode(each[0]) AS node, each[1] / total AS mass WHERE node:`PhasegraphPassage`
RETURN node.id, mass"""


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
    """

    name: str
    corpus: str
    passage_count: int


def has_gds(connection: Neo4jConnection) -> bool:
    """Return whether the server has GDS; an unreachable server is an error, not a no."""
    try:
        connection.read(_VERSION)
    except StoreError as error:
        if str(error).startswith("refused"):
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
    passages, stamp = corpus_state(connection, corpus, deadline=BULK_SECONDS)
    if not passages:
        raise InvalidInputError(f"the corpus must hold passages; {corpus!r:.60} holds none")
    kin = _PREFIX + _short(corpus)
    name = f"{kin}-{stamp}-{_short(repr(chosen))}"
    present = list_projections(connection, corpus)
    if name not in present:
        values = {**edge_parameters(corpus, passages, chosen), "graph": name}
        connection.read(projection_statement(), values, deadline=BULK_SECONDS)
    for other in present:
        if other.startswith(f"{kin}-") and not other.startswith(f"{kin}-{stamp}-"):
            connection.read(_DROP, {"graph": other})
    return Projection(name, corpus, passages)


def list_projections(connection: Neo4jConnection, corpus: str | None = None) -> tuple[str, ...]:
    """Return the names of the projections we made, of one corpus or of all, sorted."""
    prefix = _PREFIX if corpus is None else f"{_PREFIX}{_short(corpus)}-"
    return tuple(str(row[0]) for row in connection.read(_LIST, {"prefix": prefix}))


def drop_projections(connection: Neo4jConnection, corpus: str | None = None) -> None:
    """Drop the projections we made, of one corpus or of all; nobody else's."""
    for name in list_projections(connection, corpus):
        connection.read(_DROP, {"graph": name})


def walk_projection(
    connection: Neo4jConnection,
    projection: Projection,
    passages: Mapping[str, float],
    entities: Mapping[str, float],
    *,
    follow_probability: float,
    tolerance: float = 1e-8,
    deadline: float | None = None,
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
    tolerance : float, default 1e-8
        Largest change of a node's mass at which GDS stops.
    deadline : float, optional
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
    classes: dict[float, dict[str, list[str]]] = {}
    for kind, seeds in (("passages", passages), ("entities", entities)):
        for name, mass in seeds.items():
            classes.setdefault(float(mass), {"passages": [], "entities": []})[kind].append(name)
    values = {
        "graph": projection.name,
        "corpus": projection.corpus,
        "classes": [{"mass": mass, **names} for mass, names in classes.items()],
        "follow": follow_probability,
        "iterations": 200,
        "tolerance": tolerance,
    }
    return {str(name): float(mass) for name, mass in connection.read(_WALK, values, deadline=deadline)}


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
