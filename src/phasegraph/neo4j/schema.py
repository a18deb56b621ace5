"""How a graph lies in the database: which labels, types and properties hold passages, entities and facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.neo4j.connection import BULK_SECONDS, Neo4jConnection

MAX_NAME_LENGTH = 200
# Letters, digits and marks of any script, then also blanks, dots, colons and hyphens between them ("Works
# at", "ns:Thing"). No backtick (it ends a quoted name), no backslash (Cypher decodes \u0060 before it reads
# the text), no control or format character.
_NAME = re.compile(r"[^\W\d](?:[\w .:\-]*\w)?")
_SLOT = re.compile(r"«(\w+)»")


def quote(name: str, field: str) -> str:
    """Return a label, relationship type or property key in backticks; an error about `field` if it is not allowed.

    >>> quote("Works at", "relationship type")
    '`Works at`'
    """
    if not isinstance(name, str):
        raise InvalidTypeError(f"{field} must be a str; got {type(name).__name__}")
    if len(name) > MAX_NAME_LENGTH or _NAME.fullmatch(name) is None:
        raise InvalidInputError(
            f"{field} must be words of letters, digits and '_', with ' .:-' between them, of at most "
            f"{MAX_NAME_LENGTH} characters; got {name[:40]!r}"
        )
    return "`" + name.replace("`", "``") + "`"


def render(template: str, names: Mapping[str, str]) -> str:
    """Return a template of this library with each ``«field»`` replaced by the quoted name of that field.

    >>> render("MATCH (p:«passage») RETURN count(p)", {"passage": "Chunk"})
    'MATCH (p:`Chunk`) RETURN count(p)'
    """
    quoted = {field: quote(name, field) for field, name in names.items()}
    missing = set(_SLOT.findall(template)) - set(quoted)
    if missing:
        raise InvalidInputError(f"the schema has no name for {', '.join(sorted(missing))}")
    return _SLOT.sub(lambda slot: quoted[slot.group(1)], template)


@dataclass(frozen=True)
class GraphSchema:
    """The names one kind of graph uses.

    Parameters
    ----------
    name : str
        What messages call it.
    passage_label : str
        Label of the passages; a passage without text is skipped (LlamaIndex leaves such nodes for documents).
    entity_label : str or None
        Label of the entities; None takes whatever a passage's provenance edge reaches.
    provenance_type : str
        Type of the edges between passages and entities, in either direction.
    id_keys : tuple of str
        Properties tried in this order for a passage's id; where all are absent the server's element id
        serves, which does not survive a restore.
    name_keys : tuple of str
        Properties tried in this order for an entity's name.
    text_key : str
        Property with the passage's text.
    title_keys : tuple of str
        Properties tried in this order for a title.
    fact_source_key : str or None
        Property of a fact with the id of the passage it came from.
    corpus_key : str or None
        Property of a passage that says which corpus it belongs to; None reads them all.
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
            if field.name == "name" or value is None:
                continue
            for each in value if isinstance(value, tuple) else (value,):
                quote(each, field.name)
        if not self.name_keys:
            raise InvalidInputError("name_keys must name at least one property")

    def names(self) -> dict[str, str]:
        """Return the fields a template may use."""
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
    """Return a preset by its name, or the schema itself."""
    if isinstance(schema, GraphSchema):
        return schema
    if not isinstance(schema, str):
        raise InvalidTypeError(f"schema must be a GraphSchema or a preset's name; got {type(schema).__name__}")
    if schema not in SCHEMAS:
        raise InvalidInputError(f"schema must be one of {', '.join(SCHEMAS)}; got {schema[:40]!r}")
    return SCHEMAS[schema]


def for_entities(template: str, schema: GraphSchema) -> str:
    """Return the template with ``«:entity»`` as a label test, or as nothing where any node may be an entity."""
    return template.replace("«:entity»", "" if schema.entity_label is None else ":«entity»")


def detect_schema(connection: Neo4jConnection) -> GraphSchema:
    """Return the only preset of which the database has provenance edges, by one counting statement per preset.

    Raises
    ------
    InvalidInputError
        If no preset has edges, or several have; the message lists the counts.
    """
    counted = {}
    for schema in SCHEMAS.values():
        statement = render(for_entities(_COUNT, schema), schema.names())
        counted[schema.name] = int(connection.read(statement, timeout=BULK_SECONDS)[0][0])
    # Without its base label langchain's graph is read through a looser pattern, which also matches every
    # labelled one.
    if counted[LANGCHAIN.name] == counted[LANGCHAIN_UNLABELLED.name]:
        counted[LANGCHAIN_UNLABELLED.name] = 0
    else:
        counted[LANGCHAIN.name] = 0
    found = [name for name, edges in counted.items() if edges > 0]
    if len(found) != 1:
        listed = ", ".join(f"{name}: {counted[name]}" for name in found) or "none of any preset"
        raise InvalidInputError(
            f"no single schema fits the database, choose one by schema= (provenance edges: {listed})"
        )
    return SCHEMAS[found[0]]
