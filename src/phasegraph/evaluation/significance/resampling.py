"""Tests by resampling: the paired bootstrap and the sign-flip permutation test."""

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
