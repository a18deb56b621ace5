"""Use a LlamaIndex retriever as a source of the core."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from operator import is_
from typing import Any, NamedTuple, Self, cast

import numpy as np
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.list import SummaryIndexRetriever
from llama_index.core.indices.property_graph import BasePGRetriever, PGRetriever
from llama_index.core.indices.tree.all_leaf_retriever import TreeAllLeafRetriever
from llama_index.core.indices.tree.tree_root_retriever import TreeRootRetriever
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle
from llama_index.core.settings import Settings
from llama_index.core.vector_stores import simple
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.dispatcher import active_instrument_tags, instrument_tags
from llama_index_instrumentation.event_handlers import NullEventHandler
from llama_index_instrumentation.span_handlers import NullSpanHandler

from llama_index.retrievers.phasegraph.conversion import (
    Lookup,
    QuestionModel,
    TripleNode,
    as_node,
    is_knowledge,
    knowledge_ranking,
    names_own_chunks,
    ranking_of,
    reader_of,
    stores_of,
    unpack,
    with_own_chunks,
)
from llama_index.retrievers.phasegraph.filters import (
    bm25_ids,
    is_bm25,
    joined,
    key_of,
    matching_rows,
    narrowed,
    only_matching,
)
from phasegraph import InvalidInputError, InvalidTypeError, Ranking
from phasegraph.retrieval import (
    AnySource,
    Calibrating,
    MalformedAnswerError,
    Nearest,
    Payloads,
    Recent,
    RewrittenQuery,
    SourceCall,
    SourceSpec,
    Upstream,
    WrappedSource,
    adapted,
    as_ranking,
    asearch_of,
    describe_type,
    known_direction,
    note_dropped,
    parameters_of,
    search_of,
    shown,
    turn,
    with_passages,
)

TAG = "phasegraph_source"
_INSERT = "_insert_fetched_nodes_into_query_result"


@dataclass(slots=True)
class Exchange:
    """Data that phasegraph retrievers pass to each other, because the framework's search has no arguments for it.

    `limit` and `upstream` are the arguments of the search. `ranking` is the core's ranking, if a source of the core
    found the nodes. Otherwise, `evidence` contains evidence by node id. `dropped` is the number of hits that did not
    match the filters.
    """

    limit: int | None
    upstream: Upstream
    ranking: Ranking | None = None
    evidence: dict[str, object] = field(default_factory=dict)
    dropped: int = 0


class OwnRetriever(BaseRetriever):
    """The base class of phasegraph retrievers, which use a shallow copy with an :class:`Exchange` for each search.

    Pickling and deep copies leave out the callback manager, because a manager belongs to its process. A retriever
    without its own manager uses the manager of ``Settings``, as the framework's indexes do. A new manager would store
    the events of all calls forever.
    """

    exchange: Exchange | None = None

    def __init__(self, callback_manager: CallbackManager | None = None, *more: Any) -> None:
        super().__init__(Settings.callback_manager if callback_manager is None else callback_manager, *more)

    def whole_filters(self) -> MetadataFilters | None:
        """Return the filters that every node must match; None means no filters, as in this base class."""
        return None

    def _retrieve_from_object(self, obj: Any, query_bundle: QueryBundle, score: float) -> list[NodeWithScore]:
        """Search the retriever or engine that an index node refers to, and drop nodes that do not match the filters."""
        found = super()._retrieve_from_object(self._within(obj), query_bundle, score)
        return only_matching(found, self.whole_filters())

    async def _aretrieve_from_object(self, obj: Any, query_bundle: QueryBundle, score: float) -> list[NodeWithScore]:
        found = await super()._aretrieve_from_object(self._within(obj), query_bundle, score)
        return only_matching(found, self.whole_filters())

    def _within(self, obj: Any) -> Any:
        """Restrict the retriever or engine `obj` to the filters; raise InvalidInputError if it cannot apply them."""
        filters = self.whole_filters()
        asked = filters is not None and not isinstance(obj, BaseNode | NodeWithScore)
        return narrowed("index node", obj, filters) if filters is not None and asked else obj

    def for_call(self, limit: int | None, upstream: Upstream) -> Self:
        """Return a copy of the retriever for one search, with a new :class:`Exchange` of `limit` and `upstream`."""
        made = copy.copy(self)
        made.exchange = Exchange(limit, upstream)
        return made

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value}" for name, value in shown(self._told()))
        return f"{type(self).__name__}({said})"

    def _told(self) -> Mapping[str, object]:
        """Return the fields that ``repr`` shows; the corpus is not among them."""
        return {}

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "callback_manager"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self.callback_manager = Settings.callback_manager


class FunctionRetriever(OwnRetriever):
    """A retriever that calls a plain function; traces show the call like the call of any other retriever."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        call = getattr(function, "__call__", function)  # noqa: B004 - __call__ of an instance may be a coroutine
        self.asynchronous = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        self.accepts = parameters_of(function) & {"limit", "k", "upstream", "filters"}
        self.filters: MetadataFilters | None = None

    def _told(self) -> Mapping[str, object]:
        return {"function": getattr(self.function, "__name__", type(self.function).__name__)}

    def within(self, filters: MetadataFilters) -> Self:
        """Return a retriever that passes `filters` to the same function."""
        made = copy.copy(self)
        made.filters = filters
        return made

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._kept(self.function(query_bundle.query_str, **self._keywords()))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        answer = self.function(query_bundle.query_str, **self._keywords())
        return self._kept(await answer if inspect.isawaitable(answer) else answer)

    def _kept(self, answer: object) -> list[NodeWithScore]:
        found = unpack(answer)
        kept = only_matching(found, self.filters)
        if self.exchange is not None:
            self.exchange.dropped = len(found) - len(kept)
        return kept

    def _keywords(self) -> dict[str, Any]:
        asked = self.exchange or Exchange(None, {})
        offered = {"limit": asked.limit, "k": asked.limit, "upstream": asked.upstream, "filters": self.filters}
        return {key: value for key, value in offered.items() if key in self.accepts}


@dataclass(frozen=True, slots=True)
class _Answers:
    """A function that calls a query engine without a ``retrieve`` method, and returns the engine's response."""

    engine: BaseQueryEngine

    def __call__(self, query: str) -> object:
        return self.engine.query(query)


def as_retriever(given: object) -> Any:
    """Convert an index, query engine or function to a retriever; objects with a `retrieve` method stay unchanged."""
    if isinstance(given, BaseRetriever):
        return given
    if isinstance(given, BaseIndex):
        return given.as_retriever()
    if isinstance(given, BaseQueryEngine) and type(given).retrieve is BaseQueryEngine.retrieve:
        return FunctionRetriever(_Answers(given))
    if callable(getattr(given, "retrieve", None)) and not isinstance(given, type):
        return given
    if callable(given) and not isinstance(given, type):
        return FunctionRetriever(given)
    hint = "; pass a list as retrievers=[...]" if isinstance(given, list | tuple) else ""
    raise InvalidTypeError(
        "a source must be a LlamaIndex retriever, index, query engine, source or function; got "
        f"{describe_type(given)}{hint}"
    )


def prepared(retriever: Any, limit: int | None, upstream: Upstream, seen: Seen) -> Any:
    """Return a copy of a retriever for a single search.

    A retriever of phasegraph gets an :class:`Exchange` with `limit` and `upstream`. For any other retriever, `limit`
    replaces its own number of hits, if possible. The copy keeps repeated hits, which the framework would drop. `seen`
    contains cached data of an in-memory store, which later searches reuse.
    """
    made = _prepared(retriever, limit, upstream, seen)
    if isinstance(made, BaseRetriever) and hasattr(made, "__dict__"):
        made = copy.copy(made) if made is retriever else made
        vars(made)["_handle_recursive_retrieval"] = _EveryHit(made)
        vars(made)["_ahandle_recursive_retrieval"] = _EveryHitLater(made)
    return made


class _EveryHit:
    """A replacement for a retriever's `_handle_recursive_retrieval`, which would keep only the first hit of each id.

    The replacement keeps all hits, so that the best hit of an id is used and the report counts duplicates. Texts and
    database rows are converted to hits.
    """

    def __init__(self, retriever: BaseRetriever) -> None:
        self.retriever = retriever

    def __call__(self, query_bundle: QueryBundle, nodes: object) -> list[NodeWithScore]:
        """Convert `nodes` to hits, and replace each index node by the hits of the retriever to which it refers."""
        hits, handle = unpack(nodes), type(self.retriever)._handle_recursive_retrieval
        if not any(issubclass(kind, IndexNode) for kind in {type(hit.node) for hit in hits}):
            return hits
        return [one for hit in hits for one in handle(self.retriever, query_bundle, [hit])]


class _EveryHitLater(_EveryHit):
    """The asynchronous version of :class:`_EveryHit`."""

    async def __call__(self, query_bundle: QueryBundle, nodes: object) -> list[NodeWithScore]:  # type: ignore[override]
        """Convert `nodes` to hits, and replace each index node by the hits of the retriever to which it refers."""
        hits, handle = unpack(nodes), type(self.retriever)._ahandle_recursive_retrieval
        if not any(isinstance(hit.node, IndexNode) for hit in hits):
            return hits
        return [one for hit in hits for one in await handle(self.retriever, query_bundle, [hit])]


def _prepared(retriever: Any, limit: int | None, upstream: Upstream, seen: Seen) -> Any:
    if isinstance(retriever, OwnRetriever):
        return retriever.for_call(limit, upstream)
    if is_knowledge(retriever):
        return with_own_chunks(retriever, limit)
    store = getattr(retriever, "_vector_store", None)
    if isinstance(store, SimpleVectorStore):
        retriever = copy.copy(retriever)
        retriever._vector_store = InTurn(store, seen)
    if isinstance(retriever, VectorIndexRetriever) and isinstance(retriever._embed_model, BaseEmbedding):
        retriever = copy.copy(retriever)
        cast("Any", retriever)._embed_model = QuestionModel(retriever._embed_model)
    if isinstance(retriever, VectorIndexRetriever) and not retriever._vector_store.stores_text:
        retriever = copy.copy(retriever)
        vars(retriever)[_INSERT] = _HeldNodes(retriever)
    if limit is None or not isinstance(retriever, BaseRetriever) or decides_membership(retriever):
        return retriever
    name = next((one for one in ("similarity_top_k", "_similarity_top_k") if _is_count(retriever, one)), None)
    if name is None:
        return retriever
    corpus = getattr(retriever, "corpus", None) if hasattr(retriever, "bm25") else None
    made = copy.copy(retriever)
    setattr(made, name, limit if corpus is None else min(limit, len(corpus)))
    return made


class _HeldNodes:
    """A replacement for a retriever's `_insert_fetched_nodes_into_query_result` that leaves out deleted nodes.

    The framework's method raises an error for a deleted node; the whole answer would be lost.
    """

    def __init__(self, retriever: VectorIndexRetriever) -> None:
        self.retriever = retriever
        self.count = 0

    def __call__(self, result: VectorStoreQueryResult, fetched: list[BaseNode]) -> Sequence[BaseNode]:
        if result.ids and not result.nodes:
            names, held = self.retriever._index.index_struct.nodes_dict, {node.node_id for node in fetched}
            rows = [row for row, one in enumerate(result.ids) if names[one] in held]
            self.count = len(result.ids) - len(rows)
            result.ids = [result.ids[row] for row in rows]
            result.similarities = None if result.similarities is None else [result.similarities[row] for row in rows]
        return type(self.retriever)._insert_fetched_nodes_into_query_result(self.retriever, result, fetched)


class Seen(NamedTuple):
    """The cached data of an in-memory store: its vectors as a matrix, and the nodes that match recent filters."""

    nearest: Nearest
    matching: Recent


class InTurn:
    """A wrapper around an in-memory vector store that runs only one search at a time.

    Parallel searches would compete with each other and with the event loop for the interpreter, and could all miss
    their deadlines. Work outside the search, such as a call to an embedding service, still runs in parallel. The store
    compares only nodes that can be among the nearest, which gives the same answer in less time.
    """

    def __init__(self, store: SimpleVectorStore, seen: Seen) -> None:
        self._store = store
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Run the store's search while no other search runs, and return the result."""
        with turn():
            return self._store.query(self._narrowed(query), **kwargs)

    def _narrowed(self, query: VectorStoreQuery) -> VectorStoreQuery:
        """Restrict the query to nodes that can be among the nearest; return it unchanged if its mode is not DEFAULT."""
        plain = query.mode == VectorStoreQueryMode.DEFAULT
        if not plain or query.query_embedding is None or not query.similarity_top_k:
            return query
        held, wanted = self._store.data.embedding_dict, query.node_ids
        ids, allowed = list(held), None
        if wanted is not None:
            allowed = np.fromiter(map(set(wanted).__contains__, ids), dtype=np.bool_, count=len(ids))
        if query.filters is not None:
            matching = self._matching(ids, query.filters)
            if matching is None:
                return query
            allowed = matching if allowed is None else allowed & matching
        if (len(ids) if allowed is None else np.count_nonzero(allowed)) <= query.similarity_top_k:
            return query
        rows = self._seen.nearest.rows(held.values(), query.query_embedding, query.similarity_top_k, allowed)
        return query if rows is None else replace(query, node_ids=[ids[row] for row in rows.tolist()])

    def _matching(self, ids: Sequence[str], filters: MetadataFilters) -> Any:
        """Return a boolean array with an entry for each id in `ids`, True if the node matches the filters.

        The array is cached until the metadata change. Return None if the store's metadata cannot be read.
        """
        metadata, let_through = self._store.data.metadata_dict, getattr(simple, "build_metadata_filter_fn", None)
        if let_through is None or not all(one in metadata for one in ids):
            return None
        rows, key = [metadata[one] for one in ids], key_of(filters)

        def made() -> tuple[list[Any], Any]:
            fits = let_through(metadata.__getitem__, filters)
            return rows, np.fromiter(map(fits, ids), dtype=np.bool_, count=len(ids))

        before, found = self._seen.matching.get(key, made)
        if len(before) != len(rows) or not all(map(is_, before, rows)):
            self._seen.matching.forget(key)
            _, found = self._seen.matching.get(key, made)
        return found


def _is_count(retriever: object, name: str) -> bool:
    value = getattr(retriever, name, None)
    return isinstance(value, int) and not isinstance(value, bool)


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
    if isinstance(retriever, VectorIndexRetriever) and not _storeawaits(retriever._vector_store):
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


def _storeawaits(store: object) -> bool:
    """Return True if the vector store can search asynchronously; a Qdrant store may have no asynchronous client."""
    return awaits(store, "query", "aquery") and getattr(store, "_aclient", store) is not None


def _known(retriever: Any) -> bool | None:
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


@dataclass
class _WatchedBundle(QueryBundle):
    """A query bundle that records in `readers` if a retriever read the texts to embed.

    A retriever reads the property ``embedding_strs``. Code that only serializes a bundle reads the fields.
    """

    readers: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def embedding_strs(self) -> list[str]:
        """The texts to embed; reading this property is recorded."""
        self.readers[:] = ["a retriever"]
        return super().embedding_strs

    def is_read(self) -> bool:
        """Return True if a retriever read the texts to embed."""
        return bool(self.readers)


def rewritten_query(bundle: QueryBundle) -> RewrittenQuery:
    """Convert a query bundle, which has texts to embed, to the object that a rewriter returns."""
    watched = _WatchedBundle(bundle.query_str, bundle.image_path, bundle.custom_embedding_strs, bundle.embedding)
    return RewrittenQuery(watched.query_str, tuple(watched.custom_embedding_strs or ()), watched, watched.is_read)


def own_bundle(bundle: QueryBundle, query: str) -> QueryBundle:
    """Return a copy of the bundle with `query`; a copy is needed, because retrievers store embeddings in it."""
    if query != bundle.query_str:
        return QueryBundle(query)
    texts = bundle.custom_embedding_strs
    return replace(bundle, custom_embedding_strs=None if texts is None else list(texts))


class RetrieverSource(WrappedSource):
    """A LlamaIndex retriever as a source of the core, which serves all calls of the fused retriever."""

    def __init__(self, name: str, spec: SourceSpec) -> None:
        given = adapted(spec.retriever)
        self.core = not hasattr(given, "retrieve") and (search_of(given) or asearch_of(given)) is not None
        self.whole: Any = given if self.core else as_retriever(given)
        self.shown: Any = given if isinstance(self.whole, FunctionRetriever) else self.whole
        self.retriever: Any = self.whole
        self.filters: MetadataFilters | None = None
        super().__init__(name, spec.fields, reader_of(name, spec.fields, _known(self.retriever)))
        self.seen = Seen(Nearest(), Recent())
        store = getattr(self.whole, "_vector_store", None)
        if isinstance(store, SimpleVectorStore):
            self.seen.nearest.hold(store.data.embedding_dict.values())
        walks = getattr(self.whole, "walks", False) is True
        look_up: Lookup | None = cast("Any", self.whole).look_up if walks else None
        named = self.core or isinstance(self.whole, FunctionRetriever) or walks
        self.names_only = named and self.resolve is None
        self.has_texts = look_up is not None
        if self.has_own_ids and is_bm25(self.whole):
            self.held_ids = self.reader.identities.learn((one, {}, "") for one in bm25_ids(self.whole))
        elif self.has_own_ids and walks:
            self.held_ids = list(cast("Any", self.whole).kept_ids())
        self.knowledge = is_knowledge(self.retriever)
        self.unordered = is_unordered(self.retriever)
        self.own_chunks = not self.knowledge or names_own_chunks(self.retriever)
        blocks, awaits = not getattr(self.retriever, "asynchronous", False), is_asynchronous(self.retriever)
        if self.core:
            from phasegraph.graph import prepare

            prepare(given)
            blocks, awaits = search_of(given) is not None, asearch_of(given) is not None
        self.settle(blocks=blocks, awaits=awaits)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.core:
            from phasegraph.graph import prepare

            prepare(self.whole)

    def within(self, filters: MetadataFilters) -> RetrieverSource:
        """Return a source that finds only matching hits; it shares score direction and warnings with this source."""
        if self.core or (isinstance(self.whole, FunctionRetriever) and "filters" not in self.whole.accepts):
            kind = type(self.whole if self.core else self.whole.function).__name__
            raise InvalidInputError(
                f"source {self.name!r} does not support filters= ({kind}): remove this source, or use a retriever that "
                "can filter"
            )
        made = copy.copy(self)
        made.filters = joined(self.filters, filters)
        made.retriever = narrowed(self.name, self.whole, cast(MetadataFilters, made.filters))
        return made

    def own_filters(self) -> MetadataFilters | None:
        """Return the filters that the source always applies; None if it has no filters."""
        if isinstance(self.whole, OwnRetriever):
            return self.whole.whole_filters()
        held = getattr(self.whole, "_filters", None)
        return held if isinstance(held, MetadataFilters) and held.filters else None

    def look_up(self) -> Lookup | None:
        """Return a lookup of nodes by id in the source's store.

        Return None if the source has no store, or if the source searches only a part of its store.
        """
        whole = self.whole
        if not self.has_own_ids:
            return None
        if getattr(whole, "walks", False) is True:
            return cast("Lookup | None", whole.look_up)
        if self.knowledge:
            stores = stores_of(whole)
            return Lookup.of(stores[0]) if len(stores) == 1 else None
        if not isinstance(whole, VectorIndexRetriever):
            return None
        nodes = set(whole._node_ids or ())  # an index that stores its nodes lists all its ids in this attribute
        part = bool(nodes) and nodes != set(whole._index.index_struct.nodes_dict.values())
        narrow = part or whole._filters is not None or whole._doc_ids or whole._kwargs
        return None if narrow else self.live()

    def live(self) -> Lookup | None:
        """Return a lookup that finds passages that still exist in the store; None if the source copied its data."""
        if not self.has_own_ids:
            return None
        if self.has_texts:
            return None if self.held_ids else self.whole.look_up
        if not isinstance(self.whole, VectorIndexRetriever):
            return None
        return Lookup.of(self.whole._index)

    def bind(self, bundle: QueryBundle) -> AnySource:
        """Create the source object of one call; each search gets a copy of the query bundle `bundle`."""
        return self.bound(_Call(self, bundle))


class _Call(SourceCall):
    """The search of a source for a single call of the fused retriever."""

    __slots__ = ("bundle",)

    def __init__(self, source: RetrieverSource, bundle: QueryBundle, notes: list[str] | None = None) -> None:
        super().__init__(source, is_filtered=source.filters is not None, notes=notes)
        self.bundle = bundle

    def passes(self, hit: BaseNode) -> bool:
        """Return True if a node matches the filters."""
        return bool(matching_rows([hit], self.source.filters))

    def for_query(self, query: RewrittenQuery) -> Self:
        """Return a call with a rewritten query; both calls add their notes to the same list."""
        return type(self)(self.source, query.native, self.notes)

    def ask(self, query: str, limit: int | None, upstream: Upstream) -> object:
        """Run the search; return the retriever's copy for this search (None for a core source), and the answer."""
        source = self.source
        if source.core:
            return None, source.retriever.search(query, limit, upstream)
        with instrument_tags(self._tags()):
            asked, bundle = prepared(source.retriever, limit, upstream, source.seen), own_bundle(self.bundle, query)
            if is_unheard(asked):
                return asked, asked._handle_recursive_retrieval(bundle, asked._retrieve(bundle))
            return asked, asked.retrieve(bundle)

    async def aask(self, query: str, limit: int | None, upstream: Upstream) -> object:
        """Run :meth:`ask` asynchronously."""
        source = self.source
        if source.core:
            return None, await source.retriever.asearch(query, limit, upstream)
        with instrument_tags(self._tags()):
            asked, bundle = prepared(source.retriever, limit, upstream, source.seen), own_bundle(self.bundle, query)
            if is_unheard(asked):
                return asked, await asked._ahandle_recursive_retrieval(bundle, await asked._aretrieve(bundle))
            return asked, await asked.aretrieve(bundle)

    def _tags(self) -> dict[str, Any]:
        """Return the tags for the events and spans of this call; they contain the source's name."""
        return {**active_instrument_tags.get(), TAG: self.source.name}

    def read(self, answer: Any, limit: int | None) -> Ranking:
        """Return the ranking of the hits in `answer` that match the call's filter.

        If a phasegraph retriever passed its ranking in an :class:`Exchange`, the result is this ranking.
        """
        (asked, hits), source, notes = answer, self.source, self.notes
        if source.core:
            found = hits if isinstance(hits, Ranking) else as_ranking(source.name, hits)
            # The payloads of a core source are evidence, usually paths, and not nodes.
            return replace(found, source=source.name, payloads=Payloads((), (), found.payloads))
        exchange = asked.exchange if isinstance(asked, OwnRetriever) else None
        if exchange is not None and exchange.ranking is not None:
            return self._checked(replace(exchange.ranking, source=source.name))
        lost = vars(asked).get(_INSERT)
        unpacked = unpack(hits)
        kept = unpacked if source.filters is None else only_matching(unpacked, source.filters)
        before = 0 if exchange is None else exchange.dropped
        note_dropped(before + len(unpacked) - len(kept), before + len(unpacked), notes)
        ranking = self._ranking(exchange, kept, limit)
        return ranking if lost is None else source.deletions.counted(ranking, lost.count, notes)

    def _ranking(self, exchange: Exchange | None, found: list[NodeWithScore], limit: int | None) -> Ranking:
        source, notes = self.source, self.notes
        if source.knowledge:
            if not source.own_chunks:
                notes.append(
                    "its triples name the passages of their subjects, not the passages that contain the triples"
                )
            return knowledge_ranking(source.reader, found, limit, notes)
        if decides_membership(source.retriever) and source.reader.fields.score is None:
            notes.append("rank only: in its search mode, the scores are not similarities")
            return ranking_of(source.reader, found, limit, notes, ranks=True)
        if source.unordered and source.reader.fields.score is None and all(hit.score is None for hit in found):
            return ranking_of(source.reader, found, limit, notes, ordered=False)
        if exchange is None or not exchange.evidence:
            return ranking_of(source.reader, found, limit, notes)
        why = exchange.evidence

        def evidence(ids: Sequence[str]) -> dict[str, object]:
            pairs = zip(ids, [hit.node.node_id for hit in found], strict=True)
            return {identifier: why[one] for identifier, one in pairs if one in why}

        return ranking_of(source.reader, found, limit, notes, evidence=evidence)

    def _checked(self, ranking: Ranking) -> Ranking:
        """Return the ranking unchanged; raise MalformedAnswerError if a passage in it does not match the filters."""
        filters = self.source.filters
        if filters is not None:
            nodes: list[Any] = list(ranking.payloads.values())
            if len(matching_rows(nodes, filters)) < len(nodes):
                raise MalformedAnswerError(
                    f"source {self.source.name!r} returned nodes that do not match the "
                    "filters, so its hits are not used: check how this source applies "
                    "filters"
                )
        return ranking

    def unpack(self, answer: object) -> list[NodeWithScore]:
        """Convert the return value of ``resolve`` to hits."""
        return unpack(answer)

    def passage(self, identifier: str, value: Any) -> BaseNode:
        """Convert a passage from ``resolve`` to a node."""
        return as_node(identifier, value)

    def with_own_texts(self, ranking: Ranking) -> Ranking:
        """Fetch the nodes of passages that are known only by their triples, from the property graph stores."""
        for store in self._stores:
            wanted = _without_text(ranking)
            ranking = self._with_nodes(ranking, store.get_llama_nodes(wanted)) if wanted else ranking
        return ranking

    async def awith_own_texts(self, ranking: Ranking) -> Ranking:
        """Run :meth:`with_own_texts` asynchronously."""
        for store in self._stores:
            wanted = _without_text(ranking)
            ranking = self._with_nodes(ranking, await store.aget_llama_nodes(wanted)) if wanted else ranking
        return ranking

    @property
    def _stores(self) -> list[Any]:
        return stores_of(self.source.retriever) if self.source.knowledge else []

    def _with_nodes(self, ranking: Ranking, nodes: list[BaseNode]) -> Ranking:
        return with_passages(ranking, {node.node_id: node for node in nodes}, unpack, as_node, [])


def _without_text(ranking: Ranking) -> list[str]:
    """Return the ids of passages that are known only by their triples."""
    return [one for one in ranking.ids if isinstance(ranking.payloads.get(one), TripleNode)]


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
