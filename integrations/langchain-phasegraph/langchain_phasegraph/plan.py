"""A retriever's arguments, checked once and turned into what a call needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_phasegraph.calling import child_of
from langchain_phasegraph.sources import RetrieverSource
from langchain_phasegraph.writing import Winner, winners_of
from phasegraph import FusionPipeline, InvalidInputError, Result
from phasegraph.adapters.calibrating import settled
from phasegraph.adapters.choosing import Choosing
from phasegraph.adapters.embedding import Embedding
from phasegraph.adapters.fitting import Fitted
from phasegraph.adapters.planning import Bind, Plan
from phasegraph.adapters.specs import SourceSpec, as_specs
from phasegraph.sources.protocol import AnySource

if TYPE_CHECKING:
    from langchain_phasegraph.retriever import PhaseGraphRetriever

Answer: TypeAlias = tuple[Result, list[Winner]]
_INNER = ("bound", "runnable", "base_retriever", "retriever", "vector", "graph")
_DEEPEST = 8
BUILT_FROM = (
    "vector", "graph", "retrievers", "weights", "pipeline", "limit", "deadline", "strict", "on_all_failed", "context",
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
            deadline=retriever.deadline,
            strict=retriever.strict,
            on_all_failed=retriever.on_all_failed,
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
