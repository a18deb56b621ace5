"""Priors that multiply: importance and authority in [0, 1], and recency with a half-life of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.priors.context import Context


def importance_multiplier(importance: FloatArray, /, *, strength: float = 0.3) -> FloatArray:
    """``(1 - strength) + strength * importance``: the design record's prior.

    Parameters
    ----------
    importance : (n,) array of float
        In [0, 1].
    strength : float, default 0.3
        In [0, 1]; 0 has no effect.

    Returns
    -------
    (n,) array of float
        In [1 - strength, 1].

    Raises
    ------
    InvalidInputError
        If a value is outside [0, 1].

    Notes
    -----
    With one source, reciprocal rank and k = 60, importance 1 at rank 27 beats importance 0 at rank 1 at the default
    strength: ``61 / .7 - 60 = 27.14``.

    Examples
    --------
    >>> importance_multiplier(np.array([0.0, 0.5, 1.0]))
    array([0.7 , 0.85, 1.  ])
    """
    check_unit("strength", strength)
    values = np.asarray(importance, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise InvalidInputError(f"importance must be in [0, 1]; got {values.tolist()}")
    return (1.0 - strength) + strength * values


def recency(age: FloatArray, /, *, half_life: float) -> FloatArray:
    """``exp(-ln 2 * age / half_life)``: one half after each half-life.

    Parameters
    ----------
    age : (n,) array of float
        Seconds; negative (a date in the future) counts as 0.
    half_life : float
        Seconds, > 0; a parameter of its own, never a weight.

    Returns
    -------
    (n,) array of float
        In (0, 1].

    Raises
    ------
    InvalidInputError
        If `half_life` is not positive or an age is not finite.

    Examples
    --------
    >>> recency(np.array([-5.0, 0.0, 60.0, 120.0]), half_life=60.0)
    array([1.  , 1.  , 0.5 , 0.25])
    """
    if not (np.isfinite(half_life) and half_life > 0):
        raise InvalidInputError(f"half_life must be finite and positive (seconds); got {half_life!r}")
    values = np.asarray(age, dtype=np.float64)
    if not np.isfinite(values).all():
        raise InvalidInputError("age must be finite; got NaN or infinity")
    return np.asarray(np.exp(-math.log(2.0) * np.maximum(values, 0.0) / half_life))


@dataclass(frozen=True, slots=True)
class UnitPrior:
    """Multiplier from an attribute in [0, 1]: importance or authority.

    Parameters
    ----------
    key : str
        Attribute to read: ``importance``, ``authority`` or one of the caller's own.
    strength : float, default 0.3
        In [0, 1]; the multiplier is ``(1 - strength) + strength * value``.
    neutral : float, default 1.0
        Value of a candidate without the attribute, in [0, 1]; 1 leaves it as it is.

    Examples
    --------
    >>> prior = UnitPrior("authority", strength=0.5)
    >>> prior(["a", "b"], Context(attributes={"a": {"authority": 0.0}}))
    array([0.5, 1. ])
    """

    key: str = "importance"
    strength: float = 0.3
    neutral: float = 1.0

    def __post_init__(self) -> None:
        check_unit("strength", self.strength)
        check_unit("neutral", self.neutral)

    @property
    def additive(self) -> bool:
        """False: it multiplies."""
        return False

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]."""
        return importance_multiplier(column_of(ids, context, self.key, self.neutral), strength=self.strength)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state."""
        return {"name": "unit", "key": self.key, "strength": self.strength, "neutral": self.neutral}


@dataclass(frozen=True, slots=True)
class RecencyPrior:
    """Multiplier that halves its variable part with each half-life.

    Parameters
    ----------
    half_life : float
        Seconds, > 0.
    strength : float, default 0.3
        In [0, 1]; the multiplier is ``(1 - strength) + strength * recency``.
    key : str, default "timestamp"
        Attribute with seconds since the epoch; a candidate without it keeps multiplier 1.

    Examples
    --------
    >>> prior = RecencyPrior(half_life=3600.0, strength=1.0)
    >>> prior(["a", "b"], Context(now=7200.0, attributes={"a": {"timestamp": 3600.0}}))
    array([0.5, 1. ])
    """

    half_life: float
    strength: float = 0.3
    key: str = "timestamp"

    def __post_init__(self) -> None:
        check_unit("strength", self.strength)
        recency(np.zeros(1), half_life=self.half_life)

    @property
    def additive(self) -> bool:
        """False: it multiplies."""
        return False

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]; InvalidInputError where the context has no `now`."""
        if context.now is None:
            raise InvalidInputError("a recency prior needs Context.now (seconds since the epoch); got None")
        ages = context.now - column_of(ids, context, self.key, context.now)
        return (1.0 - self.strength) + self.strength * recency(ages, half_life=self.half_life)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state."""
        return {"name": "recency", "half_life": self.half_life, "strength": self.strength, "key": self.key}


def column_of(ids: Sequence[str], context: Context, key: str, default: float) -> FloatArray:
    """(n,) values of an attribute, `default` where a candidate has none."""
    out = np.full(len(ids), float(default))
    for row, identifier in enumerate(ids):
        value = context.attributes.get(identifier, {}).get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
            raise InvalidTypeError(f"attribute {key!r} of candidate {identifier!r} must be a number; got {value!r}")
        out[row] = float(value)
    return out


def check_unit(name: str, value: float) -> None:
    """Raise unless `value` is in [0, 1]."""
    if not (np.isfinite(value) and 0.0 <= value <= 1.0):
        raise InvalidInputError(f"{name} must be in [0, 1]; got {value!r}")
