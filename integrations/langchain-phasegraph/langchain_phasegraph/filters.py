"""The metadata filter that applies to every source: its language, validation, combination and matching documents."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig

from langchain_phasegraph.conversion import ScoredDocuments, unpack
from phasegraph import InvalidTypeError
from phasegraph.retrieval import FilterRefusedError, MalformedAnswerError

FILTER = "phasegraph_filter"
"""Key of the filter among the ``configurable`` values of a configuration."""
_PLAIN = (str, int, float, bool)
_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda held, value: held == value,
    "$ne": lambda held, value: held != value,
    "$in": lambda held, values: held in values,
    "$nin": lambda held, values: held not in values,
    "$gt": lambda held, value: held > value,
    "$gte": lambda held, value: held >= value,
    "$lt": lambda held, value: held < value,
    "$lte": lambda held, value: held <= value,
}
LISTS = ("$in", "$nin")
"""The operators that take a list of values."""
ALSO = "$where"
"""Key of the functions of a document in a filter."""


class Wanted(dict[str, Any]):
    """A validated filter.

    A metadata key maps to a value or to a mapping of operators. ``$and`` and ``$or`` map to lists of filters.
    ``$where`` maps to functions of a document: some stores accept a Python function as a filter.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return Wanted, (dict(self),)


def check_filter(given: Any) -> Wanted | None:
    """Validate a filter, and return it in the form that can be applied to every source; None if there is no filter.

    A filter maps metadata keys to required values (string, number or bool) or to operators. ``$eq``, ``$ne``, ``$gt``,
    ``$gte``, ``$lt`` and ``$lte`` take a value. ``$in`` and ``$nin`` take a list of values. ``$and`` and ``$or`` take a
    list of filters. A document without the metadata key never matches.
    """
    if given is None or isinstance(given, Wanted):
        return given
    wrong = wrong_in_filter(given)
    if wrong:
        raise InvalidTypeError(f"filter: {wrong}")
    return Wanted(copy.deepcopy(dict(given)))


def wrong_in_filter(given: object) -> str:
    """Return what is wrong in a filter, and what is allowed; empty if the filter is valid."""
    if not isinstance(given, Mapping):
        return f"a filter must be a dict that maps metadata keys to values or operators; got {given!r:.120}"
    if not given:
        return "an empty filter has no condition; give filter=None, or at least one metadata key"
    return next(filter(None, (_wrong_in_part(key, value) for key, value in given.items())), "")


def _is_plain(value: Any) -> bool:
    """Return True for a string, a bool, or a number other than NaN, which equals no value."""
    return isinstance(value, _PLAIN) and value == value


def _wrong_in_part(key: object, value: object) -> str:
    if key in ("$and", "$or"):
        if not isinstance(value, list | tuple) or not value:
            return f"{key} needs a list of at least one filter; got {value!r:.120}"
        return next(filter(None, map(wrong_in_filter, value)), "")
    if not isinstance(key, str) or not key.isidentifier():
        known = "; between keys, only $and and $or are allowed" if str(key).startswith("$") else ""
        return f"a metadata key may contain only letters, digits and _; got {key!r:.120}{known}"
    if not isinstance(value, Mapping):
        if _is_plain(value):
            return ""
        hint = f": write {{{key!r}: {{'$in': [...]}}}}" if isinstance(value, list | tuple | set) else ""
        return f"the value of {key!r} must be a string, number, bool or dict of operators; got {value!r:.120}{hint}"
    if not value:
        return f"the dict of operators of {key!r} is empty; allowed operators are {', '.join(_TESTS)}"
    for name, operand in value.items():
        if name not in _TESTS:
            return f"unknown operator {name!r:.80} of {key!r}; allowed are {', '.join(_TESTS)}"
        if name not in LISTS:
            if not _is_plain(operand):
                return f"{name} of {key!r} needs a string, number or bool; got {operand!r:.120}"
        elif not isinstance(operand, list | tuple) or not operand:
            return f"{name} of {key!r} needs a list of at least one value; got {operand!r:.120}"
        elif not all(map(_is_plain, operand)):
            return f"{name} of {key!r} needs a list of strings, numbers or bools; got {operand!r:.120}"
    return ""


def joined(*filters: Mapping[str, Any] | None) -> Wanted | None:
    """Combine filters into a filter that matches a document only if every given filter matches the document.

    Return None if no argument contains a condition. Raise FilterRefusedError if two filters require different values of
    the same metadata key.
    """
    plain, parts = dict[str, Any](), list[dict[str, Any]]()
    also: list[Callable[[Document], object]] = []

    def add(one: Mapping[str, Any]) -> None:
        for key, value in one.items():
            if key == "$and":
                for inner in value:
                    add(inner)
            elif key == ALSO:
                also.extend(test for test in value if test not in also)
            elif key == "$or" or isinstance(value, Mapping):
                parts.extend([{key: value}] if {key: value} not in parts else ())
            elif plain.setdefault(key, value) != value:
                raise FilterRefusedError(
                    f"filters must agree; got {plain[key]!r} and {value!r} for {key!r}: remove one of the two values"
                )

    for given in filters:
        add(given or {})
    once = {key: value for part in parts for key, value in part.items()}
    if len(once) == len(parts) and not plain.keys() & once.keys():
        found = {**plain, **once}
    else:
        found = {"$and": [*({key: value} for key, value in plain.items()), *parts]}
    if also:
        found[ALSO] = tuple(also)
    return Wanted(found) if found else None


def check_required(key: str, wanted: Mapping[str, Any] | None) -> None:
    """Raise FilterRefusedError unless the filter requires a value, or one of several values, for the metadata `key`.

    None means that there is no filter.
    """
    for part in (wanted or {}, *(wanted or {}).get("$and", ())):
        said = part.get(key, {})
        if not isinstance(said, Mapping) or said.keys() & {"$eq", "$in"}:
            return
    raise FilterRefusedError(
        f"required_filter_key={key!r}: the call has no filter with a value of that key; pass "
        f"filter={{{key!r}: ...}}, or {FILTER} under configurable"
    )


def key_of(wanted: Mapping[str, Any]) -> tuple[object, ...]:
    """Return a cache key for a filter; the key keeps references to the filter's functions."""
    conditions = {key: value for key, value in wanted.items() if key != ALSO}
    return json.dumps(conditions, sort_keys=True), *wanted.get(ALSO, ())


def filter_of(config: RunnableConfig) -> Wanted | None:
    """Return the filter in a configuration; None if the configuration has no filter."""
    configurable = config.get("configurable")
    return check_filter(configurable.get(FILTER)) if configurable else None


def with_filter(config: RunnableConfig, *filters: Any) -> RunnableConfig:
    """Return a copy of the configuration, in which its filter is combined with further filters."""
    wanted = joined(filter_of(config), *map(check_filter, filters))
    if wanted is None:
        return config
    return {**config, "configurable": {**config.get("configurable", {}), FILTER: wanted}}


def names_of(wanted: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the metadata keys that a filter reads.

    >>> sorted(names_of({"team": "red", "$or": [{"page": 1}, {"page": {"$gt": 3}}]}))
    ['page', 'team']
    """
    found: set[str] = set()
    for key, value in wanted.items():
        if key in ("$and", "$or"):
            found.update(*map(names_of, value))
        elif key != ALSO:
            found.add(key)
    return frozenset(found)


def compared_by(wanted: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the values with which a filter compares each metadata key, except by ``$ne`` and ``$nin``.

    >>> compared_by({"team": "red", "$or": [{"page": {"$in": [1, 2]}}, {"page": {"$gt": 3, "$ne": 9}}]})
    {'team': ['red'], 'page': [1, 2, 3]}
    """
    found: dict[str, list[Any]] = {}
    for key, value in wanted.items():
        if key in ("$and", "$or"):
            for part in map(compared_by, value):
                for name, values in part.items():
                    found.setdefault(name, []).extend(values)
        elif isinstance(value, Mapping):
            for operator, operand in value.items():
                if operator not in ("$ne", "$nin"):
                    found.setdefault(key, []).extend(operand if operator == "$in" else [operand])
        elif key != ALSO:
            found.setdefault(key, []).append(value)
    return found


def matches(document: Any, wanted: Mapping[str, Any]) -> bool:
    """Return True if a document matches a filter; a document without a key of the filter does not match."""
    metadata = document.metadata
    for key, value in wanted.items():
        if key == ALSO:
            held = all(test(document) for test in value)
        elif key == "$and":
            held = all(matches(document, one) for one in value)
        elif key == "$or":
            held = any(matches(document, one) for one in value)
        elif metadata.get(key) is None:
            held = False
        elif isinstance(value, Mapping):
            held = all(_passes(metadata[key], *one) for one in value.items())
        else:
            held = metadata[key] == value
        if not held:
            return False
    return True


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """A validated filter for documents, with the interface of :class:`~phasegraph.retrieval.framework.HitFilter`."""

    wanted: Wanted

    @property
    def key(self) -> tuple[object, ...]:
        """The cache key of the filter."""
        return key_of(self.wanted)

    @property
    def names(self) -> frozenset[str]:
        """The metadata keys that the filter reads."""
        return names_of(self.wanted)

    @property
    def compared(self) -> dict[str, list[Any]]:
        """The values with which the filter compares each metadata key."""
        return compared_by(self.wanted)

    def rows(self, hits: Sequence[Any]) -> list[int]:
        """Return the positions of the documents that match the filter."""
        return [row for row, one in enumerate(hits) if matches(one, self.wanted)]


def _passes(held: Any, name: str, operand: Any) -> bool:
    try:
        return bool(_TESTS[name](held, operand))
    except TypeError:  # a string and a number cannot be compared
        return False


def only_matching(answer: object, wanted: Mapping[str, Any], source: str = "") -> ScoredDocuments:
    """Drop the hits that do not match the filter; there may be such hits, because a store can ignore a filter."""
    found = unpack(answer)
    kept = [row for row, document in enumerate(found) if matches(document, wanted)]
    if len(kept) == len(found):
        return found
    if found.ranking is not None:
        raise MalformedAnswerError(
            f"source {source!r} returned documents that do not match the filter, so its hits "
            "are not used: check how this source applies filters"
        )
    made = ScoredDocuments(found[row] for row in kept)
    made.scores = None if found.scores is None else [found.scores[row] for row in kept]
    made.searched = None if found.searched is None else [one for one in found.searched if matches(one[0], wanted)]
    made.dropped = found.dropped + len(found) - len(kept)
    return made
