"""Replace two methods of a retriever's copy: keep repeated hits, and skip nodes that were deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import VectorStoreQueryResult

from llama_index.retrievers.phasegraph.conversion import unpack

_INSERT = "_insert_fetched_nodes_into_query_result"


class _KeepRepeatedHits:
    """A replacement for a retriever's `_handle_recursive_retrieval`, which would keep only the first hit of each id.

    The replacement keeps all hits, so that the best hit of an id is used and the report counts duplicates. Texts and
    database rows are converted to hits.
    """

    def __init__(self, retriever: BaseRetriever) -> None:
        self.retriever = retriever

    def __call__(self, query_bundle: QueryBundle, nodes: object) -> list[NodeWithScore]:
        """Convert `nodes` to hits, and replace each index node by the hits of the retriever to which it refers."""
        hits, handle = unpack(nodes), type(self.retriever)._handle_recursive_retrieval
        if not any(issubclass(kind, IndexNode) for kind in {type(hit.node) for hit in hits}):
            return hits
        return [one for hit in hits for one in handle(self.retriever, query_bundle, [hit])]


class _KeepRepeatedHitsAsync(_KeepRepeatedHits):
    """The asynchronous version of :class:`_KeepRepeatedHits`."""

    async def __call__(self, query_bundle: QueryBundle, nodes: object) -> list[NodeWithScore]:  # type: ignore[override]
        """Convert `nodes` to hits, and replace each index node by the hits of the retriever to which it refers."""
        hits, handle = unpack(nodes), type(self.retriever)._ahandle_recursive_retrieval
        if not any(isinstance(hit.node, IndexNode) for hit in hits):
            return hits
        return [one for hit in hits for one in await handle(self.retriever, query_bundle, [hit])]


class _SkipDeletedNodes:
    """A replacement for a retriever's `_insert_fetched_nodes_into_query_result` that leaves out deleted nodes.

    The framework's method raises an error for a deleted node; the whole answer would be lost.
    """

    def __init__(self, retriever: VectorIndexRetriever) -> None:
        self.retriever = retriever
        self.count = 0

    def __call__(self, result: VectorStoreQueryResult, fetched: list[BaseNode]) -> Sequence[BaseNode]:
        if result.ids and not result.nodes:
            names, held = self.retriever._index.index_struct.nodes_dict, {node.node_id for node in fetched}
            rows = [row for row, one in enumerate(result.ids) if names[one] in held]
            self.count = len(result.ids) - len(rows)
            result.ids = [result.ids[row] for row in rows]
            result.similarities = None if result.similarities is None else [result.similarities[row] for row in rows]
        return type(self.retriever)._insert_fetched_nodes_into_query_result(self.retriever, result, fetched)


def keep_repeated_hits(retriever: BaseRetriever) -> None:
    """Change a copy of a retriever, so that it keeps repeated hits, which the framework would drop."""
    vars(retriever)["_handle_recursive_retrieval"] = _KeepRepeatedHits(retriever)
    vars(retriever)["_ahandle_recursive_retrieval"] = _KeepRepeatedHitsAsync(retriever)


def skip_deleted_nodes(retriever: VectorIndexRetriever) -> None:
    """Change a copy of a retriever, so that it leaves out deleted nodes; the framework would raise an error."""
    vars(retriever)[_INSERT] = _SkipDeletedNodes(retriever)


def deleted_nodes(retriever: Any) -> int | None:
    """Return the number of deleted nodes that the last search left out; None for a retriever without this change."""
    replacement = vars(retriever).get(_INSERT)
    return None if replacement is None else int(replacement.count)
