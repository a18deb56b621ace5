"""Experimental fusion rules, reconstructed from the PhaseGraph paper's appendix C; nothing shows that they help."""

from __future__ import annotations

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError, NotConvergedError
from phasegraph.fusion.rules import boltzmann, boltzmann_temperature, check_matrix, check_weights, filled, ordered_sum


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


def plackett_luce(
    values: FloatArray,
    /,
    *,
    weights: FloatArray | None = None,
    missing: FloatArray | None = None,
    prior: float = 1.0,
    tolerance: float = 1e-9,
    iterations: int = 10_000,
) -> FloatArray:
    """Weighted sum of log strengths, fitted to each list by minorise-maximise.

    Parameters
    ----------
    values : (n, m) array of float
        Only the order within a column matters; NaN = not returned.
    weights : (m,) array of float, optional
        >= 0, used as given; default 1 each.
    missing : ignored
        A candidate that a list lacks lost to everything the list returned, by the rule's definition.
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
    InvalidInputError
        If an option is outside its range or shapes do not fit.
    NotConvergedError
        If a list needs more steps.

    Notes
    -----
    One ranking alone has no finite estimate (the first item's strength diverges), hence the phantom [R]. The
    likelihood is that of a top list: at each place one candidate is drawn from those not yet placed, those the
    list lacks among them. Ties are drawn from the same set each (Breslow). Laws broken by nature: "an appended
    worst hit changes no order" (strengths depend on the number of candidates).

    References
    ----------
    .. [1] Hunter, "MM algorithms for generalized Bradley–Terry models", 2004, doi:10.1214/aos/1079120141

    Examples
    --------
    >>> plackett_luce(np.array([[9.0], [3.0]])).round(4)
    array([ 0.528, -0.528])
    """
    for name, number in (("prior", prior), ("tolerance", tolerance)):
        if not (np.isfinite(number) and number > 0):
            raise InvalidInputError(f"{name} must be finite and positive; got {number!r}")
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise InvalidInputError(f"iterations must be an integer >= 1; got {iterations!r}")
    matrix = check_matrix(values)
    checked = check_weights(weights, matrix.shape[1])
    terms = np.zeros(matrix.shape)
    for column in np.flatnonzero(checked > 0):
        terms[:, column] = log_strengths(matrix[:, column], prior=prior, tolerance=tolerance, iterations=iterations)
    return ordered_sum(terms * checked)


def log_strengths(column: FloatArray, /, *, prior: float, tolerance: float, iterations: int) -> FloatArray:
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
        f"Plackett-Luce must reach a change of {tolerance:g} within {iterations} steps; it is at {change:.2g}"
    )
