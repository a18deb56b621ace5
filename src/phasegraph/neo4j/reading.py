"""Read the passages, mentions and facts of a graph in Neo4j that phasegraph or another library wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, TypeAlias

from phasegraph._support.validation import check_count
from phasegraph.errors import InvalidInputError, warn
from phasegraph.graph.model.entity_graph import HOME_LEAD, HOME_TITLE
from phasegraph.neo4j.connection import BULK_SECONDS, Neo4jConnection, Row, check_connection
from phasegraph.neo4j.records import (
    GraphChanges,
    GraphRecords,
    Normalised,
    PassageRecord,
    check_corpus,
    in_order,
    named_record,
)
from phasegraph.neo4j.schema import PHASEGRAPH, GraphSchema, detect_schema, for_entities, quote, render, schema_named
from phasegraph.neo4j.writing import existing_corpus, first_ten

MARK, ESCAPE = "\x1f", "\x1b"
_MARKED, _ESCAPED = ESCAPE + "m", ESCAPE + "e"
FORMAT: Mapping[str, str] = MappingProxyType({"mark": MARK, "escape": ESCAPE, "marked": _MARKED, "escaped": _ESCAPED})
"""The query parameters that every statement with an expression from `line` needs.

They are the character that ends a value, the escape character, and the texts that replace these two characters in a
value.
"""
NODES_TOGETHER, LINES_TOGETHER = 200, 100


def line(*expressions: str, numbers: Iterable[str] = ()) -> str:
    """Return a Cypher expression for a line: a text that contains several values, each ended by the character `MARK`.

    `expressions` are Cypher expressions for texts, and `numbers` are Cypher expressions for whole numbers. The texts
    come first. A property that is missing, or that is a list, becomes an empty value. :func:`values_of` reads lines.
    """
    values = [
        f"replace(replace(coalesce(toStringOrNull({each}), ''), $escape, $escaped), $mark, $marked)"
        for each in expressions
    ]
    values += [f"coalesce(toString(toIntegerOrNull({each})), '')" for each in numbers]
    return " + ".join(f"{each} + $mark" for each in values)


def joined(lines: str) -> str:
    """Return a Cypher expression that concatenates a list of lines (see :func:`line`) to a text."""
    return f"reduce(whole = '', line IN {lines} | whole + line)"


def each_node(values: str) -> str:
    """Return the last clauses of a Cypher statement, which collect the list of `values` of each node `p`.

    A record of the result contains the lists of at most 200 nodes.
    """
    return f"""\
WITH collect(p) AS held UNWIND range(0, size(held) - 1, {NODES_TOGETHER}) AS start
RETURN [p IN held[start..start + {NODES_TOGETHER}] | [{values}]]"""


def each_line(*expressions: str, numbers: Iterable[str] = ()) -> str:
    """Return the last clauses of a Cypher statement, which convert each row to a line (see :func:`line`).

    A record of the result contains at most 100 lines.
    """
    return f"""\
WITH collect({line(*expressions, numbers=numbers)}) AS held UNWIND range(0, size(held) - 1, {LINES_TOGETHER}) AS start
RETURN {joined(f"held[start..start + {LINES_TOGETHER}]")}"""


def read_together(
    connection: Neo4jConnection, statements: Iterable[str], values: Mapping[str, Any], timeout: float
) -> list[list[Row]]:
    """Run several statements in parallel with the parameters `values`, and return the rows of each statement."""
    asked = list(statements)
    with ThreadPoolExecutor(len(asked), "phasegraph-neo4j") as pool:
        answers = [pool.submit(connection.read, each, {**values, **FORMAT}, timeout=timeout) for each in asked]
        return [answer.result() for answer in answers]


def values_of(text: str) -> list[str]:
    """Return the values of all lines (see :func:`line`) in a text, in order."""
    values = text.split(MARK)
    values.pop()
    if ESCAPE in text:
        return [value.replace(_MARKED, MARK).replace(_ESCAPED, ESCAPE) for value in values]
    return values


def columns_of(texts: Iterable[str], width: int) -> tuple[list[str], ...]:
    """Return the columns of the lines in these texts, as a tuple of lists; each line has `width` values."""
    values = [value for text in texts for value in values_of(text)]
    return tuple(values[place::width] for place in range(width))


Fact: TypeAlias = tuple[str, str, str, int]
_PASSAGES = "MATCH (p:«passage») WHERE p.«text» IS NOT NULL AND {only}\n"
_MENTIONS = "[(p)-[:«provenance»]-(e«:entity») WHERE NOT e:«passage» | {name}]"
_CORPORA = "MATCH (p:«passage») WHERE p.«corpus» IS NOT NULL RETURN DISTINCT p.«corpus»"
_FACTS = "MATCH (a:«entity»)-[r]->(b:«entity»)\n"
_FACTS_OF_ANY = """\
MATCH (p:«passage»)-[:«provenance»]-(a) WHERE NOT a:«passage» WITH DISTINCT a
MATCH (a)-[r]->(b) WHERE NOT b:«passage»
"""


def read_foreign(connection: Neo4jConnection, schema: GraphSchema, corpus: str | None, timeout: float) -> GraphRecords:
    """Read all passages of a corpus (None: of the database) that has the schema of another library."""
    asked = _passages_statement(schema), _facts_statement(schema)
    blocks, lines = read_together(connection, asked, {"corpus": corpus}, timeout)
    rows = [row for block in blocks for row in block[0]]
    if not rows and corpus is not None:
        _check_foreign_corpus(connection, schema, corpus, timeout)
    ids = [str(row[0] if _named(row[0]) else row[1]) for row in rows]
    ends = [values_of(row[4]) for row in rows]
    named = [[name for name in each if name.strip()] for each in ends]
    if rows:
        _warn_of_misfits(schema, [_named(row[0]) for row in rows], sum(map(len, ends)), sum(map(len, named)))
    facts = _counted_facts(lines)
    placed, unplaced = _place(ids, named, facts)
    normal = Normalised()
    records = [
        named_record(passage, row[2] or "", str(row[3]), Counter(names).items(), placed.get(passage, ()), normal)
        for passage, row, names in zip(ids, rows, named, strict=True)
    ]
    # With a corpus, a fact without a passage may belong to another corpus.
    left = unplaced if corpus is None else ()
    if any(named) and 2 * len(left) > len(facts):
        warn(
            f"schema {schema.name!r}: {len(left)} of {len(facts)} facts belong to no passage, so the walk does not "
            "follow them: a passage must mention both ends of a fact, or fact_source_key must name a property of the "
            "fact with the id of a passage"
        )
    return GraphRecords(in_order(records), unplaced=left, stable_ids=all(_named(row[0]) for row in rows))


def _check_foreign_corpus(connection: Neo4jConnection, schema: GraphSchema, corpus: str, timeout: float) -> None:
    """Raise InvalidInputError if no passage, with or without a text, names the corpus."""
    names = [row[0] for row in connection.read(render(_CORPORA, schema.names()), timeout=timeout)]
    if corpus not in names:
        raise InvalidInputError(
            f"schema {schema.name!r}: no node {schema.passage_label!r} has {corpus!r:.60} in {schema.corpus_key!r}; "
            f"its values: {first_ten(sorted(names, key=str))}. Give corpus= one of these values, or check corpus_key"
        )


def _warn_of_misfits(schema: GraphSchema, with_id: Sequence[bool], edges: int, named: int) -> None:
    """Warn if names of the schema do not fit the graph, because the graph would silently lose its entities or ids.

    `with_id` tells for each passage whether it has an id. `edges` is the number of edges between passages and entities,
    and `named` the number of these edges whose entity has a name.
    """
    if not edges:
        entity = "a node" if schema.entity_label is None else f"a node {schema.entity_label!r}"
        warn(
            f"schema {schema.name!r}: no edge {schema.provenance_type!r} connects a node {schema.passage_label!r} with "
            f"{entity}, so the graph has no entities of the database: check provenance_type and entity_label"
        )
    if named < edges:
        warn(
            f"schema {schema.name!r}: {edges - named} of {edges} edges of passages lead to an entity without a name, "
            f"and are left out: set name_keys to properties that contain a text; they are {_listed(schema.name_keys)}"
        )
    if not all(with_id):
        warn(
            f"schema {schema.name!r}: {len(with_id) - sum(with_id)} of {len(with_id)} passages have no id, so they get "
            "the server's element ids, which no other source knows: set id_keys to properties that contain an id; they "
            f"are {_listed(schema.id_keys)}"
        )


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(map(repr, keys)) or "empty"


def _passages_statement(schema: GraphSchema) -> str:
    only = "true" if schema.corpus_key is None else "($corpus IS NULL OR p.«corpus» = $corpus)"
    mentions = joined(_MENTIONS.format(name=line(_first_of("e", schema.name_keys))))
    keys = _first_of("p", schema.id_keys), _first_of("p", schema.title_keys)
    text = _PASSAGES.format(only=only) + each_node(f"{keys[0]}, elementId(p), {keys[1]}, p.«text», {mentions}")
    return render(for_entities(text, schema), schema.names())


def _facts_statement(schema: GraphSchema) -> str:
    source = "null" if schema.fact_source_key is None else "r.«fact_source»"
    ends = _first_of("a", schema.name_keys), _first_of("b", schema.name_keys)
    text = _FACTS_OF_ANY if schema.entity_label is None else _FACTS
    return render(text + each_line(source, ends[0], "type(r)", ends[1]), schema.names())


def _first_of(variable: str, keys: Sequence[str]) -> str:
    """Return a Cypher expression: the first property in `keys` that the node `variable` has, as text; else null."""
    options = [f"toStringOrNull({variable}.{quote(key, 'property key')})" for key in keys]
    return f"coalesce({', '.join(options)})" if options else "null"


def _counted_facts(lines: Iterable[list[Any]]) -> Mapping[tuple[str, str, str, str], int]:
    """Return the number of occurrences of each fact (passage id or "", subject, predicate, object).

    Facts about nodes without a name are ignored.
    """
    rows = zip(*columns_of((row[0] for row in lines), 4), strict=True)
    return Counter(row for row in rows if row[1].strip() and row[3].strip())


def _named(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _place(
    ids: Sequence[str], named: Sequence[Sequence[str]], facts: Mapping[tuple[str, str, str, str], int]
) -> tuple[dict[str, list[Fact]], tuple[Fact, ...]]:
    """Assign each fact to the passages that mention both its entities, and to the passage that the fact names by id.

    `named` contains the names of the entities in each of the passages `ids`. Returns the facts by passage id, and the
    facts without a passage.
    """
    passages_of: dict[str, dict[str, None]] = {}
    for passage, names in zip(ids, named, strict=True):
        for name in names:
            passages_of.setdefault(name, {})[passage] = None
    known = set(ids)
    placed: dict[str, list[Fact]] = {}
    unplaced: list[Fact] = []
    for (source, *words), count in facts.items():
        subject, predicate, other = words
        few, many = sorted((passages_of.get(subject, {}), passages_of.get(other, {})), key=len)
        homes = {passage: None for passage in few if passage in many}
        if source in known:
            homes[source] = None
        for passage in homes:
            placed.setdefault(passage, []).append((subject, predicate, other, 1))
        if not homes:
            unplaced.append((subject, predicate, other, count))
    return placed, tuple(sorted(unplaced))


_MENTIONS_READING = (
    f"[(p)-[m:`PHASEGRAPH_MENTIONS`]->(e:`PhasegraphEntity`) | {line('e.name', numbers=('m.count', 'm.home'))}]"
)
_PASSAGES_READING = "MATCH (p:`PhasegraphPassage` {corpus: $corpus}) WHERE p.revision > $since\n"
_PASSAGE_ROWS = _PASSAGES_READING + each_node(f"p.id, p.title, p.text, {joined(_MENTIONS_READING)}")
_FACT_LINES = each_line("f.passage", "a.name", "f.predicate", "b.name", numbers=("f.count",))
_FACTS_READING = f"""\
{_PASSAGES_READING}\
MATCH (a:`PhasegraphEntity`)-[f:`PHASEGRAPH_FACT` {{corpus: $corpus, passage: p.id}}]->(b:`PhasegraphEntity`)
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
    timeout: float = BULK_SECONDS,
) -> GraphRecords:
    """Read all passages of a corpus with their mentions and facts.

    Parameters
    ----------
    connection : Neo4jConnection
        The connection to the database of the graph.
    schema : str or GraphSchema, optional
        The name of a preset, or a schema. Default: phasegraph's own schema if `corpus` is given, otherwise the preset
        that is detected.
    corpus : str, optional
        Name of the corpus: only passages with this value of the schema's corpus key are read. It is required for our
        own schema.
    timeout : float, default 120
        Maximum duration of each statement in seconds.

    Returns
    -------
    GraphRecords
        The passages, sorted by id.

    Raises
    ------
    InvalidInputError
        If the schema is unknown or cannot be detected, if it has no corpus key and `corpus` is given, or if the
        database does not have the corpus; the message names its corpora.
    StoreError
        If the server fails.

    Warns
    -----
    PhasegraphWarning
        If the passages have no edges to entities, if entities have no name or passages have no id under the schema, or
        if more than half of the facts belong to no passage.
    """
    check_connection(connection)
    if schema is None:
        chosen = detect_schema(connection, timeout=timeout) if corpus is None else PHASEGRAPH
    else:
        chosen = schema_named(schema)
    _check_corpus(chosen, corpus)
    if chosen == PHASEGRAPH:
        return _own_graph(connection, str(corpus), timeout)
    return read_foreign(connection, chosen, corpus, timeout)


def read_changes(
    connection: Neo4jConnection, *, corpus: str, since: int, timeout: float = BULK_SECONDS
) -> GraphChanges:
    """Read only the changes of a corpus after a revision; `write_graph` must have written the corpus.

    For a corpus with another schema, compare two readings with `changes_between`.

    Parameters
    ----------
    connection, corpus, timeout
        As for `read_graph`.
    since : int
        `GraphRecords.revision` or `GraphChanges.revision` of the last reading, at least 0.

    Returns
    -------
    GraphChanges
        The changed and removed passages.

    Raises
    ------
    InvalidInputError
        If `since` is negative, or the corpus does not exist.
    StoreError
        If the server fails.
    """
    since = check_count("since", since)
    _check_corpus(PHASEGRAPH, corpus)
    created, revision = _revision(connection, corpus, timeout)
    if 0 < since < created or since > revision:
        raise InvalidInputError(
            f"revision {since} does not belong to the current corpus, whose revisions are {created} to {revision}: "
            "read the whole corpus with read_graph"
        )
    if since == revision:
        return GraphChanges((), (), revision)
    values = {"corpus": corpus, "since": since}
    records = _own_records(connection, values, _FACTS_READING, timeout)
    removed = sorted(str(row[0]) for row in connection.read(_REMOVED, values, timeout=timeout))
    return GraphChanges(records, tuple(removed), revision, _synonyms(connection, values, timeout))


def _check_corpus(schema: GraphSchema, corpus: str | None) -> None:
    if corpus is not None:
        check_corpus(corpus)
    if corpus is not None and schema.corpus_key is None:
        raise InvalidInputError(
            f"corpus= needs a schema with a corpus_key; {schema.name!r} has none: leave out corpus=, or give the "
            "schema a corpus_key"
        )
    if corpus is None and schema == PHASEGRAPH:
        raise InvalidInputError(
            "corpus must be the name of a corpus for the schema 'phasegraph'; got None: give one of the names that "
            "list_corpora returns"
        )


def _revision(connection: Neo4jConnection, corpus: str, timeout: float) -> tuple[int, int]:
    """Return the revision at which the corpus was created, and its current revision.

    Raise InvalidInputError if the corpus does not exist. A corpus that is created meanwhile gives (0, 0).
    """
    rows = connection.read(_REVISION, {"corpus": corpus}, timeout=timeout)
    if not rows:
        existing_corpus(connection, corpus, timeout=timeout)
    return (int(rows[0][0] or 0), int(rows[0][1])) if rows else (0, 0)


def _own_graph(connection: Neo4jConnection, corpus: str, timeout: float) -> GraphRecords:
    # The revision is read before the contents. Changes in between are then read again next time, and never missed.
    _, revision = _revision(connection, corpus, timeout)
    values = {"corpus": corpus, "since": -1}
    records = _own_records(connection, values, _ALL_FACTS, timeout)
    return GraphRecords(records, revision, synonyms=_synonyms(connection, values, timeout))


def _synonyms(
    connection: Neo4jConnection, values: Mapping[str, Any], timeout: float
) -> tuple[tuple[str, str, float], ...]:
    rows = connection.read(_SYNONYMS, values, timeout=timeout)
    return tuple(sorted((one, other, float(similarity)) for one, other, similarity in rows))


def _own_records(
    connection: Neo4jConnection, values: Mapping[str, Any], facts: str, timeout: float
) -> tuple[PassageRecord, ...]:
    blocks, lines = read_together(connection, (_PASSAGE_ROWS, facts), values, timeout)
    stated = _stated(lines)
    return in_order(
        [
            PassageRecord(passage, title, text, *_mentions(passage, mentioned, stated))
            for block in blocks
            for passage, title, text, mentioned in block[0]
        ]
    )


def _stated(rows: list[list[Any]]) -> dict[str, list[tuple[str, str, str, int]]]:
    """Read lines of facts, and return the facts by the id of the passage that states them."""
    stated: dict[str, list[tuple[str, str, str, int]]] = {}
    *words, counts = columns_of((row[0] for row in rows), 5)
    for passage, subject, predicate, other, count in zip(*words, map(_number, counts), strict=True):
        stated.setdefault(passage, []).append((subject, predicate, other, count))
    return stated


def _mentions(passage: str, lines: str, stated: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return the mentions, the facts and the homes (entities that the passage is about) of a passage.

    `lines` contains the passage's mentions, and `stated` the facts of all passages by passage id.
    """
    names, counts, kinds = columns_of((lines,), 3)
    homes = [(name, int(kind)) for name, kind in zip(names, kinds, strict=True) if kind in _HOMES]
    return list(zip(names, map(_number, counts), strict=True)), stated.get(passage, ()), homes


def _number(count: str) -> int:
    """Convert a text to a count; an invalid text becomes 0, which PassageRecord rejects."""
    return int(count) if count.isdecimal() else 0
