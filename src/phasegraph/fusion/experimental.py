"""Experimental fusion rules, reconstructed from the PhaseGraph paper's appendix C; nothing shows that they help.

``values, weights, missing`` and the errors are those of :func:`~phasegraph.fusion.linear`. All of these rules break the
law "an appended worst hit changes no order" by their nature, because percentiles, normal scores and strengths depend
on how long the list is; the notes say which further laws they break.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from phasegraph._support.typing import BoolArray, FloatArray, PerSource
from phasegraph._support.validation import check_count, check_number, check_range
from phasegraph.errors import InvalidInputError, NotConvergedError
from phasegraph.fusion.rules import (
    boltzmann_shares,
    boltzmann_temperature,
    by_list,
    check_percentiles,
    checked,
    filled,
    ordered_sum,
)


def log_linear(
    values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None, epsilon: float = 1e-6
) -> FloatArray:
    """Weighted sum of the logarithms of each list's Boltzmann weights: a geometric mean.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.boltzmann`, except that a source that lacks a candidate adds ``ln(epsilon)``
        times its weight: a strong veto.
    epsilon : float, default 1e-6
        > 0; added to percentiles and to weights before the logarithm.

    Returns
    -------
    (n,) array of float
        In [sum of weights * ln(epsilon), about 0].

    Notes
    -----
    "Geometric mean in probability space" is the paper's; the treatment of missing candidates is reconstructed.
    Law broken by nature: "a raised score never lowers its candidate" where ties are split, which changes the list's
    temperature.

    References
    ----------
    .. [1] "Calibrated Fusion for Heterogeneous Graph-Vector Retrieval in Multi-Hop QA", arXiv:2603.28886, App. C

    Examples
    --------
    >>> log_linear(np.array([[1.0], [0.5], [np.nan]])).round(2)
    array([ -0.02,  -4.02, -13.82])
    """
    matrix, factors = checked(values, weights)
    return ordered_sum(np.log(_shares(matrix, epsilon) + epsilon) * factors)


def power_mean(
    values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None, exponent: float = 0.5
) -> FloatArray:
    """Weighted power mean of percentile ranks.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.linear`, but `values` are percentile ranks in [0, 1], `weights` are not all 0
        and divided by their sum, and `missing` is in [0, 1].
    exponent : float, default 0.5
        Finite. 1 is the weighted mean, 0 the geometric mean, below 1 rewards consensus; 0 and less give 0 to a
        candidate that lacks a source.

    Returns
    -------
    (n,) array of float
        In [0, 1].

    Notes
    -----
    The paper says only "exponent below 1"; the value is reconstructed. With an exponent of 0 or less a source
    vetoes what it lacks, so that among candidates of one source each the order of that source is lost
    (a law broken by nature; it holds for positive exponents).

    Examples
    --------
    >>> power_mean(np.array([[1.0, 0.25], [1.0, np.nan]])).round(4)
    array([0.5625, 0.25  ])
    """
    check_number("exponent", exponent, minimum=None)
    matrix, factors = checked(values, weights)
    used = _positive(factors)
    table = filled(check_percentiles(matrix), missing)[:, used]
    shares = (factors / factors.sum())[used]
    if exponent > 0:
        return np.asarray(ordered_sum(shares * table**exponent) ** (1 / exponent))
    some = (table > 0).all(axis=1)
    safe = np.where(table > 0, table, 1.0)
    if exponent == 0:
        return np.where(some, np.exp(ordered_sum(shares * np.log(safe))), 0.0)
    return np.where(some, ordered_sum(shares * safe**exponent) ** (1 / exponent), 0.0)


def tsallis(
    values: FloatArray,
    /,
    *,
    weights: PerSource = None,
    missing: PerSource = None,
    q: float | FloatArray = 1.5,
    epsilon: float = 1e-6,
) -> FloatArray:
    """Boltzmann fusion with q-exponentials, whose tails are heavier for q > 1.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.boltzmann`.
    q : float or (m,) array of float, default 1.5
        In [1, 2], for all lists or one for each; 1 is ``boltzmann``. A pipeline takes it by source name too: the paper
        deforms the graph's list alone, which is ``rule_options={"q": {"graph": 1.5}}``, and
        ``FusionPipeline.named("tsallis")``.
    epsilon : float, default 1e-6
        > 0.

    Returns
    -------
    (n,) array of float
        In [0, sum of weights].

    Notes
    -----
    ``e_q(x) = [1 + (1 - q) x]_+ ** (1 / (1 - q))`` at ``x = -E / T``, normalised over the list. The value of q is
    reconstructed. Law broken by nature: "extra evidence costs no place" (a new last hit lengthens the list, and so
    moves everyone in it).

    References
    ----------
    .. [1] Tsallis, 1988, doi:10.1007/BF01016429

    Examples
    --------
    >>> tsallis(np.array([[1.0], [0.5]])).round(4)
    array([0.9, 0.1])
    >>> both = np.array([[1.0, 1.0], [0.5, 0.5]])
    >>> tsallis(both, weights=np.array([0.7, 0.3]), q=np.array([1.0, 1.5])).round(4)
    array([0.9574, 0.0426])
    """
    matrix, factors = checked(values, weights)
    check_range("epsilon", epsilon, ends="(]")
    given = [check_range("q", one, 1, 2) for one in np.ravel(np.asarray(q, dtype=object)).tolist()]
    if len(given) not in (1, matrix.shape[1]):
        raise InvalidInputError(f"q must be one number, or one per source ({matrix.shape[1]}); got {len(given)}")
    each = np.broadcast_to(given, matrix.shape[1]).tolist()
    lists = check_percentiles(matrix).T[:, :, None]
    parts = [
        by_list(list_, partial(_tsallis_shares, q=one, epsilon=epsilon)) for list_, one in zip(lists, each, strict=True)
    ]
    return ordered_sum(np.hstack(parts) * factors)


def _tsallis_shares(percentiles: FloatArray, *, q: float, epsilon: float) -> FloatArray:
    """Tsallis weights of one list that is not empty."""
    if q == 1:
        return boltzmann_shares(percentiles, epsilon=epsilon)
    energy = -np.log(percentiles + epsilon)
    temperature = boltzmann_temperature(percentiles, epsilon=epsilon)
    if len(percentiles) == 1 or temperature <= 0 or energy.max() == energy.min():
        return np.full(len(percentiles), 1.0 / len(percentiles))
    lifted = (q - 1) * (energy - energy.min()) / (temperature + (q - 1) * energy.min())
    found = (1.0 + lifted) ** (1.0 / (1.0 - q))
    return np.asarray(found / found.sum())


def interference(
    values: FloatArray,
    /,
    *,
    weights: PerSource = None,
    missing: PerSource = None,
    phase: float = 0.0,
    epsilon: float = 1e-6,
) -> FloatArray:
    """Boltzmann fusion plus ``2 cos(phase) sqrt(a P b Q)`` for every pair of sources.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.boltzmann`.
    phase : float, default 0
        In [0, pi / 2], radians. 0 is the paper's fixed constructive phase and equals
        ``(sum of sqrt(weight * P)) ** 2``; pi / 2 is ``boltzmann``.
    epsilon : float, default 1e-6
        > 0.

    Returns
    -------
    (n,) array of float
        In [0, m * sum of weights].

    Notes
    -----
    A power mean of exponent 1/2 under another name. A destructive phase (beyond pi / 2) would punish a candidate
    for being found twice and is refused. Law broken by nature: "extra evidence costs no place" (a new last hit
    lengthens the list, and so moves everyone in it).

    Examples
    --------
    >>> interference(np.array([[1.0, 1.0], [np.nan, 0.5]])).round(3)
    array([3.964, 0.018])
    """
    check_range("phase", phase, 0, np.pi / 2)
    matrix, factors = checked(values, weights)
    parts = _shares(matrix, epsilon) * factors
    plain = ordered_sum(parts)
    together = ordered_sum(np.sqrt(parts)) ** 2
    return np.asarray(plain + np.cos(phase) * (together - plain))


def gumbel_copula(
    values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None, theta: float | None = None
) -> FloatArray:
    """Gumbel copula of the percentile ranks: ``exp(-(sum of (-ln u) ** theta) ** (1 / theta))``.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.boltzmann`, but `weights` are not all 0 and divided by the mean of the positive
        ones; each multiplies its source's term. A candidate that source j lacks takes 1 / (n_j + 1), n_j the length of
        its list.
    theta : float, optional
        >= 1; 1 is the product. Default: 1 / (1 - Kendall's tau) over the candidates that two sources share,
        averaged over pairs, within [1, 20]; pairs that share fewer than 3 are left out, none left gives 1.

    Returns
    -------
    (n,) array of float
        In [0, 1].

    Notes
    -----
    The paper estimates theta from the overlap; the estimator, the margin of a missing candidate and the weights
    are reconstructed. Laws broken by nature: "extra evidence costs no place" and "a raised score never lowers its
    candidate", because theta is estimated from all candidates.

    References
    ----------
    .. [1] Gumbel, 1960, "Bivariate exponential distributions", doi:10.1080/01621459.1960.10483368

    Examples
    --------
    >>> gumbel_copula(np.array([[0.6, 1.0], [0.8, 0.5]]), theta=2.0).round(4)
    array([0.6   , 0.4828])
    """
    if theta is not None:
        check_range("theta", theta, 1)
    matrix, factors = checked(values, weights)
    used = _positive(factors)
    lengths = (~np.isnan(check_percentiles(matrix))).sum(axis=0)
    table = filled(matrix, 1.0 / (lengths + 1))[:, used]
    shape = copula_theta(matrix[:, used]) if theta is None else theta
    scale = factors[used] / factors[used].mean()
    logs = -np.log(np.maximum(table, np.finfo(np.float64).tiny))
    return np.asarray(np.exp(-(ordered_sum(scale * logs**shape) ** (1 / shape))))


def copula_theta(matrix: FloatArray, /, *, least_shared: int = 3, most: float = 20.0) -> float:
    """Gumbel's theta, in [1, `most`], from Kendall's tau over the candidates that pairs of columns share."""
    taus = []
    for left in range(matrix.shape[1]):
        for right in range(left + 1, matrix.shape[1]):
            shared = ~np.isnan(matrix[:, left]) & ~np.isnan(matrix[:, right])
            if int(shared.sum()) >= least_shared:
                taus.append(_kendall(matrix[shared, left], matrix[shared, right]))
    tau = float(np.mean(taus)) if taus else 0.0
    return most if tau >= 1 - 1 / most else max(1.0, 1.0 / (1.0 - tau))


def _kendall(left: FloatArray, right: FloatArray) -> float:
    """Kendall's tau-b; 0 where a side is constant."""
    first = np.sign(left[:, None] - left[None, :])
    second = np.sign(right[:, None] - right[None, :])
    scale = float(np.sqrt(np.abs(first).sum() * np.abs(second).sum()))
    return float((first * second).sum()) / scale if scale > 0 else 0.0


def normal_scores(values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None) -> FloatArray:
    """Weighted sum of normal scores: each list moved onto a standard Gaussian, in order.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.reciprocal_rank`, except that a candidate that source j lacks takes the
        quantile at ``0.5 / (n_j + 1)``.

    Returns
    -------
    (n,) array of float
        Unbounded.

    Notes
    -----
    ``quantile((count - 0.5) / n)``, count = how many of the list are at or below: optimal transport of the
    list to a Gaussian target. What a missing candidate takes is reconstructed. Law broken by nature: "extra
    evidence costs no place".

    Examples
    --------
    >>> normal_scores(np.array([[3.0], [2.0], [1.0]])).round(4)
    array([ 0.9674,  0.    , -0.9674])
    """
    from scipy.special import ndtri

    matrix, factors = checked(values, weights)
    absent = np.isnan(matrix)
    scores = by_list(matrix, lambda list_: np.asarray(ndtri(_ecdf(list_, 0.5))))
    below = ndtri(0.5 / ((~absent).sum(axis=0) + 1))
    return ordered_sum(np.where(absent, below, scores) * factors)


def wasserstein_temperature(
    values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None, strength: float = 1.0
) -> FloatArray:
    """Boltzmann fusion whose temperature rises with the distance between the lists' shapes.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.dbsf`; a source of weight 0 is left out of the distances too.
    strength : float, default 1
        >= 0; 0 is ``boltzmann`` of the lists' percentiles.

    Returns
    -------
    (n,) array of float
        In [0, sum of weights].

    Notes
    -----
    ``T' = T * (1 + strength * W)``, W the mean 1-Wasserstein distance of the list's min-max values to each other
    list's. Reconstructed: the paper gives neither the direction nor the values compared (percentiles of any
    two lists are at distance about 0, so they cannot be meant). Laws broken by nature: "extra evidence costs no
    place" and "a raised score never lowers its candidate", because one list's temperature depends on the shapes of
    all.

    Examples
    --------
    >>> wasserstein_temperature(np.array([[3.0], [1.0], [np.nan]])).round(4)
    array([0.982, 0.018, 0.   ])
    """
    check_range("strength", strength)
    matrix, factors = checked(values, weights)
    held = ~np.isnan(matrix)
    used = [column for column in range(matrix.shape[1]) if factors[column] > 0 and held[:, column].any()]
    present = {column: matrix[held[:, column], column] for column in used}
    scaled = {column: _min_max(list_) for column, list_ in present.items()}
    terms = np.zeros(matrix.shape)
    for column in used:
        gaps = [_distance(scaled[column], scaled[other]) for other in used if other != column]
        shares = _ecdf(present[column])
        heat = boltzmann_temperature(shares) * (1 + strength * (float(np.mean(gaps)) if gaps else 0.0))
        terms[held[:, column], column] = boltzmann_shares(shares, temperature=heat if heat > 0 else None)
    return ordered_sum(terms * factors)


def _min_max(values: FloatArray) -> FloatArray:
    low, high = float(values.min()), float(values.max())
    return np.asarray((np.sort(values) - low) / (high - low)) if high > low else np.ones(len(values))


def _distance(left: FloatArray, right: FloatArray) -> float:
    """1-Wasserstein distance of two ascending samples in [0, 1]."""
    points = np.sort(np.concatenate([left, right]))
    shares = [np.searchsorted(side, points[:-1], side="right") / len(side) for side in (left, right)]
    return float((np.abs(shares[0] - shares[1]) * np.diff(points)).sum())


def plackett_luce(
    values: FloatArray,
    /,
    *,
    weights: PerSource = None,
    missing: PerSource = None,
    prior: float = 1.0,
    tolerance: float = 1e-9,
    iterations: int = 10_000,
) -> FloatArray:
    """Weighted sum of log strengths, fitted to each list by minorise-maximise.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.reciprocal_rank`, except that a candidate that a list lacks lost to everything
        the list returned.
    prior : float, default 1
        > 0; times that a phantom of strength 1 is met, won and lost, by every candidate.
    tolerance : float, default 1e-9
        > 0; largest change of a log strength in the last step.
    iterations : int, default 10,000
        >= 1; steps per list.

    Returns
    -------
    (n,) array of float
        Unbounded; 0 is the phantom.

    Raises
    ------
    NotConvergedError
        If a list needs more steps.

    Notes
    -----
    One ranking alone has no finite estimate (the first item's strength diverges), hence the phantom [R]. The
    likelihood is that of a top list: at each place one candidate is drawn from those not yet placed, those the
    list lacks among them. Ties are drawn from the same set each (Breslow).

    References
    ----------
    .. [1] Hunter, "MM algorithms for generalized Bradley–Terry models", 2004, doi:10.1214/aos/1079120141

    Examples
    --------
    >>> plackett_luce(np.array([[9.0], [3.0]])).round(4)
    array([ 0.528, -0.528])
    """
    check_range("prior", prior, ends="(]")
    check_range("tolerance", tolerance, ends="(]")
    check_count("iterations", iterations, minimum=1)
    matrix, factors = checked(values, weights)
    terms = np.zeros(matrix.shape)
    for column in np.flatnonzero(factors > 0):
        terms[:, column] = _log_strengths(matrix[:, column], prior, tolerance, iterations)
    return ordered_sum(terms * factors)


def _log_strengths(column: FloatArray, prior: float, tolerance: float, iterations: int) -> FloatArray:
    """(n,) array: log strengths of one list's candidates, those it lacks below all it has."""
    level = np.where(np.isnan(column), -np.inf, column)
    order = np.argsort(-level, kind="stable")
    ranked = level[order]
    wins = np.isfinite(ranked).astype(np.float64)
    starts = np.searchsorted(-ranked, -ranked, side="left")  # first place of each one's tie group
    ends = np.searchsorted(-ranked, -ranked, side="right") - 1
    strengths = np.ones(len(ranked))
    for _ in range(iterations):
        rest = np.cumsum(strengths[::-1])[::-1][starts]  # everyone drawn from at this place
        met = np.cumsum(wins / rest)[ends] + 2 * prior / (strengths + 1)
        updated = (wins + prior) / met
        change = np.abs(np.log(updated / strengths)).max(initial=0.0)
        strengths = updated
        if change <= tolerance:
            out = np.empty(len(ranked))
            out[order] = np.log(strengths)
            return out
    raise NotConvergedError(
        f"Plackett-Luce did not reach a change of {tolerance:g} within {iterations} steps; it is at {change:.2g}: "
        f"raise iterations= or tolerance="
    )


def _shares(matrix: FloatArray, epsilon: float) -> FloatArray:
    """(n, m) array: each list's Boltzmann weights, adding up to 1 per list; 0 where not returned."""
    check_range("epsilon", epsilon, ends="(]")
    return by_list(check_percentiles(matrix), partial(boltzmann_shares, epsilon=epsilon))


def _positive(weights: FloatArray) -> BoolArray:
    """(m,) flags of the positive weights, of which there must be one."""
    used = weights > 0
    if not used.any():
        raise InvalidInputError("weights must hold at least one that is > 0; all are 0")
    return used


def _ecdf(list_: FloatArray, less: float = 0.0) -> FloatArray:
    """(Number of the list at or below each value, minus `less`) / n."""
    return (np.searchsorted(np.sort(list_), list_, side="right") - less) / len(list_)
