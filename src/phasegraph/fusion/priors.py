"""Priors: what the hits say of a candidate, as a factor of its fused value."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_flat, check_number, check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.fusion.context import Context
from phasegraph.fusion.fields import FieldReading, check_column, check_field_name, parsed, read_field
from phasegraph.fusion.prior import StoredPrior

_YEARS, _DAYS, _LONGEST = (1000, 9999), (1000_01_01, 9999_12_31), 1e11


def importance_multiplier(importance: FloatArray, /, *, strength: float = 0.3) -> FloatArray:
    """``(1 - strength) + strength * importance``, both in [0, 1]: the design record's prior."""
    check_range("strength", strength, 0, 1)
    return (1.0 - strength) + strength * check_column("importance", importance, 0.0, 1.0)


def recency(age: FloatArray, /, *, half_life: float) -> FloatArray:
    """``exp(-ln 2 * age / half_life)``: one half after each half-life. A date in the future has age 0."""
    check_range("half_life", half_life, ends="(]")
    return np.asarray(np.exp(-math.log(2.0) * np.maximum(check_flat("age", age), 0.0) / half_life))


@dataclass(frozen=True, slots=True)
class UnitPrior(StoredPrior):
    """Multiplier from a field in [0, 1]: importance or authority.

    Parameters
    ----------
    key : str
        Metadata field of the hits, or attribute of the context: ``importance``, ``authority`` or one of the caller's
        own. A text that reads as a number will do.
    strength : float, default 0.3
        In [0, 1]; the multiplier is ``(1 - strength) + strength * value``.
    neutral : float, default 1.0
        Value of a candidate without the field, in [0, 1]; 1 leaves it as it is.

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
        check_field_name("key", self.key)
        check_range("strength", self.strength, 0, 1)
        check_range("neutral", self.neutral, 0, 1)

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]."""
        return self.weigh(ids, context)[0]

    def weigh(self, ids: Sequence[str], context: Context, /) -> tuple[FloatArray, tuple[FieldReading, ...]]:
        """The multipliers, and how many candidates held the field."""
        values, reading = read_field(ids, context, self.name, self.key, as_share, self.neutral)
        return importance_multiplier(values, strength=self.strength), (reading,)


@dataclass(frozen=True, slots=True)
class RecencyPrior(StoredPrior):
    """Multiplier that halves its variable part with each half-life.

    Parameters
    ----------
    half_life : float
        Seconds, > 0.
    strength : float, default 0.3
        In [0, 1]; the multiplier is ``(1 - strength) + strength * recency``.
    key : str, default "timestamp"
        Metadata field of the hits, or attribute of the context, that :func:`as_seconds` reads; a candidate without it
        keeps multiplier 1.

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
        check_field_name("key", self.key)
        check_range("strength", self.strength, 0, 1)
        recency(np.zeros(1), half_life=self.half_life)

    def __call__(self, ids: Sequence[str], context: Context, /) -> FloatArray:
        """Multipliers in [1 - strength, 1]; InvalidInputError where the context has no `now`."""
        return self.weigh(ids, context)[0]

    def weigh(self, ids: Sequence[str], context: Context, /) -> tuple[FloatArray, tuple[FieldReading, ...]]:
        """The multipliers, and how many candidates held the field."""
        ages, reading = read_ages(ids, context, self.name, self.key)
        return importance_multiplier(recency(ages, half_life=self.half_life), strength=self.strength), (reading,)


def as_seconds(value: object, /, *, now: float) -> float:
    """A time of any usual form as seconds since the epoch.

    Parameters
    ----------
    value : object
        A number, a ``datetime``, ``date`` or what has a ``to_native`` (the Neo4j driver's times); ISO 8601 or RFC 2822
        text; a year, or a year and a month, as text. A number counts seconds up to 10^11, milliseconds up to 10^14,
        microseconds up to 10^17, nanoseconds above; but a whole number from 1000 to 9999 is a year, and one of eight
        digits that reads as a day, such as 20240131, is that day, unless `now` itself is that early. What states no
        zone is in UTC.
    now : float
        Seconds since the epoch.

    Returns
    -------
    float

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If it is none of these.

    Examples
    --------
    >>> [as_seconds(value, now=1.8e9) for value in ("1970-01-02", 86400, "Fri, 02 Jan 1970 00:00:00 GMT")]
    [86400.0, 86400.0, 86400.0]
    >>> as_seconds(2001, now=1.8e9) == as_seconds("2001-01-01", now=1.8e9) == as_seconds(978307200000, now=1.8e9)
    True
    >>> as_seconds(20010101, now=1.8e9) == as_seconds(978307200, now=1.8e9) == as_seconds(978307200000000, now=1.8e9)
    True
    """
    native = getattr(value, "to_native", None)
    value = native() if callable(native) else value
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, str):
        value = _from_text(value.strip())
    if isinstance(value, Integral | float) and not isinstance(value, bool) and value == (whole := _whole(value)):
        value = _day(whole, now) or value
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
    if isinstance(value, str):
        raise InvalidTypeError(f"a time must be a date, a text that holds one, or seconds; got {value!r}")
    seconds = check_number("a time", value, minimum=None)
    for _ in range(3):
        if abs(seconds) > _LONGEST:
            seconds /= 1000.0
    return seconds


def _whole(value: Any) -> int | None:
    return int(value) if math.isfinite(value) else None


def _day(number: int | None, now: float) -> date | None:
    """The day that a whole number writes, as year or as year, month and day; None where it counts seconds."""
    if number is None:
        return None
    if _YEARS[0] <= number <= _YEARS[1] < now:
        return date(number, 1, 1)
    if _DAYS[0] <= number <= _DAYS[1] < now:
        with suppress(ValueError):
            return date(number // 10000, number // 100 % 100, number % 100)
    return None


def _from_text(text: str) -> object:
    """A date, or the number that the text holds; the text itself where it is neither."""
    if re.fullmatch(r"\d{4}(-\d{2})?", text):
        text = f"{text}-01" if "-" in text else f"{text}-01-01"
    for read in (datetime.fromisoformat, float, parsedate_to_datetime):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def as_share(value: object) -> float:
    """A number in [0, 1], or a text that holds one."""
    return check_range("it", parsed(value), 0, 1)


def read_ages(ids: Sequence[str], context: Context, prior: str, key: str) -> tuple[FloatArray, FieldReading]:
    """(n,) seconds since the time in a field, 0 where a candidate has none, and how many have one."""
    now = context.now
    if now is None:
        raise InvalidInputError("this prior needs Context.now (seconds since the epoch); got None")
    times, reading = read_field(ids, context, prior, key, lambda value: as_seconds(value, now=now), now)
    return now - times, reading
