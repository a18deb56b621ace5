"""Calibration of each source against its own whole distribution: the default, because it keeps magnitude.

A hit's value is the number of standard deviations by which it stands above everything the source holds. Where the
source states its background (our walk knows the mean and deviation over all passages), that is exact. Where it
gives only the top of a list, location and scale are recovered from the order statistics of that list.
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
    """One ranking on the common scale.

    Parameters
    ----------
    values : (n,) array of float
        Calibrated value of each hit, in the order of the ranking.
    missing : float
        What a candidate takes that this ranking lacks.
    tier : str
        How it was calibrated: ``exact``, ``fitted``, ``estimated`` or a per-list calibrator's name.
    informative : bool
        False where the values carry no order of their own (membership only).
    out_of_range_share : float
        Share of the scores beyond the reference sample, in [0, 1].
    """

    values: FloatArray
    missing: float
    tier: str
    informative: bool = True
    out_of_range_share: float = 0.0


@runtime_checkable
class Calibrator(Protocol):
    """Turns a ranking's scores into values that can be compared between sources."""

    def __call__(self, ranking: Ranking, /) -> Calibrated:
        """Calibrated values of the ranking's hits."""
        ...

    def to_dict(self) -> Mapping[str, object]:
        """JSON-ready state with its registered ``name``."""
        ...


def normal_quantile(levels: FloatArray, /) -> FloatArray:
    """Standard normal quantiles of levels in (0, 1)."""
    with LOADING:
        from scipy.special import ndtri  # imported late: it costs as much as numpy itself

    return np.asarray(ndtri(levels), dtype=np.float64)


@lru_cache(maxsize=256)
def order_statistic(rank: int, size: int, /) -> float:
    """Expected value of the `rank`-th largest (from 1) of `size` standard normal draws: Blom's approximation, 1958."""
    tail = (np.array([rank], dtype=np.float64) - 0.375) / (max(size, rank) + 0.25)
    return -float(normal_quantile(tail)[0])


@kept_while_short
def order_statistics(count: int, size: int, /) -> FloatArray:
    """Expected values of the `count` largest of `size` standard normal draws, largest first (read-only)."""
    tail = (np.arange(1, count + 1, dtype=np.float64) - 0.375) / (max(size, count) + 0.25)
    values = -normal_quantile(tail)
    values.setflags(write=False)
    return values


@dataclass(frozen=True, slots=True)
class BackgroundCalibrator:
    """Standard deviations above the source's background, declared or recovered from the list.

    Parameters
    ----------
    assumed_size : int, default 1,000,000
        Size of the collection where the source does not state it; never guessed from other sources. At least 1.

    Notes
    -----
    *Declared*: the source's own :class:`~phasegraph.Background`. *Per list*: the scores s_1 >= s_2 >= ... are
    regressed on the expected normal order statistics of ranks 1 to n of N draws, and standardised with that line. A
    list of fewer than five hits, or with one distinct value, is *uninformative*: its members share the mean expected
    order statistic of ranks 1 to max(n, 20), so membership counts and it adds no order of its own. A rank-only list
    takes the expected order statistic of each rank.

    Up to 6 deviations, values are as they are; beyond, ``6 + d / (1 + d / 6)`` with d = the rest, so that none reaches
    12 and a walk that stands 38 deviations out cannot bury every other source.

    A candidate that the list lacks takes the lower of the list's lowest value and the expected order statistic of
    the rank below it; never 0, which would be the background's mean.

    The per-list tier is invariant to affine transforms of the scores, and for that reason cannot tell a poor list
    from a rich one: ``[.1, .2, .3, .4, .5]`` and ``[1, 2, 3, 4, 5]`` get the same values. Its values also move with the
    length of the list. Neither is true of the declared tier. Raising one hit of a list of five to eight can, in about
    one random case in a thousand, lower it against a candidate that the list lacks, because the line moves too.

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
        """Whether every value is in [0, 1]: they are not."""
        return False

    def __call__(self, ranking: Ranking, /) -> Calibrated:
        """Calibrate one ranking; see the class."""
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
        """Expected order statistics of the hits' ranks (ties share their mean rank), whatever the scores.

        What the pipeline uses where no source of a query is informative, so that an only list keeps its order.
        """
        count = len(ranking)
        size = max(self.assumed_size if ranking.size is None else ranking.size, count + 1)
        ranks = tied_ranks(ranking.scores)
        values = np.interp(ranks, np.arange(1, count + 1), order_statistics(count, size))
        return Calibrated(values, _missing(values, size), "estimated")

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state."""
        return {"name": "background", "assumed_size": self.assumed_size}

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> BackgroundCalibrator:
        """Rebuild from :meth:`to_dict`."""
        size = state.get("assumed_size", ASSUMED_SIZE)
        return cls(size)  # type: ignore[arg-type]


def _bounded(values: FloatArray) -> FloatArray:
    """The identity up to 6 from 0; beyond, increasing as far as a float can tell, and below 12."""
    if not len(values) or (values[0] <= LINEAR and values[-1] >= -LINEAR):
        return values
    out, rising = values.copy(), values[::-1]  # they fall: what lies beyond is at the two ends
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
    """Scores against the line through (expected order statistic, score), or None if uninformative."""
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
    return values if math.isfinite(values[0]) and math.isfinite(values[-1]) else None  # they fall between


@kept_while_short
def _expected(count: int, size: int) -> tuple[FloatArray, float, float]:
    """The expected order statistics about their mean, the square of their length, and their mean."""
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
