"""Graphs in Neo4j: read graphs that other libraries wrote, write entity graphs, and walk them in memory or in Neo4j."""

from phasegraph.neo4j.connection import Neo4jConnection
from phasegraph.neo4j.gds import drop_projections, list_projections
from phasegraph.neo4j.reading import read_changes, read_graph
from phasegraph.neo4j.records import (
    GraphChanges,
    GraphRecords,
    PassageRecord,
    changes_between,
    records_from_extractions,
)
from phasegraph.neo4j.remote_walk import FetchSettings
from phasegraph.neo4j.schema import GraphSchema, detect_schema
from phasegraph.neo4j.source import Neo4jGraphSource, OpenedGraph, open_graph
from phasegraph.neo4j.writing import (
    drop_corpus,
    drop_schema,
    list_corpora,
    list_schema,
    remove_passages,
    write_graph,
    write_synonyms,
)

__all__ = [
    "FetchSettings",
    "GraphChanges",
    "GraphRecords",
    "GraphSchema",
    "Neo4jConnection",
    "Neo4jGraphSource",
    "OpenedGraph",
    "PassageRecord",
    "changes_between",
    "detect_schema",
    "drop_corpus",
    "drop_projections",
    "drop_schema",
    "list_corpora",
    "list_projections",
    "list_schema",
    "open_graph",
    "read_changes",
    "read_graph",
    "records_from_extractions",
    "remove_passages",
    "write_graph",
    "write_synonyms",
]
