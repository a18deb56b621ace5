"""Read a field of every candidate, and count the candidates that have the field."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_flat
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.fusion.context import Context


@dataclass(frozen=True, slots=True)
class FieldReading:
    """The counts of candidates with and without a field that a prior reads.

    Parameters
    ----------
    prior, key : str
        Name of the prior, and name of the field.
    found, missing, unusable : int
        Number of candidates with a usable value, without a value, and with only unusable values. A candidate without a
        usable value gets the prior's neutral value.
    example : str
        The first unusable value, and the reason that it is unusable.
    """

    prior: str
    key: str
    found: int
    missing: int
    unusable: int
    example: str = ""

    @property
    def warning(self) -> str:
        """A warning if a candidate has an unusable value, or if no candidate has the field; else empty."""
        if self.unusable:
            count = self.found + self.missing + self.unusable
            return (
                f"prior {self.prior!r} could not use the field {self.key!r} of {self.unusable} of {count} candidates, "
                f"which count as neutral: {self.example}"
            )
        if self.missing and not self.found:
            return f"prior {self.prior!r} found no field {self.key!r} in any of the {self.missing} candidates"
        return ""


def parsed(value: object) -> object:
    """Convert a string that contains a number to float; return any other value unchanged."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def read_field(
    ids: Sequence[str], context: Context, prior: str, key: str, read: Callable[[Any], float], neutral: float
) -> tuple[FloatArray, FieldReading]:
    """Return the (n,) values of the field `key` of candidates, and the counts of candidates with the field.

    ``read(value)`` converts a value to a number, or raises InvalidInputError if the value is unusable. A candidate
    without a usable value gets `neutral`. An unusable attribute of the context raises an error, because the caller set
    it; an unusable field of a hit is only counted.
    """
    out = np.full(len(ids), float(neutral))
    missing = unusable = 0
    example = ""
    for row, identifier in enumerate(ids):
        given = context.attributes.get(identifier, {}).get(key)
        if given is not None:
            try:
                out[row] = read(given)
            except InvalidInputError as error:
                raise type(error)(f"attribute {key!r} of candidate {identifier!r}: {error}") from error
            continue
        failed = ""
        for value in context.values(identifier, key):
            try:
                out[row] = read(value)
                break
            except InvalidInputError as error:
                failed = failed or f"{identifier!r} has {value!r:.40}, and {error}"
        else:
            missing += not failed
            unusable += bool(failed)
            example = example or failed
    return out, FieldReading(prior, key, len(ids) - missing - unusable, missing, unusable, example)


def check_field_name(name: str, value: object) -> None:
    """Raise InvalidTypeError unless `value` is a non-empty string."""
    if not isinstance(value, str) or not value:
        raise InvalidTypeError(f"{name} must be the name of a field; got {value!r}")


def check_column(name: str, values: FloatArray, low: float, high: float) -> FloatArray:
    """Return the values as a flat array; raise InvalidInputError if a value is outside [low, high]."""
    column = check_flat(name, values)
    if len(column) and (column.min() < low or column.max() > high):
        raise InvalidInputError(f"{name} must be in [{low:g}, {high:g}]; got {column.min():g} to {column.max():g}")
    return column
