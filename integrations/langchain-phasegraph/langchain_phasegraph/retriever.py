"""The retriever: ask every source, let the core decide, give back the sources' own documents."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import Field, PrivateAttr, model_validator

from langchain_phasegraph.base import CheckedRetriever, Count, config_of
from langchain_phasegraph.conversion import Winner, documents_of, winners_of
from langchain_phasegraph.filters import check_filter, with_filter
from langchain_phasegraph.sources import RetrieverSource, child_of
from phasegraph import Context, FusionPipeline, InvalidInputError, Result
from phasegraph._validation import check_count
from phasegraph.retrieval.engine import (
    Bind,
    Calibrating,
    Choosing,
    Embedding,
    Fitted,
    Listener,
    Plan,
    settled,
    with_fitted,
)
from phasegraph.retrieval.source_config import SourceSpec, as_specs
from phasegraph.sources.protocol import AnySource

Answer: TypeAlias = tuple[Result, list[Winner]]
_INNER = ("bound", "runnable", "base_retriever", "retriever", "vector", "graph")
_DEEPEST = 8
BUILT_FROM = (
    "vector", "graph", "retrievers", "weights", "pipeline", "limit", "timeout", "strict", "context",
    "accept", "selection", "embeddings", "correct",
)  # fmt: skip
"""Fields of a retriever whose change makes a new plan, with new breakers and directions."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The core's plan of a retriever, and its sources, whose child runs are bound at each call.

    Parameters
    ----------
    plan : Plan
    sources : mapping of str to RetrieverSource
    """

    plan: Plan
    sources: Mapping[str, RetrieverSource]

    @classmethod
    def of(cls, retriever: PhaseGraphRetriever) -> Asking:
        """Check a retriever's fields; an error names the field."""
        specs = as_specs(retriever.vector, retriever.graph, retriever.retrievers)
        for name, spec in specs.items():
            if holds(spec, retriever):
                raise InvalidInputError(f"a retriever must not be among its own sources; got itself as {name!r}")
        plan = Plan.of(
            specs,
            k=retriever.k if retriever.pipeline is None or "k" in retriever.model_fields_set else None,
            weights=retriever.weights,
            pipeline=retriever.pipeline,
            limit=retriever.limit,
            timeout=retriever.timeout,
            strict=retriever.strict,
            context=retriever.context,
            choosing=Choosing(
                retriever.accept, retriever.selection, retriever.correct, embedding_of(retriever.embeddings)
            ),
        )
        settings = plan.gatherer.settings
        return cls(plan, {name: RetrieverSource(name, spec, settings[name]) for name, spec in specs.items()})

    @property
    def pipeline(self) -> FusionPipeline:
        """The pipeline that decides."""
        return self.plan.pipeline

    def with_fitted(self, fitted: Fitted) -> Asking:
        """The same with these calibrators in place of, or besides, those it has."""
        return replace(self, plan=self.plan.with_fitted(fitted))

    def with_k(self, k: int) -> Asking:
        """The same with another number of results."""
        return self if k == self.pipeline.k else replace(self, plan=self.plan.with_k(k))

    def ask(self, query: str, k: int, config: RunnableConfig | None) -> Answer:
        """Ask the sources and decide."""
        return settled(self.plan.ask(query, k, self.bind(config)), winners_of)

    async def aask(self, query: str, k: int, config: RunnableConfig | None) -> Answer:
        """As :meth:`ask`, on the caller's event loop."""
        return settled(await self.plan.aask(query, k, self.bind(config)), winners_of)

    def bind(self, config: RunnableConfig | None) -> Bind:
        """What binds the sources to a call: each one's child run belongs to `config`."""

        def bind(name: str, notes: list[str]) -> AnySource:
            source = self.sources[name]
            return source.bind(child_of(config, name, source.runnable), notes)

        return bind


def embedding_of(embeddings: Embeddings | None) -> Embedding:
    """Documents to vectors by their text."""
    if embeddings is None:
        return Embedding()
    native = type(embeddings).aembed_documents is not Embeddings.aembed_documents
    return Embedding(
        "embeddings",
        embeddings.embed_documents,
        embeddings.aembed_documents if native else None,
        lambda document: str(document.page_content),
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


class PhaseGraphRetriever(Calibrating, CheckedRetriever):
    """Any retrievers, fused by calibrated scores.

    Parameters
    ----------
    vector, graph : retriever, vector store, runnable, callable or SourceSpec, optional
        The sources of these names.
    retrievers : mapping of str to the same
        Further sources by name, each bare or as a :class:`SourceSpec` with weight, limit, deadline, direction and
        readers of its own.
    k : int, default 10
        Documents returned, >= 0; also a keyword of ``invoke``. Changes neither scores nor order.
    weights : mapping of str to float, optional
        By source name, >= 0, not all 0; in place of ``SourceSpec.weight``. Default: per query, by agreement and by
        how sharply the graph points, where it states its background; else equal.
    pipeline : FusionPipeline or path, optional
        How to fuse; a path to a file that :meth:`save` wrote. Default ``FusionPipeline()``.
    limit : int or None, default 50
        Hits asked of each source, in place of its own ``k``; None leaves it alone.
    timeout : float or None, default 10.0
        Seconds for the whole call.
    strict : bool, default False
        Turn any degradation, and calibration by list alone, into ``DegradedError``.
    score_key : str or None, default "score"
        Metadata key for the published score, in [0, 1]; a key that the document already has is kept.
    provenance : bool, default True
        Add ``metadata["phasegraph"]``: per source rank, raw score, calibrated value, weight and contribution.
    on_result : callable, optional
        Called with the core's ``Result`` of every query; a coroutine function is awaited in asynchronous calls.
    context : callable, optional
        ``context(query)`` gives the core's ``Context``, for priors.
    accept : mapping of str to threshold, or AcceptancePolicy, optional
        By source, on its own scores; documents below are not returned. Default: all are accepted.
    selection : SelectionPolicy or str, optional
        Which k go together, for example ``"mmr"``; default the k best.
    embeddings : Embeddings, optional
        Embeds the candidates for a `selection` that weighs redundancy.
    correct : callable, optional
        ``correct(result)`` is called where everything was rejected; the query it returns is asked once.

    filter : mapping of str to value, optional
        Metadata that every document must have, by equality; also a keyword of ``invoke`` and ``phasegraph_filter``
        under ``configurable``, which narrow it further. It reaches every source, the walk of a graph included; a
        source that cannot keep it fails rather than answer.

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
    retrievers: Mapping[str, Any] = Field(default_factory=dict)
    k: Count = 10
    weights: Mapping[str, Any] | None = None
    pipeline: Any = None
    limit: Any = 50
    timeout: Any = 10.0
    strict: bool = Field(default=False, strict=True)
    score_key: str | None = "score"
    provenance: bool = Field(default=True, strict=True)
    on_result: Callable[[Result], Any] | None = None
    context: Callable[[str], Context] | None = None
    accept: Any = None
    selection: Any = None
    embeddings: Embeddings | None = None
    correct: Callable[[Result], Any] | None = None
    filter: Mapping[str, Any] | None = None

    _asking: Asking = PrivateAttr()
    _listener: Listener = PrivateAttr()

    _made_from: tuple[Any, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _prepare(self) -> Self:
        made_from = tuple(self.__dict__[name] for name in BUILT_FROM)
        if len(self._made_from) == len(made_from) and all(map(operator.is_, made_from, self._made_from)):
            self._asking = self._asking.with_k(self.k)
        else:
            self._asking = Asking.of(self)
        self._made_from = made_from
        self._listener = Listener(self.on_result)
        check_filter(self.filter)
        if self.pipeline is not None and "k" not in self.model_fields_set:
            self.__dict__["k"] = self._asking.pipeline.k
        return self

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Any = None,  # noqa: A002
    ) -> list[Document]:
        config = with_filter(config_of(run_manager), self.filter, filter)
        result, winners = self._asking.ask(query, self._wanted(k), config)
        self._listener.tell(result)
        return documents_of(result, winners, score_key=self.score_key, block=self.provenance)

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Any = None,  # noqa: A002
    ) -> list[Document]:
        config = with_filter(config_of(run_manager), self.filter, filter)
        result, winners = await self._asking.aask(query, self._wanted(k), config)
        await self._listener.atell(result)
        return documents_of(result, winners, score_key=self.score_key, block=self.provenance)

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
        return self._asking.ask(query, self._wanted(k), with_filter(None, self.filter, filter))[0]

    async def aexplain(self, query: str, k: int | None = None, *, filter: Any = None) -> Result:  # noqa: A002
        """As :meth:`explain`."""
        return (await self._asking.aask(query, self._wanted(k), with_filter(None, self.filter, filter)))[0]

    def _planned(self) -> Plan:
        return self._asking.plan

    def _bound(self, query: str) -> Bind:
        return self._asking.bind(with_filter(None, self.filter))

    def _take(self, fitted: Fitted) -> None:
        self.__dict__["pipeline"] = with_fitted(self.pipeline, fitted)
        self._asking = self._asking.with_fitted(fitted)
        self._made_from = tuple(self.__dict__[name] for name in BUILT_FROM)

    def _decide_by(self, pipeline: FusionPipeline) -> None:
        self.pipeline = pipeline

    def _wanted(self, k: int | None) -> int:
        return check_count("k", self.k if k is None else k)

    def _get_ls_params(self, **kwargs: Any) -> Any:
        return {**super()._get_ls_params(**kwargs), "ls_retriever_name": "phasegraph"}
