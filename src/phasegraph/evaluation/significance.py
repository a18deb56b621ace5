"""Is a difference between two systems more than chance, and how wide is a mean's interval.

Judgements are paired: both systems answer the same queries. The exact McNemar test for hits and misses, the paired
bootstrap and the sign-flip permutation test for anything else, bootstrap intervals, and Holm's correction; two-sided
throughout. What :mod:`scipy.stats` has comes from there, imported when first used since that takes a second. An
argument outside what its description says raises ``InvalidInputError``; too few values raise
``InsufficientDataError``, a kind of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._support.typing import BoolArray, FloatArray
from phasegraph._support.validation import check_count, check_range
from phasegraph.errors import InsufficientDataError, InvalidInputError

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


def _differences(values: ArrayLike) -> FloatArray:
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise InsufficientDataError(f"differences must hold at least one value; got shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidInputError("differences must be finite; leave out the queries that are not scored")
    return array


def paired_bootstrap(
    differences: ArrayLike, *, resamples: int = 10_000, level: float = 0.95, rng: int | np.random.Generator = 0
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
    values = _differences(differences)
    check_count("resamples", resamples, minimum=1)
    check_range("level", level, 0, 1, ends="()")
    from scipy import stats

    found = stats.bootstrap(
        (np.resize(values, max(len(values), 2)),),  # of a single value it would refuse to resample
        np.mean,
        n_resamples=int(resamples),
        batch=max(1, 4_000_000 // len(values)),
        confidence_level=level,
        method="percentile",
        random_state=np.random.default_rng(rng),
    )
    mean, means = float(values.mean()), found.bootstrap_distribution
    p = float((np.abs(means - means.mean()) >= abs(mean)).mean())
    interval = found.confidence_interval
    return BootstrapResult(mean, float(interval.low), float(interval.high), max(p, 1 / resamples))


def sign_flip(
    differences: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    permutations: int = 10_000,
    rng: int | np.random.Generator = 0,
) -> float:
    """Two-sided sign-flip permutation p-value of a mean difference of zero.

    Parameters
    ----------
    differences : (n,) array_like of float
        Per-query differences; finite, n >= 1.
    groups : (n,) array_like, optional
        The group of each query, such as its collection: the differences of a group keep or change their sign
        together. Default: each query is its own.
    permutations : int, default 10000
        Random sign patterns where there are too many to list.
    rng : int or numpy Generator, default 0

    Returns
    -------
    float
        In (0, 1]. Exact, over all sign patterns, where at most 20 groups' differences do not add up to zero;
        otherwise ``(1 + patterns at least as extreme) / (1 + permutations)``.

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
    >>> sign_flip([1.0, 1.0, 1.0, -1.0, 0.0], groups=["a", "a", "b", "c", "c"])
    0.75
    """
    values = _differences(differences)
    return float(sign_flips(values[:, None], groups=groups, permutations=permutations, rng=rng)[0])


def sign_flips(
    columns: FloatArray,
    *,
    groups: ArrayLike | None = None,
    permutations: int = 10_000,
    rng: int | np.random.Generator = 0,
) -> FloatArray:
    """The p-value of :func:`sign_flip` for many columns over the same queries.

    Parameters
    ----------
    columns : (n, c) array of float
        One row per query, one column per system and measure. NaN = left out.
    groups, permutations, rng
        As for :func:`sign_flip`.

    Returns
    -------
    (c,) array of float
        In (0, 1]; NaN for a column scored on no query.

    Notes
    -----
    Every column sees the same sign patterns, drawn once: half a second for 500 queries and 200 columns, where
    ``scipy.stats.permutation_test`` takes one for each.

    Examples
    --------
    >>> sign_flips(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [-1.0, np.nan]]))
    array([0.625, 1.   ])
    """
    values, scored = _table(columns)
    check_count("permutations", permutations, minimum=1)
    totals = _by_group(values, groups)
    moving = [of[of != 0] for of in totals.T]
    out = np.array([_listed_flips(of) if len(of) <= _EXACT_UP_TO else np.nan for of in moving])
    many = np.flatnonzero([len(of) > _EXACT_UP_TO for of in moving])
    if len(many):
        generator, wanted = np.random.default_rng(rng), totals[:, many]
        extreme = np.zeros(len(many))
        observed = np.abs(wanted.sum(axis=0))
        least = observed - 1e-12 * np.maximum(observed, np.abs(wanted).max(axis=0))
        step = max(1, 4_000_000 // len(wanted))
        for start in range(0, permutations, step):
            drawn = generator.integers(0, 2, (min(step, permutations - start), len(wanted)), dtype=np.int8)
            extreme += (np.abs((2.0 * drawn - 1.0) @ wanted) >= least).sum(axis=0)
        out[many] = (1 + extreme) / (1 + permutations)
    out[~scored.any(axis=0)] = np.nan
    return out


def _listed_flips(moving: FloatArray) -> float:
    """The share of all sign patterns whose sum is at least as far from zero as the one observed."""
    observed = abs(float(moving.sum()))
    sums = np.zeros(1)
    for value in moving:
        sums = np.concatenate([sums + value, sums - value])
    tolerance = 1e-12 * max(observed, float(np.abs(moving).max(initial=0.0)))
    return float((np.abs(sums) >= observed - tolerance).mean())


def _table(columns: FloatArray) -> tuple[FloatArray, BoolArray]:
    """`columns` with 0 where a query is left out, and where it is not."""
    if not isinstance(columns, np.ndarray) or columns.ndim != 2 or columns.dtype.kind != "f":
        given = f"{columns.shape} {columns.dtype}" if isinstance(columns, np.ndarray) else type(columns).__name__
        raise InvalidInputError(f"columns must be an (n, c) array of floats; got {given}")
    if np.isinf(columns).any():
        raise InvalidInputError("columns must be finite, NaN where a query is left out; got infinity")
    if not len(columns):
        raise InsufficientDataError("columns must have at least one row; got none")
    scored = ~np.isnan(columns)
    return np.where(scored, columns, 0.0), scored


def _by_group(values: FloatArray, groups: ArrayLike | None) -> FloatArray:
    """(g, c) array: the sum of each group's rows, groups in the order in which they are met."""
    if groups is None:
        return values
    labels = np.array(groups)
    if labels.shape != (len(values),):
        raise InvalidInputError(f"groups must hold one per query ({len(values)}); got shape {labels.shape}")
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    out = np.zeros((len(first), values.shape[1]))
    np.add.at(out, order[place], values)
    return out


def bootstrap_intervals(
    columns: FloatArray,
    *,
    groups: ArrayLike | None = None,
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
    groups : (n,) array_like, optional
        The group of each query, such as its collection: whole groups are drawn. Default: queries are.
    resamples, level, rng
        As for :func:`paired_bootstrap`.

    Returns
    -------
    (c, 2) array of float
        Low and high ends, in the unit of the column; NaN for a column scored on no query.

    Notes
    -----
    Every column sees the same resampled queries, so that the intervals of two systems are comparable. How often each
    query is drawn is counted once and multiplied with all columns: a third of a second for 500 queries and 266
    columns, where ``scipy.stats.bootstrap`` takes twenty.

    Examples
    --------
    >>> bootstrap_intervals(np.array([[0.0], [1.0], [1.0], [1.0]]), rng=0)
    array([[0.25, 1.  ]])
    """
    values, scored = _table(columns)
    check_count("resamples", resamples, minimum=1)
    check_range("level", level, 0, 1, ends="()")
    generator = np.random.default_rng(rng)
    values, weight = _by_group(values, groups), _by_group(scored.astype(np.float64), groups)
    count, width = values.shape
    even = scored.all() and groups is None
    step = max(1, 4_000_000 // count)
    means = np.empty((resamples, width))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = generator.integers(0, count, (rows, count)) + np.arange(rows)[:, None] * count
        times = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count).astype(np.float64)
        shares = float(count) if even else times @ weight
        with np.errstate(invalid="ignore", divide="ignore"):
            means[start : start + rows] = (times @ values) / shares
    intervals = np.full((width, 2), np.nan)
    usable = scored.any(axis=0)
    if usable.any():
        quantile = np.quantile if scored.all() else np.nanquantile
        intervals[usable] = quantile(means[:, usable], [(1 - level) / 2, (1 + level) / 2], axis=0).T
    return intervals


def mcnemar_exact(wins: int, losses: int) -> float:
    """Two-sided exact McNemar p-value, no mid-p and no continuity correction.

    Parameters
    ----------
    wins : int
        Queries that the system gets and the baseline does not; >= 0.
    losses : int
        Queries that the baseline gets and the system does not; >= 0.

    Returns
    -------
    float
        In (0, 1]: the binomial test of `wins` in ``wins + losses`` fair tosses; 1 for no discordant query.

    References
    ----------
    McNemar (1947), doi:10.1007/BF02295996.

    Examples
    --------
    >>> round(mcnemar_exact(8, 1), 6)
    0.039062
    """
    check_count("wins", wins)
    check_count("losses", losses)
    if wins == losses:
        return 1.0
    from scipy import stats

    return float(stats.binomtest(int(min(wins, losses)), int(wins + losses)).pvalue)


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

    References
    ----------
    Holm (1979), Scandinavian Journal of Statistics 6, 65-70.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    values = np.array(p_values, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise InvalidInputError(f"p_values must be a list of numbers in [0, 1]; got {p_values!r}")
    order = np.argsort(values, kind="stable")
    out = np.empty(len(values))
    out[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)))
    return out


def p_text(value: float) -> str:
    """A p-value, three digits."""
    return "<.001" if value < 0.001 else f"{value:.3f}"
