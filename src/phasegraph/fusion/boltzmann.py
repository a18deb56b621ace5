"""The PhaseGraph paper's rule: Boltzmann weights of percentile ranks, added."""

from __future__ import annotations

from typing import Literal

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError
from phasegraph.fusion.base import check_matrix, check_weights, ordered_sum

BoltzmannNorm = Literal["sum", "max"]


def boltzmann(
    values: FloatArray,
    /,
    *,
    weights: FloatArray | None = None,
    missing: FloatArray | None = None,
    epsilon: float = 1e-6,
    temperature_factor: float = 0.5,
    temperature: float | None = None,
    norm: BoltzmannNorm = "sum",
) -> FloatArray:
    """Weighted sum of each list's Boltzmann weights (Eq. 2 to 5 of the paper).

    Parameters
    ----------
    values : (n, m) array of float
        Percentile ranks in [0, 1], each column over its own list; NaN = not returned, which adds 0.
    weights : (m,) array of float, optional
        >= 0, used as given; the paper's are (a, 1 - a) with a the *vector* weight. Default 1 each.
    missing : ignored
        A source that lacks a candidate adds 0, by the rule's definition.
    epsilon : float, default 1e-6
        Keeps the energy finite at percentile 0; > 0.
    temperature_factor : float, default 0.5
        Temperature over mean energy; > 0.
    temperature : float, optional
        A fixed temperature > 0 in its place.
    norm : {"sum", "max"}, default "sum"
        ``sum`` is the paper's and makes the top of a list fall like 3/n; ``max`` divides by the largest
        weight, so that it does not depend on how long the list is.

    Returns
    -------
    (n,) array of float
        In [0, sum of weights]. Not a probability of relevance.

    Raises
    ------
    InvalidInputError
        If a percentile is outside [0, 1] or an option is outside its range.

    Notes
    -----
    ``E = -ln(p + epsilon)``, ``T = temperature_factor * mean(E)``, ``P = exp(-E / T)`` over its sum. For an
    untied list T depends on n only (1/2 in the limit), so P is close to p squared, normalised: a rank fusion with
    another curve. A list with one hit, or with all hits tied, has no energy to spread and gets equal weights.
    The value of `epsilon` and the factor 1/2 come from third-party ports of the paper.

    It breaks the law "an appended worst hit changes nothing" by its nature: with ``norm="sum"`` every weight of a
    list shrinks when the list grows (top of 5: 0.5617; top of 50: 0.0605).

    References
    ----------
    .. [1] "Calibrated Fusion for Heterogeneous Graph-Vector Retrieval in Multi-Hop QA", arXiv:2603.28886

    Examples
    --------
    >>> boltzmann(np.array([[1.0], [0.5], [np.nan]])).round(4)
    array([0.982, 0.018, 0.   ])
    """
    _check_options(epsilon, temperature_factor, temperature, norm)
    matrix = check_matrix(values)
    if np.nanmin(matrix, initial=0.0) < 0 or np.nanmax(matrix, initial=1.0) > 1:
        raise InvalidInputError("boltzmann needs percentile ranks in [0, 1]; calibrate with 'percentile' first")
    terms = np.zeros(matrix.shape)
    for column in range(matrix.shape[1]):
        rows = np.flatnonzero(~np.isnan(matrix[:, column]))
        if len(rows):
            energy = -np.log(matrix[rows, column] + epsilon)
            terms[rows, column] = _weights(energy, temperature_factor, temperature, norm)
    return ordered_sum(terms * check_weights(weights, matrix.shape[1]))


def boltzmann_temperature(percentiles: FloatArray, /, *, epsilon: float = 1e-6, factor: float = 0.5) -> float:
    """Temperature of one list: `factor` times its mean energy ``-ln(p + epsilon)``.

    Parameters
    ----------
    percentiles : (n,) array of float
        In [0, 1], n >= 1.
    epsilon, factor : float
        As in :func:`boltzmann`.

    Returns
    -------
    float
        May be <= 0 for a list that is all tied.

    Examples
    --------
    >>> round(boltzmann_temperature(np.array([1.0, 0.8, 0.6, 0.4, 0.2])), 6)
    0.325969
    """
    return factor * float(np.mean(-np.log(np.asarray(percentiles, dtype=np.float64) + epsilon)))


def _weights(energy: FloatArray, factor: float, fixed: float | None, norm: BoltzmannNorm) -> FloatArray:
    temperature = factor * float(energy.mean()) if fixed is None else fixed
    if len(energy) == 1 or temperature <= 0 or energy.max() == energy.min():
        return np.full(len(energy), 1.0 / len(energy) if norm == "sum" else 1.0)
    exponent = -energy / temperature
    weights = np.exp(exponent - exponent.max())
    return np.asarray(weights / weights.sum()) if norm == "sum" else weights


def _check_options(epsilon: float, factor: float, fixed: float | None, norm: str) -> None:
    if not (np.isfinite(epsilon) and epsilon > 0):
        raise InvalidInputError(f"epsilon must be finite and positive; got {epsilon!r}")
    if not (np.isfinite(factor) and factor > 0):
        raise InvalidInputError(f"temperature_factor must be finite and positive; got {factor!r}")
    if fixed is not None and not (np.isfinite(fixed) and fixed > 0):
        raise InvalidInputError(f"temperature must be finite and positive; got {fixed!r}")
    if norm not in ("sum", "max"):
        raise InvalidInputError(f"norm must be 'sum' or 'max'; got {norm!r}")
