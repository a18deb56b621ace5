"""Rankings in, result out: the one function that tests, evaluation, replay and both frameworks call."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from phasegraph._typing import BoolArray, FloatArray, IntArray
from phasegraph.calibration import Calibrated
from phasegraph.candidates import Candidates, Ranking, SourceReport, degradations, pool
from phasegraph.errors import DegradedError, InvalidInputError, InvalidTypeError, PhasegraphWarning
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.weighting import WEIGHTINGS
from phasegraph.pipeline import choosing, parts
from phasegraph.pipeline.result import Reason, Result
from phasegraph.pipeline.suspicion import disagreements, drifts
from phasegraph.priors import Context

if TYPE_CHECKING:
    from phasegraph.pipeline.pipeline import FusionPipeline

_SOURCE, _VALUES, _MISSING = attrgetter("source"), attrgetter("values"), attrgetter("missing")


def decide(
    pipeline: FusionPipeline, rankings: Sequence[Ranking], context: Context, reports: Sequence[SourceReport]
) -> Result:
    """See :meth:`FusionPipeline.decide`."""
    fused = _to_fuse(pipeline, rankings, context)
    if pipeline.pool_caps:
        fused = parts.apply_caps(fused, pipeline.pool_caps, pipeline.pool_cap_mode)
    scaled, failed = parts.calibrate_all(fused, pipeline.calibrators, pipeline.calibrator)
    candidates = pool([ranking for ranking in fused if ranking.source in scaled] if failed else fused)
    found = list(map(scaled.__getitem__, candidates.sources))
    settled = _settle_reports(rankings, reports, scaled, failed)
    degraded = bool(degradations(settled))
    if pipeline.strict:
        _refuse(settled)
    if not candidates.ids:
        return _empty(candidates, settled, degraded, "could_not_look" if degraded else "nothing_found")
    return _fuse(pipeline, candidates, found, context, settled, degraded)


def _fuse(
    pipeline: FusionPipeline,
    candidates: Candidates,
    found: Sequence[Calibrated],
    context: Context,
    reports: tuple[SourceReport, ...],
    degraded: bool,
) -> Result:
    weights = _weights(pipeline, candidates)
    fused, values = _apply_rule(pipeline, candidates, found, weights)
    bonuses = factors = None
    if pipeline.priors or pipeline.consensus_bonus > 0:
        bonuses = _bonuses(pipeline, candidates, fused, context)
        factors = _factors(pipeline, candidates, context)
    if bonuses is not None:
        fused = fused + bonuses
    final = fused if factors is None else parts.with_prior(fused, factors)
    rows, extras, chosen_warnings = choosing.choose(pipeline, candidates, values, final, context)
    contributed, calibrated = _explained(pipeline, found, weights, values, rows)
    agreement = parts.agreement(candidates.rankings)
    return Result(
        ids=tuple(map(candidates.ids.__getitem__, rows.tolist())),
        scores=parts.publish(final[rows]),
        fused=fused[rows],
        contributions=contributed,
        calibrated=calibrated,
        weights=weights,
        bonuses=_repeated(0.0, len(rows)) if bonuses is None else bonuses[rows],
        priors=_repeated(1.0, len(rows)) if factors is None else factors[rows],
        rows=rows,
        candidates=candidates,
        accepted=_accepted(len(rows)),
        reports=reports,
        agreement=agreement,
        degraded=degraded,
        reason="all_rejected" if extras and choosing.abstained(extras) else "",
        warnings=disagreements(agreement, pipeline.agreement_floor) + drifts(reports) + chosen_warnings,
        extras=extras,
    )


def _apply_rule(
    pipeline: FusionPipeline, candidates: Candidates, found: Sequence[Calibrated], weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Fused values, and the (n, m) values they come from, missing ones filled in where the rule has terms."""
    rule = FUSION_RULES[pipeline.rule]
    columns, missing = list(map(_VALUES, found)), list(map(_MISSING, found))
    if rule.terms is None:
        values = candidates.spread(columns)
        fused = rule.function(values, weights=weights, missing=np.array(missing), **pipeline.rule_options)
        return fused, values
    values = candidates.spread(columns, missing)
    first, *others = weights.tolist()
    total = rule.terms(values[:, 0], first)
    for column, weight in enumerate(others, start=1):  # from the left: the order of a sum decides its last bit
        total += rule.terms(values[:, column], weight)
    return total, values


def _explained(
    pipeline: FusionPipeline,
    found: Sequence[Calibrated],
    weights: FloatArray,
    values: FloatArray,
    rows: IntArray,
) -> tuple[FloatArray, FloatArray]:
    """Contributions and calibrated values of the chosen rows, missing ones filled in."""
    rule, chosen = FUSION_RULES[pipeline.rule], values[rows]
    if rule.terms is not None:
        return rule.terms(chosen, weights), chosen
    missing = np.array([one.missing for one in found])
    contributed = parts.contributions(rule, pipeline.rule_options, values, weights, missing, rows)
    return contributed, np.where(np.isnan(chosen), missing, chosen)


@lru_cache(maxsize=64)
def _repeated(value: float, count: int) -> FloatArray:
    """(count,) read-only array of one value."""
    made = np.full(count, value)
    made.setflags(write=False)
    return made


@lru_cache(maxsize=64)
def _accepted(count: int) -> BoolArray:
    """(count,) read-only array of true."""
    made = np.ones(count, dtype=np.bool_)
    made.setflags(write=False)
    return made


def _to_fuse(pipeline: FusionPipeline, rankings: Sequence[Ranking], context: Context) -> list[Ranking]:
    """The rankings that have hits and a weight; an error names what is wrong with any of them."""
    if not isinstance(rankings, list | tuple) and (not isinstance(rankings, Sequence) or isinstance(rankings, str)):
        raise InvalidTypeError(f"rankings must be a sequence of Ranking; got {type(rankings).__name__}")
    if not isinstance(context, Context):
        raise InvalidTypeError(f"context must be a Context or None; got {type(context).__name__}")
    weights, chosen = pipeline.weights, []
    for ranking in rankings:
        if not isinstance(ranking, Ranking):
            raise InvalidTypeError(f"rankings must be a sequence of Ranking; got {type(ranking).__name__}")
        if weights is not None and ranking.source not in weights:
            raise InvalidInputError(f"weights must name every source; got {sorted(weights)}, not {ranking.source!r}")
        if ranking.ids and (weights is None or weights[ranking.source] > 0):
            chosen.append(ranking)
    return chosen


def _weights(pipeline: FusionPipeline, candidates: Candidates) -> FloatArray:
    """(m,) weights over the sources that answered, divided once by their sum in name order."""
    if pipeline.weights is None:
        given = WEIGHTINGS[pipeline.weighting](candidates.rankings).tolist()
    else:
        given = list(map(pipeline.weights.__getitem__, candidates.sources))
    most = max(given)
    scaled = [weight / most for weight in given]
    total = math.fsum(scaled)
    return np.array([weight / total for weight in scaled])


def _bonuses(
    pipeline: FusionPipeline, candidates: Candidates, fused: FloatArray, context: Context
) -> FloatArray | None:
    bonuses: FloatArray | None = None
    if pipeline.consensus_bonus > 0 and len(candidates.sources) > 1:
        top = float(np.abs(fused).max())
        size = pipeline.consensus_bonus * top if pipeline.consensus_bounded else pipeline.consensus_bonus
        if size > top:
            warnings.warn(
                f"consensus_bonus {size:g} exceeds the largest fused value {top:g}: every candidate that two sources "
                "returned comes before every other",
                PhasegraphWarning,
                stacklevel=5,
            )
        bonuses = np.where(candidates.returned >= 2, size, 0.0)
    for prior in pipeline.priors:
        if prior.additive:
            added = prior(candidates.ids, context)
            bonuses = added if bonuses is None else bonuses + added
    return bonuses


def _factors(pipeline: FusionPipeline, candidates: Candidates, context: Context) -> FloatArray | None:
    factors: FloatArray | None = None
    for prior in pipeline.priors:
        if not prior.additive:
            values = prior(candidates.ids, context)
            factors = values if factors is None else factors * values
    return factors


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
            known[name] = SourceReport.of(ranking) if one is None else SourceReport.of(ranking, one.tier, one.outside)
        elif one is not None:
            known[name] = report.calibrated(one.tier, one.outside)
    for name, reason in failed.items():
        known[name] = replace(known[name], status="error", reason=reason, error_class="InvalidInputError")
    return tuple(map(known.__getitem__, sorted(known)))


def _refuse(reports: Sequence[SourceReport]) -> None:
    bad = [f"{name}: {why}" for name, why in degradations(reports).items()]
    bad += [f"{r.source}: calibrated by its list alone" for r in reports if r.calibration == "list"]
    bad += drifts(reports)
    if bad:
        raise DegradedError(f"strict=True accepts no degradation; got {'; '.join(bad)}")


def _empty(candidates: Candidates, reports: tuple[SourceReport, ...], degraded: bool, reason: Reason) -> Result:
    none, width = np.empty(0), len(candidates.sources)
    return Result(
        ids=(),
        scores=none,
        fused=none,
        contributions=np.empty((0, width)),
        calibrated=np.empty((0, width)),
        weights=np.empty(width),
        bonuses=none,
        priors=none,
        rows=np.empty(0, dtype=np.intp),
        candidates=candidates,
        accepted=np.empty(0, dtype=np.bool_),
        reports=reports,
        degraded=degraded,
        reason=reason,
    )
