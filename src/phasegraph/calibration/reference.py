"""Calibration by a reference sample, which contains scores of a source for unlabeled queries.

The calibrator is fitted once per source. A list with low scores for a query gets low values, unlike with a
normalization of the list alone.
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
    """A calibrator that applies the distribution function of a reference sample.

    The distribution function is the empirical cumulative distribution function (ECDF), made strictly increasing.
    :func:`fit_reference_ecdf` creates the calibrator.

    Parameters
    ----------
    knots : (r,) array of float
        Distinct reference scores, ascending, r >= 2.
    levels : (r,) array of float
        The share of reference scores below each knot, plus half of the share at the knot; in (0, 1), ascending.
    fraction : float
        Share of the collection that the lists of the sample contain, in (0, 1]; 1 if the sample contains all scores.
    normal_scores : bool
        Whether to return standard normal quantiles, which are unbounded, instead of percentiles in (0, 1).
    size : int
        Size of the collection, known or assumed.
    fingerprint : str
        Identification of the source of the scores, such as the store and the embedding model; empty if unknown.

    Notes
    -----
    Between knots, the function interpolates linearly. Beyond the knots, percentiles follow a hyperbola that stays
    within (0, 1), and normal scores follow a straight line. Different scores therefore always get different values.

    With a `fraction` f < 1, the sample contains only the best scores of the collection. For normal scores, a score at
    level u of the sample is at level ``1 - f (1 - u)`` of the collection. These values are comparable with those of the
    background calibration.
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
                "knots and levels must be one-dimensional, of equal length, with at least 2 values; got shapes "
                f"{knots.shape} and {levels.shape}"
            )
        if not ((np.diff(knots) > 0).all() and (np.diff(levels) > 0).all() and levels[0] > 0 and levels[-1] < 1):
            raise InvalidInputError(
                "knots and levels must be strictly ascending, and levels must be in (0, 1); got knots from "
                f"{knots[0]:g} to {knots[-1]:g} and levels from {levels[0]:g} to {levels[-1]:g}"
            )
        check_range("fraction", self.fraction, 0, 1, ends="(]")
        check_flag("normal_scores", self.normal_scores)
        check_count("size", self.size, minimum=1)
        check_text("fingerprint", self.fingerprint)
        for name, array in (("knots", knots), ("levels", levels)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def bounded(self) -> bool:
        """True for percentiles, which are in [0, 1]; False for normal scores."""
        return not self.normal_scores

    def transform(self, scores: FloatArray, /) -> FloatArray:
        """Return the percentile in (0, 1), or the normal score, of each score; a higher score gets a higher value.

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
        """Return the scores `values` and the knots, divided by the same power of two so that nothing overflows.

        After this division, scores below -1e150 or above 1e150 are set to these limits.
        """
        knots = moderate(self.knots)
        if knots is not self.knots:
            largest = float(np.abs(self.knots).max())
            with np.errstate(over="ignore", under="ignore"):
                values = np.ldexp(values, -math.frexp(largest)[1])
        return np.clip(values, -1e150, 1e150), knots

    def __call__(self, ranking: Ranking, /) -> Calibrated:
        """Return the calibrated values of the hits and the value of a missing candidate; see :class:`Calibrated`."""
        values = self.transform(ranking.scores)
        out_of_range_share = self.out_of_range_share(ranking.scores)
        if not self.normal_scores:
            return Calibrated(values, 0.0, self.tier, out_of_range_share=out_of_range_share)
        below = order_statistic(len(values) + 1, max(self.size, len(values) + 1))
        lowest = float(values[-1]) if len(values) else below
        return Calibrated(values, min(lowest, below), self.tier, out_of_range_share=out_of_range_share)

    def out_of_range_share(self, scores: FloatArray, /) -> float:
        """Return the share of scores outside the range of the reference sample, in [0, 1].

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
        """Return the calibrator in plain JSON types; :meth:`from_dict` restores it bit by bit."""
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
        """Create the calibrator from the output of :meth:`to_dict`; raise InvalidInputError for an invalid field."""
        needed = ("knots", "levels", "fraction", "normal_scores", "size")
        check_keys("reference_ecdf", state, state, required=needed)
        return cls(*(state[name] for name in needed), state.get("fingerprint", ""))  # type: ignore[arg-type, call-arg]


def _between(values: FloatArray, knots: FloatArray, grid: FloatArray) -> FloatArray:
    """Interpolate linearly at `values` between the ascending `knots`, at which the function has the values `grid`.

    If two knots are too close for a slope, use the function's value at the lower knot.
    """
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
    """Fit a calibrator to the distribution of a source's scores.

    Parameters
    ----------
    samples : (n,) array or sequence of arrays of float
        Scores for unlabeled queries, pooled or as an array per query; higher is better. At least 20 values must be
        finite, with two distinct values. Values that are not finite are ignored.
    normal_scores : bool, default False
        Whether the calibrator returns standard normal quantiles instead of percentiles.
    fraction : float, default 1.0
        Share of the collection that each list contains, in (0, 1].
    size : int, default 1,000,000
        Size of the collection.

    Returns
    -------
    ReferenceECDF
        The fitted calibrator.

    Raises
    ------
    InsufficientDataError
        If fewer than 20 values are finite, or all finite values are equal.
    InvalidTypeError
        If `samples` contains a value that is not a number.

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
            f"a reference sample needs at least {MINIMUM_REFERENCE} finite scores; got {len(pooled)}: use more queries"
        )
    knots, counts = np.unique(pooled, return_counts=True)
    if len(knots) < 2:
        raise InsufficientDataError(
            f"a reference sample needs at least two distinct scores; all {len(pooled)} are {float(knots[0])!r}: check "
            "that the source returns its own scores"
        )
    levels = (np.cumsum(counts) - counts / 2.0) / len(pooled)
    if len(knots) > _KNOTS:
        keep = np.unique(np.linspace(0, len(knots) - 1, _KNOTS).round().astype(np.intp))
        knots, levels = knots[keep], levels[keep]
    return ReferenceECDF(knots, levels, fraction, normal_scores, size)
