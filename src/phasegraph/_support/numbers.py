"""Convert numbers of any type to floats, and scale values to prevent overflow and underflow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import SupportsFloat

import numpy as np

from phasegraph._support.typing import BoolArray, FloatArray

_NUMERIC = frozenset({float, int, np.float64, np.float32, np.float16, np.int64, np.int32})


def all_true(flags: BoolArray) -> bool:
    """Return True if all values of a boolean array are True."""
    return bool(np.logical_and.reduce(flags))


def moderate(values: FloatArray) -> FloatArray:
    """Scale values by a power of two if their squares or sums would overflow or underflow.

    Parameters
    ----------
    values : array of float
        Finite values.

    Returns
    -------
    array of float
        The scaled values, in the same shape; the values unchanged if no scaling is needed.

    Examples
    --------
    >>> moderate(np.array([1.0, 2.0])), bool(np.isfinite(moderate(np.array([1e308, -1e308])).std()))
    (array([1., 2.]), True)
    """
    largest = float(np.abs(values).max(initial=0.0))
    if 1e-100 < largest < 1e100 or not largest:
        return values
    return np.asarray(np.ldexp(values, -math.frexp(largest)[1]))


def as_floats(scores: Sequence[object] | FloatArray) -> FloatArray:
    """Convert numbers to float64; other objects become NaN."""
    if isinstance(scores, np.ndarray) and scores.dtype.kind in "fiu":
        return scores.astype(np.float64)
    if set(map(type, scores)) <= _NUMERIC:
        try:
            return np.array(scores, dtype=np.float64)
        except OverflowError:
            pass
    return np.array([_as_float(score) for score in scores], dtype=np.float64)


def _as_float(score: object) -> float:
    if isinstance(score, Decimal | SupportsFloat) and not isinstance(score, bool | np.bool_ | str | bytes):
        try:
            return float(score)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            pass
    return float("nan")
