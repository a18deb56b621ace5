"""LangChain's BM25 for the documents that a filter lets through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase

from langchain_phasegraph.filtering import matches

_MOST_KEPT = 16
_kept: WeakKeyDictionary[Any, dict[tuple[Any, ...], Any]] = WeakKeyDictionary()


def narrowed(runnable: Runnable[str, Any], wanted: Mapping[str, Any]) -> Runnable[str, Any] | None:
    """The retriever over the matching documents alone; None where it is no BM25 that can be built anew.

    Its index holds the words of all documents, and every score depends on how often each word stands in them. Hits
    that are dropped afterwards would be missing among the `k`, and what others wrote would be in the scores. So it is
    built anew from the documents that match, once per filter; none of them leaves nothing to ask.
    """
    if isinstance(runnable, RunnableBindingBase):
        inner = narrowed(runnable.bound, wanted)
        return None if inner is None else runnable.model_copy(update={"bound": inner})
    if not _is_bm25(runnable):
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


def _is_bm25(runnable: object) -> bool:
    kind = type(runnable)
    index = type(getattr(runnable, "vectorizer", None))
    return (kind.__module__.partition(".")[0], kind.__name__, index.__module__, index.__name__) == (
        "langchain_community", "BM25Retriever", "rank_bm25", "BM25Okapi",
    )  # fmt: skip
