"""Checks of arguments; each error names the argument, the requirement and the value that was given.

A check returns the value in the type that the caller needs. It raises InvalidTypeError for a wrong type, and
InvalidInputError for a wrong value. :func:`file_error` makes the error for a value that was read from a file.
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeGuard, TypeVar, cast

import numpy as np

from phasegraph._support.renamed import PARAMETERS, new_name, renamed_arguments
from phasegraph._support.typing import FloatArray
from phasegraph.errors import InvalidInputError, InvalidTypeError


def is_number(value: object) -> TypeGuard[float]:
    """Return True if `value` is a real number, including NaN and infinity; a boolean is not a number."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_count(name: str, value: object, *, minimum: int = 0) -> int:
    """Check that `value` is an integer of at least `minimum`, and return it; booleans and floats are errors."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InvalidTypeError(f"{name} must be an integer; got {value!r}")
    if value < minimum:
        raise InvalidInputError(f"{name} must be >= {minimum}; got {value!r}")
    return int(value)


def check_real(name: str, value: object) -> float:
    """Check that `value` is a real number, and return it as a float, possibly NaN or infinite; booleans are errors."""
    if not is_number(value):
        raise InvalidTypeError(f"{name} must be a number; got {value!r}")
    return float(value)


def check_number(name: str, value: object, *, minimum: float | None = 0.0) -> float:
    """Check that `value` is a finite number of at least `minimum` (if given), and return it as a float.

    Booleans are errors.
    """
    number = check_real(name, value)
    if not math.isfinite(number) or (minimum is not None and number < minimum):
        bound = "finite" if minimum is None else f"finite and >= {minimum:g}"
        raise InvalidInputError(f"{name} must be {bound}; got {value!r}")
    return number


def check_range(name: str, value: object, low: float = 0.0, high: float = math.inf, *, ends: str = "[]") -> float:
    """Check that `value` is a finite number between `low` and `high`, and return it as a float.

    `ends`, such as "[)", says which bounds are allowed values: a bracket includes the bound, a parenthesis excludes it.

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


def check_seconds(name: str, value: object) -> None:
    """Raise an error unless `value` is None or a finite number of seconds above 0."""
    if value is not None:
        check_range(name, value, ends="(]")


def check_flat(name: str, values: object) -> FloatArray:
    """Check that `values` are a one-dimensional array of finite numbers, and return a copy as float64."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must be a flat array of numbers; {error}") from error
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must be a flat array; got shape {array.shape}")
    finite = np.isfinite(array)
    if not finite.all():
        raise InvalidInputError(
            f"{name} must be finite; got {float(array[~finite][0])!r} at position {int(np.argmin(finite))}"
        )
    return array


def check_flag(name: str, value: object) -> bool:
    """Check that `value` is True or False, and return it; otherwise, raise InvalidTypeError."""
    if not isinstance(value, bool):
        raise InvalidTypeError(f"{name} must be True or False; got {value!r}")
    return value


def check_choice(name: str, value: object, allowed: Collection[str]) -> None:
    """Raise InvalidInputError unless `value` is a name in `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInputError(f"{name} must be one of {sorted(allowed)}; got {value!r}")


def check_text(name: str, value: object) -> str:
    """Check that `value` is a string, and return it; otherwise, raise InvalidTypeError."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"{name} must be a string; got {value!r:.80}")
    return value


LONGEST_QUERY = 20_000
"""Default maximum length of a query, in characters."""


def check_query(query: object, longest: int | None = None) -> str:
    """Check that `query` is a text that is not blank and has at most `longest` characters, and return it.

    With `longest` None, the length is not checked.
    """
    if not isinstance(query, str):
        raise InvalidTypeError(f"query must be text; got {type(query).__name__}")
    if longest is not None and len(query) > longest:
        raise InvalidInputError(
            f"query must have at most {longest:,} characters; got {len(query):,}. Shorten the query, or raise "
            "max_query_length="
        )
    if not query.strip():
        raise InvalidInputError(f"query must not be empty or blank; got {query!r}")
    return query


def check_rows(name: str, value: object) -> Iterable[Any]:
    """Check that `value` is iterable and not a string, and return it; otherwise, raise InvalidTypeError."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidTypeError(f"{name} must be a list, not a string; got {value!r:.80}")
    return value


def check_names(name: str, value: object) -> tuple[str, ...]:
    """Check that `value` is an iterable of strings, and return it as a tuple; a single string is an error."""
    names = tuple(check_rows(name, value))
    for each in names:
        if not isinstance(each, str):
            raise InvalidTypeError(f"{name} must contain only strings; got {each!r:.80}")
    return names


def check_ids(owner: str, ids: object, what: str = "an id") -> None:
    """Raise InvalidTypeError if an id is not text, such as an (id, score) pair.

    The message starts with `owner`, for example the name of a system, and says what to pass instead. `what` is the word
    for an id in the message.
    """
    if isinstance(ids, str | bytes) or not isinstance(ids, Collection):
        raise InvalidTypeError(f"{owner}: ids must be a sequence of text, best first; got {ids!r:.80}")
    for one in ids:
        if not isinstance(one, str):
            pair = isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str)
            advice = (
                "pass the ids alone, [identifier for identifier, score in hits]"
                if pair
                else "pass text, such as str(id)"
            )
            raise InvalidTypeError(f"{owner}: {what} must be text; got {one!r:.80}; {advice}")


def check_mapping(name: str, value: object) -> Mapping[str, Any]:
    """Check that the keys of a mapping are strings, and return the mapping read-only and sorted by key."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidTypeError(f"{name} must be a mapping with names as keys; got {value!r}")
    return MappingProxyType(dict(sorted(value.items())))


def check_keys(owner: str, data: object, known: Collection[str], *, required: Iterable[str] = ()) -> dict[str, Any]:
    """Check the fields of `data`, an object from JSON, and return it as a dictionary.

    Raises an error for a field that is not `known`, or if a `required` field is missing. `owner` is the name of the
    object in messages.
    """
    if not isinstance(data, Mapping):
        raise InvalidTypeError(f"{owner} must be read from a JSON object; got {data!r}")
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise InvalidInputError(f"{owner} has no field {unknown[0]!r}; it has {', '.join(sorted(known))}")
    for name in required:
        if name not in data:
            raise InvalidInputError(f"{owner} needs the field {name!r}; it was not given")
    return dict(data)


def file_error(path: Path, line: int | None, message: str) -> InvalidInputError:
    """Return an InvalidInputError whose message starts with ``path:line:``, or with ``path:`` if `line` is None."""
    where = f"{path}:{line}" if line is not None else f"{path}"
    return InvalidInputError(f"{where}: {message}")


_HINTS = {
    "top_k": "k", "top_n": "k", "similarity_top_k": "k", "k": "similarity_top_k", "deadline": "timeout",
    "retriever_weights": "weights", "provenance": "evidence_key", "needs": "depends_on", "in_worker": "in_thread",
    **dict.fromkeys(("id", "id_fn", "id_key"), "fields=HitFields(id=...)"),
    **dict.fromkeys(("score", "score_fn", "score_key"), "fields=HitFields(score=...)"),
    **{name: f"fields=HitFields({name}=...)" for name in ("higher_is_better", "size", "resolve", "fingerprint")},
    **{name: f"execution=Execution({name}=...)" for name in ("on_error", "max_in_flight", "in_thread")},
    **dict.fromkeys(("breaker", "circuit_breaker"), "execution=Execution(circuit_breaker=...)"),
    "search_type": "selection='mmr' for search_type='mmr'", "vector_store_query_mode": "selection='mmr'",
    **dict.fromkeys(("score_threshold", "similarity_cutoff"), "accept={'vector': ...}"),
    **dict.fromkeys(("persist_directory", "persist_dir"), "path=..."), "search_kwargs": "k=... or filter=...",
}  # fmt: skip
"""Arguments of other packages' retrievers and stores, and of earlier versions, with their replacements."""
_OF_PEERS = ("c", "id_key", "llm", "mode", "num_queries", "query_gen_prompt", "use_async")
"""Arguments of other packages' retrievers whose replacement needs a page."""


def unexpected_argument(name: str, known: Collection[str]) -> InvalidTypeError:
    """Return the error for an unknown argument.

    The message names the replacement of another package's argument, or suggests the most similar of the `known`
    arguments, or lists all if none is similar.

    Examples
    --------
    >>> str(unexpected_argument("top_k", ["k", "weights"]))
    "unexpected argument 'top_k'; did you mean 'k'?"
    >>> str(unexpected_argument("score_threshold", ["accept", "k", "retrievers"]))
    "unexpected argument 'score_threshold'; did you mean accept={'vector': ...}?"
    """
    hint = " or ".join(one for one in _HINTS.get(name, "").split(" or ") if one.partition("=")[0] in known)
    if hint and (not hint.startswith("accept=") or "retrievers" in known):  # a pipeline's `accept` is a policy
        said = f"did you mean {hint if '=' in hint else repr(hint)}?"
    elif name in _OF_PEERS:
        said = "docs/guide/coming-from.md describes its replacement"
    elif near := difflib.get_close_matches(name, known, 1):
        said = f"did you mean {near[0]!r}?"
    else:
        said = f"known are {', '.join(sorted(known))}"
    return InvalidTypeError(f"unexpected argument {name!r}; {said}")


def nearest_key(wanted: str, metadata: Iterable[Mapping[str, Any]], /) -> str:
    """Return a hint for a metadata key that no passage has: the most similar existing key, or all existing keys.

    >>> nearest_key("sectoin", [{"section": 1}])
    "did you mean 'section'?"
    """
    keys = sorted({str(key) for one in metadata for key in one if not str(key).startswith("_")})
    near = difflib.get_close_matches(wanted, keys, 1)
    return f"did you mean {near[0]!r}?" if near else f"their keys are {', '.join(map(repr, keys[:10])) or 'none'}"


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

Made = TypeVar("Made", bound=Callable[..., Any])


def known_arguments(make: Made) -> Made:
    """Make a class method reject unknown arguments; the method passes ``**fields`` to the constructor of its class.

    An argument is unknown if neither the method nor the constructor has this parameter. The error names the most
    similar known argument. The method itself makes the arguments in the attribute ``_makes`` of its class, so it
    accepts only None for these arguments.
    """
    own = inspect.signature(make).parameters.keys()

    @wraps(make)
    def checked(cls: Any, *given: Any, **named: Any) -> Any:
        of_class = {name for name, one in inspect.signature(cls).parameters.items() if one.kind not in _VARIABLE}
        known = (own | of_class) - {"cls", "fields"}
        named = renamed_arguments(named, known)
        for name in named.keys() & set(cls._makes) - own:
            other = ", and add sources with retrievers={'NAME': source}" if "retrievers" in known else ""
            if named.pop(name) is not None:
                raise InvalidInputError(f"{make.__name__} makes {name!r} itself: leave out {name}={other}")
        for name in named.keys() - known:
            raise unexpected_argument(name, known.difference(cls._makes))
        return make(cls, *given, **named)

    return cast("Made", checked)


class KnownFields:
    """A base class for dataclasses whose error for an unknown argument names the most similar known argument."""

    __slots__ = ()

    def __new__(cls, *_: object, **given: object) -> Self:
        known = cls.__dataclass_fields__  # type: ignore[attr-defined]
        for name in given.keys() - known.keys():
            if PARAMETERS.get(name) not in known:
                raise unexpected_argument(name, known)
        return object.__new__(cls)

    if not TYPE_CHECKING:  # type checkers would accept every attribute

        def __getattr__(self, name: str) -> Any:
            """Return a field by its old name, with a warning."""
            new = new_name(name, type(self).__dataclass_fields__)
            if new == name:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return getattr(self, new)
