"""Experimental fusion rules, reconstructed from appendix C of the PhaseGraph paper.

No measurement shows that these rules help. :func:`~phasegraph.fusion.rules.linear` documents the parameters ``values``,
``weights`` and ``missing``, and the errors. No rule here satisfies the law "an appended worst hit changes no order".
The reason is that percentiles, normal scores and strengths depend on the length of the list. The notes name further
laws that a rule does not satisfy; see :mod:`phasegraph.testing.laws`.
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
    """Compute the weighted sum of the logarithms of each list's Boltzmann weights, as in a geometric mean.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.boltzmann`, except that a source that lacks a candidate adds ``ln(epsilon)``
        times its weight. This penalty is large enough to act as a veto.
    epsilon : float, default 1e-6
        Number that is added to percentiles and to Boltzmann weights before the logarithm, > 0.

    Returns
    -------
    (n,) array of float
        Fused values from ``sum of weights * ln(epsilon)`` to about 0.

    Notes
    -----
    The paper states a "geometric mean in probability space"; the treatment of missing candidates is a reconstruction.
    The rule does not satisfy the law "a raised score never lowers its candidate". The reason is that a raised score can
    break a tie, which changes the temperature of the list.

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
    """Compute the weighted power mean of percentile ranks.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.linear`, but `values` are percentile ranks in [0, 1], `missing` is in [0, 1],
        and `weights` are not all 0. The weights are divided by their sum.
    exponent : float, default 0.5
        Exponent of the mean, finite. 1 gives the weighted mean, 0 the geometric mean; values below 1 reward consensus.
        With 0 or less, a candidate that a source lacks gets 0.

    Returns
    -------
    (n,) array of float
        Fused values in [0, 1].

    Notes
    -----
    The paper states only "exponent below 1"; the default is a reconstruction. With an exponent of 0 or less, all
    candidates that a source lacks get 0. Candidates that only a single source returned then lose the order of that
    source; the law about this order holds only for positive exponents.

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
    """Compute Boltzmann fusion with q-exponentials, which fall more slowly for q > 1.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.boltzmann`.
    q : float or (m,) array of float, default 1.5
        Parameter of the q-exponential, in [1, 2], for all lists or for each list. With 1, the rule equals
        ``boltzmann``. A pipeline also accepts q by source name. The paper uses q only for the graph's list; for this,
        set ``rule_options={"q": {"graph": 1.5}}`` or use ``FusionPipeline.named("tsallis")``.
    epsilon : float, default 1e-6
        Number that keeps the energy finite at percentile 0, > 0.

    Returns
    -------
    (n,) array of float
        Fused values in [0, sum of weights].

    Notes
    -----
    The weight of a hit is ``e_q(x) = [1 + (1 - q) x]_+ ** (1 / (1 - q))`` at ``x = -E / T``, normalized over the list;
    see :func:`~phasegraph.fusion.boltzmann` for E and T. The default of q is a reconstruction. The rule does not
    satisfy the law "extra evidence costs no place": if one more list returns a candidate, the candidate may lose
    places. The reason is that a new last hit changes the values of all hits in the list.

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
    """Compute the Tsallis weights of a non-empty list of percentiles; see :func:`tsallis`."""
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
    """Compute Boltzmann fusion plus ``2 cos(phase) sqrt(a P b Q)`` for every pair of sources.

    Here, a and b are the weights of the two sources, and P and Q are the candidate's Boltzmann weights in their lists.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.boltzmann`.
    phase : float, default 0
        Phase in radians, in [0, pi / 2]. With 0, the paper's constructive phase, the fused value is
        ``(sum of sqrt(weight * P)) ** 2``. With pi / 2, the rule equals ``boltzmann``.
    epsilon : float, default 1e-6
        Number that keeps the energy finite at percentile 0, > 0.

    Returns
    -------
    (n,) array of float
        Fused values in [0, m * sum of weights].

    Notes
    -----
    With phase 0, the rule is a power mean with exponent 1/2. A phase beyond pi / 2 is not accepted, because it would
    lower a candidate that two sources returned. The rule does not satisfy the law "extra evidence costs no place": if
    one more list returns a candidate, the candidate may lose places. The reason is that a new last hit changes the
    values of all hits in the list.

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
    """Compute the Gumbel copula of the percentile ranks u: ``exp(-(sum of (-ln u) ** theta) ** (1 / theta))``.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.boltzmann`, but `weights` are not all 0. The weights are divided by the mean of
        the positive weights, and each weight multiplies its source's term of the sum. If source j, with a list of n_j
        hits, lacks a candidate, the candidate's rank u is 1 / (n_j + 1).
    theta : float, optional
        Parameter of the copula, >= 1; 1 gives the product of the ranks. Default: ``1 / (1 - tau)``, limited to [1, 20].
        Tau is Kendall's tau over the candidates that two sources share, averaged over pairs of sources. Pairs that
        share fewer than 3 candidates are ignored; without a pair, theta is 1.

    Returns
    -------
    (n,) array of float
        Fused values in [0, 1].

    Notes
    -----
    The paper estimates theta from the overlap of the lists. The estimator, the rank of a missing candidate and the use
    of weights are reconstructions. The rule does not satisfy the laws "extra evidence costs no place" and "a raised
    score never lowers its candidate". The reason is that theta is estimated from all candidates.

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
    """Estimate Gumbel's theta from Kendall's tau over the candidates that pairs of columns share.

    Parameters
    ----------
    matrix : (n, m) array of float
        Calibrated values; NaN = not returned.
    least_shared : int, default 3
        Pairs of columns that share fewer candidates are ignored.
    most : float, default 20
        Highest result.

    Returns
    -------
    float
        Theta in [1, `most`].
    """
    taus = []
    for left in range(matrix.shape[1]):
        for right in range(left + 1, matrix.shape[1]):
            shared = ~np.isnan(matrix[:, left]) & ~np.isnan(matrix[:, right])
            if int(shared.sum()) >= least_shared:
                taus.append(_kendall(matrix[shared, left], matrix[shared, right]))
    tau = float(np.mean(taus)) if taus else 0.0
    return most if tau >= 1 - 1 / most else max(1.0, 1.0 / (1.0 - tau))


def _kendall(left: FloatArray, right: FloatArray) -> float:
    """Compute Kendall's tau-b of two arrays; 0 if an array is constant."""
    first = np.sign(left[:, None] - left[None, :])
    second = np.sign(right[:, None] - right[None, :])
    scale = float(np.sqrt(np.abs(first).sum() * np.abs(second).sum()))
    return float((first * second).sum()) / scale if scale > 0 else 0.0


def normal_scores(values: FloatArray, /, *, weights: PerSource = None, missing: PerSource = None) -> FloatArray:
    """Compute the weighted sum of normal scores: the standard normal quantiles of the ranks in each list.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.reciprocal_rank`, except for missing candidates. If source j, with a list of
        n_j hits, lacks a candidate, the candidate gets the quantile at ``0.5 / (n_j + 1)``.

    Returns
    -------
    (n,) array of float
        Fused values, unbounded.

    Notes
    -----
    The normal score of a hit is ``quantile((count - 0.5) / n)``; count is the number of hits in the list with an equal
    or lower score. This is the optimal transport of the list to a Gaussian. The value of a missing candidate is a
    reconstruction. The rule does not satisfy the law "extra evidence costs no place": if one more list returns a
    candidate, the candidate may lose places.

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
    """Compute Boltzmann fusion with temperatures that rise with the distance between the score distributions.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.dbsf`. A source with weight 0 does not affect the distances.
    strength : float, default 1
        Strength of the effect, >= 0. With 0, the rule equals ``boltzmann`` of the lists' percentiles.

    Returns
    -------
    (n,) array of float
        Fused values in [0, sum of weights].

    Notes
    -----
    The temperature of a list is ``T * (1 + strength * W)``. W is the mean 1-Wasserstein distance between the min-max
    normalized scores of this list and of each other list. The direction of the effect and the compared values are
    reconstructions, because the paper states neither. The paper cannot mean percentiles, because the distance between
    the percentiles of any two lists is about 0. The rule does not satisfy the laws "extra evidence costs no place" and
    "a raised score never lowers its candidate". The reason is that the temperature of a list depends on the scores of
    all lists.

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
    """Compute the 1-Wasserstein distance of two ascending samples in [0, 1]."""
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
    """Compute the weighted sum of Plackett-Luce log strengths, fitted to each list by a minorize-maximize algorithm.

    Parameters
    ----------
    values, weights, missing
        As for :func:`~phasegraph.fusion.reciprocal_rank`, except that a candidate that a list lacks counts as ranked
        below all hits of the list.
    prior : float, default 1
        Number of virtual comparisons, > 0. Each candidate wins and loses this number of comparisons against a virtual
        opponent with strength 1.
    tolerance : float, default 1e-9
        Largest change of a log strength at which the iteration stops, > 0.
    iterations : int, default 10,000
        Maximum number of steps per list, >= 1.

    Returns
    -------
    (n,) array of float
        Fused values, unbounded. With weights of sum 1, the value 0 is the strength of the virtual opponent.

    Raises
    ------
    NotConvergedError
        If a list needs more steps than `iterations`.

    Notes
    -----
    A single ranking has no finite estimate, because the strength of its first hit diverges. The virtual opponent, a
    reconstruction, makes the estimate finite. The likelihood is that of a partial ranking. At each rank, a candidate is
    drawn from all candidates that have no rank yet, including candidates that the list lacks. Tied candidates are all
    drawn from the same set (Breslow's method).

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
    """Return the (n,) Plackett-Luce log strengths of the candidates in a list; missing candidates rank last.

    `column` contains the scores of the list, NaN for missing candidates. :func:`plackett_luce` describes the other
    parameters.
    """
    level = np.where(np.isnan(column), -np.inf, column)
    order = np.argsort(-level, kind="stable")
    ranked = level[order]
    wins = np.isfinite(ranked).astype(np.float64)
    starts = np.searchsorted(-ranked, -ranked, side="left")  # first rank of each candidate's tie group
    ends = np.searchsorted(-ranked, -ranked, side="right") - 1
    strengths = np.ones(len(ranked))
    for _ in range(iterations):
        rest = np.cumsum(strengths[::-1])[::-1][starts]  # sum of the strengths to draw from
        met = np.cumsum(wins / rest)[ends] + 2 * prior / (strengths + 1)
        updated = (wins + prior) / met
        change = np.abs(np.log(updated / strengths)).max(initial=0.0)
        strengths = updated
        if change <= tolerance:
            out = np.empty(len(ranked))
            out[order] = np.log(strengths)
            return out
    raise NotConvergedError(
        f"Plackett-Luce did not converge to a change of {tolerance:g} within {iterations} steps; the last change is "
        f"{change:.2g}: raise iterations= or tolerance="
    )


def _shares(matrix: FloatArray, epsilon: float) -> FloatArray:
    """Return the (n, m) Boltzmann weights of the percentile ranks in `matrix`; 0 for candidates that a list lacks.

    The weights of each list have the sum 1.
    """
    check_range("epsilon", epsilon, ends="(]")
    return by_list(check_percentiles(matrix), partial(boltzmann_shares, epsilon=epsilon))


def _positive(weights: FloatArray) -> BoolArray:
    """Return an (m,) mask of the positive weights; raise InvalidInputError if no weight is positive."""
    used = weights > 0
    if not used.any():
        raise InvalidInputError("weights must contain at least one number > 0; all weights are 0")
    return used


def _ecdf(list_: FloatArray, less: float = 0.0) -> FloatArray:
    """Return, for each of n values, ``(c - less) / n``, where c is the number of values at or below it."""
    return (np.searchsorted(np.sort(list_), list_, side="right") - less) / len(list_)
