"""Read passages, mentions and facts out of Neo4j, whatever wrote them, and of our own graphs what changed since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from phasegraph.errors import InvalidInputError
from phasegraph.graph.entity_graph.weights import HOME_LEAD, HOME_TITLE
from phasegraph.graph.neo4j.arguments import check_connection
from phasegraph.graph.neo4j.checks import check_corpus
from phasegraph.graph.neo4j.columns import columns_of, each_line, each_node, joined, line, read_together
from phasegraph.graph.neo4j.connection import BULK_SECONDS, Neo4jConnection
from phasegraph.graph.neo4j.foreign import read_foreign
from phasegraph.graph.neo4j.records import GraphChanges, GraphRecords, PassageRecord, in_order
from phasegraph.graph.neo4j.schema import PHASEGRAPH, GraphSchema, detect_schema, schema_named

_MENTIONS = f"[(p)-[m:`PHASEGRAPH_MENTIONS`]->(e:`PhasegraphEntity`) | {line('e.name', numbers=('m.count', 'm.home'))}]"
_PASSAGES = "MATCH (p:`PhasegraphPassage` {corpus: $corpus}) WHERE p.revision > $since\n"
_PASSAGE_ROWS = _PASSAGES + each_node("p", f"p.id, p.title, p.text, {joined(_MENTIONS)}")
_FACT_LINES = each_line("f.passage", "a.name", "f.predicate", "b.name", numbers=("f.count",))
_FACTS = f"""\
{_PASSAGES}MATCH (a:`PhasegraphEntity`)-[f:`PHASEGRAPH_FACT` {{corpus: $corpus, passage: p.id}}]->(b:`PhasegraphEntity`)
{_FACT_LINES}"""
_ALL_FACTS = f"""\
MATCH (a:`PhasegraphEntity` {{corpus: $corpus}})-[f:`PHASEGRAPH_FACT`]->(b:`PhasegraphEntity`)
{_FACT_LINES}"""
_SYNONYMS = """\
MATCH (a:`PhasegraphEntity` {corpus: $corpus})-[s:`PHASEGRAPH_SYNONYM`]->(b) RETURN a.name, b.name, s.similarity"""
_REVISION = "MATCH (c:`PhasegraphCorpus` {name: $corpus}) RETURN c.created, c.revision"
_REMOVED = "MATCH (p:`PhasegraphRemoved` {corpus: $corpus}) WHERE p.revision > $since RETURN p.id"
_HOMES = {str(HOME_TITLE), str(HOME_LEAD)}


def read_graph(
    connection: Neo4jConnection,
    schema: str | GraphSchema | None = None,
    *,
    corpus: str | None = None,
    deadline: float = BULK_SECONDS,
) -> GraphRecords:
    """Return every passage of a corpus with its mentions and facts.

    Parameters
    ----------
    connection : Neo4jConnection
        Where the graph lies.
    schema : str or GraphSchema, optional
        A preset's name or the names themselves; None detects the preset.
    corpus : str, optional
        Only passages with this value of the schema's corpus key; needed for our own schema.
    deadline : float, default 120
        Seconds per statement.

    Returns
    -------
    GraphRecords
        Passages sorted by id.

    Raises
    ------
    InvalidInputError
        If the schema is unknown or cannot be detected, or `corpus` and the schema's corpus key do not go
        together.
    StoreError
        If the server fails.
    """
    check_connection(connection)
    chosen = detect_schema(connection) if schema is None else schema_named(schema)
    _check_corpus(chosen, corpus)
    if chosen == PHASEGRAPH:
        return _own_graph(connection, str(corpus), deadline)
    return read_foreign(connection, chosen, corpus, deadline)


def read_changes(
    connection: Neo4jConnection, *, corpus: str, since: int, deadline: float = BULK_SECONDS
) -> GraphChanges:
    """Return what changed in a corpus of our own schema after a revision, reading nothing else.

    Parameters
    ----------
    connection : Neo4jConnection
        Where the graph lies.
    corpus : str
        Its corpus key.
    since : int
        `GraphRecords.revision` or `GraphChanges.revision` of the last reading, at least 0.
    deadline : float, default 120
        Seconds per statement.

    Returns
    -------
    GraphChanges
        For graphs of other schemas, compare two readings with `changes_between`.

    Raises
    ------
    InvalidInputError
        If `since` is negative.
    StoreError
        If the server fails.
    """
    if isinstance(since, bool) or not isinstance(since, int) or since < 0:
        raise InvalidInputError(f"since must be a revision of at least 0; {since!r:.40} was given")
    _check_corpus(PHASEGRAPH, corpus)
    created, revision = _revision(connection, corpus, deadline)
    if 0 < since < created or since > revision:
        raise InvalidInputError(
            f"since must be a revision of the corpus that is there now; {since} is of another one: read it whole"
        )
    if since == revision:
        return GraphChanges((), (), revision)
    values = {"corpus": corpus, "since": since}
    records = _own_records(connection, values, _FACTS, deadline)
    removed = sorted(str(row[0]) for row in connection.read(_REMOVED, values, deadline=deadline))
    return GraphChanges(records, tuple(removed), revision, _synonyms(connection, values, deadline))


def _check_corpus(schema: GraphSchema, corpus: str | None) -> None:
    if corpus is not None:
        check_corpus(corpus)
    if corpus is not None and schema.corpus_key is None:
        raise InvalidInputError(f"corpus needs a schema with a corpus_key; {schema.name!r} has none")
    if corpus is None and schema == PHASEGRAPH:
        raise InvalidInputError("corpus must be given for the schema 'phasegraph'; None was given")


def _revision(connection: Neo4jConnection, corpus: str, deadline: float) -> tuple[int, int]:
    """Return the revisions that the corpus started with and has come to."""
    rows = connection.read(_REVISION, {"corpus": corpus}, deadline=deadline)
    return (int(rows[0][0] or 0), int(rows[0][1])) if rows else (0, 0)


def _own_graph(connection: Neo4jConnection, corpus: str, deadline: float) -> GraphRecords:
    # The revision is read before the contents: a write in between is read twice, never missed.
    _, revision = _revision(connection, corpus, deadline)
    values = {"corpus": corpus, "since": -1}
    records = _own_records(connection, values, _ALL_FACTS, deadline)
    return GraphRecords(records, revision, synonyms=_synonyms(connection, values, deadline))


def _synonyms(
    connection: Neo4jConnection, values: Mapping[str, Any], deadline: float
) -> tuple[tuple[str, str, float], ...]:
    rows = connection.read(_SYNONYMS, values, deadline=deadline)
    return tuple(sorted((one, other, float(similarity)) for one, other, similarity in rows))


def _own_records(
    connection: Neo4jConnection, values: Mapping[str, Any], facts: str, deadline: float
) -> tuple[PassageRecord, ...]:
    blocks, lines = read_together(connection, (_PASSAGE_ROWS, facts), values, deadline)
    stated = _stated(lines)
    return in_order(
        [
            PassageRecord(passage, title, text, *_mentions(passage, mentioned, stated))
            for block in blocks
            for passage, title, text, mentioned in block[0]
        ]
    )


def _stated(rows: list[list[Any]]) -> dict[str, list[tuple[str, str, str, int]]]:
    """Facts by the passage that states them."""
    stated: dict[str, list[tuple[str, str, str, int]]] = {}
    *words, counts = columns_of((row[0] for row in rows), 5)
    for passage, subject, predicate, other, count in zip(*words, map(_number, counts), strict=True):
        stated.setdefault(passage, []).append((subject, predicate, other, count))
    return stated


def _mentions(passage: str, lines: str, stated: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Mentions, facts and homes of a passage."""
    names, counts, kinds = columns_of((lines,), 3)
    homes = [(name, int(kind)) for name, kind in zip(names, kinds, strict=True) if kind in _HOMES]
    return list(zip(names, map(_number, counts), strict=True)), stated.get(passage, ()), homes


def _number(count: str) -> int:
    """Read a count; whatever is none is left for the record to refuse."""
    return int(count) if count.isdecimal() else 0
