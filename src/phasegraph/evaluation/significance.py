"""Whether a difference between two systems is more than chance, and how sure a figure is.

Paired tests on the same queries: the exact McNemar test for hits and misses, the paired bootstrap and the
sign-flip permutation test for anything else; Wilson and bootstrap intervals; Holm and Benjamini-Hochberg
corrections. Two-sided throughout.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._typing import FloatArray
from phasegraph.errors import InsufficientDataError, InvalidInputError

_BLOCK = 4_000_000
_EXACT_UP_TO = 20


@dataclass(frozen=True, slots=True)
class BootstrapResult:
    """A mean difference with its percentile interval and p-value.

    Parameters
    ----------
    mean : float
        Mean of the differences, in the unit of the measure.
    low, high : float
        Ends of the percentile interval.
    p : float
        Two-sided, in [1 / resamples, 1].
    """

    mean: float
    low: float
    high: float
    p: float


def checked(values: ArrayLike, name: str) -> FloatArray:
    """A copy as a flat, finite, non-empty float array."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise InsufficientDataError(f"{name} must hold at least one value; got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name} must be finite; leave out the queries that are not scored")
    return array


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise unless `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInputError(f"{name} must be a whole number >= {least}; got {value!r}")


def check_level(level: object) -> None:
    """Raise unless `level` is a number in (0, 1)."""
    number = isinstance(level, int | float | np.integer | np.floating) and not isinstance(level, bool)
    if not number or not 0 < float(level) < 1:  # type: ignore[arg-type]
        raise InvalidInputError(f"level must be a number in (0, 1); got {level!r}")


def paired_bootstrap(
    differences: ArrayLike,
    *,
    resamples: int = 10_000,
    level: float = 0.95,
    rng: int | np.random.Generator = 0,
) -> BootstrapResult:
    """Paired bootstrap of per-query differences (system minus baseline).

    Parameters
    ----------
    differences : (n,) array_like of float
        Finite, n >= 1.
    resamples : int, default 10000
        B; at least 1.
    level : float, default 0.95
        Coverage of the interval, in (0, 1).
    rng : int or numpy Generator, default 0
        Seed or generator; the same seed gives the same answer.

    Returns
    -------
    BootstrapResult

    Raises
    ------
    InvalidInputError, InsufficientDataError
        If a parameter is outside what is said above.

    Notes
    -----
    Means ``m_b`` of B resamples of n queries; the interval is their quantiles, and
    ``p = mean(|m_b - mean(m_b)| >= |mean(differences)|)``, never below 1/B. For few queries, or few
    that differ, prefer :func:`sign_flip`, which is exact there.

    References
    ----------
    Efron and Tibshirani (1993), doi:10.1201/9780429246593.

    Examples
    --------
    >>> found = paired_bootstrap([0.1, 0.2, -0.05, 0.3, 0, 0, 0.15, -0.1, 0.05, 0.2])
    >>> round(found.p, 4), round(found.low, 3), round(found.high, 3)
    (0.0228, 0.015, 0.16)
    """
    values = checked(differences, "differences")
    check_count("resamples", resamples)
    check_level(level)
    generator = np.random.default_rng(rng)
    count = len(values)
    means = np.empty(resamples)
    step = max(1, _BLOCK // count)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        means[start : start + rows] = values[generator.integers(0, count, (rows, count))].mean(axis=1)
    mean = float(values.mean())
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    p = float((np.abs(means - means.mean()) >= abs(mean)).mean())
    return BootstrapResult(mean, float(low), float(high), max(p, 1 / resamples))


def sign_flip(differences: ArrayLike, *, permutations: int = 10_000, rng: int | np.random.Generator = 0) -> float:
    """Two-sided sign-flip permutation p-value of a mean difference of zero.

    Parameters
    ----------
    differences : (n,) array_like of float
        Per-query differences; finite, n >= 1.
    permutations : int, default 10000
        Random sign patterns where there are too many to list.
    rng : int or numpy Generator, default 0

    Returns
    -------
    float
        In (0, 1]. Exact, over all sign patterns, where at most 20 differences are not zero; otherwise
        ``(1 + patterns at least as extreme) / (1 + permutations)``.

    Raises
    ------
    InvalidInputError, InsufficientDataError
        If a parameter is outside what is said above.

    Notes
    -----
    Under the null the sign of each difference is a fair coin. Differences of zero take no part. On hits
    and misses it equals :func:`mcnemar_exact`.

    References
    ----------
    Fisher (1935), The Design of Experiments; Smucker, Allan and Carterette (2007),
    doi:10.1145/1321440.1321528.

    Examples
    --------
    >>> sign_flip([1.0, 1.0, 1.0, -1.0, 0.0])
    0.625
    """
    values = checked(differences, "differences")
    check_count("permutations", permutations)
    moving = values[values != 0]
    if not len(moving):
        return 1.0
    bar = abs(float(moving.sum()))
    bar -= 1e-12 * max(bar, float(np.abs(moving).max()))
    if len(moving) <= _EXACT_UP_TO:
        sums = np.zeros(1)
        for value in moving:
            sums = np.concatenate([sums + value, sums - value])
        return float((np.abs(sums) >= bar).mean())
    generator = np.random.default_rng(rng)
    step = max(1, _BLOCK // len(moving))
    extreme = 0
    for start in range(0, permutations, step):
        rows = min(step, permutations - start)
        signs = generator.integers(0, 2, (rows, len(moving)), dtype=np.int8) * 2 - 1
        extreme += int((np.abs(signs @ moving) >= bar).sum())
    return (1 + extreme) / (1 + permutations)


def wilson(successes: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a share, without continuity correction.

    Parameters
    ----------
    successes, n : int
        ``0 <= successes <= n``, n >= 1.
    level : float, default 0.95
        Coverage, in (0, 1).

    Returns
    -------
    tuple of float
        Low and high end, in [0, 1].

    Raises
    ------
    InvalidInputError, InsufficientDataError
        If a parameter is outside what is said above.

    References
    ----------
    Wilson (1927), doi:10.1080/01621459.1927.10502953.

    Examples
    --------
    >>> low, high = wilson(26, 66)
    >>> round(100 * low, 1), round(100 * high, 1)
    (28.5, 51.5)
    """
    from scipy.special import ndtri

    check_count("n", n, 0)
    check_count("successes", successes, 0)
    check_level(level)
    if n < 1:
        raise InsufficientDataError(f"n must be >= 1; got {n}")
    if successes > n:
        raise InvalidInputError(f"successes must be at most n; got {successes} of {n}")
    z = float(ndtri(0.5 + level / 2))
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    return max(0.0, centre - half), min(1.0, centre + half)


def bootstrap_intervals(
    columns: FloatArray,
    *,
    resamples: int = 10_000,
    level: float = 0.95,
    rng: int | np.random.Generator = 0,
) -> FloatArray:
    """Percentile bootstrap intervals of the means of many columns over the same queries.

    Parameters
    ----------
    columns : (n, c) array of float
        One row per query, one column per system and measure (or difference). NaN = left out: such a
        column's mean runs over the queries it is scored on.
    resamples : int, default 10000
        At least 1.
    level : float, default 0.95
        Coverage, in (0, 1).
    rng : int or numpy Generator, default 0

    Returns
    -------
    (c, 2) array of float
        Low and high ends, in the unit of the column; NaN for a column scored on no query.

    Raises
    ------
    InvalidInputError, InsufficientDataError
        If a parameter is outside what is said above, or there is no row.

    Notes
    -----
    Every column sees the same resampled queries, so that the intervals of two systems are comparable.
    How often each query is drawn is counted once and multiplied with all columns.

    Examples
    --------
    >>> bootstrap_intervals(np.array([[0.0], [1.0], [1.0], [1.0]]), rng=0)
    array([[0.25, 1.  ]])
    """
    if not isinstance(columns, np.ndarray) or columns.ndim != 2 or columns.dtype.kind != "f":
        given = f"{columns.shape} {columns.dtype}" if isinstance(columns, np.ndarray) else type(columns).__name__
        raise InvalidInputError(f"columns must be an (n, c) array of floats; got {given}")
    if np.isinf(columns).any():
        raise InvalidInputError("columns must be finite, NaN where a query is left out; got infinity")
    check_count("resamples", resamples)
    check_level(level)
    count, width = columns.shape
    if not count:
        raise InsufficientDataError("columns must have at least one row; got none")
    generator = np.random.default_rng(rng)
    scored = ~np.isnan(columns)
    values = np.where(scored, columns, 0.0)
    partly = not scored.all()
    step = max(1, 4_000_000 // count)
    means = np.empty((resamples, width))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = generator.integers(0, count, (rows, count)) + np.arange(rows)[:, None] * count
        times = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count).astype(np.float64)
        share = times @ scored.astype(np.float64) if partly else float(count)
        with np.errstate(invalid="ignore", divide="ignore"):
            means[start : start + rows] = (times @ values) / share
    quantile = np.nanquantile if partly else np.quantile
    low_high = np.full((width, 2), np.nan)
    usable = scored.any(axis=0)
    ends = [(1 - level) / 2, (1 + level) / 2]
    if usable.any():
        low_high[usable] = quantile(means[:, usable], ends, axis=0).T
    return low_high


def mcnemar_exact(wins: int, losses: int) -> float:
    """Two-sided exact McNemar p-value.

    Parameters
    ----------
    wins : int
        Queries that the system gets and the baseline does not; >= 0.
    losses : int
        Queries that the baseline gets and the system does not; >= 0.

    Returns
    -------
    float
        In (0, 1]; 1 when `wins` equals `losses`, and for no discordant query at all.

    Raises
    ------
    InvalidInputError
        If a count is negative or not a whole number.

    Notes
    -----
    ``min(1, 2 * P(X <= min(wins, losses)))`` with ``X ~ Binomial(wins + losses, 1/2)``, summed in whole
    numbers, so that it is exact up to the last rounding. No mid-p and no continuity correction.

    References
    ----------
    McNemar (1947), doi:10.1007/BF02295996.

    Examples
    --------
    >>> round(mcnemar_exact(8, 1), 6)
    0.039062
    """
    for name, count in (("wins", wins), ("losses", losses)):
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
            raise InvalidInputError(f"{name} must be a whole number >= 0; got {count!r}")
    total = int(wins) + int(losses)
    term, tail = 1, 1
    for successes in range(1, min(int(wins), int(losses)) + 1):
        term = term * (total - successes + 1) // successes
        tail += term
    return min(1.0, float(2 * tail / 2**total))


def wins_and_losses(system: FloatArray, baseline: FloatArray) -> tuple[int, int]:
    """Queries on which a system is better, and on which it is worse, than a baseline.

    Parameters
    ----------
    system, baseline : (n,) array of float
        One value per query, in the same order; NaN = left out, in both at the same places.

    Returns
    -------
    tuple of int
        Wins and losses. On LastHop with vectors as the baseline: GraphWin and GraphLoss.

    Raises
    ------
    InvalidInputError
        If the lengths differ, or a query is left out for one of them only.

    Examples
    --------
    >>> wins_and_losses(np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0]))
    (1, 1)
    """
    if system.shape != baseline.shape:
        raise InvalidInputError(f"both systems need one value per query; got {system.shape}, {baseline.shape}")
    if (np.isnan(system) != np.isnan(baseline)).any():
        raise InvalidInputError("both systems must be scored on the same queries; one is NaN alone")
    return int((system > baseline).sum()), int((system < baseline).sum())


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
