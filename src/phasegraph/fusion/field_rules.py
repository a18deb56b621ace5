"""Rules of the field, for comparison: CombANZ, CombMED, inverse square rank, Borda, distribution-based scores."""

from __future__ import annotations

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.candidates import tied_ranks
from phasegraph.fusion.base import check_matrix, check_weights, filled, ordered_sum


def comb_anz(
    values: FloatArray, /, *, weights: FloatArray | None = None, missing: FloatArray | None = None
) -> FloatArray:
    """Weighted mean of the values a candidate got, over the sources that returned it.

    Parameters
    ----------
    values : (n, m) array of float
        On a common scale; NaN = not returned.
    weights : (m,) array of float, optional
        >= 0; default 1 each. A source of weight 0 does not count.
    missing : ignored
        A source that lacks a candidate does not count, by the rule's definition.

    Returns
    -------
    (n,) array of float
        Within the range of `values`; 0 where no source counts.

    Raises
    ------
    InvalidInputError
        If shapes do not fit or a weight is negative.

    Notes
    -----
    Laws broken by nature: "extra evidence costs no place". A candidate with 1.0 in one list has the mean 1.0, and
    0.75 once a second list returns it with 0.5.

    References
    ----------
    .. [1] Fox, Shaw, "Combination of Multiple Searches", TREC-2, 1994

    Examples
    --------
    >>> comb_anz(np.array([[1.0, 0.5], [1.0, np.nan]]))
    array([0.75, 1.  ])
    """
    matrix = check_matrix(values)
    checked = check_weights(weights, matrix.shape[1])
    held = ordered_sum(np.where(np.isnan(matrix), 0.0, checked))
    total = ordered_sum(filled(matrix, None) * checked)
    return np.asarray(np.where(held > 0, total / np.where(held > 0, held, 1.0), 0.0))


def comb_med(
    values: FloatArray, /, *, weights: FloatArray | None = None, missing: FloatArray | None = None
) -> FloatArray:
    """Weighted median of the values a candidate got, over the sources that returned it.

    Parameters
    ----------
    values : (n, m) array of float
        On a common scale; NaN = not returned.
    weights : (m,) array of float, optional
        >= 0; default 1 each. A source of weight 0 does not count.
    missing : ignored
        A source that lacks a candidate does not count, by the rule's definition.

    Returns
    -------
    (n,) array of float
        Within the range of `values`; 0 where no source counts. With equal weights the ordinary median, the
        mean of the middle two for an even number.

    Raises
    ------
    InvalidInputError
        If shapes do not fit or a weight is negative.

    Notes
    -----
    Laws broken by nature: "extra evidence costs no place" (as :func:`comb_anz`), and "better in every source is
    better" holds only weakly: with three sources, raising the best value changes nothing.

    References
    ----------
    .. [1] Fox, Shaw, "Combination of Multiple Searches", TREC-2, 1994

    Examples
    --------
    >>> comb_med(np.array([[1.0, 0.5, 0.0], [1.0, 0.4, np.nan]]))
    array([0.5, 0.7])
    """
    matrix = check_matrix(values)
    held = np.where(np.isnan(matrix), 0.0, check_weights(weights, matrix.shape[1]))
    order = np.argsort(matrix, axis=1, kind="stable")
    ranked = filled(np.take_along_axis(matrix, order, axis=1), None)
    reached = np.cumsum(np.take_along_axis(held, order, axis=1), axis=1)
    total = reached[:, -1:]
    half = total / 2
    rows = np.arange(len(matrix))
    close = 1e-12 * np.maximum(total, 1e-300)
    low = ranked[rows, np.argmax(reached >= half - close, axis=1)]
    high = ranked[rows, np.argmax(reached > half + close, axis=1)]
    return np.asarray(np.where(total[:, 0] > 0, (low + high) / 2, 0.0))


def inverse_square_rank(
    values: FloatArray, /, *, weights: FloatArray | None = None, missing: FloatArray | None = None
) -> FloatArray:
    """Number of sources that returned the candidate, times the weighted sum of ``1 / rank ** 2``.

    Parameters
    ----------
    values : (n, m) array of float
        Only the order within a column matters; NaN = not returned, which adds 0.
    weights : (m,) array of float, optional
        >= 0, used as given; default 1 each. A source of weight 0 does not count.
    missing : ignored
        A source that lacks a candidate adds 0, by the rule's definition.

    Returns
    -------
    (n,) array of float
        In [0, m * sum of weights].

    Raises
    ------
    InvalidInputError
        If shapes do not fit or a weight is negative.

    Notes
    -----
    Ranks start at 1; ties share their mean rank.

    References
    ----------
    .. [1] Mourão, Martins, Magalhães, 2015, doi:10.1016/j.compmedimag.2014.05.006

    Examples
    --------
    >>> inverse_square_rank(np.array([[9.0, 0.1], [3.0, np.nan], [1.0, 0.2]])).round(4)
    array([2.5   , 0.25  , 2.2222])
    """
    matrix = check_matrix(values)
    checked = check_weights(weights, matrix.shape[1])
    ranks = np.column_stack([tied_ranks(matrix[:, column]) for column in range(matrix.shape[1])])
    hits = (~np.isnan(matrix) & (checked > 0)).sum(axis=1)
    return np.asarray(hits * ordered_sum(np.nan_to_num(1.0 / ranks**2, nan=0.0) * checked))


def borda(values: FloatArray, /, *, weights: FloatArray | None = None, missing: FloatArray | None = None) -> FloatArray:
    """Weighted sum of Borda points: n for the first of a list, n - 1 for the second, and so on.

    Parameters
    ----------
    values : (n, m) array of float
        Only the order within a column matters; NaN = not returned.
    weights : (m,) array of float, optional
        >= 0, used as given; default 1 each.
    missing : ignored
        The candidates a list lacks share its remaining points equally, by the rule's definition.

    Returns
    -------
    (n,) array of float
        In [0, n * sum of weights], n the number of candidates.

    Raises
    ------
    InvalidInputError
        If shapes do not fit or a weight is negative.

    Notes
    -----
    Ties share their mean points. Laws broken by nature: "an appended worst hit changes no order" (points depend on
    the number of candidates).

    References
    ----------
    .. [1] Aslam, Montague, "Models for metasearch", SIGIR 2001, doi:10.1145/383952.384007

    Examples
    --------
    >>> borda(np.array([[9.0], [3.0], [np.nan], [np.nan]]))
    array([4. , 3. , 1.5, 1.5])
    """
    matrix = check_matrix(values)
    count = len(matrix)
    points = np.column_stack([count + 1 - tied_ranks(matrix[:, column]) for column in range(matrix.shape[1])])
    absent = np.isnan(matrix).sum(axis=0)
    return ordered_sum(filled(points, (absent + 1) / 2.0) * check_weights(weights, matrix.shape[1]))


def dbsf(values: FloatArray, /, *, weights: FloatArray | None = None, missing: FloatArray | None = None) -> FloatArray:
    """Weighted sum of scores rescaled from three deviations below the list's mean (0) to three above (1).

    Parameters
    ----------
    values : (n, m) array of float
        Scores in each source's own unit or any affine transform of it; NaN = not returned, which adds 0.
    weights : (m,) array of float, optional
        >= 0, used as given; default 1 each.
    missing : ignored
        A source that lacks a candidate adds 0, by the rule's definition.

    Returns
    -------
    (n,) array of float
        In [0, sum of weights].

    Raises
    ------
    InvalidInputError
        If shapes do not fit or a weight is negative.

    Notes
    -----
    Deviations divide by n, as in LlamaIndex (Qdrant divides by n - 1); a list of one value gives 0.5. Values are
    clipped to [0, 1]. Laws broken by nature: "an appended worst hit changes no order" (the mean moves).

    References
    ----------
    .. [1] Mazzeschi, "Distribution-based score fusion", 2023

    Examples
    --------
    >>> dbsf(np.array([[3.0], [2.0], [1.0]])).round(4)
    array([0.7041, 0.5   , 0.2959])
    """
    matrix = check_matrix(values)
    terms = np.zeros(matrix.shape)
    for column in range(matrix.shape[1]):
        rows = np.flatnonzero(~np.isnan(matrix[:, column]))
        found = matrix[rows, column]
        spread = float(found.std()) if len(rows) else 0.0
        constant = not len(rows) or found.max() == found.min()
        scaled = np.full(len(rows), 0.5) if constant else 0.5 + (found - found.mean()) / (6 * spread)
        terms[rows, column] = np.clip(scaled, 0.0, 1.0)
    return ordered_sum(terms * check_weights(weights, matrix.shape[1]))
