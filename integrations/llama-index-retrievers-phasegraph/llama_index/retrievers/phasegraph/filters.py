"""The metadata filters that apply to every source: validation, matching nodes, and restricted retrievers."""

from __future__ import annotations

import copy
import functools
import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from traceback import walk_tb
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn, metadata_dict_to_node

from llama_index.retrievers.phasegraph.nodes import UnnamedNode
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.retrieval import FilterRefusedError, Recent, SelectedIndex

_Test: TypeAlias = Callable[[Mapping[str, Any]], bool | None]
"""A test of a node's metadata; None means that the metadata lack a key on which the answer depends."""


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
    for part in (part for one in found for part in (one.filters if _is_and(one) else [one])):
        if part not in parts:
            parts.append(part)
    return MetadataFilters(filters=parts, condition=FilterCondition.AND)


def _is_and(filters: MetadataFilters) -> bool:
    return filters.condition in (None, FilterCondition.AND)


def _required(filters: MetadataFilters | None) -> Iterator[MetadataFilter]:
    """Return each filter that every node must match."""
    for one in filters.filters if filters is not None and _is_and(filters) else ():
        if isinstance(one, MetadataFilters):
            yield from _required(one)
        else:
            yield one


def _every(filters: MetadataFilters) -> Iterator[MetadataFilter]:
    """Return each filter, also if it is nested."""
    for one in filters.filters:
        if isinstance(one, MetadataFilters):
            yield from _every(one)
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
_COMPARES = (*_NAMES_VALUES, FilterOperator.GT, FilterOperator.GTE, FilterOperator.LT, FilterOperator.LTE)


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
    return frozenset(one.key for one in _every(filters) if one.operator != FilterOperator.IS_EMPTY)


def operators_of(filters: MetadataFilters) -> list[str]:
    """Return the operators of the filters, and the conditions other than AND, in alphabetical order."""
    inner = {name for one in filters.filters if isinstance(one, MetadataFilters) for name in operators_of(one)}
    own = {one.operator.value for one in filters.filters if isinstance(one, MetadataFilter)}
    condition = set[str]() if filters.condition is None or _is_and(filters) else {filters.condition.value}
    return sorted(inner | own | condition)


def matching_rows(nodes: Sequence[Any], filters: MetadataFilters) -> list[int]:
    """Return the positions of the nodes that match.

    A node without the filter's metadata key matches only the operator IS_EMPTY. A text, a row or an id from a function
    never matches without the key, because its passage can have the key. The function returns positions instead of ids,
    because several nodes may have the same id, or no id.
    """
    whole, partial = verdict_of(filters), verdict_of(filters, partial=True)
    return [
        row for row, node in enumerate(nodes)
        if (partial if isinstance(node, UnnamedNode) else whole)(node.metadata)
    ]  # fmt: skip


def verdict_of(filters: MetadataFilters, *, partial: bool = False) -> _Test:
    """Return a function from a node's metadata to True (the node matches), False, or None.

    None means that the metadata lack a key on which the answer depends. Such a node matches neither the filters nor
    their opposite. If `partial` is True, the metadata may lack keys that the node has.
    """
    tests = [
        verdict_of(one, partial=partial) if isinstance(one, MetadataFilters) else _test_of(one, partial)
        for one in filters.filters
    ]
    if _is_and(filters):
        return functools.partial(_all, tests)
    none_matches = functools.partial(_all, [functools.partial(_opposite, test) for test in tests])
    return none_matches if filters.condition == FilterCondition.NOT else functools.partial(_opposite, none_matches)


def _test_of(one: MetadataFilter, partial: bool) -> _Test:
    matches: Any = build_metadata_filter_fn(cast("Any", dict), MetadataFilters(filters=[one]))
    if one.operator == FilterOperator.IS_EMPTY and not partial:
        return cast("Callable[[Mapping[str, Any]], bool]", matches)

    def test(metadata: Mapping[str, Any]) -> bool | None:
        if one.key not in metadata:
            return None
        try:
            return bool(matches(metadata))
        except TypeError as error:
            raise FilterRefusedError(
                f"filters cannot compare the values of the metadata key {one.key!r} with {one.value!r:.80} by the "
                f"operator {one.operator.value!r}: a passage has a {type(metadata[one.key]).__name__} under this key"
            ) from error

    return test


def _all(tests: Sequence[_Test], metadata: Mapping[str, Any]) -> bool | None:
    """Return False if a test fails, None if another lacks its key; otherwise True, or raise the refusal of a test.

    A passage that other tests exclude, such as a passage of another tenant, thus cannot make the filters fail.
    """
    unknown, refusal = False, None
    for test in tests:
        try:
            one = test(metadata)
        except FilterRefusedError as error:
            refusal = error
            continue
        if one is False:
            return False
        unknown = unknown or one is None
    if refusal is not None and not unknown:
        raise refusal
    return None if unknown else True


def _opposite(test: _Test, metadata: Mapping[str, Any]) -> bool | None:
    verdict = test(metadata)
    return None if verdict is None else not verdict


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """Validated filters for nodes, with the interface of :class:`~phasegraph.retrieval.framework.HitFilter`."""

    filters: MetadataFilters
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", key_of(self.filters))

    @property
    def names(self) -> frozenset[str]:
        """The metadata keys that the filters read."""
        return names_of(self.filters)

    @property
    def compared(self) -> dict[str, list[Any]]:
        """The values with which the filters compare each metadata key as a whole."""
        found: dict[str, list[Any]] = {}
        for one in _affirmed(self.filters):
            if one.operator in _COMPARES:
                several = one.operator == FilterOperator.IN and isinstance(one.value, list)
                found.setdefault(one.key, []).extend(cast("list[Any]", one.value) if several else [one.value])
        return found

    def rows(self, hits: Sequence[Any]) -> list[int]:
        """Return the positions of the nodes that match the filters."""
        return matching_rows(hits, self.filters)


def _affirmed(filters: MetadataFilters) -> Iterator[MetadataFilter]:
    """Return each filter that is not under the condition NOT."""
    for one in filters.filters if filters.condition != FilterCondition.NOT else ():
        if isinstance(one, MetadataFilters):
            yield from _affirmed(one)
        else:
            yield one


def allowed_ids(nodes: Iterable[BaseNode], filters: MetadataFilters) -> set[str]:
    """Return the ids of the nodes that match the filters."""
    held = list(nodes)
    return {held[row].node_id for row in matching_rows(held, filters)}


def narrowed(name: str, retriever: Any, filters: MetadataFilters) -> Any:
    """Return a copy of a retriever that also applies the filters.

    Raise InvalidInputError if the retriever cannot apply them. `name` is the name of the source, for the message.
    """
    if is_bm25(retriever):
        return _bm25_within(retriever, filters)
    if _is_faiss(retriever):
        return _faiss_within(retriever, filters)
    if isinstance(retriever, BaseRetriever) and hasattr(retriever, "within"):
        return retriever.within(filters)
    if not isinstance(retriever, VectorIndexRetriever):
        raise FilterRefusedError(
            f"source {name!r} does not support filters= ({type(retriever).__name__}): remove this source, or use a "
            "retriever that can filter"
        )
    made = copy.copy(retriever)
    made._filters = joined(retriever._filters, filters)
    return made


REFUSALS = (NotImplementedError, TypeError, ValueError, ValidationError)
"""The errors with which vector stores refuse filters."""


def refusal(
    name: str, retriever: Any, filters: MetadataFilters | None, error: BaseException
) -> FilterRefusedError | None:
    """Return the error to raise if `error`, one of :data:`REFUSALS`, may be the refusal of the filters by a store.

    A store that does not know an operator raises such an error at every search. Errors from outside the retriever's
    vector store, and errors of subclasses such as ``json.JSONDecodeError``, are failures of the source: the result is
    None. A SimpleVectorStore gets no filters (:class:`OneSearchAtATime`). `name` is the name of the source, for the
    message.
    """
    store = type(getattr(retriever, "_vector_store", None))
    frames = (frame.f_globals.get("__name__") for frame, _ in walk_tb(error.__traceback__))
    if filters is None or issubclass(store, SimpleVectorStore):
        return None
    if type(error) not in REFUSALS or store.__module__ not in frames:
        return None
    tests = sorted({f"{one.key!r} ({one.value!r:.40})" for one in _every(filters)})
    return FilterRefusedError(
        f"source {name!r}: {store.__name__} refuses filters= with {_listed(operators_of(filters))} on "
        f"{', '.join(tests)} ({type(error).__name__}): use operators and values that this store supports"
    )


@contextmanager
def raising_again(error: BaseException) -> Iterator[None]:
    """Raise `error` if the ``with`` block raises an error of the same class; ignore other errors in the block."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as other:  # noqa: BLE001 - a vector store can raise any error
        if type(other) is type(error):
            raise error from error.__cause__


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def only_matching(hits: Sequence[NodeWithScore], filters: MetadataFilters | None) -> list[NodeWithScore]:
    """Return the hits that match the filters; all hits if `filters` is None.

    The check is necessary, because a store can ignore filters.
    """
    if filters is None:
        return list(hits)
    return [hits[row] for row in matching_rows([hit.node for hit in hits], filters)]


_LANGUAGES: tuple[str | list[str], ...] = (
    "en", "english_plus", "de", "nl", "fr", "es", "pt", "it", "ru", "sv", "no", "zh", "tr", "ko", "da", [],
)  # fmt: skip
_SETTINGS = ("k1", "b", "delta", "method", "idf_method", "dtype", "int_dtype")


class Nothing(BaseRetriever):
    """A retriever that returns no node."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return []


def is_bm25(retriever: object) -> bool:
    """Return True if the retriever is LlamaIndex's BM25 retriever and not a subclass."""
    kind = type(retriever)
    return kind.__name__ == "BM25Retriever" and kind.__module__.startswith("llama_index.retrievers.bm25")


def bm25_ids(retriever: Any) -> list[str]:
    """Return the ids of the nodes in a BM25 retriever."""
    contents = (row.get("_node_content") for row in retriever.corpus or ())
    return [str(json.loads(one)["id_"]) for one in contents if one is not None]


def _bm25_within(retriever: Any, filters: MetadataFilters) -> BaseRetriever:
    """Return a BM25 retriever over the matching nodes only, with a new index.

    A BM25 score depends on the word counts of all nodes in the index, so nodes of other tenants must not be in it.
    """
    found = _indexes.setdefault(retriever.bm25, Recent()).get(key_of(filters), lambda: _bm25_part(retriever, filters))
    if found is None:
        return Nothing()
    made = copy.copy(retriever)
    vars(made).update(found)
    made.similarity_top_k = min(retriever.similarity_top_k, len(made.corpus))
    return made  # type: ignore[no-any-return]


_indexes: WeakKeyDictionary[Any, Recent] = WeakKeyDictionary()
_rows: WeakKeyDictionary[Any, Recent] = WeakKeyDictionary()
_SECONDS = 60.0
"""Number of seconds for which the nodes of a store that match the filters are cached."""


def key_of(filters: MetadataFilters) -> str:
    """Return a cache key for filters."""
    return filters.model_dump_json()


def _bm25_part(retriever: Any, filters: MetadataFilters) -> dict[str, Any] | None:
    """Return, by name, the attributes that change if a BM25 retriever is restricted to the matching nodes.

    Return None if no node matches.
    """
    nodes = [metadata_dict_to_node(row) for row in retriever.corpus or ()]
    language = _language(retriever, [_text(node) for node in nodes])
    rows = [row for row in matching_rows(nodes, filters) if _weight(retriever, row)]
    tokens = _tokens(retriever, [_text(nodes[row]) for row in rows], language)
    if not rows or not any(tokens.ids):
        return None
    bm25 = type(retriever.bm25)(
        **{name: getattr(retriever.bm25, name) for name in _SETTINGS if hasattr(retriever.bm25, name)}
    )
    bm25.index(tokens, show_progress=False)
    return {"corpus": [retriever.corpus[row] for row in rows], "corpus_weight_mask": None, "bm25": bm25}


def _weight(retriever: Any, row: int) -> bool:
    """Return True if the node at position `row` of a BM25 retriever matches the retriever's own filters."""
    return retriever.corpus_weight_mask is None or bool(retriever.corpus_weight_mask[row])


def _language(retriever: Any, texts: Sequence[str]) -> str | list[str]:
    """Return the stop-word list with which the index was built, by comparing the words of the index.

    The retriever does not store the list's name. Raise InvalidInputError if no known list gives the words of the index.
    """
    held = set(retriever.bm25.vocab_dict) - {""}
    for one in _LANGUAGES:
        if texts and set(_tokens(retriever, texts, one).vocab) - {""} == held:
            return one
    raise InvalidInputError(
        "filters= needs a BM25 index that stores the nodes as they were indexed, and this index does not: build the "
        "BM25 retriever again"
    )


def _tokens(retriever: Any, texts: Sequence[str], language: str | list[str]) -> Any:
    stemmer = None if retriever.skip_stemming else retriever.stemmer
    return importlib.import_module("bm25s").tokenize(
        list(texts), stopwords=language, stemmer=stemmer, token_pattern=retriever.token_pattern, show_progress=False
    )


def _text(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.EMBED)


def _is_faiss(retriever: object) -> bool:
    """Return True if the retriever searches LlamaIndex's FAISS store."""
    store = type(getattr(retriever, "_vector_store", None))
    return store.__name__ == "FaissVectorStore" and store.__module__.startswith("llama_index.vector_stores.faiss")


def _faiss_within(retriever: Any, filters: MetadataFilters) -> Any:
    """Return a copy of a FAISS retriever that searches only the matching nodes."""
    names, index = retriever._index.index_struct.nodes_dict, retriever._vector_store._faiss_index

    def selected() -> SelectedIndex:
        held = retriever._docstore.get_nodes(sorted(set(names.values())), raise_error=False)
        kept = allowed_ids(held, filters)
        return SelectedIndex(index, sorted(int(row) for row, name in names.items() if name in kept))

    made, store = copy.copy(retriever), copy.copy(retriever._vector_store)
    recent = _rows.setdefault(retriever._index, Recent(_SECONDS))
    store._faiss_index = recent.get((key_of(filters), len(names), id(index)), selected)
    made._vector_store = store
    return made
