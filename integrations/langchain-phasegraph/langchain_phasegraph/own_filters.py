"""Find the filter that a source applies in every call, also inside runnables that contain other retrievers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnableParallel, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import ensure_config
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.vectorstores import VectorStoreRetriever

from langchain_phasegraph.base import CheckedRetriever, overrides
from langchain_phasegraph.filters import Wanted, check_filter, joined
from langchain_phasegraph.runnables import as_runnable
from langchain_phasegraph.scored_search import BOUND_FILTER, ScoredVectorStoreRetriever
from langchain_phasegraph.store_filters import NARROWS, own_filter
from phasegraph import InvalidInputError

_INNER = ("base_retriever", "retriever")
"""Fields that contain the only retriever of a wrapping retriever."""


def may_filter(runnable: object) -> bool:
    """Return True if the runnable, or a runnable in it, can have its own filter."""
    if hasattr(runnable, "search_kwargs") or isinstance(runnable, CheckedRetriever | ScoredVectorStoreRetriever):
        return True
    if isinstance(runnable, DynamicRunnable):
        return True
    if isinstance(runnable, RunnableBindingBase) and not runnable.kwargs.keys().isdisjoint(("filter", BOUND_FILTER)):
        return True
    return any(map(may_filter, (*_parts(runnable), *_alternatives(runnable))))


def filter_within(runnable: Any, config: RunnableConfig, bound: Mapping[str, Any] | None = None) -> Wanted | None:
    """Return the filter that a runnable applies in every call with the configuration; None if it has no filter.

    The filter is in the search arguments, the bound arguments or the field `filter`. `bound` are search arguments that
    were bound to a runnable around this runnable; their filter is in the store's own form. Raise InvalidInputError if
    other sources cannot apply the filter.
    """
    if isinstance(runnable, VectorStoreRetriever | CheckedRetriever):  # the most frequent kinds
        return _of_leaf(runnable, config, bound)
    if isinstance(runnable, RunnableBindingBase):
        words = runnable.kwargs
        bound = {"filter": words[BOUND_FILTER]} if words.get(BOUND_FILTER) is not None and bound is None else bound
        chosen = {**runnable.config.get("configurable", {}), **config.get("configurable", {})}
        inner = filter_within(runnable.bound, {"configurable": chosen}, bound)
        return joined(check_filter(words.get("filter")), inner)
    if isinstance(runnable, DynamicRunnable):
        prepared, config = runnable.prepare({"configurable": config.get("configurable", {})})
        return filter_within(as_runnable(prepared), config, bound)
    if isinstance(runnable, BaseRetriever) and not overrides(runnable, BaseRetriever, "invoke"):
        config = ensure_config()  # it gets only the callbacks of a call, so its retrievers use the surrounding run's
    found = [filter_within(as_runnable(one), config, bound) for one in _alternatives(runnable)]
    if any(one != found[0] for one in found):
        raise InvalidInputError(
            f"the retrievers of {type(runnable).__name__} do not have the same filter: give them as sources of their "
            "own: retrievers={NAME: RETRIEVER, ...}"
        )
    parts = [filter_within(as_runnable(one), config, bound) for one in _parts(runnable)]
    return joined(*found, *parts) if found or parts else _of_leaf(runnable, config, bound)


def _of_leaf(leaf: Any, config: RunnableConfig, bound: Mapping[str, Any] | None) -> Wanted | None:
    """Return the filter of a runnable that contains no other runnable."""
    inner = leaf._inner if isinstance(leaf, ScoredVectorStoreRetriever) else leaf
    found: list[Mapping[str, Any] | None] = [
        own_filter(getattr(inner, "vectorstore", None), one)
        for one in (getattr(inner, "search_kwargs", None), bound)
        if one and not NARROWS.isdisjoint(one)
    ]
    if isinstance(inner, CheckedRetriever) and (own := inner.whole_filter(config)) is not None:
        found.append(own)
    return joined(*found) if found else None


def _parts(runnable: Any) -> list[Runnable[Any, Any]]:
    """Return the runnables in a runnable whose filters all apply to its answer."""
    if isinstance(runnable, CheckedRetriever):
        return []
    if isinstance(runnable, RunnableBindingBase):
        return [runnable.bound]
    if isinstance(runnable, RunnableWithFallbacks):
        return [runnable.runnable, *runnable.fallbacks]
    if isinstance(runnable, RunnableSequence):  # earlier retrievers only find the query of the last retriever
        return next(([one] for one in reversed(runnable.steps) if _retrieves(one)), [])
    held = (getattr(runnable, name, None) for name in _INNER) if isinstance(runnable, BaseRetriever) else ()
    return [one for one in held if isinstance(one, Runnable)]


def _alternatives(runnable: Any) -> list[Runnable[Any, Any]]:
    """Return the runnables whose answers a runnable merges, such as the retrievers of an ``EnsembleRetriever``."""
    if isinstance(runnable, RunnableParallel):
        return [one for one in runnable.steps__.values() if _retrieves(one)]
    held = getattr(runnable, "retrievers", None)
    if isinstance(runnable, CheckedRetriever) or not isinstance(runnable, BaseRetriever) or not isinstance(held, list):
        return []
    return [one for one in held if isinstance(one, Runnable)]


def _retrieves(runnable: Any) -> bool:
    """Return True if the runnable is a retriever, or contains a retriever."""
    inner = as_runnable(runnable.default) if isinstance(runnable, DynamicRunnable) else runnable
    return isinstance(inner, BaseRetriever) or any(map(_retrieves, (*_parts(inner), *_alternatives(inner))))
