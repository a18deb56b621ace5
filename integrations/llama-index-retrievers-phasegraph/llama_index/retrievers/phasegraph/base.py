"""The retriever: ask every source, let the core decide, give back the sources' own nodes."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, QueryType
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

from llama_index.retrievers.phasegraph.conversion import embedding_of, nodes_of, winners_of
from llama_index.retrievers.phasegraph.filters import check_filters
from llama_index.retrievers.phasegraph.retriever_sources import RetrieverSource, check_flag
from phasegraph import Context, FusionPipeline, InvalidInputError, InvalidTypeError, Result
from phasegraph._validation import check_count, check_query
from phasegraph.retrieval.engine import Accept, Bind, Calibrating, Choosing, Fitted, Listener, Plan, settled
from phasegraph.retrieval.source_config import as_specs
from phasegraph.selection import SelectionPolicy

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


def one_count(similarity_top_k: int | None, k: int | None) -> int | None:
    """The number of nodes, under whichever of its two names it was given."""
    if similarity_top_k is not None and k is not None:
        raise InvalidInputError("similarity_top_k and k are the same and must not both be given; got both")
    if k is not None:
        return check_count("k", k)
    return None if similarity_top_k is None else check_count("similarity_top_k", similarity_top_k)


def check_callable(name: str, value: Any) -> Any:
    """`value`, which must be a function or None."""
    if value is not None and not callable(value):
        raise InvalidTypeError(f"{name} must be a function or None; got {value!r}")
    return value


class CalibratedFusionRetriever(Calibrating, BaseRetriever):
    """Any retrievers, fused by calibrated scores.

    Parameters
    ----------
    vector, graph : retriever, index, query engine, callable or SourceSpec, optional
        The sources of these names.
    retrievers : mapping of str to the same, optional
        Further sources by name, each bare or as a :class:`SourceSpec` with weight, limit, deadline, direction and
        readers of its own.
    similarity_top_k : int, default 10
        Nodes returned, >= 0. Changes neither scores nor order.
    k : int, optional
        The same under a shorter name.
    weights : mapping of str to float, optional
        By source name, >= 0, not all 0; in place of ``SourceSpec.weight``. Default: per query, by agreement and by
        how sharply the graph points, where it states its background; else equal.
    pipeline : FusionPipeline or path, optional
        How to fuse; a path to a file that :meth:`save` wrote. Default ``FusionPipeline()``.
    limit : int or None, default 50
        Hits asked of each source, in place of its own ``similarity_top_k``; None leaves it alone.
    timeout : float or None, default 10.0
        Seconds for the whole call.
    strict : bool, default False
        Turn any degradation, and calibration by list alone, into ``DegradedError``.
    provenance : bool, default True
        Add ``metadata["phasegraph"]``: per source rank, raw score, calibrated value, weight and contribution. The
        key is among the node's excluded metadata keys: neither a prompt nor an embedding reads it.
    on_result : callable, optional
        Called with the core's ``Result`` of every query; a coroutine function is awaited in asynchronous calls.
    context : callable, optional
        ``context(query)`` gives the core's ``Context``, for priors; may be a coroutine function for asynchronous calls.
    accept : mapping of str to threshold, or AcceptancePolicy, optional
        By source, on its own scores; nodes below are not returned. Default: all are accepted.
    selection : SelectionPolicy or str, optional
        Which nodes go together, for example ``"mmr"``; default the best.
    embed_model : BaseEmbedding, optional
        Embeds the candidates for a `selection` that weighs redundancy, unless all of them carry an embedding.
    correct : callable, optional
        ``correct(result)`` is called where everything was rejected; the query it returns is asked once.
    callback_manager, object_map, objects, verbose
        As in every retriever of the framework.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is outside what is said above; the message names it.

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
        retrievers: Mapping[str, Any] | None = None,
        *,
        similarity_top_k: int | None = None,
        k: int | None = None,
        weights: Mapping[str, float] | None = None,
        pipeline: FusionPipeline | str | os.PathLike[str] | None = None,
        limit: int | None = 50,
        timeout: float | None = 10.0,
        strict: bool = False,
        provenance: bool = True,
        on_result: Callable[[Result], Any] | None = None,
        context: Callable[[str], Context] | None = None,
        accept: Accept | None = None,
        selection: SelectionPolicy | str | None = None,
        embed_model: BaseEmbedding | None = None,
        correct: Callable[[Result], Any] | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(callback_manager, object_map, objects, verbose)
        specs = as_specs(vector, graph, retrievers)
        self._plan = Plan.of(
            specs, k=one_count(similarity_top_k, k), weights=weights, pipeline=pipeline, limit=limit,
            timeout=timeout, strict=strict, context=check_callable("context", context),
            choosing=Choosing(accept, selection, check_callable("correct", correct), embedding_of(embed_model)),
        )  # fmt: skip
        self._sources = {name: RetrieverSource(name, spec) for name, spec in specs.items()}
        self._listener = Listener(on_result)
        self._provenance = check_flag("provenance", provenance)

    @property
    def similarity_top_k(self) -> int:
        """Nodes returned."""
        return self._plan.pipeline.k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        self._plan = self._plan.with_k(check_count("similarity_top_k", value))

    @in_the_bases_span
    def retrieve(self, str_or_query_bundle: QueryType) -> list[NodeWithScore]:
        """Nodes for the query, best first."""
        return super().retrieve(checked_query(str_or_query_bundle))

    @in_the_bases_span
    async def aretrieve(self, str_or_query_bundle: QueryType) -> list[NodeWithScore]:
        """As :meth:`retrieve`."""
        return await super().aretrieve(checked_query(str_or_query_bundle))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        result, winners = settled(self._plan.ask(*self._call(query_bundle, None)), winners_of)
        self._listener.tell(result)
        return nodes_of(result, winners, block=self._provenance)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        result, winners = settled(await self._plan.aask(*self._call(query_bundle, None)), winners_of)
        await self._listener.atell(result)
        return nodes_of(result, winners, block=self._provenance)

    def explain(self, query: QueryType, k: int | None = None) -> Result:
        """The whole answer to one query: scores, contributions, candidates and a report per source.

        Parameters
        ----------
        query : str or QueryBundle
            Not blank.
        k : int, optional
            In place of `similarity_top_k`.

        Returns
        -------
        Result
            ``result.evidence(id)`` says why a node stands where it stands.
        """
        return settled(self._plan.ask(*self._call(query, k)), winners_of)[0]

    async def aexplain(self, query: QueryType, k: int | None = None) -> Result:
        """As :meth:`explain`."""
        return settled(await self._plan.aask(*self._call(query, k)), winners_of)[0]

    def within(self, filters: MetadataFilters) -> Self:
        """The same retriever for nodes that match; `filters` reach every source, the walk of a graph included.

        Calibrators, directions and breakers are shared. Sources keep the filters of their own. InvalidInputError where
        a source cannot keep them, such as a property graph's retriever: better no answer than one that shows too much.
        """
        checked = check_filters(filters)
        made = copy.copy(self)
        made._sources = {name: source.within(checked) for name, source in self._sources.items()}
        return made

    def _call(self, query: QueryType, k: int | None) -> tuple[str, int, Bind]:
        bundle = checked_query(query)
        wanted = self._plan.pipeline.k if k is None else check_count("k", k)
        return bundle.query_str, wanted, self._bound(bundle)

    def _planned(self) -> Plan:
        return self._plan

    def _bound(self, query: QueryType) -> Bind:
        bundle = checked_query(query)
        return lambda name, notes: self._sources[name].bind(bundle, notes)

    def _take(self, fitted: Fitted) -> None:
        self._plan = self._plan.with_fitted(fitted)

    def _decide_by(self, pipeline: FusionPipeline) -> None:
        self._plan = self._plan.with_pipeline(pipeline)
