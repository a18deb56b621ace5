"""Experimental rules of the PhaseGraph paper's appendix over the Boltzmann weights of percentile ranks.

The paper names them and describes each in one line; the formulas are reconstructed where the docstring says so.
Its own finding is that the rule hardly matters once scores are calibrated, which is what they are here to show.
"""

from __future__ import annotations

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError
from phasegraph.fusion.base import check_matrix, check_weights, filled, ordered_sum
from phasegraph.fusion.boltzmann import boltzmann, boltzmann_temperature


def log_linear(
    values: FloatArray,
    /,
    *,
    weights: FloatArray | None = None,
    missing: FloatArray | None = None,
    epsilon: float = 1e-6,
) -> FloatArray:
    """Weighted sum of the logarithms of each list's Boltzmann weights: a geometric mean.

    Parameters
    ----------
    values : (n, m) array of float
        Percentile ranks in [0, 1], each column over its own list; NaN = not returned.
    weights : (m,) array of float, optional
        >= 0, used as given; default 1 each.
    missing : ignored
        A source that lacks a candidate adds ``ln(epsilon)`` times its weight: a strong veto.
    epsilon : float, default 1e-6
        > 0; added to percentiles and to weights before the logarithm.

    Returns
    -------
    (n,) array of float
        In [sum of weights * ln(epsilon), about 0].

    Raises
    ------
    InvalidInputError
        If a percentile is outside [0, 1], `epsilon` is not positive or shapes do not fit.

    Notes
    -----
    "Geometric mean in probability space" is the paper's; the treatment of missing candidates is reconstructed.
    Laws broken by nature: "an appended worst hit changes no order" (percentiles depend on the list's length), and
    "a raised score never lowers its candidate" where ties are split, which changes the list's temperature.

    References
    ----------
    .. [1] "Calibrated Fusion for Heterogeneous Graph-Vector Retrieval in Multi-Hop QA", arXiv:2603.28886, App. C

    Examples
    --------
    >>> log_linear(np.array([[1.0], [0.5], [np.nan]])).round(2)
    array([ -0.02,  -4.02, -13.82])
    """
    matrix = check_matrix(values)
    shares = list_shares(matrix, epsilon=epsilon)
    return ordered_sum(np.log(shares + epsilon) * check_weights(weights, matrix.shape[1]))


def power_mean(
    values: FloatArray,
    /,
    *,
    weights: FloatArray | None = None,
    missing: FloatArray | None = None,
    exponent: float = 0.5,
) -> FloatArray:
    """Weighted power mean of percentile ranks.

    Parameters
    ----------
    values : (n, m) array of float
        Percentile ranks in [0, 1]; NaN = not returned.
    weights : (m,) array of float, optional
        >= 0, not all 0, divided by their sum; default equal.
    missing : (m,) array of float, optional
        In [0, 1]; what a candidate takes where a source lacks it, default 0.
    exponent : float, default 0.5
        Finite. 1 is the weighted mean, 0 the geometric mean, below 1 rewards consensus; 0 and less give 0 to a
        candidate that lacks a source.

    Returns
    -------
    (n,) array of float
        In [0, 1].

    Raises
    ------
    InvalidInputError
        If a percentile is outside [0, 1], no weight is positive or `exponent` is not finite.

    Notes
    -----
    The paper says only "exponent below 1"; the value is reconstructed. With an exponent of 0 or less a source
    vetoes what it lacks, so that among candidates of one source each the order of that source is lost
    (a law broken by nature; it holds for positive exponents). "An appended worst hit changes no order" is broken
    through the percentiles, which depend on the list's length.

    Examples
    --------
    >>> power_mean(np.array([[1.0, 0.25], [1.0, np.nan]])).round(4)
    array([0.5625, 0.25  ])
    """
    if not np.isfinite(exponent):
        raise InvalidInputError(f"exponent must be finite; got {exponent!r}")
    matrix = percentiles(values)
    shares = normalised(weights, matrix.shape[1])
    used = shares > 0
    table = filled(matrix, missing)[:, used]
    if exponent > 0:
        return np.asarray(ordered_sum(shares[used] * table**exponent) ** (1 / exponent))
    some = (table > 0).all(axis=1)
    safe = np.where(table > 0, table, 1.0)
    if exponent == 0:
        return np.where(some, np.exp(ordered_sum(shares[used] * np.log(safe))), 0.0)
    return np.where(some, ordered_sum(shares[used] * safe**exponent) ** (1 / exponent), 0.0)


def tsallis(
    values: FloatArray,
    /,
    *,
    weights: FloatArray | None = None,
    missing: FloatArray | None = None,
    q: float = 1.5,
    epsilon: float = 1e-6,
) -> FloatArray:
    """Boltzmann fusion with q-exponentials, whose tails are heavier for q > 1.

    Parameters
    ----------
    values : (n, m) array of float
        Percentile ranks in [0, 1], each column over its own list; NaN = not returned, which adds 0.
    weights : (m,) array of float, optional
        >= 0, used as given; default 1 each.
    missing : ignored
        A source that lacks a candidate adds 0, by the rule's definition.
    q : float, default 1.5
        In [1, 2]; 1 is :func:`boltzmann`. The paper deforms the graph's list only, which is the sum of this rule
        with the vector source at weight 0 and of :func:`boltzmann` with the graph at weight 0.
    epsilon : float, default 1e-6
        > 0.

    Returns
    -------
    (n,) array of float
        In [0, sum of weights].

    Raises
    ------
    InvalidInputError
        If a percentile is outside [0, 1] or an option is outside its range.

    Notes
    -----
    ``e_q(x) = [1 + (1 - q) x]_+ ** (1 / (1 - q))`` at ``x = -E / T``, normalised over the list. The value of q is
    reconstructed. Laws broken by nature: "an appended worst hit changes no order" and "extra evidence costs no place"
    (a new last hit lengthens the list, and so moves everyone in it).

    References
    ----------
    .. [1] Tsallis, 1988, doi:10.1007/BF01016429

    Examples
    --------
    >>> tsallis(np.array([[1.0], [0.5]])).round(4)
    array([0.9, 0.1])
    """
    matrix = percentiles(values)
    if not 1 <= q <= 2:
        raise InvalidInputError(f"q must be in [1, 2]; got {q!r}")
    terms = list_shares(matrix, epsilon=epsilon)
    for column in range(matrix.shape[1]):
        rows = np.flatnonzero(~np.isnan(matrix[:, column]))
        if q > 1 and len(rows):
            terms[rows, column] = _tsallis_shares(matrix[rows, column], q, epsilon)
    return ordered_sum(terms * check_weights(weights, matrix.shape[1]))


def interference(
    values: FloatArray,
    /,
    *,
    weights: FloatArray | None = None,
    missing: FloatArray | None = None,
    phase: float = 0.0,
    epsilon: float = 1e-6,
) -> FloatArray:
    """Boltzmann fusion plus ``2 cos(phase) sqrt(a P b Q)`` for every pair of sources.

    Parameters
    ----------
    values : (n, m) array of float
        Percentile ranks in [0, 1], each column over its own list; NaN = not returned, which adds 0.
    weights : (m,) array of float, optional
        >= 0, used as given; default 1 each.
    missing : ignored
        A source that lacks a candidate adds 0, by the rule's definition.
    phase : float, default 0
        In [0, pi / 2], radians. 0 is the paper's fixed constructive phase and equals
        ``(sum of sqrt(weight * P)) ** 2``; pi / 2 is :func:`boltzmann`.
    epsilon : float, default 1e-6
        > 0.

    Returns
    -------
    (n,) array of float
        In [0, m * sum of weights].

    Raises
    ------
    InvalidInputError
        If a percentile is outside [0, 1] or an option is outside its range.

    Notes
    -----
    A power mean of exponent 1/2 under another name. A destructive phase (beyond pi / 2) would punish a candidate
    for being found twice and is refused. Laws broken by nature: "an appended worst hit changes no order" and
    "extra evidence costs no place" (a new last hit lengthens the list, and so moves everyone in it).

    Examples
    --------
    >>> interference(np.array([[1.0, 1.0], [np.nan, 0.5]])).round(3)
    array([3.964, 0.018])
    """
    if not 0 <= phase <= np.pi / 2:
        raise InvalidInputError(f"phase must be in [0, pi / 2]; got {phase!r}")
    matrix = check_matrix(values)
    parts = list_shares(matrix, epsilon=epsilon) * check_weights(weights, matrix.shape[1])
    plain = ordered_sum(parts)
    together = ordered_sum(np.sqrt(parts)) ** 2
    return np.asarray(plain + np.cos(phase) * (together - plain))


def list_shares(matrix: FloatArray, /, *, epsilon: float) -> FloatArray:
    """(n, m) array: each list's Boltzmann weights, adding up to 1 per list; 0 where not returned."""
    columns = [boltzmann(matrix[:, [column]], epsilon=epsilon) for column in range(matrix.shape[1])]
    return np.column_stack(columns)


def percentiles(values: FloatArray, /) -> FloatArray:
    """`values` checked to be percentiles in [0, 1] or NaN."""
    matrix = check_matrix(values)
    if np.nanmin(matrix, initial=0.0) < 0 or np.nanmax(matrix, initial=1.0) > 1:
        raise InvalidInputError("this rule needs percentile ranks in [0, 1]; calibrate with 'percentile' first")
    return matrix


def normalised(weights: FloatArray | None, count: int, /) -> FloatArray:
    """(m,) weights divided by their sum, which must be positive."""
    checked = check_weights(weights, count)
    if not checked.sum() > 0:
        raise InvalidInputError("weights must hold at least one that is > 0; all are 0")
    return np.asarray(checked / checked.sum())


def _tsallis_shares(column: FloatArray, q: float, epsilon: float) -> FloatArray:
    energy = -np.log(column + epsilon)
    temperature = boltzmann_temperature(column, epsilon=epsilon)
    if len(column) == 1 or temperature <= 0 or energy.max() == energy.min():
        return np.full(len(column), 1.0 / len(column))
    lifted = (q - 1) * (energy - energy.min()) / (temperature + (q - 1) * energy.min())
    values = (1.0 + lifted) ** (1.0 / (1.0 - q))
    return np.asarray(values / values.sum())
