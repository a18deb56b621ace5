"""Check the laws of fusion: properties that every pipeline should have for any rankings of a query.

A law is a function that raises :class:`LawViolation` if the property does not hold. The tests of this project run all
laws for every registered calibrator and rule, and you can run them for a rule of your own. :data:`KNOWN_EXCEPTIONS`
lists properties that a calibrator or weighting cannot have, with the reasons. Numbers such as I1 refer to the list of
laws in ``docs/reliability.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph.errors import PhasegraphError
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking
from phasegraph.result import Result

_TOLERANCE = 1e-9


class LawViolation(PhasegraphError, AssertionError):  # noqa: N818 - the name says that a law is violated
    """A law does not hold; the message describes the violation."""


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise LawViolation(what)


def _all(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> Result:
    return pipeline.decide(rankings, k=sum(map(len, rankings)))


def _same(one: Result, other: Result, what: str) -> None:
    _demand(one.ids == other.ids, f"{what}: ids differ: {one.ids} and {other.ids}")
    _demand(one.fused.tobytes() == other.fused.tobytes(), f"{what}: fused values differ in bits")
    _demand(one.contributions.tobytes() == other.contributions.tobytes(), f"{what}: contributions differ in bits")


def _values(result: Result) -> dict[str, float]:
    return dict(zip(result.ids, result.fused.tolist(), strict=True))


def _close(one: Result, other: Result, what: str) -> None:
    """Raise LawViolation unless two results have the same ids and, within a relative 1e-9, the same fused values.

    The message starts with `what`.
    """
    values, other_values = _values(one), _values(other)
    _demand(set(values) == set(other_values), f"{what}: the sets of ids differ")
    span = max(1.0, float(np.abs(one.fused).max(initial=0.0)))
    for identifier, value in values.items():
        close = abs(value - other_values[identifier]) <= _TOLERANCE * span
        _demand(close, f"{what}: {identifier!r} has {value!r} and {other_values[identifier]!r}")


def _descend(result: Result, ids: Sequence[str], what: str) -> None:
    """Raise LawViolation if the fused values of `ids`, in this order, increase; `what` describes the violation."""
    values = _values(result)
    _demand(bool((np.diff([values[identifier] for identifier in ids]) <= _TOLERANCE).all()), what)


def _replaced(
    rankings: Sequence[Ranking], place: int, ids: Sequence[str], scores: Sequence[float] | FloatArray
) -> list[Ranking]:
    """Return a list of the rankings in which the ranking at position `place` has other hits: `ids` with `scores`."""
    old = rankings[place]
    new = Ranking(old.source, ids, np.asarray(scores), background=old.background, size=old.size)
    return [*rankings[:place], new, *rankings[place + 1 :]]


def _above(ranking: Ranking) -> float:
    """Return the best score plus the difference between best and worst score, at most the largest float."""
    best, worst = float(ranking.scores[0]), float(ranking.scores[-1])
    return min(best + (best - worst), float(np.finfo(np.float64).max))


def single_source(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that a single source keeps its order and its ties (I1)."""
    for ranking in rankings:
        result = _all(replace(pipeline, pool_caps={}), [ranking])
        _demand(result.ids == tuple(ranking.ids), f"order changed: {result.ids} from {ranking.ids}")
        equal_before = np.diff(ranking.scores) == 0
        tied = np.diff(result.fused) == 0
        _demand(bool(tied[equal_before].all()), "hits that tie in the only source must tie in the result")


def empty_is_absent(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that a source without hits does not affect the answer (I2 and I28)."""
    for ranking in rankings:
        others = [one for one in rankings if one is not ranking]
        gone = [*others, Ranking(ranking.source, [], np.empty(0))]
        if others:
            _same(_all(pipeline, others), _all(pipeline, gone), f"with {ranking.source!r} empty")


def weight_zero_is_absent(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that a source with weight 0 adds no candidate, no value and no bonus (I3)."""
    names = [ranking.source for ranking in rankings]
    if len(names) < 2:
        return
    weights = {name: float(position) for position, name in enumerate(names)}
    weighted = replace(pipeline, weights=weights)
    _same(_all(weighted, rankings), _all(weighted, rankings[1:]), f"weight 0 of {names[0]!r}")


def order_of_sources(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that the answer is the same, bit by bit, for another order of the sources and in a second call (I4, I5)."""
    first = _all(pipeline, rankings)
    _same(first, _all(pipeline, list(reversed(rankings))), "sources reversed")
    _same(first, _all(pipeline, rankings), "repeated")


def idempotence(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that a source fused with a copy of itself keeps its order (I6)."""
    for ranking in rankings:
        twin = Ranking(f"{ranking.source}-twin", ranking.ids, ranking.scores, background=ranking.background)
        plain = replace(pipeline, pool_caps={}, weights=None, calibrators={}, weighting="equal")
        result = _all(plain, [ranking, twin])
        _descend(result, ranking.ids, f"a copy changed the order of {ranking.ids}")


def unanimity(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that a candidate does not rank below another candidate if all sources score it at least as high (I7)."""
    value = _values(_all(replace(pipeline, pool_caps={}), rankings))
    shared = sorted(set.intersection(*(set(ranking.ids) for ranking in rankings)))[:8]
    for one in shared:
        for other in shared:
            better = all(
                ranking.scores[ranking.positions[one]] >= ranking.scores[ranking.positions[other]]
                for ranking in rankings
            )
            if better:
                _demand(value[one] >= value[other] - _TOLERANCE, f"{one!r} is no worse anywhere, yet below {other!r}")


def monotonicity(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that a hit does not fall in the answer if it moves to the top of a list of at least five hits (I8)."""
    free = replace(pipeline, pool_caps={})
    before = _all(free, rankings).ids
    for place, ranking in enumerate(rankings):
        if len(ranking) < 5 or ranking.rank_only or ranking.scores[0] == ranking.scores[-1]:
            continue
        lifted = ranking.scores.copy()
        lifted[-1] = _above(ranking)
        after = _all(free, _replaced(rankings, place, ranking.ids, lifted)).ids
        moved = ranking.ids[-1]
        _demand(after.index(moved) <= before.index(moved), f"{moved!r} fell when {ranking.source!r} raised it")


def extra_evidence(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that a candidate does not fall in the answer if another source returns it as its best hit (I9).

    The law applies to equal weights and lists of at least five hits.
    """
    free = replace(pipeline, pool_caps={}, weighting="equal")
    before = _all(free, rankings).ids
    for place, ranking in enumerate(rankings):
        new = next((one for one in before if one not in ranking.positions), None)
        if new is None or len(ranking) < 5 or ranking.rank_only or ranking.scores[0] == ranking.scores[-1]:
            continue
        best = [_above(ranking), *ranking.scores]
        after = _all(free, _replaced(rankings, place, [new, *ranking.ids], best)).ids
        _demand(after.index(new) <= before.index(new), f"{new!r} fell when {ranking.source!r} returned it too")


def appended_worst(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that a new last hit of a list does not reorder the candidates that all sources returned (I19).

    The law applies to sources with exact or fitted calibration, and to equal weights.
    """
    free = replace(pipeline, pool_caps={}, weighting="equal")
    shared = set.intersection(*(set(ranking.ids) for ranking in rankings))
    before = [one for one in _all(free, rankings).ids if one in shared]
    for place, ranking in enumerate(rankings):
        if ranking.rank_only or free.calibrator_of(ranking)(ranking).tier not in ("exact", "fitted"):
            continue
        worst = float(ranking.scores[-1]) - 1e-3 * max(1.0, abs(float(ranking.scores[-1])))
        after = _all(free, _replaced(rankings, place, [*ranking.ids, "zz-worst"], [*ranking.scores, worst])).ids
        kept = [one for one in after if one in shared]
        _demand(kept == before, f"a worst hit of {ranking.source!r} reordered {before} to {kept}")


def replayed(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that the rankings and reports in a result reproduce the result bit by bit."""
    result = _all(replace(pipeline, pool_caps={}), rankings)
    again = replace(pipeline, pool_caps={}).decide(result.candidates.rankings, reports=result.reports, k=len(result))
    _same(result, again, "replayed")


def affine(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that the answer does not change if a source's scores s are replaced by ``2 s + 3`` (I10 and I11).

    The law applies to sources without a stated background, if the new scores are accurate as floats.
    """
    plain, changed = [], []
    for one in rankings:
        with np.errstate(over="ignore"):
            scores = 2.0 * one.scores + 3.0
            kept = np.allclose((scores - 3.0) / 2.0, one.scores, rtol=1e-9, atol=0.0)
        fixed = one.background is not None or one.rank_only or not kept
        plain.append(one if fixed else Ranking(one.source, one.ids, one.scores))
        changed.append(one if fixed else Ranking(one.source, one.ids, scores))
    _close(_all(pipeline, plain), _all(pipeline, changed), "scores doubled and shifted by 3")


def bounded(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that final scores are in [0, 1] and descending, and that fused values are finite (I12)."""
    result = _all(pipeline, rankings)
    _demand(bool(np.isfinite(result.fused).all() and np.isfinite(result.contributions).all()), "not finite")
    _demand(bool(((result.scores >= 0) & (result.scores <= 1)).all()), f"outside [0, 1]: {result.scores}")
    _demand(bool((np.diff(result.scores) <= 0).all()), "scores must descend")


def constant_source(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that a source with equal scores does not reorder the hits of another source (I14)."""
    first = rankings[0]
    flat = Ranking("zz-flat", first.ids, np.ones(len(first)))
    result = _all(replace(pipeline, pool_caps={}, weights=None, weighting="equal"), [first, flat])
    _descend(result, first.ids, "a constant source reordered the hits of another source")


def union(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that the answer contains every returned id exactly once (I17)."""
    result = _all(replace(pipeline, pool_caps={}), rankings)
    returned = sorted({identifier for ranking in rankings for identifier in ranking.ids})
    _demand(sorted(result.ids) == returned, "the answer must contain every returned id once")


def prefix(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that the first results and their scores do not depend on k (I18)."""
    whole = _all(pipeline, rankings)
    for k in (0, 1, len(whole) // 2):
        part = pipeline.decide(rankings, k=k)
        _demand(part.ids == whole.ids[:k], f"the first {k} changed with k")
        _demand(part.scores.tobytes() == whole.scores[:k].tobytes(), f"scores of the first {k} changed with k")


def inputs_unchanged(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that the rankings of the caller are not changed (I22)."""

    def content() -> list[tuple[object, ...]]:
        return [(ranking.ids, ranking.scores.tobytes(), dict(ranking.payloads)) for ranking in rankings]

    before = content()
    _all(pipeline, rankings)
    _demand(before == content(), "a ranking was changed")


def weight_scale(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that the answer does not change if all weights are multiplied by the same number (I25)."""
    weights = {ranking.source: 1.0 + place for place, ranking in enumerate(rankings)}
    scaled = {name: 7.0 * weight for name, weight in weights.items()}
    one, other = replace(pipeline, weights=weights), replace(pipeline, weights=scaled)
    _close(_all(one, rankings), _all(other, rankings), "weights times 7")


def explained(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that contributions and bonus add up to the fused value (I26)."""
    result = _all(pipeline, rankings)
    gap = np.abs(result.contributions.sum(axis=1) + result.bonuses - result.fused)
    span = max(1.0, float(np.abs(result.fused).max(initial=0.0)))
    _demand(bool((gap <= _TOLERANCE * span).all()), f"parts differ from the fused value by {gap.max():g}")


def saved_and_loaded(pipeline: FusionPipeline, rankings: Sequence[Ranking]) -> None:
    """Check that a pipeline restored from its JSON form gives the same answer bit by bit (I27)."""
    _same(_all(pipeline, rankings), _all(FusionPipeline.from_dict(pipeline.to_dict()), rankings), "rebuilt")


_LAWS = (
    single_source, empty_is_absent, weight_zero_is_absent, order_of_sources, idempotence, unanimity, monotonicity,
    extra_evidence, appended_worst, replayed,
    affine, bounded, constant_source, union, prefix, inputs_unchanged, weight_scale, explained, saved_and_loaded,
)  # fmt: skip
LAWS: Mapping[str, Callable[[FusionPipeline, Sequence[Ranking]], None]] = MappingProxyType(
    {law.__name__: law for law in _LAWS}
)
"""The laws by name. Call a law with a pipeline and the rankings of a query; its docstring states the property."""
_RAW = "scores are used without a change, so their unit matters"
KNOWN_EXCEPTIONS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        # a weighting, not a calibrator or rule; the counterexample is in tests/fusion/test_weighting.py
        ("adaptive", "monotonicity"): "a change within a top 20 changes the weights, and so every fused value",
        ("raw", "affine"): _RAW,
        ("max", "affine"): "division by the highest score does not cancel an added number",
        ("theoretical_min_max", "affine"): "the lowest possible score does not change with the scores",
        ("log_z_score", "affine"): "the logarithm is not linear",
        ("reference_ecdf", "affine"): "the reference sample does not change with the scores; fit it again",
    }
)
