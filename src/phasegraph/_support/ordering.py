"""Ranks, the one tie rule, and the best of many values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasegraph._support.numbers import all_true
from phasegraph._support.typing import FloatArray, IntArray

_STRIDES = 64

_FEW, _MANY = 32, 512


def tied_ranks(values: FloatArray, /) -> FloatArray:
    """Ranks from 1, best (highest) first, ties sharing their mean rank; NaN stays NaN."""
    out = np.full(len(values), np.nan)
    present = np.flatnonzero(~np.isnan(values))
    if not len(present):
        return out
    order = present[np.argsort(-values[present], kind="stable")]
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    ends = np.r_[starts[1:], len(ordered)]
    out[order] = np.repeat((starts + 1 + ends) / 2.0, ends - starts)
    return out


def top_order(values: FloatArray, ids: Sequence[str], k: int | None = None) -> IntArray:
    """Rows of the first `k` by (value descending, id ascending): the tie rule of the whole library.

    Parameters
    ----------
    values : (n,) array of float
        Not NaN.
    ids : sequence of str
        The n ids.
    k : int, optional
        How many; default all.

    Returns
    -------
    (min(k, n),) array of int

    Examples
    --------
    >>> top_order(np.array([0.5, 0.9, 0.5]), ["b", "c", "a"], 2)
    array([1, 2])
    """
    count = len(values)
    wanted = count if k is None else min(k, count)
    if wanted <= 0:
        return np.empty(0, dtype=np.intp)
    if wanted < count <= _MANY:
        order = (-values).argsort(kind="stable")[: wanted + 1]
        first = values[order]
        if all_true(first[1:] != first[:-1]):
            return order[:wanted]
    bound = reached_by(values, wanted) if wanted < count else None
    rows = np.arange(count) if bound is None else (values >= bound).nonzero()[0]
    kept = values if bound is None else values[rows]
    if wanted < len(rows) and len(rows) > _FEW:
        ordered = kept.copy()
        ordered.partition(len(rows) - wanted)
        inside = (kept >= ordered[len(rows) - wanted]).nonzero()[0]
        rows, kept = rows[inside], kept[inside]
    if len(rows) > _FEW:
        order = (-kept).argsort(kind="stable")
        rows, kept = rows[order], kept[order]
        if all_true(kept[1:] != kept[:-1]):
            return rows[:wanted]
    pairs = sorted([(-value, ids[row], row) for value, row in zip(kept.tolist(), rows.tolist(), strict=True)])
    return np.array([row for _, _, row in pairs[:wanted]], dtype=np.intp)


def reached_by(values: FloatArray, wanted: int) -> float | None:
    """A value that at least `wanted` of many values reach, close to their `wanted`-th largest; None for few values.

    The largest of every 64 are compared instead of all; they are taken in strides, because lists come ordered.

    Parameters
    ----------
    values : (n,) array of float
        Not NaN.
    wanted : int
        How many, at least 1.

    Returns
    -------
    float or None

    Examples
    --------
    >>> reached_by(np.arange(10_000.0), 20) <= 9980
    True
    """
    width = len(values) // _STRIDES
    if wanted > width:
        return None
    peaks = np.maximum.reduce(values[: width * _STRIDES].reshape(_STRIDES, width), axis=0)
    peaks.partition(width - wanted)
    return float(peaks[width - wanted])
