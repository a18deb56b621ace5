"""What the graph's doors ask of numbers and of lists; each check names the field and what was given."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.pipeline.checks import check_number


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
