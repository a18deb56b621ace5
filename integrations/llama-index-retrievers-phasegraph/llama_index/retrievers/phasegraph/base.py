"""The LlamaIndex retriever that searches every source, fuses the rankings, and returns the sources' own nodes."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle, QueryType
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

import phasegraph  # the subpackage phasegraph.graph imports scipy.sparse, so it is imported only at its first use
from llama_index.retrievers.phasegraph.conversion import check_key, nodes_of
from llama_index.retrievers.phasegraph.corpus import (
    NODES,
    IndexVectors,
    KeptNodes,
    contents_of,
    given_or_settings,
)
from llama_index.retrievers.phasegraph.embedding import access_of
from llama_index.retrievers.phasegraph.entity_graph import EntityGraphRetriever
from llama_index.retrievers.phasegraph.filters import (
    check_agree,
    check_filters,
    check_required,
    check_required_key,
    joined,
)
from llama_index.retrievers.phasegraph.lookup import Lookup
from llama_index.retrievers.phasegraph.node_limits import warn_of_limits
from llama_index.retrievers.phasegraph.own_retriever import OwnRetriever
from llama_index.retrievers.phasegraph.retriever_sources import RetrieverSource
from llama_index.retrievers.phasegraph.stages import LlamaIndexStages
from phasegraph import FusionPipeline, GroupBy, Inspection, InvalidInputError, InvalidTypeError, Result
from phasegraph.retrieval import (
    CALL_TIMEOUT,
    LONGEST_QUERY,
    Accept,
    Calibrating,
    Corrective,
    FusedPassages,
    FusionEngine,
    HitAccess,
    Indexing,
    ResultCallback,
    SelectedHit,
    SelectionPolicy,
    Sources,
    SourceSpec,
    accepts_old_names,
    adapted,
    as_specs,
    build_corpus,
    check_count,
    check_query,
    evidence_blocks,
    known_arguments,
    parameters_of,
    unexpected_argument,
)

if TYPE_CHECKING:
    import phasegraph.graph

Method = TypeVar("Method", bound=Callable[..., Any])


def in_the_bases_span(method: Method) -> Method:
    """Mark a method that calls the same method of the base class; tracing then records one span for both methods."""
    setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
    return method


def checked_query(query: object) -> QueryBundle:
    """Convert a query to a query bundle; raise InvalidInputError if the text is blank."""
    if isinstance(query, QueryBundle):
        check_query(query.query_str)
        return query
    return QueryBundle(check_query(query))


class CalibratedFusionRetriever(KeptNodes, FusedPassages, Calibrating, OwnRetriever):
    """A retriever that fuses the answers of any number of LlamaIndex retrievers by calibrated scores.

    Parameters
    ----------
    vector, graph : retriever, index, query engine, callable or SourceSpec, optional
        The sources with the names ``vector`` and ``graph``.
    retrievers : mapping of str to source, or list of sources, optional
        Further sources of the same types. A mapping gives their names; the sources of a list are named ``source_1``,
        ``source_2`` and so on. A :class:`SourceSpec` adds a weight, fetch_k, timeout, fields and execution of the
        source.
    similarity_top_k : int, optional
        Number of nodes to return, >= 0. Up to `fetch_k` (50), the number affects neither the scores nor the order.
        Default: the pipeline's `k`, which is 10 unless you change it.
    k : int, optional
        A shorter name of `similarity_top_k`.
    weights : mapping of str to float, or list of float, optional
        Weight of each source, >= 0, not all 0; a list has the order of the list `retrievers`. `weights` replaces
        ``SourceSpec.weight``. By default, each query gets its own weights, based on how well the sources agree and how
        clearly the graph separates its hits. Such weights need at least two sources, and an
        :class:`EntityGraphRetriever` as ``graph``. Another ``graph`` suffices if it states its background (the mean and
        deviation of all its scores) and there is a source ``vector``. Otherwise, the default weights are equal.
    accept : mapping of str to threshold, AcceptancePolicy or Confidence, optional
        Thresholds by source name, in the unit of the source's scores; the answer leaves out nodes below their
        threshold. ``Confidence(min=.2)`` returns no node if the confidence that the corpus has an answer is below 0.2.
        Default: no threshold.
    selection : SelectionPolicy or str, optional
        The method that chooses which nodes to return together, for example ``"mmr"``. By default, the `k` best nodes.
        To measure redundancy, the method uses the nodes' embeddings, or the embedding model of the first source that
        has a model.
    group_by : str or GroupBy, optional
        Metadata key that names the document of a node, for example ``"file_path"`` or ``"ref_doc_id"``. The nodes of
        the same document then count once, and `k` counts documents. ``GroupBy("file_path", "sum")`` adds up the values
        of the nodes. By default, every node counts.
    parents : True, mapping, docstore or callable, optional
        With `group_by`: return the text of the whole document instead of its best node. True joins the nodes of a
        retriever from :meth:`from_nodes`. A mapping by name, a docstore or a function ``parents(names)`` supplies the
        texts. Filters also apply to the documents.
    filters : MetadataFilters, optional
        Filters that every node must match. A call of ``retrieve``, ``aretrieve`` or ``explain`` can narrow these
        filters with its keyword argument ``filters``. The filters apply to every source and to the walk over the graph.
        If a source cannot apply the filters, the call raises InvalidInputError. For many calls with the same filters,
        call :meth:`within` once and reuse the retriever that it returns. A source's own filters
        (``index.as_retriever(filters=...)``) also apply to the other sources; if that is impossible, the constructor
        raises an error. A limit by ``node_ids`` or ``doc_ids`` does not apply to other sources; a warning names another
        source that searches more nodes of the same index.
    required_filter_key : str, optional
        Metadata key for which the filters of every call must give a value, with the operator EQ or IN; a call without
        the value fails.
    fetch_k : int or None, optional
        Number of hits to request from each source, instead of the source's own ``similarity_top_k``. None: keep the
        source's own ``similarity_top_k``. Default: 50, or the number of nodes to return if it is larger.
    timeout : float or None, default 10.0
        Time limit of a call in seconds; None: no limit. `on_result` and the copying of the returned nodes are not
        counted. A source, prior, correction or selection that is too late is left out; the report and a warning say so.
    max_query_length : int or None, default 20000
        Maximum length of a query in characters, >= 1. A longer query raises InvalidInputError. None: no limit.
    strict : bool, default False
        Raise ``DegradedError`` for any degradation, and if a source's scores are calibrated from the returned list
        alone.
    pipeline : FusionPipeline or path, optional
        The fusion settings, or the path of a file that :meth:`save` wrote. Cannot be combined with `weights`, `accept`
        or `selection`, because the pipeline contains these settings.
    route : callable, selector or language model, optional
        A function that chooses the sources to search: ``route(query)`` or ``route(query, ranking)``. It returns a
        source name, a list of names, or weights by name. `ranking` is the ranking of ``vector``, or of the
        alphabetically first source if there is no ``vector``. By default, and if the function fails, all sources are
        searched.
    rerank : Rerank, postprocessor or callable, optional
        A model that reads the query together with the best fused nodes. Without :class:`Rerank`, the model decides the
        order of the 30 best nodes.
    corrective : Corrective, optional
        A stage that grades the answer. If the grade is poor, the retriever searches once more with a rewritten query.
    on_result : callable, optional
        A function that receives the core's ``Result`` of every query. A coroutine function is awaited in asynchronous
        calls. `timeout` does not include the time of this function.
    evidence_key : str, optional
        Metadata key for the evidence: for each source the rank, raw score, calibrated value, weight and contribution.
        Prompts and embeddings leave out the evidence, because the key is among the node's excluded metadata keys.
        :meth:`explain` returns the evidence in any case.
    callback_manager, object_map, objects, verbose
        As for every retriever of LlamaIndex.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is unknown, has a wrong type or is out of range; the message names the argument.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> def bm25(query):
    ...     return [(TextNode(id_=name, text=name), score) for name, score in (("p", 7.1), ("r", 6.0), ("o", 1.0))]
    >>> retriever = CalibratedFusionRetriever(retrievers={"bm25": bm25}, similarity_top_k=2)
    >>> [node.node_id for node in retriever.retrieve("Which city?")]
    ['p', 'r']
    """

    @accepts_old_names
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
        group_by: GroupBy | str | None = None,
        parents: Any = None,
        filters: MetadataFilters | None = None,
        required_filter_key: str | None = None,
        fetch_k: int | str | None = "default",
        timeout: float | None = CALL_TIMEOUT,
        max_query_length: int | None = LONGEST_QUERY,
        strict: bool = False,
        pipeline: FusionPipeline | str | os.PathLike[str] | None = None,
        route: Any = None,
        rerank: Any = None,
        corrective: Corrective | None = None,
        on_result: Callable[[Result], Any] | None = None,
        evidence_key: str | None = None,
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
        self._by_name: Mapping[str, RetrieverSource] = {
            name: RetrieverSource(name, _with_nodes(spec)) for name, spec in specs.items()
        }
        for source in self._by_name.values():
            source.borrow(self._by_name)
        self._engine = FusionEngine.of(
            {name: _unlimited(spec) if self._by_name[name].unordered else spec for name, spec in specs.items()},
            k=_count("similarity_top_k", similarity_top_k) if k is None else _count("k", k),
            weights=weights, accept=accept, selection=selection, group_by=group_by, pipeline=pipeline, fetch_k=fetch_k,
            timeout=timeout, strict=strict, max_query_length=max_query_length,
            access=_access_of([source.retriever for source in self._by_name.values()]),
            route=route, rerank=rerank, corrective=corrective, adapter=LlamaIndexStages(specs),
        )  # fmt: skip
        self._settle_parents(parents, Lookup.of, self._engine.pipeline.group_by)
        self._callback = ResultCallback(on_result)
        self._evidence_key = check_key("evidence_key", evidence_key)
        self._required_filter_key = check_required_key(required_filter_key)
        self._filters: MetadataFilters | None = None
        self._whole = self._by_name
        self._narrowed_at: Any = None
        self._bound(QueryBundle("-"), answers=False)
        warn_of_limits({name: self._by_name[name].whole for name in self._engine.asked})
        if filters is not None:
            made = self.within(filters)
            self._by_name, self._filters = made._by_name, made._filters

    @classmethod
    @known_arguments
    def from_nodes(
        cls,
        nodes: Iterable[BaseNode],
        embed_model: BaseEmbedding | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        vector_store: str = "flat",
        triples: phasegraph.graph.Triples | None = None,
        known_names: Iterable[str] = (),
        tokenizer: Any = "english",
        title_key: str = "title",
        source_key: str | None = None,
        progress: bool = True,
        embed_clauses: bool = False,
        **fields: Any,
    ) -> Self:
        """Build vectors, an entity graph and a word index from nodes, and return a retriever that fuses the three.

        Parameters
        ----------
        nodes : iterable of BaseNode
            The nodes; each node is a passage of the corpus. Nodes without text are left out, with a warning.
        embed_model : BaseEmbedding, optional
            The model that embeds each query. It also embeds every node without an embedding, once. Default:
            ``Settings.embed_model``, if you set it.
        path : path, optional
            A new or empty folder, which stores the graph, the word index and the vectors in memory-mapped files.
            :meth:`load` opens the folder again. Without `path`, everything stays in memory.
            If the index would not fit in the free memory and pyarrow is installed (``phasegraph[distributed]``), the
            index of the folder is built in shards, with the same result to the bit.
        vector_store : {"flat", "chroma"}, default "flat"
            With `path`: the index that searches the vectors. ``"flat"`` compares the query with every vector.
            ``"chroma"`` adds an approximate index, and needs ``phasegraph[chroma]``.
        triples, known_names, tokenizer, title_key, source_key
            See :meth:`EntityGraphRetriever.from_nodes`.
        progress : bool, default True
            Show progress bars for many nodes, if standard error is a terminal.
        embed_clauses : bool, default False
            If a question has two or more clauses, also embed each clause and compare it with the passages.
        **fields
            Other arguments of the retriever. `retrievers` adds sources to ``vector``, ``graph`` and ``bm25``.

        Raises
        ------
        InvalidInputError
            If `nodes` is empty, no node has a text, an id repeats, or the folder `path` is not empty.
        MissingDependencyError
            If `vector_store` is ``"chroma"`` and Chroma is not installed.

        Examples
        --------
        >>> from llama_index.core import MockEmbedding
        >>> from llama_index.core.schema import TextNode
        >>> nodes = [TextNode(text="Ada met Bo.", id_="a"), TextNode(text="Cy sang.", id_="b")]
        >>> retriever = CalibratedFusionRetriever.from_nodes(nodes, MockEmbedding(embed_dim=8))
        >>> retriever.add_nodes([TextNode(text="Bo danced with Cy.", id_="c")])
        ['c']
        >>> retriever.delete(["b"])
        1
        >>> sorted(hit.node_id for hit in retriever.retrieve("Who met Bo?"))
        ['a', 'c']
        """
        how = Indexing(triples, known_names, tokenizer, title_key, source_key, progress)
        tried = {**fields, "filters": None}
        return cls._of_passages(
            nodes, given_or_settings(embed_model), how, path, {**fields, "embed_clauses": embed_clauses}, tried,
            vector_store=vector_store,
        )  # fmt: skip

    @classmethod
    @known_arguments
    def load(
        cls,
        path: str | os.PathLike[str],
        embed_model: BaseEmbedding | None = None,
        *,
        reembed: bool = False,
        vector_store: str | None = None,
        embed_clauses: bool = False,
        **fields: Any,
    ) -> Self:
        """Open a folder that :meth:`from_nodes` wrote, with all later changes.

        Parameters
        ----------
        path : path
            The folder.
        embed_model : BaseEmbedding, optional
            The model that embedded the nodes. Default: ``Settings.embed_model``, if you set it.
        reembed : bool, default False
            Embed every node again with `embed_model`, as :meth:`reembed` does.
        vector_store : {"flat", "chroma"}, optional
            Move the vectors to this index; see :meth:`from_nodes`. By default, the vectors stay in their present index.
        embed_clauses : bool, default False
            If a question has two or more clauses, also embed each clause and compare it with the passages.
        **fields
            Other arguments of the retriever. If the folder contains a pipeline from :meth:`save`, the retriever uses
            the pipeline unless you pass `pipeline`, `weights`, `accept` or `selection`.

        Raises
        ------
        IntegrityError
            If the folder is damaged, was not written by phasegraph, or was written by a newer version.
        InvalidInputError
            If the folder was written for another framework, without vectors, or with another model. To check the model,
            `embed_model` embeds three nodes again.
        """
        return cls._loaded(
            path, given_or_settings(embed_model), {**fields, "embed_clauses": embed_clauses}, reembed=reembed,
            vector_store=vector_store,
        )  # fmt: skip

    @classmethod
    @known_arguments
    def from_index(
        cls,
        index: VectorStoreIndex,
        *,
        triples: phasegraph.graph.Triples | None = None,
        known_names: Iterable[str] = (),
        tokenizer: Any = "english",
        title_key: str = "title",
        source_key: str | None = None,
        progress: bool = True,
        embed_clauses: bool = False,
        **fields: Any,
    ) -> Self:
        """Build a graph and a word index from the nodes of a vector index, and search the vectors in the index.

        Parameters
        ----------
        index : VectorStoreIndex
            Its nodes are read once, from the docstore or from a vector store with texts. Other nodes in the docstore,
            such as the parents of an auto-merging index, are not read. Index nodes with an object are left to the
            index's own retriever. :meth:`add_nodes` and :meth:`delete` also change the index. The index embeds the
            nodes that you add later.
        triples, known_names, tokenizer, title_key, source_key, progress, embed_clauses, **fields
            See :meth:`from_nodes`. To save the graph, call ``retriever.graph.save(folder)``. To open it again, pass
            ``EntityGraphRetriever.load(folder, embed_model)`` as `graph` and the index as `vector` to the constructor.
            This retriever has no source ``bm25``, and its nodes cannot be changed.

        Raises
        ------
        InvalidInputError
            If the index has no node, or if another model than its own embedded its nodes. To compare them, the index's
            model embeds three nodes again, if the vectors can be read.
        """
        if not isinstance(index, VectorStoreIndex):
            raise InvalidTypeError(f"index must be a VectorStoreIndex; got {type(index).__name__}")
        held, vectors = contents_of(index)
        how = Indexing(triples, known_names, tokenizer, title_key, source_key, progress)
        embed_model, store = index._embed_model, IndexVectors(index)
        corpus = build_corpus(NODES, held, embed_model, how, vectors=vectors, store=store)
        corpus.check_model()
        return cls._over(corpus, embed_model, {**fields, "embed_clauses": embed_clauses}, index)

    @classmethod
    def _graph_retriever(cls, source: Any, hits: Any, model: Any, name: str) -> EntityGraphRetriever:
        return EntityGraphRetriever(source, hits, embed_model=model)

    def _remodelled(self, model: BaseEmbedding) -> None:
        retrievers = [source.retriever for source in self._whole.values()]
        for one in retrievers:
            if isinstance(one, EntityGraphRetriever) and one.corpus is self._corpus and one._embed_model is not None:
                one._remodelled(model)
        self._engine = replace(self._engine, access=_access_of(retrievers))

    @property
    def graph(self) -> Any:
        """The source named ``graph``; None if there is no such source."""
        source = self._whole.get("graph")
        return None if source is None else source.whole

    @property
    def similarity_top_k(self) -> int:
        """The number of nodes to return."""
        return self._engine.pipeline.k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        self._engine = self._engine.with_k(check_count("similarity_top_k", value))

    k = similarity_top_k

    @in_the_bases_span
    def retrieve(
        self, str_or_query_bundle: QueryType, *, filters: MetadataFilters | None = None
    ) -> list[NodeWithScore]:
        """Return the nodes for a query, best first; `filters` apply in addition to the retriever's own filters."""
        bundle, asked = checked_query(str_or_query_bundle), self._narrowed(filters)
        return super(CalibratedFusionRetriever, asked).retrieve(bundle)

    @in_the_bases_span
    async def aretrieve(
        self, str_or_query_bundle: QueryType, *, filters: MetadataFilters | None = None
    ) -> list[NodeWithScore]:
        """Run :meth:`retrieve` asynchronously."""
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
        """Return the complete result of a query: scores, contributions, candidates and a report per source.

        Parameters
        ----------
        query : str or QueryBundle
            The query; it must not be blank.
        k : int, optional
            Number of results; by default, `similarity_top_k`.
        filters : MetadataFilters, optional
            Additional filters; the retriever's own filters still apply.

        Returns
        -------
        Result
            ``result.evidence(id)`` explains the position of a node.
        """
        bundle = checked_query(query)
        sources = self._narrowed(filters)._bound(bundle)
        return self._engine.retrieve(bundle.query_str, sources, k=self._wanted(k), read=True)[0]

    async def aexplain(
        self, query: QueryType, k: int | None = None, *, filters: MetadataFilters | None = None
    ) -> Result:
        """Run :meth:`explain` asynchronously."""
        bundle = checked_query(query)
        sources = self._narrowed(filters)._bound(bundle)
        return (await self._engine.aretrieve(bundle.query_str, sources, k=self._wanted(k), read=True))[0]

    def inspect(self, query: QueryType, k: int | None = None, *, filters: MetadataFilters | None = None) -> Inspection:
        """Return the complete result as a notebook page that shows every source's list and how the lists were fused.

        Parameters
        ----------
        query, k, filters
            See :meth:`explain`.

        Returns
        -------
        Inspection
            Its ``result`` is the :class:`Result`; its ``everything`` lists all candidates with calibrated values and
            contributions.
        """
        bundle = checked_query(query)
        return self._engine.inspect(bundle.query_str, self.explain(bundle, k, filters=filters))

    async def ainspect(
        self, query: QueryType, k: int | None = None, *, filters: MetadataFilters | None = None
    ) -> Inspection:
        """Run :meth:`inspect` asynchronously."""
        bundle = checked_query(query)
        return self._engine.inspect(bundle.query_str, await self.aexplain(bundle, k, filters=filters))

    def within(self, filters: MetadataFilters) -> Self:
        """Return a retriever that finds only matching nodes; the filters apply to every source and to the graph walk.

        The new retriever shares the calibrators, score directions and circuit breakers with this retriever. Sources
        also apply their own filters. Raise InvalidInputError if a source, such as the retriever of a property graph,
        cannot apply the filters: its hits could include nodes that the caller must not see.
        """
        checked = check_filters(filters)
        made = copy.copy(self)
        index = None if self._corpus is None else self._corpus.index  # read first: a thread may change passages
        made._by_name = {name: source.within(checked) for name, source in self._now.items()}
        made._filters, made._narrowed_at = joined(self._filters, checked), index
        return made

    @property
    def _now(self) -> Mapping[str, RetrieverSource]:
        """The retriever's sources by name, restricted to its filters.

        After nodes were added or deleted, the restriction is computed again.
        """
        if self._filters is not None and self._corpus is not None and self._corpus.index is not self._narrowed_at:
            index = self._corpus.index
            self._by_name = {name: source.within(self._filters) for name, source in self._whole.items()}
            self._narrowed_at = index
        return self._by_name

    def whole_filters(self) -> MetadataFilters | None:
        """Return the retriever's filters, combined with its sources' own filters; None if there are no filters."""
        return joined(self._filters, *(source.own_filters() for source in self._by_name.values()))

    def _searched_retrievers(self) -> Sequence[object]:
        """Return the retrievers of the sources that are asked."""
        return [self._whole[name].whole for name in self._engine.asked]

    def _narrowed(self, filters: MetadataFilters | None) -> Self:
        return self if filters is None else self.within(filters)

    def _shown_arguments(self) -> Mapping[str, object]:
        return {"similarity_top_k": self.similarity_top_k, **{name: one.shown for name, one in self._by_name.items()}}

    def _nodes(self, result: Result, hits: list[SelectedHit]) -> list[NodeWithScore]:
        """Return the nodes of a result.

        If the caller is another phasegraph retriever, also put the evidence into the :class:`Exchange`.
        """
        hits = self._with_parents(hits, self.whole_filters)
        if self.exchange is None:
            return nodes_of(result, hits, self._evidence_key)
        nodes = nodes_of(result, hits, None)
        if self._evidence_key is not None:
            blocks = zip(nodes, evidence_blocks(result, hits), strict=True)
            self.exchange.evidence = {hit.node.node_id: block for hit, block in blocks}
        return nodes

    def _bound(self, bundle: QueryBundle, *, answers: bool = True) -> Sources:
        sources = self._now
        if answers and self._required_filter_key is not None:
            check_required(self._required_filter_key, self.whole_filters())
        several = sources.items() if len(sources) > 1 else ()
        own = {name: found for name, one in several if (found := one.own_filters()) is not None}
        if not own:
            return {name: sources[name].bind(bundle) for name in self._engine.asked}
        return {name: self._within_others(name, own).bind(bundle) for name in self._engine.asked}

    def _within_others(self, name: str, own: Mapping[str, MetadataFilters]) -> RetrieverSource:
        """Restrict the source `name` to the other sources' filters; raise InvalidInputError if it cannot apply them.

        `own` contains the filters of the sources that have their own filters, by the name of the source.
        """
        others = [one for other, one in own.items() if other != name]
        try:
            check_agree(*own.values())
            wanted = joined(*others)
            return self._by_name[name] if wanted is None else self._by_name[name].within(wanted)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"the sources' own filters ({', '.join(sorted(own))}) must apply to every source, but a source cannot "
                f"apply them: {error}"
            ) from error

    def _sources(self, query: str) -> Sources:
        return self._bound(checked_query(query), answers=False)

    def _wanted(self, k: int | None) -> int | None:
        if self.exchange is not None:
            return self.exchange.limit
        self._engine.warned_of_k(_count("k", k))
        return k


def _count(name: str, value: int | None) -> int | None:
    return None if value is None else check_count(name, value)


def _unlimited(spec: SourceSpec) -> SourceSpec:
    """Remove the default limit on hits from a source whose hits have no order; the limit would drop arbitrary hits.

    A limit that the caller set stays.
    """
    return replace(spec, fetch_k=None) if spec.fetch_k == "default" else spec


def _with_nodes(spec: SourceSpec) -> SourceSpec:
    """Wrap a source that returns summaries; the wrapper returns nodes. Other sources are returned unchanged."""
    given: Any = adapted(spec.retriever)
    return (
        replace(spec, retriever=EntityGraphRetriever(given)) if getattr(given, "resolve", None) == "summaries" else spec
    )


def _access_of(retrievers: Sequence[object]) -> HitAccess:
    """Return the functions with which the core reads nodes.

    The embedding model and the corpus are the first that a retriever in `retrievers` has.
    """
    corpora = (one.corpus for one in retrievers if isinstance(one, EntityGraphRetriever))
    return replace(access_of(retrievers), corpus=next((one for one in corpora if one is not None), None))
