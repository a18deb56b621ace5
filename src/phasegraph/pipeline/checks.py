"""Early checks of what a pipeline is made of; each names the field and what was given."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.fusion import FUSION_RULES


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


def check_floor(value: object) -> Mapping[tuple[str, str], float]:
    """`value` as a read-only mapping of ordered pairs of different sources to shares in [0, 1], in order."""
    pairs = isinstance(value, Mapping) and all(
        isinstance(key, tuple) and len(key) == 2 and all(isinstance(one, str) for one in key) and key[0] != key[1]
        for key in value
    )
    if not isinstance(value, Mapping) or not pairs:
        raise InvalidTypeError(f"agreement_floor must map pairs of different source names to numbers; got {value!r}")
    checked = {key: check_number(f"agreement_floor[{key!r}]", share) for key, share in sorted(value.items())}
    if any(share > 1 for share in checked.values()):
        raise InvalidInputError(f"agreement_floor must hold shares in [0, 1]; got {checked}")
    return MappingProxyType(checked)


def check_rule_options(rule: str, options: Mapping[str, object]) -> None:
    """Refuse options that the rule does not have, or values that it would refuse at every query."""
    allowed = FUSION_RULES[rule].options
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise InvalidInputError(f"rule_options of {rule!r} must be among {list(allowed)}; got {unknown}")
    if options:
        try:
            _probe(rule, tuple((name, type(value), value) for name, value in options.items()))
        except InvalidInputError as error:
            raise type(error)(f"rule_options of {rule!r}: {error}") from error
        except Exception as error:
            raise InvalidTypeError(f"rule_options of {rule!r} must be what it can use; got {dict(options)}") from error


@lru_cache(maxsize=64)
def _probe(rule: str, options: tuple[tuple[str, type, object], ...]) -> None:
    """Run the rule once on a tiny matrix; the type stands in the key because 1 equals True."""
    given: dict[str, Any] = {name: value for name, _, value in options}
    values = np.array([[1.0, 0.5], [0.5, 1.0], [0.75, np.nan]])
    with np.errstate(all="ignore"):
        fused = FUSION_RULES[rule].function(values, weights=np.ones(2), missing=np.zeros(2), **given)
    if not np.isfinite(fused).all():
        raise InvalidInputError(f"values must give finite fused values; got {given}")


def check_scale(rule: str, calibrator: object, calibrators: Mapping[str, object]) -> None:
    """Refuse a calibrator that leaves [0, 1] under a rule that must not see what lies outside."""
    expects = FUSION_RULES[rule].expects
    if expects not in ("bounded", "percentile"):
        return
    named = [("calibrator", calibrator), *((f"calibrators[{name!r}]", one) for name, one in calibrators.items())]
    for name, one in named:
        if not getattr(one, "bounded", True):
            wanted = "percentile" if expects == "percentile" else "min_max"
            raise InvalidInputError(
                f"{name} must give values in [0, 1] for the rule {rule!r}, as ListCalibrator({wanted!r}) does; "
                f"got {one!r:.200}"
            )


def check_calibrator(name: str, value: object) -> None:
    """Refuse what cannot calibrate and be stored."""
    if isinstance(value, type) or not callable(value) or not hasattr(value, "to_dict"):
        raise InvalidTypeError(f"{name} must be a Calibrator; got {value!r}")


def check_priors(value: object) -> tuple[Any, ...]:
    """`value` as a tuple of priors."""
    if not isinstance(value, tuple | list):
        raise InvalidTypeError(f"priors must be a tuple of priors; got {value!r}")
    for one in value:
        if not callable(one) or isinstance(one, type) or not hasattr(one, "additive") or not hasattr(one, "to_dict"):
            raise InvalidTypeError(f"priors must hold priors; got {one!r}")
    return tuple(value)
