"""Graphs that other libraries wrote: two statements fetch them, and every fact finds the passages it belongs to.

A fact belongs to the passages that mention both its ends, and to the one its own property names. LlamaIndex
keeps only the last chunk of a relation, langchain-neo4j and neo4j-graphrag keep none, so the property alone
would lose most of them; and a fact that no passage of the corpus vouches for is not read into it, so that two
corpora in one database never walk through each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from phasegraph.graph.neo4j.assembly import Normalised
from phasegraph.graph.neo4j.columns import columns_of, each_line, each_node, joined, line, read_together, values_of
from phasegraph.graph.neo4j.connection import Neo4jConnection
from phasegraph.graph.neo4j.cypher import quote, render
from phasegraph.graph.neo4j.making import named_record
from phasegraph.graph.neo4j.records import GraphRecords, in_order
from phasegraph.graph.neo4j.schema import GraphSchema, for_entities

Fact: TypeAlias = tuple[str, str, str, int]

_PASSAGES = "MATCH (p:«passage») WHERE p.«text» IS NOT NULL AND {only}\n"
_MENTIONS = "[(p)-[:«provenance»]-(e«:entity») WHERE NOT e:«passage» | {name}]"
_FACTS = "MATCH (a:«entity»)-[r]->(b:«entity»)\n"
_FACTS_OF_ANY = """\
MATCH (p:«passage»)-[:«provenance»]-(a) WHERE NOT a:«passage» WITH DISTINCT a
MATCH (a)-[r]->(b) WHERE NOT b:«passage»
"""


def read_foreign(connection: Neo4jConnection, schema: GraphSchema, corpus: str | None, deadline: float) -> GraphRecords:
    """Return every passage of a corpus under a schema that is not ours."""
    asked = _passages_statement(schema), _facts_statement(schema)
    blocks, lines = read_together(connection, asked, {"corpus": corpus}, deadline)
    rows = [row for block in blocks for row in block[0]]
    ids = [str(row[0] if _named(row[0]) else row[1]) for row in rows]
    named = [[name for name in values_of(row[4]) if name.strip()] for row in rows]
    placed, unplaced = _place(ids, named, _counted_facts(lines))
    normal = Normalised()
    records = [
        named_record(passage, row[2] or "", str(row[3]), Counter(names).items(), placed.get(passage, ()), normal)
        for passage, row, names in zip(ids, rows, named, strict=True)
    ]
    # With a corpus, a fact that none of its passages vouches for may be another corpus's: it is not handed
    # out.
    left = unplaced if corpus is None else ()
    return GraphRecords(in_order(records), unplaced=left, stable_ids=all(_named(row[0]) for row in rows))


def _passages_statement(schema: GraphSchema) -> str:
    only = "true" if schema.corpus_key is None else "($corpus IS NULL OR p.«corpus» = $corpus)"
    mentions = joined(_MENTIONS.format(name=line(_first_of("e", schema.name_keys))))
    keys = _first_of("p", schema.id_keys), _first_of("p", schema.title_keys)
    text = _PASSAGES.format(only=only) + each_node("p", f"{keys[0]}, elementId(p), {keys[1]}, p.«text», {mentions}")
    return render(for_entities(text, schema), schema.names())


def _facts_statement(schema: GraphSchema) -> str:
    source = "null" if schema.fact_source_key is None else "r.«fact_source»"
    ends = _first_of("a", schema.name_keys), _first_of("b", schema.name_keys)
    text = _FACTS_OF_ANY if schema.entity_label is None else _FACTS
    return render(text + each_line(source, ends[0], "type(r)", ends[1]), schema.names())


def _first_of(variable: str, keys: Sequence[str]) -> str:
    """Return an expression for the first of several properties that is there, as text."""
    options = [f"toStringOrNull({variable}.{quote(key, 'property key')})" for key in keys]
    return f"coalesce({', '.join(options)})" if options else "null"


def _counted_facts(lines: Iterable[list[Any]]) -> Mapping[tuple[str, str, str, str], int]:
    """Count equal relations; one between nodes without a name is none."""
    rows = zip(*columns_of((row[0] for row in lines), 4), strict=True)
    return Counter(row for row in rows if row[1].strip() and row[3].strip())


def _named(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _place(
    ids: Sequence[str], named: Sequence[Sequence[str]], facts: Mapping[tuple[str, str, str, str], int]
) -> tuple[dict[str, list[Fact]], tuple[Fact, ...]]:
    """Give every fact to the passages that mention both its ends, and to the one it names."""
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
