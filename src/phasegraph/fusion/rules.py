"""The fusion rules of the field and the PhaseGraph paper's own: (n, m) calibrated values to (n,) fused values."""

from __future__ import annotations

from typing import Literal

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError
from phasegraph.ranking import tied_ranks


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


BoltzmannNorm = Literal["sum", "max"]


def boltzmann(
    values: FloatArray,
    /,
    *,
    weights: FloatArray | None = None,
    missing: FloatArray | None = None,
    epsilon: float = 1e-6,
    temperature_factor: float = 0.5,
    temperature: float | None = None,
    norm: BoltzmannNorm = "sum",
) -> FloatArray:
    """Weighted sum of each list's Boltzmann weights (Eq. 2 to 5 of the paper).

    Parameters
    ----------
    values : (n, m) array of float
        Percentile ranks in [0, 1], each column over its own list; NaN = not returned, which adds 0.
    weights : (m,) array of float, optional
        >= 0, used as given; the paper's are (a, 1 - a) with a the *vector* weight. Default 1 each.
    missing : ignored
        A source that lacks a candidate adds 0, by the rule's definition.
    epsilon : float, default 1e-6
        Keeps the energy finite at percentile 0; > 0.
    temperature_factor : float, default 0.5
        Temperature over mean energy; > 0.
    temperature : float, optional
        A fixed temperature > 0 in its place.
    norm : {"sum", "max"}, default "sum"
        ``sum`` is the paper's and makes the top of a list fall like 3/n; ``max`` divides by the largest
        weight, so that it does not depend on how long the list is.

    Returns
    -------
    (n,) array of float
        In [0, sum of weights]. Not a probability of relevance.

    Raises
    ------
    InvalidInputError
        If a percentile is outside [0, 1] or an option is outside its range.

    Notes
    -----
    ``E = -ln(p + epsilon)``, ``T = temperature_factor * mean(E)``, ``P = exp(-E / T)`` over its sum. For an
    untied list T depends on n only (1/2 in the limit), so P is close to p squared, normalised: a rank fusion with
    another curve. A list with one hit, or with all hits tied, has no energy to spread and gets equal weights.
    The value of `epsilon` and the factor 1/2 come from third-party ports of the paper.

    It breaks the law "an appended worst hit changes nothing" by its nature: with ``norm="sum"`` every weight of a
    list shrinks when the list grows (top of 5: 0.5617; top of 50: 0.0605).

    References
    ----------
    .. [1] "Calibrated Fusion for Heterogeneous Graph-Vector Retrieval in Multi-Hop QA", arXiv:2603.28886

    Examples
    --------
    >>> boltzmann(np.array([[1.0], [0.5], [np.nan]])).round(4)
    array([0.982, 0.018, 0.   ])
    """
    _check_options(epsilon, temperature_factor, temperature, norm)
    matrix = check_matrix(values)
    if np.nanmin(matrix, initial=0.0) < 0 or np.nanmax(matrix, initial=1.0) > 1:
        raise InvalidInputError("boltzmann needs percentile ranks in [0, 1]; calibrate with 'percentile' first")
    terms = np.zeros(matrix.shape)
    for column in range(matrix.shape[1]):
        rows = np.flatnonzero(~np.isnan(matrix[:, column]))
        if len(rows):
            energy = -np.log(matrix[rows, column] + epsilon)
            terms[rows, column] = _weights(energy, temperature_factor, temperature, norm)
    return ordered_sum(terms * check_weights(weights, matrix.shape[1]))


def boltzmann_temperature(percentiles: FloatArray, /, *, epsilon: float = 1e-6, factor: float = 0.5) -> float:
    """Temperature of one list: `factor` times its mean energy ``-ln(p + epsilon)``.

    Parameters
    ----------
    percentiles : (n,) array of float
        In [0, 1], n >= 1.
    epsilon, factor : float
        As in :func:`boltzmann`.

    Returns
    -------
    float
        May be <= 0 for a list that is all tied.

    Examples
    --------
    >>> round(boltzmann_temperature(np.array([1.0, 0.8, 0.6, 0.4, 0.2])), 6)
    0.325969
    """
    return factor * float(np.mean(-np.log(np.asarray(percentiles, dtype=np.float64) + epsilon)))


def _weights(energy: FloatArray, factor: float, fixed: float | None, norm: BoltzmannNorm) -> FloatArray:
    temperature = factor * float(energy.mean()) if fixed is None else fixed
    if len(energy) == 1 or temperature <= 0 or energy.max() == energy.min():
        return np.full(len(energy), 1.0 / len(energy) if norm == "sum" else 1.0)
    exponent = -energy / temperature
    weights = np.exp(exponent - exponent.max())
    return np.asarray(weights / weights.sum()) if norm == "sum" else weights


def _check_options(epsilon: float, factor: float, fixed: float | None, norm: str) -> None:
    if not (np.isfinite(epsilon) and epsilon > 0):
        raise InvalidInputError(f"epsilon must be finite and positive; got {epsilon!r}")
    if not (np.isfinite(factor) and factor > 0):
        raise InvalidInputError(f"temperature_factor must be finite and positive; got {factor!r}")
    if fixed is not None and not (np.isfinite(fixed) and fixed > 0):
        raise InvalidInputError(f"temperature must be finite and positive; got {fixed!r}")
    if norm not in ("sum", "max"):
        raise InvalidInputError(f"norm must be 'sum' or 'max'; got {norm!r}")


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
