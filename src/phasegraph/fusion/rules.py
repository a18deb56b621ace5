"""Fusion rules of the literature and of the PhaseGraph paper.

Each rule turns (n, m) calibrated values into (n,) fused values.

Call each rule as ``rule(values, weights=None, missing=None, **options)``. :func:`linear` documents these three common
parameters and the errors. The notes name properties ("laws") that a rule does not satisfy; see
:mod:`phasegraph.testing.laws`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from phasegraph._support.numbers import moderate
from phasegraph._support.ordering import tied_ranks
from phasegraph._support.typing import FloatArray, IntArray, PerSource
from phasegraph._support.validation import check_choice, check_range
from phasegraph.errors import InvalidInputError


def linear(values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None) -> FloatArray:
    """Compute the weighted sum of calibrated values.

    Parameters
    ----------
    values : (n, m) array of float
        A row per candidate and a column per source; finite, or NaN if the source did not return the candidate. This
        rule needs values on a common scale.
    weights : (m,) array of float, optional
        The source weights, finite and >= 0, not normalized; default 1 each.
    missing : (m,) array of float, optional
        The value, for each source, of a candidate that the source did not return; default 0, as in the paper's linear
        rule. Most other rules ignore it, because their definition sets the value of a missing candidate. That value is
        0 unless the rule states another value.

    Returns
    -------
    (n,) array of float
        The fused values, in the unit of `values`; not probabilities.

    Raises
    ------
    InvalidInputError
        If shapes do not match, a weight is negative or not finite, or an option is outside its range.

    Examples
    --------
    >>> linear(np.array([[1.0, 0.5], [np.nan, 1.0]]), weights=np.array([0.7, 0.3])).round(4)
    array([0.85, 0.3 ])
    """
    matrix, factors = checked(values, weights)
    return ordered_sum(filled(matrix, missing) * factors)


def reciprocal_rank(
    values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None, rank_constant: float = 60.0
) -> FloatArray:
    """Compute the weighted sum over sources of ``1 / (rank_constant + rank)``.

    Parameters
    ----------
    values, weights, missing
        As for :func:`linear`, but only the order within a column of `values` matters, and `missing` is ignored.
        :meth:`FusionPipeline.adr <phasegraph.FusionPipeline.adr>` uses the weights BM25 1, vector 1 and graph 0.35.
    rank_constant : float, default 60
        Number that is added to each rank, > 0. A larger number makes the top ranks count less.

    Returns
    -------
    (n,) array of float
        Fused values in [0, sum of weights / (rank_constant + 1)]; not probabilities.

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
    check_range("rank_constant", rank_constant, ends="(]")
    matrix, factors = checked(values, weights)
    return ordered_sum(np.nan_to_num(1.0 / (rank_constant + _ranks(matrix)), nan=0.0) * factors)


def comb_sum(values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None) -> FloatArray:
    """Compute the weighted sum of a candidate's values (CombSUM [1]_); a source that lacks the candidate adds 0.

    Parameters
    ----------
    values, weights, missing
        As for :func:`linear`, `values` normally in [0, 1]; `missing` is ignored.

    Returns
    -------
    (n,) array of float
        Fused values; in [0, sum of weights] for values in [0, 1].

    References
    ----------
    .. [1] Fox, Shaw, "Combination of Multiple Searches", TREC-2, 1994

    Examples
    --------
    >>> comb_sum(np.array([[1.0, 0.5], [np.nan, 1.0]]))
    array([1.5, 1. ])
    """
    matrix, factors = checked(values, weights)
    return ordered_sum(filled(matrix, None) * factors)


def comb_mnz(values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None) -> FloatArray:
    """Compute CombSUM times the number of sources that returned the candidate.

    Parameters
    ----------
    values, weights, missing
        As for :func:`comb_sum`; a source of weight 0 does not count.

    Returns
    -------
    (n,) array of float
        Fused values; in [0, m * sum of weights] for values in [0, 1].

    Notes
    -----
    Calibrate to values >= 0 first. With negative values, one more source that returns a candidate can lower its fused
    value.

    Examples
    --------
    >>> comb_mnz(np.array([[1.0, 0.5], [np.nan, 1.0]]))
    array([3., 1.])
    """
    matrix, factors = checked(values, weights)
    return np.asarray(ordered_sum(filled(matrix, None) * factors) * _hits(matrix, factors))


BoltzmannNorm = Literal["sum", "max"]


def boltzmann(
    values: FloatArray,
    /,
    *,
    weights: PerSource = None,
    missing: PerSource = None,
    epsilon: float = 1e-6,
    temperature_factor: float = 0.5,
    temperature: float | None = None,
    norm: BoltzmannNorm = "sum",
) -> FloatArray:
    """Compute the weighted sum of each list's Boltzmann weights (Eq. 2 to 5 of the paper).

    Parameters
    ----------
    values : (n, m) array of float
        Percentile ranks in [0, 1], each column computed over its own list; NaN = not returned.
    weights, missing
        As for :func:`linear`, but `missing` is ignored. The paper's weights are (a, 1 - a); a is the *vector* weight.
    epsilon : float, default 1e-6
        Number that keeps the energy finite at percentile 0, > 0.
    temperature_factor : float, default 0.5
        Temperature divided by the mean energy of the list, > 0.
    temperature : float, optional
        A fixed temperature, > 0; it replaces `temperature_factor`.
    norm : {"sum", "max"}, default "sum"
        Divisor of the Boltzmann weights of a list. ``sum``, as in the paper, divides by their sum; the weight of the
        best hit then falls like 3/n. ``max`` divides by the largest weight, which then does not depend on n.

    Returns
    -------
    (n,) array of float
        Fused values in [0, sum of weights]; not probabilities of relevance.

    Notes
    -----
    For a percentile p, the energy is ``E = -ln(p + epsilon)`` and the temperature is ``T = temperature_factor *
    mean(E)``. The Boltzmann weight is ``P = exp(-E / T)`` divided by the sum over the list. For a list without ties, T
    depends only on n, with limit 1/2. P is then close to the normalized square of p, so the rule is a rank fusion. A
    list with a single hit, or with all hits tied, gets equal weights. The values of `epsilon` and of the factor 1/2
    come from third-party ports of the paper.

    The rule does not satisfy the law "an appended worst hit changes nothing". With ``norm="sum"``, every weight of a
    list shrinks when the list grows (best of 5 hits: 0.5617; best of 50 hits: 0.0605).

    References
    ----------
    .. [1] "Calibrated Fusion for Heterogeneous Graph-Vector Retrieval in Multi-Hop QA", arXiv:2603.28886

    Examples
    --------
    >>> boltzmann(np.array([[1.0], [0.5], [np.nan]])).round(4)
    array([0.982, 0.018, 0.   ])
    """
    check_range("epsilon", epsilon, ends="(]")
    check_range("temperature_factor", temperature_factor, ends="(]")
    if temperature is not None:
        check_range("temperature", temperature, ends="(]")
    check_choice("norm", norm, ("sum", "max"))
    matrix, factors = checked(values, weights)
    shares = partial(boltzmann_shares, epsilon=epsilon, factor=temperature_factor, temperature=temperature, norm=norm)
    return ordered_sum(by_list(check_percentiles(matrix), shares) * factors)


def boltzmann_shares(
    percentiles: FloatArray,
    /,
    *,
    epsilon: float = 1e-6,
    factor: float = 0.5,
    temperature: float | None = None,
    norm: BoltzmannNorm = "sum",
) -> FloatArray:
    """Compute the Boltzmann weights of a non-empty list of percentiles; see :func:`boltzmann`."""
    energy = -np.log(percentiles + epsilon)
    heat = factor * float(energy.mean()) if temperature is None else temperature
    if len(energy) == 1 or heat <= 0 or energy.max() == energy.min():
        return np.full(len(energy), 1.0 / len(energy) if norm == "sum" else 1.0)
    exponent = -energy / heat
    weights = np.exp(exponent - exponent.max())
    return np.asarray(weights / weights.sum()) if norm == "sum" else weights


def boltzmann_temperature(percentiles: FloatArray, /, *, epsilon: float = 1e-6, factor: float = 0.5) -> float:
    """Compute the temperature of a list of percentiles in [0, 1]: `factor` times the mean of ``-ln(p + epsilon)``."""
    return factor * float(np.mean(-np.log(np.asarray(percentiles, dtype=np.float64) + epsilon)))


def comb_anz(values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None) -> FloatArray:
    """Compute the weighted mean of a candidate's values over the sources that returned the candidate (CombANZ).

    Parameters
    ----------
    values, weights, missing
        As for :func:`linear`, but `missing` is ignored: a source that lacks a candidate, or has weight 0, does not
        count.

    Returns
    -------
    (n,) array of float
        Fused values within the range of `values`; 0 if no source counts.

    Notes
    -----
    The rule does not satisfy the law "extra evidence costs no place". A candidate with 1.0 in one list has the mean
    1.0; if a second list returns the candidate with 0.5, the mean falls to 0.75.

    Examples
    --------
    >>> comb_anz(np.array([[1.0, 0.5], [1.0, np.nan]]))
    array([0.75, 1.  ])
    """
    matrix, factors = checked(values, weights)
    held = ordered_sum(np.where(np.isnan(matrix), 0.0, factors))
    total = ordered_sum(filled(matrix, None) * factors)
    return np.asarray(np.where(held > 0, total / np.where(held > 0, held, 1.0), 0.0))


def comb_med(values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None) -> FloatArray:
    """Compute the weighted median of a candidate's values over the sources that returned the candidate (CombMED).

    Parameters
    ----------
    values, weights, missing
        As for :func:`comb_anz`.

    Returns
    -------
    (n,) array of float
        Fused values within the range of `values`; 0 if no source counts. With equal weights, this is the ordinary
        median: for an even number of values, the mean of the two middle values.

    Notes
    -----
    As with :func:`comb_anz`, a candidate can fall in the ranking because one more source returns it. If a source raises
    the value of a candidate, the fused value does not fall, but it may stay the same. For example, the median of three
    values does not change if the highest value rises.

    Examples
    --------
    >>> comb_med(np.array([[1.0, 0.5, 0.0], [1.0, 0.4, np.nan]]))
    array([0.5, 0.7])
    """
    matrix, factors = checked(values, weights)
    held = np.where(np.isnan(matrix), 0.0, factors)
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


def inverse_square_rank(values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None) -> FloatArray:
    """Compute the weighted sum of ``1 / rank ** 2``, times the number of sources that returned the candidate.

    Parameters
    ----------
    values, weights, missing
        As for :func:`reciprocal_rank`; a source of weight 0 does not count.

    Returns
    -------
    (n,) array of float
        Fused values in [0, m * sum of weights].

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
    matrix, factors = checked(values, weights)
    terms = np.nan_to_num(1.0 / _ranks(matrix) ** 2, nan=0.0) * factors
    return np.asarray(_hits(matrix, factors) * ordered_sum(terms))


def borda(values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None) -> FloatArray:
    """Compute the weighted sum of Borda points: n for the first hit of a list, n - 1 for the second hit, and so on.

    Parameters
    ----------
    values, weights, missing
        As for :func:`reciprocal_rank`, except that the candidates a list lacks share its remaining points equally.

    Returns
    -------
    (n,) array of float
        Fused values in [0, n * sum of weights]; n is the number of candidates.

    Notes
    -----
    Ties share their mean points. The rule does not satisfy the law "an appended worst hit changes no order", because
    the points depend on the number of candidates.

    References
    ----------
    .. [1] Aslam, Montague, "Models for metasearch", SIGIR 2001, doi:10.1145/383952.384007

    Examples
    --------
    >>> borda(np.array([[9.0], [3.0], [np.nan], [np.nan]]))
    array([4. , 3. , 1.5, 1.5])
    """
    matrix, factors = checked(values, weights)
    points = len(matrix) + 1 - _ranks(matrix)
    return ordered_sum(filled(points, (np.isnan(matrix).sum(axis=0) + 1) / 2.0) * factors)


def dbsf(values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None) -> FloatArray:
    """Compute the weighted sum of scores that are rescaled by the mean and deviation of their list (DBSF).

    A score three standard deviations below the list's mean becomes 0, and a score three standard deviations above
    the mean becomes 1.

    Parameters
    ----------
    values, weights, missing
        As for :func:`linear`, but `values` may be in each source's own unit, and `missing` is ignored.

    Returns
    -------
    (n,) array of float
        Fused values in [0, sum of weights].

    Notes
    -----
    The standard deviation divides by n, as in LlamaIndex (Qdrant divides by n - 1). Each value of a constant list
    becomes 0.5. Values are clipped to [0, 1]. The rule does not satisfy the law "an appended worst hit changes no
    order", because such a hit changes the mean.

    References
    ----------
    .. [1] Mazzeschi, "Distribution-based score fusion", 2023

    Examples
    --------
    >>> dbsf(np.array([[3.0], [2.0], [1.0]])).round(4)
    array([0.7041, 0.5   , 0.2959])
    """

    def scaled(list_: FloatArray) -> FloatArray:
        if list_.max() == list_.min():
            return np.full(len(list_), 0.5)
        list_ = moderate(list_)
        return np.asarray(np.clip(0.5 + (list_ - list_.mean()) / (6 * float(list_.std())), 0.0, 1.0))

    matrix, factors = checked(values, weights)
    return ordered_sum(by_list(matrix, scaled) * factors)


def checked(values: FloatArray, weights: PerSource, /) -> tuple[FloatArray, FloatArray]:
    """Check the arguments of a rule, and return them as arrays.

    The values become an (n, m) array with m >= 1 and without infinities. The weights become an (m,) array of finite
    numbers >= 0.
    """
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] < 1:
        raise InvalidInputError(f"values must be an (n, m) array with at least one source; got shape {matrix.shape}")
    if np.isinf(matrix).any():
        raise InvalidInputError(
            "values must be finite or NaN (= not returned); got infinity in row "
            f"{int(np.argmax(np.isinf(matrix).any(axis=1)))}"
        )
    count = matrix.shape[1]
    factors = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
    if factors.shape != (count,):
        raise InvalidInputError(f"weights must have one value per source ({count}); got shape {factors.shape}")
    if not np.isfinite(factors).all() or (factors < 0).any():
        raise InvalidInputError(f"weights must be finite and >= 0; got {factors.tolist()}")
    return matrix, factors


def check_percentiles(matrix: FloatArray, /) -> FloatArray:
    """Return `matrix`; raise InvalidInputError unless each entry is a percentile in [0, 1] or NaN."""
    if np.nanmin(matrix, initial=0.0) < 0 or np.nanmax(matrix, initial=1.0) > 1:
        raise InvalidInputError(
            "values must be percentile ranks in [0, 1] for this rule; got values from "
            f"{np.nanmin(matrix):g} to {np.nanmax(matrix):g}: calibrate with 'percentile' first"
        )
    return matrix


def filled(matrix: FloatArray, missing: PerSource, /) -> FloatArray:
    """Return `matrix` with each NaN replaced by the value in `missing` for its column, default 0."""
    if missing is None:
        return np.nan_to_num(matrix, nan=0.0)
    fill = np.asarray(missing, dtype=np.float64)
    if fill.shape != (matrix.shape[1],):
        raise InvalidInputError(f"missing must have one value per source ({matrix.shape[1]}); got shape {fill.shape}")
    return np.where(np.isnan(matrix), fill, matrix)


def by_list(matrix: FloatArray, function: Callable[[FloatArray], FloatArray], /) -> FloatArray:
    """Apply `function` to each column without its NaN entries, and return the (n, m) results.

    A NaN entry, a candidate that the list lacks, becomes 0.
    """
    out = np.zeros(matrix.shape)
    for column, values in enumerate(matrix.T):
        held = ~np.isnan(values)
        if held.any():
            out[held, column] = function(values[held])
    return out


def ordered_sum(terms: FloatArray, /) -> FloatArray:
    """Return the (n,) row sums, added column by column from left to right; equal rows have bitwise equal sums."""
    first, *others = terms.T
    if not others:
        return np.array(first)
    total: FloatArray = first + others[0]
    for column in others[1:]:
        total += column
    return total


def _ranks(matrix: FloatArray) -> FloatArray:
    return np.column_stack([tied_ranks(column) for column in matrix.T])


def _hits(matrix: FloatArray, weights: FloatArray) -> IntArray:
    """Return the (n,) number of sources with a positive weight that returned each candidate."""
    return np.asarray((~np.isnan(matrix) & (weights > 0)).sum(axis=1))
