"""The bundled corpus as the three other libraries would have stored it, written with plain Cypher, which is faster."""

from collections.abc import Iterator, Sequence
from typing import Any

from phasegraph.neo4j import Neo4jConnection, PassageRecord

# Label and key of passages, key of entities, the edge between them, and whether a relation names its passage.
LIBRARIES = {
    "llama_index": ("Chunk", "id", "name", "(p)-[:MENTIONS]->(e)", True),
    "langchain": ("Document", "id", "id", "(p)-[:MENTIONS]->(e)", False),
    "neo4j_graphrag": ("Chunk", "given", "name", "(p)<-[:FROM_CHUNK]-(e)", False),
}


def write_as(connection: Neo4jConnection, library: str, records: Sequence[PassageRecord]) -> None:
    """Write what a library keeps of these records: relations merged, or without their passage, as it does."""
    label, key, name, edge, sourced = LIBRARIES[library]
    connection.write(f"CREATE INDEX foreign_passage IF NOT EXISTS FOR (p:{label}) ON (p.{key})")
    connection.write(f"CREATE INDEX foreign_entity IF NOT EXISTS FOR (e:__Entity__) ON (e.{name})")
    connection.read("CALL db.awaitIndexes(60)")
    passages = [[each.id, each.title, each.text] for each in records]
    mentions = [[each.id, entity.title()] for each in records for entity, _ in each.mentions]
    stated = {(one.title(), word, other.title()): each.id for each in records for one, word, other, _ in each.facts}
    facts = [[*fact, passage if sourced else None] for fact, passage in stated.items()]
    names = sorted({entity for _, entity in mentions} | {end for fact in facts for end in (fact[0], fact[2])})
    found = f"MATCH (p:{label} {{{key}: row[0]}}), (e:__Entity__ {{{name}: row[1]}})"
    ends = f"MATCH (a:__Entity__ {{{name}: row[0]}}), (b:__Entity__ {{{name}: row[2]}})"
    for statement, rows in (
        (f"CREATE (p:{label} {{{key}: row[0], title: row[1], text: row[2]}})", passages),
        (f"CREATE (e:__Entity__ {{{name}: row}})", names),
        (f"{found} CREATE {edge}", mentions),
        (f"{ends} CREATE (a)-[f:$(row[1])]->(b) SET f.triplet_source_id = row[3]", facts),
    ):
        for some in in_parts(rows):
            connection.write(f"UNWIND $rows AS row {statement}", {"rows": some})
    if key == "given":
        connection.write(f"MATCH (p:{label}) REMOVE p.given")


def erase(connection: Neo4jConnection, library: str) -> None:
    """Take it away again."""
    label = LIBRARIES[library][0]
    while connection.write(
        f"MATCH (n) WHERE n:{label} OR n:__Entity__ WITH n LIMIT 5000 DETACH DELETE n RETURN count(*)"
    )[0][0]:
        continue
    for index in ("foreign_passage", "foreign_entity"):
        connection.write(f"DROP INDEX {index} IF EXISTS")


def in_parts(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Two thousand rows at a time."""
    return (rows[start : start + 2000] for start in range(0, len(rows), 2000))
