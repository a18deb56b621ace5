"""The "superposition" scorer of the quantum document, named for what it is: a weighted mean of three numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError
from phasegraph.priors.context import Context
from phasegraph.priors.multipliers import check_unit, column_of


@dataclass(frozen=True, slots=True, eq=False)
class Superposition:
    """What the document computes for each passage.

    Parameters
    ----------
    relevance : (n,) array of float
        ``0.6 * cosine + 0.25 * recency + 0.15 * authority``, in [0, 1]; the collapse probability.
    energy : (n,) array of float
        ``frequency + 0.1 * (1 - recency)``.
    amplitude : (n,) array of complex
        ``sqrt(relevance) * exp(i * energy / hbar)``.
    """

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
    """Weighted mean of similarity, recency and authority, in the document's vocabulary.

    Parameters
    ----------
    cosine, authority : (n,) array_like of float
        In [0, 1].
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

    Raises
    ------
    InvalidInputError
        If a value is outside its range. A negative cosine has no square root, so it is refused; map it first.

    Notes
    -----
    Nothing interferes: phase, energy and both constants cannot influence any output but themselves, and the
    collapse probability equals the weighted mean. The document's code squares the relevance, its formulas do
    not; the formulas are followed.

    Examples
    --------
    >>> found = superposition([0.8], [3600.0], [0.5], frequency=1.5)
    >>> found.relevance.round(6), found.energy.round(6)
    (array([0.7497]), array([1.52212]))
    """
    first, second, third = weights
    if min(weights) < 0 or sum(weights) > 1 + 1e-12:
        raise InvalidInputError(f"weights must be >= 0 and sum to at most 1; got {weights!r}")
    for name, number, low in (("decay_per_hour", decay_per_hour, 0.0), ("hbar", hbar, np.nextafter(0, 1))):
        if not (np.isfinite(number) and number >= low):
            raise InvalidInputError(f"{name} must be finite and >= {low:g}; got {number!r}")
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
    column = np.array(values, dtype=np.float64)
    if column.ndim != 1 or not np.isfinite(column).all():
        raise InvalidInputError(f"{name} must be a flat array of finite numbers")
    if len(column) and (column.min() < low or column.max() > high):
        raise InvalidInputError(f"{name} must be in [{low:g}, {high:g}]; got {column.min():g} to {column.max():g}")
    return column


@dataclass(frozen=True, slots=True)
class SuperpositionPrior:
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

    weights: tuple[float, float, float] = (0.6, 0.25, 0.15)
    decay_per_hour: float = 0.25
    strength: float = 0.3

    def __post_init__(self) -> None:
        check_unit("strength", self.strength)
        put = object.__setattr__
        put(self, "weights", tuple(self.weights))
        one = np.ones(1)
        superposition(one, one, one, weights=self.weights, decay_per_hour=self.decay_per_hour)

    @property
    def additive(self) -> bool:
        """False: it multiplies."""
        return False

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]; InvalidInputError where the context has no `now`."""
        if context.now is None:
            raise InvalidInputError("a superposition prior needs Context.now (seconds since the epoch); got None")
        ages = context.now - column_of(ids, context, "timestamp", context.now)
        found = superposition(
            column_of(ids, context, "cosine", 1.0),
            ages,
            column_of(ids, context, "authority", 1.0),
            weights=self.weights,
            decay_per_hour=self.decay_per_hour,
        )
        return (1.0 - self.strength) + self.strength * found.relevance

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state."""
        return {
            "name": "superposition",
            "weights": list(self.weights),
            "decay_per_hour": self.decay_per_hour,
            "strength": self.strength,
        }
