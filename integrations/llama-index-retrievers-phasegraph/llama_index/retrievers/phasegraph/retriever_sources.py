"""A LlamaIndex retriever as a source of the core."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, cast

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.property_graph import BasePGRetriever, PGRetriever
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import MetadataFilters, VectorStoreQueryMode
from llama_index_instrumentation.dispatcher import active_instrument_tags

from llama_index.retrievers.phasegraph.conversion import (
    Found,
    Knowledge,
    Paths,
    Reader,
    TripleNode,
    is_knowledge,
    keeps_text,
    store_of,
    with_own_chunks,
)
from llama_index.retrievers.phasegraph.filters import (
    bm25_within,
    faiss_within,
    filtered,
    is_bm25,
    is_faiss,
    joined,
    only_matching,
)
from phasegraph import InvalidInputError, InvalidTypeError, Ranking
from phasegraph.graph.source import prepare
from phasegraph.retrieval import Direction, known_direction
from phasegraph.retrieval.engine import drained, parameters_of
from phasegraph.retrieval.ids import by_id, note_missing
from phasegraph.retrieval.source_config import SourceSpec, kind_of
from phasegraph.sources import Upstream
from phasegraph.sources.protocol import AnySource, MalformedAnswerError, asearch_of, search_of


@dataclass(slots=True)
class Exchange:
    """One search of one source.

    Parameters
    ----------
    limit : int or None
        Hits asked for.
    upstream : mapping of str to Ranking or None
        Rankings of the sources that it needs.
    ranking : Ranking or None
        The source's own ranking, background and evidence included, where it has one to hand back.
    """

    limit: int | None = None
    upstream: Mapping[str, Ranking | None] = field(default_factory=dict)
    ranking: Ranking | None = None


TAG = "phasegraph_source"
EXCHANGE: ContextVar[Exchange | None] = ContextVar("phasegraph_llama_index_exchange", default=None)


def take() -> Exchange | None:
    """The exchange of the search that is running, once: retrievers asked further inside do not see it."""
    found = EXCHANGE.get()
    if found is not None:
        EXCHANGE.set(None)
    return found


def own_copy(bundle: QueryBundle, query: str) -> QueryBundle:
    """A bundle of one's own: retrievers write their embedding into the one they are given.

    A query that is not the bundle's (a corrected one) gets a plain bundle: what was embedded belongs to the other.
    """
    if query != bundle.query_str:
        return QueryBundle(query)
    texts = bundle.custom_embedding_strs
    return replace(bundle, custom_embedding_strs=None if texts is None else list(texts))


class Asking:
    """Events and spans inside carry the source's name; our own kinds of retrievers find what is asked of them."""

    __slots__ = ("_asked", "_name", "_tags", "_token")

    def __init__(self, name: str, limit: int | None, upstream: Upstream) -> None:
        self._name = name
        self._asked = Exchange(limit, upstream)

    def __enter__(self) -> Exchange:
        self._token = EXCHANGE.set(self._asked)
        self._tags = active_instrument_tags.set({**active_instrument_tags.get(), TAG: self._name})
        return self._asked

    def __exit__(self, *raised: object) -> None:
        active_instrument_tags.reset(self._tags)
        EXCHANGE.reset(self._token)


_OWN_MEMBERS = (VectorStoreQueryMode.MMR,)


class FunctionRetriever(BaseRetriever):
    """A plain function as a retriever, so that it is traced like one."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        call = getattr(function, "__call__", function)  # noqa: B004 - an instance's coroutine method
        self.asynchronous = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        self.accepts = parameters_of(function) & {"limit", "k", "upstream", "filters"}
        self.filters: MetadataFilters | None = None

    def within(self, filters: MetadataFilters) -> FunctionRetriever:
        """The same function with `filters` among its arguments, if it takes them."""
        if "filters" not in self.accepts:
            raise InvalidInputError("a source must take filters where some are given; a function without them does not")
        made = copy.copy(self)
        made.filters = joined(self.filters, filters)
        return made

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return only_matching(unpack(self.function(query_bundle.query_str, **self._keywords())), self.filters)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        answer = self.function(query_bundle.query_str, **self._keywords())
        return only_matching(unpack(await answer if inspect.isawaitable(answer) else answer), self.filters)

    def _keywords(self) -> dict[str, Any]:
        asked = take() or Exchange()
        offered = {"limit": asked.limit, "k": asked.limit, "upstream": asked.upstream, "filters": self.filters}
        return {key: value for key, value in offered.items() if key in self.accepts}


def as_retriever(given: object) -> Any:
    """What to ask: a retriever of the framework, or anything with a `retrieve` like it.

    Raises
    ------
    InvalidTypeError
        If it is none of the things that can be asked.
    """
    if isinstance(given, BaseRetriever):
        return given
    if isinstance(given, BaseIndex):
        return given.as_retriever()
    if callable(getattr(given, "retrieve", None)) and not isinstance(given, type):
        return given
    if callable(given) and not isinstance(given, type):
        return FunctionRetriever(given)
    raise InvalidTypeError(
        f"a source must be a LlamaIndex retriever, index, query engine, source or function; got {kind_of(given)}"
    )


def prepared(retriever: Any, limit: int | None) -> Any:
    """The retriever, or, where it has a number of its own, a copy that returns `limit` hits."""
    if is_knowledge(retriever):
        return with_own_chunks(retriever, limit)
    if limit is None or not isinstance(retriever, BaseRetriever) or decides_membership(retriever):
        return retriever
    name = next((one for one in ("similarity_top_k", "_similarity_top_k") if _is_count(retriever, one)), None)
    if name is None:
        return retriever
    corpus = getattr(retriever, "corpus", None) if hasattr(retriever, "bm25") else None
    made = copy.copy(retriever)
    setattr(made, name, limit if corpus is None else min(limit, len(corpus)))
    return made


def decides_membership(retriever: object) -> bool:
    """Whether its mode picks the hits by more than their score, so that its number is part of the choice."""
    return getattr(retriever, "_vector_store_query_mode", None) in _OWN_MEMBERS


def store_of_vectors(retriever: object) -> object | None:
    """The vector store whose own scores a retriever returns, or None where its mode makes others."""
    if not isinstance(retriever, VectorIndexRetriever):
        return None
    plain = retriever._vector_store_query_mode == VectorStoreQueryMode.DEFAULT
    store: object | None = retriever._vector_store if plain else None
    return store


def is_asynchronous(retriever: Any) -> bool:
    """Whether the class itself has an asynchronous search, rather than one that blocks the event loop."""
    if isinstance(retriever, FunctionRetriever):
        return retriever.asynchronous
    if getattr(retriever, "in_worker", False) is True:
        return False
    if isinstance(retriever, PGRetriever):
        return all(map(is_asynchronous, retriever.sub_retrievers))
    if isinstance(retriever, BasePGRetriever):
        store = retriever._graph_store
        return not isinstance(store, PropertyGraphStore) or _awaits(store, "get", "aget")
    if isinstance(retriever, VectorIndexRetriever) and not _store_awaits(retriever._vector_store):
        return False
    if isinstance(retriever, BaseRetriever):
        return _awaits(retriever, "_retrieve", "_aretrieve") and _awaits(retriever, "retrieve", "aretrieve")
    return inspect.iscoroutinefunction(getattr(retriever, "aretrieve", None))


def unpack(answer: object) -> list[NodeWithScore]:
    """Whatever a function returned, as nodes with or without scores.

    Raises
    ------
    MalformedAnswerError
        If it is not made of nodes, texts, or pairs of one of them and a score.
    """
    if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
        raise MalformedAnswerError(f"malformed: a retriever must return a list of nodes; got {type(answer).__name__}")
    items = answer if isinstance(answer, list | tuple) else drained(answer)
    if set(map(type, items)) == {NodeWithScore}:
        return list(items)
    return [_hit(item, row) for row, item in enumerate(items)]


def _hit(item: object, row: int) -> NodeWithScore:
    if isinstance(item, NodeWithScore):
        return item
    head, score = item if isinstance(item, tuple | list) and len(item) == 2 else (item, None)
    if isinstance(head, NodeWithScore):
        head = head.node
    if isinstance(head, str):
        head = TextNode(id_="", text=head)
    if not isinstance(head, BaseNode):
        kind = type(item).__name__
        raise MalformedAnswerError(
            f"malformed: a hit must be a node, a text or a (node, score) pair; got {kind} at {row}"
        )
    return NodeWithScore.model_construct(node=head, score=score)


def _awaits(instance: object, sync: str, native: str) -> bool:
    """Whether the class that last defined the asynchronous method also stands behind the synchronous one."""
    order = type(instance).__mro__
    defined = {name: next((i for i, kind in enumerate(order) if name in vars(kind)), -1) for name in (sync, native)}
    return 0 <= defined[native] <= defined[sync]


def _store_awaits(store: object) -> bool:
    """Whether a vector store's own coroutine can run: Qdrant has one, but often no client for it."""
    return _awaits(store, "query", "aquery") and getattr(store, "_aclient", store) is not None


def _is_count(retriever: object, name: str) -> bool:
    value = getattr(retriever, name, None)
    return isinstance(value, int) and not isinstance(value, bool)


def check_flag(name: str, value: object) -> bool:
    """`value` as True or False, or an error that names the argument."""
    if not isinstance(value, bool):
        raise InvalidTypeError(f"{name} must be True or False; got {value!r}")
    return value


def resolved(ranking: Ranking, found: object, notes: list[str]) -> Ranking:
    """The ranking with these passages; a hit without one keeps its own node."""
    passages = {key: _as_node(key, value) for key, value in by_id(ranking.ids, found, unpack).items()}
    note_missing(ranking.ids, passages, notes)
    payloads = ranking.payloads
    ids = [one for one in ranking.ids if one in passages or one in payloads]
    evidence = payloads.evidence if isinstance(payloads, Found) else Paths(payloads)
    nodes = [passages[one] if one in passages else cast("BaseNode", payloads[one]) for one in ids]
    return replace(ranking, payloads=Found(ids, nodes, evidence))


def _as_node(key: str, value: object) -> BaseNode:
    if isinstance(value, NodeWithScore):
        return value.node
    return value if isinstance(value, BaseNode) else TextNode(id_=key, text=str(value))


class RetrieverSource:
    """One source between calls: what to ask, how to ask it, how to read it.

    Parameters
    ----------
    name : str
    spec : SourceSpec
    """

    def __init__(self, name: str, spec: SourceSpec) -> None:
        self.name = name
        self.spec = spec
        self.filters: MetadataFilters | None = None
        given = spec.retriever
        self.core = not hasattr(given, "retrieve") and (search_of(given) or asearch_of(given)) is not None
        self.retriever: Any = given if self.core else as_retriever(given)
        direction = Direction(spec.higher_is_better, _known(self.retriever), name)
        self.reader = Reader(name, spec, direction, self._knowledge())
        resolves_async = inspect.iscoroutinefunction(spec.resolve)
        self.synchronous = not resolves_async and not getattr(self.retriever, "asynchronous", False)
        self.asynchronous = is_asynchronous(self.retriever) and (spec.resolve is None or resolves_async)
        if self.core:
            prepare(given)
            self.synchronous = search_of(given) is not None and not resolves_async
            self.asynchronous = asearch_of(given) is not None and (spec.resolve is None or resolves_async)
        if resolves_async and not self.asynchronous:
            raise InvalidTypeError(f"retrievers[{name!r}].resolve must be a plain function; its retriever is not async")

    def within(self, filters: MetadataFilters) -> RetrieverSource:
        """The same source for hits that match; what it learnt is shared."""
        made = copy.copy(self)
        kind = bm25_within if is_bm25(self.retriever) else faiss_within if is_faiss(self.retriever) else filtered
        made.retriever = kind(self.retriever, filters)
        made.filters = joined(self.filters, filters)
        return made

    def bind(self, bundle: QueryBundle, notes: list[str]) -> AnySource:
        """The source of one call, which gets a copy of `bundle`; what it notes goes to `notes`."""
        if not self.synchronous:
            return _AsyncBound(self, bundle, notes)
        return _Both(self, bundle, notes) if self.asynchronous else _Bound(self, bundle, notes)

    def read(self, hits: object, asked: Exchange, notes: list[str]) -> Ranking:
        """The answer as a ranking: the retriever's own, nodes joined, where it handed one over."""
        if not isinstance(hits, list):
            raise MalformedAnswerError(f"malformed: a retriever must return a list of nodes; got {type(hits).__name__}")
        if asked.ranking is None:
            hits = only_matching(hits, self.filters)
            if decides_membership(self.retriever) and self.spec.score_fn is None and self.spec.score_key is None:
                notes.append("rank only: the scores of its mode are not similarities")
                hits = [NodeWithScore.model_construct(node=hit.node, score=None) for hit in hits]
            return self.reader.ranking(hits, asked.limit, notes)
        return replace(asked.ranking, source=self.name)

    def _knowledge(self) -> Knowledge | None:
        if not is_knowledge(self.retriever):
            return None
        return Knowledge(keeps_text(self.retriever), _is_exact(with_own_chunks(self.retriever, None)))


class _Bound:
    __slots__ = ("_bundle", "_notes", "_source")

    def __init__(self, source: RetrieverSource, bundle: QueryBundle, notes: list[str]) -> None:
        self._source = source
        self._bundle = bundle
        self._notes = notes

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        source = self._source
        ranking: Ranking
        if source.core:
            ranking = source.retriever.search(query, limit, upstream)
        else:
            with Asking(source.name, limit, upstream) as asked:
                hits = prepared(source.retriever, limit).retrieve(own_copy(self._bundle, query))
            ranking = source.read(hits, asked, self._notes)
        if not len(ranking):
            return ranking
        if source.spec.resolve is not None:
            return resolved(ranking, source.spec.resolve(ranking.ids), self._notes)
        wanted, store = _texts_wanted(source, ranking)
        return resolved(ranking, {n.node_id: n for n in store.get_llama_nodes(wanted)}, []) if wanted else ranking


class _AsyncBound(_Bound):
    __slots__ = ()
    search = None  # type: ignore[assignment]

    async def asearch(self, query: str, limit: int | None, upstream: Upstream) -> Ranking:
        source = self._source
        ranking: Ranking
        if source.core:
            ranking = await source.retriever.asearch(query, limit, upstream)
        else:
            with Asking(source.name, limit, upstream) as asked:
                hits = await prepared(source.retriever, limit).aretrieve(own_copy(self._bundle, query))
            ranking = source.read(hits, asked, self._notes)
        if not len(ranking):
            return ranking
        if source.spec.resolve is not None:
            found = await cast("Awaitable[object]", source.spec.resolve(ranking.ids))
            return resolved(ranking, found, self._notes)
        wanted, store = _texts_wanted(source, ranking)
        if not wanted:
            return ranking
        return resolved(ranking, {n.node_id: n for n in await store.aget_llama_nodes(wanted)}, [])


class _Both(_Bound):
    __slots__ = ()
    asearch = _AsyncBound.asearch


def _known(retriever: Any) -> bool | None:
    if is_knowledge(retriever) or type(retriever).__name__ in ("BM25Retriever", "CalibratedFusionRetriever"):
        return True
    store = store_of_vectors(retriever)
    return None if store is None else known_direction(store)


def _is_exact(retriever: Any) -> bool:
    if hasattr(retriever, "sub_retrievers"):
        return all(map(_is_exact, retriever.sub_retrievers))
    return "_get_nodes_with_score" in vars(retriever)


def _texts_wanted(source: RetrieverSource, ranking: Ranking) -> tuple[list[str], Any]:
    """Ids of passages of which only a triple is at hand, and the store that may have their text."""
    if source.reader.knowledge is None:
        return [], None
    store = store_of(source.retriever)
    if store is None:
        return [], None
    return [one for one in ranking.ids if isinstance(ranking.payloads.get(one), TripleNode)], store
