"""The steps from rankings to a result: calibration, fusion, acceptance and selection, without input or output."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._support.ordering import top_order
from phasegraph._support.shared import kept_while_short
from phasegraph._support.typing import BoolArray, FloatArray, IntArray
from phasegraph.acceptance import AcceptanceOutcome
from phasegraph.acceptance.confidence import ConfidenceEvidence
from phasegraph.calibration import Calibrated
from phasegraph.calibration.per_query import calibrate_all, calibrator_for
from phasegraph.candidates import Candidates, apply_caps, pool
from phasegraph.errors import DegradedError, InvalidInputError, InvalidTypeError, PhasegraphError, refusal
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.adjustments import RESERVED, Adjusted, Adjustment, adjustments_of
from phasegraph.fusion.agreement import agreement, disagreements
from phasegraph.fusion.context import Context
from phasegraph.fusion.contributions import contributions
from phasegraph.fusion.fields import FieldReading
from phasegraph.fusion.grouping import GroupBy
from phasegraph.fusion.settings import FusionSettings
from phasegraph.fusion.weighting import WEIGHTINGS
from phasegraph.ranking import Ranking
from phasegraph.reports import SourceReport, degradations, drifts
from phasegraph.result import Reason, Result
from phasegraph.selection import SelectionPolicy, SelectionResult, scaled_relevance

_NO_CONTEXT = Context()

_SOURCE, _VALUES, _MISSING = attrgetter("source"), attrgetter("values"), attrgetter("missing")

SELECTION_POOL = 50


@np.errstate(all="ignore")  # scores may be as extreme as 1e308 and 5e-324; the results are finite
def make_shortlist(
    pipeline: FusionSettings,
    rankings: Sequence[Ranking],
    context: Context | None = None,
    *,
    reports: Sequence[SourceReport] = (),
    k: int | None = None,
) -> Shortlist:
    """Calibrate and fuse the rankings of one query, and apply the acceptance policy; no selection is made.

    `reports` are the sources' reports; a source without a report gets a report from its ranking. `k` replaces the
    number of results of the pipeline, unless it is None. :meth:`Shortlist.decide` of the returned shortlist makes the
    selection.
    """
    context = _NO_CONTEXT if context is None else context
    pipeline = pipeline if k is None else replace(pipeline, k=k)
    lists, adjustments = _to_fuse(pipeline, rankings)
    if pipeline.pool_caps:
        lists = apply_caps(lists, pipeline.pool_caps, pipeline.pool_cap_mode)
    pooled = _calibrated(pipeline, lists, adjustments, context)
    candidates, context = pooled.candidates, pooled.context
    settled = _settle_reports([*rankings, *pooled.made], reports, pooled.scaled, pooled.failed)
    if pipeline.strict:
        _refuse(settled)
    degraded = bool(degradations(settled))
    judge = partial(pipeline.confidence.judge, candidates.rankings, context.words)
    if not candidates.ids:
        return _empty(pipeline, pooled, settled, degraded, judge)
    found = list(map(pooled.scaled.__getitem__, candidates.sources))
    weights = _weights(pipeline, candidates, context, adjustments)
    values, fused = _apply_rule(pipeline, candidates, found, weights)
    adjusted = Adjusted(candidates, found, values, fused, context, pooled.readings)
    for one in adjustments:
        one.adjust(adjusted)
    final = adjusted.final
    rows, outcome, scored = _accept(pipeline, adjusted, final, judge, adjustments)
    if pipeline.group_by is not None and len(rows):
        rows, final = _group(pipeline.group_by, rows, adjusted, final, _depth(pipeline))
    if pipeline.accept is not None:
        settled = _noted(settled, {one.source: pipeline.accept.note_on(one) for one in scored.rankings})
    return Shortlist(pipeline, context, settled, degraded, weights, adjusted, final, rows, outcome, judge)


class _Pooled(NamedTuple):
    """The candidates of one query with their calibrated values, before fusion.

    `scaled` contains the calibrated values by source, and `failed` the reason of each failed calibration by source.
    `made` are the rankings that adjustments created, and `readings` the counts of candidates for each field that they
    read. `context` contains the calibrated rankings, if an adjustment or the grouping reads them.
    """

    candidates: Candidates
    scaled: Mapping[str, Calibrated]
    failed: Mapping[str, str]
    context: Context
    made: Sequence[Ranking] = ()
    readings: tuple[FieldReading, ...] = ()


def _calibrated(
    pipeline: FusionSettings, lists: list[Ranking], adjustments: Sequence[Adjustment], context: Context
) -> _Pooled:
    """Calibrate the rankings to fuse, add the rankings of the adjustments, and pool the candidates of all."""
    scaled, failed = calibrate_all(lists, pipeline.calibrators, pipeline.calibrator)
    if failed:  # a source without calibration is not fused, and adjustments do not see its candidates
        lists = [ranking for ranking in lists if ranking.source in scaled]
    if not adjustments and pipeline.group_by is None:
        return _Pooled(pool(lists), scaled, failed, context)
    context = replace(context, rankings=tuple(sorted(lists, key=_SOURCE)))
    ranked = [made for one in adjustments if (made := one.rank(lists, context)) is not None]
    added = [made for made, _ in ranked if made.ids]
    if added:
        lists = [*lists, *added]
        scaled, _ = calibrate_all(lists, pipeline.calibrators, pipeline.calibrator)
    candidates = pool(lists)
    for one in adjustments:
        if one.source in scaled:
            calibrator = calibrator_for(candidates.ranking_of(one.source), pipeline.calibrators, pipeline.calibrator)
            scaled[one.source] = one.scale(candidates, scaled[one.source], calibrator)
    return _Pooled(
        candidates, scaled, failed, context, [made for made, _ in ranked], tuple(reading for _, reading in ranked)
    )


def _empty(
    pipeline: FusionSettings,
    pooled: _Pooled,
    reports: tuple[SourceReport, ...],
    degraded: bool,
    judge: Callable[[], ConfidenceEvidence],
) -> Shortlist:
    """Return the shortlist of a query without candidates."""
    if degraded:
        judge = partial(ConfidenceEvidence, reason="a source could not look, and the others found nothing")
    none, rows = np.empty(0), np.empty(0, dtype=np.intp)
    adjusted = Adjusted(pooled.candidates, (), np.empty((0, 0)), none, pooled.context)
    return Shortlist(pipeline, pooled.context, reports, degraded, none, adjusted, none, rows, None, judge)


def check_rankings(rankings: object, context: object) -> None:
    """Raise InvalidTypeError unless `rankings` is a sequence of rankings and `context` is a Context or None."""
    if not isinstance(rankings, list | tuple) and (not isinstance(rankings, Sequence) or isinstance(rankings, str)):
        raise InvalidTypeError(f"rankings must be a sequence of Ranking; got {type(rankings).__name__}")
    if not isinstance(context, Context | None):
        raise InvalidTypeError(f"context must be a Context or None; got {type(context).__name__}")
    for ranking in rankings:
        if not isinstance(ranking, Ranking):
            raise InvalidTypeError(f"rankings must be a sequence of Ranking; got {type(ranking).__name__}")


def _to_fuse(pipeline: FusionSettings, rankings: Sequence[Ranking]) -> tuple[list[Ranking], tuple[Adjustment, ...]]:
    """Return the rankings to fuse, which have hits and a positive weight, and the adjustments of the pipeline."""
    weights, chosen, reserved = pipeline.weights, [], []
    for ranking in rankings:
        if ranking.source in RESERVED:
            reserved.append(ranking)
            continue
        if weights is not None and ranking.source not in weights:
            raise InvalidInputError(
                f"weights must name every source; they name {sorted(weights)}, and not {ranking.source!r}"
            )
        if ranking.ids and (weights is None or weights[ranking.source] > 0):
            chosen.append(ranking)
    adjustments = adjustments_of(pipeline, reserved)
    if not adjustments:
        return chosen, adjustments
    given = (one.given() for one in adjustments)
    return [*chosen, *(ranking for ranking in given if ranking is not None and ranking.ids)], adjustments


def _weights(
    pipeline: FusionSettings, candidates: Candidates, context: Context, adjustments: Sequence[Adjustment]
) -> FloatArray:
    """Return the (m,) weights of the sources that answered, in name order, divided by their sum.

    A source of an adjustment, such as exact matches, has the weight of the adjustment. If the rule adds its terms
    without dividing (``FusionRule.sums``), equal weights are 1 each instead.
    """
    own = candidates.without(RESERVED)
    if pipeline.weights is None:
        witness = () if context.words is None else context.words.order
        given = WEIGHTINGS[pipeline.weighting](own.rankings, witness).tolist()
    else:
        given = list(map(pipeline.weights.__getitem__, own.sources))
    if own is not candidates:
        unit = 1.0 if pipeline.weights is not None else math.fsum(given) / len(given)
        for one in adjustments:
            if one.source in candidates.sources:
                given.insert(candidates.sources.index(one.source), unit * one.weight)
    most = max(given)
    scaled = [weight / most for weight in given]
    if FUSION_RULES[pipeline.rule].sums and min(scaled) == 1.0:
        return np.ones(len(scaled))
    total = math.fsum(scaled)
    return np.array([weight / total for weight in scaled])


def _apply_rule(
    pipeline: FusionSettings, candidates: Candidates, found: Sequence[Calibrated], weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the (n, m) calibrated values and the (n,) fused values.

    n is the number of candidates, and m the number of sources. If a source did not return a candidate, the entry
    depends on the rule. For a sum over sources (:attr:`FusionRule.terms`), the entry is the source's value for missing
    candidates; for other rules, it is NaN.
    """
    rule = FUSION_RULES[pipeline.rule]
    columns, missing = list(map(_VALUES, found)), list(map(_MISSING, found))
    if rule.terms is None:
        values = candidates.spread(columns)
        options = rule.options_for(pipeline.rule_options, candidates.sources)
        fused = rule.function(values, weights=weights, missing=np.array(missing), **options)
        return values, fused
    values = candidates.spread(columns, missing)
    first, *others = weights.tolist()
    total = rule.terms(values[:, 0], first)
    for column, weight in enumerate(others, start=1):  # from left to right: the order of a sum affects its last bit
        total += rule.terms(values[:, column], weight)
    return values, total


def _accept(
    pipeline: FusionSettings,
    adjusted: Adjusted,
    final: FloatArray,
    judge: Callable[[], ConfidenceEvidence],
    adjustments: Sequence[Adjustment],
) -> tuple[IntArray, AcceptanceOutcome | None, Candidates]:
    """Return the rows of the accepted candidates, the outcome, and the candidates to which the policy was applied.

    The rows are ordered best first. The outcome is None without an acceptance policy. `final` are the fused values with
    all adjustments, and ``judge()`` computes the confidence.
    """
    candidates, accept = adjusted.candidates, pipeline.accept
    depth = _depth(pipeline) if pipeline.group_by is None else len(candidates)
    if accept is None:
        return top_order(final, candidates.ids, depth), None, candidates
    judged = {one.source for one in adjustments if one.can_be_judged and one.source in accept.thresholds}
    scored = candidates.without(RESERVED - judged)
    kept = [column for column, name in enumerate(candidates.sources) if name in scored.sources]
    values, more = adjusted.values, len(candidates.sources) - adjusted.values.shape[1]
    known = np.column_stack([values, np.full((len(values), more), np.nan)]) if more else values
    outcome = accept.decide(
        scored, known[:, kept], publish(final), scored.sources, judge().value, fused=candidates.sources
    )
    allowed = np.flatnonzero(outcome.accepted)
    ids = [candidates.ids[row] for row in allowed.tolist()]
    return allowed[top_order(final[allowed], ids, depth)], outcome, scored


def _depth(pipeline: FusionSettings) -> int:
    """Return the number of accepted candidates to consider: k or, for a selection, the larger of k and 50."""
    return pipeline.k if pipeline.selection is None else max(pipeline.k, SELECTION_POOL)


def _group(
    group_by: GroupBy, rows: IntArray, adjusted: Adjusted, final: FloatArray, depth: int
) -> tuple[IntArray, FloatArray]:
    """Return the row of the best passage of each document, and the final values of all candidates.

    If ``group_by.score`` is "sum", the final value of a document's best passage includes the positive values of the
    document's other passages. At most `depth` rows are returned, best document first. `rows` are the rows of the
    accepted candidates.
    """
    ids = adjusted.candidates.ids
    groups = group_by.group(ids, rows, final, adjusted.context)
    adjusted.extras["groups"] = partial(groups.of, ids)
    adjusted.group_warning = groups.warning
    if groups.more.any():
        wanted = final + groups.more
        adjusted.lift(np.where(groups.more > 0, adjusted.total_of(wanted) - adjusted.total, 0.0))
        final = np.where(groups.more > 0, wanted, final)
    return groups.rows[:depth], final


def publish(values: FloatArray) -> FloatArray:
    """Map each value f into [0, 1] by ``(1 + f / (1 + |f|)) / 2``.

    The computation ensures that rounding never reverses the order of two values.
    """
    rest = 0.5 / (1.0 + np.abs(values))
    return np.where(values >= 0.0, 1.0 - rest, rest)


@dataclass(slots=True, eq=False)
class Shortlist:
    """The fused and accepted candidates of one query, before the selection.

    It is the intermediate value of :meth:`FusionPipeline.decide`. A caller that fetches embeddings for the selection
    reads :attr:`to_embed`, fetches the embeddings, and calls :meth:`decide`.

    Parameters
    ----------
    pipeline : FusionSettings
        The settings of the pipeline, with the k of this query.
    context : Context
        The additional data for priors, acceptance and selection.
    reports : tuple of SourceReport
        A report per source, in name order.
    degraded : bool
        Whether a source failed, was skipped, or searched only in part.
    weights : (m,) array of float
        The source weights for this query.
    adjusted : Adjusted
        The fused values, and the bonuses and factors of the adjustments.
    final : (n,) array of float
        Fused values with all adjustments.
    rows : (p,) array of int
        Rows of the accepted candidates, best first: at most k, or at most the number that a selection considers.
    outcome : AcceptanceOutcome or None
        The outcome of the acceptance policy; None without a policy.
    judge : callable
        ``judge()`` computes the confidence.
    """

    pipeline: FusionSettings
    context: Context
    reports: tuple[SourceReport, ...]
    degraded: bool
    weights: FloatArray
    adjusted: Adjusted
    final: FloatArray
    rows: IntArray
    outcome: AcceptanceOutcome | None
    judge: Callable[[], ConfidenceEvidence]

    @property
    def candidates(self) -> Candidates:
        """The candidates of all rankings, including the rankings that adjustments added."""
        return self.adjusted.candidates

    @property
    def calibrated(self) -> Sequence[Calibrated]:
        """The calibrated values of each fused source, in the order of the sources."""
        return self.adjusted.calibrated

    @property
    def values(self) -> FloatArray:
        """The (n, m) calibrated values of the candidates.

        If a source did not return a candidate, the entry depends on the rule. For a sum over sources
        (:attr:`FusionRule.terms`), the entry is the source's value for missing candidates; for other rules, it is NaN.
        """
        return self.adjusted.values

    @property
    def fused(self) -> FloatArray:
        """The (n,) fused values with bonuses, but without priors."""
        return self.adjusted.total

    @property
    def confidence(self) -> ConfidenceEvidence:
        """The confidence that the corpus contains an answer, with its components."""
        return self.judge()

    @property
    def to_embed(self) -> tuple[str, ...]:
        """The ids of the candidates whose embeddings the selection needs and the context lacks."""
        policy, given = self.pipeline.selection, self.context.embeddings
        if policy is None or not policy.needs_embeddings or callable(given) or given:
            return ()
        return tuple(self.candidates.ids[row] for row in self.rows.tolist())

    def decide(
        self, embeddings: Mapping[str, FloatArray] | Callable[[Sequence[str]], ArrayLike] | None = None
    ) -> Result:
        """Select the results among the candidates.

        Parameters
        ----------
        embeddings : mapping of str to (d,) array, or callable, optional
            The embeddings for the selection; default the context's embeddings. See :class:`Context`.

        Returns
        -------
        Result
            The selected passages, best first, with evidence for each.
        """
        context = self.context if embeddings is None else replace(self.context, embeddings=embeddings)
        rows, extras, warned = self._selected(context)
        adjusted, candidates = self.adjusted, self.adjusted.candidates
        weights, contributed, calibrated = adjusted.with_opinion(self.weights, *self._explained(rows), rows)
        agreed = agreement(candidates.without(RESERVED).rankings)
        bonuses, factors = adjusted.bonuses, adjusted.factors
        return Result(
            ids=tuple(map(candidates.ids.__getitem__, rows.tolist())),
            scores=publish(self.final[rows]),
            fused=self.fused[rows],
            contributions=contributed,
            calibrated=calibrated,
            weights=weights,
            bonuses=_repeated(len(rows), 0.0) if bonuses is None else bonuses[rows],
            priors=_repeated(len(rows), 1.0) if factors is None else factors[rows],
            rows=rows,
            candidates=candidates,
            accepted=_accepted(len(rows)),
            reports=self.reports,
            agreement=agreed,
            degraded=self.degraded,
            reason=self._reason(),
            warnings=disagreements(agreed, self.pipeline.min_agreement) + drifts(self.reports) + warned,
            extras=extras,
            judge=self.judge,
        )

    def _reason(self) -> Reason:
        if not self.candidates.ids:
            return "could_not_look" if self.degraded else "nothing_found"
        if self.outcome is None or not self.outcome.abstained:
            return ""
        return "abstained" if self.outcome.reason == "low_confidence" else "all_rejected"

    def _selected(self, context: Context) -> tuple[IntArray, dict[str, object], tuple[str, ...]]:
        """Return the rows of the chosen candidates, the entries for ``Result.extras`` by name, and warnings."""
        rows, policy = self.rows, self.pipeline.selection
        extras: dict[str, object] = {} if self.outcome is None else {"acceptance": self.outcome}
        if self.adjusted.readings:
            extras["priors"] = self.adjusted.readings
        warned: tuple[str, ...] = ()
        if self.outcome is not None:
            warned = tuple(
                f"the guarantee of the threshold {one.name!r} is not valid for this answer: {one.reason}"
                for one in self.outcome.certificates
                if not one.valid
            )
            if self.outcome.error:
                warned += (f"on_empty raised {self.outcome.error}, so no candidate is accepted",)
            accept = self.pipeline.accept
            if accept is not None and accept.confidence and self.confidence.value is None:
                done = (
                    "every candidate was rejected" if self.outcome.reason == "low_confidence" else "it rejected nothing"
                )
                warned += (f"acceptance by confidence has no confidence, and {done}: {self.confidence.reason}",)
        if policy is not None and len(rows):
            found, failed = self._together(policy, context)
            extras["selection"] = found
            rows = rows[found.rows]
            warned += failed
        if self.pipeline.strict and warned:
            raise DegradedError(refusal("; ".join(warned)))
        adjusted = self.adjusted
        extras |= {name: entry_of(rows) for name, entry_of in adjusted.extras.items()}
        noted = (adjusted.group_warning, *(one.warning for one in adjusted.readings))
        return rows, extras, (*warned, *filter(None, noted))

    def _together(self, policy: SelectionPolicy, context: Context) -> tuple[SelectionResult, tuple[str, ...]]:
        """Select the passages of the answer together, by the selection policy; return the selection and warnings.

        The policy chooses up to k of the accepted candidates, and may compare the candidates with each other. If the
        selection fails, return the first k candidates in fused order, and a warning.
        """
        ids = [self.candidates.ids[row] for row in self.rows.tolist()]
        relevance, kind = self._relevance(policy)
        costs = None if policy.budget is None else _costs(context, ids)
        if policy.needs_embeddings and not callable(context.embeddings) and not context.embeddings:
            raise InvalidInputError(
                f"selection by {policy.method} needs an embedding of every candidate in Context.embeddings (a mapping "
                "or a callable); got no embeddings"
            )
        own = replace(policy, distinct=True) if policy.method == "log_det" and policy.distinct is None else policy
        try:
            embeddings = _embeddings(context, ids) if policy.needs_embeddings else None
            found = own.select(relevance, embeddings, self.pipeline.k, costs=costs)
            return replace(found, relevance=kind), ()
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - after a failed selection, the answer keeps the fused order
            why = str(error) if isinstance(error, PhasegraphError) else type(error).__name__
            failed = f"selection by {policy.method} failed; the answer is in fused order: {why}"
            plain = SelectionPolicy("top", budget=policy.budget)
            return plain.select(relevance, None, self.pipeline.k, costs=costs), (failed,)

    def _relevance(self, policy: SelectionPolicy) -> tuple[FloatArray, str]:
        """Return the relevances for the selection and the name of their origin; see ``SelectionResult.relevance``."""
        fused = self.final[self.rows]
        if policy.method != "legacy_entropy":
            return scaled_relevance(fused), "fused, scaled"
        if self.adjusted.relevance is not None:
            relevance, kind = self.adjusted.relevance
            return relevance[self.rows], kind
        own = self.candidates.without(RESERVED)
        scores = own.scores[self.rows, 0]
        only = own.rankings[0]
        if len(own.sources) == 1 and not only.rank_only and scores.min() >= 0 and scores.max() <= 1:
            return scores, "score"
        if fused.min() >= 0 and fused.max() <= 1:
            return fused, "fused"
        return scaled_relevance(fused), "fused, scaled"

    def _explained(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return two (k, m) arrays for the k chosen `rows` and the m sources: contributions, and calibrated values.

        If a source did not return a candidate, the second array has the source's value for missing candidates.
        """
        rule, chosen = FUSION_RULES[self.pipeline.rule], self.values[rows]
        if not len(self.values):
            return chosen, chosen
        if rule.terms is not None:
            return rule.terms(chosen, self.weights), chosen
        missing = np.array([one.missing for one in self.calibrated])
        options = rule.options_for(self.pipeline.rule_options, self.candidates.sources[: len(missing)])
        contributed = contributions(rule, options, self.values, self.weights, missing, rows)
        return contributed, np.where(np.isnan(chosen), missing, chosen)


def _embeddings(context: Context, ids: Sequence[str]) -> FloatArray:
    """Return the (n, d) embeddings of the candidates `ids`, from the context's mapping or callable."""
    given = context.embeddings
    if callable(given):
        return np.asarray(given(ids), dtype=np.float64)
    lacking = [identifier for identifier in ids if identifier not in given]
    if lacking:
        raise InvalidInputError(
            f"Context.embeddings must contain an embedding of every candidate; it lacks {len(lacking)} of {len(ids)}, "
            f"for example {lacking[0]!r}"
        )
    return np.array([given[identifier] for identifier in ids], dtype=np.float64)


def _costs(context: Context, ids: Sequence[str]) -> FloatArray:
    lacking = next((identifier for identifier in ids if identifier not in context.costs), None)
    if lacking is not None:
        raise InvalidInputError(f"selection with a budget needs Context.costs of every candidate; {lacking!r} has none")
    return np.array([context.costs[identifier] for identifier in ids], dtype=np.float64)


@kept_while_short
def _repeated(count: int, value: float) -> FloatArray:
    """Return a read-only array with `count` copies of a value."""
    made = np.full(count, value)
    made.setflags(write=False)
    return made


@kept_while_short
def _accepted(count: int) -> BoolArray:
    """Return a read-only array of `count` entries, all True."""
    made = np.ones(count, dtype=np.bool_)
    made.setflags(write=False)
    return made


def _settle_reports(
    rankings: Sequence[Ranking],
    reports: Sequence[SourceReport],
    scaled: Mapping[str, Calibrated],
    failed: Mapping[str, str],
) -> tuple[SourceReport, ...]:
    """Return a report per source in name order, with the kind of the source's calibration.

    `scaled` contains the calibrated values by source. A source without a report gets a report from its ranking.
    `failed` contains the reason of each failed calibration by source; such a source gets the status ``error``.
    """
    known = dict(zip(map(_SOURCE, reports), reports, strict=True))
    if len(known) != len(reports):
        raise InvalidInputError(
            f"reports must contain one report per source; got reports of {[report.source for report in reports]}"
        )
    for ranking in rankings:
        name = ranking.source
        report, one = known.get(name), scaled.get(name)
        if report is None:
            known[name] = (
                SourceReport.of(ranking) if one is None else SourceReport.of(ranking, one.tier, one.out_of_range_share)
            )
        elif one is not None:
            known[name] = report.calibrated(one.tier, one.out_of_range_share)
    for name, reason in failed.items():
        known[name] = replace(known[name], status="error", reason=reason, error_class="InvalidInputError")
    return tuple(map(known.__getitem__, sorted(known)))


def _noted(reports: Sequence[SourceReport], notes: Mapping[str, str]) -> tuple[SourceReport, ...]:
    """Return the reports, each with its source's note in `notes`, unless the report already has this note."""
    said = ((report, notes.get(report.source, "")) for report in reports)
    return tuple(
        replace(report, notes=(*report.notes, note)) if note and note not in report.notes else report
        for report, note in said
    )


def _refuse(reports: Sequence[SourceReport]) -> None:
    bad = [f"{name}: {why}" for name, why in degradations(reports).items()]
    bad += [
        f"{one.source}: calibrated from its returned list alone"
        for one in reports
        if one.calibration == "estimated" and one.source not in RESERVED
    ]
    bad += drifts(reports)
    if bad:
        raise DegradedError(refusal("; ".join(bad)))
