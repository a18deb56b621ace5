"""Early checks of what a pipeline is made of; each names the field and what was given."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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


def check_weights_mapping(weights: Mapping[str, float]) -> Mapping[str, float]:
    """Weights by source name: at least one, finite, >= 0, not all 0."""
    if not isinstance(weights, Mapping):
        raise InvalidTypeError(f"weights must be a mapping of source name to number; got {weights!r}")
    checked = {str(name): check_number(f"weights[{name!r}]", value) for name, value in weights.items()}
    if not checked:
        raise InvalidInputError("weights must name at least one source; got an empty mapping")
    if not any(value > 0 for value in checked.values()):
        raise InvalidInputError(f"weights must not all be 0; got {checked}")
    return MappingProxyType(dict(sorted(checked.items())))


def check_query(query: object) -> str:
    """`query` as text that is not blank."""
    if not isinstance(query, str):
        raise InvalidTypeError(f"query must be text; got {type(query).__name__}")
    if not query.strip():
        raise InvalidInputError(f"query must not be empty or blank; got {query!r}")
    return query
