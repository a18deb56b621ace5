"""A graph of what a framework calls documents or nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from phasegraph.graph.entity_graph import EntityGraph
from phasegraph.graph.extraction import build_graph


def graph_of_documents(
    documents: Iterable[tuple[str, Mapping[str, Any], str]],
    /,
    *,
    title_key: str = "title",
    embed: Callable[[list[str]], Sequence[Any]] | None = None,
    vectors: Any = None,
    **options: Any,
) -> EntityGraph:
    """Build the graph of documents, which are embedded where there is something to embed them and no vectors.

    Parameters
    ----------
    documents : iterable of (id, metadata, text)
    title_key : str, default "title"
        Metadata key of the title.
    embed : callable, optional
        ``embed(texts)`` gives their vectors.
    vectors : (P, d) array_like, optional
        In place of `embed`.
    **options
        ``triples``, ``extractor`` and ``gazetteer`` of :func:`phasegraph.graph.build_graph`.

    Returns
    -------
    EntityGraph

    Examples
    --------
    >>> graph = graph_of_documents([("1", {"title": "Ada"}, "She met Bo.")], embed=lambda texts: [[0.6, 0.8]])
    >>> graph.entities, graph.embeddings.shape
    (('ada', 'bo'), (1, 2))
    """
    rows = [
        {"id": name, "title": str(metadata.get(title_key) or ""), "text": text} for name, metadata, text in documents
    ]
    if vectors is None and embed is not None:
        vectors = embed([row["text"] for row in rows])
    return build_graph(rows, embeddings=vectors, **options)
