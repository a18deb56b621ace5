"""Functions for the framework integrations: prepare a graph source, list its passages, and reject wrong arguments."""

from __future__ import annotations

from collections.abc import Sequence

from phasegraph.errors import InvalidInputError
from phasegraph.graph.walk.source import GraphSource
from phasegraph.graph.walk.walker import GraphWalker


def prepare(source: object, /) -> None:
    """Prepare an in-memory graph source for its first search; do nothing for other sources.

    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "a", "text": "Ada met Bo."}])
    >>> prepare(GraphSource(graph))
    >>> "operator" in vars(graph)
    True
    """
    if isinstance(source, GraphWalker):
        source.prepare()


def not_a_graph(given: object, /) -> str:
    """Return the error message for an argument that is not a graph or source.

    >>> not_a_graph("corpus.jsonl")
    'graph must be an EntityGraph or a source (for Neo4j: EntityGraphRetriever.from_neo4j); got str'
    """
    kind = type(given).__name__
    if kind == "GraphIndex":
        return "graph must be an EntityGraph or a source; got a GraphIndex: pass index.graph"
    if kind == "GraphRecords":
        return "graph must be an EntityGraph or a source; got a GraphRecords: pass records.graph()"
    if kind == "ChunkGraph":
        return "graph must be an EntityGraph or a source; got a ChunkGraph: pass ChunkGraphSource(chunk_graph)"
    return f"graph must be an EntityGraph or a source (for Neo4j: EntityGraphRetriever.from_neo4j); got {kind}"


def passage_ids(source: object, /) -> Sequence[str]:
    """Return the ids of all passages of a graph source; the source's ``within`` accepts these ids.

    >>> from phasegraph.graph import build_graph
    >>> passage_ids(GraphSource(build_graph([{"id": "a", "text": "Ada met Bo."}])))
    ('a',)
    """
    if isinstance(source, GraphSource):
        return source.graph.passages
    listed = getattr(source, "passage_ids", None)
    if not callable(listed) or not callable(getattr(source, "within", None)):
        raise InvalidInputError(f"a {type(source).__name__} cannot be filtered; give each tenant its own corpus")
    ids: Sequence[str] = listed()
    return ids
