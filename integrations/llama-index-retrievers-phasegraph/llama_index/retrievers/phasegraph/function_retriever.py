"""Convert an index, query engine or function to a LlamaIndex retriever."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index.retrievers.phasegraph.conversion import unpack
from llama_index.retrievers.phasegraph.lookup import lists_all_nodes
from llama_index.retrievers.phasegraph.matching_nodes import only_matching
from llama_index.retrievers.phasegraph.own_retriever import Exchange, OwnRetriever
from phasegraph import InvalidTypeError
from phasegraph.retrieval import describe_type, parameters_of


class FunctionRetriever(OwnRetriever):
    """A retriever that calls a plain function; traces show the call like the call of any other retriever."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        call = getattr(function, "__call__", function)  # noqa: B004 - __call__ of an instance may be a coroutine
        self.asynchronous = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        self.accepts = parameters_of(function) & {"limit", "k", "upstream", "filters"}
        self.filters: MetadataFilters | None = None

    def _shown_arguments(self) -> Mapping[str, object]:
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


class IndexIds(Sequence[str]):
    """The ids of all present nodes of a vector index; the framework's list lacks nodes that are inserted later."""

    def __init__(self, index: Any) -> None:
        self._index = index

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._index.index_struct.nodes_dict.values()))  # a thread may insert nodes

    def __len__(self) -> int:
        return len(self._index.index_struct.nodes_dict)

    def __getitem__(self, row: Any) -> Any:
        return list(self)[row]


def as_retriever(given: object) -> Any:
    """Convert an index, query engine or function to a retriever; objects with a `retrieve` method stay unchanged."""
    if isinstance(given, BaseRetriever):
        return given
    if isinstance(given, BaseIndex):
        made = given.as_retriever()
        if isinstance(made, VectorIndexRetriever):  # an index with texts in its store lists only its pictures
            made._node_ids = IndexIds(given) if lists_all_nodes(given) else None  # type: ignore[assignment]
        return made
    if isinstance(given, BaseQueryEngine) and type(given).retrieve is BaseQueryEngine.retrieve:
        return FunctionRetriever(_Answers(given))
    if callable(getattr(given, "retrieve", None)) and not isinstance(given, type):
        return given
    if callable(given) and not isinstance(given, type):
        return FunctionRetriever(given)
    nodes = isinstance(given, list | tuple) and given and all(isinstance(one, BaseNode) for one in given)
    got = "a list of nodes; use CalibratedFusionRetriever.from_nodes(nodes, embed_model)"
    raise InvalidTypeError(
        "a source must be a LlamaIndex retriever, index, query engine, source or function; got "
        f"{got if nodes else describe_type(given)}"
    )
