"""Priors: factors of the fused values that depend on fields of the candidates, such as importance or a date."""

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
    """Compute ``(1 - strength) + strength * importance``, where the strength and each importance are in [0, 1]."""
    check_range("strength", strength, 0, 1)
    return (1.0 - strength) + strength * check_column("importance", importance, 0.0, 1.0)


def recency(age: FloatArray, /, *, half_life: float) -> FloatArray:
    """Compute ``exp(-ln 2 * age / half_life)``, with ages in the unit of the half-life; a negative age counts as 0."""
    check_range("half_life", half_life, ends="(]")
    return np.asarray(np.exp(-math.log(2.0) * np.maximum(check_flat("age", age), 0.0) / half_life))


@dataclass(frozen=True, slots=True)
class UnitPrior(StoredPrior):
    """A prior whose multiplier rises with a field in [0, 1], such as importance or authority.

    Parameters
    ----------
    key : str
        Name of a metadata field of the hits or of an attribute of the context, for example ``importance``. The value
        may be a number or a string that contains a number.
    strength : float, default 0.3
        Strength of the prior, in [0, 1]; the multiplier is ``(1 - strength) + strength * value``.
    neutral : float, default 1.0
        Value for a candidate without the field, in [0, 1]. With 1, the fused value of such a candidate does not change.

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
        """Return (n,) multipliers in [1 - strength, 1]."""
        return self.weigh(ids, context)[0]

    def weigh(self, ids: Sequence[str], context: Context, /) -> tuple[FloatArray, tuple[FieldReading, ...]]:
        """Return the multipliers and the counts of candidates with the field."""
        values, reading = read_field(ids, context, self.name, self.key, as_share, self.neutral)
        return importance_multiplier(values, strength=self.strength), (reading,)


@dataclass(frozen=True, slots=True)
class RecencyPrior(StoredPrior):
    """A prior whose multiplier rises with the recency of a candidate, which halves after each half-life.

    Parameters
    ----------
    half_life : float
        Half-life of the recency in seconds, > 0.
    strength : float, default 0.3
        Strength of the prior, in [0, 1]; the multiplier is ``(1 - strength) + strength * recency``.
    key : str, default "timestamp"
        Name of a metadata field of the hits, or of an attribute of the context, with a time that :func:`as_seconds`
        accepts. A candidate without the field gets the multiplier 1.

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
        """Return (n,) multipliers in [1 - strength, 1]; raise InvalidInputError if the context has no `now`."""
        return self.weigh(ids, context)[0]

    def weigh(self, ids: Sequence[str], context: Context, /) -> tuple[FloatArray, tuple[FieldReading, ...]]:
        """Return the multipliers and the counts of candidates with the field."""
        ages, reading = read_ages(ids, context, self.name, self.key)
        return importance_multiplier(recency(ages, half_life=self.half_life), strength=self.strength), (reading,)


def as_seconds(value: object, /, *, now: float) -> float:
    """Convert a time in any usual format to seconds since the epoch.

    Parameters
    ----------
    value : object
        A number, a ``datetime``, a ``date``, an object with a method ``to_native`` (such as a time of the Neo4j
        driver), or a string. A string is ISO 8601, RFC 2822, a year, or a year and a month. A number counts seconds up
        to 10^11, milliseconds up to 10^14, microseconds up to 10^17, and nanoseconds above. However, a whole number
        from 1000 to 9999 is a year, and an eight-digit number such as 20240131 is a day. These two rules apply only if
        `now` is larger than such numbers. A time without a time zone is in UTC.
    now : float
        The current time in seconds since the epoch.

    Returns
    -------
    float
        Seconds since the epoch.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the value has none of these formats.

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
        raise InvalidTypeError(f"a time must be a date, a text that contains a date, or seconds; got {value!r}")
    seconds = check_number("a time", value, minimum=None)
    for _ in range(3):
        if abs(seconds) > _LONGEST:
            seconds /= 1000.0
    return seconds


def _whole(value: Any) -> int | None:
    return int(value) if math.isfinite(value) else None


def _day(number: int | None, now: float) -> date | None:
    """Return the day for a whole number such as 2024 or 20240131.

    Return None for a number that counts seconds, or if `number` is None.
    """
    if number is None:
        return None
    if _YEARS[0] <= number <= _YEARS[1] < now:
        return date(number, 1, 1)
    if _DAYS[0] <= number <= _DAYS[1] < now:
        with suppress(ValueError):
            return date(number // 10000, number // 100 % 100, number % 100)
    return None


def _from_text(text: str) -> object:
    """Convert a text to a date and time or to a number; return the text unchanged if it is neither."""
    if re.fullmatch(r"\d{4}(-\d{2})?", text):
        text = f"{text}-01" if "-" in text else f"{text}-01-01"
    for read in (datetime.fromisoformat, float, parsedate_to_datetime):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def as_share(value: object) -> float:
    """Convert a number, or a text that contains a number, to a float; raise InvalidInputError outside [0, 1]."""
    return check_range("it", parsed(value), 0, 1)


def read_ages(ids: Sequence[str], context: Context, prior: str, key: str) -> tuple[FloatArray, FieldReading]:
    """Return the (n,) ages of the candidates in seconds, and the counts of candidates with the field.

    The age is the time since the time in the field `key`; a candidate without the field has the age 0. `prior` is the
    name of the prior that reads the field.
    """
    now = context.now
    if now is None:
        raise InvalidInputError(
            "this prior needs Context.now (seconds since the epoch); got None: pass a Context with now="
        )
    times, reading = read_field(ids, context, prior, key, lambda value: as_seconds(value, now=now), now)
    return now - times, reading
