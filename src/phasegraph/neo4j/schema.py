"""The schema of a graph in Neo4j: the labels, relationship types and properties of passages, entities and facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from phasegraph._support.validation import check_names
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.neo4j.connection import BULK_SECONDS, Neo4jConnection

MAX_NAME_LENGTH = 200
# Letters, digits and marks of any script, and between them also blanks, dots, colons and hyphens ("Works at",
# "ns:Thing"). Not allowed: a backtick, which ends a quoted name; a backslash, because Cypher decodes \u0060 before it
# parses the text; control and format characters.
_NAME = re.compile(r"[^\W\d](?:[\w .:\-]*\w)?")
_SLOT = re.compile(r"«(\w+)»")


def quote(name: str, field: str) -> str:
    """Return the name of a label, relationship type or property in backticks, for a Cypher statement.

    Raises InvalidInputError for an invalid name; the message contains `field`, the kind of the name.

    >>> quote("Works at", "relationship type")
    '`Works at`'
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"{field} must be a str; got {type(name).__name__}")
    if len(name) > MAX_NAME_LENGTH or _NAME.fullmatch(name) is None:
        raise InvalidInputError(
            f"{field} must have at most {MAX_NAME_LENGTH} characters, and contain only letters, digits and '_', with "
            f"single ' ', '.', ':' or '-' between them; got {name[:40]!r}"
        )
    return "`" + name.replace("`", "``") + "`"


def render(template: str, names: Mapping[str, str]) -> str:
    """Return a Cypher template in which each ``«field»`` is replaced by the quoted name ``names[field]``.

    >>> render("MATCH (p:«passage») RETURN count(p)", {"passage": "Chunk"})
    'MATCH (p:`Chunk`) RETURN count(p)'
    """
    quoted = {field: quote(name, field) for field, name in names.items()}
    missing = set(_SLOT.findall(template)) - set(quoted)
    if missing:
        raise InvalidInputError(
            f"the schema has no name for {', '.join(sorted(missing))}, which the statement needs: set these fields of "
            "the schema"
        )
    return _SLOT.sub(lambda slot: quoted[slot.group(1)], template)


@dataclass(frozen=True)
class GraphSchema:
    """The names of the labels, relationship types and properties that a kind of graph uses.

    Parameters
    ----------
    name : str
        Name of the schema in messages.
    passage_label : str
        Label of passages. A node without a text is skipped; LlamaIndex creates such nodes for documents.
    entity_label : str or None
        Label of entities. With None, every node at the end of a passage's provenance edge is an entity; use None if
        entities have several labels and none in common.
    provenance_type : str
        Type of the edges between passages and entities, in either direction.
    id_keys : tuple of str
        Properties of a passage that are tried in this order for its id. If all are absent, the id is the server's
        element id, which changes if the database is restored.
    name_keys : tuple of str
        Properties of an entity that are tried in this order for its name.
    text_key : str
        Property of a passage with its text.
    title_keys : tuple of str
        Properties of a passage that are tried in this order for its title.
    fact_source_key : str or None
        Property of a fact with the id of the passage that states it. With None, a fact belongs only to the passages
        that mention both its entities.
    corpus_key : str or None
        Property of a passage with the name of its corpus; with None, all passages belong to a single corpus.
    """

    name: str
    passage_label: str
    entity_label: str | None
    provenance_type: str
    id_keys: tuple[str, ...] = ("id",)
    name_keys: tuple[str, ...] = ("name", "id")
    text_key: str = "text"
    title_keys: tuple[str, ...] = ("title",)
    fact_source_key: str | None = None
    corpus_key: str | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_keys"):
                value = check_names(field.name, value)
                object.__setattr__(self, field.name, value)
                for each in value:
                    quote(each, field.name)
            elif field.name != "name" and value is not None:
                quote(value, field.name)
        if not self.name_keys:
            raise InvalidInputError("name_keys is empty: name at least one property that contains the entity's name")

    def names(self) -> dict[str, str]:
        """Return the names of the schema by field, as :func:`render` needs them."""
        given = {
            "passage": self.passage_label,
            "entity": self.entity_label,
            "provenance": self.provenance_type,
            "text": self.text_key,
            "fact_source": self.fact_source_key,
            "corpus": self.corpus_key,
        }
        return {field: name for field, name in given.items() if name is not None}


PHASEGRAPH = GraphSchema(
    "phasegraph",
    "PhasegraphPassage",
    "PhasegraphEntity",
    "PHASEGRAPH_MENTIONS",
    name_keys=("name",),
    fact_source_key="passage",
    corpus_key="corpus",
)
LLAMA_INDEX = GraphSchema("llama_index", "Chunk", "__Entity__", "MENTIONS", fact_source_key="triplet_source_id")
LANGCHAIN = GraphSchema("langchain", "Document", "__Entity__", "MENTIONS")
LANGCHAIN_UNLABELLED = GraphSchema("langchain_unlabelled", "Document", None, "MENTIONS")
NEO4J_GRAPHRAG = GraphSchema("neo4j_graphrag", "Chunk", "__Entity__", "FROM_CHUNK", id_keys=("uid", "id"))
SCHEMAS: Mapping[str, GraphSchema] = MappingProxyType(
    {each.name: each for each in (PHASEGRAPH, LLAMA_INDEX, LANGCHAIN, LANGCHAIN_UNLABELLED, NEO4J_GRAPHRAG)}
)
_COUNT = "MATCH (p:«passage»)-[m:«provenance»]-(e«:entity») WHERE p.«text» IS NOT NULL RETURN count(m)"


def schema_named(schema: str | GraphSchema) -> GraphSchema:
    """Return the preset schema with this name; return a schema object unchanged."""
    if isinstance(schema, GraphSchema):
        return schema
    if not isinstance(schema, str):
        raise InvalidTypeError(f"schema must be a GraphSchema or a preset's name; got {type(schema).__name__}")
    if schema not in SCHEMAS:
        raise InvalidInputError(f"schema must be one of {', '.join(SCHEMAS)}; got {schema[:40]!r}")
    return SCHEMAS[schema]


def for_entities(template: str, schema: GraphSchema) -> str:
    """Replace ``«:entity»`` in a template by ``:«entity»``, or by "" if the schema has no label for entities.

    In the statement, ``:«entity»`` restricts a node to nodes with this label.
    """
    return template.replace("«:entity»", "" if schema.entity_label is None else ":«entity»")


def detect_schema(connection: Neo4jConnection, *, timeout: float = BULK_SECONDS) -> GraphSchema:
    """Return the preset schema that fits the database.

    It is the only preset whose edges between passages and entities occur in the database. `timeout` is the maximum
    duration of each statement in seconds.

    Raises
    ------
    InvalidInputError
        If the edges of no preset or of several presets occur; the message lists the counts.
    """
    counted = {}
    for schema in SCHEMAS.values():
        statement = render(for_entities(_COUNT, schema), schema.names())
        counted[schema.name] = int(connection.read(statement, timeout=timeout)[0][0])
    # The preset for a LangChain graph without entity label has a less specific pattern, which also matches a graph
    # with entity labels.
    if counted[LANGCHAIN.name] == counted[LANGCHAIN_UNLABELLED.name]:
        counted[LANGCHAIN_UNLABELLED.name] = 0
    else:
        counted[LANGCHAIN.name] = 0
    found = [name for name, edges in counted.items() if edges > 0]
    if len(found) != 1:
        listed = ", ".join(f"{name}: {counted[name]}" for name in found) or "no edges of any preset"
        raise InvalidInputError(
            f"the database must match exactly one schema preset; it matches {len(found)} (provenance edges: {listed}): "
            "choose a schema with schema="
        )
    return SCHEMAS[found[0]]
