"""Use a LangChain retriever as a source of the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from langchain_core.callbacks import (
    AsyncCallbackManager,
    CallbackManager,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

from langchain_phasegraph.base import CheckedRetriever, configured_by, overrides
from langchain_phasegraph.conversion import ACCESS, ScoredDocuments, ranking_of, reader_of, unpack
from langchain_phasegraph.entity_graph import EntityGraphRetriever, Lookup
from langchain_phasegraph.filters import Wanted, check_filter, filter_of, joined, matches, only_matching
from langchain_phasegraph.own_filters import filter_within, may_filter
from langchain_phasegraph.restricted_search import bm25_within, is_bm25
from langchain_phasegraph.runnables import (
    FunctionRetriever,
    accepted_arguments,
    as_runnable,
    bound_filters,
    deepened,
    is_asynchronous,
    is_synchronous,
    leaves,
    search_arguments,
)
from langchain_phasegraph.scored_search import MEMBERSHIP_ONLY, ScoredVectorStoreRetriever
from phasegraph import InvalidInputError, Ranking
from phasegraph.retrieval import (
    AnySource,
    FilterRefusedError,
    SourceCall,
    SourceSpec,
    Upstream,
    WrappedSource,
    known_direction,
    note_dropped,
    parameters_of,
)

if TYPE_CHECKING:
    import phasegraph.graph

_OFFERED = ("k", "limit", "upstream")


class RetrieverSource(WrappedSource):
    """A LangChain retriever as a source of the core, which serves all calls of the fused retriever.

    Parameters
    ----------
    name : str
        Name of the source.
    spec : SourceSpec
        The retriever with the user's settings for it.
    """

    access = ACCESS

    def __init__(self, name: str, spec: SourceSpec) -> None:
        self.runnable = as_runnable(spec.retriever)
        self._leaves = asked = leaves(self.runnable)
        self.store = getattr(asked[0], "vectorstore", None)
        self.embeddings = asked[0].embeddings if isinstance(asked[0], EntityGraphRetriever) else None
        super().__init__(name, spec.fields, reader_of(name, spec.fields, known_direction(self.store)))
        self.accepts = _accepted_by_all(asked)
        self._dynamic = isinstance(self.runnable, DynamicRunnable)
        self._may_deepen = self._dynamic or any("k" in getattr(type(one), "model_fields", ()) for one in asked)
        self.names_only = self.resolve is None and any(
            isinstance(one, EntityGraphRetriever | FunctionRetriever) for one in asked
        )
        self.has_texts = any(isinstance(one, EntityGraphRetriever) and one.lookup.kind != "none" for one in asked)
        self._may_filter = may_filter(self.runnable)
        self.is_narrowed = self._dynamic or bool(search_arguments(self.runnable) - {"k", "filter", *MEMBERSHIP_ONLY})
        held: list[str] = []
        for leaf in cast("list[Any]", asked) if self.has_own_ids else ():
            if is_bm25(leaf):
                rows = ((one.id, one.metadata, one.page_content) for one in leaf.docs)
                held += self.reader.identities.learn(rows)
            elif isinstance(leaf, EntityGraphRetriever):
                held += leaf.kept_ids()
        self.held_ids = held
        self.settle(blocks=all(map(is_synchronous, asked)), awaits=all(map(is_asynchronous, asked)))

    @property
    def corpus(self) -> phasegraph.graph.Corpus | None:
        """The corpus that the source searches; None if the source has no corpus of its own."""
        leaf = self._leaves[0]
        return leaf.corpus if isinstance(leaf, EntityGraphRetriever) else None

    def follow_model(self, corpus: Any, model: Any) -> None:
        """Replace the source's embedding model by `model` if the source has a model and searches `corpus`."""
        leaf = self._leaves[0]
        if isinstance(leaf, EntityGraphRetriever) and leaf.corpus is corpus and self.embeddings is not None:
            leaf._remodelled(model)
            self.embeddings = model

    def own_filter(self, config: RunnableConfig | None = None) -> Wanted | None:
        """Return the filter that the source applies in a call with `config`; None if the source has no filter."""
        if not self._may_filter:
            return None
        try:
            return filter_within(self.runnable, config or {})
        except InvalidInputError as error:
            raise InvalidInputError(
                f"source {self.name!r} has its own filter, which other sources cannot apply: {error}; give "
                "filter= to the fused retriever instead"
            ) from error

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
        if not isinstance(whole, VectorStoreRetriever) or set(whole.search_kwargs) - {"k", *MEMBERSHIP_ONLY}:
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
        looks_up = isinstance(self.store, VectorStore) and overrides(self.store, VectorStore, "get_by_ids")
        return Lookup.of(self.store) if looks_up else None

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
        runnable, accepts = self.runnable, self.accepts
        if self._dynamic:
            prepared, config = runnable.prepare(config)  # type: ignore[attr-defined]
            runnable = as_runnable(prepared)
            accepts = _accepted_by_all(leaves(runnable))
        keywords: dict[str, Any] = {}
        if wanted is not None and "filter" in accepts:
            keywords["filter"] = joined(wanted, *map(check_filter, bound_filters(runnable)))
        elif wanted is not None:
            part = bm25_within(runnable, wanted)
            if part is None:
                raise FilterRefusedError(
                    f"source {self.name!r} does not support filter=: remove this source, use a store that can filter, "
                    "or let _get_relevant_documents (or the function) of the source accept filter="
                )
            runnable = part
        if accepts:
            offered = {"k": limit, "limit": limit, "upstream": upstream}
            keywords |= {key: value for key, value in offered.items() if key in accepts and value is not None}
        if self._may_deepen and limit is not None and accepts.isdisjoint(_OFFERED):
            runnable = deepened(runnable, limit)
        return runnable, config, keywords


def _accepted_by_all(runnables: Sequence[Runnable[str, Any]]) -> frozenset[str]:
    """Return the arguments among k, limit, upstream and filter that all runnables accept."""
    return frozenset.intersection(*map(accepted_arguments, runnables))


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
