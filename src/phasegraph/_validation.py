"""Checks of arguments; each error names the field, what must hold and what was given."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from phasegraph.errors import InvalidInputError, InvalidTypeError


def check_count(name: str, value: object, *, minimum: int = 0) -> int:
    """`value` as an integer >= `minimum`; booleans and floats are refused."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InvalidTypeError(f"{name} must be an integer; got {value!r}")
    if value < minimum:
        raise InvalidInputError(f"{name} must be >= {minimum}; got {value!r}")
    return int(value)


def check_number(name: str, value: object, *, minimum: float | None = 0.0) -> float:
    """`value` as a finite float, >= `minimum` where one is given; booleans are refused."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidTypeError(f"{name} must be a number; got {value!r}")
    number = float(value)
    if not np.isfinite(number) or (minimum is not None and number < minimum):
        bound = "finite" if minimum is None else f"finite and >= {minimum:g}"
        raise InvalidInputError(f"{name} must be {bound}; got {value!r}")
    return number


def check_query(query: object) -> str:
    """`query` as text that is not blank."""
    if not isinstance(query, str):
        raise InvalidTypeError(f"query must be text; got {type(query).__name__}")
    if not query.strip():
        raise InvalidInputError(f"query must not be empty or blank; got {query!r}")
    return query


def check_flag(name: str, value: object) -> bool:
    """`value`, which must be True or False."""
    if not isinstance(value, bool):
        raise InvalidTypeError(f"{name} must be True or False; got {value!r}")
    return value


def check_choice(name: str, value: object, allowed: Collection[str]) -> None:
    """Refuse what is not among the names in `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInputError(f"{name} must be one of {sorted(allowed)}; got {value!r}")


def check_mapping(name: str, value: object) -> Mapping[str, Any]:
    """`value` as a read-only mapping in name order."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidTypeError(f"{name} must be a mapping with names as keys; got {value!r}")
    return MappingProxyType(dict(sorted(value.items())))


def check_range(name: str, value: object, low: float = 0.0, high: float = math.inf, *, ends: str = "[]") -> float:
    """`value` as a finite float between `low` and `high`; a bracket of `ends` takes its bound in, a parenthesis not.

    Examples
    --------
    >>> check_range("share", 1, 0, 1)
    1.0
    """
    number = check_number(name, value, minimum=None)
    above = number >= low if ends[0] == "[" else number > low
    below = number <= high if ends[1] == "]" else number < high
    if not (above and below):
        bounds = f"lie in {ends[0]}{low:g}, {high:g}{ends[1]}"
        if high == math.inf:
            bounds = f"be finite and {'>=' if ends[0] == '[' else '>'} {low:g}"
        raise InvalidInputError(f"{name} must {bounds}; got {value!r}")
    return number


def check_rows(name: str, value: object) -> Iterable[Any]:
    """`value`, which must be iterable and no text."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidTypeError(f"{name} must be a list and no text; got {value!r:.80}")
    return value


def check_names(name: str, value: object) -> tuple[str, ...]:
    """`value` as a tuple of strings; a single string is no list of them."""
    names = tuple(check_rows(name, value))
    for each in names:
        if not isinstance(each, str):
            raise InvalidTypeError(f"{name} must hold strings; got {each!r:.80}")
    return names


def check_seconds(field: str, value: object) -> None:
    """Raise unless `value` is None or a finite number of seconds above 0."""
    if value is None:
        return
    if check_number(field, value) == 0:
        raise InvalidInputError(f"{field} must be > 0; got {value!r}")
