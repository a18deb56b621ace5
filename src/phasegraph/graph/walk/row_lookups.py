"""Look up row numbers, and values that belong to row numbers, in short sorted arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phasegraph._support.typing import BoolArray, FloatArray, IntArray


def within(rows: IntArray, some: IntArray) -> BoolArray:
    """Return a boolean array of shape (n,): True for each of n rows that is in the ascending array `some`."""
    if not len(some):
        return np.zeros(len(rows), dtype=np.bool_)
    found: BoolArray = some.take(some.searchsorted(rows), mode="clip") == rows
    return found


def in_any_order(ascending: Callable[[IntArray], FloatArray], rows: IntArray) -> FloatArray:
    """Apply a function that needs ascending rows to unsorted, distinct `rows`; value i belongs to ``rows[i]``."""
    order = rows.argsort()
    out = np.empty(len(rows))
    out[order] = ascending(rows[order])
    return out


def found_at(some: IntArray, values: FloatArray, rows: IntArray, otherwise: FloatArray | float = 0.0) -> FloatArray:
    """Return the value of each row in `rows`, an array of shape (n,).

    `values` are the values of the ascending rows `some`. A row that is not in `some` gets `otherwise`.

    >>> found_at(np.array([2, 5]), np.array([0.2, 0.5]), np.array([5, 6, 2])).tolist()
    [0.5, 0.0, 0.2]
    """
    if not len(some):
        return np.array(np.broadcast_to(otherwise, len(rows)), dtype=np.float64)
    place = some.searchsorted(rows)
    found: FloatArray = np.where(some.take(place, mode="clip") == rows, values.take(place, mode="clip"), otherwise)
    return found
