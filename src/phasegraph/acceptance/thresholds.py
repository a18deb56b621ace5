"""A threshold that knows how it was fitted, on how much, and what it promises.

A bare number says nothing about when it may be trusted. Every fitted threshold is therefore a value that
carries its method, its level, the number of judged queries behind it and the sentence it promises, so that
an answer can say whether that sentence still holds for it.
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
    """What the judged queries looked like, kept to notice when new ones look different.

    Parameters
    ----------
    tops, means : tuple of float
        Best and mean score of each judged query, ascending; one value a query, because hits of one query
        are not independent of one another.
    prevalence : tuple of float
        Share of relevant hits of each judged query, ascending.
    """

    tops: tuple[float, ...]
    means: tuple[float, ...]
    prevalence: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("tops", "means", "prevalence"):
            values = check_flat(f"DriftReference.{name}", getattr(self, name))
            if not len(values):
                raise InvalidInputError(f"DriftReference.{name} must hold at least one number")
            object.__setattr__(self, name, tuple(values.tolist()))


@dataclass(frozen=True, slots=True)
class Threshold:
    """A hit is accepted at or above `value`, rejected below `lower`, ambiguous between.

    Parameters
    ----------
    value : float
        In the unit of the scores it was fitted on; minus infinity accepts everything, NaN and plus infinity
        are refused.
    lower : float, optional
        At most `value`; default `value`, that is no ambiguous band.
    method : str, default "given"
        How it was found.
    level : float, optional
        The bound it was fitted for (a risk, a recall, a precision…), where it has one.
    confidence : float, optional
        Probability over calibration sets with which the promise holds, where it is stated; in (0, 1).
    queries, hits : int
        Judged queries and judged hits it was fitted on; 0 where it was given.
    promise : str
        The sentence it promises.
    sources : tuple of str
        Sources whose answers it was fitted with; empty where it is not tied to any.
    statistics : mapping of str to float
        What was observed while fitting.
    reference : DriftReference, optional
        What the judged queries looked like.
    revoked : str
        Why the promise no longer holds; empty while it does.

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
        """Whether it came with a promise for new queries, revoked or not."""
        return self.promise != NO_PROMISE

    @property
    def certified(self) -> bool:
        """Whether it carries a promise for new queries that has not been revoked."""
        return self.promises and not self.revoked

    @property
    def floor(self) -> float:
        """Below this a hit is rejected: `lower` where there is a band, else `value`."""
        return self.value if self.lower is None else self.lower

    @property
    def mirrored(self) -> Threshold:
        """The threshold as it reads negated distances, accepting distances up to `floor` and none above `value`."""
        lower = None if self.lower is None else -self.value
        return replace(self, value=-self.floor, lower=lower)

    def accepts(self, score: float, /) -> bool:
        """Whether `score` is at or above `value`."""
        return score >= self.value

    def revoke(self, reason: str, /) -> Threshold:
        """The same threshold with its promise withdrawn, for a reason that is not blank."""
        if not reason.strip():
            raise InvalidInputError("Threshold.revoke needs a reason that is not blank")
        return replace(self, revoked=reason)

    def to_dict(self) -> dict[str, object]:
        """Plain JSON types; minus infinity is written as ``"-inf"``."""
        out = {item.name: getattr(self, item.name) for item in fields(self)}
        out["value"], out["lower"] = _to_json(self.value), _to_json(self.lower)
        out["sources"] = list(self.sources)
        out["statistics"] = {name: _to_json(number) for name, number in self.statistics.items()}
        if self.reference is not None:
            out["reference"] = {name: list(values) for name, values in asdict(self.reference).items()}
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, object], /) -> Threshold:
        """The value that :meth:`to_dict` wrote; InvalidInputError where a key is unknown or a value does not fit."""
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
    """What :func:`_to_json` wrote as a number; anything else is left for the checks of :class:`Threshold`."""
    return -math.inf if value == "-inf" else value
