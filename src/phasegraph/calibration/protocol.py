"""What a calibrator is, and the normal order statistics they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.ranking import Ranking


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
        How it was calibrated: ``declared``, ``fitted``, ``per_list`` or a per-list calibrator's name.
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
    from scipy.special import ndtri  # imported late: it costs as much as numpy itself

    return np.asarray(ndtri(levels), dtype=np.float64)


@lru_cache(maxsize=256)
def order_statistic(rank: int, size: int, /) -> float:
    """Expected value of the `rank`-th largest (from 1) of `size` standard normal draws: Blom's approximation, 1958."""
    return float(order_statistics(rank, size)[rank - 1])


@lru_cache(maxsize=256)
def order_statistics(count: int, size: int, /) -> FloatArray:
    """Expected values of the `count` largest of `size` standard normal draws, largest first (read-only)."""
    tail = (np.arange(1, count + 1, dtype=np.float64) - 0.375) / (max(size, count) + 0.25)
    values = -normal_quantile(tail)
    values.setflags(write=False)
    return values
