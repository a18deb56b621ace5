"""The retriever: ask every source, let the core decide, give back the sources' own nodes."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, QueryType
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

from llama_index.retrievers.phasegraph.conversion import access_of, check_key, nodes_of
from llama_index.retrievers.phasegraph.filters import check_filters
from llama_index.retrievers.phasegraph.retriever_sources import OwnRetriever, RetrieverSource
from phasegraph import FusionPipeline, InvalidInputError, Result
from phasegraph.retrieval import (
    Accept,
    Calibrating,
    FusionEngine,
    ResultCallback,
    SelectedHit,
    SelectionPolicy,
    Sources,
    as_specs,
    check_count,
    check_query,
    evidence_blocks,
    parameters_of,
    unexpected_argument,
)

Method = TypeVar("Method", bound=Callable[..., Any])


def in_the_bases_span(method: Method) -> Method:
    """Mark a method that only checks and hands on, so that it gets no second span around the base class's own."""
    setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
    return method


def checked_query(query: object) -> QueryBundle:
    """A query as a bundle of text that is not blank."""
    if isinstance(query, QueryBundle):
        check_query(query.query_str)
        return query
    return QueryBundle(check_query(query))


class CalibratedFusionRetriever(Calibrating, OwnRetriever):
    """Any retrievers, fused by calibrated scores.

    Parameters
    ----------
    vector, graph : retriever, index, query engine, callable or SourceSpec, optional
        The sources of these names.
    retrievers : mapping of str to the same, or a list of them, optional
        Further sources, by name or as ``source_1``, ``source_2`` and so on; each bare or as a :class:`SourceSpec` with
        weight, limit, timeout, fields and execution of its own.
    similarity_top_k : int, optional
        Nodes returned, >= 0. Changes neither scores nor order. Default: the pipeline's, 10.
    k : int, optional
        The same under a shorter name.
    weights : mapping of str to float, or a list beside a list of retrievers, optional
        >= 0, not all 0; in place of ``SourceSpec.weight``. Default: per query, by agreement and by how sharply the
        graph points, where it states its background; else equal.
    accept : mapping of str to threshold, AcceptancePolicy or Confidence, optional
        By source, on its own scores; nodes below are not returned. ``Confidence(min=.2)``: no node where it is too
        doubtful that the corpus holds an answer. Default: all are accepted.
    selection : SelectionPolicy or str, optional
        Which k go together, for example ``"mmr"``; default the k best. Redundancy is weighed by the embeddings that
        the nodes carry, else of the model that the first source embeds with.
    filters : MetadataFilters, optional
        What every node must match; also a keyword of ``retrieve``, ``aretrieve`` and ``explain``, which narrow it
        further. They reach every source, the walk of a graph included; InvalidInputError where a source cannot keep
        them. To ask often within the same filters, keep what :meth:`within` returns.
    limit : int or None, default 50
        Hits asked of each source, in place of its own ``similarity_top_k``; None leaves it alone.
    timeout : float or None, default 10.0
        Seconds for the whole call.
    strict : bool, default False
        Turn any degradation, and calibration by list alone, into ``DegradedError``.
    pipeline : FusionPipeline or path, optional
        How to fuse; a path to a file that :meth:`save` wrote. Not beside `weights`, `accept` or `selection`, which it
        has itself.
    on_result : callable, optional
        Called with the core's ``Result`` of every query; a coroutine function is awaited in asynchronous calls.
    metadata_key : str, optional
        Metadata key for the evidence: per source rank, raw score, calibrated value, weight and contribution. The key
        is among the node's excluded metadata keys: neither a prompt nor an embedding reads it. :meth:`explain` always
        has the evidence.
    callback_manager, object_map, objects, verbose
        As in every retriever of the framework.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is unknown or outside what is said above; the message names it.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> def lexical(query):
    ...     return [(TextNode(id_=name, text=name), score) for name, score in (("p", 7.1), ("r", 6.0), ("o", 1.0))]
    >>> retriever = CalibratedFusionRetriever(retrievers={"lexical": lexical}, similarity_top_k=2)
    >>> [node.node_id for node in retriever.retrieve("Which city?")]
    ['p', 'r']
    """

    def __init__(
        self,
        vector: Any = None,
        graph: Any = None,
        retrievers: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        similarity_top_k: int | None = None,
        k: int | None = None,
        weights: Mapping[str, float] | Sequence[float] | None = None,
        accept: Accept | None = None,
        selection: SelectionPolicy | str | None = None,
        filters: MetadataFilters | None = None,
        limit: int | None = 50,
        timeout: float | None = 10.0,
        strict: bool = False,
        pipeline: FusionPipeline | str | os.PathLike[str] | None = None,
        on_result: Callable[[Result], Any] | None = None,
        metadata_key: str | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        **unknown: Any,
    ) -> None:
        for name in unknown:
            raise unexpected_argument(name, parameters_of(CalibratedFusionRetriever) - {"unknown"})
        if similarity_top_k is not None and k is not None:
            raise InvalidInputError("k= and similarity_top_k= are the same: give one of them")
        super().__init__(callback_manager, object_map, objects, verbose)
        specs = as_specs(vector, graph, retrievers)
        self._by_name = {name: RetrieverSource(name, spec) for name, spec in specs.items()}
        for source in self._by_name.values():
            source.borrow(self._by_name)
        self._engine = FusionEngine.of(
            specs,
            k=_count("similarity_top_k", similarity_top_k) if k is None else _count("k", k),
            weights=weights, accept=accept, selection=selection, pipeline=pipeline, limit=limit, timeout=timeout,
            strict=strict, access=access_of(source.retriever for source in self._by_name.values()),
        )  # fmt: skip
        self._callback = ResultCallback(on_result)
        self._metadata_key = check_key("metadata_key", metadata_key)
        if filters is not None:
            self._by_name = self.within(filters)._by_name

    @property
    def similarity_top_k(self) -> int:
        """Nodes returned."""
        return self._engine.pipeline.k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        self._engine = self._engine.with_k(check_count("similarity_top_k", value))

    k = similarity_top_k

    @in_the_bases_span
    def retrieve(
        self, str_or_query_bundle: QueryType, *, filters: MetadataFilters | None = None
    ) -> list[NodeWithScore]:
        """Nodes for the query, best first; `filters` besides the retriever's own."""
        bundle, asked = checked_query(str_or_query_bundle), self._narrowed(filters)
        return super(CalibratedFusionRetriever, asked).retrieve(bundle)

    @in_the_bases_span
    async def aretrieve(
        self, str_or_query_bundle: QueryType, *, filters: MetadataFilters | None = None
    ) -> list[NodeWithScore]:
        """As :meth:`retrieve`."""
        bundle, asked = checked_query(str_or_query_bundle), self._narrowed(filters)
        return await super(CalibratedFusionRetriever, asked).aretrieve(bundle)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        sources, k = self._bound(query_bundle), self._wanted(None)
        result, hits = self._engine.retrieve(query_bundle.query_str, sources, k=k)
        self._callback.notify(result)
        return self._nodes(result, hits)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        sources, k = self._bound(query_bundle), self._wanted(None)
        result, hits = await self._engine.aretrieve(query_bundle.query_str, sources, k=k)
        await self._callback.anotify(result)
        return self._nodes(result, hits)

    def explain(self, query: QueryType, k: int | None = None, *, filters: MetadataFilters | None = None) -> Result:
        """The whole answer to one query: scores, contributions, candidates and a report per source.

        Parameters
        ----------
        query : str or QueryBundle
            Not blank.
        k : int, optional
            In place of `similarity_top_k`.
        filters : MetadataFilters, optional
            Besides the retriever's.

        Returns
        -------
        Result
            ``result.evidence(id)`` says why a node stands where it stands.
        """
        bundle = checked_query(query)
        sources = self._narrowed(filters)._bound(bundle)
        return self._engine.retrieve(bundle.query_str, sources, k=self._wanted(k), read=True)[0]

    async def aexplain(
        self, query: QueryType, k: int | None = None, *, filters: MetadataFilters | None = None
    ) -> Result:
        """As :meth:`explain`."""
        bundle = checked_query(query)
        sources = self._narrowed(filters)._bound(bundle)
        return (await self._engine.aretrieve(bundle.query_str, sources, k=self._wanted(k), read=True))[0]

    def within(self, filters: MetadataFilters) -> Self:
        """The same retriever for nodes that match; `filters` reach every source, the walk of a graph included.

        Calibrators, directions and breakers are shared. Sources keep the filters of their own. InvalidInputError where
        a source cannot keep them, such as a property graph's retriever: better no answer than one that shows too much.
        """
        checked = check_filters(filters)
        made = copy.copy(self)
        made._by_name = {name: source.within(checked) for name, source in self._by_name.items()}
        return made

    def _narrowed(self, filters: MetadataFilters | None) -> Self:
        return self if filters is None else self.within(filters)

    def _told(self) -> Mapping[str, object]:
        return {"similarity_top_k": self.similarity_top_k, **{name: one.whole for name, one in self._by_name.items()}}

    def _nodes(self, result: Result, hits: list[SelectedHit]) -> list[NodeWithScore]:
        """The nodes; for another retriever of ours without a block, and with the evidence in the exchange."""
        if self.exchange is None:
            return nodes_of(result, hits, self._metadata_key)
        nodes = nodes_of(result, hits, None)
        if self._metadata_key is not None:
            blocks = zip(nodes, evidence_blocks(result, hits), strict=True)
            self.exchange.evidence = {hit.node.node_id: block for hit, block in blocks}
        return nodes

    def _bound(self, bundle: QueryBundle) -> Sources:
        return {name: self._by_name[name].bind(bundle) for name in self._engine.asked}

    def _sources(self, query: str) -> Sources:
        return self._bound(checked_query(query))

    def _wanted(self, k: int | None) -> int | None:
        return _count("k", k) if self.exchange is None else self.exchange.limit


def _count(name: str, value: int | None) -> int | None:
    return None if value is None else check_count(name, value)
