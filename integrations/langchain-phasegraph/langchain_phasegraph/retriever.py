"""The LangChain retriever: it searches every source, fuses the rankings, and returns the sources' own documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.vectorstores import VectorStore
from pydantic import Field, PrivateAttr

import phasegraph  # its room graph is loaded when it is first named: it brings scipy.sparse
from langchain_phasegraph.base import (
    CheckedRetriever,
    Count,
    Key,
    atold_within,
    config_of,
    configured,
    told_within,
)
from langchain_phasegraph.conversion import ACCESS, ScoredDocuments, documents_of, metadata_of, text_of
from langchain_phasegraph.corpus import (
    DOCUMENTS,
    KeptDocuments,
    StoreVectors,
    contents_of,
)
from langchain_phasegraph.entity_graph import EntityGraphRetriever, Lookup
from langchain_phasegraph.filters import Wanted, check_filter, check_required, filter_of, joined, with_filter
from langchain_phasegraph.sources import RetrieverSource
from langchain_phasegraph.stages import LangChainStages, inherited
from phasegraph import Inspection, InvalidInputError, Result
from phasegraph.retrieval import (
    LONGEST_QUERY,
    Calibrating,
    FusedPassages,
    FusionEngine,
    HitAccess,
    Indexing,
    ResultCallback,
    SelectedHit,
    Sources,
    SourceSpec,
    Upstream,
    as_specs,
    build_corpus,
    check_count,
    evidence_blocks,
    known_arguments,
)

if TYPE_CHECKING:
    import phasegraph.graph

_INNER = ("bound", "runnable", "base_retriever", "retriever", "vector", "graph")
_DEEPEST = 8
_SHOWN = frozenset(
    {"k", "score_key", "evidence_key", "on_result", "filter", "required_filter_key", "name", "tags", "metadata"}
)
"""Fields whose change leaves the engine and the sources as they are."""


class PhaseGraphRetriever(KeptDocuments, FusedPassages, Calibrating, CheckedRetriever):
    """Fuse any number of LangChain retrievers by calibrated scores.

    Parameters
    ----------
    vector, graph : retriever, vector store, runnable, callable or SourceSpec, optional
        The sources with these names.
    retrievers : mapping of str to the same, or a list of them, optional
        Further sources, by name or as ``source_1``, ``source_2`` and so on; each source is a retriever or a
        :class:`SourceSpec` with its own weight, fetch_k, timeout, fields and execution.
    k : int, optional
        Number of documents to return, >= 0; also a keyword argument of ``invoke``. The number changes neither scores
        nor order. Default: the pipeline's, 10.
    weights : mapping of str to float, or a list beside a list of retrievers, optional
        >= 0, not all 0; in place of ``SourceSpec.weight``. Default: per query, by agreement and by how sharply the
        graph points, where it states its background; else equal.
    accept : mapping of str to threshold, AcceptancePolicy or Confidence, optional
        By source, on its own scores; documents below are not returned. ``Confidence(min=.2)``: no document where it is
        too doubtful that the corpus holds an answer. Default: all are accepted.
    selection : SelectionPolicy or str, optional
        Which k go together, for example ``"mmr"``; default the k best. Redundancy is weighed by embeddings of the
        model that the vector store embeds with.
    group_by : str or GroupBy, optional
        Metadata key of a document's name, for example ``"source"``: the passages of one document count once, and `k`
        counts documents. ``GroupBy("source", "sum")`` adds their values. Default: every passage counts.
    parents : True, mapping, docstore or callable, optional
        With `group_by`: return the text of the whole document in place of its best passage. True joins the passages of
        a retriever that was made of documents; a mapping by name, a docstore (``mget``) or ``parents(names)`` gives the
        documents. A filter also holds for them.
    filter : mapping of str to value, optional
        Metadata that every document must have: values, or ``{"year": {"$gte": 2000}}`` with ``$eq``, ``$ne``,
        ``$gt``, ``$gte``, ``$lt``, ``$lte``, ``$in`` and ``$nin``; ``$and`` and ``$or`` with lists of filters. Also a
        keyword of ``invoke`` and ``phasegraph_filter`` under ``configurable``, which narrow it further;
        the latter also from the run around a call that has no configuration. It reaches every source, the walk of a
        graph included, and what ``HitFields.resolve`` brings back; where a source cannot keep it the call fails. A
        filter that a source has already (``search_kwargs``) reaches the others, too, or the retriever cannot be made.
    required_filter_key : str, optional
        Metadata key of which every call must say the value, by any of these filters: one that does not fails. Not all
        of LangChain's own retrievers hand on what is ``configurable``.
    fetch_k : int or None, default 50
        Hits asked of each source, in place of its own ``k``; None leaves it alone.
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
    route : callable, runnable or language model, optional
        ``route(query)``, or ``route(query, ranking)`` with the first source's ranking (``vector``, else the first by
        name), gives the sources to ask: a name, names, or weights by name. Default: all. Where it fails, all are asked.
    rerank : Rerank, cross-encoder, compressor or callable, optional
        A model that reads the best fused documents beside the query; a bare one decides the order of the best 30.
    corrective : Corrective, optional
        Grade the answer, and ask once more with another query where it is poor.
    on_result : callable, optional
        Called with the core's ``Result`` of every query; a coroutine function is awaited in asynchronous calls.
        Its time is not part of `timeout`.
    score_key : str, optional
        Metadata key for the published score, in [0, 1]; a key that the document already has is kept. The same
        document of two queries is then not equal to itself: leave it out within retrievers that compare documents.
    evidence_key : str, optional
        Metadata key for the evidence: per source rank, raw score, calibrated value, weight and contribution.
        :meth:`explain` always has it.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is unknown or outside what is said above; the message names it.

    Examples
    --------
    >>> from langchain_core.documents import Document
    >>> def bm25(query):
    ...     return [
    ...         (Document("Paris", id="p"), 7.1),
    ...         (Document("Rome", id="r"), 6.0),
    ...         (Document("Oslo", id="o"), 1.0),
    ...     ]
    >>> retriever = PhaseGraphRetriever(retrievers={"bm25": bm25}, k=2)
    >>> [document.id for document in retriever.invoke("Which city?")]
    ['p', 'r']
    """

    vector: Any = None
    graph: Any = None
    retrievers: Any = None
    k: Count | None = None
    weights: Any = None
    accept: Any = None
    selection: Any = None
    group_by: Any = None
    parents: Any = None
    filter: Mapping[str, Any] | None = None
    required_filter_key: Key | None = None
    fetch_k: Any = 50
    timeout: Any = 10.0
    max_query_length: Any = LONGEST_QUERY
    strict: bool = Field(default=False, strict=True)
    pipeline: Any = None
    route: Any = None
    rerank: Any = None
    corrective: Any = None
    on_result: Callable[[Result], Any] | None = None
    score_key: str | None = None
    evidence_key: str | None = None

    _engine: FusionEngine = PrivateAttr()
    _corpus: Any = PrivateAttr(default=None)
    _embeds: Any = PrivateAttr(default=None)
    _parents: Any = PrivateAttr(default=None)
    _by_name: dict[str, RetrieverSource] = PrivateAttr()
    _callback: ResultCallback = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Validate the combination of arguments, and create the sources and the engine."""
        specs = as_specs(self.vector, self.graph, self.retrievers)
        self._by_name = {name: RetrieverSource(name, spec) for name, spec in specs.items()}
        for source in self._by_name.values():
            source.borrow(self._by_name)
        self._engine = FusionEngine.of(
            specs, k=self.k, weights=self.weights, accept=self.accept, selection=self.selection,
            group_by=self.group_by, pipeline=self.pipeline, fetch_k=self.fetch_k, timeout=self.timeout,
            strict=self.strict, max_query_length=self.max_query_length, access=access_of(self._by_name),
            route=self.route,
            rerank=self.rerank, corrective=self.corrective, adapter=LangChainStages(specs),
        )  # fmt: skip
        self._settle_parents(self.parents, Lookup.of, self._engine.pipeline.group_by)
        self._callback = ResultCallback(self.on_result)
        own = self._own_filters()
        joined(*own.values())
        for name, wanted in own.items():
            for other in self._by_name.keys() - {name}:
                self._by_name[other].check_keeps(wanted, name)
        check_filter(self.filter)
        import_module("langchain_core.tracers.context")  # LangChain loads it in the first call of any runnable

    def _own_filters(self) -> dict[str, Wanted]:
        """Return the filters that single sources already have and that must also hold for the others."""
        by_name = self._by_name
        if len(by_name) < 2:
            return {}
        return {name: one for name, source in by_name.items() if (one := source.own_filter()) is not None}

    def whole_filter(self) -> Wanted | None:
        """Return the filter that every document must match, combined from the retriever and its sources."""
        found = [one for source in self._by_name.values() if (one := source.own_filter()) is not None]
        return joined(check_filter(self.filter), *found) if found or self.filter is not None else None

    @classmethod
    @known_arguments
    def from_documents(
        cls,
        documents: Iterable[Document],
        embeddings: Embeddings,
        *,
        path: str | os.PathLike[str] | None = None,
        vector_store: str = "flat",
        triples: phasegraph.graph.Triples | None = None,
        known_names: Iterable[str] = (),
        tokenizer: Any = "english",
        title_key: str = "title",
        source_key: str | None = None,
        progress: bool | None = True,
        embed_clauses: bool = False,
        **fields: Any,
    ) -> Self:
        """Build vectors, an entity graph and a word index from documents, and a retriever that fuses the three.

        Parameters
        ----------
        documents : iterable of Document
            A document without an id takes its id from its metadata; if the metadata has no id, the text determines the
            id.
        embeddings : Embeddings
            Embeds every document once, and each query.
        path : path, optional
            A new or empty folder for the graph, the words and the vectors, in memory-mapped files. :meth:`load` opens
            it again. Without `path`, everything stays in memory.
        vector_store : {"flat", "chroma"}, default "flat"
            With `path`: the index that searches the vectors. ``"flat"`` compares all vectors of the index, in
            memory-mapped files. ``"chroma"`` adds an approximate index (``phasegraph[chroma]``).
        triples, known_names, tokenizer, title_key, source_key
            See :meth:`EntityGraphRetriever.from_documents`.
        progress : bool, default True
            Show bars for many documents, where standard error is a terminal and tqdm is installed.
        embed_clauses : bool, default False
            Also compare the passages with each clause of a question that has two clauses or more. The retriever then
            embeds each clause of such a question, beside the question.
        **fields
            The other fields of the retriever; `retriever.retrievers` beside ``bm25``.

        Raises
        ------
        InvalidInputError
            If there is no document, one has no text, an id repeats, or `path` holds files.
        MissingDependencyError
            If Chroma is wanted and not installed.

        Examples
        --------
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> documents = [Document("Ada met Bo.", id="a"), Document("Cy sang.", id="b")]
        >>> retriever = PhaseGraphRetriever.from_documents(documents, DeterministicFakeEmbedding(size=8))
        >>> retriever.add_documents([Document("Bo danced with Cy.", id="c")])
        ['c']
        >>> retriever.delete(["b"])
        1
        >>> sorted(document.id for document in retriever.invoke("Who met Bo?"))
        ['a', 'c']
        """
        how = Indexing(triples, known_names, tokenizer, title_key, source_key, progress)
        return cls._of_passages(
            documents, embeddings, how, path, {**fields, "embed_clauses": embed_clauses}, vector_store=vector_store
        )

    @classmethod
    @known_arguments
    def load(
        cls,
        path: str | os.PathLike[str],
        embeddings: Embeddings,
        *,
        reembed: bool = False,
        vector_store: str | None = None,
        embed_clauses: bool = False,
        **fields: Any,
    ) -> Self:
        """Open a folder that :meth:`from_documents` made, with all later changes.

        Parameters
        ----------
        path : path
        embeddings : Embeddings
            The model that embedded the documents.
        reembed : bool, default False
            Embed every document again with `embeddings`, as :meth:`reembed` does.
        vector_store : {"flat", "chroma"}, optional
            Move the vectors to this index; see :meth:`from_documents`. By default, the vectors stay in their present
            index.
        embed_clauses : bool, default False
            Also compare the passages with each clause of a question that has two clauses or more. The retriever then
            embeds each clause of such a question, beside the question.
        **fields
            The other fields of the retriever. If the folder contains a pipeline from :meth:`save`, the retriever uses
            it unless you pass `pipeline`, `weights`, `accept` or `selection`.

        Raises
        ------
        IntegrityError
            If the folder is damaged, foreign or newer.
        InvalidInputError
            If it was made for another framework, without vectors, or with another model: `embeddings` embeds three of
            the documents again to see that.
        """
        return cls._loaded(
            path, embeddings, {**fields, "embed_clauses": embed_clauses}, reembed=reembed, vector_store=vector_store
        )

    @classmethod
    @known_arguments
    def from_vectorstore(
        cls,
        vectorstore: VectorStore,
        *,
        triples: phasegraph.graph.Triples | None = None,
        known_names: Iterable[str] = (),
        tokenizer: Any = "english",
        title_key: str = "title",
        source_key: str | None = None,
        progress: bool | None = True,
        embed_clauses: bool = False,
        **fields: Any,
    ) -> Self:
        """Build the graph and the word index from the documents of a vector store, and use the store for the vectors.

        Parameters
        ----------
        vectorstore : Chroma, FAISS, InMemoryVectorStore, LanceDB, PGVector or QdrantVectorStore
            Texts, metadata and vectors are read once; nothing is embedded again. :meth:`add_documents` and
            :meth:`delete` also change the store. The store itself embeds new documents.
        triples, known_names, tokenizer, title_key, source_key, progress, embed_clauses, **fields
            See :meth:`from_documents`. To save the graph, call ``retriever.graph.save(folder)``. To open it again, pass
            ``EntityGraphRetriever.load(folder)`` and the store to the constructor.

        Raises
        ------
        InvalidInputError
            If the store is of another class, or empty.
        """
        from phasegraph.graph import check_kind

        check_kind("vectorstore", vectorstore, VectorStore)
        held, vectors = contents_of(vectorstore)
        how = Indexing(triples, known_names, tokenizer, title_key, source_key, progress)
        embeddings, store = vectorstore.embeddings, StoreVectors(vectorstore)
        corpus = build_corpus(DOCUMENTS, held, embeddings, how, vectors=vectors, store=store)
        return cls._over(corpus, embeddings, {**fields, "embed_clauses": embed_clauses}, vectorstore)

    @classmethod
    def _graph_retriever(cls, source: Any, hits: Any, model: Any, name: str) -> EntityGraphRetriever:
        return EntityGraphRetriever(graph=source, documents=hits, embeddings=model, name=name)

    def _remodelled(self, model: Embeddings) -> None:
        for source in self._by_name.values():
            source.follow_model(self._corpus, model)
        self._engine = replace(self._engine, access=access_of(self._by_name))

    def _follow(self, checked: Self, name: str) -> None:
        if any(holds(spec, self) for spec in checked._engine.specs.values()):
            raise InvalidInputError("the retriever contains itself")
        self._callback = checked._callback
        if name == "k":
            self._engine = self._engine.with_k(checked.k)
        elif name not in _SHOWN:
            fitted = self._engine.base
            self._engine, self._by_name = checked._engine, checked._by_name
            if name != "pipeline":
                self._engine = self._engine.with_pipeline(fitted)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        upstream: Upstream | None = None,
        filter: Any = None,  # noqa: A002
    ) -> list[Document]:
        config = config_of(run_manager)
        engine, sources = self._engine, self._bound(config, filter)
        if engine.staged:
            with inherited(config):
                result, hits = engine.retrieve(query, sources, k=self._wanted(k))
        else:
            result, hits = engine.retrieve(query, sources, k=self._wanted(k))
        told_within(self._callback, result, run_manager)
        return self._documents(result, self._with_parents(hits, self._in_force(config, filter)), upstream is not None)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        upstream: Upstream | None = None,
        filter: Any = None,  # noqa: A002
    ) -> list[Document]:
        config = config_of(run_manager)
        engine, sources = self._engine, self._bound(config, filter)
        if engine.staged:
            with inherited(config):
                result, hits = await engine.aretrieve(query, sources, k=self._wanted(k))
        else:
            result, hits = await engine.aretrieve(query, sources, k=self._wanted(k))
        await atold_within(self._callback, result, run_manager)
        return self._documents(result, self._with_parents(hits, self._in_force(config, filter)), upstream is not None)

    def explain(self, query: str, k: int | None = None, *, filter: Any = None) -> Result:  # noqa: A002
        """Return the whole answer to a query: scores, contributions, candidates and a report per source.

        Parameters
        ----------
        query : str
            Not blank.
        k : int, optional
            Number of results; by default, the retriever's `k`.
        filter : mapping, optional
            An additional filter; the retriever's own filter still applies.

        Returns
        -------
        Result
            ``result.evidence(id)`` explains the position of a document.
        """
        sources = self._bound(configured(), filter)
        return self._engine.retrieve(query, sources, k=self._wanted(k), read=True)[0]

    async def aexplain(self, query: str, k: int | None = None, *, filter: Any = None) -> Result:  # noqa: A002
        """Run :meth:`explain` asynchronously."""
        sources = self._bound(configured(), filter)
        return (await self._engine.aretrieve(query, sources, k=self._wanted(k), read=True))[0]

    def inspect(self, query: str, k: int | None = None, *, filter: Any = None) -> Inspection:  # noqa: A002
        """Return the whole answer as a notebook page: the list of every source, and how the lists were fused.

        Parameters
        ----------
        query, k, filter
            See :meth:`explain`.

        Returns
        -------
        Inspection
            Contains ``result``, and ``everything``: all candidates with calibrated values and contributions.
        """
        return self._engine.inspect(query, self.explain(query, k, filter=filter))

    async def ainspect(self, query: str, k: int | None = None, *, filter: Any = None) -> Inspection:  # noqa: A002
        """Run :meth:`inspect` asynchronously."""
        return self._engine.inspect(query, await self.aexplain(query, k, filter=filter))

    def _documents(self, result: Result, hits: list[SelectedHit], for_ours: bool) -> list[Document]:
        """Return the documents; another phasegraph retriever gets them unchanged, with their scores."""
        if not for_ours:
            return documents_of(result, hits, score_key=self.score_key, evidence_key=self.evidence_key)
        found = ScoredDocuments(documents_of(result, hits, score_key=None, evidence_key=None))
        if self.evidence_key is not None:
            found.evidence = dict(zip(result.ids, evidence_blocks(result, hits), strict=True))
        found.scores, found.told = result.scores.tolist(), (True, "higher is better: a fused score")
        return found

    def _bound(self, config: RunnableConfig, narrower: Any = None, *, answers: bool = True) -> Sources:
        if config.get("configurable") or self.filter is not None or narrower is not None:
            config = with_filter(config, self.filter, narrower)
        if answers and self.required_filter_key is not None:
            check_required(self.required_filter_key, joined(filter_of(config), self.whole_filter()))
        own, by_name, asked = self._own_filters(), self._by_name, self._engine.asked
        if not own:
            return {name: by_name[name].bind(config) for name in asked}
        return {
            name: by_name[name].bind(with_filter(config, *(one for other, one in own.items() if other != name)))
            for name in asked
        }

    def _in_force(self, config: RunnableConfig, narrower: Any) -> Wanted | None:
        """What every document must match in a call."""
        return joined(filter_of(with_filter(config, self.filter, narrower)), self.whole_filter())

    def _sources(self, query: str) -> Sources:
        return self._bound(configured(), answers=False)

    def _wanted(self, k: int | None) -> int | None:
        return None if k is None else check_count("k", k)

    def _get_ls_params(self, **kwargs: Any) -> Any:
        return {**super()._get_ls_params(**kwargs), "ls_retriever_name": "phasegraph"}


def access_of(sources: Mapping[str, RetrieverSource]) -> HitAccess:
    """Describe how the core reads documents, with the embedding model of the first vector store that has a model."""
    models = (getattr(source.store, "embeddings", None) or source.embeddings for source in sources.values())
    model = next((one for one in models if isinstance(one, Embeddings)), None)
    corpus = next((one for one in (source.corpus for source in sources.values()) if one is not None), None)
    if model is None:
        return replace(ACCESS, corpus=corpus)
    native = type(model).aembed_documents is not Embeddings.aembed_documents
    return HitAccess(
        text_of,
        metadata_of,
        embed=model.embed_documents,
        aembed=model.aembed_documents if native else None,
        corpus=corpus,
    )


def holds(candidate: object, target: object, depth: int = 0) -> bool:
    """Whether `target` is `candidate` or is nested inside it."""
    if candidate is target:
        return True
    if depth > _DEEPEST or not isinstance(candidate, Runnable | SourceSpec):
        return False
    inner = [getattr(candidate, name, None) for name in _INNER]
    for held in (getattr(candidate, name, None) for name in ("retrievers", "fallbacks")):
        inner.extend(held.values() if isinstance(held, Mapping) else held if isinstance(held, list | tuple) else ())
    return any(holds(one, target, depth + 1) for one in inner)
