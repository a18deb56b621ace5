"""The engine of a fusing retriever: settled settings, and one call from query to result.

The integration binds its sources to a call and hands them over by name; the engine asks them, decides, and says which
payload each result is returned under. It never calls back.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from types import MappingProxyType
from typing import Any, Self, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._shared import fork_safe_lock
from phasegraph._validation import LONGEST_QUERY, check_query
from phasegraph.acceptance import AcceptancePolicy, Threshold
from phasegraph.acceptance.judged import check_orientations, check_relevant
from phasegraph.calibration import ReferenceECDF, fit_reference_ecdf
from phasegraph.calibration.background import normal_quantile
from phasegraph.confidence import LEAST_QUERIES, Confidence
from phasegraph.errors import (
    AllSourcesFailed,
    DegradedError,
    InsufficientDataError,
    InvalidInputError,
    InvalidTypeError,
    warn,
)
from phasegraph.fusion import FUSION_RULES
from phasegraph.pipeline import FusionPipeline, Shortlist, fit_confidence, fit_min_agreement, without_rescorer
from phasegraph.priors import Context
from phasegraph.ranking import RERANK, Ranking, SourceReport, Status, by_fields, top_order
from phasegraph.result import Inspection, Result
from phasegraph.retrieval.identity import FirstMeetings, hits_of, join_by_text
from phasegraph.retrieval.reading import HitAccess
from phasegraph.retrieval.rewriting import Rewriting, combined, read_texts, rewritten
from phasegraph.retrieval.routing import Routed, read_route
from phasegraph.retrieval.source_config import (
    PIPELINE,
    SourceSpec,
    check_fingerprints,
    check_names,
    check_no_exact_match,
    check_weights,
    declared_dependencies,
    fingerprints,
    read_pipeline,
)
from phasegraph.retrieval.stages import (
    Passage,
    StageAdapter,
    Stages,
    read_grade,
    read_ranking,
)
from phasegraph.retrieval.steps import StageReport, StageStatus, Step
from phasegraph.selection import SelectionPolicy
from phasegraph.sources.gatherer import Gathered, Gatherer
from phasegraph.sources.protocol import AnySource, CallableSource, Upstream, best_hits
from phasegraph.sources.workers import Late, awithin, outcome_of, pool, within

Accept: TypeAlias = AcceptancePolicy | Confidence | Mapping[str, Threshold | float]
Sources: TypeAlias = Mapping[str, AnySource]
ASSUMED_SIZE = 1_000_000
_SOURCE_OF, _IDS_OF, _WORDS_OF = attrgetter("source"), attrgetter("ids"), attrgetter("words")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a retriever's constructor was given besides a pipeline; it wins over one that is loaded later."""

    k: int | None = None
    weights: Mapping[str, float] | None = None
    accept: AcceptancePolicy | None = None
    selection: SelectionPolicy | None = None
    strict: bool = False

    __reduce__ = by_fields

    def on(self, pipeline: FusionPipeline) -> FusionPipeline:
        """The pipeline with what was given in place of its own."""
        given = {name: getattr(self, name) for name in ("k", "weights", "accept", "selection")}
        changes = {name: value for name, value in given.items() if value is not None}
        if self.strict:
            changes["strict"] = True
        return replace(pipeline, **changes) if changes else pipeline


_FIRST_ANSWERS = 3


class FirstAnswers:
    """Watches the first answers of each source that has a threshold, and warns where none of its hits passed it.

    Examples
    --------
    >>> watch = FirstAnswers()
    >>> watch.see(AcceptancePolicy({"v": 0.5}), [Ranking("v", ["a"], [0.1])])  # the first of three
    """

    __slots__ = ("_rejected",)

    def __init__(self) -> None:
        self._rejected: dict[str, int | None] = {}

    def see(self, policy: AcceptancePolicy, rankings: Sequence[Ranking]) -> None:
        """Count the answer of each source, until a hit passes or three answers held none that did."""
        for ranking in rankings:
            count, threshold = self._rejected.get(ranking.source, 0), policy.threshold_of(ranking)
            if count is None or threshold is None or not len(ranking):
                continue
            best = float(ranking.scores[0])
            count = None if threshold.accepts(best) else count + 1
            self._rejected[ranking.source] = None if count == _FIRST_ANSWERS else count
            if count == _FIRST_ANSWERS:
                nearest = best if ranking.raw is None or ranking.rank_only else float(ranking.raw[0])
                bound = f"at most {-threshold.value:g}" if ranking.distances else f"at least {threshold.value:g}"
                text = (
                    f"the threshold of {ranking.source!r} rejected everything that it returned in its first {count} "
                    f"answers: it accepts {bound}, and its best hit has {nearest:g}"
                )
                warn(text, stacklevel=5)


_NO_WEIGHT = 0.05


class Unheard:
    """Watches for a source that the weights leave next to nothing for want of shared ids; warns once per change.

    Examples
    --------
    >>> FusionPipeline().decide([Ranking("v", ["a"], [0.1])]).weights.tolist()  # a source alone is always heard
    [1.0]
    """

    __slots__ = ("_in_a_row",)

    def __init__(self) -> None:
        self._in_a_row: dict[str, int] = {}

    def see(self, result: Result | Shortlist) -> None:
        """Count answers in a row in which a source has less than .05 and no hit that another one has."""
        rankings = result.candidates.rankings
        for ranking, weight in zip(rankings, result.weights.tolist(), strict=True):
            name, before = ranking.source, self._in_a_row.get(ranking.source, 0)
            own = frozenset(ranking.ids) if weight < _NO_WEIGHT else None
            if own is not None and all(one is ranking or own.isdisjoint(one.ids) for one in rankings):
                self._in_a_row[name] = before + 1
                if before + 1 == _FIRST_ANSWERS:
                    warn(
                        f"source {name!r} counts for nothing (weight {weight:.2g}): in {_FIRST_ANSWERS} answers in a "
                        "row no other source returned an id that it returned. Give the sources one corpus and one kind "
                        "of ids (fields=HitFields(id=...)), or weights=",
                        stacklevel=5,
                    )
            elif before:
                self._in_a_row[name] = 0
                if before >= _FIRST_ANSWERS:
                    warn(f"source {name!r} counts again (weight {weight:.2g})", stacklevel=5)


_MANY_HITS, _HASTY_HITS, _MOST_STEPS = 10_000, 1_000, 256
IN_HASTE = (
    "deciding was not ready in time: priors, the query's words and hits beyond the best "
    f"{_HASTY_HITS:,} of each source were left out"
)


class Haste:
    """Steps that must not hold an answer up: how many go on, and whether the last answer went without one.

    Examples
    --------
    >>> Haste().bounded(lambda: 3)()
    3
    """

    __slots__ = ("_late", "_lock", "_outstanding")

    def __init__(self) -> None:
        self._late = False
        self._lock = fork_safe_lock()
        self._outstanding = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return Haste, ()

    def see(self, late: bool) -> None:
        """Warn where answers begin to go without what was late, or no longer do."""
        if late is not self._late:
            self._late = late
            said = f"{IN_HASTE}. Raise timeout=, or limit= what sources return" if late else "deciding is in time again"
            warn(said, stacklevel=5)

    def bounded(self, function: Callable[[], Item]) -> Callable[[], Item]:
        """The step, counted until it ends; Late where 256 go on already, most of which nobody waits for any more."""
        with self._lock:
            if self._outstanding >= _MOST_STEPS:
                raise Late
            self._outstanding += 1

        def step() -> Item:
            try:
                return function()
            finally:
                with self._lock:
                    self._outstanding -= 1

        return step


@dataclass(frozen=True, slots=True)
class FusionEngine:
    """Settled settings of one fusing retriever, and its calls.

    `base` is the pipeline as it was given, loaded or fitted; `pipeline`, with what the constructor was given, is what
    decides. A call asks the sources of `asked`: weight above 0, or depended on by one that is. `mismatched` says by
    source what to note of a calibrator that was fitted to scores of something else; `access` looks into the
    framework's own hits. `watch`, `meetings`, `unheard` and `haste` warn, and remember that they did; `stages` route,
    rerank and correct.

    >>> from phasegraph.sources import CallableSource
    >>> engine = FusionEngine.of({"v": SourceSpec(retriever=None)})
    >>> source = CallableSource("v", lambda query, limit: [("a", 2.0)])
    >>> engine.retrieve("who?", {"v": source}, k=1)[0].ids
    ('a',)
    """

    specs: Mapping[str, SourceSpec]
    gatherer: Gatherer
    base: FusionPipeline
    pipeline: FusionPipeline
    chosen: Chosen
    access: HitAccess
    asked: tuple[str, ...]
    mismatched: Mapping[str, str] = field(default_factory=dict)
    watch: FirstAnswers = field(default_factory=FirstAnswers, repr=False, compare=False)
    meetings: FirstMeetings = field(default_factory=FirstMeetings, repr=False, compare=False)
    unheard: Unheard = field(default_factory=Unheard, repr=False, compare=False)
    haste: Haste = field(default_factory=Haste, repr=False, compare=False)
    stages: Stages | None = None
    rewritings: Mapping[str, Rewriting] = field(default_factory=dict)

    __reduce__ = by_fields

    @classmethod
    def of(
        cls,
        specs: Mapping[str, SourceSpec],
        *,
        k: int | None = None,
        weights: object = None,
        accept: Accept | None = None,
        selection: SelectionPolicy | str | None = None,
        pipeline: FusionPipeline | str | os.PathLike[str] | None = None,
        limit: int | None = 50,
        timeout: float | None = 10.0,
        strict: bool = False,
        max_query_length: int | None = LONGEST_QUERY,
        access: HitAccess | None = None,
        route: Any = None,
        rerank: Any = None,
        corrective: Any = None,
        adapter: StageAdapter | None = None,
    ) -> FusionEngine:
        """The engine of a retriever's arguments, or an error that names the argument."""
        given = {"weights": weights, "accept": accept, "selection": selection}
        twice = [name for name, value in given.items() if pipeline is not None and value is not None]
        if twice:
            raise InvalidInputError(
                f"{twice[0]}= and pipeline= cannot both be given: leave one out, or put it into the pipeline: "
                f"dataclasses.replace(pipeline, {twice[0]}=...)"
            )
        settings = {
            name: spec.settings(limit, declared_dependencies(name, spec, specs)) for name, spec in specs.items()
        }
        checked = check_weights(weights, specs)
        if checked is not None and pipeline is not None:
            raise InvalidInputError("SourceSpec.weight and pipeline= cannot both give the weights: leave one out")
        adapts = StageAdapter() if adapter is None else adapter
        stages = Stages.of(route, rerank, corrective, adapts)
        found = {name: spec.rewriting(name, limit, max_query_length, adapts.rewriter) for name, spec in specs.items()}
        known = specs if rerank is None else (*specs, RERANK)
        chosen = Chosen(k, checked, _policy(accept, known), _selection(selection), strict)
        gatherer = Gatherer(settings, timeout=timeout, strict=strict, max_query_length=max_query_length)
        base = FusionPipeline() if pipeline is None else read_pipeline(pipeline)
        normal_quantile(np.array([0.5]))  # loads now what the first answer would wait for
        bare = cls(
            specs, gatherer, base, base, chosen, HitAccess() if access is None else access, (), stages=stages,
            rewritings={name: one for name, one in found.items() if one is not None},
        )  # fmt: skip
        return bare.with_pipeline(base)

    def with_pipeline(self, pipeline: FusionPipeline) -> FusionEngine:
        """The same engine, deciding by another pipeline; what the constructor was given stays in force."""
        decides = self.chosen.on(pipeline)
        check_names(decides, self.specs, reranks=self.stages is not None and self.stages.rerank is not None)
        self.access.check(decides)
        asked = _asked(self.gatherer, decides)
        return replace(
            self, base=pipeline, pipeline=decides, asked=asked, mismatched=check_fingerprints(decides, self.specs),
            watch=FirstAnswers(),
        )  # fmt: skip

    def with_k(self, k: int | None) -> FusionEngine:
        """The same engine with another number of results, as if the constructor had been given it."""
        chosen = replace(self.chosen, k=k)
        return replace(self, chosen=chosen, pipeline=chosen.on(self.base))

    def retrieve(self, query: str, sources: Sources, *, k: int | None = None, read: bool = False) -> Answer:
        """Ask the `sources`, those of `asked` bound to this call, and decide: a result, and a `SelectedHit` for each.

        If `read`, the hits are read for the query's words even where only the confidence of the result needs them.
        """
        if self.stages is not None or self.rewritings:
            return _played(self._flow(query, sources, k, read))
        begun = monotonic()
        found = self.gatherer.gather(sources, query)
        read = read or needs_words(self.pipeline, found.rankings)
        make = partial(self._shortlist, query, found, k, read)
        left = self._left(begun) if self._may_be_late(found, read) else None
        late = False
        try:
            shortlist, rankings = make() if left is None else within(self.haste.bounded(make), left)
        except Late:
            late, (shortlist, rankings) = True, self._in_haste(query, found, k)
        left = None if shortlist.pipeline.selection is None else self._left(begun)
        decide = partial(self._decide, shortlist, rankings)
        try:
            result = decide() if left is None else within(self.haste.bounded(decide), left)
        except Late:
            result = self._unselected(shortlist)
        return self._selected(self._told(result, late))

    async def aretrieve(self, query: str, sources: Sources, *, k: int | None = None, read: bool = False) -> Answer:
        """As :meth:`retrieve`, on the caller's event loop."""
        if self.stages is not None or self.rewritings:
            return await _aplayed(self._flow(query, sources, k, read))
        begun = monotonic()
        found = await self.gatherer.agather(sources, query)
        read = read or needs_words(self.pipeline, found.rankings)
        make = partial(self._shortlist, query, found, k, read)
        left = self._left(begun) if self._may_be_late(found, read) else None
        late = False
        try:
            shortlist, rankings = make() if left is None else await awithin(self.haste.bounded(make), left)
        except Late:
            late, (shortlist, rankings) = True, self._in_haste(query, found, k)
        wanted = shortlist.to_embed
        outcome: Exception | ArrayLike | None = None
        if wanted:
            left = self._left(begun)
            try:
                outcome = await self.access.avectors(wanted, rankings, None if left is None else max(0.0, left))
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - the result says that the selection failed
                outcome = error
        left = None if shortlist.pipeline.selection is None else self._left(begun)
        decide = partial(shortlist.decide, None if outcome is None else lambda _: _raised(outcome))
        try:
            result = decide() if left is None else await awithin(self.haste.bounded(decide), left)
        except Late:
            result = self._unselected(shortlist)
        return self._selected(self._told(result, late))

    def _left(self, begun: float) -> float | None:
        """Seconds until the call must return, perhaps below 0; None where it need not."""
        limit = self.gatherer.timeout
        return None if limit is None else limit - (monotonic() - begun)

    def _may_be_late(self, found: Gathered, read: bool) -> bool:
        """Whether deciding may take long: it runs code of the user's, or looks at very many hits or much text."""
        pipeline, rankings = self.pipeline, found.rankings
        if pipeline.priors or (pipeline.accept is not None and callable(pipeline.accept.on_empty)):
            return True
        return read or sum(map(len, map(_IDS_OF, rankings))) > _MANY_HITS

    def _in_haste(self, query: str, found: Gathered, k: int | None) -> tuple[Shortlist, Sequence[Ranking]]:
        """The shortlist of the best hits of each source, by their scores alone."""
        changes: dict[str, Any] = {"priors": ()}
        accept = self.pipeline.accept
        if accept is not None and callable(accept.on_empty):
            changes["accept"] = replace(accept, on_empty="abstain")
        if k is not None:
            changes["k"] = k
        rankings = [one if len(one) <= _HASTY_HITS else best_hits(one, _HASTY_HITS) for one in found.rankings]
        reports = self._noted(found.reports)
        made = replace(self.pipeline, **changes).shortlist(rankings, Context(query=query), reports=reports)
        return replace(made, degraded=True), rankings

    def _decide(self, shortlist: Shortlist, rankings: Sequence[Ranking]) -> Result:
        if not shortlist.to_embed:
            return shortlist.decide()
        return shortlist.decide(lambda ids: self.access.vectors(ids, rankings))

    def _unselected(self, shortlist: Shortlist) -> Result:
        """The answer in the fused order, where the selection was late."""
        policy = shortlist.pipeline.selection
        said = f"selection by {policy.method if policy else ''} was not ready in time, the order is the fused one"
        if self.pipeline.strict:
            raise DegradedError(f"strict=True accepts no degradation; got {said}")
        plain = SelectionPolicy("top") if policy is None else SelectionPolicy("top", budget=policy.budget)
        pipeline = replace(shortlist.pipeline, selection=plain)
        result = replace(shortlist, pipeline=pipeline).decide()
        return replace(result, warnings=(*result.warnings, said))

    def _told(self, result: Result, late: bool) -> Result:
        """The result, which says where it was made in haste; warned about once, until one is in time again."""
        self.haste.see(late)
        if not late:
            return result
        if self.pipeline.strict:
            raise DegradedError(f"strict=True accepts no degradation; got {IN_HASTE}")
        return replace(result, warnings=(*result.warnings, IN_HASTE))

    def inspect(self, query: str, result: Result) -> Inspection:
        """An answer of :meth:`retrieve` with all its candidates, fused again as they were; no source is asked."""
        rankings = result.candidates.rankings
        rerank = None if self.stages is None else self.stages.rerank
        context = replace(self.access.context(query), words=self.access.words(query, rankings))
        if rerank is not None:
            context = replace(context, blend=rerank.blend)
        plain = replace(self.pipeline, accept=None, selection=None, strict=False)
        return Inspection(
            query, result, plain.decide(rankings, context, reports=result.reports, k=len(result.candidates))
        )

    @property
    def staged(self) -> bool:
        """Whether a call does more than ask and decide."""
        return self.stages is not None or bool(self.rewritings)

    def rewriting(self, sources: Sources, due: float | None) -> Sources:
        """The sources of one call, those whose queries are rewritten doing that first."""
        if not self.rewritings:
            return sources
        how = self.rewritings
        return {
            name: rewritten(name, source, how[name], due) if name in how else source for name, source in sources.items()
        }

    def _flow(self, query: str, sources: Sources, k: int | None, read: bool) -> Flow[Answer]:
        """A call with its stages; yields what has to be waited for."""
        stages = self.stages or _NO_STAGES
        clock = _Clock(self.gatherer.timeout)
        sources = self.rewriting(sources, clock.due)
        told: list[StageReport] = []
        routed, found = yield from self._routed(query, sources, stages, clock, told)
        pipeline = self.pipeline
        given = {} if routed is None else {name: one for name, one in routed.items() if one is not None}
        if given:
            pipeline = replace(pipeline, weights=dict.fromkeys(self.specs, 0.0) | given)
        wanted = None if k == pipeline.k else k
        read = read or needs_words(self.pipeline, found.rankings)
        make = partial(self._ready, query, found, read, routed, pipeline, wanted)
        late, guarded = False, self._may_be_late(found, read)
        try:
            rankings, context, reports, shortlist = (yield self._in_time(make, clock)) if guarded else make()
        except Late:
            late, (shortlist, rankings) = True, self._in_haste(query, found, wanted)
            context, reports = Context(query=query), shortlist.reports
        if pipeline.weights is None:
            self.unheard.see(shortlist)
        rerank = stages.rerank
        if rerank is not None and len(shortlist.candidates) and (rerank.blend > 0 or _thresholds(pipeline, RERANK)):
            passages = self._passages(shortlist, rankings, rerank.depth)
            judged, report = yield from self._reranked(query, passages, stages, clock, told)
            remake = partial(
                shortlist.pipeline.shortlist, rankings if judged is None else [*rankings, judged],
                replace(context, blend=rerank.blend), reports=(*reports, report), k=wanted,
            )  # fmt: skip
            try:
                shortlist = (yield self._in_time(remake, clock)) if guarded else remake()
            except Late:
                late = True
        result = self._told((yield from self._decided(shortlist, rankings, clock)), late)
        if stages.corrective is not None:
            first = result, rankings, reports

            def again(text: str, action: str) -> Flow[Result | None]:
                return self._asked_again(text, action, first, sources, (pipeline, wanted, read, routed), clock)

            result = yield from self._corrected(query, result, stages, clock, told, again)
        for name in sources:
            told[:0] = getattr(sources[name], "reports", ())
        if self.pipeline.strict and (bad := [one for one in told if one.status != "ok"]):
            listed = "; ".join(f"{one.stage} {one.status} ({one.reason})" for one in bad)
            raise DegradedError(f"strict=True accepts no degradation; got {listed}")
        said = tuple(_said_of(one) for one in told if one.status != "ok")
        result = replace(result, extras={**result.extras, "stages": tuple(told)}, warnings=(*result.warnings, *said))
        hits = select_hits(result, self.access.text)
        result = with_text_warnings(result, hits)
        for step in (*stages.steps, *(one.step for one in self.rewritings.values())):
            step.announce()
        return result, hits

    def _routed(
        self, query: str, sources: Sources, stages: Stages, clock: _Clock, told: list[StageReport]
    ) -> Flow[tuple[Routed | None, Gathered]]:
        """What the router chose, None where all are asked, and what the sources answered."""
        if stages.route is None:
            return None, (yield self._gathering(sources, query, clock))
        step, arguments, answered = stages.route.step, [query], None
        routed: Routed | None = None
        if stages.route.reads_ranking:
            first = "vector" if "vector" in sources else min(sources)
            ahead = _Ahead({name: sources[name] for name in (first, *self._needs(first))})
            try:
                answered = yield ahead.begun(self.gatherer, query, clock)
                ranking = next((one for one in answered.rankings if one.source == first), None)
            except AllSourcesFailed:
                ranking = None
            except Late:
                ranking, sources = None, {**sources, **ahead.under_way}
            if ranking is None:
                told.append(StageReport("route", "skipped", f"{first!r} gave no ranking to route by"))
                try:
                    return None, (yield self._gathering(sources, query, clock))
                finally:
                    ahead.give_up()
            arguments.append(ranking)
        tried = yield _trying(step, arguments, clock.left(_HALF), lambda answer: self._read_route(answer, sources))
        routed = tried.value
        detail = {} if routed is None else {"weights": dict(routed)}
        told.append(StageReport("route", tried.status, tried.reason, tried.milliseconds, detail=detail))
        wanted = sources.keys() if routed is None else {name for one in routed for name in (one, *self._needs(one))}
        asked: dict[str, AnySource] = {name: sources[name] for name in wanted}
        for one in () if answered is None else answered.rankings:
            if one.source in asked:  # the answer it gave for the router
                asked[one.source] = CallableSource(one.source, _Given(one))
        found = yield self._gathering(asked, query, clock)
        before = {} if answered is None else {one.source: one for one in answered.reports if one.hits}
        reports = tuple(before.pop(one.source, one) for one in found.reports)
        return routed, replace(found, reports=tuple(sorted((*reports, *before.values()), key=_SOURCE_OF)))

    def _read_route(self, answer: object, sources: Sources) -> Routed:
        found = read_route(sources, answer)
        weights = self.pipeline.weights
        if weights is not None and all(one is None for one in found.values()) and not any(map(weights.get, found)):
            raise InvalidInputError("a router must name a source whose weight is not 0")
        return found

    def _needs(self, name: str) -> list[str]:
        """What a source depends on, and what that does."""
        found = list(self.gatherer.settings[name].depends_on)
        for one in found:
            found.extend(other for other in self.gatherer.settings[one].depends_on if other not in found)
        return found

    def _gathering(self, sources: Sources, query: str, clock: _Clock) -> Request:
        gatherer, seconds = self.gatherer, clock.left()
        return (
            lambda: gatherer.gather(sources, query, seconds=seconds),
            lambda: gatherer.agather(sources, query, seconds=seconds),
        )

    def _passages(self, shortlist: Shortlist, rankings: Sequence[Ranking], depth: int) -> list[Passage]:
        """The best fused candidates as a model reads them."""
        rerank = (self.stages or _NO_STAGES).rerank
        ids = [shortlist.candidates.ids[row] for row in top_order(shortlist.final, shortlist.candidates.ids, depth)]
        return [] if rerank is None else rerank.texts(ids, rankings, self.access)

    def _reranked(
        self, query: str, passages: Sequence[Passage], stages: Stages, clock: _Clock, told: list[StageReport]
    ) -> Flow[tuple[Ranking | None, SourceReport]]:
        """The reranker's ranking, None where it failed, and its report."""
        step: Any = stages.reranker
        given = list(passages) if stages.reads_hits else [one.text for one in passages]
        tried = yield _trying(step, (query, given), clock.left(), lambda answer: read_ranking(passages, answer))
        judged: Ranking | None = tried.value
        blend = 1.0 if stages.rerank is None else stages.rerank.blend
        detail = {} if judged is None else {"judged": len(judged), "of": len(passages), "blend": blend}
        status, reason = _STATUS_OF[tried.status], tried.reason
        if judged is not None and not len(judged):
            status, reason = "empty", f"it kept none of {len(passages)}: the order is the fused one"
        told.append(StageReport("rerank", tried.status, reason, tried.milliseconds, detail=detail))
        error = "" if tried.error is None else type(tried.error).__name__
        return judged, SourceReport(
            RERANK, status, reason, error, tried.milliseconds, 0 if judged is None else len(judged),
            0 if judged is None else judged.dropped,
        )  # fmt: skip

    def _decided(self, shortlist: Shortlist, rankings: Sequence[Ranking], clock: _Clock) -> Flow[Result]:
        """The result of a shortlist, with embeddings where its selection needs them."""
        wanted = shortlist.to_embed
        access, seconds = self.access, clock.left()
        outcome: Exception | ArrayLike | None = None
        if wanted:
            embed = partial(access.vectors, wanted, rankings)
            try:
                outcome = yield (
                    embed if seconds is None else lambda: within(self.haste.bounded(embed), seconds),
                    lambda: access.avectors(wanted, rankings, seconds),
                )
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001 - the result says that the selection failed
                outcome = error
        decide = partial(shortlist.decide, None if outcome is None else lambda _: _raised(outcome))
        if shortlist.pipeline.selection is None:
            return decide()
        try:
            result: Result = yield self._in_time(decide, clock)
        except Late:
            return self._unselected(shortlist)
        return result

    def _in_time(self, function: Callable[[], Any], clock: _Clock) -> Request:
        """A step of deciding that may take long; Late where it takes longer than is left."""
        left, bounded = clock.left(), self.haste.bounded
        if left is None:
            return function, partial(_now, function)
        return lambda: within(bounded(function), left), lambda: awithin(bounded(function), left)

    def _corrected(
        self,
        query: str,
        result: Result,
        stages: Stages,
        clock: _Clock,
        told: list[StageReport],
        again: Callable[[str, str], Flow[Result | None]],
    ) -> Flow[Result]:
        """The result, or what came of asking once more."""
        corrective: Any = stages.corrective
        detail: dict[str, object] = {"action": "kept"}
        begun = monotonic()

        def tell(status: StageStatus = "ok", reason: str = "") -> None:
            told.append(StageReport("correct", status, reason, (monotonic() - begun) * 1000.0, detail=detail))

        action = "replaced"
        if len(result):
            if stages.grader is None:
                tell()
                return result
            texts = corrective.graded(self.access.texts(result.ids, result.candidates.rankings))
            tried = yield _trying(stages.grader, (query, texts), clock.left(_HALF), read_grade)
            if tried.error is not None:
                tell(tried.status, tried.reason)
                return result
            detail["grade"] = tried.value
            action = corrective.action(tried.value)
            if action == "kept":
                tell()
                return result
        step: Any = stages.rewriter
        tried = yield _trying(step, (query,), clock.left(_HALF), read_texts)
        if tried.error is not None:
            tell(tried.status, tried.reason)
            return result
        text = tried.value[0]
        detail["texts"] = (text,)
        left = clock.left()
        if left is not None and left < _LEAST_SECONDS:
            tell("late", "no time was left to ask again")
            return result
        try:
            second = yield from again(text, action)
        except (AllSourcesFailed, InvalidInputError) as error:
            tell("failed", type(error).__name__)
            return result
        except Late:
            tell("late", "the second answer was not ready in time")
            return result
        if second is None or not len(second):
            tell("ok", "the second answer is empty")
            return result
        detail["action"] = action
        tell()
        return second

    def _asked_again(
        self,
        text: str,
        action: str,
        first: tuple[Result, Sequence[Ranking], Sequence[SourceReport]],
        sources: Sources,
        how: tuple[FusionPipeline, int | None, bool, Routed | None],
        clock: _Clock,
    ) -> Flow[Result | None]:
        """The answer to a rewritten query, alone or over the hits of both."""
        pipeline, wanted, read, routed = how
        asked = {one.source: sources[one.source] for one in first[2] if one.source in sources}
        found = yield self._gathering(asked, text, clock)

        looks = read or needs_words(self.pipeline, found.rankings)

        def make() -> tuple[Shortlist, Sequence[Ranking]]:
            rankings, context, reports = self._read(text, found, looks, routed)
            if action == "merged":
                before = {one.source: one for one in first[1]}
                now = {one.source: one for one in rankings}
                rankings = [
                    combined(name, [lists[name] for lists in (before, now) if name in lists], "union")
                    for name in sorted(before | now)
                ]
            return pipeline.shortlist(rankings, context, reports=reports, k=wanted), rankings

        shortlist, rankings = (yield self._in_time(make, clock)) if self._may_be_late(found, looks) else make()
        return (yield from self._decided(shortlist, rankings, clock))

    def _read(
        self, query: str, found: Gathered, read: bool, routed: Routed | None
    ) -> tuple[Sequence[Ranking], Context, tuple[SourceReport, ...]]:
        """What deciding reads: the rankings that are fused, the context, and the reports."""
        rankings: Sequence[Ranking]
        rankings, parted = self.meetings.part(found.rankings, self.access.text)
        rankings, joined = join_by_text(rankings, self.access.text)
        self.meetings.see(rankings, self.access.text)
        reports = self._noted(found.reports, parted, joined)
        if routed is not None:
            rankings = [one for one in rankings if one.source in routed]
        context = self.access.context(query)
        if read:
            context = replace(context, words=self.access.words(query, rankings))
        if self.pipeline.accept is not None:
            self.watch.see(self.pipeline.accept, rankings)
        return rankings, context, reports

    def _ready(
        self,
        query: str,
        found: Gathered,
        read: bool,
        routed: Routed | None,
        pipeline: FusionPipeline,
        k: int | None,
    ) -> tuple[Sequence[Ranking], Context, tuple[SourceReport, ...], Shortlist]:
        """What deciding reads, and the shortlist of it."""
        rankings, context, reports = self._read(query, found, read, routed)
        return rankings, context, reports, pipeline.shortlist(rankings, context, reports=reports, k=k)

    def _shortlist(self, query: str, found: Gathered, k: int | None, read: bool) -> tuple[Shortlist, Sequence[Ranking]]:
        rankings, context, reports = self._read(query, found, read, None)
        wanted = None if k == self.pipeline.k else k  # varying the pipeline is not free
        return self.pipeline.shortlist(rankings, context, reports=reports, k=wanted), rankings

    def _noted(self, reports: tuple[SourceReport, ...], *said: Mapping[str, Sequence[str]]) -> tuple[SourceReport, ...]:
        """The reports, with what was seen of their sources beside what those noted themselves."""
        if not self.mismatched and not any(said):
            return reports
        return with_notes(reports, _both(*said) if said else {}, self.mismatched)

    def _selected(self, result: Result) -> Answer:
        if self.pipeline.weights is None:
            self.unheard.see(result)
        hits = select_hits(result, self.access.text)
        return with_text_warnings(result, hits), hits

    def fit(
        self,
        answers: Sequence[tuple[str, Sequence[Ranking]]],
        relevant: Mapping[str, Collection[str]] | None = None,
    ) -> FusionEngine:
        """The same engine with what can be fitted: reference calibrators, how far sources agree, the confidence.

        `relevant`, ids by query, shows that no source is read the wrong way round, and makes the confidence a
        probability.
        """
        if relevant is not None:
            check_orientations(answers, relevant)
        calibrators = fit_calibrators(
            [ranking for _, rankings in answers for ranking in rankings],
            {name: spec.fields.size for name, spec in self.specs.items()},
            sources=self.asked,
            least=LEAST_QUERIES,
            strict=self.pipeline.strict,
            normal_scores=FUSION_RULES[self.pipeline.rule].calibrator not in ("min_max", "percentile"),
            fingerprints=fingerprints(self.specs),
        )
        floors = fit_min_agreement([rankings for _, rankings in answers], self.pipeline)
        fitted = {**self.base.calibrators, **calibrators}
        confidence = fit_confidence(answers, self.pipeline, self.access.words, relevant)
        base = without_rescorer(self.base, strict=self.pipeline.strict)
        return self.with_pipeline(replace(base, calibrators=fitted, min_agreement=floors, confidence=confidence))


Request: TypeAlias = tuple[Callable[[], Any], Callable[[], Awaitable[Any]]]
Flow: TypeAlias = Generator[Request, Any, Item]
"""A call with stages: it yields what has to be waited for, as a plain function and as one that is awaited."""
_NO_STAGES = Stages()
_HALF = 0.5
_GRACE = 0.25
_LEAST_SECONDS = 0.01
"""Below it nobody is asked: sources would be taken for late ones."""
_STATUS_OF: Mapping[StageStatus, Status] = {"ok": "ok", "failed": "error", "late": "timeout", "skipped": "skipped"}


class _Clock:
    """What is left of a call's time."""

    __slots__ = ("due",)

    def __init__(self, seconds: float | None) -> None:
        self.due = None if seconds is None else monotonic() + seconds

    def left(self, share: float = 1.0) -> float | None:
        """Seconds, or a share of them; None where there is no end."""
        return None if self.due is None else max((self.due - monotonic()) * share, 1e-3)


@dataclass(frozen=True, slots=True)
class _Given:
    """An answer that is there already, as a source's function."""

    ranking: Ranking

    def __call__(self, query: str, limit: int | None) -> Ranking:
        return self.ranking


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A source that gives what one that was asked before will answer."""

    source: AnySource
    answer: Callable[[], Any]

    @property
    def notes(self) -> Sequence[str]:
        return getattr(self.source, "notes", ())

    def search(self, query: str, limit: int | None, upstream: Upstream) -> Any:
        return self.answer()


class _Ahead:
    """Sources that are asked before the others; where they are late, their answer is waited for beside those."""

    __slots__ = ("_outcome", "_sources", "_task")

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._outcome: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._task: asyncio.Task[Gathered] | None = None

    def begun(self, gatherer: Gatherer, query: str, clock: _Clock) -> Request:
        """What they answered; Late where that takes more than half of the time, and then they go on."""
        sources, left, half = self._sources, clock.left(), clock.left(_HALF)
        seconds = None if left is None else left + _GRACE  # it is the others' call that says they are late

        def begin() -> Gathered:
            gather = partial(gatherer.gather, sources, query, seconds=seconds)
            if half is None:
                return gather()
            context = copy_context()
            pool().submit(lambda given: context.run(outcome_of, given), lambda _, one: self._outcome.put(one), gather)
            return self._found(half)

        async def abegin() -> Gathered:
            self._task = asyncio.create_task(gatherer.agather(sources, query, seconds=seconds))
            self._task.add_done_callback(self._ended)
            try:
                done, _ = await asyncio.wait({self._task}, timeout=half)
            except asyncio.CancelledError:
                self.give_up()
                raise
            if not done:
                raise Late
            return self._task.result()

        return begin, abegin

    def _ended(self, task: asyncio.Task[Gathered]) -> None:
        if task.cancelled():
            self._outcome.put((None, Late()))
        else:
            error = task.exception()
            self._outcome.put((None if error is not None else task.result(), error))

    def _found(self, seconds: float | None = None) -> Gathered:
        try:
            outcome = self._outcome.get(timeout=seconds)
        except Empty:
            raise Late from None
        self._outcome.put(outcome)
        found, error = outcome
        if error is not None:
            raise error
        answer: Gathered = found
        return answer

    @property
    def under_way(self) -> Sources:
        """Sources that give what these will answer."""
        return {name: _UnderWay(source, partial(self._answer, name)) for name, source in self._sources.items()}

    def _answer(self, name: str) -> Any:
        try:
            found = self._found()
        except AllSourcesFailed as error:
            raise error.causes[name] from None
        if name in found.causes:
            raise found.causes[name]
        return next((one for one in found.rankings if one.source == name), ())

    def give_up(self) -> None:
        """Leave no task behind."""
        if self._task is not None:
            self._task.cancel()


async def _now(function: Callable[[], Item]) -> Item:
    return function()


def _trying(step: Step, arguments: Sequence[Any], seconds: float | None, read: Callable[[Any], Any]) -> Request:
    return lambda: step.run(arguments, seconds, read), lambda: step.arun(arguments, seconds, read)


def _played(flow: Flow[Item]) -> Item:
    """What a flow returns, its requests waited for here."""
    error: Exception | None = None
    outcome: Any = None
    try:
        while True:
            request = flow.send(outcome) if error is None else flow.throw(error)
            try:
                outcome, error = request[0](), None
            except Exception as raised:  # noqa: BLE001 - the flow contains it or raises it
                outcome, error = None, raised
    except StopIteration as done:
        made: Item = done.value
        return made
    finally:
        flow.close()  # whatever ends the call, what it has begun is given up now


async def _aplayed(flow: Flow[Item]) -> Item:
    """As :func:`_played`, awaiting."""
    error: Exception | None = None
    outcome: Any = None
    try:
        while True:
            request = flow.send(outcome) if error is None else flow.throw(error)
            try:
                outcome, error = await request[1](), None
            except Exception as raised:  # noqa: BLE001 - the flow contains it or raises it
                outcome, error = None, raised
    except StopIteration as done:
        made: Item = done.value
        return made
    finally:
        flow.close()  # whatever ends the call, what it has begun is given up now


def _said_of(report: StageReport) -> str:
    where = f" of {report.source!r}" if report.source else ""
    return f"{report.stage}{where} {report.status}: {report.reason}"


def _thresholds(pipeline: FusionPipeline, name: str) -> bool:
    return pipeline.accept is not None and name in pipeline.accept.thresholds


def needs_words(pipeline: FusionPipeline, rankings: Iterable[Ranking]) -> bool:
    """Whether deciding depends on the query's words in the hits, which cost more to read than all the rest."""
    if pipeline.accept is not None and pipeline.accept.confidence is not None:
        return True
    return next(filter(None, map(_WORDS_OF, rankings)), None) is not None


@dataclass(slots=True)
class SelectedHit:
    """The payload under which a result is returned, None where no source holds one, and what the other sources hold.

    It is that of the heaviest `source` that returned it with a text, ties by name. `others` returned another text
    under the same id; `told` pairs each source with what tells how it found it.
    """

    source: str = ""
    payload: Any = None
    others: tuple[str, ...] = ()
    told: tuple[tuple[str, Callable[[], object]], ...] = ()

    @property
    def evidence(self) -> dict[str, object]:
        """What the sources say of how they found it, by source, worked out when it is read."""
        return {name: tell() for name, tell in self.told}


Answer: TypeAlias = tuple[Result, list[SelectedHit]]


def select_hits(result: Result, text: Callable[[Any], str]) -> list[SelectedHit]:
    """One per id of the result, in order; a payload whose `text` is empty gives way to any other."""
    ids, rankings = result.ids, result.candidates.rankings
    weights = (-result.weights).tolist()
    columns = [rankings[column] for column in sorted(range(len(rankings)), key=weights.__getitem__)]
    hits: list[SelectedHit | None] = [None] * len(ids)
    for one in columns:
        for row, payload in enumerate(hits_of(one.payloads, ids)):
            if payload is None:
                continue
            hit = hits[row]
            if hit is None:
                hits[row] = SelectedHit(one.source, payload)
            elif payload is not hit.payload:
                kept, own = text(hit.payload), text(payload)
                if not kept:
                    hit.source, hit.payload = one.source, payload
                elif own and not (own.endswith(kept) or kept.endswith(own)):
                    hit.others = (*hit.others, one.source)
    found = [SelectedHit() if hit is None else hit for hit in hits]
    for one in columns:
        evidence: Mapping[str, object] = getattr(one.payloads, "evidence", {})
        for identifier, hit in zip(ids, found, strict=True) if evidence else ():
            if identifier in evidence:
                hit.told = (*hit.told, (one.source, partial(evidence.__getitem__, identifier)))
    return found


def without_text(result: Result, hits: Sequence[SelectedHit]) -> str:
    """What to say of results of which no source holds the passage; empty where there is none."""
    missing = {name for name, hit in zip(result.ids, hits, strict=True) if hit.payload is None}
    if not missing:
        return ""
    named = [one.source for one in result.candidates.rankings if not missing.isdisjoint(one.ids)]
    return (
        f"results without a text: {', '.join(map(repr, sorted(named)))} named passages that no source holds; make an "
        "EntityGraphRetriever of a core source, with documents= (LangChain) or nodes= (LlamaIndex), or give "
        "SourceSpec(retriever=..., fields=HitFields(resolve=...))"
    )


def with_text_warnings(result: Result, hits: Sequence[SelectedHit]) -> Result:
    """The result, with a warning for each id under which sources returned different texts, and for those without."""
    for hit in hits:
        if hit.others or hit.payload is None:
            break
    else:
        return result
    found = [
        f"id {identifier!r} has another text in {', '.join(hit.others)} than in {hit.source}, which was kept"
        for identifier, hit in zip(result.ids, hits, strict=True)
        if hit.others
    ]
    said = without_text(result, hits)
    found += [said] if said else []
    return replace(result, warnings=(*result.warnings, *found)) if found else result


def _both(one: Mapping[str, Sequence[str]], other: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Notes of two steps, by source."""
    return {name: [*one.get(name, ()), *other.get(name, ())] for name in sorted({*one, *other})}


def with_notes(
    reports: Sequence[SourceReport], notes: Mapping[str, Sequence[str]], first: Mapping[str, str] = MappingProxyType({})
) -> tuple[SourceReport, ...]:
    """The reports, with what was noted about their sources while they were read, and what comes `first`; by name."""
    return tuple([_noted(one, first.get(one.source, ""), notes.get(one.source, ())) for one in reports])


def _noted(report: SourceReport, first: str, notes: Sequence[str]) -> SourceReport:
    if not first and not any(notes):
        return report
    return SourceReport(
        report.source, report.status, report.reason, report.error_class, report.milliseconds, report.hits,
        report.dropped, report.calibration, report.missing, tuple(filter(None, (first, *report.notes, *notes))),
        report.out_of_range_share,
    )  # fmt: skip


def _raised(outcome: Exception | ArrayLike) -> ArrayLike:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _policy(given: object, sources: Collection[str]) -> AcceptancePolicy | None:
    if given is None:
        return None
    if isinstance(given, Confidence):
        return AcceptancePolicy(confidence=given)
    if not isinstance(given, AcceptancePolicy | Mapping):
        raise InvalidTypeError(
            f"accept must be a mapping of source to threshold, an AcceptancePolicy or a Confidence; got {given!r}"
        )
    policy = given if isinstance(given, AcceptancePolicy) else AcceptancePolicy(given)
    unknown = sorted(set(policy.thresholds) - set(sources))
    if unknown:
        raise InvalidInputError(f"accept must name sources among {list(sources)}; got {unknown}")
    return policy


def _selection(given: object) -> SelectionPolicy | None:
    if given is None or isinstance(given, SelectionPolicy):
        return given
    if not isinstance(given, str):
        raise InvalidTypeError(f"selection must be a SelectionPolicy or the name of a method; got {given!r}")
    return SelectionPolicy(given)  # type: ignore[arg-type]


def _asked(gatherer: Gatherer, pipeline: FusionPipeline) -> tuple[str, ...]:
    weights = pipeline.weights
    wanted = [name for name in gatherer.settings if weights is None or weights[name] > 0]
    if not wanted:
        raise InvalidInputError("weights must not all be 0 for the sources at hand")
    for name in wanted:
        wanted.extend(one for one in gatherer.settings[name].depends_on if one not in wanted)
    return tuple(sorted(wanted))


class Calibrating:
    """Part of a retriever that has an engine: calibrating it, saving and loading what was fitted.

    A retriever inherits it beside its framework's class, keeps its engine in ``_engine`` and binds its sources to a
    query in :meth:`_sources`.
    """

    _engine: FusionEngine

    def calibrate(
        self,
        queries: Sequence[str],
        *,
        relevant: Mapping[str, Collection[str]] | None = None,
        progress: bool = True,
    ) -> Self:
        """Fit each source's reference calibrator, how far sources agree, and the bar of ``Result.confidence``.

        Parameters
        ----------
        queries : sequence of str
            Unlabelled. At least 20 different ones; some hundred are better.
        relevant : mapping of str to collection of str, optional
            By query, the ids that answer it, where some are judged; none where the corpus has no answer. A source whose
            scores fall where relevance rises is refused (distances read as similarities), and with 20 judged queries
            ``Result.confidence`` becomes the probability that the corpus holds an answer, as if it did for every
            second query.
        progress : bool, default True
            Show a bar where standard error is a terminal and tqdm is installed.

        Returns
        -------
        Self
            The retriever, fitted. Sources that state their background or give ranks only are left as they are, and so
            is, with a warning, one that answered fewer than 20 queries or whose scores cannot be fitted, while another
            can.

        Raises
        ------
        InsufficientDataError
            If there are fewer than 20 different queries, or no source can be fitted; nothing is fitted then.
        """
        asked, gatherer = calibration_queries(queries, relevant, progress), self._engine.gatherer
        rewriting = self._engine.rewriting
        answers = [(one, gatherer.gather(rewriting(self._sources(one), None), one).rankings) for one in asked]
        self._engine = self._engine.fit(answers, relevant)
        return self

    async def acalibrate(
        self,
        queries: Sequence[str],
        *,
        relevant: Mapping[str, Collection[str]] | None = None,
        progress: bool = True,
    ) -> Self:
        """As :meth:`calibrate`."""
        asked, gatherer = calibration_queries(queries, relevant, progress), self._engine.gatherer
        rewriting = self._engine.rewriting
        answers = [(one, (await gatherer.agather(rewriting(self._sources(one), None), one)).rankings) for one in asked]
        self._engine = self._engine.fit(answers, relevant)
        return self

    @property
    def fitted_pipeline(self) -> FusionPipeline:
        """The pipeline that decides, with the weights and calibrators in use."""
        return self._engine.pipeline

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted pipeline, weights and number of results included, to one JSON file.

        Into the folder of a retriever that has one, it is taken when that is loaded.
        """
        self._engine.pipeline.save(Path(path) / PIPELINE if Path(path).is_dir() else path)

    def load_pipeline(self, path: str | os.PathLike[str]) -> Self:
        """Take the pipeline that :meth:`save` wrote, or the one in a folder of a retriever.

        IntegrityError if the file is damaged, foreign or newer.

        What the constructor was given (weights, number of results, `accept`, `selection`) wins over the file.
        """
        self._engine = self._engine.with_pipeline(read_pipeline(path))
        return self

    def _sources(self, query: str) -> Sources:
        """The sources of `_engine.asked`, bound to a query of the calibration."""
        raise NotImplementedError


def fit_calibrators(
    rankings: Iterable[Ranking],
    /,
    sizes: Mapping[str, int | None] | None = None,
    *,
    sources: Sequence[str] = (),
    least: int = 1,
    strict: bool = False,
    normal_scores: bool = True,
    fingerprints: Mapping[str, str] | None = None,
) -> dict[str, ReferenceECDF]:
    """A reference calibrator per source, in name order, from rankings of any number of sources and queries.

    `sizes` are those of the collections, where they are known; else what rankings state, else 1,000,000. `sources`
    were asked: one that returned nothing at all is named too. Those that state their background or give ranks only are
    left out: the first need no sample, the second have no scores. So is, with a warning, or a DegradedError if
    `strict`, one that cannot be fitted while another can: it answered fewer than `least` queries, or gave fewer than
    20 scores, or fewer than two different ones; InsufficientDataError where that is every source. `normal_scores` is
    False for percentiles, which rules over [0, 1] want.

    A list of n hits is the top of its source's distribution: the share of the collection that it holds, mean list
    length by size, puts it on the scale of the background calibration (see
    :class:`~phasegraph.calibration.ReferenceECDF`).

    >>> lists = [Ranking("v", [f"p{i}" for i in range(10)], [q - i / 10 for i in range(10)]) for q in range(3)]
    >>> fit_calibrators(lists, {"v": 1000})["v"].fraction
    0.01
    """
    found: dict[str, list[Ranking]] = {}
    silent = set(sources)
    for ranking in rankings:
        silent.discard(ranking.source)
        if len(ranking) and not ranking.rank_only and ranking.background is None:
            found.setdefault(ranking.source, []).append(ranking)
    fitted: dict[str, ReferenceECDF] = {}
    failed = {name: "it returned nothing" for name in sorted(silent)}
    first: tuple[str, InsufficientDataError] | None = None
    for name, lists in sorted(found.items()):
        length = sum(map(len, lists)) / len(lists)
        stated = [one.size for one in lists if one.size is not None and one.size > 0]
        size = (sizes or {}).get(name) or max(stated, default=ASSUMED_SIZE)
        try:
            if len(lists) < least:
                raise InsufficientDataError(f"at least {least} queries with hits are needed; got {len(lists)}")
            made = fit_reference_ecdf(
                [ranking.scores for ranking in lists],
                normal_scores=normal_scores,
                fraction=min(1.0, length / size),
                size=size,
            )
            fitted[name] = replace(made, fingerprint=(fingerprints or {}).get(name, ""))
        except InsufficientDataError as error:
            failed[name] = str(error)
            first = first or (name, error)
    if first is not None and not fitted:
        raise InsufficientDataError(f"source {first[0]!r}: {first[1]}") from first[1]
    if failed:
        listed = "; ".join(f"{name!r}: {failed[name]}" for name in sorted(failed))
        if strict:
            raise DegradedError(f"strict=True wants every source to be fitted; got {listed}")
        warn(f"sources left to calibration by their list alone: {listed}", stacklevel=3)
    return fitted


def with_progress(
    queries: Iterable[Item],
    /,
    show: bool | None,
    *,
    label: str = "calibrate",
    unit: str = "query",
    total: int | None = None,
) -> Iterable[Item]:
    """`queries` (`total` of them), with a bar while they come, if `show` and standard error is a terminal with tqdm."""
    if not show or not sys.stderr.isatty():
        return queries
    try:
        from tqdm import tqdm
    except ImportError:
        return queries
    return cast("Iterable[Item]", tqdm(queries, desc=label, unit=unit, total=total))


def calibration_queries(
    queries: Sequence[str], relevant: Mapping[str, Collection[str]] | None, /, progress: bool | None
) -> Iterable[str]:
    """The queries to calibrate with, both arguments checked before the first is asked, with a bar.

    An error if `queries` is a single text, holds something else than text that is not blank, or fewer than 20
    different ones; if `relevant` is no mapping of some of them to ids.
    """
    if isinstance(queries, str | bytes) or not isinstance(queries, Iterable):
        raise InvalidTypeError(f"queries must be a sequence of texts; got {type(queries).__name__}")
    texts = list(queries)
    for query in texts:
        if not isinstance(query, str):
            raise InvalidTypeError(f"queries must be texts; got {type(query).__name__}")
        if not query.strip():
            raise InvalidInputError("queries must not be blank; got one without a visible character")
    if not texts:
        raise InvalidInputError("queries must hold at least one text; got none")
    unknown = [] if relevant is None else [query for query in check_relevant(relevant) if query not in set(texts)]
    if unknown:
        raise InvalidInputError(f"relevant must name queries among those given; {unknown[0]!r} is not")
    different = len(set(texts))
    if different < LEAST_QUERIES:
        raise InsufficientDataError(
            f"queries must hold at least {LEAST_QUERIES} different questions to calibrate by, and some hundred are "
            f"better; got {different}, and nothing was fitted"
        )
    return with_progress(texts, progress)


class ResultCallback:
    """Run the ``on_result`` callback of a retriever; an exception it raises becomes a warning.

    A coroutine function is awaited in asynchronous calls, and cannot be in others.

    >>> seen = []
    >>> ResultCallback(seen.append).notify("a result")
    >>> seen
    ['a result']
    """

    __slots__ = ("_function", "_warned")

    def __init__(self, function: Callable[[Result], Any] | None) -> None:
        if function is not None and not callable(function):
            raise InvalidTypeError(f"on_result must be a function or None; got {function!r}")
        self._function = function
        self._warned = False

    @property
    def is_set(self) -> bool:
        """Whether there is a function to call."""
        return self._function is not None

    def notify(self, result: Result) -> None:
        """Call it; what it would have to await is closed, with a warning the first time."""
        if self._function is None:
            return
        try:
            pending = self._function(result)
        except Exception as error:  # noqa: BLE001 - the answer stands whatever a callback raises
            _warn_of_callback(error)
            return
        if inspect.isawaitable(pending):
            if inspect.iscoroutine(pending):
                pending.close()
            if not self._warned:
                self._warned = True
                warn(
                    "on_result is a coroutine function, which a synchronous call cannot await: it was not run; give a "
                    "plain function, or ask asynchronously",
                    stacklevel=3,
                )

    async def anotify(self, result: Result) -> None:
        """Call it, and await what it gives back."""
        if self._function is None:
            return
        try:
            pending = self._function(result)
            if inspect.isawaitable(pending):
                await pending
        except Exception as error:  # noqa: BLE001 - the answer stands whatever a callback raises
            _warn_of_callback(error)


def _warn_of_callback(error: Exception) -> None:
    warn(f"on_result raised {type(error).__name__}", cause=error, stacklevel=4)


def list_pipeline(
    pipeline: FusionPipeline | None, weights: Mapping[str, float] | None, k: int | None
) -> FusionPipeline:
    """The pipeline of a fusion of lists that are already there, or an error that names the argument."""
    if pipeline is not None and not isinstance(pipeline, FusionPipeline):
        raise InvalidTypeError(f"pipeline must be a FusionPipeline or None; got {type(pipeline).__name__}")
    if pipeline is not None and weights is not None:
        raise InvalidInputError("weights= and pipeline= cannot both give the weights: leave one out")
    return Chosen(k, weights).on(FusionPipeline() if pipeline is None else pipeline)


def decide_lists(
    pipeline: FusionPipeline,
    lists: Mapping[str, Any],
    read: Callable[[str, Any, list[str]], Ranking],
    query: str | None,
    access: HitAccess,
    watch: FirstAnswers,
) -> Answer:
    """Read lists that are already there, in name order, and decide; the `query` is for priors that read it.

    ``read(name, list, notes)`` gives the ranking of a list; what it notes goes to its report.
    """
    if not isinstance(lists, Mapping):
        raise InvalidTypeError(f"lists must be a mapping of names to lists; got {type(lists).__name__}")
    if not lists:
        raise InvalidInputError("lists must hold at least one list; got none")
    check_no_exact_match(lists)
    if query:
        check_query(query, LONGEST_QUERY)
    notes: dict[str, list[str]] = {name: [] for name in sorted(lists)}
    found = [read(name, lists[name], noted) for name, noted in notes.items()]
    rankings, parted = FirstMeetings().part(found, access.text)
    rankings, joined = join_by_text(rankings, access.text)
    for name, lines in _both(parted, joined).items():
        notes[name] += lines
    reports = with_notes([SourceReport.of(one) for one in rankings], notes)
    context = access.context(query or "")
    if needs_words(pipeline, rankings):
        context = replace(context, words=access.words(query or "", rankings))
    if pipeline.accept is not None:
        watch.see(pipeline.accept, rankings)
    result = pipeline.decide(rankings, context, reports=reports)
    hits = select_hits(result, access.text)
    return with_text_warnings(result, hits), hits
