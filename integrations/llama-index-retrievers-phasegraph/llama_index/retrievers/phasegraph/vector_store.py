"""Use a retriever as a LlamaIndex vector store; an ingestion pipeline can then write to the retriever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)

from llama_index.retrievers.phasegraph.nodes import held_by_id, node_of
from phasegraph import InvalidInputError


class RetrieverStore(BasePydanticVectorStore):
    """A LlamaIndex vector store that reads and changes the nodes of a retriever.

    Parameters
    ----------
    retriever : CalibratedFusionRetriever or EntityGraphRetriever
        A retriever from ``from_nodes``, ``from_index`` or ``load``.
    """

    stores_text: bool = True
    flat_metadata: bool = False
    retriever: Any

    @property
    def client(self) -> Any:
        """The retriever; the framework expects a vector store to have a client."""
        return self.retriever

    def add(self, nodes: Sequence[BaseNode], **add_kwargs: Any) -> list[str]:
        """Add nodes, replace stored nodes that have the same ids, and return the ids.

        Nodes without text are left out, with a warning.
        """
        corpus = self.retriever._own_corpus()
        held = self.retriever._framework.with_words(held_by_id(nodes), corpus.keys.title, may_be_empty=True)
        items = list(held.values())
        self.retriever._replace(corpus, (), self.retriever._passages(items), items, progress=False)
        return list(held)

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete all nodes of a document; an unknown document is ignored."""
        corpus = self.retriever._own_corpus()
        strays = self.retriever._strays(corpus, None, {"ref_doc_id": ref_doc_id})
        records = corpus.index.records.values()
        self.delete_nodes([*strays, *(one.id for one in records if one.metadata.get("ref_doc_id") == ref_doc_id)])

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete the nodes with the ids `node_ids` that match `filters`; None means all ids, or no filters.

        Raise InvalidInputError if both arguments are None.
        """
        if node_ids is None and filters is None:
            raise InvalidInputError("delete_nodes() needs node_ids or filters; got neither")
        corpus = self.retriever._own_corpus()
        found = list(corpus.index.records) if filters is None else self.retriever.ids(filters)
        found += self.retriever._strays(corpus, node_ids if filters is None else None, filters)
        wanted = set(found if node_ids is None else node_ids)
        ids = [one for one in found if one in wanted]
        if ids:
            self.retriever.delete(ids)

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Return the nodes with the ids `node_ids` that match `filters`; None means all ids, or no filters."""
        ids = self.retriever.ids(filters)
        wanted = set(ids if node_ids is None else node_ids)
        return [
            node_of(one) for one in self.retriever._own_corpus().records(one for one in ids if one in wanted).values()
        ]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the nodes that the retriever finds for the text of a query."""
        if not query.query_str:
            raise InvalidInputError("a retriever searches by text, and the query has none: set query_str")
        asked = self.retriever if query.filters is None else self.retriever.within(query.filters)
        hits = asked.retrieve(query.query_str)[: query.similarity_top_k]
        return VectorStoreQueryResult(
            nodes=[hit.node for hit in hits],
            similarities=[float(hit.score or 0.0) for hit in hits],
            ids=[hit.node.node_id for hit in hits],
        )
