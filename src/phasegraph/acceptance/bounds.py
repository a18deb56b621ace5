"""How surely a mean loss lies below a level, from n independent losses in [0, 1].

Both functions return p-values of the hypothesis "the mean is at or above the level": small ones say it is
not. They hold for every n and every distribution on [0, 1]; nothing is assumed normal.
"""

from __future__ import annotations

import math

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError

_BETS = np.array([0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])


def hoeffding_bentkus(losses: FloatArray, level: float, /) -> FloatArray:
    """P-value per column by the tighter of Hoeffding's and Bentkus's inequality.

    Parameters
    ----------
    losses : (n, t) array of float
        In [0, 1]; NaN where the row does not count in that column.
    level : float
        In (0, 1).

    Returns
    -------
    (t,) array of float
        In [0, 1]; 1 where nothing counts.

    References
    ----------
    .. [1] Bates et al., Distribution-free, risk-controlling prediction sets, arXiv:2101.02703, section 3.1.

    Examples
    --------
    >>> hoeffding_bentkus(np.zeros((14, 1)), 0.2).round(4)
    array([0.044])
    """
    from scipy.special import bdtr

    check_level("level", level)
    counted = ~np.isnan(losses)
    count = counted.sum(axis=0)
    total = np.where(counted, losses, 0.0).sum(axis=0)
    mean = total / np.maximum(count, 1)
    hoeffding = np.exp(-count * _divergence(np.minimum(mean, level), level))
    successes = np.minimum(np.ceil(total - 1e-9), np.maximum(count, 1))
    bentkus = math.e * np.asarray(bdtr(np.maximum(successes, 0), np.maximum(count, 1), level))
    values = np.minimum(np.minimum(hoeffding, bentkus), 1.0)
    return np.where((count == 0) | (mean >= level), 1.0, values)


def betting(losses: FloatArray, level: float, /) -> FloatArray:
    """P-value per column from an average of seven fixed bets against the hypothesis.

    Parameters
    ----------
    losses : (n, t) array of float
        In [0, 1]; NaN where the row does not count in that column.
    level : float
        In (0, 1).

    Returns
    -------
    (t,) array of float
        In [0, 1]; 1 where nothing counts.

    Notes
    -----
    A bet b turns each loss x into the factor ``1 + b (level - x) / (1 - level)``, whose mean is at most 1
    under the hypothesis; by Markov's inequality the reciprocal of the average of the products is a p-value.
    The bets of [1]_ adapt as losses arrive and depend on their order; fixed ones do not, at little cost.
    Much tighter than :func:`hoeffding_bentkus` where losses vary little, slightly looser where they are 0 or 1.

    References
    ----------
    .. [1] Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, arXiv:2010.09686.
    """
    check_level("level", level)
    gains = np.where(np.isnan(losses), 0.0, (level - losses) / (1 - level))
    wealth = np.stack([np.log1p(bet * gains).sum(axis=0) for bet in _BETS])
    best = wealth.max(axis=0)
    average = best + np.log(np.exp(wealth - best).mean(axis=0))
    return np.asarray(np.exp(np.minimum(-average, 0.0)))


def queries_needed(level: float, delta: float, /, *, risk: float = 0.0) -> int:
    """Queries with which a mean loss of `risk` is expected to be certified below `level`.

    Parameters
    ----------
    level : float
        The bound to certify, in (0, 1).
    delta : float
        Probability of being wrong, in (0, 1).
    risk : float, default 0
        Observed mean loss, in [0, level); 0 gives the least number with which anything can be certified.

    Returns
    -------
    int
        At least 1.

    Raises
    ------
    InvalidInputError
        If `risk` is not below `level`: then no number of labels is enough.

    Examples
    --------
    >>> [queries_needed(level, 0.05) for level in (0.2, 0.1, 0.05, 0.01)]
    [14, 29, 59, 299]
    """
    check_level("level", level)
    check_level("delta", delta)
    if not 0 <= risk < level:
        raise InvalidInputError(f"risk must be in [0, {level!r}); got {risk!r}")
    divergence = float(_divergence(np.array([risk]), level)[0])
    return max(1, math.ceil(math.log(1 / delta) / divergence - 1e-9))


def check_level(name: str, value: float) -> None:
    """Refuse a level that is not strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating) or not 0 < value < 1:
        raise InvalidInputError(f"{name} must be in (0, 1); got {value!r}")


def _divergence(mean: FloatArray, level: float) -> FloatArray:
    """Kullback–Leibler divergence of a coin with `mean` from a coin with `level`, in nats."""
    rest = 1 - mean
    first = np.where(mean > 0, mean * np.log(np.where(mean > 0, mean, 1.0) / level), 0.0)
    second = np.where(rest > 0, rest * np.log(np.where(rest > 0, rest, 1.0) / (1 - level)), 0.0)
    return np.asarray(first + second)
