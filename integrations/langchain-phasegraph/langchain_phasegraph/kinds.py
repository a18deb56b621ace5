"""What a runnable can do: whether it is asynchronous, what it takes, which store it searches."""

from __future__ import annotations

from typing import Any

from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

from langchain_phasegraph.graph import EntityGraphRetriever
from langchain_phasegraph.searching import (
    FunctionRetriever,
    ScoredVectorStoreRetriever,
    as_runnable,
    overrides,
)
from phasegraph.adapters.functions import parameters_of


def leaves(runnable: Runnable[str, Any]) -> list[Runnable[str, Any]]:
    """What is asked in the end, with bindings, fallbacks and configurable fields taken off."""
    if isinstance(runnable, RunnableBindingBase):
        return leaves(runnable.bound)
    if isinstance(runnable, RunnableWithFallbacks):
        return [leaf for one in (runnable.runnable, *runnable.fallbacks) for leaf in leaves(one)]
    if isinstance(runnable, DynamicRunnable):
        return leaves(as_runnable(runnable.default))
    return [runnable]


def bound_filters(runnable: object) -> list[Any]:
    """Filters among the arguments bound to it, which those of a call would replace."""
    if not isinstance(runnable, RunnableBindingBase):
        return []
    own = runnable.kwargs.get("filter")
    return [*([] if own is None else [own]), *bound_filters(runnable.bound)]


def is_asynchronous(runnable: Runnable[str, Any]) -> bool:
    """Whether its classes themselves have an asynchronous search, rather than their sync one in a thread."""
    return all(map(_leaf_is_asynchronous, leaves(runnable)))


def is_synchronous(runnable: Runnable[str, Any]) -> bool:
    """Whether it can be asked without an event loop."""
    return all(
        not leaf.asynchronous if isinstance(leaf, FunctionRetriever) else _has_sync(leaf) for leaf in leaves(runnable)
    )


def accepted(runnable: Runnable[str, Any]) -> frozenset[str]:
    """Keyword arguments among k, limit, given and filter that its ``invoke`` hands on."""
    first, *others = map(_leaf_accepts, leaves(runnable))
    return first.intersection(*others)


def deepened(runnable: Runnable[str, Any], limit: int) -> Runnable[str, Any]:
    """The retriever itself, or a copy with a larger ``k`` where its own is a field and smaller than `limit`."""
    if isinstance(runnable, RunnableBindingBase):
        inner = deepened(runnable.bound, limit)
        return runnable if inner is runnable.bound else runnable.model_copy(update={"bound": inner})
    if isinstance(runnable, BaseRetriever):
        own = getattr(runnable, "k", None)
        if isinstance(own, int) and own < limit and "k" in type(runnable).model_fields:
            return runnable.model_copy(update={"k": limit})
    return runnable


def _leaf_is_asynchronous(leaf: Runnable[str, Any]) -> bool:
    if isinstance(leaf, FunctionRetriever):
        return leaf.asynchronous
    if isinstance(leaf, EntityGraphRetriever):
        return False
    if isinstance(leaf, ScoredVectorStoreRetriever):
        return _store_awaits(leaf.vectorstore, "asimilarity_search_with_score")
    if isinstance(leaf, VectorStoreRetriever):
        own = overrides(leaf, VectorStoreRetriever, "_aget_relevant_documents")
        return own or _store_awaits(leaf.vectorstore, "asimilarity_search")
    if isinstance(leaf, RunnableLambda):
        return hasattr(leaf, "afunc")
    if isinstance(leaf, BaseRetriever) and not overrides(leaf, BaseRetriever, "ainvoke"):
        return not type(leaf)._aget_relevant_documents.__qualname__.startswith("BaseRetriever.")
    return overrides(leaf, Runnable, "ainvoke")


def _store_awaits(store: VectorStore, method: str) -> bool:
    """Whether the store has such a coroutine of its own, and was opened for it (PGVector is opened for one kind)."""
    return overrides(store, VectorStore, method) and getattr(store, "async_mode", True) is not False


def _has_sync(leaf: Runnable[str, Any]) -> bool:
    return not isinstance(leaf, RunnableLambda) or hasattr(leaf, "func")


def _leaf_accepts(leaf: Runnable[str, Any]) -> frozenset[str]:
    if isinstance(leaf, FunctionRetriever):
        return leaf.accepts
    if isinstance(leaf, VectorStoreRetriever) and not overrides(leaf, VectorStoreRetriever, "_get_relevant_documents"):
        return frozenset({"k"})
    if isinstance(leaf, ScoredVectorStoreRetriever):
        return frozenset({"k", "filter"})
    if isinstance(leaf, BaseRetriever) and leaf._expects_other_args:
        return parameters_of(leaf._get_relevant_documents) & {"k", "given", "filter"}
    return frozenset()
