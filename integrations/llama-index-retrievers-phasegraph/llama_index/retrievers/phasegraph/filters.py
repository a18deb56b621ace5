"""The metadata filters of a call: validation, combination, and the conversion of a mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.retrieval import FilterRefusedError


def check_filters(given: object) -> MetadataFilters:
    """Return `given` if it is a MetadataFilters in which no list is empty; otherwise raise InvalidInputError."""
    if not isinstance(given, MetadataFilters):
        raise InvalidTypeError(f"filters must be MetadataFilters; got {type(given).__name__}")
    if not given.filters:
        raise InvalidInputError("filters is empty: give at least one filter, or None")
    for one in given.filters:
        if isinstance(one, MetadataFilters):
            check_filters(one)
    return given


def joined(*given: MetadataFilters | None) -> MetadataFilters | None:
    """Combine filters, so that a node must match every filter; return None if every argument is None.

    Filters with another condition than AND become one nested filter of the result.
    """
    found: list[MetadataFilters] = []
    for one in given:
        found += [one] if one is not None and one not in found else []
    if len(found) < 2:
        return found[0] if found else None
    parts: list[MetadataFilter | MetadataFilters] = []
    for part in (part for one in found for part in (one.filters if is_and(one) else [one])):
        if part not in parts:
            parts.append(part)
    return MetadataFilters(filters=parts, condition=FilterCondition.AND)


def is_and(filters: MetadataFilters) -> bool:
    """Return True if a node must match each of the filters."""
    return filters.condition in (None, FilterCondition.AND)


def _required(filters: MetadataFilters | None) -> Iterator[MetadataFilter]:
    """Return each filter that every node must match."""
    for one in filters.filters if filters is not None and is_and(filters) else ():
        if isinstance(one, MetadataFilters):
            yield from _required(one)
        else:
            yield one


def every_filter(filters: MetadataFilters) -> Iterator[MetadataFilter]:
    """Return each filter, also if it is nested."""
    for one in filters.filters:
        if isinstance(one, MetadataFilters):
            yield from every_filter(one)
        else:
            yield one


def check_agree(*given: MetadataFilters) -> None:
    """Raise InvalidInputError if filters require different values of a key."""
    values: dict[str, Any] = {}
    for part in _required(joined(*given)):
        if part.operator == FilterOperator.EQ and values.setdefault(part.key, part.value) != part.value:
            raise InvalidInputError(
                f"filters must agree; got {values[part.key]!r} and {part.value!r} for {part.key!r}: remove one of the "
                "two values"
            )


def check_required_key(key: object) -> str | None:
    """Return `key` if it is None or a metadata key; otherwise raise InvalidInputError.

    The filters of every call must give a value for the key.
    """
    if key is None or (isinstance(key, str) and key.strip()):
        return key
    raise InvalidInputError(f"required_filter_key must be a metadata key; got {key!r}")


def check_required(key: str, given: MetadataFilters | None) -> None:
    """Raise FilterRefusedError unless the filters require a value, or one of several values, for the metadata `key`.

    None means that there are no filters.
    """
    if any(one.key == key and one.operator in _NAMES_VALUES for one in _required(given)):
        return
    raise FilterRefusedError(
        f"required_filter_key={key!r}: the call has no filter with a value of that key; pass filters=, or search with "
        "the retriever that within(filters) returns"
    )


_NAMES_VALUES = (FilterOperator.EQ, FilterOperator.IN)


def filters_of(where: object) -> MetadataFilters:
    """Convert a mapping of metadata keys to values into MetadataFilters; return MetadataFilters unchanged.

    >>> filters_of({"source": "a.md"}).filters[0].key
    'source'
    """
    if not isinstance(where, Mapping):
        return check_filters(where)
    if not where or not all(isinstance(key, str) for key in where):
        raise InvalidInputError(f"where must map at least one metadata key to a value; got {where!r:.200}")
    if any(not isinstance(value, str | int | float) for value in where.values()):
        raise InvalidInputError(
            f"where must map each metadata key to a string, number or bool; got {where!r:.200}: give "
            "MetadataFilters for other conditions"
        )
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value) for key, value in where.items()])


def names_of(filters: MetadataFilters) -> frozenset[str]:
    """Return the metadata keys that a matching node can need; a node without the key matches the operator IS_EMPTY."""
    return frozenset(one.key for one in every_filter(filters) if one.operator != FilterOperator.IS_EMPTY)


def operators_of(filters: MetadataFilters) -> list[str]:
    """Return the operators of the filters, and the conditions other than AND, in alphabetical order."""
    inner = {name for one in filters.filters if isinstance(one, MetadataFilters) for name in operators_of(one)}
    own = {one.operator.value for one in filters.filters if isinstance(one, MetadataFilter)}
    condition = set[str]() if filters.condition is None or is_and(filters) else {filters.condition.value}
    return sorted(inner | own | condition)


def key_of(filters: MetadataFilters) -> str:
    """Return a cache key for filters."""
    return filters.model_dump_json()
