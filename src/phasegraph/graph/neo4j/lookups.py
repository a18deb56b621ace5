"""What one query asks of the server: its names, and the out-edges of some nodes, as counts.

A server spends most on finding nodes by name and on reading the names at the other end, so every node is found
once per statement and every name comes once, with the places in the list of those who lead there. Each statement
has a restricted form, in which nothing is matched, counted or returned but what the passages ``$allowed`` hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from phasegraph.graph.entity_graph import normalise_name, split_words
from phasegraph.graph.extraction.gazetteer import MAX_WORDS
from phasegraph.graph.neo4j.connection import Neo4jConnection
from phasegraph.graph.neo4j.partial import PartialGraph

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
