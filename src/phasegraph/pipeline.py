"""From rankings to a result: one pure function, described by one value."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import combinations
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._shared import kept_while_short
from phasegraph._typing import BoolArray, FloatArray, IntArray
from phasegraph._validation import (
    KnownFields,
    check_choice,
    check_count,
    check_flag,
    check_mapping,
    check_number,
    check_range,
)
from phasegraph.acceptance import AcceptanceOutcome, AcceptancePolicy
from phasegraph.calibration import BackgroundCalibrator, Calibrated, Calibrator, ListCalibrator, calibrator_from_dict
from phasegraph.confidence import Confidence, ConfidenceEvidence, ConfidenceModel, fit_bar, fit_probability
from phasegraph.errors import (
    DegradedError,
    InsufficientDataError,
    InvalidInputError,
    InvalidTypeError,
    PhasegraphError,
    warn,
)
from phasegraph.fusion import FUSION_RULES, FusionRule
from phasegraph.fusion.weighting import WEIGHTINGS
from phasegraph.lexical import HitWords
from phasegraph.priors import (
    EXACT_MATCH,
    Context,
    ExactMatchBonus,
    FieldReading,
    Prior,
    Superposition,
    SuperpositionPrior,
    UnitPrior,
    prior_from_dict,
)
from phasegraph.ranking import (
    RERANK,
    Candidates,
    PoolCapMode,
    Ranking,
    SourceReport,
    all_true,
    apply_caps,
    by_fields,
    degradations,
    pool,
    top_order,
)
from phasegraph.rescoring import Rescorer, ranking_features
from phasegraph.result import Reason, Result
from phasegraph.selection import SelectionPolicy, SelectionResult, scaled_relevance
from phasegraph.serialization import read_document, write_document


def check_weights_mapping(weights: Mapping[str, float]) -> Mapping[str, float]:
    """Weights by source name: at least one, finite, >= 0, not all 0."""
    if not isinstance(weights, Mapping):
        raise InvalidTypeError(f"weights must be a mapping of source name to number; got {weights!r}")
    checked = {str(name): check_number(f"weights[{name!r}]", value) for name, value in weights.items()}
    if not checked:
        raise InvalidInputError("weights must name at least one source; got an empty mapping")
    if not any(value > 0 for value in checked.values()):
        raise InvalidInputError(f"weights must not all be 0; got {checked}")
    return MappingProxyType(dict(sorted(checked.items())))


def check_floor(value: object) -> Mapping[tuple[str, str], float]:
    """`value` as a read-only mapping of ordered pairs of different sources to shares in [0, 1], in order."""
    pairs = isinstance(value, Mapping) and all(
        isinstance(key, tuple) and len(key) == 2 and all(isinstance(one, str) for one in key) and key[0] != key[1]
        for key in value
    )
    if not isinstance(value, Mapping) or not pairs:
        raise InvalidTypeError(f"min_agreement must map pairs of different source names to numbers; got {value!r}")
    checked = {key: check_number(f"min_agreement[{key!r}]", share) for key, share in sorted(value.items())}
    if any(share > 1 for share in checked.values()):
        raise InvalidInputError(f"min_agreement must hold shares in [0, 1]; got {checked}")
    return MappingProxyType(checked)


def check_rule_options(rule: str, options: Mapping[str, object]) -> None:
    """Refuse options that the rule does not have, or values that it would refuse at every query."""
    allowed = FUSION_RULES[rule].options
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise InvalidInputError(f"rule_options of {rule!r} must be among {list(allowed)}; got {unknown}")
    if options:
        try:
            _probe(rule, tuple((name, type(value), value) for name, value in options.items()))
        except InvalidInputError as error:
            raise type(error)(f"rule_options of {rule!r}: {error}") from error
        except Exception as error:
            raise InvalidTypeError(f"rule_options of {rule!r} must be what it can use; got {dict(options)}") from error


@lru_cache(maxsize=64)
def _probe(rule: str, options: tuple[tuple[str, type, object], ...]) -> None:
    """Run the rule once on a tiny matrix; the type stands in the key because 1 equals True."""
    given: dict[str, Any] = {name: value for name, _, value in options}
    values = np.array([[1.0, 0.5], [0.5, 1.0], [0.75, np.nan]])
    with np.errstate(all="ignore"):
        fused = FUSION_RULES[rule].function(values, weights=np.ones(2), missing=np.zeros(2), **given)
    if not np.isfinite(fused).all():
        raise InvalidInputError(f"values must give finite fused values; got {given}")


def check_scale(rule: str, calibrator: object, calibrators: Mapping[str, object]) -> None:
    """Refuse a calibrator that leaves [0, 1] under a rule that must not see what lies outside."""
    expects = FUSION_RULES[rule].expects
    if expects not in ("bounded", "percentile"):
        return
    named = [("calibrator", calibrator), *((f"calibrators[{name!r}]", one) for name, one in calibrators.items())]
    for name, one in named:
        if not getattr(one, "bounded", True):
            wanted = "percentile" if expects == "percentile" else "min_max"
            raise InvalidInputError(
                f"{name} must give values in [0, 1] for the rule {rule!r}, as ListCalibrator({wanted!r}) does; "
                f"got {one!r:.200}"
            )


def check_calibrator(name: str, value: object) -> None:
    """Refuse what cannot calibrate and be stored."""
    if isinstance(value, type) or not callable(value) or not hasattr(value, "to_dict"):
        raise InvalidTypeError(f"{name} must be a Calibrator; got {value!r}")


def check_priors(value: object) -> tuple[Any, ...]:
    """`value` as a tuple of priors."""
    if not isinstance(value, tuple | list):
        raise InvalidTypeError(f"priors must be a tuple of priors; got {value!r}")
    for one in value:
        if not callable(one) or isinstance(one, type) or not hasattr(one, "additive") or not hasattr(one, "to_dict"):
            raise InvalidTypeError(f"priors must hold priors; got {one!r}")
    for kind in (ExactMatchBonus, SuperpositionPrior):
        if sum(isinstance(one, kind) for one in value) > 1:
            raise InvalidInputError(f"priors must hold at most one {kind.__name__}; got {value!r}")
    return tuple(value)


_EXACT, _JUDGED = frozenset({EXACT_MATCH}), frozenset({RERANK})
_ADDED = _EXACT | _JUDGED


def sources_proper(candidates: Candidates, added: frozenset[str] = _ADDED) -> Candidates:
    """The candidates, all of them, as the sources proper returned them: without exact matches and a reranker."""
    if added.isdisjoint(candidates.sources):
        return candidates
    keep = [column for column, name in enumerate(candidates.sources) if name not in added]
    return Candidates(
        candidates.ids,
        tuple(candidates.sources[column] for column in keep),
        tuple(candidates.rankings[column] for column in keep),
        tuple(candidates.positions[column] for column in keep),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Weighed:
    """What the priors of a pipeline make of the n candidates of one query.

    `bonuses` are added to, and `factors` multiplied with, the fused values, None where nothing is; `readings` say how
    many candidates held each field that is read.
    """

    bonuses: FloatArray | None = None
    factors: FloatArray | None = None
    readings: tuple[FieldReading, ...] = ()
    superposition: Superposition | None = None


_TOP, _DEPTH = 10, 50


def agreement(rankings: Sequence[Ranking]) -> dict[tuple[str, str], float]:
    """For each ordered pair of sources: share of the first one's top 10 in the second one's top 50.

    Ranges over [0, 1].
    """
    out: dict[tuple[str, str], float] = {}
    for ranking in rankings:
        top = frozenset(ranking.ids[:_TOP])
        for other in rankings:
            if other is not ranking:
                out[(ranking.source, other.source)] = len(top.intersection(other.ids[:_DEPTH])) / len(top)
    return out


Agreement: TypeAlias = Mapping[tuple[str, str], float]
_OUTSIDE = attrgetter("out_of_range_share")
_NO_CONTEXT = Context()


def disagreements(found: Agreement, floor: Agreement) -> tuple[str, ...]:
    """A line for every two sources that agree on nothing, or less than they did when they were calibrated.

    Where the floor of a pair is known, both directions must be at or below theirs, and one below; a pair whose floor
    is 0 agrees on nothing in ordinary queries, too.
    """
    if not floor and all(found.values()):
        return ()
    return tuple(
        line
        for (first, second), share in found.items()
        if first < second and (line := _disagreement((first, second), (share, found[(second, first)]), floor))
    )


def _disagreement(pair: tuple[str, str], shares: tuple[float, float], floor: Agreement) -> str:
    lowest = floor.get(pair, -1.0), floor.get(pair[::-1], -1.0)
    if min(lowest) < 0:
        if any(shares):
            return ""
        return f"sources {pair[0]!r} and {pair[1]!r} agree on nothing: no top-10 hit of either is in the other's top 50"
    if any(share > low for share, low in zip(shares, lowest, strict=True)) or shares == lowest:
        return ""
    return (
        f"sources {pair[0]!r} and {pair[1]!r} agree on less than in 95 % of the queries they were calibrated on: "
        f"{shares[0]:.0%} and {shares[1]:.0%} of a top 10 are in the other's top 50, usually at least "
        f"{lowest[0]:.0%} and {lowest[1]:.0%}"
    )


def drifts(reports: Sequence[SourceReport]) -> tuple[str, ...]:
    """A line for every source most of whose scores lie beyond what it was calibrated by."""
    if not any(map(_OUTSIDE, reports)):
        return ()
    return tuple(
        f"{report.out_of_range_share:.0%} of the scores of {report.source!r} lie outside the range it was calibrated "
        "on: "
        "calibrate again if its model or its collection has changed"
        for report in reports
        if report.drifted
    )


def without_rescorer(pipeline: FusionPipeline, *, strict: bool = False) -> FusionPipeline:
    """The pipeline that is calibrated anew: its re-scorer was fitted on other calibrated values, and is left out."""
    if pipeline.rescorer is None:
        return pipeline
    said = "the pipeline's re-scorer was fitted on the calibration it had and is left out: tune again after calibrating"
    if strict:
        raise DegradedError(f"strict=True accepts no pipeline without its re-scorer; {said}")
    warn(said, stacklevel=3)
    return replace(pipeline, rescorer=None)


def left_out(rescorer: Rescorer, candidates: Candidates) -> tuple[str, ...]:
    """A line where a re-scorer is not used, since other sources answered than it was fitted on."""
    if candidates.sources == rescorer.sources or not candidates.ids:
        return ()
    fitted, answered = ", ".join(rescorer.sources), ", ".join(candidates.sources)
    return (f"the re-scorer is left out of this answer: it was fitted on {fitted}, and {answered} answered",)


def features_of(
    candidates: Candidates, found: Sequence[Calibrated], values: FloatArray, fused: FloatArray
) -> FloatArray:
    """What a re-scorer sees of fused candidates; values that a rule left NaN are filled in."""
    missing = np.array(list(map(_MISSING, found)))
    return ranking_features(candidates, np.where(np.isnan(values), missing, values), fused)


LEAST_QUERIES = 20
_LEVEL = 0.05
_SHAPLEY_SOURCES = 8


def calibrate_all(
    rankings: Sequence[Ranking], calibrator_of: Mapping[str, Calibrator], default: Calibrator
) -> tuple[dict[str, Calibrated], dict[str, str]]:
    """Each ranking on the common scale by source name, and why where one cannot be calibrated.

    Where no source of the query is informative, background calibration falls back to ranks, so that an only short
    list keeps its order. A source whose scores its calibrator refuses costs the others nothing.
    """
    found: dict[str, Calibrated] = {}
    failed: dict[str, str] = {}
    informative = False
    for ranking in rankings:
        try:
            one = calibrator_for(ranking, calibrator_of, default)(ranking)
        except InvalidInputError as error:
            failed[ranking.source] = str(error)
            continue
        values = _settled(ranking.scores, one)
        if values is None:
            failed[ranking.source] = "calibrated values must be finite; the scores are too far from the background"
        else:
            found[ranking.source] = one if values is one.values else replace(one, values=values)
            informative = informative or one.informative
    if not informative:
        for ranking in rankings:
            chosen = calibrator_for(ranking, calibrator_of, default)
            if ranking.source in found and isinstance(chosen, BackgroundCalibrator):
                found[ranking.source] = chosen.by_rank(ranking)
    return found, failed


def _settled(scores: FloatArray, one: Calibrated) -> FloatArray | None:
    """The calibrated values, in order; None where one of them is not finite."""
    values = one.values
    if not math.isfinite(one.missing):
        return None
    if all_true(values[:-1] > values[1:]) and math.isfinite(values[0]) and math.isfinite(values[-1]):
        return values  # what falls throughout is in order, and finite between its ends
    return in_order(scores, values) if all_true(np.isfinite(values)) else None


def in_order(scores: FloatArray, values: FloatArray) -> FloatArray:
    """`values` with rounding undone: where a score is lower its value is lower, if only by one bit.

    Only for values that descend in truth (a calibrator that gives one value to all is left alone).
    """
    same = values[:-1] == values[1:]
    if not same.any() or values[0] == values[-1]:
        return values
    lost = np.flatnonzero((scores[:-1] > scores[1:]) & same)
    if not len(lost):
        return values
    out = values.copy()
    for row in range(int(lost[0]), len(out) - 1):
        if scores[row] > scores[row + 1]:
            out[row + 1] = min(out[row + 1], np.nextafter(out[row], -np.inf))
        else:
            out[row + 1] = min(out[row + 1], out[row])
    return out


def calibrator_for(ranking: Ranking, own: Mapping[str, Calibrator], default: Calibrator) -> Calibrator:
    """The source's fitted calibrator, except where the default can use the background that the source states."""
    if ranking.background is not None and isinstance(default, BackgroundCalibrator):
        return default
    return own.get(ranking.source, default)


def contributions(
    rule: FusionRule,
    options: Mapping[str, object],
    values: FloatArray,
    weights: FloatArray,
    missing: FloatArray,
    rows: IntArray,
) -> FloatArray:
    """(k, m) part of each source in the fused value of the chosen rows; rows sum to it.

    Notes
    -----
    For an additive rule the part is the source's own term. For the others it is the Shapley value of the source
    with the empty coalition worth 0, exact up to 8 sources; beyond, leave-one-out differences scaled to the sum.
    """
    chosen = values[rows] if rule.row_wise else values
    pick = slice(None) if rule.row_wise else rows
    count = values.shape[1]
    if count == 1:
        return np.asarray(rule.function(chosen, weights=weights, missing=missing, **options)[pick, None])
    if rule.additive:
        parts = [
            rule.function(chosen[:, [c]], weights=weights[[c]], missing=missing[[c]], **options)[pick]
            for c in range(count)
        ]
        return np.column_stack(parts)

    def worth(members: Sequence[int]) -> FloatArray:
        masked = np.full(chosen.shape, np.nan)
        masked[:, list(members)] = chosen[:, list(members)]
        return np.asarray(rule.function(masked, weights=weights, missing=missing, **options)[pick])

    return _shapley(worth, count) if count <= _SHAPLEY_SOURCES else _leave_one_out(worth, count)


def _shapley(worth: Callable[[Sequence[int]], FloatArray], count: int) -> FloatArray:
    value: dict[tuple[int, ...], FloatArray] = {}
    for size in range(1, count + 1):
        for members in combinations(range(count), size):
            value[members] = worth(members)
    full = value[tuple(range(count))]
    value[()] = np.zeros_like(full)
    factorial = [1.0]
    for number in range(1, count + 1):
        factorial.append(factorial[-1] * number)
    parts = np.zeros((len(full), count))
    for members, base in value.items():
        share = factorial[len(members)] * factorial[max(count - len(members) - 1, 0)] / factorial[count]
        for column in (c for c in range(count) if c not in members):
            joined = tuple(sorted((*members, column)))
            parts[:, column] += share * (value[joined] - base)
    return parts


def _leave_one_out(worth: Callable[[Sequence[int]], FloatArray], count: int) -> FloatArray:
    everyone = tuple(range(count))
    full = worth(everyone)
    drops = np.column_stack([full - worth(tuple(c for c in everyone if c != column)) for column in everyone])
    total = drops.sum(axis=1, keepdims=True)
    even = np.full(drops.shape, 1.0 / count)
    share = np.where(np.abs(total) > 1e-12, drops / np.where(total == 0, 1.0, total), even)
    return np.asarray(share * full[:, None])


def publish(values: FloatArray) -> FloatArray:
    """``(1 + f / (1 + |f|)) / 2``, from the whole line into [0, 1]; each step rounds so that none of it falls."""
    rest = 0.5 / (1.0 + np.abs(values))
    return np.where(values >= 0.0, 1.0 - rest, rest)


def with_prior(values: FloatArray, factors: FloatArray) -> FloatArray:
    """The fused value times its prior; divided by it where the value is negative, so that a low prior never helps."""
    floor = np.maximum(factors, 1e-9)
    return np.where(values >= 0, values * floor, values / floor)


def _with_judged(
    candidates: Candidates, judged: Ranking, fused: FloatArray, calibrator: Calibrator | None
) -> tuple[Candidates, FloatArray | None]:
    """The candidates with a reranker's ranking as last column, and (n,) what it says on the scale of the fused values.

    None where it says nothing of any. Without a calibrator of its own its scores take mean and deviation of the fused
    values of what it judged, which its list is no tail of a collection for. Of equal scores the fused value decides;
    what it did not judge stands below, in the fused order.
    """
    row_of = {identifier: row for row, identifier in enumerate(candidates.ids)}
    known = judged.without([one for one in judged.ids if one not in row_of])
    if not len(known):
        return candidates, None
    rows = np.array([row_of[one] for one in known.ids], dtype=np.intp)
    scores, own = known.scores, fused[rows]
    values: FloatArray | None = None
    if calibrator is not None:
        with suppress(InvalidInputError):  # scores that it cannot take are read by their own list
            values = calibrator(known).values
    if values is None or not all_true(np.isfinite(values)):
        small = scores / (float(np.abs(scores).max()) or 1.0)
        spread = float(small.std())
        steps = (small - small.mean()) / spread if spread > 0 else np.zeros(len(small))
        values = own.mean() + (float(own.std()) or 1.0) * steps
    order = np.lexsort((-own, -scores))
    out = np.empty(len(fused))
    out[rows[order]] = _falling(values[order], list(zip(scores[order].tolist(), own[order].tolist(), strict=True)))
    rest = np.setdiff1d(np.arange(len(fused)), rows)
    if len(rest):
        rest = rest[np.argsort(-fused[rest], kind="stable")]
        below = np.nextafter(out[rows].min(), -np.inf) - (fused[rest[0]] - fused[rest])
        out[rest] = _falling(below, fused[rest].tolist())
    joined = Candidates(
        candidates.ids, (*candidates.sources, RERANK), (*candidates.rankings, known), (*candidates.positions, rows)
    )
    return joined, out


def _falling(values: FloatArray, keys: Sequence[object]) -> FloatArray:
    """`values`, each below the one before where its key is another, if only by one bit."""
    out = values.copy()
    for row in range(1, len(out)):
        bound = out[row - 1] if keys[row] == keys[row - 1] else np.nextafter(out[row - 1], -np.inf)
        out[row] = min(out[row], bound)
    return out


SELECTION_POOL = 50


@dataclass(slots=True, eq=False)
class Shortlist:
    """The fused and accepted candidates of one query, before a selection among them.

    What stands between the two halves of :meth:`FusionPipeline.decide`: whoever has to fetch embeddings for the
    selection asks for the ids it will choose among, fetches them, and decides.

    Parameters
    ----------
    pipeline : FusionPipeline
    candidates : Candidates
    calibrated : sequence of Calibrated
        In the order of ``candidates.sources``.
    context : Context
    reports : tuple of SourceReport
    degraded : bool
    weights : (m,) array of float
    values : (n, m) array of float
        Calibrated values, missing ones filled in where the rule has terms.
    fused, final : (n,) array of float
        Without and with the priors that multiply.
    weighed : Weighed
        What the priors say.
    rows : (p,) array of int
        The accepted candidates, best first: k of them, or as many as a selection chooses among.
    outcome : AcceptanceOutcome or None
    judge : callable
        ``judge()`` works the confidence out.
    reranked : (n,) array of float, optional
        What a reranker says of each candidate on the scale of the fused values; then the last column of `candidates` is
        its ranking, which `calibrated`, `weights` and `values` do not have.
    """

    pipeline: FusionPipeline
    candidates: Candidates
    calibrated: Sequence[Calibrated]
    context: Context
    reports: tuple[SourceReport, ...]
    degraded: bool
    weights: FloatArray
    values: FloatArray
    fused: FloatArray
    final: FloatArray
    weighed: Weighed
    rows: IntArray
    outcome: AcceptanceOutcome | None
    judge: Callable[[], ConfidenceEvidence]
    reranked: FloatArray | None = None

    @property
    def confidence(self) -> ConfidenceEvidence:
        """How far the corpus seems to hold an answer."""
        return self.judge()

    @property
    def to_embed(self) -> tuple[str, ...]:
        """Ids of the candidates whose embeddings the selection needs; empty where it needs none."""
        policy, given = self.pipeline.selection, self.context.embeddings
        if policy is None or not policy.needs_embeddings or callable(given) or given:
            return ()
        return tuple(self.candidates.ids[row] for row in self.rows.tolist())

    def decide(
        self, embeddings: Mapping[str, FloatArray] | Callable[[Sequence[str]], ArrayLike] | None = None
    ) -> Result:
        """Select among the candidates.

        Parameters
        ----------
        embeddings : mapping of str to (d,) array, or callable, optional
            In place of the context's; see :class:`Context`.
        """
        context = self.context if embeddings is None else replace(self.context, embeddings=embeddings)
        rows, extras, warned = self._selected(context)
        contributed, calibrated = self._explained(rows)
        weights = self.weights
        if self.reranked is not None:
            blend, said = context.blend, self.reranked[rows]
            weights = np.append((1.0 - blend) * weights, blend)
            contributed = np.column_stack([(1.0 - blend) * contributed, blend * said])
            calibrated = np.column_stack([calibrated, said])
        agreed = agreement(sources_proper(self.candidates).rankings)
        bonuses, factors = self.weighed.bonuses, self.weighed.factors
        return Result(
            ids=tuple(map(self.candidates.ids.__getitem__, rows.tolist())),
            scores=publish(self.final[rows]),
            fused=self.fused[rows],
            contributions=contributed,
            calibrated=calibrated,
            weights=weights,
            bonuses=_repeated(len(rows), 0.0) if bonuses is None else bonuses[rows],
            priors=_repeated(len(rows), 1.0) if factors is None else factors[rows],
            rows=rows,
            candidates=self.candidates,
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
        """Rows of the answer, what acceptance and selection say of it, and what the caller should know."""
        rows, policy = self.rows, self.pipeline.selection
        extras: dict[str, object] = {} if self.outcome is None else {"acceptance": self.outcome}
        if self.weighed.readings:
            extras["priors"] = self.weighed.readings
        warned: tuple[str, ...] = ()
        if self.outcome is not None:
            warned = tuple(
                f"the promise of the threshold {one.name!r} does not hold for this answer: {one.reason}"
                for one in self.outcome.certificates
                if not one.valid
            )
            if self.outcome.failed:
                raised = self.outcome.reason.partition(": ")[2]
                warned += (f"on_empty raised {raised}: nothing is accepted",)
            accept = self.pipeline.accept
            if accept is not None and accept.confidence and self.confidence.value is None:
                done = (
                    "everything was held back" if self.outcome.reason == "low_confidence" else "nothing was held back"
                )
                warned += (f"there is no confidence to accept by, and {done}: {self.confidence.reason}",)
        if policy is not None and len(rows):
            found, failed = self._together(policy, context)
            extras["selection"] = found
            rows = rows[found.rows]
            warned += failed
        if self.pipeline.rescorer is not None:
            warned += left_out(self.pipeline.rescorer, sources_proper(self.candidates, _JUDGED))
        if self.pipeline.strict and warned:
            raise DegradedError(f"strict=True accepts no degradation; got {'; '.join(warned)}")
        if self.weighed.superposition is not None:
            extras["superposition"] = self.weighed.superposition.of(rows)
        return rows, extras, (*warned, *(one.warning for one in self.weighed.readings if one.warning))

    def _together(self, policy: SelectionPolicy, context: Context) -> tuple[SelectionResult, tuple[str, ...]]:
        """Which of the rows go together; the fused order, and a line that says so, where that cannot be worked out."""
        ids = [self.candidates.ids[row] for row in self.rows.tolist()]
        relevance, kind = self._relevance(policy)
        costs = None if policy.budget is None else _costs(context, ids)
        if policy.needs_embeddings and not callable(context.embeddings) and not context.embeddings:
            raise InvalidInputError(
                "selection by redundancy needs an embedding of every candidate in Context.embeddings (a mapping or a "
                "callable); got none"
            )
        own = replace(policy, distinct=True) if policy.method == "log_det" and policy.distinct is None else policy
        try:
            embeddings = _embeddings(context, ids) if policy.needs_embeddings else None
            found = own.select(relevance, embeddings, self.pipeline.k, costs=costs)
            return replace(found, relevance=kind), ()
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a selection that fails never costs the answer
            why = str(error) if isinstance(error, PhasegraphError) else type(error).__name__
            failed = f"selection by {policy.method} failed, the order is the fused one: {why}"
            plain = SelectionPolicy("top", budget=policy.budget)
            return plain.select(relevance, None, self.pipeline.k, costs=costs), (failed,)

    def _relevance(self, policy: SelectionPolicy) -> tuple[FloatArray, str]:
        """What a selection takes for relevance, and what that is: the document's rule is not scaled."""
        fused = self.final[self.rows]
        if policy.method != "legacy_entropy":
            return scaled_relevance(fused), "fused, scaled"
        if self.weighed.superposition is not None:
            return self.weighed.superposition.relevance[self.rows], "superposition"
        own = sources_proper(self.candidates)
        scores = own.scores[self.rows, 0]
        only = own.rankings[0]
        if len(own.sources) == 1 and not only.rank_only and scores.min() >= 0 and scores.max() <= 1:
            return scores, "score"
        if fused.min() >= 0 and fused.max() <= 1:
            return fused, "fused"
        return scaled_relevance(fused), "fused, scaled"

    def _explained(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Contributions and calibrated values of the chosen rows, missing ones filled in."""
        rule, chosen = FUSION_RULES[self.pipeline.rule], self.values[rows]
        if not len(self.values):
            return chosen, chosen
        if rule.terms is not None:
            return rule.terms(chosen, self.weights), chosen
        missing = np.array([one.missing for one in self.calibrated])
        contributed = contributions(rule, self.pipeline.rule_options, self.values, self.weights, missing, rows)
        return contributed, np.where(np.isnan(chosen), missing, chosen)


def _embeddings(context: Context, ids: Sequence[str]) -> FloatArray:
    """(n, d) rows for the pool, from the context's mapping or callable."""
    given = context.embeddings
    if callable(given):
        return np.asarray(given(ids), dtype=np.float64)
    lacking = [identifier for identifier in ids if identifier not in given]
    if lacking:
        raise InvalidInputError(
            f"Context.embeddings must hold an embedding of every candidate; {len(lacking)} of {len(ids)} have none, "
            f"{lacking[0]!r} among them"
        )
    return np.array([given[identifier] for identifier in ids], dtype=np.float64)


def _costs(context: Context, ids: Sequence[str]) -> FloatArray:
    lacking = next((identifier for identifier in ids if identifier not in context.costs), None)
    if lacking is not None:
        raise InvalidInputError(f"selection with a budget needs Context.costs of every candidate; {lacking!r} has none")
    return np.array([context.costs[identifier] for identifier in ids], dtype=np.float64)


KIND, VERSION = "pipeline", 1
_PAPER: Mapping[str, tuple[float, int | None, PoolCapMode]] = {
    "musique": (0.7, 30, "list"),
    "2wiki": (0.4, 20, "list"),
    "hard-slice": (0.3, None, "list"),
    "legacy": (0.4, 50, "unique_only"),
}
_ADR_WEIGHTS = MappingProxyType({"lexical": 1.0, "vector": 1.0, "graph": 0.35})
_CONVEX_WEIGHTS = MappingProxyType({"vector": 0.8, "lexical": 0.2})
_SOURCE, _VALUES, _MISSING = attrgetter("source"), attrgetter("values"), attrgetter("missing")
_PARTS: Mapping[str, Any] = MappingProxyType(
    {"accept": AcceptancePolicy, "selection": SelectionPolicy, "rescorer": Rescorer}
)
_PLAIN = ("pool_cap_mode", "rule", "weighting", "consensus_bonus", "consensus_bounded", "k", "strict")


@kept_while_short
def _repeated(count: int, value: float) -> FloatArray:
    """(count,) read-only array of one value."""
    made = np.full(count, value)
    made.setflags(write=False)
    return made


@kept_while_short
def _accepted(count: int) -> BoolArray:
    """(count,) read-only array of true."""
    made = np.ones(count, dtype=np.bool_)
    made.setflags(write=False)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionPipeline(KnownFields):
    """How rankings become a result. A frozen value: ``dataclasses.replace`` to vary, one JSON file to keep.

    Parameters
    ----------
    pool_caps : mapping of str to int
        Longest list per source, before calibration; >= 1.
    pool_cap_mode : {"list", "unique_only"}, default "list"
        Cut the list itself, or only its hits that no other source returned.
    calibrator : Calibrator
        For every source without one of its own; default background calibration.
    calibrators : mapping of str to Calibrator
        Fitted ones by source name. A source that states its background keeps it under the default `calibrator`.
    rule : str, default "linear"
        A name in ``FUSION_RULES``.
    rule_options : mapping of str to object
        Its keyword options. A rule that expects percentiles or values in [0, 1] needs calibrators that give them.
    weights : mapping of str to float, optional
        By source name, >= 0, not all 0; divided by their sum over the sources that answered, except that under a rule
        which the literature does not divide (reciprocal rank, CombSUM and others: ``FUSION_RULES[rule].sums``) equal
        weights count 1 each. A source whose weight is 0 is not fused. A source that is not named is an error.
        Default: by `weighting`.
    weighting : {"adaptive", "equal", "roles"}, default "adaptive"
        Weights where none are given.
    consensus_bonus : float, default 0
        Added to a candidate that at least two sources returned; >= 0.
    consensus_bounded : bool, default False
        Read the bonus as a share of the largest fused value.
    priors : tuple of Prior
        Multipliers from what the hits, or the context, say of a candidate, and :class:`~phasegraph.ExactMatchBonus`,
        one more source. ``extras["priors"]`` of the result counts what was missing.
    accept : AcceptancePolicy or Confidence, optional
        Thresholds per source, over calibrated values, for the published score and the confidence; what is not accepted
        is not returned. Default: everything is accepted.
    selection : SelectionPolicy or the name of its method, optional
        Which k of the 50 best accepted go together; default the k best.
    rescorer : Rescorer, optional
        Learned corrections, added to the fused value as a bonus where exactly its sources answered; made by
        ``phasegraph tune --rescore``.
    k : int, default 10
        Results returned; >= 0. It changes neither scores nor, without a selection, order.
    strict : bool, default False
        Turn any degradation, calibration by list alone, and scores outside the calibration range, into an error.
    min_agreement : mapping of (str, str) to float
        For ordered pairs of sources the agreement below which the result warns, in [0, 1]: after calibrating, the 5th
        percentile over the calibration queries. For other pairs it warns where they agree on nothing.
    confidence : ConfidenceModel
        How ``Result.confidence`` is worked out.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside its range; the message names it.

    Examples
    --------
    >>> vector = Ranking("vector", ["a", "b", "c", "d", "e"], [0.62, 0.55, 0.41, 0.40, 0.12])
    >>> graph = Ranking("graph", ["c", "f", "b", "g"], [0.31, 0.02, 0.004, 0.001])
    >>> result = FusionPipeline.phasegraph().decide([vector, graph])
    >>> result.ids[:3], result.fused[:3].round(6).tolist()
    (('a', 'c', 'b'), [0.393196, 0.28426, 0.217723])
    """

    pool_caps: Mapping[str, int] = field(default_factory=dict, hash=False)
    pool_cap_mode: PoolCapMode = "list"
    calibrator: Calibrator = field(default_factory=BackgroundCalibrator, hash=False)
    calibrators: Mapping[str, Calibrator] = field(default_factory=dict, hash=False)
    rule: str = "linear"
    rule_options: Mapping[str, object] = field(default_factory=dict, hash=False)
    weights: Mapping[str, float] | None = field(default=None, hash=False)
    weighting: str = "adaptive"
    consensus_bonus: float = 0.0
    consensus_bounded: bool = False
    priors: tuple[Prior, ...] = ()
    accept: AcceptancePolicy | None = None
    selection: SelectionPolicy | None = None
    rescorer: Rescorer | None = None
    k: int = 10
    strict: bool = False
    min_agreement: Mapping[tuple[str, str], float] = field(default_factory=dict, hash=False)
    confidence: ConfidenceModel = field(default_factory=ConfidenceModel)

    def __post_init__(self) -> None:
        put = object.__setattr__
        for name in ("pool_caps", "calibrators", "rule_options"):
            put(self, name, check_mapping(name, getattr(self, name)))
        put(self, "min_agreement", check_floor(self.min_agreement))
        caps = {name: check_count(f"pool_caps[{name!r}]", cap, minimum=1) for name, cap in self.pool_caps.items()}
        put(self, "pool_caps", MappingProxyType(caps))
        check_choice("pool_cap_mode", self.pool_cap_mode, ("list", "unique_only"))
        check_calibrator("calibrator", self.calibrator)
        for source, own in self.calibrators.items():
            check_calibrator(f"calibrators[{source!r}]", own)
        check_choice("rule", self.rule, FUSION_RULES)
        check_rule_options(self.rule, self.rule_options)
        check_scale(self.rule, self.calibrator, self.calibrators)
        if self.weights is not None:
            put(self, "weights", check_weights_mapping(self.weights))
        check_choice("weighting", self.weighting, WEIGHTINGS)
        put(self, "consensus_bonus", check_number("consensus_bonus", self.consensus_bonus))
        put(self, "priors", check_priors(self.priors))
        if self.weights is not None and self._exact_match is not None and EXACT_MATCH in self.weights:
            raise InvalidInputError(f"weights must not name {EXACT_MATCH!r}: its weight is that of ExactMatchBonus")
        if self.rescorer is not None and self._exact_match is not None:
            raise InvalidInputError(
                "rescorer and ExactMatchBonus cannot be used together: a re-scorer is fitted on the sources that "
                "answer, and exact matches are one more in some queries only"
            )
        if isinstance(self.accept, Confidence):
            put(self, "accept", AcceptancePolicy(confidence=self.accept))
        if isinstance(self.selection, str):
            put(self, "selection", SelectionPolicy(self.selection))
        if not isinstance(self.confidence, ConfidenceModel):
            raise InvalidTypeError(f"confidence must be a ConfidenceModel; got {self.confidence!r:.80}")
        for name, kind in _PARTS.items():
            if not isinstance(getattr(self, name), kind | None):
                raise InvalidTypeError(f"{name} must be {kind.__name__} or None; got {getattr(self, name)!r}")
        put(self, "k", check_count("k", self.k))
        check_flag("consensus_bounded", self.consensus_bounded)
        check_flag("strict", self.strict)

    __reduce__ = by_fields

    @classmethod
    def phasegraph(cls, configuration: str = "musique", /) -> FusionPipeline:
        """Build the paper's pipeline: percentile ranks, Boltzmann rule, no bonus.

        Parameters
        ----------
        configuration : {"musique", "2wiki", "hard-slice", "legacy"}, default "musique"
            Vector weight .7 with the graph list capped at 30; .4 with 20; .3 uncapped; .4 with the graph's own
            additions, those hits that the vectors lack, capped at 50.

        Returns
        -------
        FusionPipeline

        Raises
        ------
        InvalidInputError
            If there is no such configuration.

        Notes
        -----
        Sources are named ``vector`` and ``graph``. The bonus's size is not recoverable from the paper: 0 here. Of the
        legacy configuration the paper states the cap alone; the weight is that of ``2wiki``, and that the cap counts
        divergent hits only is one of two readings.

        References
        ----------
        .. [1] "Calibrated Fusion for Heterogeneous Graph-Vector Retrieval in Multi-Hop QA", arXiv:2603.28886
        """
        if configuration not in _PAPER:
            raise InvalidInputError(f"configuration must be one of {sorted(_PAPER)}; got {configuration!r}")
        vector_weight, cap, mode = _PAPER[configuration]
        return cls(
            pool_caps={} if cap is None else {"graph": cap},
            pool_cap_mode=mode,
            calibrator=ListCalibrator("percentile"),
            rule="boltzmann",
            weights={"vector": vector_weight, "graph": 1.0 - vector_weight},
        )

    @classmethod
    def reciprocal_rank(
        cls, weights: Mapping[str, float] | None = None, *, rank_constant: float = 60.0
    ) -> FusionPipeline:
        """Build weighted reciprocal rank fusion, equal weights unless told otherwise.

        Parameters
        ----------
        weights : mapping of str to float, optional
            By source name.
        rank_constant : float, default 60
            > 0.

        Returns
        -------
        FusionPipeline

        Examples
        --------
        >>> lists = [Ranking("a", ["x", "y"], [2.0, 1.0]), Ranking("b", ["y"], [9.0])]
        >>> bool(FusionPipeline.reciprocal_rank().decide(lists).fused[0] == 1 / 61 + 1 / 62)
        True
        """
        return cls(
            calibrator=ListCalibrator("raw"),
            rule="rrf",
            rule_options={"rank_constant": rank_constant},
            weights=weights,
            weighting="equal",
        )

    @classmethod
    def adr(
        cls,
        weights: Mapping[str, float] | None = None,
        *,
        rank_constant: float = 60.0,
        exact_match: float = 1.0,
        importance: str = "importance",
        strength: float = 0.3,
    ) -> FusionPipeline:
        """Build the design record's pipeline: weighted reciprocal rank, exact matches as a source, importance.

        Parameters
        ----------
        weights : mapping of str to float, optional
            Default ``lexical`` 1, ``vector`` 1, ``graph`` .35; sources that are not there do no harm.
        rank_constant : float, default 60
            > 0.
        exact_match : float, default 1
            Weight of :class:`~phasegraph.ExactMatchBonus`, >= 0; the record names the bonus and gives no size.
        importance : str, default "importance"
            Metadata field in [0, 1].
        strength : float, default 0.3
            In [0, 1]; the fused value is multiplied by ``(1 - strength) + strength * importance``.

        Returns
        -------
        FusionPipeline
        """
        return replace(
            cls.reciprocal_rank(_ADR_WEIGHTS if weights is None else weights, rank_constant=rank_constant),
            priors=(ExactMatchBonus(exact_match), UnitPrior(importance, strength)),
        )

    @classmethod
    def convex(
        cls, weights: Mapping[str, float] | None = None, *, infima: Mapping[str, float] | None = None
    ) -> FusionPipeline:
        """Build TM2C2: theoretical min-max of each list, then a convex combination.

        Parameters
        ----------
        weights : mapping of str to float, optional
            Default ``vector`` .8, ``lexical`` .2; tune them.
        infima : mapping of str to float, optional
            The lowest score that each source's scorer can give. Default: -1 (a cosine) for ``vector``, 0 (BM25, a
            walk's mass) for any other.

        Returns
        -------
        FusionPipeline

        Notes
        -----
        A source that lacks a candidate gives it its infimum, that is 0, where the paper scores the union exactly. A
        source with a score below its infimum is reported as failed.

        References
        ----------
        .. [1] Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", arXiv:2210.11934

        Examples
        --------
        >>> lists = [Ranking("vector", ["x", "y"], [0.8, 0.2]), Ranking("lexical", ["y"], [9.0])]
        >>> found = FusionPipeline.convex().decide(lists)
        >>> found.ids, found.fused.round(4)
        (('x', 'y'), array([0.8   , 0.7333]))
        """
        given = _CONVEX_WEIGHTS if weights is None else check_weights_mapping(weights)
        lowest = dict.fromkeys(given, 0.0) | {"vector": -1.0} | dict(check_mapping("infima", infima or {}))
        unknown = sorted(set(infima or {}) - set(given))
        if unknown:
            raise InvalidInputError(f"infima must name sources among {sorted(given)}; got {unknown}")
        own = {name: ListCalibrator("theoretical_min_max", {"infimum": lowest[name]}) for name in given}
        return cls(calibrator=ListCalibrator("min_max"), calibrators=own, weights=given)

    @classmethod
    def named(cls, name: str, /, weights: Mapping[str, float] | None = None) -> FusionPipeline:
        """Build a preset or a fusion rule by its name.

        Parameters
        ----------
        name : str
            ``default``, ``reciprocal_rank``, ``adr``, ``convex``, ``min-max-sum``, ``z-score-sum``, ``phasegraph``,
            ``phasegraph-2wiki``, ``phasegraph-hard-slice``, ``phasegraph-legacy`` or a name in ``FUSION_RULES``: a
            rule with the calibrator that it expects.
        weights : mapping of str to float, optional
            By source name, in place of the preset's own; rules have equal ones.

        Returns
        -------
        FusionPipeline

        Raises
        ------
        InvalidInputError
            If there is no such name, or a weight is wrong.

        Examples
        --------
        >>> FusionPipeline.named("comb_mnz").calibrator
        ListCalibrator(name='min_max', options=mappingproxy({}))
        """
        check_choice("the name of a preset or a rule", name, PIPELINE_NAMES)
        if name in _PRESETS:
            made = _PRESETS[name](cls)
            return made if weights is None else replace(made, weights=weights)
        if name == "convex":
            return cls.convex(weights)
        by = FUSION_RULES[name].calibrator
        calibrator = BackgroundCalibrator() if by == "background" else ListCalibrator(by)
        return cls(calibrator=calibrator, rule=name, weights=weights, weighting="equal")

    def decide(
        self,
        rankings: Sequence[Ranking],
        context: Context | None = None,
        *,
        reports: Sequence[SourceReport] = (),
        k: int | None = None,
    ) -> Result:
        """Fuse the rankings of one query. Pure: no clock, no randomness, no I/O.

        Parameters
        ----------
        rankings : sequence of Ranking
            One per source that answered, in any order.
        context : Context, optional
            What priors, acceptance and selection read.
        reports : sequence of SourceReport, optional
            How the sources fared, failed ones included; made from the rankings where not given.
        k : int, optional
            In place of the pipeline's.

        Returns
        -------
        Result

        Raises
        ------
        InvalidInputError
            If a ranking comes from a source that `weights` does not name, or two from the same source.
        DegradedError
            If `strict` and a source could not look, was calibrated by its list alone, or gave scores of which most
            lie outside the range it was calibrated on; if a selection failed or a promise does not hold.

        Notes
        -----
        A result replays without its sources: ``decide(result.candidates.rankings, context, reports=result.reports)``
        gives the same bits under the same context (and caps that cut whole lists).
        """
        return self.shortlist(rankings, context, reports=reports, k=k).decide()

    @np.errstate(all="ignore")  # scores of 1e308 and 5e-324 are scores: what comes of them is finite
    def shortlist(
        self,
        rankings: Sequence[Ranking],
        context: Context | None = None,
        *,
        reports: Sequence[SourceReport] = (),
        k: int | None = None,
    ) -> Shortlist:
        """Calibrate, fuse and accept; what is left of :meth:`decide` is the selection.

        Parameters
        ----------
        rankings, context, reports, k
            As for :meth:`decide`.

        Returns
        -------
        Shortlist
        """
        chosen = self if k is None else replace(self, k=k)
        context = _NO_CONTEXT if context is None else context
        fused, judged = self._to_fuse(rankings, context)
        if self.pool_caps:
            fused = apply_caps(fused, self.pool_caps, self.pool_cap_mode)
        readings: tuple[FieldReading, ...] = ()
        scaled, failed = calibrate_all(fused, self.calibrators, self.calibrator)
        if failed:  # what a source cannot be calibrated on counts for nothing, as a candidate of a prior either
            fused = [ranking for ranking in fused if ranking.source in scaled]
        if self.priors:
            context = replace(context, rankings=tuple(sorted(fused, key=_SOURCE)))
            exact = self._exact_match
            if fused and exact is not None and all(one.source != EXACT_MATCH for one in fused):
                made, reading = exact.ranking(pool(fused).ids, context)
                rankings, readings = [*rankings, made], (reading,)
                if made.ids:
                    fused = [*fused, made]
                    scaled, _ = calibrate_all(fused, self.calibrators, self.calibrator)
        candidates = pool(fused)
        if self._exact_match is not None and EXACT_MATCH in scaled:
            scaled[EXACT_MATCH] = self._scaled_exact_match(candidates, scaled[EXACT_MATCH])
        found = list(map(scaled.__getitem__, candidates.sources))
        settled = _settle_reports(rankings, reports, scaled, failed)
        if self.strict:
            _refuse(settled)
        degraded = bool(degradations(settled))
        judge = partial(self.confidence.judge, candidates.rankings, context.words)
        if not candidates.ids:
            if degraded:
                judge = partial(ConfidenceEvidence, reason="a source could not look, and the others found nothing")
            none, width = np.empty(0), len(candidates.sources)
            return Shortlist(
                chosen, candidates, found, context, settled, degraded, np.empty(width), np.empty((0, width)), none,
                none, Weighed(), np.empty(0, dtype=np.intp), None, judge,
            )  # fmt: skip
        weights = self._weights(candidates, context)
        total, values = self._apply_rule(candidates, found, weights)
        weighed = Weighed()
        if self.priors or self.consensus_bonus > 0:
            weighed = self._weigh(candidates, total, context, readings)
        if self.rescorer is not None and self.rescorer.sources == candidates.sources:
            corrections = self.rescorer(features_of(candidates, found, values, total))
            bonuses = corrections if weighed.bonuses is None else weighed.bonuses + corrections
            weighed = replace(weighed, bonuses=bonuses)
        if weighed.bonuses is not None:
            total = total + weighed.bonuses
        reranked: FloatArray | None = None
        if judged is not None:
            candidates, reranked = _with_judged(candidates, judged, total, self.calibrators.get(RERANK))
        if reranked is not None:
            own = 1.0 - check_range("Context.blend", context.blend, 0.0, 1.0)
            total = own * total + context.blend * reranked
            if weighed.bonuses is not None:
                weighed = replace(weighed, bonuses=own * weighed.bonuses)
        final = total if weighed.factors is None else with_prior(total, weighed.factors)
        outcome = None
        depth = chosen.k if self.selection is None else max(chosen.k, SELECTION_POOL)
        if self.accept is None:
            rows = top_order(final, candidates.ids, depth)
        else:
            scored = sources_proper(candidates, _EXACT if RERANK in self.accept.thresholds else _ADDED)
            kept = [column for column, name in enumerate(candidates.sources) if name in scored.sources]
            known = values if reranked is None else np.column_stack([values, np.full(len(values), np.nan)])
            outcome = self.accept.decide(
                scored, known[:, kept], publish(final), scored.sources, judge().value, fused=candidates.sources
            )
            settled = _noted(settled, {one.source: self.accept.note_on(one) for one in scored.rankings})
            allowed = np.flatnonzero(outcome.accepted)
            rows = allowed[top_order(final[allowed], [candidates.ids[row] for row in allowed.tolist()], depth)]
        return Shortlist(
            chosen, candidates, found, context, settled, degraded, weights, values, total, final, weighed, rows,
            outcome, judge, reranked,
        )  # fmt: skip

    def _to_fuse(self, rankings: Sequence[Ranking], context: Context) -> tuple[list[Ranking], Ranking | None]:
        """The rankings that have hits and a weight, and a reranker's; an error names what is wrong with any of them."""
        if not isinstance(rankings, list | tuple) and (not isinstance(rankings, Sequence) or isinstance(rankings, str)):
            raise InvalidTypeError(f"rankings must be a sequence of Ranking; got {type(rankings).__name__}")
        if not isinstance(context, Context):
            raise InvalidTypeError(f"context must be a Context or None; got {type(context).__name__}")
        weights, chosen, exact = self.weights, [], self._exact_match
        judged: Ranking | None = None
        for ranking in rankings:
            if not isinstance(ranking, Ranking):
                raise InvalidTypeError(f"rankings must be a sequence of Ranking; got {type(ranking).__name__}")
            if ranking.source in _ADDED:
                if ranking.source == RERANK:
                    judged = ranking if ranking.ids else None
                    continue
                if exact is None:  # of a result that is replayed
                    raise InvalidInputError(
                        f"a ranking named {EXACT_MATCH!r} is ExactMatchBonus's, which is no prior here"
                    )
                chosen += [ranking] if ranking.ids else []
                continue
            if weights is not None and ranking.source not in weights:
                raise InvalidInputError(
                    f"weights must name every source; got {sorted(weights)}, not {ranking.source!r}"
                )
            if ranking.ids and (weights is None or weights[ranking.source] > 0):
                chosen.append(ranking)
        return chosen, judged

    def _weights(self, candidates: Candidates, context: Context) -> FloatArray:
        """(m,) weights over the sources that answered, divided once by their sum in name order.

        Under a rule that the literature does not divide, 1 each where they are all equal.
        """
        own = sources_proper(candidates)
        if self.weights is None:
            witness = () if context.words is None else context.words.order
            given = WEIGHTINGS[self.weighting](own.rankings, witness).tolist()
        else:
            given = list(map(self.weights.__getitem__, own.sources))
        if own is not candidates and self._exact_match is not None:
            unit = 1.0 if self.weights is not None else math.fsum(given) / len(given)
            given.insert(candidates.sources.index(EXACT_MATCH), unit * self._exact_match.weight)
        most = max(given)
        scaled = [weight / most for weight in given]
        if FUSION_RULES[self.rule].sums and min(scaled) == 1.0:
            return np.ones(len(scaled))
        total = math.fsum(scaled)
        return np.array([weight / total for weight in scaled])

    def _apply_rule(
        self, candidates: Candidates, found: Sequence[Calibrated], weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Fused values, and the (n, m) values they come from, missing ones filled in where the rule has terms."""
        rule = FUSION_RULES[self.rule]
        columns, missing = list(map(_VALUES, found)), list(map(_MISSING, found))
        if rule.terms is None:
            values = candidates.spread(columns)
            fused = rule.function(values, weights=weights, missing=np.array(missing), **self.rule_options)
            return fused, values
        values = candidates.spread(columns, missing)
        first, *others = weights.tolist()
        total = rule.terms(values[:, 0], first)
        for column, weight in enumerate(others, start=1):  # from the left: the order of a sum decides its last bit
            total += rule.terms(values[:, column], weight)
        return total, values

    def _scaled_exact_match(self, candidates: Candidates, found: Calibrated) -> Calibrated:
        """The terms of every candidate on the scale of a list normalisation that says nothing of a constant list.

        A candidate that is not returned holds no term, which is known, and so it is part of the list.
        """
        (ranking,) = [one for one in candidates.rankings if one.source == EXACT_MATCH]
        calibrator, others = self.calibrator_of(ranking), len(candidates) - len(ranking)
        if not isinstance(calibrator, ListCalibrator) or calibrator.bounded or not others:
            return found
        counts = np.concatenate([ranking.scores, np.zeros(others)])
        whole = calibrator(Ranking(EXACT_MATCH, [f"{row:09}" for row in range(len(counts))], counts))
        return replace(found, values=whole.values[: len(ranking)], missing=float(whole.values[-1]))

    @property
    def _exact_match(self) -> ExactMatchBonus | None:
        """The prior that is one more source, if there is one and it counts."""
        if not self.priors:
            return None
        return next((one for one in self.priors if isinstance(one, ExactMatchBonus) and one.weight > 0), None)

    def _weigh(
        self, candidates: Candidates, fused: FloatArray, context: Context, readings: tuple[FieldReading, ...]
    ) -> Weighed:
        """What consensus and priors add and multiply."""
        bonuses = self._consensus(candidates, fused)
        factors: FloatArray | None = None
        state: Superposition | None = None
        for prior in self.priors:
            if isinstance(prior, ExactMatchBonus):
                continue
            if isinstance(prior, SuperpositionPrior):
                state, read = prior.state(candidates.ids, context)
                values = prior.multipliers(state)
            elif hasattr(prior, "weigh"):
                values, read = prior.weigh(candidates.ids, context)
            else:
                values, read = prior(candidates.ids, context), ()
            readings += read
            if prior.additive:
                bonuses = values if bonuses is None else bonuses + values
            else:
                factors = values if factors is None else factors * values
        return Weighed(bonuses, factors, readings, state)

    def _consensus(self, candidates: Candidates, fused: FloatArray) -> FloatArray | None:
        own = sources_proper(candidates)
        if self.consensus_bonus <= 0 or len(own.sources) < 2:
            return None
        top = float(np.abs(fused).max())
        size = self.consensus_bonus * top if self.consensus_bounded else self.consensus_bonus
        if size > top:
            warn(
                f"consensus_bonus {size:g} exceeds the largest fused value {top:g}: every candidate that two "
                "sources returned comes before every other",
                stacklevel=6,
            )
        return np.where(own.returned >= 2, size, 0.0)

    def calibrator_of(self, ranking: Ranking) -> Calibrator:
        """The calibrator this pipeline uses for a ranking: the source's own, or the one for all."""
        return calibrator_for(ranking, self.calibrators, self.calibrator)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state."""
        state: dict[str, object] = {name: getattr(self, name) for name in _PLAIN}
        state["pool_caps"] = dict(self.pool_caps)
        state["rule_options"] = dict(self.rule_options)
        state["weights"] = None if self.weights is None else dict(self.weights)
        state["calibrator"] = dict(self.calibrator.to_dict())
        state["calibrators"] = {name: dict(one.to_dict()) for name, one in self.calibrators.items()}
        for name in _PARTS:
            part = getattr(self, name)
            state[name] = None if part is None else part.to_dict()
        state["min_agreement"] = [[*pair, share] for pair, share in self.min_agreement.items()]
        state["priors"] = [dict(prior.to_dict()) for prior in self.priors]
        state["confidence"] = self.confidence.to_dict()
        return state

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> FusionPipeline:
        """Rebuild from :meth:`to_dict`; InvalidInputError names what does not fit."""
        try:
            return cls(**_fields_of(state))  # type: ignore[arg-type]
        except PhasegraphError:
            raise
        except Exception as error:
            raise InvalidInputError(f"a pipeline's fields must be what to_dict gives; {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the pipeline to one JSON file, in one step."""
        write_document(path, KIND, VERSION, self.to_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FusionPipeline:
        """Read a saved pipeline; IntegrityError if the file is damaged, foreign or newer."""
        return cls.from_dict(read_document(path, KIND, VERSION))


_PRESETS: Mapping[str, Callable[[type[FusionPipeline]], FusionPipeline]] = MappingProxyType(
    {
        "default": lambda kind: kind(),
        "reciprocal_rank": lambda kind: kind.reciprocal_rank(),
        "adr": lambda kind: kind.adr(),
        "min-max-sum": lambda kind: kind.named("comb_sum"),
        "z-score-sum": lambda kind: replace(kind.named("comb_sum"), calibrator=ListCalibrator("z_score")),
        "phasegraph": lambda kind: kind.phasegraph(),
        "phasegraph-2wiki": lambda kind: kind.phasegraph("2wiki"),
        "phasegraph-hard-slice": lambda kind: kind.phasegraph("hard-slice"),
        "phasegraph-legacy": lambda kind: kind.phasegraph("legacy"),
    }
)
PIPELINE_NAMES = (*_PRESETS, "convex", *FUSION_RULES)


def _settle_reports(
    rankings: Sequence[Ranking],
    reports: Sequence[SourceReport],
    scaled: Mapping[str, Calibrated],
    failed: Mapping[str, str],
) -> tuple[SourceReport, ...]:
    """Reports in name order, made where none came, with the tier each source was calibrated by."""
    known = dict(zip(map(_SOURCE, reports), reports, strict=True))
    if len(known) != len(reports):
        raise InvalidInputError(f"reports must be one per source; got {[report.source for report in reports]}")
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
    """The reports with a note each, where there is one that they do not hold yet."""
    said = ((report, notes.get(report.source, "")) for report in reports)
    return tuple(
        replace(report, notes=(*report.notes, note)) if note and note not in report.notes else report
        for report, note in said
    )


def _refuse(reports: Sequence[SourceReport]) -> None:
    bad = [f"{name}: {why}" for name, why in degradations(reports).items()]
    bad += [
        f"{one.source}: calibrated by its list alone"
        for one in reports
        if one.calibration == "per_list" and one.source != EXACT_MATCH
    ]
    bad += drifts(reports)
    if bad:
        raise DegradedError(f"strict=True accepts no degradation; got {'; '.join(bad)}")


def _fields_of(state: Mapping[str, object]) -> dict[str, object]:
    """Constructor arguments from what :meth:`FusionPipeline.to_dict` gives."""
    known = {
        *_PLAIN,
        "pool_caps",
        "rule_options",
        "weights",
        "calibrator",
        "calibrators",
        "priors",
        "min_agreement",
        *_PARTS,
        "confidence",
    }
    unknown = sorted(set(state) - known)
    if unknown:
        raise InvalidInputError(f"a pipeline's fields must be among {sorted(known)}; got {unknown}")
    fields = dict(state)
    if "calibrator" in fields:
        fields["calibrator"] = calibrator_from_dict(_mapping("calibrator", fields["calibrator"]))
    own = _mapping("calibrators", fields.get("calibrators", {}))
    fields["calibrators"] = {
        name: calibrator_from_dict(_mapping(f"calibrators[{name!r}]", one)) for name, one in own.items()
    }
    for name, kind in _PARTS.items():
        if fields.get(name) is not None:
            fields[name] = kind.from_dict(_mapping(name, fields[name]))
    fields["min_agreement"] = {(one[0], one[1]): one[2] for one in _rows("min_agreement", fields)}
    if "confidence" in fields:
        fields["confidence"] = ConfidenceModel.from_dict(_mapping("confidence", fields["confidence"]))
    priors = fields.get("priors", [])
    if not isinstance(priors, list):
        raise InvalidInputError(f"priors must be a list; got {type(priors).__name__}")
    fields["priors"] = tuple(prior_from_dict(_mapping("priors", one)) for one in priors)
    return fields


def _rows(name: str, fields: Mapping[str, object]) -> list[tuple[str, str, float]]:
    rows = fields.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 3 for row in rows):
        raise InvalidInputError(f"{name} must be a list of [source, other source, share]; got {rows!r:.200}")
    return rows


def _mapping(name: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a mapping; got {type(value).__name__}")
    return value


def fit_min_agreement(
    answers: Iterable[Sequence[Ranking]], /, pipeline: FusionPipeline
) -> dict[tuple[str, str], float]:
    """The 5th percentile of each ordered pair's agreement, in [0, 1], over calibration queries.

    What is compared follows the caps and weights of the pipeline. Pairs that fewer than 20 queries have both sources
    of are left out. Warns if two sources agree on nothing in most of the queries, since no answer will warn of it
    then.

    >>> from phasegraph import FusionPipeline
    >>> lists = [[Ranking("a", ["x", "y"], [2.0, 1.0]), Ranking("b", ["x", "z"], [9.0, 8.0])]] * 20
    >>> fit_min_agreement(lists, FusionPipeline())
    {('a', 'b'): 0.5, ('b', 'a'): 0.5}
    """
    seen: dict[tuple[str, str], list[float]] = {}
    weights = pipeline.weights
    for rankings in answers:
        fused = [one for one in rankings if len(one) and (weights is None or weights.get(one.source, 0.0) > 0)]
        for pair, share in agreement(apply_caps(fused, pipeline.pool_caps, pipeline.pool_cap_mode)).items():
            seen.setdefault(pair, []).append(share)
    known = {pair: seen[pair] for pair in sorted(seen) if len(seen[pair]) >= LEAST_QUERIES}
    for first, second in known:
        if first < second and not any(np.median(known[pair]) for pair in ((first, second), (second, first))):
            warn(
                f"sources {first!r} and {second!r} agree on nothing in most of the queries they are calibrated on: one "
                "may be broken, or of another collection",
                stacklevel=4,
            )
    return {pair: float(np.quantile(shares, _LEVEL)) for pair, shares in known.items()}


Hits: TypeAlias = Callable[[str, Sequence[Ranking]], HitWords | None]


def fit_confidence(
    answers: Iterable[tuple[str, Sequence[Ranking]]],
    /,
    pipeline: FusionPipeline,
    words: Hits | None = None,
    relevant: Mapping[str, Collection[str]] | None = None,
) -> ConfidenceModel:
    """How a pipeline judges confidence, fitted to the questions of a calibration and the rankings of their sources.

    The bar and the width are fitted with 20 questions that the source named ``vector`` answers; see
    :func:`phasegraph.confidence.fit_bar`. The probability is fitted where 20 judged questions have a confidence:
    `relevant` are the ids that answer each, none where the corpus is known not to, and ``words(question, rankings)``
    is what :func:`phasegraph.lexical.read_hits` says. A judged question stands for two: one with its answer, and one
    whose relevant passages are taken out of the lists. The probability is that of a corpus which answers every second
    question. Warns if none can be fitted to 20 judged questions or more.

    >>> lists = [(f"q{i}", [Ranking("vector", ["x"], [0.5 + i / 100])]) for i in range(21)]
    >>> fit_confidence(lists, FusionPipeline()).bar
    0.51
    """
    plain = replace(
        pipeline, accept=None, strict=False, priors=(), rescorer=None, consensus_bonus=0.0,
        confidence=replace(pipeline.confidence, slope=None, intercept=None),
    )  # fmt: skip

    def judged(question: str, rankings: Sequence[Ranking]) -> ConfidenceEvidence:
        said = None if words is None else words(question, rankings)
        return plain.shortlist(rankings, Context(query=question, words=said)).confidence

    listed = list(answers)
    found = [plain.shortlist(rankings, Context(query=question)).confidence.top for question, rankings in listed]
    model = fit_bar(plain.confidence, [top for top in found if top is not None])
    if words is None or not relevant:
        return model
    plain = replace(plain, confidence=model)
    good, poor = [], []
    for question, rankings in listed:
        if question in relevant:
            gold = frozenset(relevant[question])
            if gold:
                good.append(judged(question, rankings))
            poor.append(judged(question, [ranking.without(gold) for ranking in rankings]))
    try:
        return fit_probability(model, good, poor)
    except InsufficientDataError as error:
        if len([one for one in good if one.value is not None]) >= LEAST_QUERIES:  # fewer have another purpose
            warn(f"the confidence stays no probability: {error}", stacklevel=4)
        return model
