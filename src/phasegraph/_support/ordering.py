"""Compute ranks and select the highest values, with a single rule for ties."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from phasegraph._support.numbers import all_true
from phasegraph._support.packed import texts_at
from phasegraph._support.typing import Float32Array, FloatArray, IntArray

_STRIDES = 64

_FEW, _MANY = 32, 512
_ROUNDING = 2.4e-7
"""Margin for rounding errors in cosines: four times the relative rounding error of float32."""


def tied_ranks(values: FloatArray, /) -> FloatArray:
    """Return the ranks of values, from 1 for the highest value; ties share their mean rank, and NaN stays NaN."""
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


def distinct(values: IntArray) -> IntArray:
    """Return the distinct values of an array, as :func:`numpy.unique` does, but faster for a few thousand values.

    Parameters
    ----------
    values : (n,) array of int
        The values.

    Returns
    -------
    array of int
        The distinct values, ascending.

    Examples
    --------
    >>> distinct(np.array([4, 1, 4])).tolist()
    [1, 4]
    """
    ordered = np.sort(values)
    new = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def top_order(values: FloatArray, ids: Sequence[str], k: int | None = None) -> IntArray:
    """Return the positions of the `k` highest values, the highest first; equal values are in ascending order of ids.

    The whole library uses this rule for ties.

    Parameters
    ----------
    values : (n,) array of float
        The values; no NaN.
    ids : sequence of str
        The ids of the n values.
    k : int, optional
        Number of positions; default: all.

    Returns
    -------
    (min(k, n),) array of int
        The positions.

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
    order = (-kept).argsort(kind="stable")
    rows, kept = rows[order], kept[order]
    differ = kept[1:] != kept[:-1]
    if not all_true(differ[:wanted]):
        ends = np.append(differ.nonzero()[0] + 1, len(rows))[:wanted].tolist()
        for first, end in pairwise([0, *ends]):
            if end - first > 1 and first < wanted:
                tied = rows[first:end]
                rows[first:end] = [row for _, row in sorted(zip(texts_at(ids, tied), tied.tolist(), strict=True))]
    return rows[:wanted]


def reached_by(values: FloatArray, wanted: int) -> float | None:
    """Return a bound that at least `wanted` values reach, so that lower values need not be sorted.

    At least `wanted` values are greater than or equal to the bound. The bound is computed from the maxima of groups of
    64 values. A group consists of values at equal distances in the array, because arrays are often sorted.

    Parameters
    ----------
    values : (n,) array of float
        The values; no NaN.
    wanted : int
        Number of values that are sought, at least 1.

    Returns
    -------
    float or None
        The bound; None if there are too few values to use groups.

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


def possibly_best(cosines: FloatArray | Float32Array, wanted: int, width: int) -> IntArray:
    """Return the ascending positions of the cosines that may be among the `wanted` highest.

    The result includes ties. It also includes cosines that could be among the highest if their terms were added in
    another order, with other rounding errors.

    Parameters
    ----------
    cosines : (n,) array of float32
        The cosines.
    wanted : int
        Number of cosines that are sought, at least 1.
    width : int
        Number of dimensions of the vectors, on which the rounding errors depend.

    Returns
    -------
    array of int
        The positions; at least min(wanted, n).

    Examples
    --------
    >>> possibly_best(np.array([0.5, 0.9, 0.90000001, 0.1]), 1, 2)
    array([1, 2])
    """
    if len(cosines) <= wanted:
        return np.arange(len(cosines))
    lowest = np.partition(cosines, len(cosines) - wanted)[len(cosines) - wanted]
    return np.flatnonzero(cosines >= lowest - _ROUNDING * (width + 10))


def best_rows(values: FloatArray, wanted: int) -> IntArray:
    """Return the positions of the `wanted` highest values, in no particular order.

    Among equal values, the first values count as higher.

    Parameters
    ----------
    values : (n,) array of float
        The values; no NaN.
    wanted : int
        Number of positions, at least 1.

    Returns
    -------
    (min(wanted, n),) array of int
        The positions.

    Examples
    --------
    >>> sorted(best_rows(np.array([1.0, 3.0, 1.0, 2.0]), 3).tolist())
    [0, 1, 3]
    """
    if wanted >= len(values):
        return np.arange(len(values))
    bound = reached_by(values, wanted)
    rows = np.arange(len(values)) if bound is None else (values >= bound).nonzero()[0]
    kept = values[rows]
    least = np.partition(kept, len(kept) - wanted)[len(kept) - wanted]
    above, tied = rows[kept > least], rows[kept == least]
    return np.concatenate([above, tied[: wanted - len(above)]])
