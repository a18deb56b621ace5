"""A retriever's arguments, checked once and turned into what a call needs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.runnables import Runnable, RunnableConfig

from langchain_phasegraph.sources import RetrieverSource
from langchain_phasegraph.specs import SourceSpec, as_specs
from langchain_phasegraph.writing import Winner, winners_of, with_text_warnings
from phasegraph import Context, FusionPipeline, InvalidInputError, InvalidTypeError, Ranking, Result
from phasegraph.adapters import with_notes
from phasegraph.calibration import Calibrator
from phasegraph.pipeline.checks import check_weights_mapping
from phasegraph.sources import Gathered, Gatherer
from phasegraph.sources.protocol import AnySource

if TYPE_CHECKING:
    from langchain_phasegraph.retriever import PhaseGraphRetriever

_INNER = ("bound", "runnable", "base_retriever", "retriever", "vector", "graph")
_DEEPEST = 8
Notes: TypeAlias = dict[str, list[str]]
Answer: TypeAlias = tuple[Result, list[Winner]]


@dataclass(frozen=True, slots=True)
class Plan:
    """Sources, gatherer and pipeline of one retriever.

    Parameters
    ----------
    sources : mapping of str to RetrieverSource
        In name order.
    asked : tuple of str
        Those that a call asks: weight above 0, or needed by one that is.
    gatherer : Gatherer
    pipeline : FusionPipeline
    context : callable or None
    """

    sources: Mapping[str, RetrieverSource]
    asked: tuple[str, ...]
    gatherer: Gatherer
    pipeline: FusionPipeline
    context: Any

    @classmethod
    def of(cls, retriever: PhaseGraphRetriever) -> Plan:
        """The plan of a retriever's fields, or an error that names the field."""
        specs = as_specs(retriever.vector, retriever.graph, retriever.retrievers)
        for name, spec in specs.items():
            if holds(spec.retriever, retriever):
                raise InvalidInputError(f"a retriever must not be among its own sources; got itself as {name!r}")
        settings = {name: spec.settings(retriever.limit, _needs(name, spec, specs)) for name, spec in specs.items()}
        gatherer = Gatherer(
            settings, deadline=retriever.deadline, strict=retriever.strict, on_all_failed=retriever.on_all_failed
        )
        weights = check_weights(retriever.weights, specs)
        pipeline = check_pipeline(retriever.pipeline, weights, specs, strict=retriever.strict)
        if "k" in retriever.model_fields_set or retriever.pipeline is None:
            pipeline = replace(pipeline, k=retriever.k)
        sources = {name: RetrieverSource(name, spec, settings[name]) for name, spec in specs.items()}
        return cls(sources, _asked(gatherer, pipeline), gatherer, pipeline, retriever.context)

    @property
    def sizes(self) -> dict[str, int | None]:
        """Stated size of each source's collection."""
        return {name: source.spec.size for name, source in self.sources.items()}

    def with_calibrators(self, fitted: Mapping[str, Calibrator]) -> Plan:
        """The same plan with these calibrators in place of, or besides, those it has."""
        return replace(self, pipeline=replace(self.pipeline, calibrators={**self.pipeline.calibrators, **fitted}))

    def ask(self, query: str, k: int, config: RunnableConfig | None) -> Answer:
        """Ask the sources and decide."""
        bound, notes = self._bind(config)
        return self._decide(self.gatherer.gather(bound, query), notes, query, k)

    async def aask(self, query: str, k: int, config: RunnableConfig | None) -> Answer:
        """As :meth:`ask`, on the caller's event loop."""
        bound, notes = self._bind(config)
        return self._decide(await self.gatherer.agather(bound, query), notes, query, k)

    def rankings(self, query: str) -> Sequence[Ranking]:
        """What the sources answer, undecided."""
        return self.gatherer.gather(self._bind(None)[0], query).rankings

    async def arankings(self, query: str) -> Sequence[Ranking]:
        """As :meth:`rankings`."""
        return (await self.gatherer.agather(self._bind(None)[0], query)).rankings

    def _bind(self, config: RunnableConfig | None) -> tuple[dict[str, AnySource], Notes]:
        notes: Notes = {name: [] for name in self.asked}
        bound: dict[str, AnySource] = {}
        for name in self.asked:
            child: RunnableConfig = {"run_name": name}
            if config is not None:
                manager: Any = config["callbacks"]
                child = {**config, "callbacks": manager.get_child(name), "run_name": name}
            bound[name] = self.sources[name].bind(child, notes[name])
        return bound, notes

    def _decide(self, found: Gathered, notes: Notes, query: str, k: int) -> Answer:
        context = Context(query=query) if self.context is None else self.context(query)
        reports = with_notes(found.reports, notes)
        wanted = None if k == self.pipeline.k else k
        result = self.pipeline.decide(found.rankings, context, reports=reports, k=wanted)
        winners = winners_of(result)
        return with_text_warnings(result, winners), winners


def check_weights(given: Mapping[str, float] | None, specs: Mapping[str, SourceSpec]) -> Mapping[str, float] | None:
    """Weights of all sources by name, or None where nobody gave one."""
    own = {name: spec.weight for name, spec in specs.items() if spec.weight is not None}
    if given is None:
        return check_weights_mapping({name: own.get(name, 1.0) for name in specs}) if own else None
    if own:
        raise InvalidInputError(
            f"weights must be given in one place; got weights= and SourceSpec.weight of {list(own)}"
        )
    unknown = sorted(set(given) - set(specs))
    if unknown:
        raise InvalidInputError(f"weights must be among the sources {list(specs)}; got {unknown}")
    missing = sorted(set(specs) - set(given))
    if missing:
        raise InvalidInputError(f"weights must name every source; got none for {missing}")
    return check_weights_mapping(given)


def check_pipeline(
    given: object, weights: Mapping[str, float] | None, specs: Mapping[str, SourceSpec], *, strict: bool = False
) -> FusionPipeline:
    """The pipeline in use: the one given or read, with the weights and the strictness of the retriever."""
    pipeline = FusionPipeline() if given is None else given
    if not isinstance(pipeline, FusionPipeline):
        if not isinstance(pipeline, str | os.PathLike):
            raise InvalidTypeError(f"pipeline must be a FusionPipeline or a path; got {type(pipeline).__name__}")
        pipeline = FusionPipeline.load(pipeline)
    if weights is not None:
        pipeline = replace(pipeline, weights=weights)
    elif pipeline.weights is not None and not set(specs) <= set(pipeline.weights):
        missing = sorted(set(specs) - set(pipeline.weights))
        raise InvalidInputError(f"pipeline.weights must name every source; got none for {missing}")
    return replace(pipeline, strict=True) if strict else pipeline


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


def _needs(name: str, spec: SourceSpec, specs: Mapping[str, SourceSpec]) -> tuple[str, ...]:
    """The needs a retriever declares itself, as far as there are such sources."""
    declared = getattr(spec.retriever, "needs", ())
    if spec.needs is not None or not isinstance(declared, list | tuple):
        return ()
    return tuple(need for need in declared if need in specs and need != name)


def _asked(gatherer: Gatherer, pipeline: FusionPipeline) -> tuple[str, ...]:
    weights = pipeline.weights
    wanted = [name for name in gatherer.settings if weights is None or weights[name] > 0]
    if not wanted:
        raise InvalidInputError("weights must not all be 0 for the sources at hand")
    for name in wanted:
        wanted.extend(need for need in gatherer.settings[name].needs if need not in wanted)
    return tuple(sorted(wanted))
