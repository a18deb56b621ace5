"""The base class of phasegraph's retrievers, and the data that these retrievers pass to each other in a search."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.settings import Settings
from llama_index.core.vector_stores.types import MetadataFilters

from llama_index.retrievers.phasegraph.matching_nodes import only_matching
from llama_index.retrievers.phasegraph.postgres_store import with_sql_filters
from llama_index.retrievers.phasegraph.restricted_search import narrowed
from phasegraph import Ranking
from phasegraph.retrieval import Upstream, shown


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

    def _searched_retrievers(self) -> Sequence[object]:
        """Return the retrievers that this retriever asks; the retriever itself if it asks no others."""
        return [self]

    def _handle_recursive_retrieval(self, query_bundle: QueryBundle, nodes: list[NodeWithScore]) -> list[NodeWithScore]:
        """Replace each index node by the nodes to which it refers, and keep the first node of each id.

        Before version 0.14.19, the framework's method also drops a node with the text and metadata of another node. It
        still does this among the nodes to which one index node refers.
        """
        handle = super()._handle_recursive_retrieval
        return _distinct(one for node in nodes for one in handle(query_bundle, [node]))

    async def _ahandle_recursive_retrieval(
        self, query_bundle: QueryBundle, nodes: list[NodeWithScore]
    ) -> list[NodeWithScore]:
        handle = super()._ahandle_recursive_retrieval
        return _distinct([one for node in nodes for one in await handle(query_bundle, [node])])

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
        return with_sql_filters(narrowed("index node", obj, filters)) if filters is not None and asked else obj

    def for_call(self, limit: int | None, upstream: Upstream) -> Self:
        """Return a copy of the retriever for one search, with a new :class:`Exchange` of `limit` and `upstream`."""
        made = copy.copy(self)
        made.exchange = Exchange(limit, upstream)
        return made

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value}" for name, value in shown(self._shown_arguments()))
        return f"{type(self).__name__}({said})"

    def _shown_arguments(self) -> Mapping[str, object]:
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


def _distinct(nodes: Iterable[NodeWithScore]) -> list[NodeWithScore]:
    """Return the first node of each id."""
    found: dict[str, NodeWithScore] = {}
    for one in nodes:
        found.setdefault(one.node.node_id, one)
    return list(found.values())
