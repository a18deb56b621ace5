"""Shared code of the sources that walk a graph in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from phasegraph._support.frozen import by_fields
from phasegraph._support.ordering import top_order
from phasegraph._support.shared import portable
from phasegraph._support.typing import FloatArray, Int32Array, IntArray
from phasegraph.errors import InvalidTypeError
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.covering import LocalIds
from phasegraph.graph.walk.linking import Seeding
from phasegraph.pagerank import PageRankResult
from phasegraph.pagerank.push import PushSettings, RelevanceTransitions, StaticTransitions, as_seeds, run_push

Embedder = Callable[[str], Any]


class GraphWalker:
    """Base class of the sources that walk a graph in memory."""

    __reduce__ = by_fields

    def prepare(self) -> Self:
        """Compute the data for the first search in advance, and return the source."""
        raise NotImplementedError


def prepare(source: object, /) -> None:
    """Prepare an in-memory graph source for its first search; do nothing for other sources.

    >>> from phasegraph.graph import GraphSource, build_graph
    >>> graph = build_graph([{"id": "a", "text": "Ada met Bo."}])
    >>> prepare(GraphSource(graph))
    >>> "operator" in vars(graph)
    True
    """
    if isinstance(source, GraphWalker):
        source.prepare()


_ADVICE = {
    "GraphIndex": "pass index.graph",
    "GraphRecords": "pass records.graph()",
    "ChunkGraph": "pass ChunkGraphSource(chunk_graph)",
}
"""What to pass instead of an object that contains a graph, by the name of its class."""


def not_a_graph(given: object, /) -> str:
    """Return the error message for an argument that is not a graph or source.

    >>> not_a_graph("corpus.jsonl")
    'graph must be an EntityGraph or a source (for Neo4j: EntityGraphRetriever.from_neo4j); got str'
    """
    kind = type(given).__name__
    if kind in _ADVICE:
        return f"graph must be an EntityGraph or a source; got a {kind}: {_ADVICE[kind]}"
    return f"graph must be an EntityGraph or a source (for Neo4j: EntityGraphRetriever.from_neo4j); got {kind}"


def check_source_name(name: object) -> None:
    """Raise InvalidTypeError if a source's name is blank or not a text."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidTypeError(f"name must be text that is not blank; got {name!r}")


def check_embedder(source: Any) -> None:
    """Raise InvalidTypeError if the source's `embedder` is not callable; otherwise, make the embedder picklable."""
    if not callable(source.embedder):
        raise InvalidTypeError(f"embedder must be callable; got {source.embedder!r:.80}")
    object.__setattr__(source, "embedder", portable(source.embedder))


def best_passages(
    graph: EntityGraph, rows: Int32Array | IntArray, scores: FloatArray, limit: int | None
) -> tuple[tuple[str, ...], FloatArray]:
    """Return the ids and scores of the `limit` best passages, best first; if `limit` is None, of all passages.

    ``scores[i]`` is the score of the passage in row ``rows[i]`` of the graph. Ties are broken by id.
    """
    best = top_order(scores, LocalIds(graph.passages, rows), limit)
    return tuple(graph.passages[row] for row in rows[best].tolist()), scores[best]


def walk_from(operator: Any, seeding: Seeding, weights: FloatArray | None, settings: PushSettings) -> PageRankResult:
    """Walk the edges of a graph from seeds, and return the masses of the nodes.

    `operator` is the graph, prepared for walks. `weights` are factors for the weights of all edges into a node, of
    shape (P + E,), or of shape (P,) if the factor of every entity is 1; None leaves the weights unchanged.
    """
    transitions = StaticTransitions(operator) if weights is None else RelevanceTransitions(operator, weights)
    seeds = as_seeds((seeding.nodes, seeding.masses), operator.size)
    return run_push(transitions, operator.pool, seeds, settings, None)
