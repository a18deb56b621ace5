"""Intervals: Wilson for a share, the percentile bootstrap for the mean of anything."""

from __future__ import annotations

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InsufficientDataError, InvalidInputError
from phasegraph.evaluation.significance.resampling import check_count, check_level


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
