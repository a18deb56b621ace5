"""Convert the metadata filter to the filter of each vector store, and a store's own filter to a metadata filter."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from langchain_core.documents import Document

from langchain_phasegraph.conversion import ScoredDocuments
from langchain_phasegraph.filters import ALSO, LISTS, Wanted, check_filter, joined, matches, wrong_in_filter
from phasegraph import InvalidInputError
from phasegraph.retrieval import FilterRefusedError

_MOST_ROWS = 10_000


def store_settings(store: object, wanted: Mapping[str, Any], own: Any = None) -> dict[str, Any]:
    """Return search arguments that make a store apply the filter together with the store's own filter `own`.

    If the returned arguments contain ``k``, the store cannot apply the whole filter. The store then returns more hits,
    and the caller must drop the hits that do not match. Raise FilterRefusedError if `own` cannot be combined with the
    filter.
    """
    known = _filters_of(store)
    if isinstance(own, Mapping) and not _is_plain(own) and not known.joins_own:
        raise _cannot_combine("a mapping of keys to plain values", json.dumps(own, default=str))
    if known.tests_every:
        return known.convert(store, wanted, own)
    native = {key: value for key, value in wanted.items() if key != ALSO}
    found = known.convert(store, native, own) if native else {} if own is None else {"filter": own}
    return found if native == wanted else {**found, "k": _MOST_ROWS}


def _cannot_combine(accepted: str, got: str) -> FilterRefusedError:
    return FilterRefusedError(
        f"filter= can be combined with the store's own filter only if that filter is {accepted}; got {got}"
    )


def _is_plain(own: Mapping[str, Any]) -> bool:
    return all(not key.startswith("$") and not isinstance(value, Mapping | list) for key, value in own.items())


def _mapping(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    """Convert the filter to search arguments of a store that accepts only a mapping of metadata keys to values.

    `own` is the store's own filter, or None. A filter with operators is not passed to the store. More hits are
    requested, and the caller drops hits that do not match.
    """
    if own is not None and not isinstance(own, Mapping):
        raise _cannot_combine("a mapping", type(own).__name__)
    if not _is_plain(wanted):
        return {"k": _MOST_ROWS} if own is None else {"k": _MOST_ROWS, "filter": dict(own)}
    return {"filter": dict(joined(own, wanted) or {})}


def _operators(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    """Convert the filter to search arguments of a store that accepts the same operators as phasegraph.

    `own` is the store's own filter, or None; the search arguments contain both filters.
    """
    if own is not None and not isinstance(own, Mapping):
        raise _cannot_combine("a mapping", type(own).__name__)
    if _is_plain(wanted) and _is_plain(own or {}):
        return {"filter": dict(joined(own, wanted) or {})}
    return {"filter": _words([*([dict(own)] if own else []), *_parts(wanted)])}


def _parts(wanted: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Split the filter into mappings; each has a single metadata key with a single operator."""
    found: list[dict[str, Any]] = []
    for key, value in wanted.items():
        if key in ("$and", "$or"):
            found.append(_words([_words(_parts(one)) for one in value], key))
        elif isinstance(value, Mapping):
            found += [{key: {name: operand}} for name, operand in value.items()]
        else:
            found.append({key: value})
    return found


def _words(parts: list[dict[str, Any]], how: str = "$and") -> dict[str, Any]:
    return parts[0] if len(parts) == 1 else {how: parts}


def _in_memory(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    if isinstance(own, Mapping):
        raise _cannot_combine("a function", "a mapping")
    plain = [(key, value) for key, value in wanted.items() if isinstance(value, str | int | float)]
    if own is None and len(wanted) == len(plain) == 1:  # called for every document, so a short function saves time
        ((key, value),) = plain
        return {"filter": lambda document: document.metadata.get(key) == value}
    return {"filter": lambda document: matches(document, wanted) and (own is None or own(document))}


def _faiss(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    depth = {"fetch_k": int(store.index.ntotal)}  # FAISS first fetches fetch_k rows and then filters these rows
    of_own = (lambda metadata: True) if own is None else own if callable(own) else store._create_filter_func(own)
    return {"filter": lambda metadata: matches(Document("", metadata=metadata), wanted) and of_own(metadata), **depth}


_RANGES = ("$gt", "$gte", "$lt", "$lte")


def _check_ranges(store: Any, wanted: Mapping[str, Any]) -> None:
    """Raise FilterRefusedError if the filter compares a text by size, for a store that compares only numbers."""
    for key, value in wanted.items():
        for part in value if key in ("$and", "$or") else ():
            _check_ranges(store, part)
        for name, operand in value.items() if isinstance(value, Mapping) else ():
            if name in _RANGES and isinstance(operand, str):
                raise FilterRefusedError(
                    f"{type(store).__name__} compares only numbers with {name}; got {operand!r:.120} for {key!r}: "
                    "store a number, such as a year or a timestamp"
                )


def _chroma(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    _check_ranges(store, wanted)
    return {"filter": _words([*_parts(wanted), *([dict(own)] if own else [])])}


def _qdrant(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    from qdrant_client import models

    if own is not None and not isinstance(own, models.Filter):
        raise _cannot_combine("a Filter of qdrant_client", type(own).__name__)
    _check_ranges(store, wanted)
    name = getattr(store, "metadata_payload_key", "metadata")

    def one(key: str, operator: str, value: Any) -> Any:
        field = f"{name}.{key}"
        if operator in _RANGES:
            return models.FieldCondition(key=field, range=models.Range(**{operator[1:]: value}))
        if operator in LISTS:
            found: Any = models.Filter(should=[one(key, "$eq", each) for each in value])
        elif isinstance(value, float):
            found = models.FieldCondition(key=field, range=models.Range(gte=value, lte=value))
        else:
            found = models.FieldCondition(key=field, match=models.MatchValue(value=value))
        return models.Filter(must_not=[found]) if operator in ("$ne", "$nin") else found

    def every(part: Mapping[str, Any]) -> list[Any]:
        found: list[Any] = []
        for key, value in part.items():
            if key == "$and":
                found += [condition for inner in value for condition in every(inner)]
            elif key == "$or":
                found.append(models.Filter(should=[models.Filter(must=every(inner)) for inner in value]))
            else:
                operators = value if isinstance(value, Mapping) else {"$eq": value}
                found += [one(key, *operator) for operator in operators.items()]
        return found

    return {"filter": models.Filter(must=[*every(wanted), *([] if own is None else [own])])}


def _lance(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    """Return search arguments that request every row of a LanceDB table; the caller drops rows that do not match.

    LanceDB would insert the values of the filter `wanted` into a query string. `own` is the store's own filter, or
    None.
    """
    rows = int(store.get_table().count_rows())
    if rows > _MOST_ROWS:
        raise FilterRefusedError(
            f"filter= supports LanceDB tables of up to {_MOST_ROWS} rows; this table has {rows}: give each tenant its "
            "own table"
        )
    return {"k": rows + 1} if own is None else {"k": rows + 1, "filter": own}


def check_depth(found: ScoredDocuments, kept: ScoredDocuments, depth: int, limit: int) -> None:
    """Raise FilterRefusedError if a search for `depth` hits found fewer than `limit` matches, and may have missed more.

    `found` are all hits, and `kept` the hits that match the filter. If the store returned `depth` hits, hits below them
    may also match.
    """
    if len(found) >= depth and len(kept) < limit:
        raise FilterRefusedError(
            f"this store cannot apply the filter, and of the {depth} passages nearest to the query only "
            f"{len(kept)} match; filter by plain values, or give each tenant its own store"
        )


_SHOWS_A_PART = ("where_document", "where", "expr", "pre_filter", "filters")


NARROWS = frozenset({"filter", *_SHOWS_A_PART})
"""Search arguments that restrict a retriever to a part of its store."""


def own_filter(store: object, settings: Mapping[str, Any]) -> Wanted | None:
    """Return the validated filter in a retriever's search arguments `settings`; None if they contain no filter.

    Raise InvalidInputError if the filter has a form that only this store understands.
    """
    other = next((name for name in _SHOWS_A_PART if settings.get(name) is not None), None)
    if other is not None:
        raise InvalidInputError(f"{other!r} is specific to that store")
    own = settings.get("filter")
    if own is None:
        return None
    own = _filters_of(store).read_own(store, own)
    if not isinstance(own, Wanted) and (wrong := wrong_in_filter(own)):
        given = settings["filter"]
        raise InvalidInputError(
            f"it is specific to that store ({wrong if isinstance(given, Mapping) else type(given).__name__})"
        )
    return check_filter(own)


@dataclass(frozen=True, slots=True)
class OfMetadata:
    """A filter function for documents, which passes the metadata of a document to a filter function for metadata."""

    test: Callable[[Mapping[str, Any]], object]

    def __call__(self, document: Document) -> object:
        """Call the function with the document's metadata, and return its value."""
        return self.test(document.metadata)


def _own_in_memory(store: Any, own: Any) -> Any:
    return Wanted({ALSO: (own,)}) if callable(own) else own


def _own_of_faiss(store: Any, own: Any) -> Any:
    if callable(own):
        return Wanted({ALSO: (OfMetadata(own),)})
    if isinstance(own, Mapping):
        return {key: {"$in": value} if isinstance(value, list) else value for key, value in own.items()}
    return own


def _own_of_qdrant(store: Any, own: Any) -> dict[str, Any] | None:
    return _of_qdrant(own, f"{getattr(store, 'metadata_payload_key', 'metadata')}.")


def _of_qdrant(given: Any, prefix: str) -> dict[str, Any] | None:
    """Convert a Qdrant filter on metadata to a phasegraph filter; return None if the conversion is impossible.

    If only a part cannot be converted, the result contains None in place of the part, and is no valid filter. `prefix`
    is the text before the metadata keys in the Qdrant filter.
    """
    said = {name: value for name, value in dict(given).items() if value is not None}
    if not said or set(said) - {"must", "should", "must_not", "key", "match", "range"}:
        return None
    if "key" in said:
        match, limits = (dict(said.get(name) or {}) for name in ("match", "range"))
        tests = {f"${name}": value for name, value in limits.items() if value is not None}
        tests |= {"$eq": match["value"]} if "value" in match else {"$in": match["any"]} if "any" in match else {}
        known = said["key"].startswith(prefix) and tests and set(match) <= {"value", "any"}
        return {said["key"].removeprefix(prefix): tests} if known else None
    parts: list[Any] = []
    for name, conditions in said.items():
        listed = conditions if isinstance(conditions, list) else [conditions]
        found = [_of_qdrant(one, prefix) for one in listed]
        if name == "should":
            parts.append({"$or": found})
        elif name == "must":
            parts += found
        else:
            parts += [_negated(one) for one in found]
    return {"$and": parts}


def _negated(part: dict[str, Any] | None) -> dict[str, Any] | None:
    opposite = {"$eq": "$ne", "$in": "$nin", "$gt": "$lte", "$lte": "$gt", "$lt": "$gte", "$gte": "$lt"}
    if part is None or len(part) != 1:
        return None
    ((key, tests),) = part.items()
    return (
        {key: {opposite[name]: value for name, value in tests.items()}} if len(tests) == 1 and key[0] != "$" else None
    )


def _unchanged(store: Any, own: Any) -> Any:
    return own


@dataclass(frozen=True, slots=True)
class StoreFilters:
    """The filters of a class of vector stores.

    ``convert(store, wanted, own)`` converts the filter `wanted` to search arguments; `own` is the store's own filter,
    or None. ``read_own(store, own)`` converts the store's own filter to a metadata filter; the result is not valid if
    the conversion is impossible. `joins_own` is True if `own` may be a mapping with operators. `tests_every` is True if
    the filter tests every document; only then the filter may contain functions.
    """

    convert: Callable[[Any, Mapping[str, Any], Any], dict[str, Any]]
    read_own: Callable[[Any, Any], Any] = _unchanged
    joins_own: bool = False
    tests_every: bool = False


_SAME_OPERATORS = StoreFilters(_operators, joins_own=True)
_STORES: Mapping[str, StoreFilters] = MappingProxyType(
    {
        "InMemoryVectorStore": StoreFilters(_in_memory, _own_in_memory, tests_every=True),
        "FAISS": StoreFilters(_faiss, _own_of_faiss, joins_own=True, tests_every=True),
        "Chroma": StoreFilters(_chroma, joins_own=True),
        "QdrantVectorStore": StoreFilters(_qdrant, _own_of_qdrant),
        "LanceDB": StoreFilters(_lance, joins_own=True, tests_every=True),
        "PGVector": _SAME_OPERATORS,
        "PGVectorStore": _SAME_OPERATORS,
        "AsyncPGVectorStore": _SAME_OPERATORS,
        "Neo4jVector": _SAME_OPERATORS,
    }
)
"""The filters of the known stores, by class name."""
_OTHER_STORE = StoreFilters(_mapping)


def _filters_of(store: object) -> StoreFilters:
    return next((_STORES[one] for one in class_names(store) if one in _STORES), _OTHER_STORE)


def class_names(store: object) -> list[str]:
    """Return the names of a store's class and of its base classes, nearest first.

    >>> class_names(True)
    ['bool', 'int', 'object']
    """
    return [kind.__name__ for kind in type(store).__mro__]
