"""Calibration against a reference sample: scores that a source gave to unlabelled queries.

Fitted once per source, it keeps magnitude across queries: a poor list stays poor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from phasegraph._support.numbers import moderate
from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_count, check_flag, check_flat, check_keys, check_range, check_text
from phasegraph.calibration.background import Calibrated, normal_quantile, order_statistic
from phasegraph.errors import InsufficientDataError, InvalidInputError, InvalidTypeError
from phasegraph.ranking import Ranking

MINIMUM_REFERENCE = 20
_KNOTS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceECDF:
    """Strictly increasing distribution function of a reference sample; made by :func:`fit_reference_ecdf`.

    Parameters
    ----------
    knots : (r,) array of float
        Distinct reference scores, ascending, r >= 2.
    levels : (r,) array of float
        Mid-rank cumulative share at each knot, strictly inside (0, 1), ascending.
    fraction : float
        Share of the whole collection that the sample's lists hold, in (0, 1]; 1 for a sample of everything.
    normal_scores : bool
        Give standard normal quantiles (unbounded) in place of percentiles in (0, 1).
    size : int
        Size of the collection, known or assumed.
    fingerprint : str
        What gave the scores, such as the store and the embedding model; empty where it is not known.

    Notes
    -----
    Between knots it interpolates, beyond them it continues by a hyperbolic tail in probability (or straight on, at
    the sample's robust slope, for normal scores), so different scores always get different values and a score
    outside the sample neither saturates nor leaves the open unit interval.

    With `fraction` f < 1 the sample holds the top of the distribution only: a score at level u of the sample is at
    level ``1 - f (1 - u)`` of the whole, which puts it on the scale of the background calibration.
    """

    knots: FloatArray
    levels: FloatArray
    fraction: float = 1.0
    normal_scores: bool = False
    size: int = 1_000_000
    fingerprint: str = ""
    tier: str = field(default="fitted", init=False)

    def __post_init__(self) -> None:
        knots, levels = check_flat("knots", self.knots), check_flat("levels", self.levels)
        if knots.shape != levels.shape or len(knots) < 2:
            raise InvalidInputError(
                f"knots and levels must be two equal rows of >= 2 values; got {knots.shape}, {levels.shape}"
            )
        if not ((np.diff(knots) > 0).all() and (np.diff(levels) > 0).all() and levels[0] > 0 and levels[-1] < 1):
            raise InvalidInputError("knots and levels must be strictly ascending, levels in (0, 1)")
        check_range("fraction", self.fraction, 0, 1, ends="(]")
        check_flag("normal_scores", self.normal_scores)
        check_count("size", self.size, minimum=1)
        check_text("fingerprint", self.fingerprint)
        for name, array in (("knots", knots), ("levels", levels)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def bounded(self) -> bool:
        """Whether every value is in [0, 1]: percentiles are, normal scores are not."""
        return not self.normal_scores

    def transform(self, scores: FloatArray, /) -> FloatArray:
        """Calibrated value of each score: percentiles in (0, 1), or normal scores; strictly increasing.

        Examples
        --------
        >>> ecdf = fit_reference_ecdf(np.arange(100.0))
        >>> ecdf.transform(np.array([-5.0, 0.0, 49.5, 99.0, 500.0])).round(3)
        array([0.004, 0.005, 0.5  , 0.995, 1.   ])
        """
        values, knots = self._moderate(check_flat("scores", scores))
        low, high = knots[0], knots[-1]
        if self.normal_scores:
            grid = normal_quantile(1.0 - self.fraction * (1.0 - self.levels))
            gain = max(float(grid[-1] - grid[0]), 1e-9) / float(high - low)
            out = _between(values, knots, grid)
            out += gain * (np.minimum(values - low, 0.0) + np.maximum(values - high, 0.0))
            return out
        slope = float(high - low) / 4.0
        out = _between(values, knots, self.levels)
        below, above = values < low, values > high
        out[below] = self.levels[0] / (1.0 + (low - values[below]) / slope)
        out[above] = 1.0 - (1.0 - self.levels[-1]) / (1.0 + (values[above] - high) / slope)
        return out

    def _moderate(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and knots on a scale on which nothing overflows, by a power of two; beyond 1e150 scores are equal."""
        knots = moderate(self.knots)
        if knots is not self.knots:
            largest = float(np.abs(self.knots).max())
            with np.errstate(over="ignore", under="ignore"):
                values = np.ldexp(values, -math.frexp(largest)[1])
        return np.clip(values, -1e150, 1e150), knots

    def __call__(self, ranking: Ranking, /) -> Calibrated:
        """Calibrated hits, and what a candidate that the list lacks takes (see :class:`Calibrated`)."""
        values = self.transform(ranking.scores)
        out_of_range_share = self.out_of_range_share(ranking.scores)
        if not self.normal_scores:
            return Calibrated(values, 0.0, self.tier, out_of_range_share=out_of_range_share)
        below = order_statistic(len(values) + 1, max(self.size, len(values) + 1))
        lowest = float(values[-1]) if len(values) else below
        return Calibrated(values, min(lowest, below), self.tier, out_of_range_share=out_of_range_share)

    def out_of_range_share(self, scores: FloatArray, /) -> float:
        """Share of scores below the lowest or above the highest of the reference sample.

        Examples
        --------
        >>> fit_reference_ecdf(np.arange(100.0)).out_of_range_share(np.array([120.0, 99.0, 40.0, -1.0]))
        0.5
        """
        if not len(scores):
            return 0.0
        beyond = np.count_nonzero(scores < self.knots[0]) + np.count_nonzero(scores > self.knots[-1])
        return float(beyond / len(scores))

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state; :meth:`from_dict` gives a bit-equal calibrator back."""
        return {
            "name": "reference_ecdf",
            "knots": self.knots.tolist(),
            "levels": self.levels.tolist(),
            "fraction": self.fraction,
            "normal_scores": self.normal_scores,
            "size": self.size,
            "fingerprint": self.fingerprint,
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> ReferenceECDF:
        """Rebuild from :meth:`to_dict`; InvalidInputError names what does not fit."""
        needed = ("knots", "levels", "fraction", "normal_scores", "size")
        check_keys("reference_ecdf", state, state, required=needed)
        return cls(*(state[name] for name in needed), state.get("fingerprint", ""))  # type: ignore[arg-type, call-arg]


def _between(values: FloatArray, knots: FloatArray, grid: FloatArray) -> FloatArray:
    """Linear between the knots; between two that lie too near for a slope, the lower one's."""
    with np.errstate(all="ignore"):
        out = np.interp(values, knots, grid)
    lost = ~np.isfinite(out)
    if lost.any():
        out[lost] = grid[np.maximum(np.searchsorted(knots, values[lost], side="right") - 1, 0)]
    return out


def fit_reference_ecdf(
    samples: FloatArray | Sequence[FloatArray],
    /,
    *,
    normal_scores: bool = False,
    fraction: float = 1.0,
    size: int = 1_000_000,
) -> ReferenceECDF:
    """Fit the distribution function of a source's scores.

    Parameters
    ----------
    samples : (n,) array or sequence of arrays of float
        Scores from unlabelled queries, higher is better; at least 20 finite values, two of them distinct.
        Values that are not finite are dropped.
    normal_scores : bool, default False
        Give standard normal quantiles in place of percentiles.
    fraction : float, default 1.0
        Share of the collection that the lists hold, in (0, 1].
    size : int, default 1,000,000
        Size of the collection.

    Returns
    -------
    ReferenceECDF

    Raises
    ------
    InsufficientDataError
        If fewer than 20 finite values, or fewer than two distinct ones, are given.
    InvalidTypeError
        If `samples` holds anything but numbers.

    Examples
    --------
    >>> ecdf = fit_reference_ecdf(np.linspace(0, 1, 200))
    >>> float(ecdf.transform(np.array([0.5]))[0])
    0.5
    """
    try:
        parts = [samples] if isinstance(samples, np.ndarray) else list(samples)
        pooled = np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in parts] or [np.empty(0)])
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"samples must be arrays of numbers; got {type(samples).__name__}: {error}") from error
    pooled = pooled[np.isfinite(pooled)]
    if len(pooled) < MINIMUM_REFERENCE:
        raise InsufficientDataError(
            f"a reference sample needs at least {MINIMUM_REFERENCE} finite scores; got {len(pooled)}"
        )
    knots, counts = np.unique(pooled, return_counts=True)
    if len(knots) < 2:
        raise InsufficientDataError(
            f"a reference sample needs at least two distinct scores; all {len(pooled)} are {knots[0]!r}"
        )
    levels = (np.cumsum(counts) - counts / 2.0) / len(pooled)
    if len(knots) > _KNOTS:
        keep = np.unique(np.linspace(0, len(knots) - 1, _KNOTS).round().astype(np.intp))
        knots, levels = knots[keep], levels[keep]
    return ReferenceECDF(knots, levels, fraction, normal_scores, size)
