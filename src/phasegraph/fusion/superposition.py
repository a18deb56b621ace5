"""A mean of similarity, recency and authority per passage, as the "quantum document" (a design document) defines it.

The quantum document describes retrieval in terms of quantum mechanics. It calls the mean *relevance*, and derives an
*energy* and a complex *amplitude* of each passage. ``docs/research/selection.md`` describes the effect of these values.
"""

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
    """The relevance, energy and amplitude of n passages, as :func:`superposition` computes them.

    Parameters
    ----------
    relevance, energy : (n,) array of float
        The relevance, in [0, 1], and the energy of each passage.
    amplitude : (n,) array of complex
        The square root of the relevance, with a phase proportional to the energy.
    """

    relevance: FloatArray
    energy: FloatArray
    amplitude: np.ndarray[tuple[int, ...], np.dtype[np.complex128]]

    @property
    def probability(self) -> FloatArray:
        """The squared magnitudes of the amplitudes, an (n,) array that equals `relevance`."""
        return np.asarray(np.abs(self.amplitude) ** 2)

    @property
    def entropy(self) -> FloatArray:
        """The local entropy ``-P ln P`` of each passage in nats, where P is the relevance; (n,), in [0, 1/e]."""
        return np.asarray(-self.relevance * np.log(np.where(self.relevance > 0, self.relevance, 1.0)))

    def of(self, rows: IntArray, /) -> Superposition:
        """Return the superposition of the passages in `rows`, in this order."""
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
    """Compute the relevance of passages (a mean of similarity, recency and authority), their energy and amplitude.

    The formulas come from the "quantum document", a design document that describes retrieval in terms of quantum
    mechanics.

    Parameters
    ----------
    cosine, authority : (n,) array_like of float
        The similarity to the query and the authority of each passage, in [0, 1]. Map negative cosines into this range.
    age_seconds : (n,) array_like of float
        The age of each passage in seconds; a negative age counts as 0.
    frequency : (n,) array_like of float or float, default 0
        The variable "frequency" of the quantum document, finite. It affects only the energy.
    weights : (float, float, float), default (0.6, 0.25, 0.15)
        The weights of cosine, recency and authority, >= 0, with sum 1. The quantum document calls them alpha, beta and
        gamma.
    decay_per_hour : float, default 0.25
        Rate of the exponential decay of recency per hour, >= 0. At 0.25, recency halves every 2.8 hours and is 0.0025
        after a day. The quantum document uses the same number, 0.25, for this rate and for the weight of recency.
    h, k : float, default 1 and 0.1
        Factors of frequency and of ``1 - recency`` in the energy, finite.
    hbar : float, default 1
        Divisor of the energy in the phase, > 0; the quantum document states no value.

    Returns
    -------
    Superposition
        The relevance, energy and amplitude of each passage.

    Notes
    -----
    ``relevance = 0.6 * cosine + 0.25 * recency + 0.15 * authority`` with the default weights,
    ``energy = h * frequency + k * (1 - recency)`` and ``amplitude = sqrt(relevance) * exp(i * energy / hbar)``. The
    energy affects only the phase, and the phase affects no other output: amplitudes are never added. The probability
    of a passage therefore equals the weighted mean. The code in the quantum document squares the relevance, but its
    formulas do not; this function follows the formulas.
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
        raise InvalidInputError(
            "cosine, age_seconds and authority must have one value per passage; got "
            f"{len(similarity)}, {len(ages)} and {len(standing)} values"
        )
    counts = np.broadcast_to(check_column("frequency", np.atleast_1d(frequency), -np.inf, np.inf), ages.shape)
    recency = np.exp(-decay_per_hour * np.maximum(ages, 0.0) / 3600.0)
    relevance = first * similarity + second * recency + third * standing
    energy = h * counts + k * (1 - recency)
    return Superposition(relevance, energy, np.sqrt(relevance) * np.exp(1j * energy / hbar))


@dataclass(frozen=True, slots=True)
class SuperpositionPrior(StoredPrior):
    """A prior whose multiplier rises with a weighted mean of similarity, recency and authority.

    This mean is the *relevance* of the quantum document, a design document that describes retrieval in terms
    of quantum mechanics; see :func:`superposition`.

    Parameters
    ----------
    weights : (float, float, float), default (0.6, 0.25, 0.15)
        The weights of cosine, recency and authority, >= 0, with sum 1.
    decay_per_hour : float, default 0.25
        Rate of the exponential decay of recency per hour, >= 0.
    strength : float, default 0.3
        Strength of the prior, in [0, 1]; the multiplier is ``(1 - strength) + strength * relevance``.
    h, k : float, default 1 and 0.1
        Factors of frequency and of ``1 - recency`` in the energy. The evidence of a result contains the energy; the
        energy affects no score.
    source : str, default "vector"
        The source whose score is the cosine of a candidate without the field `cosine`. A score in [-1, 0) counts as 0.
    cosine, timestamp, authority, frequency : str
        Names of metadata fields of the hits, or of attributes of the context.

    Notes
    -----
    A candidate without a field gets the best value of the field, and therefore has no disadvantage: cosine 1, age 0,
    authority 1. A missing frequency counts as 0. A selection by ``legacy_entropy`` uses this relevance.

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
        """Return (n,) multipliers in [1 - strength, 1]; raise InvalidInputError if the context has no `now`."""
        return self.multipliers(self.state(ids, context)[0])

    def multipliers(self, state: Superposition, /) -> FloatArray:
        """Return the multipliers ``(1 - strength) + strength * relevance``."""
        return (1.0 - self.strength) + self.strength * state.relevance

    def state(self, ids: Sequence[str], context: Context, /) -> tuple[Superposition, tuple[FieldReading, ...]]:
        """Return the superposition of the candidates, and the counts of candidates with each field."""
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
        """Return the cosine of each candidate, and the counts of candidates with and without a cosine.

        The cosine is the value of the candidate's field `cosine`. Without this field, it is the candidate's score from
        the prior's `source`, if this score is not a distance. A candidate without either value gets the cosine 1.
        """
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
    """Convert a cosine in [-1, 1] to [0, 1]; a negative cosine becomes 0, and a rounding error above 1 becomes 1."""
    return min(max(check_range("it", parsed(value), -1.0, 1.0 + 1e-6), 0.0), 1.0)
