"""Search an in-memory vector store one query at a time, and compare only nodes that can be among the nearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import is_
from typing import Any, NamedTuple

import numpy as np
from llama_index.core.vector_stores import simple
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

from llama_index.retrievers.phasegraph.filters import is_nested, key_of, verdict_of
from phasegraph.retrieval import Nearest, Recent, turn


class StoreCache(NamedTuple):
    """The cached data of an in-memory store: its vectors as a matrix, and the nodes that match recent filters."""

    nearest: Nearest
    matching: Recent


class OneSearchAtATime:
    """A wrapper around an in-memory vector store that runs only one search at a time.

    Parallel searches would compete with each other and with the event loop for the interpreter, and could all miss
    their deadlines. Work outside the search, such as a call to an embedding service, still runs in parallel. The store
    compares only nodes that can be among the nearest, which gives the same answer in less time.
    """

    def __init__(self, store: SimpleVectorStore, cache: StoreCache) -> None:
        self._store = store
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Run the store's search while no other search runs, and return the result."""
        with turn():
            return self._store.query(self._narrowed(self._flat(query)), **kwargs)

    def _flat(self, query: VectorStoreQuery) -> VectorStoreQuery:
        """Replace nested filters, which the store does not support, by the ids of the matching nodes."""
        if query.filters is None or not is_nested(query.filters):
            return query
        held, fits = self._store.data.metadata_dict, verdict_of(query.filters)
        wanted = held if query.node_ids is None else [one for one in query.node_ids if one in held]
        return replace(query, filters=None, node_ids=[one for one in wanted if fits(held[one])])

    def _narrowed(self, query: VectorStoreQuery) -> VectorStoreQuery:
        """Restrict the query to nodes that can be among the nearest; return it unchanged if its mode is not DEFAULT."""
        plain = query.mode == VectorStoreQueryMode.DEFAULT
        if not plain or query.query_embedding is None or not query.similarity_top_k:
            return query
        held, wanted = self._store.data.embedding_dict, query.node_ids
        ids, allowed = list(held), None
        if wanted is not None:
            allowed = np.fromiter(map(set(wanted).__contains__, ids), dtype=np.bool_, count=len(ids))
        if query.filters is not None:
            matching = self._matching(ids, query.filters)
            if matching is None:
                return query
            allowed = matching if allowed is None else allowed & matching
        if (len(ids) if allowed is None else np.count_nonzero(allowed)) <= query.similarity_top_k:
            return query
        rows = self._cache.nearest.rows(held.values(), query.query_embedding, query.similarity_top_k, allowed)
        return query if rows is None else replace(query, node_ids=[ids[row] for row in rows.tolist()])

    def _matching(self, ids: Sequence[str], filters: MetadataFilters) -> Any:
        """Return a boolean array with an entry for each id in `ids`, True if the node matches the filters.

        The array is cached until the metadata change. Return None if the store's metadata cannot be read.
        """
        metadata, let_through = self._store.data.metadata_dict, getattr(simple, "build_metadata_filter_fn", None)
        if let_through is None or not all(one in metadata for one in ids):
            return None
        rows, key = [metadata[one] for one in ids], key_of(filters)

        def made() -> tuple[list[Any], Any]:
            fits = let_through(metadata.__getitem__, filters)
            return rows, np.fromiter(map(fits, ids), dtype=np.bool_, count=len(ids))

        before, found = self._cache.matching.get(key, made)
        if len(before) != len(rows) or not all(map(is_, before, rows)):
            self._cache.matching.forget(key)
            _, found = self._cache.matching.get(key, made)
        return found
