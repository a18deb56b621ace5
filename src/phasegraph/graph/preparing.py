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
