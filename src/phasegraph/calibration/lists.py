"""Normalisations of one list by itself: what most fusion libraries call "normalise".

They see nothing but the list at hand, so the best hit of a poor list looks as good as that of a rich one, and a
value depends on how long the list is. They are here because the literature and the peers use them; the default
is :class:`~phasegraph.calibration.BackgroundCalibrator`.
"""

from __future__ import annotations

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError


def percentile_rank(scores: FloatArray, /) -> FloatArray:
    """Share of the list that scores no higher than each hit (the paper's PIT of a source's own list).

    Parameters
    ----------
    scores : (n,) array of float
        Finite, higher is better, in any order.

    Returns
    -------
    (n,) array of float
        In [1/n, 1]; the best hit has exactly 1. Not a probability of relevance.

    Raises
    ------
    InvalidInputError
        If a score is NaN or infinite.

    Notes
    -----
    Ties share their *maximum* rank, as the formula with ``<=`` says; some public ports break ties by sort order.
    The value is a function of ranks, ties and n only: any strictly increasing transform of the scores leaves it
    unchanged, so it keeps no magnitude. It breaks the laws "an appended worst hit changes nothing" and "a poor
    list cannot have a top of 1": ``[.01, .02, .03]`` gets 1.0 at its top.

    References
    ----------
    .. [1] "Calibrated Fusion for Heterogeneous Graph-Vector Retrieval in Multi-Hop QA", arXiv:2603.28886, Eq. 1

    Examples
    --------
    >>> percentile_rank(np.array([0.5, 0.5, 0.2])).round(4)
    array([1.    , 1.    , 0.3333])
    """
    values = _finite(scores)
    if not len(values):
        return values
    return np.searchsorted(np.sort(values), values, side="right") / len(values)


def min_max(scores: FloatArray, /, *, constant: float = 1.0) -> FloatArray:
    """Scores stretched so that the worst of the list is 0 and the best 1.

    Parameters
    ----------
    scores : (n,) array of float
        Finite.
    constant : float, default 1.0
        What every hit of a constant list gets; in [0, 1]. HippoRAG-2 and SemFlowRAG use 1.

    Returns
    -------
    (n,) array of float
        In [0, 1].

    Raises
    ------
    InvalidInputError
        If a score is not finite or `constant` is outside [0, 1].

    Examples
    --------
    >>> min_max(np.array([3.0, 2.0, 1.0]))
    array([1. , 0.5, 0. ])
    """
    if not 0.0 <= constant <= 1.0:
        raise InvalidInputError(f"constant must be in [0, 1]; got {constant!r}")
    values = _finite(scores)
    if not len(values):
        return values
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.full(len(values), constant)
    half = high / 2 - low / 2
    return np.clip((values / 2 - low / 2) / half, 0.0, 1.0) if half > 0 else np.full(len(values), constant)


def theoretical_min_max(scores: FloatArray, /, *, infimum: float) -> FloatArray:
    """Scores between the scorer's theoretical infimum (0) and the best of the list (1), as in TM2C2.

    Parameters
    ----------
    scores : (n,) array of float
        Finite and >= `infimum`.
    infimum : float
        Lowest score the scorer can give: 0 for BM25, -1 for a cosine.

    Returns
    -------
    (n,) array of float
        In [0, 1]; all 0 where the best score equals the infimum.

    Raises
    ------
    InvalidInputError
        If a score is not finite or lies below `infimum`.

    References
    ----------
    .. [1] Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", arXiv:2210.11934

    Examples
    --------
    >>> theoretical_min_max(np.array([0.8, 0.2]), infimum=-1.0).round(4)
    array([1.    , 0.6667])
    """
    if not np.isfinite(infimum):
        raise InvalidInputError(f"infimum must be finite; got {infimum!r}")
    values = _finite(scores)
    if not len(values):
        return values
    if values.min() < infimum:
        raise InvalidInputError(f"scores must be >= infimum {infimum!r}; got {float(values.min())!r}")
    span = float(values.max()) - infimum
    return (values - infimum) / span if span > 0 else np.zeros(len(values))


def max_normalise(scores: FloatArray, /) -> FloatArray:
    """Scores divided by the best of the list ("raw/max").

    Parameters
    ----------
    scores : (n,) array of float
        Finite, >= 0, at least one positive.

    Returns
    -------
    (n,) array of float
        In [0, 1].

    Raises
    ------
    InvalidInputError
        If a score is not finite, negative, or none is positive.

    Examples
    --------
    >>> max_normalise(np.array([4.0, 1.0]))
    array([1.  , 0.25])
    """
    values = _finite(scores)
    if not len(values):
        return values
    if values.min() < 0 or values.max() <= 0:
        raise InvalidInputError(
            "max normalisation needs scores >= 0 with at least one positive; "
            f"got a range of {float(values.min())!r} to {float(values.max())!r}"
        )
    return np.asarray(values / values.max())


def z_score(scores: FloatArray, /) -> FloatArray:
    """Population standard deviations above the list's own mean; 0 for a constant list.

    Parameters
    ----------
    scores : (n,) array of float
        Finite.

    Returns
    -------
    (n,) array of float
        Unbounded, mean 0.

    Raises
    ------
    InvalidInputError
        If a score is not finite.

    Examples
    --------
    >>> z_score(np.array([3.0, 2.0, 1.0])).round(4)
    array([ 1.2247,  0.    , -1.2247])
    """
    values = _finite(scores)
    if not len(values):
        return values
    spread = float(values.std())
    return (values - values.mean()) / spread if spread > 0 else np.zeros(len(values))


def log_z_score(scores: FloatArray, /, *, floor: float = 1e-4) -> FloatArray:
    """z-score of ``log(score + floor)``: for heavy-tailed scores such as walk probabilities.

    Parameters
    ----------
    scores : (n,) array of float
        Finite and >= 0.
    floor : float, default 1e-4
        Added before the logarithm; > 0.

    Returns
    -------
    (n,) array of float
        Unbounded, mean 0.

    Raises
    ------
    InvalidInputError
        If a score is negative or not finite, or `floor` is not positive.

    Examples
    --------
    >>> log_z_score(np.array([0.1, 0.01, 0.001, 0.0001]), floor=1e-9).round(4)
    array([ 1.3416,  0.4472, -0.4472, -1.3416])
    """
    if not (np.isfinite(floor) and floor > 0):
        raise InvalidInputError(f"floor must be finite and positive; got {floor!r}")
    values = _finite(scores)
    if len(values) and values.min() < 0:
        raise InvalidInputError(f"log z-score needs scores >= 0; got {float(values.min())!r}")
    return z_score(np.log(values + floor))


def _finite(scores: FloatArray) -> FloatArray:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise InvalidInputError(f"scores must be one-dimensional; got shape {values.shape}")
    if not np.isfinite(values).all():
        raise InvalidInputError(f"scores must be finite; got {values[~np.isfinite(values)][0]!r}")
    return values
