"""The metadata filter that applies to every source: matching documents, and conversion to the filter of each store."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase

from langchain_phasegraph.conversion import ScoredDocuments, unpack
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.retrieval import FilterRefusedError, MalformedAnswerError, Recent, SelectedIndex

FILTER = "phasegraph_filter"
"""Key of the filter among the ``configurable`` values of a configuration."""
_MOST_ROWS = 10_000
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
_LISTS, _ALSO = ("$in", "$nin"), "$where"


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
    wrong = _wrong_in_filter(given)
    if wrong:
        raise InvalidTypeError(f"filter: {wrong}")
    return Wanted(copy.deepcopy(dict(given)))


def _wrong_in_filter(given: object) -> str:
    """Return what is wrong in a filter, and what is allowed; empty if the filter is valid."""
    if not isinstance(given, Mapping):
        return f"a filter must be a dict that maps metadata keys to values or operators; got {given!r:.120}"
    if not given:
        return "an empty filter has no condition; give filter=None, or at least one metadata key"
    return next(filter(None, (_wrong_in_part(key, value) for key, value in given.items())), "")


def _wrong_in_part(key: object, value: object) -> str:
    if key in ("$and", "$or"):
        if not isinstance(value, list | tuple) or not value:
            return f"{key} needs a list of at least one filter; got {value!r:.120}"
        return next(filter(None, map(_wrong_in_filter, value)), "")
    if not isinstance(key, str) or not key.isidentifier():
        known = "; between keys, only $and and $or are allowed" if str(key).startswith("$") else ""
        return f"a metadata key may contain only letters, digits and _; got {key!r:.120}{known}"
    if not isinstance(value, Mapping):
        if isinstance(value, _PLAIN):
            return ""
        hint = f": write {{{key!r}: {{'$in': [...]}}}}" if isinstance(value, list | tuple | set) else ""
        return f"the value of {key!r} must be a string, number, bool or dict of operators; got {value!r:.120}{hint}"
    if not value:
        return f"the dict of operators of {key!r} is empty; allowed operators are {', '.join(_TESTS)}"
    for name, operand in value.items():
        if name not in _TESTS:
            return f"unknown operator {name!r:.80} of {key!r}; allowed are {', '.join(_TESTS)}"
        if name not in _LISTS:
            if not isinstance(operand, _PLAIN):
                return f"{name} of {key!r} needs a string, number or bool; got {operand!r:.120}"
        elif not isinstance(operand, list | tuple) or not operand:
            return f"{name} of {key!r} needs a list of at least one value; got {operand!r:.120}"
        elif not all(isinstance(one, _PLAIN) for one in operand):
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
            elif key == _ALSO:
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
        found[_ALSO] = tuple(also)
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
    conditions = {key: value for key, value in wanted.items() if key != _ALSO}
    return json.dumps(conditions, sort_keys=True), *wanted.get(_ALSO, ())


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
        elif key != _ALSO:
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
        elif key != _ALSO:
            found.setdefault(key, []).append(value)
    return found


def matches(document: Any, wanted: Mapping[str, Any]) -> bool:
    """Return True if a document matches a filter; a document without a key of the filter does not match."""
    metadata = document.metadata
    for key, value in wanted.items():
        if key == _ALSO:
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


def store_settings(store: object, wanted: Mapping[str, Any], own: Any = None) -> dict[str, Any]:
    """Return search arguments that make a store apply the filter together with the store's own filter `own`.

    If the returned arguments contain ``k``, the store cannot apply the whole filter. The store then returns more hits,
    and the caller must drop the hits that do not match. Raise FilterRefusedError if `own` cannot be combined with the
    filter.
    """
    kind = _kind(store)
    if isinstance(own, Mapping) and not _is_plain(own) and kind not in _JOINS:
        raise _cannot_combine("a mapping of keys to plain values", json.dumps(own, default=str))
    if kind in _EVERY:
        return _WORDS[kind](store, wanted, own)
    native = {key: value for key, value in wanted.items() if key != _ALSO}
    found = _WORDS.get(kind, _mapping)(store, native, own) if native else {} if own is None else {"filter": own}
    return found if native == wanted else {**found, "k": _MOST_ROWS}


def _cannot_combine(accepted: str, got: str) -> FilterRefusedError:
    return FilterRefusedError(
        f"filter= can be combined with the store's own filter only if that filter is {accepted}; got {got}"
    )


def _kind(store: object) -> str:
    return next((one.__name__ for one in type(store).__mro__ if one.__name__ in _WORDS), "")


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


def _chroma(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    return {"filter": _words([*_parts(wanted), *([dict(own)] if own else [])])}


def _qdrant(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    from qdrant_client import models

    if own is not None and not isinstance(own, models.Filter):
        raise _cannot_combine("a Filter of qdrant_client", type(own).__name__)
    name = getattr(store, "metadata_payload_key", "metadata")

    def one(key: str, operator: str, value: Any) -> Any:
        field = f"{name}.{key}"
        if operator in ("$gt", "$gte", "$lt", "$lte"):
            return models.FieldCondition(key=field, range=models.Range(**{operator[1:]: value}))
        if operator in _LISTS:
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


_WORDS: Mapping[str, Callable[[Any, Mapping[str, Any], Any], dict[str, Any]]] = {
    "InMemoryVectorStore": _in_memory,
    "FAISS": _faiss,
    "Chroma": _chroma,
    "QdrantVectorStore": _qdrant,
    "LanceDB": _lance,
    "PGVector": _operators,
    "PGVectorStore": _operators,
    "Neo4jVector": _operators,
}
_JOINS = ("FAISS", "Chroma", "LanceDB", "PGVector", "PGVectorStore", "Neo4jVector")
_EVERY = ("InMemoryVectorStore", "FAISS", "LanceDB")
"""Names of the stores that test every document with the filter; only these stores accept functions as filters."""


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


def selects_rows(store: Any) -> bool:
    """Return True if the store is a FAISS store, and its index can search a subset of its rows."""
    return _kind(store) == "FAISS" and type(store.index).__name__.startswith(("IndexFlat", "IndexHNSW", "IndexIVF"))


def faiss_within(store: Any, wanted: Mapping[str, Any]) -> Any:
    """Return a FAISS store that searches only the matching documents; the store is cached for each filter.

    LangChain's own filter applies only to the first 20 hits, so it can miss matching documents.
    """
    names, recent = store.index_to_docstore_id, _selected.setdefault(store, Recent())
    key = key_of(wanted)

    def made() -> tuple[object, int, Any]:
        held = ((row, store.docstore.search(name)) for row, name in names.items())
        rows = [row for row, one in held if isinstance(one, Document) and matches(one, wanted)]
        part = copy.copy(store)
        part.index = SelectedIndex(store.index, rows)
        return names, len(names), part

    of, count, part = recent.get(key, made)
    if of is not names or count != len(names):
        recent.forget(key)
        part = recent.get(key, made)[2]
    return part


_selected: WeakKeyDictionary[Any, Recent] = WeakKeyDictionary()
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
    own, kind = settings.get("filter"), _kind(store)
    if own is None:
        return None
    if callable(own) and kind in ("FAISS", "InMemoryVectorStore"):
        return Wanted({_ALSO: (OfMetadata(own) if kind == "FAISS" else own,)})
    if isinstance(own, Mapping) and kind == "FAISS":
        own = {key: {"$in": value} if isinstance(value, list) else value for key, value in own.items()}
    if kind == "QdrantVectorStore":
        own = _of_qdrant(own, f"{getattr(store, 'metadata_payload_key', 'metadata')}.")
    if _wrong_in_filter(own):
        raise InvalidInputError(f"it is specific to that store ({type(settings['filter']).__name__})")
    return check_filter(own)


@dataclass(frozen=True, slots=True)
class OfMetadata:
    """A filter function for documents, which passes the metadata of a document to a filter function for metadata."""

    test: Callable[[Mapping[str, Any]], object]

    def __call__(self, document: Document) -> object:
        """Call the function with the document's metadata, and return its value."""
        return self.test(document.metadata)


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


_MOST_KEPT = 16
_kept: WeakKeyDictionary[Any, Recent] = WeakKeyDictionary()


def bm25_within(runnable: Runnable[str, Any], wanted: Mapping[str, Any]) -> Runnable[str, Any] | None:
    """Return a BM25 retriever over the matching documents only; None if `runnable` is not a BM25 retriever.

    A BM25 score depends on the word counts of all documents. Filtering afterwards would return fewer than `k` hits, and
    other tenants' documents would influence the scores. Therefore a new index is built from the matching documents, and
    cached for each filter. If no document matches, the retriever returns no hit.
    """
    if isinstance(runnable, RunnableBindingBase):
        inner = bm25_within(runnable.bound, wanted)
        return None if inner is None else runnable.model_copy(update={"bound": inner})
    if not is_bm25(runnable):
        return None
    retriever: Any = runnable
    kept = _kept.setdefault(retriever.vectorizer, Recent(most=_MOST_KEPT))
    part = kept.get(key_of(wanted), lambda: _part(retriever, wanted))
    return retriever.model_copy(update=part)  # type: ignore[no-any-return]


def _part(retriever: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return, by name, the fields that change if a BM25 retriever is restricted to the matching documents."""
    documents = [document for document in retriever.docs if matches(document, wanted)]
    words = [retriever.preprocess_func(document.page_content) for document in documents]
    whole = retriever.vectorizer
    if not any(words):
        return {"docs": [], "vectorizer": _Nothing()}
    return {"docs": documents, "vectorizer": type(whole)(words, k1=whole.k1, b=whole.b, epsilon=whole.epsilon)}


class _Nothing:
    """An empty BM25 index, for documents without words; rank_bm25 cannot build an index without words."""

    def get_top_n(self, query: object, documents: object, n: int) -> list[Any]:
        """Return an empty list."""
        return []


def is_bm25(runnable: object) -> bool:
    """Return True if the runnable is LangChain's BM25 retriever itself; the index of a subclass may differ."""
    kind = type(runnable)
    index = type(getattr(runnable, "vectorizer", None))
    return (kind.__module__.partition(".")[0], kind.__name__, index.__module__, index.__name__) == (
        "langchain_community", "BM25Retriever", "rank_bm25", "BM25Okapi",
    )  # fmt: skip
