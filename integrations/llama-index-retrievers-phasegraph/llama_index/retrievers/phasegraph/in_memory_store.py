"""Search an in-memory vector store one query at a time, and compare only nodes that can be among the nearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from operator import is_
from typing import Any, NamedTuple

import numpy as np
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

from llama_index.retrievers.phasegraph.filters import key_of
from llama_index.retrievers.phasegraph.matching_nodes import verdict_of
from phasegraph.retrieval import FilterRefusedError, Nearest, Recent, turn


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
            return self._store.query(self._narrowed(self._unfiltered(query)), **kwargs)

    def _unfiltered(self, query: VectorStoreQuery) -> VectorStoreQuery:
        """Replace the filters by the ids of the matching nodes, because the store does not support nested filters."""
        if query.filters is None:
            return query
        ids = list(self._store.data.embedding_dict)
        wanted = set(ids if query.node_ids is None else query.node_ids)
        found = compress(ids, self._matching(ids, query.filters))
        return replace(query, filters=None, node_ids=[one for one in found if one in wanted])

    def _narrowed(self, query: VectorStoreQuery) -> VectorStoreQuery:
        """Restrict the query to nodes that can be among the nearest; return it unchanged if its mode is not DEFAULT."""
        plain = query.mode == VectorStoreQueryMode.DEFAULT
        if not plain or query.query_embedding is None or not query.similarity_top_k:
            return query
        held, wanted = self._store.data.embedding_dict, query.node_ids
        ids, allowed = list(held), None
        if wanted is not None:
            allowed = np.fromiter(map(set(wanted).__contains__, ids), dtype=np.bool_, count=len(ids))
        if (len(ids) if allowed is None else np.count_nonzero(allowed)) <= query.similarity_top_k:
            return query
        rows = self._cache.nearest.rows(held.values(), query.query_embedding, query.similarity_top_k, allowed)
        return query if rows is None else replace(query, node_ids=[ids[row] for row in rows.tolist()])

    def _matching(self, ids: Sequence[str], filters: MetadataFilters) -> list[bool]:
        """Return, for each id in `ids`, whether the node matches the filters.

        A node without metadata, which another thread may be inserting, does not match. The list is cached until the
        metadata change. Raise FilterRefusedError if the store has no metadata.
        """
        metadata = self._store.data.metadata_dict
        if ids and not metadata:
            raise FilterRefusedError(
                f"filters= needs the metadata of the nodes, and the {type(self._store).__name__} has no metadata: "
                "build the index again"
            )
        rows, key, fits = list(map(metadata.get, ids)), key_of(filters), verdict_of(filters)

        def made() -> tuple[list[Any], list[bool]]:
            return rows, [row is not None and bool(fits(row)) for row in rows]

        found: list[bool]
        before, found = self._cache.matching.get(key, made)
        if len(before) != len(rows) or not all(map(is_, before, rows)):
            self._cache.matching.forget(key)
            _, found = self._cache.matching.get(key, made)
        return found
