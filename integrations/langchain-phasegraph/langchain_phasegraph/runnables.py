"""Convert what a user gives as a source to a LangChain runnable, and find out how the runnable can be searched."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

from langchain_phasegraph.base import overrides, store_awaits
from langchain_phasegraph.conversion import ScoredDocuments, unpack
from langchain_phasegraph.entity_graph import EntityGraphRetriever
from langchain_phasegraph.filters import only_matching
from langchain_phasegraph.scored_search import BOUND_FILTER, ScoredVectorStoreRetriever
from phasegraph import InvalidTypeError, Source
from phasegraph.retrieval import adapted, describe_type, known_direction, parameters_of


def _matching(answer: object, wanted: Mapping[str, Any] | None) -> ScoredDocuments:
    """Return the documents that match the filter, or all documents if there is no filter."""
    return unpack(answer) if wanted is None else only_matching(answer, wanted)


class FunctionRetriever(BaseRetriever):
    """A retriever that calls a plain function; traces show the call like the call of any other retriever."""

    function: Any
    accepts: frozenset[str]
    asynchronous: bool

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return _matching(self.function(query, **kwargs), kwargs.get("filter"))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        answer = self.function(query, **kwargs)
        return _matching(await answer if inspect.isawaitable(answer) else answer, kwargs.get("filter"))


def as_runnable(retriever: object) -> Runnable[str, Any]:
    """Convert a retriever, vector store, source or function to the runnable that is invoked for a source.

    Raises
    ------
    InvalidTypeError
        If `retriever` is of no supported type.
    """
    if isinstance(retriever, VectorStore):
        return as_runnable(retriever.as_retriever())
    if isinstance(retriever, VectorStoreRetriever):
        return ScoredVectorStoreRetriever.around(retriever) if _searches_plainly(retriever) else retriever
    if isinstance(retriever, RunnableBindingBase):
        bound, keywords = as_runnable(retriever.bound), dict(retriever.kwargs)
        if isinstance(bound, ScoredVectorStoreRetriever) and "filter" in keywords:
            keywords[BOUND_FILTER] = keywords.pop("filter")  # otherwise a call's filter would replace the bound filter
        return retriever.model_copy(update={"bound": bound, "kwargs": keywords})
    if isinstance(retriever, RunnableWithFallbacks):
        first, *others = (as_runnable(one) for one in (retriever.runnable, *retriever.fallbacks))
        directions = {known_direction(getattr(one, "vectorstore", None)) for one in (first, *others)}
        if len(directions) > 1:  # scores of different directions cannot be compared, so no scores are read
            return retriever
        return retriever.model_copy(update={"runnable": first, "fallbacks": others})
    if isinstance(retriever, Runnable):
        return retriever
    retriever = adapted(retriever)
    # A source with `retrieve` belongs to LlamaIndex: its graph could be searched, but the documents would have no text.
    if isinstance(retriever, Source) and not isinstance(retriever, type) and not hasattr(retriever, "retrieve"):
        return EntityGraphRetriever(graph=retriever, name=getattr(retriever, "name", None))
    if callable(retriever) and not isinstance(retriever, type):
        name = getattr(retriever, "__name__", type(retriever).__name__)
        call = getattr(retriever, "__call__", retriever)  # noqa: B004 - __call__ of an instance may be a coroutine function
        asynchronous = inspect.iscoroutinefunction(retriever) or inspect.iscoroutinefunction(call)
        accepts = parameters_of(retriever) & {"limit", "k", "upstream", "filter"}
        return FunctionRetriever(function=retriever, accepts=accepts, asynchronous=asynchronous, name=name)
    raise InvalidTypeError(
        f"a source must be a LangChain retriever, vector store, runnable, source or function; "
        f"got {describe_type(retriever)}"
    )


def _searches_plainly(retriever: VectorStoreRetriever) -> bool:
    """Return True if the retriever uses LangChain's own search methods and its store can return scores."""
    kind = type(retriever)
    return (
        kind._get_relevant_documents is VectorStoreRetriever._get_relevant_documents
        and kind._aget_relevant_documents is VectorStoreRetriever._aget_relevant_documents
        and kind.invoke is BaseRetriever.invoke
        and kind.ainvoke is BaseRetriever.ainvoke
        and overrides(retriever.vectorstore, VectorStore, "similarity_search_with_score")
    )


def leaves(runnable: Runnable[str, Any]) -> list[Runnable[str, Any]]:
    """Return the innermost runnables, which bindings, fallbacks and configurable fields wrap."""
    if isinstance(runnable, RunnableBindingBase):
        return leaves(runnable.bound)
    if isinstance(runnable, RunnableWithFallbacks):
        return [leaf for one in (runnable.runnable, *runnable.fallbacks) for leaf in leaves(one)]
    if isinstance(runnable, DynamicRunnable):
        return leaves(as_runnable(runnable.default))
    return [runnable]


def bound_filters(runnable: object) -> list[Any]:
    """Return the filters among the bound arguments of a runnable; a filter argument of a call would replace them."""
    if not isinstance(runnable, RunnableBindingBase):
        return []
    own = runnable.kwargs.get("filter")
    return [*([] if own is None else [own]), *bound_filters(runnable.bound)]


def search_arguments(runnable: Any) -> set[str]:
    """Return the names of the arguments that a retriever of a store, or a binding around it, passes to each search."""
    if isinstance(runnable, RunnableBindingBase):
        return search_arguments(runnable.bound) | (runnable.kwargs.keys() - {BOUND_FILTER})
    inner = runnable._inner if isinstance(runnable, ScoredVectorStoreRetriever) else runnable
    return set(inner.search_kwargs) if isinstance(inner, VectorStoreRetriever) else set()


def deepened(runnable: Runnable[str, Any], limit: int) -> Runnable[str, Any]:
    """Return the retriever, or a copy with ``k`` set to `limit` if the retriever's ``k`` is smaller."""
    if isinstance(runnable, RunnableBindingBase):
        inner = deepened(runnable.bound, limit)
        return runnable if inner is runnable.bound else runnable.model_copy(update={"bound": inner})
    if isinstance(runnable, BaseRetriever):
        own = getattr(runnable, "k", None)
        if isinstance(own, int) and own < limit and "k" in type(runnable).model_fields:
            return runnable.model_copy(update={"k": limit})
    return runnable


def is_asynchronous(leaf: Runnable[str, Any]) -> bool:
    """Return True if the runnable's class has its own asynchronous search, which needs no thread."""
    if isinstance(leaf, FunctionRetriever):
        return leaf.asynchronous
    if isinstance(leaf, EntityGraphRetriever):
        return False
    if isinstance(leaf, ScoredVectorStoreRetriever):
        return store_awaits(leaf.vectorstore, "asimilarity_search_with_score")
    if isinstance(leaf, VectorStoreRetriever):
        own = overrides(leaf, VectorStoreRetriever, "_aget_relevant_documents")
        return own or store_awaits(leaf.vectorstore, "asimilarity_search")
    if isinstance(leaf, RunnableLambda):
        return hasattr(leaf, "afunc")
    if isinstance(leaf, BaseRetriever) and not overrides(leaf, BaseRetriever, "ainvoke"):
        return not type(leaf)._aget_relevant_documents.__qualname__.startswith("BaseRetriever.")
    return overrides(leaf, Runnable, "ainvoke")


def is_synchronous(leaf: Runnable[str, Any]) -> bool:
    """Return True if the runnable can be called synchronously."""
    if isinstance(leaf, FunctionRetriever):
        return not leaf.asynchronous
    return not isinstance(leaf, RunnableLambda) or hasattr(leaf, "func")


def accepted_arguments(leaf: Runnable[str, Any]) -> frozenset[str]:
    """Return the keyword arguments among k, limit, upstream and filter that the runnable accepts."""
    if isinstance(leaf, FunctionRetriever):
        return leaf.accepts
    if isinstance(leaf, VectorStoreRetriever) and not overrides(leaf, VectorStoreRetriever, "_get_relevant_documents"):
        return frozenset({"k"})
    if isinstance(leaf, ScoredVectorStoreRetriever):
        return frozenset({"k", "filter"})
    if isinstance(leaf, BaseRetriever):
        return parameters_of(leaf._get_relevant_documents) & {"k", "upstream", "filter"}
    return frozenset()
