"""Everything that can be asked, as a retriever of the framework."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.property_graph import BasePGRetriever, PGRetriever
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import MetadataFilters, VectorStoreQueryMode

from llama_index.retrievers.phasegraph.exchange import Exchange, take
from llama_index.retrievers.phasegraph.filtering import joined, only_matching
from llama_index.retrievers.phasegraph.knowledge import is_knowledge, with_own_chunks
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.adapters.checks import kind_of
from phasegraph.adapters.functions import drained, parameters_of
from phasegraph.sources.answers import MalformedAnswerError

_OWN_MEMBERS = (VectorStoreQueryMode.MMR,)


class FunctionRetriever(BaseRetriever):
    """A plain function as a retriever, so that it is traced like one."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        call = getattr(function, "__call__", function)  # noqa: B004 - an instance's coroutine method
        self.asynchronous = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        self.accepts = parameters_of(function) & {"limit", "k", "given", "filters"}
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
        offered = {"limit": asked.limit, "k": asked.limit, "given": asked.given, "filters": self.filters}
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
