"""The document's superposition: relevance, energy and amplitude of each passage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from phasegraph._support.typing import FloatArray, IntArray
from phasegraph._support.validation import check_number, check_range
from phasegraph.errors import InvalidInputError
from phasegraph.fusion.context import Context
from phasegraph.fusion.fields import FieldReading, check_column, check_field_name, parsed, read_field
from phasegraph.fusion.prior import StoredPrior
from phasegraph.fusion.priors import as_share, read_ages


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

    @property
    def entropy(self) -> FloatArray:
        """(n,) array: the document's local entropy ``-P ln P`` in nats, P the relevance; in [0, 1/e]."""
        return np.asarray(-self.relevance * np.log(np.where(self.relevance > 0, self.relevance, 1.0)))

    def of(self, rows: IntArray, /) -> Superposition:
        """Of some of the passages, in the order given."""
        return Superposition(self.relevance[rows], self.energy[rows], self.amplitude[rows])


_SUM_ERROR = 1e-9


def superposition(
    cosine: FloatArray,
    age_seconds: FloatArray,
    authority: FloatArray,
    /,
    *,
    frequency: FloatArray | float = 0.0,
    weights: tuple[float, float, float] = (0.6, 0.25, 0.15),
    decay_per_hour: float = 0.25,
    h: float = 1.0,
    k: float = 0.1,
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
        Alpha, beta and gamma, of cosine, recency and authority; >= 0, summing to 1.
    decay_per_hour : float, default 0.25
        >= 0. The document uses the number .25 both for this and for the weight of recency; they are two
        parameters here. At .25 recency halves every 2.8 hours and is .0025 after a day.
    h, k : float, default 1 and 0.1
        Finite; what frequency and age add to the energy.
    hbar : float, default 1
        > 0; the document gives none.

    Returns
    -------
    Superposition

    Notes
    -----
    ``relevance = 0.6 * cosine + 0.25 * recency + 0.15 * authority``, ``energy = h * frequency + k * (1 - recency)``,
    ``amplitude = sqrt(relevance) * exp(i * energy / hbar)``. Nothing interferes: phase, energy and both constants
    cannot influence any output but themselves, and the collapse probability equals the weighted mean. The document's
    code squares the relevance, its formulas do not; the formulas are followed.
    """
    if len(weights) != 3 or min(weights) < 0 or abs(math.fsum(weights) - 1.0) > _SUM_ERROR:
        raise InvalidInputError(f"weights must be three numbers >= 0 that sum to 1; got {weights!r}")
    first, second, third = weights
    check_number("decay_per_hour", decay_per_hour)
    check_number("h", h, minimum=None)
    check_number("k", k, minimum=None)
    check_range("hbar", hbar, ends="(]")
    similarity = check_column("cosine", cosine, 0.0, 1.0)
    standing = check_column("authority", authority, 0.0, 1.0)
    ages = check_column("age_seconds", age_seconds, -np.inf, np.inf)
    if not len(similarity) == len(standing) == len(ages):
        raise InvalidInputError("cosine, age_seconds and authority must have one value per passage")
    counts = np.broadcast_to(check_column("frequency", np.atleast_1d(frequency), -np.inf, np.inf), ages.shape)
    recency = np.exp(-decay_per_hour * np.maximum(ages, 0.0) / 3600.0)
    relevance = first * similarity + second * recency + third * standing
    energy = h * counts + k * (1 - recency)
    return Superposition(relevance, energy, np.sqrt(relevance) * np.exp(1j * energy / hbar))


@dataclass(frozen=True, slots=True)
class SuperpositionPrior(StoredPrior):
    """The document's relevance as a multiplier: a weighted mean of similarity, recency and authority.

    Parameters
    ----------
    weights : (float, float, float), default (0.6, 0.25, 0.15)
        Alpha, beta and gamma, of cosine, recency and authority; >= 0, summing to 1.
    decay_per_hour : float, default 0.25
        >= 0; see :func:`superposition`.
    strength : float, default 0.3
        In [0, 1]; the multiplier is ``(1 - strength) + strength * relevance``.
    h, k : float, default 1 and 0.1
        What frequency and age add to the energy, which stands in the evidence and changes nothing else.
    source : str, default "vector"
        The source whose own score is the cosine, where no field ``cosine`` says it; one in [-1, 0) counts as 0.
    cosine, timestamp, authority, frequency : str
        Metadata fields of the hits, or attributes of the context.

    Notes
    -----
    A candidate without a field counts as 1 in it (similar, new, of full authority) and as frequency 0, so that it
    loses nothing. A selection by ``legacy_entropy`` takes this relevance for its own.

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
    h: float = 1.0
    k: float = 0.1
    source: str = "vector"
    cosine: str = "cosine"
    timestamp: str = "timestamp"
    authority: str = "authority"
    frequency: str = "frequency"

    def __post_init__(self) -> None:
        for name in ("source", "cosine", "timestamp", "authority", "frequency"):
            check_field_name(name, getattr(self, name))
        check_range("strength", self.strength, 0, 1)
        object.__setattr__(self, "weights", tuple(self.weights))
        one = np.ones(1)
        superposition(one, one, one, weights=self.weights, decay_per_hour=self.decay_per_hour, h=self.h, k=self.k)

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]; InvalidInputError where the context has no `now`."""
        return self.multipliers(self.state(ids, context)[0])

    def multipliers(self, state: Superposition, /) -> FloatArray:
        """``(1 - strength) + strength * relevance``."""
        return (1.0 - self.strength) + self.strength * state.relevance

    def state(self, ids: Sequence[str], context: Context, /) -> tuple[Superposition, tuple[FieldReading, ...]]:
        """Relevance, energy and amplitude of the candidates, and how many held each field."""
        cosines, similar = self._cosines(ids, context)
        ages, timed = read_ages(ids, context, self.name, self.timestamp)
        authorities, standing = read_field(ids, context, self.name, self.authority, as_share, 1.0)
        counts, _ = read_field(ids, context, self.name, self.frequency, _as_number, 0.0)
        found = superposition(
            cosines, ages, authorities, frequency=counts, weights=self.weights, decay_per_hour=self.decay_per_hour,
            h=self.h, k=self.k,
        )  # fmt: skip
        return found, (similar, timed, standing)

    def _cosines(self, ids: Sequence[str], context: Context) -> tuple[FloatArray, FieldReading]:
        """The field, else the score that the source itself gave, which is no cosine where it is a distance."""
        values, reading = read_field(ids, context, self.name, self.cosine, _as_cosine, np.nan)
        ranking = next((one for one in context.rankings if one.source == self.source), None)
        if ranking is not None and not ranking.rank_only and not ranking.distances:
            for row in np.flatnonzero(np.isnan(values)).tolist():
                place = ranking.positions.get(ids[row])
                if place is not None and -1.0 <= ranking.scores[place] <= 1.0 + 1e-6:
                    values[row] = _as_cosine(float(ranking.scores[place]))
        missing = int(np.isnan(values).sum())
        found = FieldReading(
            self.name, self.cosine, len(ids) - missing, missing - min(missing, reading.unusable),
            min(missing, reading.unusable), reading.example if missing else "",
        )  # fmt: skip
        return np.nan_to_num(values, nan=1.0), found


def _as_number(value: object) -> float:
    return check_number("it", parsed(value), minimum=None)


def _as_cosine(value: object) -> float:
    """A cosine in [0, 1]: a negative one, which has no square root, is 0; rounding above 1 is 1."""
    return min(max(check_range("it", parsed(value), -1.0, 1.0 + 1e-6), 0.0), 1.0)
