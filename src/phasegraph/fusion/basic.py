"""Fusion rules that everyone knows: weighted sum, weighted reciprocal rank, CombSUM, CombMNZ."""

from __future__ import annotations

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.candidates import tied_ranks
from phasegraph.errors import InvalidInputError
from phasegraph.fusion.base import check_matrix, check_weights, filled, ordered_sum


def linear(
    values: FloatArray, /, *, weights: FloatArray | None = None, missing: FloatArray | None = None
) -> FloatArray:
    """Weighted sum of calibrated values.

    Parameters
    ----------
    values : (n, m) array of float
        Row = candidate, column = source, on a common scale; NaN = not returned.
    weights : (m,) array of float, optional
        >= 0, used as given; default 1 each.
    missing : (m,) array of float, optional
        What a candidate takes where a source lacks it; default 0, as in the paper's linear rule.

    Returns
    -------
    (n,) array of float
        In the unit of `values`. Not a probability.

    Raises
    ------
    InvalidInputError
        If shapes do not fit or a weight is negative or not finite.

    Examples
    --------
    >>> linear(np.array([[1.0, 0.5], [np.nan, 1.0]]), weights=np.array([0.7, 0.3])).round(4)
    array([0.85, 0.3 ])
    """
    matrix = check_matrix(values)
    return ordered_sum(linear_terms(filled(matrix, missing), check_weights(weights, matrix.shape[1])))


def linear_terms(values: FloatArray, weights: FloatArray | float, /) -> FloatArray:
    """Parts of the weighted sum, from values without NaN: of (n, m) with m weights, or of one column with its own."""
    return values * weights


def reciprocal_rank(
    values: FloatArray,
    /,
    *,
    weights: FloatArray | None = None,
    missing: FloatArray | None = None,
    rank_constant: float = 60.0,
) -> FloatArray:
    """Weighted sum over sources of ``1 / (rank_constant + rank)``.

    Parameters
    ----------
    values : (n, m) array of float
        Only the order within a column matters; NaN = not returned, which adds 0.
    weights : (m,) array of float, optional
        >= 0, used as given; default 1 each. The design record's are lexical 1, dense 1, graph .35.
    missing : ignored
        A source that lacks a candidate adds 0, by the rule's definition.
    rank_constant : float, default 60
        Dimensionless, > 0. Larger means the top ranks count less.

    Returns
    -------
    (n,) array of float
        In [0, sum of weights / (rank_constant + 1)]. Not a probability.

    Raises
    ------
    InvalidInputError
        If `rank_constant` is not positive, shapes do not fit or a weight is negative.

    Notes
    -----
    Ranks start at 1 as in [1]_ (LlamaIndex starts at 0). Ties share their mean rank.

    References
    ----------
    .. [1] Cormack, Clarke, Büttcher, SIGIR 2009, doi:10.1145/1571941.1572114

    Examples
    --------
    >>> reciprocal_rank(np.array([[9.0, np.nan], [3.0, 0.2]])).round(4)
    array([0.0164, 0.0325])
    """
    if not (np.isfinite(rank_constant) and rank_constant > 0):
        raise InvalidInputError(f"rank_constant must be finite and positive; got {rank_constant!r}")
    matrix = check_matrix(values)
    ranks = np.column_stack([tied_ranks(matrix[:, column]) for column in range(matrix.shape[1])])
    terms = np.nan_to_num(1.0 / (rank_constant + ranks), nan=0.0)
    return ordered_sum(terms * check_weights(weights, matrix.shape[1]))


def comb_sum(
    values: FloatArray, /, *, weights: FloatArray | None = None, missing: FloatArray | None = None
) -> FloatArray:
    """Sum of the values a candidate got; a source that lacks it adds 0.

    Parameters
    ----------
    values : (n, m) array of float
        On a common scale, normally in [0, 1]; NaN = not returned.
    weights : (m,) array of float, optional
        >= 0, used as given; default 1 each.
    missing : ignored
        A source that lacks a candidate adds 0, by the rule's definition.

    Returns
    -------
    (n,) array of float

    Raises
    ------
    InvalidInputError
        If shapes do not fit or a weight is negative.

    References
    ----------
    .. [1] Fox, Shaw, "Combination of Multiple Searches", TREC-2, 1994

    Examples
    --------
    >>> comb_sum(np.array([[1.0, 0.5], [np.nan, 1.0]]))
    array([1.5, 1. ])
    """
    matrix = check_matrix(values)
    return ordered_sum(filled(matrix, None) * check_weights(weights, matrix.shape[1]))


def comb_mnz(
    values: FloatArray, /, *, weights: FloatArray | None = None, missing: FloatArray | None = None
) -> FloatArray:
    """CombSUM times the number of sources that returned the candidate.

    Parameters
    ----------
    values, weights, missing
        As in :func:`comb_sum`.

    Returns
    -------
    (n,) array of float

    Raises
    ------
    InvalidInputError
        If shapes do not fit or a weight is negative.

    Notes
    -----
    A source whose weight is 0 does not count. With negative values the product turns over: another source
    that returned ``-1`` lowers the candidate, so calibrate to values >= 0 first.

    References
    ----------
    .. [1] Fox, Shaw, "Combination of Multiple Searches", TREC-2, 1994

    Examples
    --------
    >>> comb_mnz(np.array([[1.0, 0.5], [np.nan, 1.0]]))
    array([3., 1.])
    """
    matrix = check_matrix(values)
    checked = check_weights(weights, matrix.shape[1])
    hits = (~np.isnan(matrix) & (checked > 0)).sum(axis=1)
    return np.asarray(ordered_sum(filled(matrix, None) * checked) * hits)
