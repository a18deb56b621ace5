"""A threshold together with its fitting method, its sample size and its guarantee.

A fitted threshold records its method, its level, the number of judged queries, and its guarantee as a sentence. An
answer can therefore report whether the guarantee is valid for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from phasegraph._support.frozen import by_fields
from phasegraph._support.validation import (
    check_count,
    check_flat,
    check_keys,
    check_names,
    check_number,
    check_range,
    check_real,
    check_text,
)
from phasegraph.errors import InvalidInputError

GIVEN = "given"
NO_PROMISE = "No promise for new queries: the value was given or fitted to the queries at hand."


@dataclass(frozen=True, slots=True)
class DriftReference:
    """Statistics of the judged queries, for a later comparison with new queries.

    Parameters
    ----------
    tops, means : tuple of float
        The best score and the mean score of each judged query, ascending. A query counts once, because the scores of
        its hits are not independent.
    prevalence : tuple of float
        The share of relevant hits of each judged query, ascending.
    """

    tops: tuple[float, ...]
    means: tuple[float, ...]
    prevalence: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("tops", "means", "prevalence"):
            values = check_flat(f"DriftReference.{name}", getattr(self, name))
            if not len(values):
                raise InvalidInputError(f"DriftReference.{name} must contain at least one number; it is empty")
            object.__setattr__(self, name, tuple(values.tolist()))


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold on scores: hits at or above `value` are accepted, hits below `lower` are rejected.

    Hits between `lower` and `value` are ambiguous.

    Parameters
    ----------
    value : float
        The lowest accepted score, in the unit of the scores; minus infinity accepts every hit. NaN and plus infinity
        are not allowed.
    lower : float, optional
        The lowest ambiguous score, at most `value`. With the default, `value`, no hit is ambiguous.
    method : str, default "given"
        Name of the fitting method; ``given`` if the caller gave the value.
    level : float, optional
        The risk, recall, precision or other bound for which the threshold was fitted, if there is one.
    confidence : float, optional
        Probability, in (0, 1), that a random sample of judged queries gives a threshold with a true guarantee.
    queries, hits : int
        Number of judged queries and of judged hits in the fit; 0 without a fit.
    promise : str
        The guarantee for new queries, as a sentence.
    sources : tuple of str
        Names of the sources whose scores were used in the fit; empty if the threshold does not depend on sources.
    statistics : mapping of str to float
        Statistics of the fit, such as the observed risk, by name.
    reference : DriftReference, optional
        Statistics of the judged queries.
    revoked : str
        The reason for which the guarantee was withdrawn; empty if it was not withdrawn.

    Examples
    --------
    >>> Threshold(0.3).accepts(0.31), Threshold(0.3).certified
    (True, False)
    """

    value: float
    lower: float | None = None
    method: str = GIVEN
    level: float | None = None
    confidence: float | None = None
    queries: int = 0
    hits: int = 0
    promise: str = NO_PROMISE
    sources: tuple[str, ...] = ()
    statistics: Mapping[str, float] = field(default_factory=dict, hash=False)
    reference: DriftReference | None = field(default=None, repr=False)
    revoked: str = ""

    def __post_init__(self) -> None:
        put = object.__setattr__
        value = check_real("Threshold.value", self.value)
        if math.isnan(value) or value == math.inf:
            raise InvalidInputError(f"Threshold.value must be finite or minus infinity; got {self.value!r}")
        put(self, "value", value)
        if self.lower is not None:
            lower = check_real("Threshold.lower", self.lower)
            if math.isnan(lower) or lower > value:
                raise InvalidInputError(f"Threshold.lower must be at most value {value!r}; got {lower!r}")
            put(self, "lower", lower)
        if self.confidence is not None:
            check_range("Threshold.confidence", self.confidence, 0, 1, ends="()")
        if self.level is not None:
            check_number("Threshold.level", self.level, minimum=None)
        for name in ("queries", "hits"):
            check_count(f"Threshold.{name}", getattr(self, name))
        for name in ("method", "promise", "revoked"):
            check_text(f"Threshold.{name}", getattr(self, name))
        put(self, "sources", tuple(sorted(check_names("Threshold.sources", self.sources))))
        copied = {name: check_real(f"Threshold.statistics[{name}]", one) for name, one in self.statistics.items()}
        put(self, "statistics", MappingProxyType(copied))

    __reduce__ = by_fields

    @property
    def promises(self) -> bool:
        """True if the threshold was fitted with a guarantee for new queries, even if the guarantee was withdrawn."""
        return self.promise != NO_PROMISE

    @property
    def certified(self) -> bool:
        """True if the threshold has a guarantee for new queries that was not withdrawn."""
        return self.promises and not self.revoked

    @property
    def floor(self) -> float:
        """The score below which a hit is rejected: `lower` if it is given, else `value`."""
        return self.value if self.lower is None else self.lower

    @property
    def mirrored(self) -> Threshold:
        """A threshold for negated distances, made from this threshold, whose numbers are distances.

        It accepts distances up to the `floor` of this threshold, and rejects distances above this threshold's `value`.
        """
        lower = None if self.lower is None else -self.value
        return replace(self, value=-self.floor, lower=lower)

    def accepts(self, score: float, /) -> bool:
        """Return True if `score` is at or above `value`."""
        return score >= self.value

    def revoke(self, reason: str, /) -> Threshold:
        """Return a copy of the threshold whose guarantee is withdrawn; the reason must not be blank."""
        if not reason.strip():
            raise InvalidInputError(f"Threshold.revoke needs a reason that is not blank; got {reason!r}")
        return replace(self, revoked=reason)

    def to_dict(self) -> dict[str, object]:
        """Return the threshold in plain JSON types; minus infinity becomes ``"-inf"``."""
        out = {item.name: getattr(self, item.name) for item in fields(self)}
        out["value"], out["lower"] = _to_json(self.value), _to_json(self.lower)
        out["sources"] = list(self.sources)
        out["statistics"] = {name: _to_json(number) for name, number in self.statistics.items()}
        if self.reference is not None:
            out["reference"] = {name: list(values) for name, values in asdict(self.reference).items()}
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, object], /) -> Threshold:
        """Create the threshold from the output of :meth:`to_dict`; raise InvalidInputError for a bad key or value."""
        values = check_keys("Threshold", data, [item.name for item in fields(cls)], required=("value",))
        values["value"], values["lower"] = _from_json(values["value"]), _from_json(values.get("lower"))
        statistics = values.get("statistics", {})
        statistics = check_keys("Threshold.statistics", statistics, statistics)
        values["statistics"] = {name: _from_json(number) for name, number in statistics.items()}
        if values.get("reference") is not None:
            names = [item.name for item in fields(DriftReference)]
            values["reference"] = DriftReference(
                **check_keys("DriftReference", values["reference"], names, required=names)
            )
        return cls(**values)


def _to_json(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def _from_json(value: Any) -> Any:
    """Convert ``"-inf"`` to minus infinity; return other values unchanged, because :class:`Threshold` checks them."""
    return -math.inf if value == "-inf" else value
