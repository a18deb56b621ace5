"""Search only the documents that match a filter, in a FAISS store or with BM25."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.documents import Document
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase

from langchain_phasegraph.filters import key_of, matches
from langchain_phasegraph.store_filters import class_names
from phasegraph.retrieval import Recent, SelectedIndex


def selects_rows(store: Any) -> bool:
    """Return True if the store is a FAISS store, and its index can search a subset of its rows."""
    return "FAISS" in class_names(store) and type(store.index).__name__.startswith(
        ("IndexFlat", "IndexHNSW", "IndexIVF")
    )


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
