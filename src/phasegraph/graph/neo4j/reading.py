"""Read passages, mentions and facts out of Neo4j, with two statements whatever wrote them.

A fact belongs to the passages that mention both its ends, and to the one its own property names. LlamaIndex
keeps only the last chunk of a relation, langchain-neo4j and neo4j-graphrag keep none, so the property alone
would lose most of them; and a fact that no passage of the corpus vouches for is not read into it, so that two
corpora in one database never walk through each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from phasegraph.errors import InvalidInputError
from phasegraph.graph.entity_graph.weights import HOME_LEAD, HOME_TITLE
from phasegraph.graph.neo4j.checks import check_corpus
from phasegraph.graph.neo4j.connection import BULK_SECONDS, Neo4jConnection
from phasegraph.graph.neo4j.cypher import quote, render
from phasegraph.graph.neo4j.records import GraphChanges, GraphRecords, PassageRecord, named_record
from phasegraph.graph.neo4j.schema import PHASEGRAPH, GraphSchema, detect_schema, for_entities, schema_named

Fact: TypeAlias = tuple[str, str, str, int]

_PASSAGES = """\
MATCH (p:«passage») WHERE p.«text» IS NOT NULL AND {only}
OPTIONAL MATCH (p)-[m:«provenance»]-(e«:entity») WHERE NOT e:«passage»
WITH p, {name_e} AS name, count(m) AS mentions
WITH p, collect(name) AS names, collect(CASE WHEN name IS NULL THEN NULL ELSE mentions END) AS counts
RETURN {id}, elementId(p), {title}, p.«text», names, counts"""

_FACTS = """\
MATCH (a:«entity»)-[r]->(b:«entity»)
WITH {source} AS source, {name_a} AS subject, type(r) AS predicate, {name_b} AS other
WHERE subject IS NOT NULL AND other IS NOT NULL
RETURN source, subject, collect(predicate), collect(other)"""

_FACTS_OF_ANY = """\
MATCH (p:«passage»)-[:«provenance»]-(a) WHERE NOT a:«passage» WITH DISTINCT a
MATCH (a)-[r]->(b) WHERE NOT b:«passage»
WITH {source} AS source, {name_a} AS subject, type(r) AS predicate, {name_b} AS other
WHERE subject IS NOT NULL AND other IS NOT NULL
RETURN source, subject, collect(predicate), collect(other)"""

# Counts are nearly always 1, and every value costs the driver as much as a word of text: null stands for all
# ones.
_COUNTS = "CASE WHEN all(each IN counts WHERE each = 1) THEN null ELSE counts END"
_OWN_PASSAGES = f"""\
MATCH (p:`PhasegraphPassage` {{corpus: $corpus}}) WHERE p.revision > $since
OPTIONAL MATCH (p)-[m:`PHASEGRAPH_MENTIONS`]->(e:`PhasegraphEntity`)
WITH p, collect(e.name) AS names, collect(m.count) AS counts,
  collect(CASE m.home WHEN 2 THEN e.name END) AS titles, collect(CASE m.home WHEN 1 THEN e.name END) AS leads
RETURN p.id, p.title, p.text, names, {_COUNTS}, titles, leads"""

_END = f"""\
WITH f.passage AS passage, collect(f.count) AS counts, collect(a.name) AS subjects,
  collect(f.predicate) AS predicates, collect(b.name) AS others
RETURN passage, subjects, predicates, others, {_COUNTS}"""
_OWN_FACTS = f"""\
MATCH (p:`PhasegraphPassage` {{corpus: $corpus}}) WHERE p.revision > $since
MATCH (a:`PhasegraphEntity`)-[f:`PHASEGRAPH_FACT` {{corpus: $corpus, passage: p.id}}]->(b:`PhasegraphEntity`)
{_END}"""
_ALL_OWN_FACTS = f"""\
MATCH (a:`PhasegraphEntity` {{corpus: $corpus}})-[f:`PHASEGRAPH_FACT`]->(b:`PhasegraphEntity`)
{_END}"""

_SYNONYMS = """\
MATCH (a:`PhasegraphEntity` {corpus: $corpus})-[s:`PHASEGRAPH_SYNONYM`]->(b) RETURN a.name, b.name, s.similarity"""
_REVISION = "MATCH (c:`PhasegraphCorpus` {name: $corpus}) RETURN c.revision"
_REMOVED = "MATCH (p:`PhasegraphRemoved` {corpus: $corpus}) WHERE p.revision > $since RETURN p.id"


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
    chosen = detect_schema(connection) if schema is None else schema_named(schema)
    _check_corpus(chosen, corpus)
    values = {"corpus": corpus, "since": -1}
    if chosen == PHASEGRAPH:
        return _own_graph(connection, values, deadline)
    rows = connection.read(_passages_statement(chosen), values, deadline=deadline)
    found = _grouped_facts(connection.read(_facts_statement(chosen), values, deadline=deadline))
    placed, unplaced = _place(rows, found)
    records = [_foreign_record(row, placed.get(_passage_id(row), ())) for row in rows]
    stable = all(_named(row[0]) for row in rows)
    # With a corpus, a fact that none of its passages vouches for may be another corpus's: it is not handed
    # out.
    left = unplaced if corpus is None else ()
    return GraphRecords(_in_order(records), unplaced=left, stable_ids=stable)


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
    values = {"corpus": corpus, "since": since}
    revision = _revision(connection, corpus, deadline)
    records = _own_records(connection, values, _OWN_FACTS, deadline)
    removed = sorted(str(row[0]) for row in connection.read(_REMOVED, values, deadline=deadline))
    return GraphChanges(records, tuple(removed), revision)


def _check_corpus(schema: GraphSchema, corpus: str | None) -> None:
    if corpus is not None:
        check_corpus(corpus)
    if corpus is not None and schema.corpus_key is None:
        raise InvalidInputError(f"corpus needs a schema with a corpus_key; {schema.name!r} has none")
    if corpus is None and schema == PHASEGRAPH:
        raise InvalidInputError("corpus must be given for the schema 'phasegraph'; None was given")


def _passages_statement(schema: GraphSchema) -> str:
    only = "true" if schema.corpus_key is None else "($corpus IS NULL OR p.«corpus» = $corpus)"
    text = _PASSAGES.format(
        only=only,
        name_e=_first_of("e", schema.name_keys),
        id=_first_of("p", schema.id_keys),
        title=_first_of("p", schema.title_keys),
    )
    return render(for_entities(text, schema), schema.names())


def _facts_statement(schema: GraphSchema) -> str:
    source = "null" if schema.fact_source_key is None else "r.«fact_source»"
    template = _FACTS if schema.entity_label is not None else _FACTS_OF_ANY
    keys = schema.name_keys
    text = template.format(source=source, name_a=_first_of("a", keys), name_b=_first_of("b", keys))
    return render(text, schema.names())


def _first_of(variable: str, keys: Sequence[str]) -> str:
    """Return an expression for the first of several properties that is there, as text."""
    options = [f"toStringOrNull({variable}.{quote(key, 'property key')})" for key in keys]
    return f"coalesce({', '.join(options)})" if options else "null"


def _revision(connection: Neo4jConnection, corpus: str | None, deadline: float) -> int:
    rows = connection.read(_REVISION, {"corpus": corpus}, deadline=deadline)
    return int(rows[0][0]) if rows else 0


def _own_graph(connection: Neo4jConnection, values: Mapping[str, Any], deadline: float) -> GraphRecords:
    # The revision is read before the contents: a write in between is read twice, never missed.
    revision = _revision(connection, values["corpus"], deadline)
    records = _own_records(connection, values, _ALL_OWN_FACTS, deadline)
    synonyms = connection.read(_SYNONYMS, values, deadline=deadline)
    return GraphRecords(records, revision, synonyms=tuple(sorted((*row[:2], float(row[2])) for row in synonyms)))


def _own_records(
    connection: Neo4jConnection, values: Mapping[str, Any], facts: str, deadline: float
) -> tuple[PassageRecord, ...]:
    rows = connection.read(_OWN_PASSAGES, values, deadline=deadline)
    stated = {
        str(passage): tuple(zip(*words, counts or itertools.repeat(1), strict=False))
        for passage, *words, counts in connection.read(facts, values, deadline=deadline)
    }
    records = []
    for passage, title, text, names, counts, titles, leads in rows:
        homes = [(name, HOME_TITLE) for name in titles] + [(name, HOME_LEAD) for name in leads]
        mentions = tuple(zip(names, counts or itertools.repeat(1), strict=False))
        records.append(PassageRecord(passage, title, text, mentions, stated.get(passage, ()), tuple(homes)))
    return _in_order(records)


def _grouped_facts(rows: Iterable[list[Any]]) -> list[tuple[str | None, Fact]]:
    """Count equal relations; a relation between nodes without a name is none."""
    total: dict[tuple[str | None, str, str, str], int] = {}
    for source, subject, predicates, objects in rows:
        for predicate, other in zip(predicates, objects, strict=True):
            if subject.strip() and other.strip():
                key = (None if source is None else str(source), subject, predicate, other)
                total[key] = total.get(key, 0) + 1
    return [(key[0], (*key[1:], count)) for key, count in total.items()]


def _named(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _place(
    rows: Sequence[list[Any]], facts: Iterable[tuple[str | None, Fact]]
) -> tuple[dict[str, list[Fact]], tuple[Fact, ...]]:
    """Give every fact to the passages that mention both its ends, and to the one it names."""
    passages_of: dict[str, dict[str, None]] = {}
    ids = {_passage_id(row): None for row in rows}
    for row in rows:
        for name in row[4]:
            passages_of.setdefault(name, {})[_passage_id(row)] = None
    placed: dict[str, list[Fact]] = {}
    unplaced: list[Fact] = []
    for source, fact in facts:
        ends = passages_of.get(fact[0], {}), passages_of.get(fact[2], {})
        homes = {passage: None for passage in ends[0] if passage in ends[1]}
        if source in ids:
            homes[str(source)] = None
        for passage in homes:
            placed.setdefault(passage, []).append((*fact[:3], 1))
        if not homes:
            unplaced.append(fact)
    return placed, tuple(sorted(unplaced))


def _passage_id(row: list[Any]) -> str:
    return str(row[0] if _named(row[0]) else row[1])


def _foreign_record(row: list[Any], facts: Iterable[Fact]) -> PassageRecord:
    """Turn a row into a record; an entity without a name is not a mention."""
    title, text, names, counts = row[2:]
    mentions = [(name, count) for name, count in zip(names, counts, strict=True) if _named(name)]
    return named_record(_passage_id(row), title or "", str(text), mentions, facts)


def _in_order(records: list[PassageRecord]) -> tuple[PassageRecord, ...]:
    records.sort(key=lambda record: record.id)
    for first, second in itertools.pairwise(records):
        if first.id == second.id:
            raise InvalidInputError(f"id_keys must tell passages apart; two are called {first.id[:40]!r}")
    return tuple(records)
