"""What every fusion rule shares: checks of its input, and a sum whose order is fixed."""

from __future__ import annotations

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError


def check_matrix(values: FloatArray) -> FloatArray:
    """`values` as an (n, m) float array without infinities, m >= 1."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] < 1:
        raise InvalidInputError(f"values must be an (n, m) array with at least one source; got shape {matrix.shape}")
    if np.isinf(matrix).any():
        raise InvalidInputError("values must be finite or NaN (= not returned); got infinity")
    return matrix


def check_weights(weights: FloatArray | None, count: int) -> FloatArray:
    """(m,) weights as given, default all 1; finite and >= 0."""
    if weights is None:
        return np.ones(count)
    checked = np.asarray(weights, dtype=np.float64)
    if checked.shape != (count,):
        raise InvalidInputError(f"weights must have one value per source ({count}); got shape {checked.shape}")
    if not np.isfinite(checked).all() or (checked < 0).any():
        raise InvalidInputError(f"weights must be finite and >= 0; got {checked.tolist()}")
    return checked


def filled(matrix: FloatArray, missing: FloatArray | None) -> FloatArray:
    """`matrix` with each NaN replaced by its column's `missing`, default 0."""
    if missing is None:
        return np.nan_to_num(matrix, nan=0.0)
    fill = np.asarray(missing, dtype=np.float64)
    if fill.shape != (matrix.shape[1],):
        raise InvalidInputError(f"missing must have one value per source ({matrix.shape[1]}); got shape {fill.shape}")
    return np.where(np.isnan(matrix), fill, matrix)


def ordered_sum(terms: FloatArray) -> FloatArray:
    """Row sums, added column by column from the left, so that equal input gives equal bits."""
    first, *others = terms.T
    if not others:
        return np.array(first)
    total: FloatArray = first + others[0]
    for column in others[1:]:
        total += column
    return total
