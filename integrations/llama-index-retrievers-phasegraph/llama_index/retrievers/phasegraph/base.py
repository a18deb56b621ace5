"""The retriever: ask every source, let the core decide, give back the sources' own nodes."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, QueryType
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

from llama_index.retrievers.phasegraph.filtering import check_filters
from llama_index.retrievers.phasegraph.lookup import embedding_of
from llama_index.retrievers.phasegraph.searching import check_flag
from llama_index.retrievers.phasegraph.sources import RetrieverSource
from llama_index.retrievers.phasegraph.writing import Winner, nodes_of, winners_of
from phasegraph import Context, FusionPipeline, InvalidInputError, InvalidTypeError, Ranking, Result
from phasegraph.adapters import calibration_queries, with_text_warnings
from phasegraph.adapters.choosing import Accept, Choosing
from phasegraph.adapters.listening import Listener
from phasegraph.adapters.planning import Bind, Plan
from phasegraph.adapters.specs import as_specs
from phasegraph.pipeline.checks import check_count, check_query
from phasegraph.selection import SelectionPolicy

Method = TypeVar("Method", bound=Callable[..., Any])


def in_the_bases_span(method: Method) -> Method:
    """Mark a method that only checks and hands on, so that it gets no second span around the base class's own."""
    setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
    return method


class CalibratedFusionRetriever(BaseRetriever):
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
    deadline : float or None, default 10.0
        Seconds for the whole call.
    strict : bool, default False
        Turn any degradation, and calibration by list alone, into ``DegradedError``.
    on_all_failed : {"raise", "empty"}, default "raise"
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
        deadline: float | None = 10.0,
        strict: bool = False,
        on_all_failed: Literal["raise", "empty"] = "raise",
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
            specs, k=_one_count(similarity_top_k, k), weights=weights, pipeline=pipeline, limit=limit,
            deadline=deadline, strict=strict, on_all_failed=on_all_failed, context=_callable("context", context),
            choosing=Choosing(accept, selection, _callable("correct", correct), embedding_of(embed_model)),
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

    @property
    def fusion(self) -> FusionPipeline:
        """The pipeline that decides, with the weights and calibrators in use."""
        return self._plan.pipeline

    @in_the_bases_span
    def retrieve(self, str_or_query_bundle: QueryType) -> list[NodeWithScore]:
        """Nodes for the query, best first."""
        return super().retrieve(_checked(str_or_query_bundle))

    @in_the_bases_span
    async def aretrieve(self, str_or_query_bundle: QueryType) -> list[NodeWithScore]:
        """As :meth:`retrieve`."""
        return await super().aretrieve(_checked(str_or_query_bundle))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        result, winners = _settled(self._plan.ask(*self._call(query_bundle, None)))
        self._listener.tell(result)
        return nodes_of(result, winners, block=self._provenance)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        result, winners = _settled(await self._plan.aask(*self._call(query_bundle, None)))
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
        return _settled(self._plan.ask(*self._call(query, k)))[0]

    async def aexplain(self, query: QueryType, k: int | None = None) -> Result:
        """As :meth:`explain`."""
        return _settled(await self._plan.aask(*self._call(query, k)))[0]

    def within(self, filters: MetadataFilters) -> Self:
        """The same retriever for nodes that match; `filters` reach every source, the walk of a graph included.

        Calibrators, directions and breakers are shared. Sources keep the filters of their own. InvalidInputError where
        a source cannot keep them, such as a property graph's retriever: better no answer than one that shows too much.
        """
        checked = check_filters(filters)
        made = copy.copy(self)
        made._sources = {name: source.within(checked) for name, source in self._sources.items()}
        return made

    def calibrate(
        self,
        queries: Sequence[str],
        *,
        relevant: Mapping[str, Collection[str]] | None = None,
        progress: bool = True,
    ) -> Self:
        """Fit each source's reference calibrator from unlabelled queries.

        Parameters
        ----------
        queries : sequence of str
            At least enough for 20 scores per source; some hundred are better.
        relevant : mapping of str to collection of str, optional
            By query, the ids of nodes that answer it, where some are judged. For one purpose: a source whose scores
            fall where relevance rises is refused (distances read as similarities).
        progress : bool, default True
            Show a bar where standard error is a terminal and tqdm is installed.

        Returns
        -------
        CalibratedFusionRetriever
            Itself, fitted. Sources that state their background or give ranks only are left as they are, and so is,
            with a warning, one whose scores cannot be fitted while another's can.
        """
        asked, bind = calibration_queries(queries, relevant, progress), self._binding
        return self._fit([(one, self._plan.rankings(one, bind(QueryBundle(one)))) for one in asked], relevant)

    async def acalibrate(
        self,
        queries: Sequence[str],
        *,
        relevant: Mapping[str, Collection[str]] | None = None,
        progress: bool = True,
    ) -> Self:
        """As :meth:`calibrate`."""
        asked, bind = calibration_queries(queries, relevant, progress), self._binding
        return self._fit([(one, await self._plan.arankings(one, bind(QueryBundle(one)))) for one in asked], relevant)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted pipeline, weights and number of nodes included, to one JSON file."""
        self._plan.pipeline.save(path)

    def load(self, path: str | os.PathLike[str]) -> Self:
        """Take the pipeline that :meth:`save` wrote; IntegrityError if the file is damaged, foreign or newer.

        What the constructor was given (weights, number of nodes, `accept`, `selection`) wins over the file.
        """
        self._plan = self._plan.with_pipeline(FusionPipeline.load(path))
        return self

    def _call(self, query: QueryType, k: int | None) -> tuple[str, int, Bind]:
        bundle = _checked(query)
        wanted = self._plan.pipeline.k if k is None else check_count("k", k)
        return bundle.query_str, wanted, self._binding(bundle)

    def _binding(self, bundle: QueryBundle) -> Bind:
        return lambda name, notes: self._sources[name].bind(bundle, notes)

    def _fit(
        self, answers: Sequence[tuple[str, Sequence[Ranking]]], relevant: Mapping[str, Collection[str]] | None
    ) -> Self:
        self._plan = self._plan.with_fitted(self._plan.fit(answers, relevant))
        return self


def _settled(result: Result) -> tuple[Result, list[Winner]]:
    winners = winners_of(result)
    return with_text_warnings(result, winners), winners


def _checked(query: object) -> QueryBundle:
    if isinstance(query, QueryBundle):
        check_query(query.query_str)
        return query
    return QueryBundle(check_query(query))


def _one_count(similarity_top_k: int | None, k: int | None) -> int | None:
    if similarity_top_k is not None and k is not None:
        raise InvalidInputError("similarity_top_k and k are the same and must not both be given; got both")
    if k is not None:
        return check_count("k", k)
    return None if similarity_top_k is None else check_count("similarity_top_k", similarity_top_k)


def _callable(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise InvalidTypeError(f"{name} must be a function or None; got {value!r}")
    return value
