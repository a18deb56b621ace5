"""Neo4j as the graph's home: read the graphs of others, write ours, and walk on the server or beside it."""

from phasegraph.graph.neo4j.connection import Neo4jConnection
from phasegraph.graph.neo4j.constraints import SchemaObject, drop_schema, ensure_schema, list_schema
from phasegraph.graph.neo4j.corpora import drop_corpus, list_corpora
from phasegraph.graph.neo4j.gds import drop_projections, list_projections
from phasegraph.graph.neo4j.guard import read_guarded
from phasegraph.graph.neo4j.making import records_from_extractions
from phasegraph.graph.neo4j.reading import read_changes, read_graph
from phasegraph.graph.neo4j.records import (
    GraphChanges,
    GraphRecords,
    PassageRecord,
    changes_between,
)
from phasegraph.graph.neo4j.schema import SCHEMAS, GraphSchema, detect_schema
from phasegraph.graph.neo4j.writing import (
    WriteReport,
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
    "read_changes",
    "read_graph",
    "read_guarded",
    "records_from_extractions",
    "remove_passages",
    "write_graph",
    "write_synonyms",
]
