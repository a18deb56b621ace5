"""What the first search would otherwise wait for, done before there is a deadline."""

from __future__ import annotations

from phasegraph.graph.chunk_graph import ChunkGraphSource
from phasegraph.graph.source import GraphSource, RestrictedGraphSource, SemFlowSource


def prepare(source: object, /) -> None:
    """Weigh the edges and load the compiled walk of a source in memory; nothing for any other source.

    Parameters
    ----------
    source : object
        What a retriever walks.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> graph = build_graph([{"id": "a", "text": "Ada met Bo."}])
    >>> prepare(GraphSource(graph))
    >>> "operator" in vars(graph)
    True
    """
    if isinstance(source, GraphSource | RestrictedGraphSource | SemFlowSource | ChunkGraphSource):
        source.prepare()


def not_a_graph(given: object, /) -> str:
    """What to say to somebody who gave something else than a graph, and what to do with it.

    Parameters
    ----------
    given : object
        In place of a graph or a source.

    Examples
    --------
    >>> not_a_graph("corpus.jsonl")
    'graph must be an EntityGraph or a source (for Neo4j: EntityGraphRetriever.from_neo4j); got str'
    """
    kind = type(given).__name__
    if kind in ("GraphIndex", "GraphRecords"):
        return f"graph must be an EntityGraph or a source; got a {kind}: give its graph{'()' * (kind != 'GraphIndex')}"
    return f"graph must be an EntityGraph or a source (for Neo4j: EntityGraphRetriever.from_neo4j); got {kind}"
