"""What a source states of all its scores for one query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.candidates.numbers import is_number
from phasegraph.errors import InvalidInputError, InvalidTypeError

Transform = Literal["identity", "log"]
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, slots=True)
class Background:
    """Location and scale of a source's whole score distribution for the query at hand, over all it holds.

    Parameters
    ----------
    location, scale : float
        Mean and standard deviation of the transformed scores; `scale` is positive.
    transform : {"identity", "log"}, default "identity"
        What is applied to a score first; ``log`` is ``log(score + floor)``.
    floor : float, default 0.0
        Added before the logarithm; >= 0.

    Raises
    ------
    InvalidInputError
        If a number is not finite, `scale` is not positive or `floor` is negative.

    Examples
    --------
    >>> Background(location=0.1, scale=0.2).standardise(np.array([0.5])).round(3)
    array([2.])
    """

    location: float
    scale: float
    transform: Transform = "identity"
    floor: float = 0.0

    def __post_init__(self) -> None:
        for name in ("location", "scale", "floor"):
            if not is_number(getattr(self, name)):
                raise InvalidTypeError(f"Background.{name} must be a number; got {getattr(self, name)!r}")
        if not np.isfinite(self.location):
            raise InvalidInputError(f"Background.location must be finite; got {self.location!r}")
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise InvalidInputError(f"Background.scale must be finite and positive; got {self.scale!r}")
        if self.transform not in ("identity", "log"):
            raise InvalidInputError(f"Background.transform must be 'identity' or 'log'; got {self.transform!r}")
        if not (np.isfinite(self.floor) and self.floor >= 0):
            raise InvalidInputError(f"Background.floor must be finite and >= 0; got {self.floor!r}")

    def standardise(self, scores: FloatArray, /) -> FloatArray:
        """Standard deviations above the source's mean, shape of `scores`; higher is better."""
        if self.transform == "identity":
            values = scores - self.location
        else:
            values = np.log(np.maximum(scores + self.floor, _TINY))
            values -= self.location
        values /= self.scale
        return values
