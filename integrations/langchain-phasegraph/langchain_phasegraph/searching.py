"""Everything that can be asked, as a runnable that keeps the scores."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import PrivateAttr

from langchain_phasegraph.documents import ScoredDocuments, unpack
from langchain_phasegraph.filtering import only_matching, store_settings
from langchain_phasegraph.graph import EntityGraphRetriever
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.adapters import known_direction
from phasegraph.adapters.checks import kind_of
from phasegraph.adapters.functions import parameters_of
from phasegraph.sources import Source

_MEMBERSHIP_ONLY = ("fetch_k", "lambda_mult", "score_threshold")
_FETCHED, _DEFAULT_K = 20, 4
_BOUND = "phasegraph_bound_filter"


class ScoredVectorStoreRetriever(VectorStoreRetriever):
    """A vector-store retriever's own search, run so that the scores survive, and no hit beyond a call's filter does.

    ``similarity`` is run again as ``similarity_search_with_score``. Under ``mmr`` and ``similarity_score_threshold``
    the retriever's own search decides which documents come back, and a score search supplies their scores; ``mmr``
    keeps its own ``k``. Relevance functions are never asked for scores.
    """

    _inner: VectorStoreRetriever = PrivateAttr()

    @classmethod
    def around(cls, inner: VectorStoreRetriever) -> ScoredVectorStoreRetriever:
        """The retriever that asks as `inner` does, whose settings are read at every call."""
        made = cls(vectorstore=inner.vectorstore, name=inner.get_name(), tags=inner.tags, metadata=inner.metadata)
        made._inner = inner
        return made

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return only_matching(self._found(query, run_manager, kwargs), kwargs.get("filter"))

    def _found(self, query: str, run_manager: CallbackManagerForRetrieverRun, kwargs: Mapping[str, Any]) -> object:
        store, settings = self._inner.vectorstore, self._settings(kwargs)
        if self._inner.search_type == "similarity":
            try:
                return unpack(store.similarity_search_with_score(query, **settings))
            except NotImplementedError:
                return self._inner._get_relevant_documents(query, run_manager=run_manager, **settings)
        found = self._inner._get_relevant_documents(query, run_manager=run_manager, **settings)
        return _joined(found, store.similarity_search_with_score(query, **_score_search(settings)))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return only_matching(await self._afound(query, run_manager, kwargs), kwargs.get("filter"))

    async def _afound(
        self, query: str, run_manager: AsyncCallbackManagerForRetrieverRun, kwargs: Mapping[str, Any]
    ) -> object:
        store, settings = self._inner.vectorstore, self._settings(kwargs)
        if self._inner.search_type == "similarity":
            try:
                return unpack(await store.asimilarity_search_with_score(query, **settings))
            except NotImplementedError:
                return await self._inner._aget_relevant_documents(query, run_manager=run_manager, **settings)
        found = await self._inner._aget_relevant_documents(query, run_manager=run_manager, **settings)
        return _joined(found, await store.asimilarity_search_with_score(query, **_score_search(settings)))

    def _settings(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        own = dict(self._inner.search_kwargs)
        given = dict(kwargs)
        wanted, bound = given.pop("filter", None), given.pop(_BOUND, None)
        if bound is not None:
            own["filter"] = bound
        settings = own if self._inner.search_type == "mmr" else {**own, **given}
        if wanted is None:
            return settings
        found = store_settings(self._inner.vectorstore, wanted, own.get("filter"))
        if "k" in found and self._inner.search_type != "similarity":
            raise InvalidInputError(f"a filter cannot be kept by this store under {self._inner.search_type!r}")
        return {**settings, **found}


class FunctionRetriever(BaseRetriever):
    """A plain function as a retriever, so that it is traced like one."""

    function: Any
    accepts: frozenset[str]
    asynchronous: bool

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        return only_matching(self.function(query, **kwargs), kwargs.get("filter"))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        answer = self.function(query, **kwargs)
        return only_matching(await answer if inspect.isawaitable(answer) else answer, kwargs.get("filter"))


def as_runnable(retriever: object) -> Runnable[str, Any]:
    """The runnable to ask.

    Raises
    ------
    InvalidTypeError
        If it is none of the things that can be asked.
    """
    if isinstance(retriever, VectorStore):
        return as_runnable(retriever.as_retriever())
    if isinstance(retriever, VectorStoreRetriever):
        return ScoredVectorStoreRetriever.around(retriever) if _is_plain(retriever) else retriever
    if isinstance(retriever, RunnableBindingBase):
        bound, keywords = as_runnable(retriever.bound), dict(retriever.kwargs)
        if isinstance(bound, ScoredVectorStoreRetriever) and "filter" in keywords:
            keywords[_BOUND] = keywords.pop("filter")  # a call's own filter joins it, and does not take its place
        return retriever.model_copy(update={"bound": bound, "kwargs": keywords})
    if isinstance(retriever, RunnableWithFallbacks):
        return _with_fallbacks(retriever)
    if isinstance(retriever, Runnable):
        return retriever
    # With a `retrieve` it is LlamaIndex's: its walk could be asked, but no document would have a text.
    if isinstance(retriever, Source) and not isinstance(retriever, type) and not hasattr(retriever, "retrieve"):
        return EntityGraphRetriever(graph=retriever, name=getattr(retriever, "name", None))
    if callable(retriever) and not isinstance(retriever, type):
        name = getattr(retriever, "__name__", type(retriever).__name__)
        call = getattr(retriever, "__call__", retriever)  # noqa: B004 - an instance's coroutine method
        asynchronous = inspect.iscoroutinefunction(retriever) or inspect.iscoroutinefunction(call)
        accepts = parameters_of(retriever) & {"limit", "k", "given", "filter"}
        return FunctionRetriever(function=retriever, accepts=accepts, asynchronous=asynchronous, name=name)
    raise InvalidTypeError(
        f"a source must be a LangChain retriever, vector store, runnable, source or function; got {kind_of(retriever)}"
    )


def _with_fallbacks(retriever: RunnableWithFallbacks[str, Any]) -> Runnable[str, Any]:
    """The same with its scores, unless its stores count in different directions."""
    first, *others = (as_runnable(one) for one in (retriever.runnable, *retriever.fallbacks))
    directions = {known_direction(getattr(one, "vectorstore", None)) for one in (first, *others)}
    return retriever.model_copy(update={"runnable": first, "fallbacks": others}) if len(directions) == 1 else retriever


def overrides(instance: object, base: type, method: str) -> bool:
    """Whether the instance's class has a method of its own in place of the base's."""
    return getattr(type(instance), method, None) is not getattr(base, method)


def _is_plain(retriever: VectorStoreRetriever) -> bool:
    """Whether its search is LangChain's own, over a store that has a score search."""
    kind = type(retriever)
    return (
        kind._get_relevant_documents is VectorStoreRetriever._get_relevant_documents
        and kind._aget_relevant_documents is VectorStoreRetriever._aget_relevant_documents
        and kind.invoke is BaseRetriever.invoke
        and kind.ainvoke is BaseRetriever.ainvoke
        and overrides(retriever.vectorstore, VectorStore, "similarity_search_with_score")
    )


def _joined(found: list[Document], pairs: list[tuple[Document, Any]]) -> ScoredDocuments:
    documents = ScoredDocuments(found)
    documents.searched = pairs
    return documents


def _score_search(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the score search: the same filter, and deep enough to hold every member."""
    kept = {key: value for key, value in settings.items() if key not in _MEMBERSHIP_ONLY}
    depth = 0 if "score_threshold" in settings else settings.get("fetch_k", _FETCHED)
    return {**kept, "k": max(depth, settings.get("k", _DEFAULT_K))}
