"""The LlamaIndex retriever: it searches every source, fuses the rankings, and returns the sources' own nodes."""

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

import phasegraph  # its room graph is loaded when it is first named: it brings scipy.sparse
from llama_index.retrievers.phasegraph.conversion import Lookup, access_of, check_key, nodes_of
from llama_index.retrievers.phasegraph.corpus import (
    NODES,
    IndexVectors,
    KeptNodes,
    contents_of,
)
from llama_index.retrievers.phasegraph.entity_graph import EntityGraphRetriever
from llama_index.retrievers.phasegraph.filters import (
    check_agree,
    check_filters,
    check_required,
    check_required_key,
    joined,
)
from llama_index.retrievers.phasegraph.retriever_sources import OwnRetriever, RetrieverSource
from llama_index.retrievers.phasegraph.stages import LlamaIndexStages
from phasegraph import FusionPipeline, GroupBy, Inspection, InvalidInputError, InvalidTypeError, Result
from phasegraph.retrieval import (
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
    """Mark a method that only validates and delegates, so that tracing creates no second span for it."""
    setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
    return method


def checked_query(query: object) -> QueryBundle:
    """Convert a query to a bundle whose text is not blank."""
    if isinstance(query, QueryBundle):
        check_query(query.query_str)
        return query
    return QueryBundle(check_query(query))


class CalibratedFusionRetriever(KeptNodes, FusedPassages, Calibrating, OwnRetriever):
    """Fuse any number of LlamaIndex retrievers by calibrated scores.

    Parameters
    ----------
    vector, graph : retriever, index, query engine, callable or SourceSpec, optional
        The sources with these names.
    retrievers : mapping of str to the same, or a list of them, optional
        Further sources, by name or as ``source_1``, ``source_2`` and so on; each source is a retriever or a
        :class:`SourceSpec` with its own weight, fetch_k, timeout, fields and execution.
    similarity_top_k : int, optional
        Number of nodes to return, >= 0. The number changes neither scores nor order. Default: the pipeline's, 10.
    k : int, optional
        A shorter name of `similarity_top_k`.
    weights : mapping of str to float, or a list beside a list of retrievers, optional
        >= 0, not all 0; in place of ``SourceSpec.weight``. Default: per query, by agreement and by how sharply the
        graph points, where it states its background; else equal.
    accept : mapping of str to threshold, AcceptancePolicy or Confidence, optional
        By source, on its own scores; nodes below are not returned. ``Confidence(min=.2)``: no node where it is too
        doubtful that the corpus holds an answer. Default: all are accepted.
    selection : SelectionPolicy or str, optional
        Which k go together, for example ``"mmr"``; default the k best. Redundancy is weighed by the embeddings that
        the nodes carry, else of the model that the first source embeds with.
    group_by : str or GroupBy, optional
        Metadata key of a document's name, for example ``"file_path"`` or ``"ref_doc_id"``: the nodes of one document
        count once, and `k` counts documents. ``GroupBy("file_path", "sum")`` adds their values. Default: every node
        counts.
    parents : True, mapping, docstore or callable, optional
        With `group_by`: return the text of the whole document in place of its best node. True joins the nodes of a
        retriever that was made of nodes; a mapping by name, a docstore or ``parents(names)`` gives the documents.
        Filters also hold for them.
    filters : MetadataFilters, optional
        What every node must match; also a keyword of ``retrieve``, ``aretrieve`` and ``explain``, which narrow it
        further. They reach every source, the walk of a graph included; InvalidInputError where a source cannot keep
        them. To ask often within the same filters, keep what :meth:`within` returns. Filters that a source has already
        (``index.as_retriever(filters=...)``) reach the others, too, or the retriever cannot be made.
    required_filter_key : str, optional
        Metadata key of which every call must say the value, by any of these filters (equal, or one of a list): one
        that does not fails.
    fetch_k : int or None, default 50
        Hits asked of each source, in place of its own ``similarity_top_k``; None leaves it alone.
    timeout : float or None, default 10.0
        Seconds for the whole call, `on_result` and the making of the answer's copies apart: what is late by then
        (sources, priors, correction, selection) is left out, reported and warned about.
    max_query_length : int or None, default 20000
        Characters of the longest query, >= 1; a longer one is an InvalidInputError. None: of any length.
    strict : bool, default False
        Turn any degradation, and calibration by list alone, into ``DegradedError``.
    pipeline : FusionPipeline or path, optional
        How to fuse; a path to a file that :meth:`save` wrote. Not beside `weights`, `accept` or `selection`, which it
        has itself.
    route : callable, selector or language model, optional
        ``route(query)``, or ``route(query, ranking)`` with the first source's ranking (``vector``, else the first by
        name), gives the sources to ask: a name, names, or weights by name. Default: all. Where it fails, all are asked.
    rerank : Rerank, postprocessor or callable, optional
        A model that reads the best fused nodes beside the query; a bare one decides the order of the best 30.
    corrective : Corrective, optional
        Grade the answer, and ask once more with another query where it is poor.
    on_result : callable, optional
        Called with the core's ``Result`` of every query; a coroutine function is awaited in asynchronous calls.
        Its time is not part of `timeout`.
    evidence_key : str, optional
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
        fetch_k: int | None = 50,
        timeout: float | None = 10.0,
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
        self._by_name = {name: RetrieverSource(name, _with_nodes(spec)) for name, spec in specs.items()}
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
        if filters is not None:
            made = self.within(filters)
            self._by_name, self._filters = made._by_name, made._filters

    @classmethod
    @known_arguments
    def from_nodes(
        cls,
        nodes: Iterable[BaseNode],
        embed_model: BaseEmbedding,
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
        """Build vectors, an entity graph and a word index from nodes, and a retriever that fuses the three.

        Parameters
        ----------
        nodes : iterable of BaseNode
        embed_model : BaseEmbedding
            Embeds each query, and once every node that has no embedding.
        path : path, optional
            A new or empty folder for the graph, the words and the vectors, in memory-mapped files. :meth:`load` opens
            it again. Without `path`, everything stays in memory.
        vector_store : {"flat", "chroma"}, default "flat"
            With `path`: the index that searches the vectors. ``"flat"`` compares all vectors of the index, in
            memory-mapped files. ``"chroma"`` adds an approximate index (``phasegraph[chroma]``).
        triples, known_names, tokenizer, title_key, source_key
            See :meth:`EntityGraphRetriever.from_nodes`.
        progress : bool, default True
            Show bars for many nodes, where standard error is a terminal.
        embed_clauses : bool, default False
            Also compare the passages with each clause of a question that has two clauses or more. The retriever then
            embeds each clause of such a question, beside the question.
        **fields
            The other arguments of the retriever; `retrievers` beside ``bm25``.

        Raises
        ------
        InvalidInputError
            If there is no node, one has no text, an id repeats, or `path` holds files.
        MissingDependencyError
            If Chroma is wanted and not installed.

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
            nodes, embed_model, how, path, {**fields, "embed_clauses": embed_clauses}, tried, vector_store=vector_store
        )

    @classmethod
    @known_arguments
    def load(
        cls,
        path: str | os.PathLike[str],
        embed_model: BaseEmbedding,
        *,
        reembed: bool = False,
        vector_store: str | None = None,
        embed_clauses: bool = False,
        **fields: Any,
    ) -> Self:
        """Open a folder that :meth:`from_nodes` made, with all later changes.

        Parameters
        ----------
        path : path
        embed_model : BaseEmbedding
            The model that embedded the nodes.
        reembed : bool, default False
            Embed every node again with `embed_model`, as :meth:`reembed` does.
        vector_store : {"flat", "chroma"}, optional
            Move the vectors to this index; see :meth:`from_nodes`. By default, the vectors stay in their present index.
        embed_clauses : bool, default False
            Also compare the passages with each clause of a question that has two clauses or more. The retriever then
            embeds each clause of such a question, beside the question.
        **fields
            The other arguments of the retriever. If the folder contains a pipeline from :meth:`save`, the retriever
            uses it unless you pass `pipeline`, `weights`, `accept` or `selection`.

        Raises
        ------
        IntegrityError
            If the folder is damaged, foreign or newer.
        InvalidInputError
            If it was made for another framework, without vectors, or with another model: `embed_model` embeds three of
            the nodes again to see that.
        """
        return cls._loaded(
            path, embed_model, {**fields, "embed_clauses": embed_clauses}, reembed=reembed, vector_store=vector_store
        )

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
        """Build the graph and the word index from the nodes of a vector index, and use the index for the vectors.

        Parameters
        ----------
        index : VectorStoreIndex
            Nodes are read once from the docstore, or from a vector store that holds texts; no node is embedded again.
            :meth:`add_nodes` and :meth:`delete` also change the index. The index itself embeds new nodes.
        triples, known_names, tokenizer, title_key, source_key, progress, embed_clauses, **fields
            See :meth:`from_nodes`. To save the graph, call ``retriever.graph.save(folder)``. To open it again, pass
            ``EntityGraphRetriever.load(folder)`` and the index to the constructor.

        Raises
        ------
        InvalidInputError
            If the index holds no node.
        """
        if not isinstance(index, VectorStoreIndex):
            raise InvalidTypeError(f"index must be a VectorStoreIndex; got {type(index).__name__}")
        held, vectors = contents_of(index)
        how = Indexing(triples, known_names, tokenizer, title_key, source_key, progress)
        embed_model, store = index._embed_model, IndexVectors(index)
        corpus = build_corpus(NODES, held, embed_model, how, vectors=vectors, store=store)
        return cls._over(corpus, embed_model, {**fields, "embed_clauses": embed_clauses}, index)

    @classmethod
    def _graph_retriever(cls, source: Any, hits: Any, model: Any, name: str) -> EntityGraphRetriever:
        return EntityGraphRetriever(source, hits, embed_model=model)

    def _remodelled(self, model: BaseEmbedding) -> None:
        retrievers = [source.retriever for source in self._whole.values()]
        for one in retrievers:
            if isinstance(one, EntityGraphRetriever) and one.corpus is self._corpus:
                one._remodelled(model)
        self._engine = replace(self._engine, access=_access_of(retrievers))

    @property
    def graph(self) -> Any:
        """The source named ``graph``; None if there is no such source."""
        source = self._whole.get("graph")
        return None if source is None else source.whole

    @property
    def similarity_top_k(self) -> int:
        """Number of nodes to return."""
        return self._engine.pipeline.k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        self._engine = self._engine.with_k(check_count("similarity_top_k", value))

    k = similarity_top_k

    @in_the_bases_span
    def retrieve(
        self, str_or_query_bundle: QueryType, *, filters: MetadataFilters | None = None
    ) -> list[NodeWithScore]:
        """Return the nodes for a query, best first; `filters` apply together with the retriever's own filters."""
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
        """Return the whole answer to a query: scores, contributions, candidates and a report per source.

        Parameters
        ----------
        query : str or QueryBundle
            Not blank.
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
        """Return the whole answer as a notebook page: the list of every source, and how the lists were fused.

        Parameters
        ----------
        query, k, filters
            See :meth:`explain`.

        Returns
        -------
        Inspection
            Contains ``result``, and ``everything``: all candidates with calibrated values and contributions.
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
        """Restrict the retriever to nodes that match; the filters apply to every source, including the walk of a graph.

        The new retriever shares calibrators, directions and breakers. Sources keep their own filters. InvalidInputError
        if a source cannot apply the filters, such as a property graph's retriever; a wrong answer could show nodes that
        the caller must not see.
        """
        checked = check_filters(filters)
        made = copy.copy(self)
        index = None if self._corpus is None else self._corpus.index  # before: passages may come and go meanwhile
        made._by_name = {name: source.within(checked) for name, source in self._now.items()}
        made._filters, made._narrowed_at = joined(self._filters, checked), index
        return made

    @property
    def _now(self) -> Mapping[str, RetrieverSource]:
        """Return the sources, and restrict them again if nodes were added or deleted."""
        if self._filters is not None and self._corpus is not None and self._corpus.index is not self._narrowed_at:
            index = self._corpus.index
            self._by_name = {name: source.within(self._filters) for name, source in self._whole.items()}
            self._narrowed_at = index
        return self._by_name

    def whole_filters(self) -> MetadataFilters | None:
        """Return the filters that every node must match, combined from the retriever and its sources."""
        return joined(self._filters, *(source.own_filters() for source in self._by_name.values()))

    def _narrowed(self, filters: MetadataFilters | None) -> Self:
        return self if filters is None else self.within(filters)

    def _told(self) -> Mapping[str, object]:
        return {"similarity_top_k": self.similarity_top_k, **{name: one.shown for name, one in self._by_name.items()}}

    def _nodes(self, result: Result, hits: list[SelectedHit]) -> list[NodeWithScore]:
        """Return the nodes; another phasegraph retriever gets the evidence in the exchange."""
        hits = self._with_parents(hits, self.whole_filters())
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
        own = {name: found for name, one in sources.items() if (found := one.own_filters()) is not None}
        if not own or len(sources) < 2:
            return {name: sources[name].bind(bundle) for name in self._engine.asked}
        return {name: self._within_others(name, own).bind(bundle) for name in self._engine.asked}

    def _within_others(self, name: str, own: Mapping[str, MetadataFilters]) -> RetrieverSource:
        """Restrict a source to the filters of the other sources; InvalidInputError if it cannot apply them."""
        others = [one for other, one in own.items() if other != name]
        try:
            check_agree(*own.values())
            wanted = joined(*others)
            return self._by_name[name] if wanted is None else self._by_name[name].within(wanted)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"filters that sources have already ({', '.join(sorted(own))}) must reach every source: {error}"
            ) from error

    def _sources(self, query: str) -> Sources:
        return self._bound(checked_query(query), answers=False)

    def _wanted(self, k: int | None) -> int | None:
        return _count("k", k) if self.exchange is None else self.exchange.limit


def _count(name: str, value: int | None) -> int | None:
    return None if value is None else check_count(name, value)


def _unlimited(spec: SourceSpec) -> SourceSpec:
    """Return the source without a limit unless the caller set one, because unordered hits have no best part."""
    return replace(spec, fetch_k=None) if spec.fetch_k == "default" else spec


def _with_nodes(spec: SourceSpec) -> SourceSpec:
    """Wrap a source that answers with summaries so that it returns nodes; return other sources unchanged."""
    given: Any = adapted(spec.retriever)
    return (
        replace(spec, retriever=EntityGraphRetriever(given)) if getattr(given, "resolve", None) == "summaries" else spec
    )


def _access_of(retrievers: Sequence[object]) -> HitAccess:
    """Describe how the core reads nodes, including the first embedding model and the first corpus of the retrievers."""
    corpora = (one.corpus for one in retrievers if isinstance(one, EntityGraphRetriever))
    return replace(access_of(retrievers), corpus=next((one for one in corpora if one is not None), None))
