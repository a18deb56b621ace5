"""Query-independent evidence: importance, recency, authority, and a bonus for an exact match.

A prior multiplies the fused value (it is no source of its own and adds no candidate); the exact-match bonus is
added to it. What they read comes with the context, by id, so that deciding stays a pure function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._typing import FloatArray
from phasegraph._validation import check_choice, check_flat, check_number, check_range, check_real
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.lexical import HitWords


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
    embeddings : mapping of str to (d,) array, or callable
        Per candidate id, or ``embeddings(ids) -> (n, d) array``; needed by a selection that weighs redundancy.
    costs : mapping of str to float
        Per candidate id, for example tokens; needed by a selection with a budget.
    words : HitWords, optional
        What the texts of the hits say about the query's words, for the default's weights; see
        :func:`phasegraph.lexical.read_hits`.
    """

    query: str = ""
    now: float | None = None
    attributes: Mapping[str, Mapping[str, object]] = field(default_factory=dict, repr=False)
    embeddings: Mapping[str, FloatArray] | Callable[[Sequence[str]], ArrayLike] = field(
        default_factory=dict, repr=False
    )
    costs: Mapping[str, float] = field(default_factory=dict, repr=False)
    words: HitWords | None = None


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


class _Stored:
    """A prior whose state is its registered name and its fields."""

    __slots__ = ()
    name: ClassVar[str]
    additive: ClassVar[bool] = False

    def to_dict(self: Any) -> dict[str, object]:
        """JSON-ready state."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"name": self.name, **{key: list(one) if isinstance(one, tuple) else one for key, one in values.items()}}


@dataclass(frozen=True, slots=True)
class ExactMatchBonus(_Stored):
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

    name: ClassVar[str] = "exact_match"
    additive: ClassVar[bool] = True
    weight: float = 0.0
    rank_constant: float = 60.0

    def __post_init__(self) -> None:
        check_number("weight", self.weight)
        check_range("rank_constant", self.rank_constant, ends="(]")

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """(n,) bonuses >= 0."""
        query = " ".join(context.query.split()).casefold()
        bonus = self.weight / (self.rank_constant + 1.0)
        return np.array([bonus if _is_exact(query, context.attributes.get(i)) else 0.0 for i in ids])


def _is_exact(query: str, attributes: Mapping[str, object] | None) -> bool:
    if attributes is None or not query:
        return False
    stated = attributes.get("exact")
    if isinstance(stated, bool):
        return stated
    text = attributes.get("text")
    return isinstance(text, str) and query in " ".join(text.split()).casefold()


def importance_multiplier(importance: FloatArray, /, *, strength: float = 0.3) -> FloatArray:
    """``(1 - strength) + strength * importance``, both in [0, 1]: the design record's prior."""
    check_range("strength", strength, 0, 1)
    return (1.0 - strength) + strength * _column("importance", importance, 0.0, 1.0)


def recency(age: FloatArray, /, *, half_life: float) -> FloatArray:
    """``exp(-ln 2 * age / half_life)``: one half after each half-life. A date in the future has age 0."""
    check_range("half_life", half_life, ends="(]")
    return np.asarray(np.exp(-math.log(2.0) * np.maximum(check_flat("age", age), 0.0) / half_life))


@dataclass(frozen=True, slots=True)
class UnitPrior(_Stored):
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

    name: ClassVar[str] = "unit"
    key: str = "importance"
    strength: float = 0.3
    neutral: float = 1.0

    def __post_init__(self) -> None:
        check_range("strength", self.strength, 0, 1)
        check_range("neutral", self.neutral, 0, 1)

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]."""
        return importance_multiplier(_attribute(ids, context, self.key, self.neutral), strength=self.strength)


@dataclass(frozen=True, slots=True)
class RecencyPrior(_Stored):
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

    name: ClassVar[str] = "recency"
    half_life: float
    strength: float = 0.3
    key: str = "timestamp"

    def __post_init__(self) -> None:
        check_range("strength", self.strength, 0, 1)
        recency(np.zeros(1), half_life=self.half_life)

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]; InvalidInputError where the context has no `now`."""
        age = _ages(ids, context, self.key)
        return importance_multiplier(recency(age, half_life=self.half_life), strength=self.strength)


def _attribute(ids: Sequence[str], context: Context, key: str, default: float) -> FloatArray:
    """(n,) values of an attribute, `default` where a candidate has none."""
    out = np.full(len(ids), float(default))
    for row, identifier in enumerate(ids):
        value = context.attributes.get(identifier, {}).get(key)
        if value is not None:
            out[row] = check_real(f"attribute {key!r} of candidate {identifier!r}", value)
    return out


def _ages(ids: Sequence[str], context: Context, key: str) -> FloatArray:
    """(n,) seconds since the time in an attribute; 0 where a candidate has none."""
    if context.now is None:
        raise InvalidInputError("this prior needs Context.now (seconds since the epoch); got None")
    return context.now - _attribute(ids, context, key, context.now)


@dataclass(frozen=True, slots=True, eq=False)
class Superposition:
    """Relevance in [0, 1], energy and amplitude of each passage, as the document computes them: (n,) arrays."""

    relevance: FloatArray
    energy: FloatArray
    amplitude: np.ndarray[tuple[int, ...], np.dtype[np.complex128]]

    @property
    def probability(self) -> FloatArray:
        """(n,) array: squared length of the amplitude, which is `relevance` again."""
        return np.asarray(np.abs(self.amplitude) ** 2)


def superposition(
    cosine: FloatArray,
    age_seconds: FloatArray,
    authority: FloatArray,
    /,
    *,
    frequency: FloatArray | float = 0.0,
    weights: tuple[float, float, float] = (0.6, 0.25, 0.15),
    decay_per_hour: float = 0.25,
    hbar: float = 1.0,
) -> Superposition:
    """Weighted mean of similarity, recency and authority, in the vocabulary of the quantum document.

    Parameters
    ----------
    cosine, authority : (n,) array_like of float
        In [0, 1]; a negative cosine has no square root, so map it first.
    age_seconds : (n,) array_like of float
        A time in the future counts as age 0.
    frequency : (n,) array_like of float or float, default 0
        Finite; only enters the energy, which nothing depends on.
    weights : (float, float, float), default (0.6, 0.25, 0.15)
        Of cosine, recency and authority; >= 0, summing to at most 1.
    decay_per_hour : float, default 0.25
        >= 0. The document uses the number .25 both for this and for the weight of recency; they are two
        parameters here. At .25 recency halves every 2.8 hours and is .0025 after a day.
    hbar : float, default 1
        > 0; the document gives none.

    Returns
    -------
    Superposition

    Notes
    -----
    ``relevance = 0.6 * cosine + 0.25 * recency + 0.15 * authority``, ``energy = frequency + 0.1 * (1 - recency)``,
    ``amplitude = sqrt(relevance) * exp(i * energy / hbar)``. Nothing interferes: phase, energy and both constants
    cannot influence any output but themselves, and the collapse probability equals the weighted mean. The document's
    code squares the relevance, its formulas do not; the formulas are followed.
    """
    first, second, third = weights
    if min(weights) < 0 or sum(weights) > 1 + 1e-12:
        raise InvalidInputError(f"weights must be >= 0 and sum to at most 1; got {weights!r}")
    check_number("decay_per_hour", decay_per_hour)
    check_range("hbar", hbar, ends="(]")
    similarity = _column("cosine", cosine, 0.0, 1.0)
    standing = _column("authority", authority, 0.0, 1.0)
    ages = _column("age_seconds", age_seconds, -np.inf, np.inf)
    if not len(similarity) == len(standing) == len(ages):
        raise InvalidInputError("cosine, age_seconds and authority must have one value per passage")
    counts = np.broadcast_to(_column("frequency", np.atleast_1d(frequency), -np.inf, np.inf), ages.shape)
    recency = np.exp(-decay_per_hour * np.maximum(ages, 0.0) / 3600.0)
    relevance = first * similarity + second * recency + third * standing
    energy = counts + 0.1 * (1 - recency)
    return Superposition(relevance, energy, np.sqrt(relevance) * np.exp(1j * energy / hbar))


def _column(name: str, values: FloatArray, low: float, high: float) -> FloatArray:
    column = check_flat(name, values)
    if len(column) and (column.min() < low or column.max() > high):
        raise InvalidInputError(f"{name} must be in [{low:g}, {high:g}]; got {column.min():g} to {column.max():g}")
    return column


@dataclass(frozen=True, slots=True)
class SuperpositionPrior(_Stored):
    """The document's relevance as a multiplier: a weighted mean of similarity, recency and authority.

    Parameters
    ----------
    weights : (float, float, float), default (0.6, 0.25, 0.15)
        Of the attributes ``cosine``, recency (from ``timestamp``) and ``authority``.
    decay_per_hour : float, default 0.25
        >= 0; see :func:`superposition`.
    strength : float, default 0.3
        In [0, 1]; the multiplier is ``(1 - strength) + strength * relevance``.

    Notes
    -----
    A candidate without an attribute counts as 1 in it (similar, new, of full authority), so that it loses nothing.

    Examples
    --------
    >>> from phasegraph import Context
    >>> context = Context(now=3600.0, attributes={"a": {"cosine": 0.8, "timestamp": 0.0, "authority": 0.5}})
    >>> SuperpositionPrior(strength=1.0)(["a", "b"], context).round(4)
    array([0.7497, 1.    ])
    """

    name: ClassVar[str] = "superposition"
    weights: tuple[float, float, float] = (0.6, 0.25, 0.15)
    decay_per_hour: float = 0.25
    strength: float = 0.3

    def __post_init__(self) -> None:
        check_range("strength", self.strength, 0, 1)
        object.__setattr__(self, "weights", tuple(self.weights))
        one = np.ones(1)
        superposition(one, one, one, weights=self.weights, decay_per_hour=self.decay_per_hour)

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]; InvalidInputError where the context has no `now`."""
        found = superposition(
            _attribute(ids, context, "cosine", 1.0),
            _ages(ids, context, "timestamp"),
            _attribute(ids, context, "authority", 1.0),
            weights=self.weights,
            decay_per_hour=self.decay_per_hour,
        )
        return (1.0 - self.strength) + self.strength * found.relevance


def prior_from_dict(state: Mapping[str, object]) -> Prior:
    """Rebuild a prior from its ``to_dict`` state; InvalidInputError where a name or an option is unknown."""
    options = {str(key): value for key, value in state.items() if key != "name"}
    name = state.get("name")
    check_choice("prior name", name, PRIORS)
    try:
        return PRIORS[str(name)](**options)
    except InvalidTypeError:
        raise
    except TypeError as error:
        raise InvalidInputError(f"prior {name!r} does not take the options {sorted(options)}") from error


_KINDS = (UnitPrior, RecencyPrior, ExactMatchBonus, SuperpositionPrior)
PRIORS: Mapping[str, Callable[..., Prior]] = MappingProxyType({kind.name: kind for kind in _KINDS})
