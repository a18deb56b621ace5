"""The walk's edges as the server works them out for a projection: the formulas of `EdgeWeights` in Cypher.

A projection holds what `EntityGraph.adjacency` would hold. Weights are derived from counts as they are read: a
new passage changes the rarity of its entities everywhere, and nothing stored goes stale. (A fetched
neighbourhood brings counts, and `EdgeWeights` weighs them.)
"""

from __future__ import annotations

from typing import Any

from phasegraph.graph.entity_graph import EdgeWeights
from phasegraph.graph.entity_graph.weights import FEWEST_COMMON
from phasegraph.graph.neo4j.connection import Neo4jConnection

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


def corpus_state(connection: Neo4jConnection, corpus: str, *, deadline: float | None = None) -> tuple[int, int]:
    """Return how many passages a corpus has, and a stamp that is another after every change of it."""
    rows = connection.read(STATE, {"corpus": corpus}, deadline=deadline)
    return (int(rows[0][0]), int(rows[0][1] or 0)) if rows else (0, 0)
