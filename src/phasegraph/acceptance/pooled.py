"""One level for all sources, on each source's own pooled distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.acceptance.fitting import fit_threshold, fitted, midpoint
from phasegraph.acceptance.judged import JudgedScores
from phasegraph.acceptance.orientation import check_orientation
from phasegraph.acceptance.thresholds import Threshold
from phasegraph.errors import InsufficientDataError


def fit_global_threshold(
    judged: Mapping[str, JudgedScores],
    /,
    *,
    fit: Callable[[JudgedScores], Threshold] = fit_threshold,
) -> dict[str, Threshold]:
    """One level for all sources, on each source's own pooled ECDF, given back in each source's unit.

    Parameters
    ----------
    judged : mapping of str to JudgedScores
        By source name; the scores of all its queries together are its reference sample.
    fit : callable, default :func:`~phasegraph.acceptance.fit_threshold`
        Finds the level on the shares in (0, 1] that all sources have in common;
        :func:`~phasegraph.acceptance.fit_grid` is the other natural choice.

    Returns
    -------
    dict of str to Threshold
        ``ECDF(score) >= level`` and ``score >= value`` accept the same judged hits; `statistics` holds the
        level.

    Notes
    -----
    A share here is of the whole reference sample, never of one query's list, whose best hit always has 1.
    """
    if not judged:
        raise InsufficientDataError("a global threshold needs judged hits of at least one source; got none")
    names = sorted(judged)
    for name in names:
        check_orientation(judged[name], name)
    references = {name: np.sort(judged[name].scores) for name in names}
    shares = [ecdf(references[name], judged[name].scores) for name in names]
    labels = np.concatenate([judged[name].labels for name in names])
    queries = [judged[name].names[group] for name in names for group in judged[name].groups.tolist()]
    level = fit(JudgedScores(np.concatenate(shares), labels, queries))
    out = {}
    for name in names:
        value = _quantile_for(references[name], level.value)
        statistics = {"level": level.value, **level.statistics}
        out[name] = fitted(judged[name], value, f"pooled-ecdf/{level.method}", level.value, statistics)
    return out


def ecdf(reference: FloatArray, scores: FloatArray, /) -> FloatArray:
    """Share of the ascending `reference` at or below each score, in [0, 1]."""
    return np.searchsorted(reference, scores, side="right") / len(reference)


def _quantile_for(reference: FloatArray, level: float) -> float:
    """Raw value that accepts the same members of `reference` as ``ECDF >= level``."""
    distinct = np.unique(reference)
    row = int(np.searchsorted(ecdf(reference, distinct), level, side="left"))
    if row >= len(distinct):
        return float(np.nextafter(distinct[-1], np.inf))
    return float(distinct[0]) if row == 0 else midpoint(float(distinct[row - 1]), float(distinct[row]))
