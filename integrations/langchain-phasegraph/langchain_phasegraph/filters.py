"""One filter for every source: what it means for a document, and in the words of each store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase

from langchain_phasegraph.conversion import ScoredDocuments, unpack
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.retrieval import MalformedAnswerError

FILTER = "phasegraph_filter"
"""Key of the filter under ``configurable``."""
_MOST_ROWS = 10_000


def check_filter(given: Any) -> Mapping[str, Any] | None:
    """A filter that every source can be asked to keep: metadata keys and the plain values they must have."""
    if given is None:
        return None
    plain = isinstance(given, Mapping) and all(
        isinstance(key, str) and key.isidentifier() and isinstance(value, str | int | float | bool)
        for key, value in given.items()
    )
    if not plain or not given:
        raise InvalidTypeError(
            f"filter must map metadata keys, which are plain names, to a text, number or bool each; got {given!r:.200}"
        )
    return dict(given)


def joined(*filters: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What all of them ask for."""
    found: dict[str, Any] = {}
    for one in filters:
        for key, value in (one or {}).items():
            if key in found and found[key] != value:
                raise InvalidInputError(f"filters must agree; got {found[key]!r} and {value!r} for {key!r}")
            found[key] = value
    return found or None


def filter_of(config: RunnableConfig) -> Mapping[str, Any] | None:
    """The filter of the call at hand."""
    configurable = config.get("configurable")
    return check_filter(configurable.get(FILTER)) if configurable else None


def with_filter(config: RunnableConfig, *filters: Any) -> RunnableConfig:
    """The configuration with a filter that holds for all sources, its own included."""
    wanted = joined(filter_of(config), *map(check_filter, filters))
    if wanted is None:
        return config
    return {**config, "configurable": {**config.get("configurable", {}), FILTER: wanted}}


def matches(document: Document, wanted: Mapping[str, Any]) -> bool:
    """Whether a document has every value; one without the key has not."""
    return all(key in document.metadata and document.metadata[key] == value for key, value in wanted.items())


def only_matching(answer: object, wanted: Mapping[str, Any], source: str = "") -> ScoredDocuments:
    """The hits that match: a store that did not heed its filter gives nothing away."""
    found = unpack(answer)
    kept = [row for row, document in enumerate(found) if matches(document, wanted)]
    if len(kept) == len(found):
        return found
    if found.ranking is not None:
        raise MalformedAnswerError(f"source {source!r} returned documents that do not match the filter")
    made = ScoredDocuments(found[row] for row in kept)
    made.scores = None if found.scores is None else [found.scores[row] for row in kept]
    made.searched = None if found.searched is None else [one for one in found.searched if matches(one[0], wanted)]
    return made


def store_settings(store: object, wanted: Mapping[str, Any], own: Any = None) -> dict[str, Any]:
    """Arguments of a store's search that keep the filter, and the caller's `own` filter with it.

    Raises
    ------
    InvalidInputError
        If `own` is in words that cannot be joined with it.
    """
    kind = next((one.__name__ for one in type(store).__mro__ if one.__name__ in _WORDS), "")
    if isinstance(own, Mapping) and not _is_plain(own) and kind not in ("Chroma", "LanceDB"):
        raise InvalidInputError(f"filter cannot be joined with the store's own; got {json.dumps(own, default=str)}")
    return _WORDS.get(kind, _mapping)(store, wanted, own)


def _is_plain(own: Mapping[str, Any]) -> bool:
    return all(not key.startswith("$") and not isinstance(value, Mapping | list) for key, value in own.items())


def _mapping(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    if own is not None and not isinstance(own, Mapping):
        raise InvalidInputError(f"filter cannot be joined with the store's own; got {type(own).__name__}")
    return {"filter": dict(joined(own, wanted) or {})}


def _in_memory(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    if isinstance(own, Mapping):
        raise InvalidInputError("filter cannot be joined with the store's own, which must be a function")
    return {"filter": lambda document: matches(document, wanted) and (own is None or own(document))}


def _faiss(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    depth = {"fetch_k": int(store.index.ntotal)}  # FAISS filters what it has fetched
    if callable(own):
        return {"filter": lambda metadata: _has(metadata, wanted) and own(metadata), **depth}
    return {**_mapping(store, wanted, own), **depth}


def _has(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(metadata.get(key) == value for key, value in wanted.items())


def _chroma(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    parts = [{key: value} for key, value in wanted.items()] + ([dict(own)] if own else [])
    return {"filter": parts[0] if len(parts) == 1 else {"$and": parts}}


def _qdrant(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    from qdrant_client import models

    if own is not None and not isinstance(own, models.Filter):
        raise InvalidInputError("filter cannot be joined with the store's own, which must be a qdrant Filter")
    name = getattr(store, "metadata_payload_key", "metadata")
    must: list[Any] = [
        models.FieldCondition(key=f"{name}.{key}", match=models.MatchValue(value=value))
        for key, value in wanted.items()
    ]
    return {"filter": models.Filter(must=must if own is None else [*must, own])}


def _lance(store: Any, wanted: Mapping[str, Any], own: Any) -> dict[str, Any]:
    """Every row is asked for, and those that match are kept: a filter would be written into the text of its query."""
    rows = int(store.get_table().count_rows())
    if rows > _MOST_ROWS:
        raise InvalidInputError(
            f"LanceDB can be filtered up to {_MOST_ROWS} rows, and holds {rows}; give each tenant a table of its own"
        )
    return {"k": max(rows, 1)} if own is None else {"k": max(rows, 1), "filter": own}


_WORDS: Mapping[str, Callable[[Any, Mapping[str, Any], Any], dict[str, Any]]] = {
    "InMemoryVectorStore": _in_memory,
    "FAISS": _faiss,
    "Chroma": _chroma,
    "QdrantVectorStore": _qdrant,
    "LanceDB": _lance,
}


_MOST_KEPT = 16
_kept: WeakKeyDictionary[Any, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()


def bm25_within(runnable: Runnable[str, Any], wanted: Mapping[str, Any]) -> Runnable[str, Any] | None:
    """The retriever over the matching documents alone; None where it is no BM25 that can be built anew.

    Its index holds the words of all documents, and every score depends on how often each word stands in them. Hits
    that are dropped afterwards would be missing among the `k`, and what others wrote would be in the scores. So it is
    built anew from the documents that match, once per filter; none of them leaves nothing to ask.
    """
    if isinstance(runnable, RunnableBindingBase):
        inner = bm25_within(runnable.bound, wanted)
        return None if inner is None else runnable.model_copy(update={"bound": inner})
    if not is_bm25(runnable):
        return None
    retriever: Any = runnable
    kept = _kept.setdefault(retriever.vectorizer, {})
    key = tuple(sorted((name, type(value).__name__, value) for name, value in wanted.items()))
    if key not in kept:
        if len(kept) >= _MOST_KEPT:
            kept.pop(next(iter(kept)), None)
        kept[key] = _part(retriever, wanted)
    return retriever.model_copy(update=kept[key])  # type: ignore[no-any-return]


def _part(retriever: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a retriever of the matching documents."""
    documents = [document for document in retriever.docs if matches(document, wanted)]
    words = [retriever.preprocess_func(document.page_content) for document in documents]
    whole = retriever.vectorizer
    if not any(words):
        return {"docs": [], "vectorizer": _Nothing()}
    return {"docs": documents, "vectorizer": type(whole)(words, k1=whole.k1, b=whole.b, epsilon=whole.epsilon)}


class _Nothing:
    """Stands for an index without a word, which the library cannot build."""

    def get_top_n(self, query: object, documents: object, n: int) -> list[Any]:
        """No document."""
        return []


def is_bm25(runnable: object) -> bool:
    """Whether it is the framework's BM25 itself, whose documents and words are known."""
    kind = type(runnable)
    index = type(getattr(runnable, "vectorizer", None))
    return (kind.__module__.partition(".")[0], kind.__name__, index.__module__, index.__name__) == (
        "langchain_community", "BM25Retriever", "rank_bm25", "BM25Okapi",
    )  # fmt: skip
