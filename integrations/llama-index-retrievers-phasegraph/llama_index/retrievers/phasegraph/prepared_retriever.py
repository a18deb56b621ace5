"""Copy a LlamaIndex retriever for a single search, with the number of hits that the search requests."""

from __future__ import annotations

import copy
from typing import Any, cast

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.retrievers import TransformRetriever
from llama_index.core.vector_stores.simple import SimpleVectorStore

from llama_index.retrievers.phasegraph.embedding import QuestionModel
from llama_index.retrievers.phasegraph.function_retriever import IndexIds
from llama_index.retrievers.phasegraph.in_memory_store import OneSearchAtATime, StoreCache
from llama_index.retrievers.phasegraph.method_replacements import keep_repeated_hits, skip_deleted_nodes
from llama_index.retrievers.phasegraph.own_retriever import OwnRetriever
from llama_index.retrievers.phasegraph.postgres_store import with_sql_filters
from llama_index.retrievers.phasegraph.property_graph import is_knowledge, with_own_chunks
from llama_index.retrievers.phasegraph.retriever_traits import decides_membership
from phasegraph.retrieval import Upstream


def prepared(retriever: Any, limit: int | None, upstream: Upstream, cache: StoreCache) -> Any:
    """Return a copy of a retriever for a single search.

    A retriever of phasegraph gets an :class:`Exchange` with `limit` and `upstream`. For any other retriever, `limit`
    replaces its own number of hits, if possible. The copy keeps repeated hits, which the framework would drop. `cache`
    contains cached data of an in-memory store, which later searches reuse.
    """
    made = _copied(retriever, limit, upstream, cache)
    if isinstance(made, BaseRetriever) and hasattr(made, "__dict__"):
        made = copy.copy(made) if made is retriever else made
        keep_repeated_hits(made)
    return made


def _copied(retriever: Any, limit: int | None, upstream: Upstream, cache: StoreCache) -> Any:
    """Return a copy of a retriever with its settings for the search; the retriever itself if no setting changes."""
    if isinstance(retriever, OwnRetriever):
        return retriever.for_call(limit, upstream)
    if is_knowledge(retriever):
        return with_own_chunks(retriever, limit)
    store = getattr(retriever, "_vector_store", None)
    if isinstance(store, SimpleVectorStore):
        retriever = copy.copy(retriever)
        retriever._vector_store = OneSearchAtATime(store, cache)
    retriever = with_sql_filters(retriever)
    if isinstance(retriever, VectorIndexRetriever) and isinstance(retriever._embed_model, BaseEmbedding):
        retriever = copy.copy(retriever)
        cast("Any", retriever)._embed_model = QuestionModel(retriever._embed_model)
    if isinstance(getattr(retriever, "_node_ids", None), IndexIds):
        retriever = copy.copy(retriever)
        retriever._node_ids = list(retriever._node_ids)  # a store may need a list, for example for JSON
    if isinstance(retriever, VectorIndexRetriever) and not retriever._vector_store.stores_text:
        retriever = copy.copy(retriever)
        skip_deleted_nodes(retriever)
    return retriever if limit is None else _with_limit(retriever, limit)


def _with_limit(retriever: Any, limit: int) -> Any:
    """Return a copy that requests `limit` hits; the retriever itself if it has no number of hits that may change."""
    if not isinstance(retriever, BaseRetriever) or decides_membership(retriever):
        return retriever
    if isinstance(retriever, TransformRetriever):
        around = copy.copy(retriever)
        around._retriever = _with_limit(retriever._retriever, limit)
        return around
    name = next((one for one in ("similarity_top_k", "_similarity_top_k") if _is_count(retriever, one)), None)
    if name is None:
        return retriever
    corpus = getattr(retriever, "corpus", None) if hasattr(retriever, "bm25") else None
    made = copy.copy(retriever)
    setattr(made, name, limit if corpus is None else min(limit, len(corpus)))
    return made


def _is_count(retriever: object, name: str) -> bool:
    value = getattr(retriever, name, None)
    return isinstance(value, int) and not isinstance(value, bool)
