"""Experimental rules that join whole distributions: a copula, normal scores, a temperature set by distance."""

from __future__ import annotations

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError
from phasegraph.fusion.base import check_matrix, check_weights, filled, ordered_sum
from phasegraph.fusion.boltzmann import boltzmann, boltzmann_temperature
from phasegraph.fusion.percentile_rules import percentiles

_LEAST_SHARED, _MOST_THETA = 3, 20.0


def gumbel_copula(
    values: FloatArray,
    /,
    *,
    weights: FloatArray | None = None,
    missing: FloatArray | None = None,
    theta: float | None = None,
) -> FloatArray:
    """Gumbel copula of the percentile ranks: ``exp(-(sum of (-ln u) ** theta) ** (1 / theta))``.

    Parameters
    ----------
    values : (n, m) array of float
        Percentile ranks in [0, 1], each column over its own list; NaN = not returned.
    weights : (m,) array of float, optional
        >= 0, not all 0, divided by the mean of the positive ones; each multiplies its source's term. Default
        equal.
    missing : ignored
        A candidate that source j lacks takes 1 / (n_j + 1), n_j the length of its list, by the rule's definition.
    theta : float, optional
        >= 1; 1 is the product. Default: 1 / (1 - Kendall's tau) over the candidates that two sources share,
        averaged over pairs, within [1, 20]; pairs that share fewer than 3 are left out, none left gives 1.

    Returns
    -------
    (n,) array of float
        In [0, 1].

    Raises
    ------
    InvalidInputError
        If a percentile is outside [0, 1], no weight is positive or `theta` is below 1.

    Notes
    -----
    The paper estimates theta from the overlap; the estimator, the margin of a missing candidate and the weights
    are reconstructed. Laws broken by nature: "an appended worst hit changes no order", "extra evidence costs no
    place" and "a raised score never lowers its candidate", because theta is estimated from all candidates and
    percentiles depend on the list's length.

    References
    ----------
    .. [1] Gumbel, 1960, "Bivariate exponential distributions", doi:10.1080/01621459.1960.10483368

    Examples
    --------
    >>> gumbel_copula(np.array([[0.6, 1.0], [0.8, 0.5]]), theta=2.0).round(4)
    array([0.6   , 0.4828])
    """
    matrix = percentiles(values)
    checked = check_weights(weights, matrix.shape[1])
    used = checked > 0
    if not used.any():
        raise InvalidInputError("weights must hold at least one that is > 0; all are 0")
    if theta is not None and not (np.isfinite(theta) and theta >= 1):
        raise InvalidInputError(f"theta must be finite and >= 1; got {theta!r}")
    lengths = (~np.isnan(matrix)).sum(axis=0)
    table = filled(matrix, 1.0 / (lengths + 1))[:, used]
    shape = copula_theta(matrix[:, used]) if theta is None else theta
    scale = checked[used] / checked[used].mean()
    logs = -np.log(np.maximum(table, np.finfo(np.float64).tiny))
    return np.asarray(np.exp(-(ordered_sum(scale * logs**shape) ** (1 / shape))))


def copula_theta(matrix: FloatArray, /) -> float:
    """Gumbel's theta, in [1, 20], from Kendall's tau over the candidates that pairs of columns share."""
    taus = []
    for left in range(matrix.shape[1]):
        for right in range(left + 1, matrix.shape[1]):
            shared = ~np.isnan(matrix[:, left]) & ~np.isnan(matrix[:, right])
            if int(shared.sum()) >= _LEAST_SHARED:
                taus.append(_kendall(matrix[shared, left], matrix[shared, right]))
    tau = float(np.mean(taus)) if taus else 0.0
    return _MOST_THETA if tau >= 1 - 1 / _MOST_THETA else max(1.0, 1.0 / (1.0 - tau))


def normal_scores(
    values: FloatArray, /, *, weights: FloatArray | None = None, missing: FloatArray | None = None
) -> FloatArray:
    """Weighted sum of normal scores: each list moved onto a standard Gaussian, in order.

    Parameters
    ----------
    values : (n, m) array of float
        Only the order within a column matters; NaN = not returned.
    weights : (m,) array of float, optional
        >= 0, used as given; default 1 each.
    missing : ignored
        A candidate that source j lacks takes the quantile at ``0.5 / (n_j + 1)``, by the rule's definition.

    Returns
    -------
    (n,) array of float
        Unbounded.

    Raises
    ------
    InvalidInputError
        If shapes do not fit or a weight is negative.

    Notes
    -----
    ``quantile((count - 0.5) / n)``, count = how many of the list are at or below: optimal transport of the
    list to a Gaussian target. What a missing candidate takes is reconstructed. Laws broken by nature: "an
    appended worst hit changes no order" and "extra evidence costs no place", because every score depends on the
    list's length.

    Examples
    --------
    >>> normal_scores(np.array([[3.0], [2.0], [1.0]])).round(4)
    array([ 0.9674,  0.    , -0.9674])
    """
    from scipy.special import ndtri

    matrix = check_matrix(values)
    table = np.full(matrix.shape, np.nan)
    fill = np.zeros(matrix.shape[1])
    for column in range(matrix.shape[1]):
        rows = np.flatnonzero(~np.isnan(matrix[:, column]))
        ordered = np.sort(matrix[rows, column])
        counts = np.searchsorted(ordered, matrix[rows, column], side="right")
        table[rows, column] = ndtri((counts - 0.5) / max(len(rows), 1))
        fill[column] = ndtri(0.5 / (len(rows) + 1))
    return ordered_sum(filled(table, fill) * check_weights(weights, len(fill)))


def wasserstein_temperature(
    values: FloatArray,
    /,
    *,
    weights: FloatArray | None = None,
    missing: FloatArray | None = None,
    strength: float = 1.0,
) -> FloatArray:
    """Boltzmann fusion whose temperature rises with the distance between the lists' shapes.

    Parameters
    ----------
    values : (n, m) array of float
        Scores in each source's own unit or any affine transform of it; NaN = not returned, which adds 0.
    weights : (m,) array of float, optional
        >= 0, used as given; a source of weight 0 is left out of the distances too. Default 1 each.
    missing : ignored
        A source that lacks a candidate adds 0, by the rule's definition.
    strength : float, default 1
        >= 0; 0 is :func:`boltzmann` of the lists' percentiles.

    Returns
    -------
    (n,) array of float
        In [0, sum of weights].

    Raises
    ------
    InvalidInputError
        If `strength` is negative or not finite, or shapes do not fit.

    Notes
    -----
    ``T' = T * (1 + strength * W)``, W the mean 1-Wasserstein distance of the list's min-max values to each other
    list's. Reconstructed: the paper gives neither the direction nor the values compared (percentiles of any
    two lists are at distance about 0, so they cannot be meant). Laws broken by nature: "an appended worst hit
    changes no order", "extra evidence costs no place" and "a raised score never lowers its candidate", because
    one list's temperature depends on the shapes of all.

    Examples
    --------
    >>> wasserstein_temperature(np.array([[3.0], [1.0], [np.nan]])).round(4)
    array([0.982, 0.018, 0.   ])
    """
    if not (np.isfinite(strength) and strength >= 0):
        raise InvalidInputError(f"strength must be finite and >= 0; got {strength!r}")
    matrix = check_matrix(values)
    checked = check_weights(weights, matrix.shape[1])
    present = [matrix[~np.isnan(matrix[:, column]), column] for column in range(matrix.shape[1])]
    scaled = [_min_max(list_) for list_ in present]
    used = [column for column in range(len(present)) if checked[column] > 0 and len(present[column])]
    terms = np.zeros(matrix.shape)
    for column in used:
        gaps = [_distance(scaled[column], scaled[other]) for other in used if other != column]
        shares = np.searchsorted(np.sort(present[column]), present[column], side="right") / len(present[column])
        heat = boltzmann_temperature(shares) * (1 + strength * (float(np.mean(gaps)) if gaps else 0.0))
        rows = ~np.isnan(matrix[:, column])
        terms[rows, column] = boltzmann(shares[:, None], temperature=heat if heat > 0 else None)
    return ordered_sum(terms * checked)


def _kendall(left: FloatArray, right: FloatArray) -> float:
    """Kendall's tau-b; 0 where a side is constant."""
    first = np.sign(left[:, None] - left[None, :])
    second = np.sign(right[:, None] - right[None, :])
    scale = float(np.sqrt(np.abs(first).sum() * np.abs(second).sum()))
    return float((first * second).sum()) / scale if scale > 0 else 0.0


def _min_max(values: FloatArray) -> FloatArray:
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    return np.asarray((np.sort(values) - low) / (high - low)) if high > low else np.ones(len(values))


def _distance(left: FloatArray, right: FloatArray) -> float:
    """1-Wasserstein distance of two ascending samples in [0, 1]."""
    points = np.sort(np.concatenate([left, right]))
    shares = [np.searchsorted(side, points[:-1], side="right") / len(side) for side in (left, right)]
    return float((np.abs(shares[0] - shares[1]) * np.diff(points)).sum())
