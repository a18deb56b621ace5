"""A threshold that knows how it was fitted, on how much, and what it promises.

A bare number says nothing about when it may be trusted. Every fitted threshold is therefore a value that
carries its method, its level, the number of judged queries behind it and the sentence it promises, so that
an answer can say whether that sentence still holds for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.ranking import by_fields

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
            values = tuple(float(value) for value in getattr(self, name))
            if not values or not all(math.isfinite(value) for value in values):
                raise InvalidInputError(f"DriftReference.{name} must hold finite numbers, at least one")
            object.__setattr__(self, name, values)


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

    Raises
    ------
    InvalidInputError
        If a number is outside its range.

    Examples
    --------
    >>> Threshold(0.3).accepts(0.31), Threshold(0.3).certified
    (True, False)
    """

    value: float
    lower: float | None = None
    method: str = "given"
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
        value = _number("Threshold.value", self.value)
        if math.isnan(value) or value == math.inf:
            raise InvalidInputError(f"Threshold.value must be finite or minus infinity; got {self.value!r}")
        object.__setattr__(self, "value", value)
        if self.lower is not None:
            lower = _number("Threshold.lower", self.lower)
            if math.isnan(lower) or lower > value:
                raise InvalidInputError(f"Threshold.lower must be at most value {value!r}; got {lower!r}")
            object.__setattr__(self, "lower", lower)
        if self.confidence is not None and not 0 < _number("Threshold.confidence", self.confidence) < 1:
            raise InvalidInputError(f"Threshold.confidence must be in (0, 1); got {self.confidence!r}")
        if self.level is not None and not math.isfinite(_number("Threshold.level", self.level)):
            raise InvalidInputError(f"Threshold.level must be finite; got {self.level!r}")
        if self.queries < 0 or self.hits < 0:
            raise InvalidInputError(f"Threshold.queries and hits must be >= 0; got {self.queries!r} and {self.hits!r}")
        object.__setattr__(self, "sources", tuple(sorted(self.sources)))
        copied = {str(name): float(number) for name, number in self.statistics.items()}
        object.__setattr__(self, "statistics", MappingProxyType(copied))

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

    def accepts(self, score: float, /) -> bool:
        """Whether `score` is at or above `value`."""
        return score >= self.value

    def revoke(self, reason: str, /) -> Threshold:
        """The same threshold with its promise withdrawn.

        Parameters
        ----------
        reason : str
            Not blank.

        Returns
        -------
        Threshold

        Raises
        ------
        InvalidInputError
            If `reason` is blank.
        """
        if not reason.strip():
            raise InvalidInputError("Threshold.revoke needs a reason that is not blank")
        return replace(self, revoked=reason)

    def to_dict(self) -> dict[str, object]:
        """Plain JSON types; minus infinity is written as ``"-inf"``."""
        out: dict[str, object] = {}
        for name in (item.name for item in fields(self)):
            out[name] = getattr(self, name)
        out["value"] = _jsonable(self.value)
        out["lower"] = None if self.lower is None else _jsonable(self.lower)
        out["sources"] = list(self.sources)
        out["statistics"] = {name: _jsonable(number) for name, number in self.statistics.items()}
        if self.reference is not None:
            out["reference"] = {
                "tops": list(self.reference.tops),
                "means": list(self.reference.means),
                "prevalence": list(self.reference.prevalence),
            }
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, object], /) -> Threshold:
        """The value that :meth:`to_dict` wrote.

        Raises
        ------
        InvalidInputError
            If a key is unknown or a value is not what :meth:`to_dict` writes.
        """
        known = {item.name for item in fields(cls)}
        check_keys("Threshold", data, known, required=("value",))
        values = dict(data)
        for name in ("value", "lower"):
            if values.get(name) is not None:
                values[name] = _from_json(f"Threshold.{name}", values[name])
        values["sources"] = tuple(_texts("Threshold.sources", values.get("sources", ())))
        values["statistics"] = _numbers("Threshold.statistics", values.get("statistics", {}))
        reference = values.get("reference")
        if reference is not None:
            if not isinstance(reference, Mapping):
                raise InvalidTypeError(f"Threshold.reference must be an object; got {reference!r}")
            names = ("tops", "means", "prevalence")
            check_keys("DriftReference", reference, set(names), required=names)
            try:
                values["reference"] = DriftReference(*(tuple(map(float, reference[name])) for name in names))
            except (TypeError, ValueError) as error:
                raise InvalidInputError("Threshold.reference must hold lists of finite numbers") from error
        for name in ("method", "promise", "revoked"):
            if not isinstance(values.get(name, ""), str):
                raise InvalidTypeError(f"Threshold.{name} must be text; got {values[name]!r}")
        for name in ("queries", "hits"):
            if isinstance(values.get(name, 0), bool) or not isinstance(values.get(name, 0), int):
                raise InvalidTypeError(f"Threshold.{name} must be an integer; got {values[name]!r}")
        return cls(**values)  # type: ignore[arg-type]


def check_keys(owner: str, data: Mapping[str, object], known: set[str], *, required: tuple[str, ...] = ()) -> None:
    """Refuse keys that are unknown and required keys that are missing."""
    if not isinstance(data, Mapping):
        raise InvalidTypeError(f"{owner} must be read from an object; got {data!r}")
    unknown = sorted(set(data) - known)
    if unknown:
        raise InvalidInputError(f"{owner} has no field {unknown[0]!r}; it has {', '.join(sorted(known))}")
    missing = [name for name in required if name not in data]
    if missing:
        raise InvalidInputError(f"{owner} needs the field {missing[0]!r}; it was not given")


def _number(name: str, value: object) -> float:
    if isinstance(value, bool | str | bytes) or value is None:
        raise InvalidTypeError(f"{name} must be a number; got {value!r}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must be a number; got {value!r}") from error


def _jsonable(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _from_json(name: str, value: object) -> float:
    return -math.inf if value == "-inf" else _number(name, value)


def _texts(name: str, value: object) -> list[str]:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise InvalidTypeError(f"{name} must be a list of text; got {value!r}")
    if not all(isinstance(item, str) for item in value):
        raise InvalidTypeError(f"{name} must be a list of text; got {value!r}")
    return list(value)


def _numbers(name: str, value: object) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise InvalidTypeError(f"{name} must be an object of numbers; got {value!r}")
    return {str(key): _from_json(f"{name}[{key}]", number) for key, number in value.items()}
