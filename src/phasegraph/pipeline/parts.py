"""The pure steps of deciding, each a function of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal

import numpy as np

from phasegraph._typing import FloatArray, IntArray
from phasegraph.calibration import BackgroundCalibrator, Calibrated, Calibrator
from phasegraph.candidates import Ranking
from phasegraph.candidates.numbers import all_true
from phasegraph.errors import InvalidInputError
from phasegraph.fusion import FusionRule

PoolCapMode = Literal["list", "graph_only"]
_SHAPLEY_SOURCES = 8
_TOP, _DEPTH = 10, 50


def cap_ranking(ranking: Ranking, cap: int, mode: PoolCapMode, elsewhere: frozenset[str]) -> Ranking:
    """The ranking cut to its first `cap` hits, or to `cap` hits that no other source returned.

    Under ``list`` the whole list is cut (before percentiles are taken); under ``graph_only`` hits that other
    sources also returned are kept whatever their rank.
    """
    if mode == "list":
        rows = list(range(min(cap, len(ranking))))
    else:
        rows, alone = [], 0
        for row, identifier in enumerate(ranking.ids):
            if identifier in elsewhere:
                rows.append(row)
            elif alone < cap:
                rows.append(row)
                alone += 1
    if len(rows) == len(ranking):
        return ranking
    return Ranking(
        ranking.source,
        [ranking.ids[row] for row in rows],
        ranking.scores[rows],
        None if ranking.raw is None else ranking.raw[rows],
        ranking.rank_only,
        ranking.background,
        ranking.size,
        ranking.payloads,
        ranking.dropped,
        ranking.reason,
    )


def apply_caps(rankings: Sequence[Ranking], caps: Mapping[str, int], mode: PoolCapMode) -> list[Ranking]:
    """Every capped source cut to its cap."""
    capped = []
    for ranking in rankings:
        cap = caps.get(ranking.source)
        if cap is not None:
            others = frozenset(i for other in rankings if other is not ranking for i in other.ids)
            ranking = cap_ranking(ranking, cap, mode, others if mode == "graph_only" else frozenset())
        if len(ranking):
            capped.append(ranking)
    return capped


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


def publish(values: FloatArray) -> FloatArray:
    """``(1 + f / (1 + |f|)) / 2``: strictly increasing, from the whole line into [0, 1]."""
    shares = 1.0 + values / (1.0 + np.abs(values))
    return 0.5 * shares


def with_prior(values: FloatArray, factors: FloatArray) -> FloatArray:
    """The fused value times its prior; divided by it where the value is negative, so that a low prior never helps."""
    floor = np.maximum(factors, 1e-9)
    return np.where(values >= 0, values * floor, values / floor)
