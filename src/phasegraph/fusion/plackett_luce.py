"""Experimental: Plackett–Luce strengths of each list, with the prior without which they do not exist."""

from __future__ import annotations

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError, NotConvergedError
from phasegraph.fusion.base import check_matrix, check_weights, ordered_sum


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
