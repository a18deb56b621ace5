"""Neo4j as the graph's home: read the graphs of others, write ours, and walk on the server or beside it."""

from phasegraph.neo4j.connection import Neo4jConnection
from phasegraph.neo4j.gds import drop_projections, list_projections
from phasegraph.neo4j.reading import read_changes, read_graph, read_guarded
from phasegraph.neo4j.records import (
    GraphChanges,
    GraphRecords,
    PassageRecord,
    changes_between,
    records_from_extractions,
)
from phasegraph.neo4j.schema import SCHEMAS, GraphSchema, detect_schema
from phasegraph.neo4j.source import stored_graph as open_graph
from phasegraph.neo4j.writing import (
    SchemaObject,
    WriteReport,
    drop_corpus,
    drop_schema,
    ensure_schema,
    list_corpora,
    list_schema,
    remove_passages,
    write_graph,
    write_synonyms,
)

__all__ = [
    "SCHEMAS",
    "GraphChanges",
    "GraphRecords",
    "GraphSchema",
    "Neo4jConnection",
    "PassageRecord",
    "SchemaObject",
    "WriteReport",
    "changes_between",
    "detect_schema",
    "drop_corpus",
    "drop_projections",
    "drop_schema",
    "ensure_schema",
    "list_corpora",
    "list_projections",
    "list_schema",
    "open_graph",
    "read_changes",
    "read_graph",
    "read_guarded",
    "records_from_extractions",
    "remove_passages",
    "write_graph",
    "write_synonyms",
]
