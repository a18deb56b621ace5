"""Corrections for having asked more than one question: Holm and Benjamini-Hochberg."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError


def _checked(p_values: ArrayLike) -> FloatArray:
    values = np.array(p_values, dtype=np.float64)
    if values.ndim != 1 or not (np.isfinite(values).all() and ((values >= 0) & (values <= 1)).all()):
        raise InvalidInputError(f"p_values must be a list of numbers in [0, 1]; got {p_values!r}")
    return values


def holm(p_values: ArrayLike) -> FloatArray:
    """Holm's step-down adjusted p-values; rejecting those <= a keeps the family-wise error at a.

    Parameters
    ----------
    p_values : (m,) array_like of float
        In [0, 1], one per test of the family.

    Returns
    -------
    (m,) array of float
        In [0, 1], in the order given, never below the value given.

    Raises
    ------
    InvalidInputError
        If a value is not in [0, 1].

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6, 65-70.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    values = _checked(p_values)
    order = np.argsort(values, kind="stable")
    factors = len(values) - np.arange(len(values))
    out = np.empty(len(values))
    out[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * factors))
    return out


def benjamini_hochberg(p_values: ArrayLike) -> FloatArray:
    """Benjamini-Hochberg adjusted p-values; rejecting those <= q keeps the false discovery rate at q.

    Parameters
    ----------
    p_values : (m,) array_like of float
        In [0, 1].

    Returns
    -------
    (m,) array of float
        In [0, 1], in the order given.

    Raises
    ------
    InvalidInputError
        If a value is not in [0, 1].

    References
    ----------
    Benjamini and Hochberg (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.04, 0.03])
    array([0.03, 0.04, 0.04])
    """
    values = _checked(p_values)
    order = np.argsort(values, kind="stable")[::-1]
    count = len(values)
    out = np.empty(count)
    out[order] = np.minimum(1.0, np.minimum.accumulate(values[order] * count / np.arange(count, 0, -1)))
    return out
