"""Background calibration: the default, which compares each score with all scores of its source.

The value of a hit is its distance above the mean score of the source's whole collection, in standard deviations. The
calibration is exact if the source states this mean and deviation, as the graph walk does. Otherwise, both numbers are
estimated from the returned list by order statistics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np

from phasegraph._support.ordering import tied_ranks
from phasegraph._support.shared import LOADING, kept_while_short
from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_count
from phasegraph.ranking import Ranking

ASSUMED_SIZE = 1_000_000
INFORMATIVE_HITS = 5
_SHARED_RANKS = 20
LINEAR, BOUND = 6.0, 12.0


@dataclass(frozen=True, slots=True, eq=False)
class Calibrated:
    """The calibrated values of a ranking.

    Parameters
    ----------
    values : (n,) array of float
        Calibrated value of each hit, in the order of the ranking.
    missing : float
        Value of a candidate that this ranking lacks.
    tier : str
        Kind of the calibration: ``exact``, ``fitted``, ``estimated`` or the name of a per-list calibrator.
    informative : bool
        False if all values are equal, because the scores do not allow a comparison.
    out_of_range_share : float
        Share of the scores outside the range of the reference sample, in [0, 1].
    """

    values: FloatArray
    missing: float
    tier: str
    informative: bool = True
    out_of_range_share: float = 0.0


@runtime_checkable
class Calibrator(Protocol):
    """A function that turns the scores of a ranking into values that are comparable between sources."""

    def __call__(self, ranking: Ranking, /) -> Calibrated:
        """Return the calibrated values of the ranking's hits."""
        ...

    def to_dict(self) -> Mapping[str, object]:
        """Return the calibrator in plain JSON types, with its registered ``name``."""
        ...


def normal_quantile(levels: FloatArray, /) -> FloatArray:
    """Return the standard normal quantiles of levels in (0, 1)."""
    with LOADING:
        from scipy.special import ndtri  # imported on first use, because this import takes as long as numpy's import

    return np.asarray(ndtri(levels), dtype=np.float64)


@lru_cache(maxsize=256)
def order_statistic(rank: int, size: int, /) -> float:
    """Return the expected value of the `rank`-th largest (from 1) of `size` standard normal draws.

    The value is Blom's approximation of 1958.
    """
    tail = (np.array([rank], dtype=np.float64) - 0.375) / (max(size, rank) + 0.25)
    return -float(normal_quantile(tail)[0])


@kept_while_short
def order_statistics(count: int, size: int, /) -> FloatArray:
    """Return the expected values of the `count` largest of `size` standard normal draws, largest first, read-only."""
    tail = (np.arange(1, count + 1, dtype=np.float64) - 0.375) / (max(size, count) + 0.25)
    values = -normal_quantile(tail)
    values.setflags(write=False)
    return values


@dataclass(frozen=True, slots=True)
class BackgroundCalibrator:
    """A calibrator that expresses scores in standard deviations above the mean of the source's background.

    Parameters
    ----------
    assumed_size : int, default 1,000,000
        Size of the collection for a source that does not state its size, >= 1.

    Notes
    -----
    *Exact calibration* uses the :class:`~phasegraph.Background` that the source states. *Estimated calibration* derives
    a background from the returned list of n hits and the collection size N. It fits a line through the scores and the
    expected values of the n largest of N standard normal draws. This line standardizes the scores.

    A list with fewer than five hits, or with equal scores, is *uninformative*. All its hits get the same value: the
    mean expected value for ranks 1 to max(n, 20). The list then supports its hits, but does not order them. In a
    rank-only list, each hit gets the expected value for its rank.

    A value v in [-6, 6] is unchanged. A larger value becomes ``6 + d / (1 + d / 6)`` with ``d = v - 6``, which is
    always less than 12. Values below -6 are compressed likewise. A walk with a value of 38 therefore cannot outweigh
    all other sources.

    A candidate that the list lacks gets the lowest value of the list. If the expected value for rank n + 1 is lower, it
    gets this value instead. It does not get 0, which is the value of an average item of the collection.

    Estimated values do not change if all scores are multiplied by a number or increased by a number. A list with low
    scores therefore gets the same values as a list with high scores: ``[.1, .2, .3, .4, .5]`` and ``[1, 2, 3, 4, 5]``
    get equal values. Estimated values also depend on the length of the list. Exact calibration has neither of these two
    limitations. In a list of five to eight hits, a raised score changes the line. In about one random case in a
    thousand, the raised hit then falls in comparison with a candidate that the list lacks.

    References
    ----------
    .. [1] Blom, "Statistical Estimates and Transformed Beta-Variables", 1958
    .. [2] Lloyd, "Least-squares estimation of location and scale parameters using order statistics", Biometrika
       1952, doi:10.1093/biomet/39.1-2.88

    Examples
    --------
    >>> found = BackgroundCalibrator()(Ranking("v", list("abcde"), [0.9, 0.7, 0.6, 0.55, 0.5]))
    >>> found.values.round(2), round(found.missing, 2), found.tier
    (array([4.85, 4.65, 4.54, 4.49, 4.44]), 4.39, 'estimated')
    """

    assumed_size: int = ASSUMED_SIZE

    def __post_init__(self) -> None:
        check_count("assumed_size", self.assumed_size, minimum=1)

    @property
    def bounded(self) -> bool:
        """False, because values may be outside [0, 1]."""
        return False

    def __call__(self, ranking: Ranking, /) -> Calibrated:
        """Calibrate a ranking; the notes of the class describe the method."""
        count = len(ranking)
        size = max(self.assumed_size if ranking.size is None else ranking.size, count + 1)
        if ranking.background is not None and not ranking.rank_only:
            values = _bounded(ranking.background.standardise(ranking.scores))
            return Calibrated(values, _missing(values, size), "exact")
        if ranking.rank_only and count >= INFORMATIVE_HITS and ranking.scores[0] != ranking.scores[-1]:
            values = order_statistics(count, size)
            return Calibrated(values, _missing(values, size), "estimated")
        standardised = _standardised_by_order(ranking.scores, size)
        if standardised is None:
            return _uninformative(count, size)
        standardised = _bounded(standardised)
        return Calibrated(standardised, _missing(standardised, size), "estimated")

    def by_rank(self, ranking: Ranking, /) -> Calibrated:
        """Calibrate a ranking by its ranks alone; ties share their mean rank.

        The value of a hit is the expected order statistic of its rank. The pipeline uses this method if all sources of
        a query are uninformative; a single short list then keeps its order.
        """
        count = len(ranking)
        size = max(self.assumed_size if ranking.size is None else ranking.size, count + 1)
        ranks = tied_ranks(ranking.scores)
        values = np.interp(ranks, np.arange(1, count + 1), order_statistics(count, size))
        return Calibrated(values, _missing(values, size), "estimated")

    def to_dict(self) -> dict[str, object]:
        """Return the calibrator in plain JSON types."""
        return {"name": "background", "assumed_size": self.assumed_size}

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> BackgroundCalibrator:
        """Create the calibrator from the output of :meth:`to_dict`."""
        size = state.get("assumed_size", ASSUMED_SIZE)
        return cls(size)  # type: ignore[arg-type]


def _bounded(values: FloatArray) -> FloatArray:
    """Compress values above 6 to values in (6, 12), and values below -6 to values in (-12, -6), in the same order.

    `values` descend. Values in [-6, 6] stay unchanged.
    """
    if not len(values) or (values[0] <= LINEAR and values[-1] >= -LINEAR):
        return values
    out, rising = values.copy(), values[::-1]  # the values descend, so values beyond the limits are at the two ends
    high, low = len(values) - int(rising.searchsorted(LINEAR, "right")), int(rising.searchsorted(-LINEAR))
    if high:
        out[:high] = _squeezed(values[:high])
    if low:
        out[-low:] = -_squeezed(-values[-low:])
    return out


def _squeezed(values: FloatArray) -> FloatArray:
    beyond = np.minimum(values - LINEAR, 1e15)
    return LINEAR + beyond / (1.0 + beyond / (BOUND - LINEAR))


def _missing(values: FloatArray, size: int) -> float:
    below = order_statistic(len(values) + 1, size)
    return min(float(values[-1]), below) if len(values) else below


def _standardised_by_order(scores: FloatArray, size: int) -> FloatArray | None:
    """Standardize the descending scores of a list by a line that is fitted to points (order statistic, score).

    `size` is the number of items in the source's collection. Return None if the list is uninformative, or if the line
    cannot standardize the scores.
    """
    count = len(scores)
    if count < INFORMATIVE_HITS or scores[0] == scores[-1]:
        return None
    scale = max(abs(float(scores[0])), abs(float(scores[-1])))
    values = scores / scale
    centred, norm, mean = _expected(count, size)
    slope = float(centred @ values) / norm
    location = float(np.add.reduce(values)) / count - slope * mean
    if not (slope > 0 and math.isfinite(slope)):
        return None
    values -= location
    values /= slope
    return values if math.isfinite(values[0]) and math.isfinite(values[-1]) else None  # the values descend


@kept_while_short
def _expected(count: int, size: int) -> tuple[FloatArray, float, float]:
    """Return the expected values of the `count` largest of `size` standard normal draws, minus their mean.

    Also return the sum of the squares of these centered values, and the mean that was subtracted. A line can then be
    fitted to the values and the scores.
    """
    expected = order_statistics(count, size)
    centred = expected - expected.mean()
    centred.setflags(write=False)
    return centred, float(centred @ centred), float(expected.mean())


def _uninformative(count: int, size: int) -> Calibrated:
    shared = max(count, _SHARED_RANKS)
    size = max(size, shared + 1)
    value = float(order_statistics(shared, size).mean())
    return Calibrated(
        np.full(count, value), min(value, order_statistic(shared + 1, size)), "estimated", informative=False
    )
