"""A fusing retriever's arguments, checked once and turned into what a call needs."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import isawaitable, iscoroutine
from time import monotonic
from typing import TypeAlias

from numpy.typing import ArrayLike

from phasegraph.acceptance import check_orientations
from phasegraph.adapters.checks import check_names, check_pipeline, check_weights, needs_of
from phasegraph.adapters.choosing import Choosing, UncorrectedError, awaited, check_correction, uncorrected
from phasegraph.adapters.embedding import VectorsWanted
from phasegraph.adapters.fingerprint import check_fingerprints, fingerprints
from phasegraph.adapters.fitting import Fitted, fit_calibrators
from phasegraph.adapters.provenance import with_notes
from phasegraph.adapters.specs import SourceSpec
from phasegraph.candidates import Ranking
from phasegraph.candidates.copying import by_fields
from phasegraph.errors import AllSourcesFailed, InvalidInputError, InvalidTypeError
from phasegraph.fusion import FUSION_RULES
from phasegraph.pipeline import Context, FusionPipeline, Result
from phasegraph.pipeline.suspicion import fit_agreement_floor
from phasegraph.sources import Gathered, Gatherer
from phasegraph.sources.gather import OnAllFailed
from phasegraph.sources.protocol import AnySource

Notes: TypeAlias = dict[str, list[str]]
Bind: TypeAlias = Callable[[str, list[str]], AnySource]
MakeContext: TypeAlias = Callable[[str], Context | Awaitable[Context]]


@dataclass(frozen=True, slots=True)
class Plan:
    """Gatherer and pipeline of one fusing retriever; the sources themselves are bound at each call.

    Parameters
    ----------
    specs : mapping of str to SourceSpec
        In name order.
    asked : tuple of str
        Those that a call asks: weight above 0, or needed by one that is.
    gatherer : Gatherer
    pipeline : FusionPipeline
    context : callable or None
        ``context(query)`` gives the core's ``Context``.
    choosing : Choosing
        Acceptance, selection and correction.
    k, weights : int or None, mapping or None
        As they were given; None = the pipeline's.
    foreign : mapping of str to str
        By source, what to note of a calibrator that was fitted to scores of something else.

    Examples
    --------
    >>> from phasegraph.sources import CallableSource
    >>> plan = Plan.of({"v": SourceSpec(retriever=None)})
    >>> plan.ask("who?", 1, lambda name, notes: CallableSource(name, lambda query, limit: [("a", 2.0)])).ids
    ('a',)
    """

    specs: Mapping[str, SourceSpec]
    asked: tuple[str, ...]
    gatherer: Gatherer
    pipeline: FusionPipeline
    context: MakeContext | None = None
    choosing: Choosing = field(default_factory=Choosing)
    k: int | None = None
    weights: Mapping[str, float] | None = None
    foreign: Mapping[str, str] = field(default_factory=dict)

    __reduce__ = by_fields

    @classmethod
    def of(
        cls,
        specs: Mapping[str, SourceSpec],
        *,
        k: int | None = None,
        weights: Mapping[str, float] | None = None,
        pipeline: FusionPipeline | str | os.PathLike[str] | None = None,
        limit: int | None = 50,
        deadline: float | None = 10.0,
        strict: bool = False,
        on_all_failed: OnAllFailed = "raise",
        context: MakeContext | None = None,
        choosing: Choosing | None = None,
    ) -> Plan:
        """The plan of a retriever's arguments, or an error that names the field.

        Parameters
        ----------
        specs : mapping of str to SourceSpec
        k : int, optional
            Default: the pipeline's.
        weights, pipeline, limit, deadline, strict, on_all_failed, context
            As in the retrievers.
        choosing : Choosing, optional
        """
        settings = {name: spec.settings(limit, needs_of(name, spec, specs)) for name, spec in specs.items()}
        gatherer = Gatherer(settings, deadline=deadline, strict=strict, on_all_failed=on_all_failed)
        after = Choosing() if choosing is None else choosing
        bare = cls(specs, (), gatherer, FusionPipeline(), context, after, k, check_weights(weights, specs))
        return bare.with_pipeline(FusionPipeline() if pipeline is None else pipeline)

    @property
    def strict(self) -> bool:
        """Whether any degradation is an error."""
        return self.gatherer.strict or self.pipeline.strict

    def known(self) -> Plan:
        """The same plan, which says whose calibrators were fitted to scores of something else; an error if strict."""
        return replace(self, foreign=check_fingerprints(self.pipeline, self.specs, strict=self.strict))

    @property
    def sizes(self) -> dict[str, int | None]:
        """Stated size of each source's collection."""
        return {name: spec.size for name, spec in self.specs.items()}

    def fit(
        self,
        answers: Sequence[tuple[str, Sequence[Ranking]]],
        relevant: Mapping[str, Collection[str]] | None = None,
    ) -> Fitted:
        """Reference calibrators of the sources that can be fitted, and how far they agree.

        Parameters
        ----------
        answers : sequence of (query, sequence of Ranking)
        relevant : mapping of str to collection of str, optional
            Ids of relevant passages by query, to see that no source is read the wrong way round.
        """
        if relevant is not None:
            check_orientations(answers, relevant)
        calibrators = fit_calibrators(
            [ranking for _, rankings in answers for ranking in rankings],
            self.sizes,
            sources=self.asked,
            strict=self.strict,
            normal_scores=FUSION_RULES[self.pipeline.rule].expects not in ("bounded", "percentile"),
            fingerprints=fingerprints(self.specs),
        )
        return Fitted(calibrators, fit_agreement_floor([rankings for _, rankings in answers], self.pipeline))

    def with_fitted(self, fitted: Fitted) -> Plan:
        """The same plan with these calibrators in place of, or besides, those it has."""
        return replace(self, pipeline=fitted.on(self.pipeline)).known()

    def with_pipeline(self, pipeline: FusionPipeline | str | os.PathLike[str]) -> Plan:
        """The same plan, deciding by another pipeline; what was given besides a pipeline stays in force."""
        chosen = check_pipeline(pipeline, self.weights, self.specs, strict=self.gatherer.strict)
        chosen = self.choosing.of_pipeline(chosen, list(self.specs))
        if self.k is not None:
            chosen = replace(chosen, k=self.k)
        check_names(chosen, self.specs)
        if self.context is None:
            self.choosing.embedding.check(chosen.selection)
        return replace(self, pipeline=chosen, asked=_asked(self.gatherer, chosen)).known()

    def with_k(self, k: int) -> Plan:
        """The same plan with another number of results, as if it had been given."""
        return replace(self, k=k, pipeline=replace(self.pipeline, k=k))

    def ask(self, query: str, k: int, bind: Bind) -> Result:
        """Ask the sources and decide.

        Parameters
        ----------
        query : str
        k : int
        bind : callable
            ``bind(name, notes)`` gives the source of this call; what it notes goes to its report.
        """
        begun = monotonic()
        result = self._ask(query, k, bind, self.gatherer.deadline)
        said = self.choosing.again(result)
        if said is None:
            return result
        left = self._left(begun)
        try:
            return self._ask(check_correction(said, left), k, bind, left)
        except (UncorrectedError, AllSourcesFailed) as error:
            return uncorrected(result, error)

    async def aask(self, query: str, k: int, bind: Bind) -> Result:
        """As :meth:`ask`, on the caller's event loop; there, what corrects may be a coroutine."""
        begun = monotonic()
        result = await self._aask(query, k, bind, self.gatherer.deadline)
        said = self.choosing.again(result)
        if isawaitable(said):
            said = await awaited(said, self._left(begun))
        if said is None:
            return result
        left = self._left(begun)
        try:
            return await self._aask(check_correction(said, left), k, bind, left)
        except (UncorrectedError, AllSourcesFailed) as error:
            return uncorrected(result, error)

    def _left(self, begun: float) -> float | None:
        """Seconds left of a call's deadline; None = there is none."""
        limit = self.gatherer.deadline
        return None if limit is None else max(0.0, limit - (monotonic() - begun))

    def rankings(self, query: str, bind: Bind) -> Sequence[Ranking]:
        """What the sources answer, undecided."""
        return self.gatherer.gather(self._bind(bind)[0], query).rankings

    async def arankings(self, query: str, bind: Bind) -> Sequence[Ranking]:
        """As :meth:`rankings`."""
        return (await self.gatherer.agather(self._bind(bind)[0], query)).rankings

    def _bind(self, bind: Bind) -> tuple[dict[str, AnySource], Notes]:
        notes: Notes = {name: [] for name in self.asked}
        for name in self.foreign:
            notes.setdefault(name, []).append(self.foreign[name])
        return {name: bind(name, notes[name]) for name in self.asked}, notes

    def _ask(self, query: str, k: int, bind: Bind, seconds: float | None) -> Result:
        bound, notes = self._bind(bind)
        found = self.gatherer.gather(bound, query, seconds=seconds)
        context = Context(query=query) if self.context is None else check_context(self.context(query))
        if self._needs_vectors:
            context = self.choosing.embedding.context(context, found.rankings)
        return self._decide(found, notes, context, k)

    async def _aask(self, query: str, k: int, bind: Bind, seconds: float | None) -> Result:
        bound, notes = self._bind(bind)
        begun = monotonic()
        found = await self.gatherer.agather(bound, query, seconds=seconds)
        made = Context(query=query) if self.context is None else self.context(query)
        context = check_context(await made if isawaitable(made) else made)
        if not self._needs_vectors:
            return self._decide(found, notes, context, k)
        try:
            later = self.choosing.embedding.context(context, found.rankings, later=True)
            return self._decide(found, notes, later, k)
        except VectorsWanted as wanted:
            ids = wanted.ids
        left = None if seconds is None else max(0.0, seconds - (monotonic() - begun))
        outcome: Exception | ArrayLike
        try:
            outcome = await self.choosing.embedding.avectors(ids, found.rankings, left)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - the core says that selection failed
            outcome = error
        return self._decide(found, notes, replace(context, embeddings=lambda _: _raised(outcome)), k)

    @property
    def _needs_vectors(self) -> bool:
        return self.pipeline.selection is not None and self.pipeline.selection.needs_embeddings

    def _decide(self, found: Gathered, notes: Notes, context: Context, k: int) -> Result:
        reports = with_notes(found.reports, notes)
        wanted = None if k == self.pipeline.k else k  # varying the pipeline is not free
        return self.pipeline.decide(found.rankings, context, reports=reports, k=wanted)


def check_context(made: object) -> Context:
    """What `context` returned, or an error that names the field."""
    if isinstance(made, Context):
        return made
    if iscoroutine(made):
        made.close()
        raise InvalidTypeError("context must return a Context; got a coroutine, which only asynchronous calls await")
    raise InvalidTypeError(f"context must return a Context; got {type(made).__name__}")


def _raised(outcome: Exception | ArrayLike) -> ArrayLike:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def with_fitted(given: FusionPipeline | str | os.PathLike[str] | None, fitted: Fitted) -> FusionPipeline:
    """The pipeline as it was given, with what was fitted and nothing else of a retriever's."""
    return fitted.on(check_pipeline(FusionPipeline() if given is None else given, None, {}))


def _asked(gatherer: Gatherer, pipeline: FusionPipeline) -> tuple[str, ...]:
    weights = pipeline.weights
    wanted = [name for name in gatherer.settings if weights is None or weights[name] > 0]
    if not wanted:
        raise InvalidInputError("weights must not all be 0 for the sources at hand")
    for name in wanted:
        wanted.extend(need for need in gatherer.settings[name].needs if need not in wanted)
    return tuple(sorted(wanted))
