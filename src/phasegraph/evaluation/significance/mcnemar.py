"""The exact McNemar test: hits and misses of two systems on the same queries."""

from __future__ import annotations

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError


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
