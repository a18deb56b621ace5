"""The LangChain retriever that searches every source, fuses the rankings, and returns the sources' own documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.vectorstores import VectorStore, VectorStoreRetriever
from pydantic import Field, PrivateAttr

import phasegraph  # the subpackage phasegraph.graph imports scipy.sparse, so it is imported only at its first use
from langchain_phasegraph.base import (
    CheckedRetriever,
    Count,
    Key,
    anotify_within,
    config_of,
    configured,
    notify_within,
)
from langchain_phasegraph.conversion import ACCESS, ScoredDocuments, documents_of, metadata_of, text_of
from langchain_phasegraph.corpus import (
    DOCUMENTS,
    KeptDocuments,
    StoreVectors,
    contents_of,
    keeps_vectors_exactly,
)
from langchain_phasegraph.entity_graph import EntityGraphRetriever, Lookup
from langchain_phasegraph.filters import Wanted, check_filter, check_required, filter_of, joined, with_filter
from langchain_phasegraph.sources import RetrieverSource
from langchain_phasegraph.stages import LangChainStages, inherited
from phasegraph import Inspection, InvalidInputError, InvalidTypeError, Result
from phasegraph.retrieval import (
    CALL_TIMEOUT,
    LONGEST_QUERY,
    Calibrating,
    FusedPassages,
    FusionEngine,
    HitAccess,
    Indexing,
    Once,
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
"""Names of the fields that can be set without creating a new engine and new sources."""


class PhaseGraphRetriever(KeptDocuments, FusedPassages, Calibrating, CheckedRetriever):
    """A retriever that fuses the answers of any number of LangChain retrievers by calibrated scores.

    Parameters
    ----------
    vector, graph : retriever, vector store, runnable, callable or SourceSpec, optional
        The sources with the names ``vector`` and ``graph``.
    retrievers : mapping of str to source, or list of sources, optional
        Further sources of the same types. A mapping gives their names; the sources of a list are named ``source_1``,
        ``source_2`` and so on. A :class:`SourceSpec` adds a weight, fetch_k, timeout, fields and execution of the
        source.
    k : int, optional
        Number of documents to return, >= 0; also a keyword argument of ``invoke``. Up to `fetch_k` (50), `k` affects
        neither the scores nor the order. Default: the pipeline's `k`, which is 10 unless you change it.
    weights : mapping of str to float, or list of float, optional
        Weight of each source, >= 0, not all 0; a list has the order of the list `retrievers`. `weights` replaces
        ``SourceSpec.weight``. By default, each query gets its own weights, based on how well the sources agree and how
        clearly the graph separates its hits. Such weights need at least two sources, and an
        :class:`EntityGraphRetriever` as ``graph``. Another ``graph`` suffices if it states its background (the mean and
        deviation of all its scores) and there is a source ``vector``. Otherwise, the default weights are equal.
    accept : mapping of str to threshold, AcceptancePolicy or Confidence, optional
        Thresholds by source name, in the unit of the source's scores; the answer leaves out documents below their
        threshold. ``Confidence(min=.2)`` returns no document if the confidence that the corpus has an answer is below
        0.2. Default: no threshold.
    selection : SelectionPolicy or str, optional
        The method that chooses which documents to return together, for example ``"mmr"``. By default, the `k` best
        documents. To measure redundancy, the method uses the embedding model of the vector store.
    group_by : str or GroupBy, optional
        Metadata key that names the file or page of a passage, for example ``"source"``. The passages of the same file
        then count once, and `k` counts files. ``GroupBy("source", "sum")`` adds up the values of the passages. By
        default, every passage counts.
    parents : True, mapping, docstore or callable, optional
        With `group_by`: return the text of the whole file instead of its best passage. True joins the passages of a
        retriever from :meth:`from_documents`. A mapping by name, a docstore (``mget``) or a function ``parents(names)``
        supplies the texts. Filters also apply to the files.
    filter : mapping of str to value, optional
        Metadata that every document must have. A condition is a value or a mapping of operators, such as
        ``{"year": {"$gte": 2000}}``. The operators are ``$eq``, ``$ne``, ``$gt``, ``$gte``, ``$lt``, ``$lte``, ``$in``
        and ``$nin``; ``$and`` and ``$or`` take lists of filters. A call can narrow the filter: by the keyword argument
        ``filter`` of ``invoke``, or by ``phasegraph_filter`` under ``configurable``. A call without a configuration
        inherits ``phasegraph_filter`` from the surrounding run. The filter applies to every source, to the walk over
        the graph, and to the passages from ``HitFields.resolve``. If a source cannot apply the filter, the call fails.
        A source's own filter (``search_kwargs``) also applies to the other sources; if that is impossible, the
        constructor raises an error.
    required_filter_key : str, optional
        Metadata key for which the filter of every call must give a value; a call without the value fails. Use it
        because some of LangChain's own retrievers do not pass ``configurable`` on, and thus lose a filter.
    fetch_k : int or None, optional
        Number of hits to request from each source, instead of the source's own ``k``. None: keep the source's own
        ``k``. Default: 50, or the number of documents to return if it is larger.
    timeout : float or None, default 10.0
        Time limit of a call in seconds; None: no limit. `on_result` and the copying of the returned documents are not
        counted. A source, prior, correction or selection that is too late is left out; the report and a warning say so.
    max_query_length : int or None, default 20000
        Maximum length of a query in characters, >= 1. A longer query raises InvalidInputError. None: no limit.
    strict : bool, default False
        Raise ``DegradedError`` for any degradation, and if a source's scores are calibrated from the returned list
        alone.
    pipeline : FusionPipeline or path, optional
        The fusion settings, or the path of a file that :meth:`save` wrote. Cannot be combined with `weights`, `accept`
        or `selection`, because the pipeline contains these settings.
    route : callable, runnable or language model, optional
        A function that chooses the sources to search: ``route(query)`` or ``route(query, ranking)``. It returns a
        source name, a list of names, or weights by name. `ranking` is the ranking of ``vector``, or of the
        alphabetically first source if there is no ``vector``. By default, and if the function fails, all sources are
        searched.
    rerank : Rerank, cross-encoder, compressor or callable, optional
        A model that reads the query together with the best fused documents. Without :class:`Rerank`, the model decides
        the order of the 30 best documents.
    corrective : Corrective, optional
        A stage that grades the answer. If the grade is poor, the retriever searches once more with a rewritten query.
    on_result : callable, optional
        A function that receives the core's ``Result`` of every query. A coroutine function is awaited in asynchronous
        calls. `timeout` does not include the time of this function.
    score_key : str, optional
        Metadata key for the final score, in [0, 1]. If a document already has this key, its value stays. Scores
        make copies of the same document unequal, so omit `score_key` inside retrievers that compare documents.
    evidence_key : str, optional
        Metadata key for the evidence: for each source the rank, raw score, calibrated value, weight and contribution.
        :meth:`explain` returns the evidence in any case.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is unknown, has a wrong type or is out of range; the message names the argument.

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
    fetch_k: Any = "default"
    timeout: Any = CALL_TIMEOUT
    max_query_length: Any = LONGEST_QUERY
    strict: bool = Field(default=False, strict=True)
    pipeline: Any = None
    route: Any = None
    rerank: Any = None
    corrective: Any = None
    on_result: Callable[[Result], Any] | None = None
    score_key: str | None = None
    evidence_key: str | None = None

    _unnamed: ClassVar[str] = (
        "every argument needs its name: give a store or retriever as vector= or graph=, or several as "
        "retrievers={'name': retriever}; from_documents() and from_vectorstore() build a retriever"
    )
    _engine: FusionEngine = PrivateAttr()
    _corpus: Any = PrivateAttr(default=None)
    _embeds: Any = PrivateAttr(default=None)
    _parents: Any = PrivateAttr(default=None)
    _once: Once = PrivateAttr(default_factory=Once)
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
        own = _own_filters(self._by_name)
        joined(*own.values())
        for name, wanted in own.items():
            for other in self._by_name.keys() - {name}:
                self._by_name[other].check_keeps(wanted, name)
        check_filter(self.filter)
        import_module("langchain_core.tracers.context")  # otherwise LangChain imports the module during the first call

    def whole_filter(self, config: RunnableConfig | None = None) -> Wanted | None:
        """Return the retriever's filter, combined with its sources' own filters; None if there is no filter."""
        found = [one for source in self._by_name.values() if (one := source.own_filter(config)) is not None]
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
        """Build vectors, an entity graph and a word index from documents, and return a retriever that fuses the three.

        Parameters
        ----------
        documents : iterable of Document
            A document without an id takes its id from its metadata; if the metadata has no id, the text determines the
            id. Documents without text are left out, with a warning.
        embeddings : Embeddings
            The model that embeds every document once, and each query.
        path : path, optional
            A new or empty folder, which stores the graph, the word index and the vectors in memory-mapped files.
            :meth:`load` opens the folder again. Without `path`, everything stays in memory.
            If the index would not fit in the free memory and pyarrow is installed (``phasegraph[distributed]``), the
            index of the folder is built in shards, with the same result to the bit.
        vector_store : {"flat", "chroma"}, default "flat"
            With `path`: the index that searches the vectors. ``"flat"`` compares the query with every vector.
            ``"chroma"`` adds an approximate index, and needs ``phasegraph[chroma]``.
        triples, known_names, tokenizer, title_key, source_key
            See :meth:`EntityGraphRetriever.from_documents`.
        progress : bool, default True
            Show progress bars for many documents, if standard error is a terminal and tqdm is installed.
        embed_clauses : bool, default False
            If a question has two or more clauses, also embed each clause and compare it with the passages.
        **fields
            Other fields of the retriever. `retrievers` adds sources to ``vector``, ``graph`` and ``bm25``.

        Raises
        ------
        InvalidInputError
            If `documents` is empty, no document has a text, an id repeats, or the folder `path` is not empty.
        MissingDependencyError
            If `vector_store` is ``"chroma"`` and Chroma is not installed.

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
        """Open a folder that :meth:`from_documents` wrote, with all later changes.

        Parameters
        ----------
        path : path
            The folder.
        embeddings : Embeddings
            The model that embedded the documents.
        reembed : bool, default False
            Embed every document again with `embeddings`, as :meth:`reembed` does.
        vector_store : {"flat", "chroma"}, optional
            Move the vectors to this index; see :meth:`from_documents`. By default, the vectors stay in their present
            index.
        embed_clauses : bool, default False
            If a question has two or more clauses, also embed each clause and compare it with the passages.
        **fields
            Other fields of the retriever. If the folder contains a pipeline from :meth:`save`, the retriever uses the
            pipeline unless you pass `pipeline`, `weights`, `accept` or `selection`.

        Raises
        ------
        IntegrityError
            If the folder is damaged, was not written by phasegraph, or was written by a newer version.
        InvalidInputError
            If the folder was written for another framework, without vectors, or with another model. To check the model,
            `embeddings` embeds three documents again.
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
        """Build a graph and a word index from the documents of a vector store, and search the vectors in the store.

        Parameters
        ----------
        vectorstore : Chroma, FAISS, InMemoryVectorStore, LanceDB, PGVector, PGVectorStore or QdrantVectorStore
            The store's texts, metadata and vectors are read once. :meth:`add_documents` and :meth:`delete` also change
            the store. The store embeds the documents that you add later.
        triples, known_names, tokenizer, title_key, source_key, progress, embed_clauses, **fields
            See :meth:`from_documents`. To save the graph, call ``retriever.graph.save(folder)``. To open it again, pass
            ``EntityGraphRetriever.load(folder, embeddings)`` as `graph` and the store as `vector` to the constructor.
            This retriever has no source ``bm25``, and its documents cannot be changed.

        Raises
        ------
        InvalidInputError
            If the store is of another class, or empty, or if another model than its own embedded its documents. To
            compare them, the store's model embeds three documents again.
        """
        from phasegraph.graph import check_kind

        if isinstance(vectorstore, VectorStoreRetriever):
            raise InvalidTypeError(
                "vectorstore must be a VectorStore; got a retriever of a store: give the store, which is the "
                "attribute .vectorstore of the retriever"
            )
        check_kind("vectorstore", vectorstore, VectorStore)
        held, vectors = contents_of(vectorstore)
        if not held:
            raise InvalidInputError(
                f"the {type(vectorstore).__name__} is empty: add documents before you build a retriever from it. To "
                "start with an empty corpus, add one document, build the retriever, and call retriever.delete([ID])"
            )
        how = Indexing(triples, known_names, tokenizer, title_key, source_key, progress)
        embeddings, store = vectorstore.embeddings, StoreVectors(vectorstore)
        corpus = build_corpus(DOCUMENTS, held, embeddings, how, vectors=vectors, store=store)
        if keeps_vectors_exactly(vectorstore):
            corpus.check_model()
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
            raise InvalidInputError("the retriever contains itself: remove it from its own sources")
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
        with inherited(config) if engine.staged else nullcontext():
            result, hits = engine.retrieve(query, sources, k=self._wanted(k, upstream is not None))
        if self.on_result is not None:
            notify_within(self._callback, result, run_manager)
        if self.parents:
            hits = self._with_parents(hits, lambda: self._in_force(config, filter))
        return self._documents(result, hits, upstream is not None)

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
        with inherited(config) if engine.staged else nullcontext():
            result, hits = await engine.aretrieve(query, sources, k=self._wanted(k, upstream is not None))
        if self.on_result is not None:
            await anotify_within(self._callback, result, run_manager)
        if self.parents:
            hits = self._with_parents(hits, lambda: self._in_force(config, filter))
        return self._documents(result, hits, upstream is not None)

    def explain(self, query: str, k: int | None = None, *, filter: Any = None) -> Result:  # noqa: A002
        """Return the complete result of a query: scores, contributions, candidates and a report per source.

        Parameters
        ----------
        query : str
            The query; it must not be blank.
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
        """Return the complete result as a notebook page that shows every source's list and how the lists were fused.

        Parameters
        ----------
        query, k, filter
            See :meth:`explain`.

        Returns
        -------
        Inspection
            Its ``result`` is the :class:`Result`; its ``everything`` lists all candidates with calibrated values and
            contributions.
        """
        return self._engine.inspect(query, self.explain(query, k, filter=filter))

    async def ainspect(self, query: str, k: int | None = None, *, filter: Any = None) -> Inspection:  # noqa: A002
        """Run :meth:`inspect` asynchronously."""
        return self._engine.inspect(query, await self.aexplain(query, k, filter=filter))

    def _documents(self, result: Result, hits: list[SelectedHit], for_ours: bool) -> list[Document]:
        """Return the documents of a result.

        If `for_ours` is True, the caller is another phasegraph retriever; the list then also contains the scores.
        """
        if not for_ours:
            return documents_of(result, hits, score_key=self.score_key, evidence_key=self.evidence_key, once=self._once)
        found = ScoredDocuments(documents_of(result, hits, score_key=None, evidence_key=None))
        if self.evidence_key is not None:
            found.evidence = dict(zip(result.ids, evidence_blocks(result, hits), strict=True))
        found.scores, found.stated = result.scores.tolist(), (True, "higher is better: a fused score")
        return found

    def _bound(self, config: RunnableConfig, narrower: Any = None, *, answers: bool = True) -> Sources:
        if config.get("configurable") or self.filter is not None or narrower is not None:
            config = with_filter(config, self.filter, narrower)
        if answers and self.required_filter_key is not None:
            check_required(self.required_filter_key, joined(filter_of(config), self.whole_filter(config)))
        by_name, asked = self._by_name, self._engine.asked
        own = _own_filters(by_name, config)
        if not own:
            return {name: by_name[name].bind(config) for name in asked}
        return {
            name: by_name[name].bind(with_filter(config, *(one for other, one in own.items() if other != name)))
            for name in asked
        }

    def _in_force(self, config: RunnableConfig, narrower: Any) -> Wanted | None:
        """Return the filter that every document of a call must match; None if no filter applies.

        It combines the filter in `config`, the additional filter `narrower` (or None), the retriever's own filter, and
        the filters of its sources.
        """
        return joined(filter_of(with_filter(config, self.filter, narrower)), self.whole_filter(config))

    def _sources(self, query: str) -> Sources:
        return self._bound(configured(), answers=False)

    def _wanted(self, k: int | None, for_ours: bool = False) -> int | None:
        """Return the number of results; warn if the sources cannot give it, unless a phasegraph retriever calls."""
        wanted = None if k is None else check_count("k", k)
        if not for_ours:
            self._engine.warned_of_k(wanted)
        return wanted

    def _get_ls_params(self, **kwargs: Any) -> Any:
        return {**super()._get_ls_params(**kwargs), "ls_retriever_name": "phasegraph"}


def access_of(sources: Mapping[str, RetrieverSource]) -> HitAccess:
    """Return the functions with which phasegraph's core reads the text, metadata and embedding of a document.

    The embedding model is the model of the first source that has a model, or whose store has a model.
    """
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
    """Return True if `target` is `candidate`, or an object that `candidate` contains.

    `depth` is the number of objects around `candidate`; deeply nested objects are not searched.
    """
    if candidate is target:
        return True
    if depth > _DEEPEST or not isinstance(candidate, Runnable | SourceSpec):
        return False
    inner = [getattr(candidate, name, None) for name in _INNER]
    for held in (getattr(candidate, name, None) for name in ("retrievers", "fallbacks")):
        inner.extend(held.values() if isinstance(held, Mapping) else held if isinstance(held, list | tuple) else ())
    return any(holds(one, target, depth + 1) for one in inner)


def _own_filters(sources: Mapping[str, RetrieverSource], config: RunnableConfig | None = None) -> dict[str, Wanted]:
    """Return, by source name, the filters that sources apply to a call; the other sources must apply them, too."""
    if len(sources) < 2:
        return {}
    return {name: one for name, source in sources.items() if (one := source.own_filter(config)) is not None}
