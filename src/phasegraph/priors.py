"""Query-independent evidence: importance, recency, authority, and a bonus for an exact match.

A prior multiplies the fused value (it is no source of its own and adds no candidate); the exact-match bonus is
added to it. What they read comes with the context, by id, so that deciding stays a pure function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError, InvalidTypeError


@dataclass(frozen=True, slots=True)
class Context:
    """What deciding may look at besides the rankings; data gathered before.

    Parameters
    ----------
    query : str
        The query's text.
    now : float, optional
        Seconds since the epoch; needed by a recency prior only.
    attributes : mapping of str to mapping
        Per candidate id: ``importance`` and ``authority`` in [0, 1], ``timestamp`` in seconds since the epoch,
        ``text`` or ``exact`` for the exact-match bonus.
    embeddings : mapping of str to (d,) array
        Per candidate id; needed by a selection that weighs redundancy.
    costs : mapping of str to float
        Per candidate id, for example tokens; needed by a selection with a budget.
    """

    query: str = ""
    now: float | None = None
    attributes: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    embeddings: Mapping[str, FloatArray] = field(default_factory=dict, repr=False)
    costs: Mapping[str, float] = field(default_factory=dict, repr=False)


@runtime_checkable
class Prior(Protocol):
    """A multiplier (or, where `additive`, a bonus) per candidate."""

    @property
    def additive(self) -> bool:
        """Whether the values are added to the fused value rather than multiplied with it."""
        ...

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """(n,) values for the candidates."""
        ...

    def to_dict(self) -> Mapping[str, object]:
        """JSON-ready state with its registered ``name``."""
        ...


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
    _check_unit("strength", strength)
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
        _check_unit("strength", self.strength)
        _check_unit("neutral", self.neutral)

    @property
    def additive(self) -> bool:
        """False: it multiplies."""
        return False

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]."""
        return importance_multiplier(_column(ids, context, self.key, self.neutral), strength=self.strength)

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
        _check_unit("strength", self.strength)
        recency(np.zeros(1), half_life=self.half_life)

    @property
    def additive(self) -> bool:
        """False: it multiplies."""
        return False

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]; InvalidInputError where the context has no `now`."""
        if context.now is None:
            raise InvalidInputError("a recency prior needs Context.now (seconds since the epoch); got None")
        ages = context.now - _column(ids, context, self.key, context.now)
        return (1.0 - self.strength) + self.strength * recency(ages, half_life=self.half_life)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state."""
        return {"name": "recency", "half_life": self.half_life, "strength": self.strength, "key": self.key}


@dataclass(frozen=True, slots=True)
class ExactMatchBonus:
    """Bonus of a candidate that holds the query word for word (reconstructed: the design record names it only).

    Parameters
    ----------
    weight : float, default 0.0
        >= 0. The bonus is ``weight / (rank_constant + 1)``: one more source that ranks every exact hit first.
    rank_constant : float, default 60
        > 0.

    Notes
    -----
    A candidate is exact where its attribute ``exact`` is true, else where its ``text`` holds the query, letter
    case and runs of white space apart.

    Examples
    --------
    >>> bonus = ExactMatchBonus(weight=6.1)
    >>> bonus(["a", "b"], Context(query="deep  Sea", attributes={"a": {"text": "The deep sea."}})).round(3)
    array([0.1, 0. ])
    """

    weight: float = 0.0
    rank_constant: float = 60.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.weight) and self.weight >= 0):
            raise InvalidInputError(f"weight must be finite and >= 0; got {self.weight!r}")
        if not (np.isfinite(self.rank_constant) and self.rank_constant > 0):
            raise InvalidInputError(f"rank_constant must be finite and positive; got {self.rank_constant!r}")

    @property
    def additive(self) -> bool:
        """True: it is added."""
        return True

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """(n,) bonuses >= 0."""
        query = " ".join(context.query.split()).casefold()
        bonus = self.weight / (self.rank_constant + 1.0)
        return np.array([bonus if _is_exact(query, context.attributes.get(i)) else 0.0 for i in ids])

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state."""
        return {"name": "exact_match", "weight": self.weight, "rank_constant": self.rank_constant}


def _is_exact(query: str, attributes: Mapping[str, object] | None) -> bool:
    if attributes is None or not query:
        return False
    stated = attributes.get("exact")
    if isinstance(stated, bool):
        return stated
    text = attributes.get("text")
    return isinstance(text, str) and query in " ".join(text.split()).casefold()


def _column(ids: Sequence[str], context: Context, key: str, default: float) -> FloatArray:
    out = np.full(len(ids), float(default))
    for row, identifier in enumerate(ids):
        value = context.attributes.get(identifier, {}).get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
            raise InvalidTypeError(f"attribute {key!r} of candidate {identifier!r} must be a number; got {value!r}")
        out[row] = float(value)
    return out


def _check_unit(name: str, value: float) -> None:
    if not (np.isfinite(value) and 0.0 <= value <= 1.0):
        raise InvalidInputError(f"{name} must be in [0, 1]; got {value!r}")


def prior_from_dict(state: Mapping[str, object]) -> Prior:
    """Rebuild a prior from its ``to_dict`` state.

    Examples
    --------
    >>> prior_from_dict({"name": "unit", "key": "authority"})
    UnitPrior(key='authority', strength=0.3, neutral=1.0)
    """
    options = {str(key): value for key, value in state.items() if key != "name"}
    name = state.get("name")
    if not isinstance(name, str) or name not in PRIORS:
        raise InvalidInputError(f"prior name must be one of {sorted(PRIORS)}; got {name!r}")
    try:
        return PRIORS[name](**options)
    except TypeError as error:
        raise InvalidInputError(f"prior {name!r} does not take the options {sorted(options)}") from error


PRIORS: Mapping[str, Callable[..., Prior]] = MappingProxyType(
    {"unit": UnitPrior, "recency": RecencyPrior, "exact_match": ExactMatchBonus}
)
