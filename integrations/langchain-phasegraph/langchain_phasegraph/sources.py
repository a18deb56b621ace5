"""A LangChain retriever as a source of the core."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Collection, Mapping
from functools import lru_cache
from typing import Any, cast
from weakref import WeakKeyDictionary

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.utils.uuid import uuid7
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import PrivateAttr

from langchain_phasegraph.conversion import Reader, ScoredDocuments, unpack
from langchain_phasegraph.entity_graph import EntityGraphRetriever
from langchain_phasegraph.filters import check_filter, filter_of, joined, matches, only_matching, store_settings
from phasegraph import InvalidInputError, InvalidTypeError, Ranking
from phasegraph.retrieval import Direction, known_direction
from phasegraph.retrieval.engine import parameters_of
from phasegraph.retrieval.ids import by_id, note_missing
from phasegraph.retrieval.source_config import SourceSpec, kind_of
from phasegraph.sources import Source, SourceSettings, Upstream
from phasegraph.sources.protocol import AnySource

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
        return ScoredVectorStoreRetriever.around(retriever) if _is_plain_searching(retriever) else retriever
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
        accepts = parameters_of(retriever) & {"limit", "k", "upstream", "filter"}
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


def _is_plain_searching(retriever: VectorStoreRetriever) -> bool:
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
        return parameters_of(leaf._get_relevant_documents) & {"k", "upstream", "filter"}
    return frozenset()


_MOST_KEPT = 16
_kept: WeakKeyDictionary[Any, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()


def narrowed(runnable: Runnable[str, Any], wanted: Mapping[str, Any]) -> Runnable[str, Any] | None:
    """The retriever over the matching documents alone; None where it is no BM25 that can be built anew.

    Its index holds the words of all documents, and every score depends on how often each word stands in them. Hits
    that are dropped afterwards would be missing among the `k`, and what others wrote would be in the scores. So it is
    built anew from the documents that match, once per filter; none of them leaves nothing to ask.
    """
    if isinstance(runnable, RunnableBindingBase):
        inner = narrowed(runnable.bound, wanted)
        return None if inner is None else runnable.model_copy(update={"bound": inner})
    if not _is_bm25(runnable):
        return None
    retriever: Any = runnable
    kept = _kept.setdefault(retriever.vectorizer, {})
    key = tuple(sorted((name, type(value).__name__, value) for name, value in wanted.items()))
    if key not in kept:
        if len(kept) >= _MOST_KEPT:
            kept.pop(next(iter(kept)), None)
        kept[key] = _part(retriever, wanted)
    return retriever.model_copy(update=kept[key])  # type: ignore[no-any-return]


def _part(retriever: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a retriever of the matching documents."""
    documents = [document for document in retriever.docs if matches(document, wanted)]
    words = [retriever.preprocess_func(document.page_content) for document in documents]
    whole = retriever.vectorizer
    if not any(words):
        return {"docs": [], "vectorizer": _Nothing()}
    return {"docs": documents, "vectorizer": type(whole)(words, k1=whole.k1, b=whole.b, epsilon=whole.epsilon)}


class _Nothing:
    """Stands for an index without a word, which the library cannot build."""

    def get_top_n(self, query: object, documents: object, n: int) -> list[Any]:
        """No document."""
        return []


def _is_bm25(runnable: object) -> bool:
    kind = type(runnable)
    index = type(getattr(runnable, "vectorizer", None))
    return (kind.__module__.partition(".")[0], kind.__name__, index.__module__, index.__name__) == (
        "langchain_community", "BM25Retriever", "rank_bm25", "BM25Okapi",
    )  # fmt: skip


def child_of(config: RunnableConfig | None, name: str, runnable: Any) -> RunnableConfig:
    """The configuration of the child run `name`, in which `runnable` is asked.

    Where nobody listens to the run, and the runnable does no more in it than search, the run itself stands under
    ``callbacks``: :func:`invoke` and :func:`ainvoke` then spare what the framework prepares for listeners, which is
    most of what a quick search costs.
    """
    if config is None:
        return {"run_name": name}
    manager: Any = config.get("callbacks")
    if manager is None or (_is_plain(runnable) and isinstance(manager, BaseRunManager) and not _is_heard(manager)):
        return {**config, "run_name": name}
    return {**config, "run_name": name, "callbacks": manager.get_child(name)}


def invoke(runnable: Any, query: str, config: RunnableConfig, keywords: Mapping[str, Any]) -> Any:
    """What the runnable returns."""
    outer: Any = config.get("callbacks")
    if not isinstance(outer, BaseRunManager):
        return runnable.invoke(query, config, **keywords)
    if not _is_plain(runnable):
        return runnable.invoke(query, _heard(config, outer), **keywords)
    run = CallbackManagerForRetrieverRun(**_fields(runnable, outer, config))
    return runnable._get_relevant_documents(query, run_manager=run, **_taken(runnable, keywords))


async def ainvoke(runnable: Any, query: str, config: RunnableConfig, keywords: Mapping[str, Any]) -> Any:
    """As :func:`invoke`."""
    outer: Any = config.get("callbacks")
    if not isinstance(outer, BaseRunManager):
        return await runnable.ainvoke(query, config, **keywords)
    if not _is_plain(runnable):
        return await runnable.ainvoke(query, _heard(config, outer), **keywords)
    run = AsyncCallbackManagerForRetrieverRun(**_fields(runnable, outer, config))
    return await runnable._aget_relevant_documents(query, run_manager=run, **_taken(runnable, keywords))


def _is_heard(run: BaseRunManager) -> bool:
    """Whether anybody is told of the run or of what runs inside: a tracer, a handler, a global debug setting."""
    return bool(run.handlers or run.inheritable_handlers)


def _is_plain(runnable: Any) -> bool:
    """Whether its ``invoke`` and ``ainvoke`` are the framework's own, which search and tell listeners of it."""
    return _is_plain_kind(type(runnable))  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def _is_plain_kind(kind: Any) -> bool:
    return (
        issubclass(kind, BaseRetriever)
        and kind.invoke is BaseRetriever.invoke
        and kind.ainvoke is BaseRetriever.ainvoke
        and bool(kind._new_arg_supported)
    )


def _taken(runnable: Any, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
    return keywords if runnable._expects_other_args else {}


def _heard(config: RunnableConfig, outer: Any) -> RunnableConfig:
    return {**config, "callbacks": outer.get_child(config["run_name"])}


def _fields(runnable: Any, outer: Any, config: RunnableConfig) -> dict[str, Any]:
    """The child run's id, parent, tags and metadata, as they would be if anybody listened."""
    inherited = outer.inheritable_metadata
    return {
        "run_id": uuid7(),
        "handlers": [],
        "inheritable_handlers": [],
        "parent_run_id": outer.run_id,
        "tags": [*outer.inheritable_tags, config["run_name"], *(runnable.tags or ())],
        "inheritable_tags": list(outer.inheritable_tags),
        "metadata": {**inherited, **(runnable.metadata or {})},
        "inheritable_metadata": dict(inherited),
    }


class RetrieverSource:
    """One source between calls: what to ask, how to ask it, how to read it.

    Parameters
    ----------
    name : str
    spec : SourceSpec
    settings : SourceSettings
        The same as the spec's, with defaults filled in.
    """

    def __init__(self, name: str, spec: SourceSpec, settings: SourceSettings) -> None:
        self.name = name
        self.spec = spec
        self.settings = settings
        self.runnable = as_runnable(spec.retriever)
        store = getattr(leaves(self.runnable)[0], "vectorstore", None)
        self.reader = Reader(name, spec, Direction(spec.higher_is_better, known_direction(store), name))
        self.accepts = accepted(self.runnable)
        self._dynamic = isinstance(self.runnable, DynamicRunnable)
        self._may_deepen = self._dynamic or any("k" in _fields_sources(leaf) for leaf in leaves(self.runnable))
        resolves_async = inspect.iscoroutinefunction(spec.resolve)
        self.synchronous = is_synchronous(self.runnable) and not resolves_async
        self.asynchronous = is_asynchronous(self.runnable) and (spec.resolve is None or resolves_async)
        if resolves_async and not self.asynchronous:
            raise InvalidTypeError(f"retrievers[{name!r}].resolve must be a plain function; its retriever is not async")

    def bind(self, config: RunnableConfig, notes: list[str]) -> AnySource:
        """The source of one call: its child run belongs to `config`, what it notes goes to `notes`."""
        if not self.synchronous:
            return _AsyncBound(self, config, notes)
        return _Both(self, config, notes) if self.asynchronous else _Bound(self, config, notes)

    def arguments(
        self, limit: int | None, upstream: Upstream, config: RunnableConfig
    ) -> tuple[Runnable[str, Any], RunnableConfig, dict[str, Any]]:
        """What to invoke, with which configuration, and the keyword arguments it takes."""
        runnable, wanted = self.runnable, filter_of(config)
        if self._dynamic:
            prepared, config = runnable.prepare(config)  # type: ignore[attr-defined]
            runnable = as_runnable(prepared)
        keywords: dict[str, Any] = {}
        if wanted is not None and "filter" in self.accepts:
            keywords["filter"] = joined(wanted, *map(check_filter, bound_filters(runnable)))
        elif wanted is not None:
            part = narrowed(runnable, wanted)
            if part is None:
                raise InvalidInputError("a source must take a filter where one is given; it takes none")
            runnable = part
        for key in ("k", "limit"):
            if key in self.accepts and limit is not None:
                keywords[key] = limit
        if "upstream" in self.accepts:
            keywords["upstream"] = upstream
        if not self.accepts & {"k", "limit", "upstream"} and limit is not None and self._may_deepen:
            runnable = deepened(runnable, limit)
        return runnable, config, keywords


class _Bound:
    __slots__ = ("_config", "_notes", "_source")

    def __init__(self, source: RetrieverSource, config: RunnableConfig, notes: list[str]) -> None:
        self._source = source
        self._config = config
        self._notes = notes

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        source = self._source
        runnable, config, keywords = source.arguments(limit, upstream, self._config)
        answer = _within(invoke(runnable, query, config, keywords), filter_of(self._config))
        ranking = source.reader.ranking(answer, limit, self._notes)
        if source.spec.resolve is None or not len(ranking):
            return ranking
        return _resolved(ranking, source.spec.resolve(ranking.ids), self._notes)


class _AsyncBound:
    __slots__ = ("_config", "_notes", "_source")

    def __init__(self, source: RetrieverSource, config: RunnableConfig, notes: list[str]) -> None:
        self._source = source
        self._config = config
        self._notes = notes

    async def asearch(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        source = self._source
        runnable, config, keywords = source.arguments(limit, upstream, self._config)
        answer = _within(await ainvoke(runnable, query, config, keywords), filter_of(self._config))
        ranking = source.reader.ranking(answer, limit, self._notes)
        if source.spec.resolve is None or not len(ranking):
            return ranking
        found = await cast("Awaitable[object]", source.spec.resolve(ranking.ids))
        return _resolved(ranking, found, self._notes)


class _Both(_Bound):
    __slots__ = ()
    asearch = _AsyncBound.asearch


def _within(answer: object, wanted: Mapping[str, Any] | None) -> object:
    """The hits that a call's filter lets through; all of them where there is none."""
    return answer if wanted is None else only_matching(answer, wanted)


def _fields_sources(runnable: object) -> Collection[str]:
    return getattr(type(runnable), "model_fields", ())


def _resolved(ranking: Ranking, found: object, notes: list[str]) -> Ranking:
    """The ranking with the passages that `resolve` gave; a hit without one keeps its own document."""
    given = by_id(ranking.ids, found, unpack)
    passages = {
        key: value if isinstance(value, Document) else Document(page_content=str(value), id=key)
        for key, value in given.items()
    }
    note_missing(ranking.ids, passages, notes)
    return Ranking(
        ranking.source,
        ranking.ids,
        ranking.scores,
        ranking.raw,
        ranking.rank_only,
        ranking.background,
        ranking.size,
        {**ranking.payloads, **passages},
        ranking.dropped,
        ranking.reason,
    )
