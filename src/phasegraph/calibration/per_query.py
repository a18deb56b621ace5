"""Calibrate all rankings of a query."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from phasegraph._support.numbers import all_true
from phasegraph._support.typing import FloatArray
from phasegraph.calibration import BackgroundCalibrator, Calibrated, Calibrator
from phasegraph.errors import InvalidInputError
from phasegraph.ranking import Ranking


def calibrate_all(
    rankings: Sequence[Ranking], calibrators: Mapping[str, Calibrator], default: Calibrator
) -> tuple[dict[str, Calibrated], dict[str, str]]:
    """Return the calibrated values by source name, and the reasons of failed calibrations by source name.

    `calibrators` contains the fitted calibrators by source name; `default` calibrates all other sources. A source
    whose calibration fails does not affect other sources. If no source is informative, background calibration uses the
    ranks instead of the scores; a single short list then keeps its order.
    """
    found: dict[str, Calibrated] = {}
    failed: dict[str, str] = {}
    informative = False
    for ranking in rankings:
        try:
            one = calibrator_for(ranking, calibrators, default)(ranking)
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
            chosen = calibrator_for(ranking, calibrators, default)
            if ranking.source in found and isinstance(chosen, BackgroundCalibrator):
                found[ranking.source] = chosen.by_rank(ranking)
    return found, failed


def _settled(scores: FloatArray, one: Calibrated) -> FloatArray | None:
    """Return the calibrated values in `one`, corrected by :func:`in_order`; None if a value is not finite.

    `scores` are the scores, in descending order, from which these values were calibrated.
    """
    values = one.values
    if not math.isfinite(one.missing):
        return None
    if all_true(values[:-1] > values[1:]) and math.isfinite(values[0]) and math.isfinite(values[-1]):
        return values  # strictly descending values with finite ends are all finite
    return in_order(scores, values) if all_true(np.isfinite(values)) else None


def in_order(scores: FloatArray, values: FloatArray) -> FloatArray:
    """Return a copy of `values` in which a hit with a lower score than the previous hit also has a lower value.

    Rounding can make the values of different scores equal. The value of the lower score then becomes the next smaller
    float. Values that are all equal, or in order, are returned unchanged.
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


def calibrator_for(ranking: Ranking, calibrators: Mapping[str, Calibrator], default: Calibrator) -> Calibrator:
    """Return the calibrator for a ranking.

    If the ranking has a background and the default is background calibration, return the default. Otherwise, return the
    source's calibrator in `calibrators`, or the default.
    """
    if ranking.background is not None and isinstance(default, BackgroundCalibrator):
        return default
    return calibrators.get(ranking.source, default)
