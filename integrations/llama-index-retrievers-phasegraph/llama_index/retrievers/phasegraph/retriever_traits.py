"""Find out how a LlamaIndex retriever searches: asynchronously, unordered, with which scores and event handlers."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.indices.list import SummaryIndexRetriever
from llama_index.core.indices.property_graph import BasePGRetriever, PGRetriever
from llama_index.core.indices.tree.all_leaf_retriever import TreeAllLeafRetriever
from llama_index.core.indices.tree.tree_root_retriever import TreeRootRetriever
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.vector_stores.types import VectorStoreQueryMode
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.event_handlers import NullEventHandler
from llama_index_instrumentation.span_handlers import NullSpanHandler

from llama_index.retrievers.phasegraph.function_retriever import FunctionRetriever
from llama_index.retrievers.phasegraph.property_graph import is_knowledge
from phasegraph.retrieval import Calibrating, known_direction


def decides_membership(retriever: object) -> bool:
    """Return True if the query mode is MMR: the number of requested hits then affects which hits are chosen."""
    return getattr(retriever, "_vector_store_query_mode", None) == VectorStoreQueryMode.MMR


def is_asynchronous(retriever: Any) -> bool:
    """Return True if the retriever has its own asynchronous search, which does not block the event loop."""
    if isinstance(retriever, FunctionRetriever):
        return retriever.asynchronous
    if getattr(retriever, "walks", False) is True:
        return False
    within = getattr(retriever, "_retrievers", None) or getattr(retriever, "_retriever", None)
    inner = within.values() if isinstance(within, dict) else within if isinstance(within, list) else [within]
    if not all(is_asynchronous(one) for one in inner if hasattr(one, "retrieve")):
        return False
    if isinstance(retriever, PGRetriever):
        return all(map(is_asynchronous, retriever.sub_retrievers))
    if isinstance(retriever, BasePGRetriever):
        store = retriever._graph_store
        return not isinstance(store, PropertyGraphStore) or awaits(store, "get", "aget")
    if isinstance(retriever, VectorIndexRetriever) and not _store_awaits(retriever._vector_store):
        return False
    if isinstance(retriever, BaseRetriever):
        return awaits(retriever, "_retrieve", "_aretrieve") and awaits(retriever, "retrieve", "aretrieve")
    return inspect.iscoroutinefunction(getattr(retriever, "aretrieve", None))


def awaits(instance: object, sync: str, native: str) -> bool:
    """Return True if the method named `native` is the asynchronous version of the method named `sync`.

    This is the case if the class that defines `sync`, or a subclass of this class, also defines `native`.
    Otherwise, `native` is the method of a base class, which only calls the synchronous method.
    """
    order = type(instance).__mro__
    defined = {name: next((i for i, kind in enumerate(order) if name in vars(kind)), -1) for name in (sync, native)}
    return 0 <= defined[native] <= defined[sync]


def _store_awaits(store: object) -> bool:
    """Return True if the vector store can search asynchronously; a Qdrant store may have no asynchronous client."""
    return awaits(store, "query", "aquery") and getattr(store, "_aclient", store) is not None


def known_score_direction(retriever: Any) -> bool | None:
    """Return True if a higher score is better, False if a lower score is better; None if the direction is unknown."""
    if is_knowledge(retriever) or isinstance(retriever, Calibrating) or type(retriever).__name__ == "BM25Retriever":
        return True
    if not isinstance(retriever, VectorIndexRetriever):
        return None
    plain = retriever._vector_store_query_mode == VectorStoreQueryMode.DEFAULT
    return known_direction(retriever._vector_store) if plain else None


def is_unordered(retriever: Any) -> bool:
    """Return True if the retriever returns all its nodes in storage order, without scores."""
    inner = getattr(retriever, "retriever", retriever) if isinstance(retriever, BaseQueryEngine) else retriever
    return isinstance(inner, SummaryIndexRetriever | TreeAllLeafRetriever | TreeRootRetriever)


_NULL = {NullEventHandler, NullSpanHandler}


@cache
def _only_searches(kind: Any) -> bool:
    """Return True if the class inherits ``retrieve`` and ``aretrieve`` from LlamaIndex's ``BaseRetriever``.

    The inherited methods only search, and notify the event handlers, span handlers and callback handlers.
    """
    found = [next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), None) for name in _ASKING]
    return found == [vars(BaseRetriever)[name] for name in _ASKING]


_ASKING = ("retrieve", "aretrieve")


def is_unheard(retriever: Any) -> bool:
    """Return True if no event handler, span handler or callback handler is registered for calls of ``retrieve``.

    In this case, the search skips the setup for handlers, which takes most of the time of a fast search.
    """
    if not _only_searches(retriever.__class__) or not vars(retriever).keys().isdisjoint(_ASKING):
        return False
    if getattr(getattr(retriever, "callback_manager", None), "handlers", True):
        return False
    dispatcher: Any = get_dispatcher(BaseRetriever.__module__)
    while dispatcher is not None:
        if not {*map(type, dispatcher.event_handlers), *map(type, dispatcher.span_handlers)} <= _NULL:
            return False
        dispatcher = dispatcher.parent if dispatcher.propagate else None
    return True
