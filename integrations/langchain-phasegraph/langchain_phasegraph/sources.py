"""Use a LangChain retriever as a source of the core."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForRetrieverRun,
    CallbackManager,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.fallbacks import RunnableWithFallbacks
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import PrivateAttr

from langchain_phasegraph.base import CheckedRetriever, configured_by
from langchain_phasegraph.conversion import ScoredDocuments, ranking_of, reader_of, unpack
from langchain_phasegraph.entity_graph import EntityGraphRetriever, Lookup
from langchain_phasegraph.filters import (
    NARROWS,
    Wanted,
    bm25_within,
    check_depth,
    check_filter,
    faiss_within,
    filter_of,
    is_bm25,
    joined,
    matches,
    only_matching,
    own_filter,
    selects_rows,
    store_settings,
)
from langchain_phasegraph.search_by_vector import asearch_by_vector, search_by_vector
from phasegraph import InvalidInputError, InvalidTypeError, Ranking, Source
from phasegraph.retrieval import (
    AnySource,
    Attempts,
    FilterRefusedError,
    SourceCall,
    SourceSpec,
    Upstream,
    WrappedSource,
    adapted,
    describe_type,
    known_direction,
    note_dropped,
    parameters_of,
)

if TYPE_CHECKING:
    import phasegraph.graph

_MEMBERSHIP_ONLY = ("fetch_k", "lambda_mult", "score_threshold")
_FETCHED, _DEFAULT_K = 20, 4
_BOUND = "phasegraph_bound_filter"
_OFFERED = ("k", "limit", "upstream")


class ScoredVectorStoreRetriever(VectorStoreRetriever):
    """A vector-store retriever that also returns scores and drops hits that do not match the call's filter.

    The search type ``similarity`` is run as ``similarity_search_with_score``. For ``mmr`` and
    ``similarity_score_threshold``, the retriever's own search chooses the documents, and a second search supplies their
    scores; ``mmr`` keeps its own ``k``. Scores never come from relevance functions.
    """

    _inner: VectorStoreRetriever = PrivateAttr()

    @classmethod
    def around(cls, inner: VectorStoreRetriever) -> ScoredVectorStoreRetriever:
        """Create a retriever that searches like `inner` and reads the settings of `inner` at every call."""
        made = cls(vectorstore=inner.vectorstore, name=inner.get_name(), tags=inner.tags, metadata=inner.metadata)
        made._inner = inner
        return made

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        store, settings = self._search(kwargs)
        found: object
        if self._inner.search_type == "similarity":
            try:
                for attempt in _deep_attempts(settings, kwargs):
                    with attempt as count:
                        found = unpack(search_by_vector(store, query, _counted(settings, count)))
            except NotImplementedError:
                found = self._inner._get_relevant_documents(query, run_manager=run_manager, **settings)
        else:
            documents = self._inner._get_relevant_documents(query, run_manager=run_manager, **settings)
            found = _joined(documents, store.similarity_search_with_score(query, **_score_search(settings)))
        return self._kept(found, settings, kwargs)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        store, settings = self._search(kwargs)
        found: object
        if self._inner.search_type == "similarity":
            try:
                for attempt in _deep_attempts(settings, kwargs):
                    with attempt as count:
                        found = unpack(await asearch_by_vector(store, query, _counted(settings, count)))
            except NotImplementedError:
                found = await self._inner._aget_relevant_documents(query, run_manager=run_manager, **settings)
        else:
            documents = await self._inner._aget_relevant_documents(query, run_manager=run_manager, **settings)
            found = _joined(documents, await store.asimilarity_search_with_score(query, **_score_search(settings)))
        return self._kept(found, settings, kwargs)

    def _kept(self, found: object, settings: Mapping[str, Any], kwargs: Mapping[str, Any]) -> ScoredDocuments:
        """Return the documents in `found` that match the filter in the arguments `kwargs` of the call.

        `settings` are the arguments of the search. If they request more hits than the call, and too few documents
        match, raise FilterRefusedError.
        """
        documents, wanted = unpack(found), kwargs.get("filter")
        if wanted is None:
            return documents
        kept, limit = only_matching(documents, wanted), kwargs.get("k", _DEFAULT_K)
        if settings.get("k", limit) != limit:
            check_depth(documents, kept, settings["k"], limit)
            kept.dropped = 0  # the search requested more hits, because some hits would not match
        return kept

    def _search(self, kwargs: Mapping[str, Any]) -> tuple[VectorStore, dict[str, Any]]:
        """Return the store to search, and its search arguments.

        `kwargs` are the arguments of the call, which may contain a filter. The store may be a part of the retriever's
        store that contains only the matching documents.
        """
        store: VectorStore = self._inner.vectorstore
        own = dict(self._inner.search_kwargs)
        given = dict(kwargs)
        wanted, bound = given.pop("filter", None), given.pop(_BOUND, None)
        if bound is not None:
            own["filter"] = bound
        settings = own if self._inner.search_type == "mmr" else {**own, **given}
        if wanted is None and own.get("filter") is None:
            return store, settings
        if self._inner.search_type == "similarity" and selects_rows(store):
            with suppress(InvalidInputError):  # only the store can read a filter in its own form
                every = joined(wanted, own_filter(store, own))
                part = store if every is None else faiss_within(store, every)
                return part, {name: value for name, value in settings.items() if name != "filter"}
        if wanted is None:
            return store, settings
        found = store_settings(store, wanted, own.get("filter"))
        if "k" in found and self._inner.search_type != "similarity":
            raise FilterRefusedError(
                f"this store cannot apply filter= with search_type={self._inner.search_type!r}; use 'similarity'"
            )
        return store, {**settings, **found}


def _deep_attempts(settings: Mapping[str, Any], kwargs: Mapping[str, Any]) -> Attempts:
    """Return the attempts of a search: several attempts if a filter has increased ``k``, otherwise a single attempt.

    `settings` are the arguments of the search, and `kwargs` the arguments of the call.
    """
    depth = settings.get("k")
    return Attempts(None if depth == kwargs.get("k") else depth, [])


def _counted(settings: Mapping[str, Any], count: int | None) -> Mapping[str, Any]:
    return settings if count is None else {**settings, "k": count}


def _matching(answer: object, wanted: Mapping[str, Any] | None, source: str = "") -> ScoredDocuments:
    """Return the documents that match the filter, or all documents if there is no filter."""
    return unpack(answer) if wanted is None else only_matching(answer, wanted, source)


def _joined(found: list[Document], pairs: list[tuple[Document, Any]]) -> ScoredDocuments:
    documents = ScoredDocuments(found)
    documents.searched = pairs
    return documents


def _score_search(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a second search, which returns the scores of the documents that the first search chose.

    They are the `settings` of the first search without the settings that choose among its hits, and with a larger `k`.
    """
    kept = {key: value for key, value in settings.items() if key not in _MEMBERSHIP_ONLY}
    depth = 0 if "score_threshold" in settings else settings.get("fetch_k", _FETCHED)
    return {**kept, "k": max(depth, settings.get("k", _DEFAULT_K))}


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
            keywords[_BOUND] = keywords.pop("filter")  # otherwise a call's filter would replace the bound filter
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


def overrides(instance: object, base: type, method: str) -> bool:
    """Return True if the instance's class overrides a method of the base class."""
    return getattr(type(instance), method, None) is not getattr(base, method)


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


def _awaits(leaf: Runnable[str, Any]) -> bool:
    """Return True if the runnable's class has its own asynchronous search, which needs no thread."""
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
    """Return True if the store overrides the asynchronous `method`, and was opened for asynchronous use."""
    return overrides(store, VectorStore, method) and getattr(store, "async_mode", True) is not False


def _blocks(leaf: Runnable[str, Any]) -> bool:
    """Return True if the runnable can be called synchronously."""
    if isinstance(leaf, FunctionRetriever):
        return not leaf.asynchronous
    return not isinstance(leaf, RunnableLambda) or hasattr(leaf, "func")


def _accepts(leaf: Runnable[str, Any]) -> frozenset[str]:
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


class RetrieverSource(WrappedSource):
    """A LangChain retriever as a source of the core, which serves all calls of the fused retriever.

    Parameters
    ----------
    name : str
        Name of the source.
    spec : SourceSpec
        The retriever with the user's settings for it.
    """

    def __init__(self, name: str, spec: SourceSpec) -> None:
        self.runnable = as_runnable(spec.retriever)
        self._leaves = asked = leaves(self.runnable)
        self.store = getattr(asked[0], "vectorstore", None)
        self.embeddings = asked[0].embeddings if isinstance(asked[0], EntityGraphRetriever) else None
        super().__init__(name, spec.fields, reader_of(name, spec.fields, known_direction(self.store)))
        self.accepts = frozenset.intersection(*map(_accepts, asked))
        self._dynamic = isinstance(self.runnable, DynamicRunnable)
        self._may_deepen = self._dynamic or any("k" in getattr(type(one), "model_fields", ()) for one in asked)
        self.names_only = self.resolve is None and any(
            isinstance(one, EntityGraphRetriever | FunctionRetriever) for one in asked
        )
        self.has_texts = any(isinstance(one, EntityGraphRetriever) and one.lookup.kind != "none" for one in asked)
        self._may_filter = bool(bound_filters(self.runnable) or self._bound_words()) or any(
            hasattr(one, "search_kwargs") or isinstance(one, CheckedRetriever | ScoredVectorStoreRetriever)
            for one in asked
        )
        held: list[str] = []
        for leaf in cast("list[Any]", asked) if self.has_own_ids else ():
            if is_bm25(leaf):
                rows = ((one.id, one.metadata, one.page_content) for one in leaf.docs)
                held += self.reader.identities.learn(rows)
            elif isinstance(leaf, EntityGraphRetriever):
                held += leaf.kept_ids()
        self.held_ids = held
        self.settle(blocks=all(map(_blocks, asked)), awaits=all(map(_awaits, asked)))

    @property
    def corpus(self) -> phasegraph.graph.Corpus | None:
        """The corpus that the source searches; None if the source has no corpus of its own."""
        leaf = self._leaves[0]
        return leaf.corpus if isinstance(leaf, EntityGraphRetriever) else None

    def follow_model(self, corpus: Any, model: Any) -> None:
        """Replace the source's embedding model by `model` if the source searches `corpus`."""
        leaf = self._leaves[0]
        if isinstance(leaf, EntityGraphRetriever) and leaf.corpus is corpus:
            leaf._remodelled(model)
            self.embeddings = model

    def own_filter(self) -> Wanted | None:
        """Return the filter that the source applies in every call; None if the source has no filter.

        The filter is in the search arguments, the bound arguments or the field `filter`.
        """
        if not self._may_filter:
            return None
        found: list[Mapping[str, Any] | None] = [check_filter(one) for one in bound_filters(self.runnable)]
        bound = self._bound_words()
        try:
            for leaf in cast("list[Any]", self._leaves):
                inner = leaf._inner if isinstance(leaf, ScoredVectorStoreRetriever) else leaf
                for one in (getattr(inner, "search_kwargs", None), bound):
                    if one and not NARROWS.isdisjoint(one):
                        found.append(own_filter(getattr(inner, "vectorstore", None), one))
                if isinstance(inner, CheckedRetriever) and (own := inner.whole_filter()) is not None:
                    found.append(own)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"source {self.name!r} has its own filter, which other sources cannot apply: {error}; give "
                "filter= to the fused retriever instead"
            ) from error
        return joined(*found) if found else None

    def _bound_words(self) -> dict[str, Any]:
        """Return search arguments with the filter that is bound to the source; {} if no filter is bound.

        The filter is in the store's own form.
        """
        runnable = self.runnable
        while isinstance(runnable, RunnableBindingBase):
            if runnable.kwargs.get(_BOUND) is not None:
                return {"filter": runnable.kwargs[_BOUND]}
            runnable = runnable.bound
        return {}

    def check_keeps(self, wanted: Wanted, other: str) -> None:
        """Raise InvalidInputError if this source cannot apply `wanted`, which is the filter of the source `other`."""
        walks = [one for one in self._leaves if isinstance(one, EntityGraphRetriever)]
        if any(one.documents is None for one in walks):
            why = "it does not know the metadata of its passages: pass documents="
        elif "filter" in self.accepts or self._dynamic or bm25_within(self.runnable, wanted) is not None:
            return
        else:
            why = "it does not support filter="
        raise InvalidInputError(f"source {other!r} has its own filter, which source {self.name!r} cannot apply: {why}")

    def look_up(self) -> Lookup | None:
        """Return a lookup of documents by id in the source's store.

        Return None if the store cannot look up ids, or if the source searches only a part of its store.
        """
        asked = leaves(self.runnable)
        if len(asked) != 1 or bound_filters(self.runnable) or not self.has_own_ids:
            return None
        leaf: Any = asked[0]
        if isinstance(leaf, EntityGraphRetriever):
            return None if leaf.documents is None or leaf.filter is not None else Lookup.of(leaf.documents)
        whole = leaf._inner if isinstance(leaf, ScoredVectorStoreRetriever) else leaf
        if not isinstance(whole, VectorStoreRetriever) or set(whole.search_kwargs) - {"k", *_MEMBERSHIP_ONLY}:
            return None
        return Lookup.of(self.store) if overrides(self.store, VectorStore, "get_by_ids") else None

    def live(self) -> Lookup | None:
        """Return a lookup in the store itself, which finds only passages that still exist.

        Return None if the source searches a copy of its data, or the store cannot look up ids.
        """
        asked: Any = leaves(self.runnable)[0]
        if not self.has_own_ids or len(leaves(self.runnable)) != 1:
            return None
        if isinstance(asked, EntityGraphRetriever):
            return None if asked.lookup.kind in ("none", "mapping") or asked.kept_ids() else asked.lookup
        told = isinstance(self.store, VectorStore) and overrides(self.store, VectorStore, "get_by_ids")
        return Lookup.of(self.store) if told else None

    def bind(self, config: RunnableConfig) -> AnySource:
        """Create the source object of one call; the child run of the source inherits from `config`."""
        manager: Any = config.get("callbacks")
        if manager is None:
            return self.bound(_Call(self, {**config, "run_name": self.name}))
        child: RunnableConfig = {**config, "run_name": self.name, "callbacks": manager.get_child(self.name)}
        quiet = not (manager.handlers or manager.inheritable_handlers) and _only_searches(type(self.runnable))
        return self.bound(_Call(self, child, quiet=quiet))

    def arguments(
        self, limit: int | None, upstream: Upstream, config: RunnableConfig, wanted: Mapping[str, Any] | None
    ) -> tuple[Runnable[str, Any], RunnableConfig, dict[str, Any]]:
        """Return the runnable to invoke for one search, its configuration, and its keyword arguments.

        `wanted` is the filter of the call; None means no filter. Raise FilterRefusedError if the source cannot apply
        the filter.
        """
        runnable = self.runnable
        if self._dynamic:
            prepared, config = runnable.prepare(config)  # type: ignore[attr-defined]
            runnable = as_runnable(prepared)
        keywords: dict[str, Any] = {}
        if wanted is not None and "filter" in self.accepts:
            keywords["filter"] = joined(wanted, *map(check_filter, bound_filters(runnable)))
        elif wanted is not None:
            part = bm25_within(runnable, wanted)
            if part is None:
                raise FilterRefusedError(
                    f"source {self.name!r} does not support filter=: remove this source, or use a store that can filter"
                )
            runnable = part
        if self.accepts:
            offered = {"k": limit, "limit": limit, "upstream": upstream}
            keywords |= {key: value for key, value in offered.items() if key in self.accepts and value is not None}
        if self._may_deepen and limit is not None and self.accepts.isdisjoint(_OFFERED):
            runnable = deepened(runnable, limit)
        return runnable, config, keywords


@cache
def _only_searches(kind: Any) -> bool:
    """Return True if the class inherits ``invoke`` and ``ainvoke`` from LangChain's or phasegraph's base class.

    The inherited methods only search and notify the callback handlers, so a direct search has the same effect if there
    are no handlers. Phasegraph's base class also sets the call's configuration, and so does :meth:`_Call._configured`.
    """
    plain = issubclass(kind, BaseRetriever) and "run_manager" in parameters_of(kind._get_relevant_documents)
    bases = ((one.invoke, one.ainvoke) for one in (BaseRetriever, CheckedRetriever))
    return plain and (kind.invoke, kind.ainvoke) in bases


class _Call(SourceCall):
    """The search of a source for a single call of the fused retriever.

    If no callback handler is registered (`quiet`), a plain retriever is searched directly. This skips the callback
    setup of ``invoke``, which takes most of the time of a fast search.
    """

    __slots__ = ("config", "quiet", "wanted")

    def __init__(self, source: RetrieverSource, config: RunnableConfig, *, quiet: bool = False) -> None:
        self.config = config
        self.quiet = quiet
        self.wanted = filter_of(config) if config.get("configurable") else None
        super().__init__(source, is_filtered=self.wanted is not None)

    def passes(self, hit: Document) -> bool:
        """Return True if a document matches the call's filter."""
        return self.wanted is None or matches(hit, self.wanted)

    def ask(self, query: str, limit: int | None, upstream: Upstream) -> object:
        """Run the search and return the retriever's return value."""
        runnable, config, keywords = self.source.arguments(limit, upstream, self.config, self.wanted)
        if not self.quiet or not isinstance(config["callbacks"], CallbackManager):
            return runnable.invoke(query, config, **keywords)
        run = self._manager(runnable).on_retriever_start(None, query)
        with self._configured(runnable, config):
            return runnable._get_relevant_documents(query, run_manager=run, **keywords)

    async def aask(self, query: str, limit: int | None, upstream: Upstream) -> object:
        """Run the search asynchronously and return the retriever's return value."""
        runnable, config, keywords = self.source.arguments(limit, upstream, self.config, self.wanted)
        if not self.quiet or not isinstance(config["callbacks"], AsyncCallbackManager):
            return await runnable.ainvoke(query, config, **keywords)
        run = await self._manager(runnable).on_retriever_start(None, query)
        with self._configured(runnable, config):
            return await runnable._aget_relevant_documents(query, run_manager=run, **keywords)

    def _configured(self, retriever: BaseRetriever, config: RunnableConfig) -> AbstractContextManager[None]:
        """Return a context manager; in its block, a retriever of phasegraph reads `config` as the call's configuration.

        For any other retriever, the context manager does nothing.
        """
        return configured_by(config) if isinstance(retriever, CheckedRetriever) else nullcontext()

    def _manager(self, retriever: BaseRetriever) -> Any:
        """Return the callback manager of the child run, with the retriever's tags and metadata."""
        manager: Any = self.config["callbacks"]
        if retriever.tags:
            manager.add_tags(retriever.tags, inherit=False)
        if retriever.metadata:
            manager.add_metadata(retriever.metadata, inherit=False)
        return manager

    def read(self, answer: object, limit: int | None) -> Ranking:
        """Drop the hits that do not match the call's filter, and convert the others to a ranking."""
        if self.wanted is None:
            return ranking_of(self.source.reader, answer, limit, self.notes)
        kept = only_matching(answer, self.wanted, self.source.name)
        note_dropped(kept.dropped, kept.dropped + len(kept), self.notes)
        return ranking_of(self.source.reader, kept, limit, self.notes)

    def unpack(self, answer: object) -> ScoredDocuments:
        """Convert the return value of ``resolve`` to documents."""
        return unpack(answer)

    def passage(self, identifier: str, value: Any) -> Document:
        """Convert a passage from ``resolve`` to a document."""
        return value if isinstance(value, Document) else Document(page_content=str(value), id=identifier)
