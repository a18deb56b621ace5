"""The retriever: ask every source, let the core decide, give back the sources' own documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import Field, PrivateAttr

from langchain_phasegraph.base import CheckedRetriever, Count, config_of
from langchain_phasegraph.conversion import ACCESS, ScoredDocuments, documents_of, metadata_of, text_of
from langchain_phasegraph.filters import Wanted, check_filter, joined, with_filter
from langchain_phasegraph.sources import RetrieverSource
from phasegraph import InvalidInputError, Result
from phasegraph.retrieval import (
    Calibrating,
    FusionEngine,
    HitAccess,
    ResultCallback,
    SelectedHit,
    Sources,
    SourceSpec,
    Upstream,
    as_specs,
    check_count,
    evidence_blocks,
)

_INNER = ("bound", "runnable", "base_retriever", "retriever", "vector", "graph")
_DEEPEST = 8
_SHOWN = frozenset({"k", "score_key", "metadata_key", "on_result", "filter", "name", "tags", "metadata"})
"""Fields whose change leaves the engine and the sources as they are."""


class PhaseGraphRetriever(Calibrating, CheckedRetriever):
    """Any retrievers, fused by calibrated scores.

    Parameters
    ----------
    vector, graph : retriever, vector store, runnable, callable or SourceSpec, optional
        The sources of these names.
    retrievers : mapping of str to the same, or a list of them, optional
        Further sources, by name or as ``source_1``, ``source_2`` and so on; each bare or as a :class:`SourceSpec` with
        weight, limit, timeout, fields and execution of its own.
    k : int, optional
        Documents returned, >= 0; also a keyword of ``invoke``. Changes neither scores nor order. Default: the
        pipeline's, 10.
    weights : mapping of str to float, or a list beside a list of retrievers, optional
        >= 0, not all 0; in place of ``SourceSpec.weight``. Default: per query, by agreement and by how sharply the
        graph points, where it states its background; else equal.
    accept : mapping of str to threshold, AcceptancePolicy or Confidence, optional
        By source, on its own scores; documents below are not returned. ``Confidence(min=.2)``: no document where it is
        too doubtful that the corpus holds an answer. Default: all are accepted.
    selection : SelectionPolicy or str, optional
        Which k go together, for example ``"mmr"``; default the k best. Redundancy is weighed by embeddings of the
        model that the vector store embeds with.
    filter : mapping of str to value, optional
        Metadata that every document must have: values, or ``{"year": {"$gte": 2000}}`` with ``$eq``, ``$ne``,
        ``$gt``, ``$gte``, ``$lt``, ``$lte``, ``$in`` and ``$nin``; ``$and`` and ``$or`` with lists of filters. Also a
        keyword of ``invoke`` and ``phasegraph_filter`` under ``configurable``, which narrow it further. It reaches
        every source, the walk of a graph included; a source that cannot keep it fails rather than answer. A filter
        that a source has already (``search_kwargs``) reaches the others, too, or the retriever cannot be made.
    limit : int or None, default 50
        Hits asked of each source, in place of its own ``k``; None leaves it alone.
    timeout : float or None, default 10.0
        Seconds for the whole call.
    strict : bool, default False
        Turn any degradation, and calibration by list alone, into ``DegradedError``.
    pipeline : FusionPipeline or path, optional
        How to fuse; a path to a file that :meth:`save` wrote. Not beside `weights`, `accept` or `selection`, which it
        has itself.
    on_result : callable, optional
        Called with the core's ``Result`` of every query; a coroutine function is awaited in asynchronous calls.
    score_key : str, optional
        Metadata key for the published score, in [0, 1]; a key that the document already has is kept. The same
        document of two queries is then not equal to itself: leave it out within retrievers that compare documents.
    metadata_key : str, optional
        Metadata key for the evidence: per source rank, raw score, calibrated value, weight and contribution.
        :meth:`explain` always has it.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If an argument is unknown or outside what is said above; the message names it.

    Examples
    --------
    >>> from langchain_core.documents import Document
    >>> def lexical(query):
    ...     return [
    ...         (Document("Paris", id="p"), 7.1),
    ...         (Document("Rome", id="r"), 6.0),
    ...         (Document("Oslo", id="o"), 1.0),
    ...     ]
    >>> retriever = PhaseGraphRetriever(retrievers={"lexical": lexical}, k=2)
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
    filter: Mapping[str, Any] | None = None
    limit: Any = 50
    timeout: Any = 10.0
    strict: bool = Field(default=False, strict=True)
    pipeline: Any = None
    on_result: Callable[[Result], Any] | None = None
    score_key: str | None = None
    metadata_key: str | None = None

    _engine: FusionEngine = PrivateAttr()
    _by_name: dict[str, RetrieverSource] = PrivateAttr()
    _callback: ResultCallback = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Check how the arguments fit together, and settle them."""
        specs = as_specs(self.vector, self.graph, self.retrievers)
        self._by_name = {name: RetrieverSource(name, spec) for name, spec in specs.items()}
        for source in self._by_name.values():
            source.borrow(self._by_name)
        self._engine = FusionEngine.of(
            specs, k=self.k, weights=self.weights, accept=self.accept, selection=self.selection,
            pipeline=self.pipeline, limit=self.limit, timeout=self.timeout, strict=self.strict,
            access=access_of(self._by_name),
        )  # fmt: skip
        self._callback = ResultCallback(self.on_result)
        own = self._own_filters()
        joined(*own.values())
        for name, wanted in own.items():
            for other in self._by_name.keys() - {name}:
                self._by_name[other].check_keeps(wanted, name)
        check_filter(self.filter)

    def _own_filters(self) -> dict[str, Wanted]:
        """Filters that sources have already, which hold for the others, too."""
        if len(self._by_name) < 2:
            return {}
        found = ((name, source.own_filter()) for name, source in self._by_name.items())
        return {name: one for name, one in found if one is not None}

    def whole_filter(self) -> Wanted | None:
        """What every document must match, by its own filter or a source's."""
        return joined(check_filter(self.filter), *(source.own_filter() for source in self._by_name.values()))

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
        sources = self._bound(config_of(run_manager), filter)
        result, hits = self._engine.retrieve(query, sources, k=self._wanted(k))
        self._callback.notify(result)
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
        sources = self._bound(config_of(run_manager), filter)
        result, hits = await self._engine.aretrieve(query, sources, k=self._wanted(k))
        await self._callback.anotify(result)
        return self._documents(result, hits, upstream is not None)

    def explain(self, query: str, k: int | None = None, *, filter: Any = None) -> Result:  # noqa: A002
        """The whole answer to one query: scores, contributions, candidates and a report per source.

        Parameters
        ----------
        query : str
            Not blank.
        k : int, optional
            In place of the retriever's.
        filter : mapping, optional
            Besides the retriever's.

        Returns
        -------
        Result
            ``result.evidence(id)`` says why a document stands where it stands.
        """
        sources = self._bound({}, filter)
        return self._engine.retrieve(query, sources, k=self._wanted(k), read=True)[0]

    async def aexplain(self, query: str, k: int | None = None, *, filter: Any = None) -> Result:  # noqa: A002
        """As :meth:`explain`."""
        sources = self._bound({}, filter)
        return (await self._engine.aretrieve(query, sources, k=self._wanted(k), read=True))[0]

    def _documents(self, result: Result, hits: list[SelectedHit], for_ours: bool) -> list[Document]:
        """The documents; for another retriever of ours as they are, with their scores alongside."""
        if not for_ours:
            return documents_of(result, hits, score_key=self.score_key, metadata_key=self.metadata_key)
        found = ScoredDocuments(documents_of(result, hits, score_key=None, metadata_key=None))
        if self.metadata_key is not None:
            found.evidence = dict(zip(result.ids, evidence_blocks(result, hits), strict=True))
        found.scores, found.told = result.scores.tolist(), (True, "higher is better: a fused score")
        return found

    def _bound(self, config: RunnableConfig, narrower: Any = None) -> Sources:
        if config.get("configurable") or self.filter is not None or narrower is not None:
            config = with_filter(config, self.filter, narrower)
        own = self._own_filters()
        if not own:
            return {name: self._by_name[name].bind(config) for name in self._engine.asked}
        return {
            name: self._by_name[name].bind(with_filter(config, *(one for other, one in own.items() if other != name)))
            for name in self._engine.asked
        }

    def _sources(self, query: str) -> Sources:
        return self._bound({})

    def _wanted(self, k: int | None) -> int | None:
        return None if k is None else check_count("k", k)

    def _get_ls_params(self, **kwargs: Any) -> Any:
        return {**super()._get_ls_params(**kwargs), "ls_retriever_name": "phasegraph"}


def access_of(sources: Mapping[str, RetrieverSource]) -> HitAccess:
    """How to look into documents, with the embedding model of the first vector store that has one."""
    models = (getattr(source.store, "embeddings", None) for source in sources.values())
    model = next((one for one in models if isinstance(one, Embeddings)), None)
    if model is None:
        return ACCESS
    native = type(model).aembed_documents is not Embeddings.aembed_documents
    return HitAccess(
        text_of, metadata_of, embed=model.embed_documents, aembed=model.aembed_documents if native else None
    )


def holds(candidate: object, target: object, depth: int = 0) -> bool:
    """Whether `target` is `candidate`, or inside it."""
    if candidate is target:
        return True
    if depth > _DEEPEST or not isinstance(candidate, Runnable | SourceSpec):
        return False
    inner = [getattr(candidate, name, None) for name in _INNER]
    for held in (getattr(candidate, name, None) for name in ("retrievers", "fallbacks")):
        inner.extend(held.values() if isinstance(held, Mapping) else held if isinstance(held, list | tuple) else ())
    return any(holds(one, target, depth + 1) for one in inner)
