"""Restrict a retriever to the nodes that match metadata filters."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any
from weakref import WeakKeyDictionary

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.bridge.pydantic import ValidationError
from llama_index.core.indices.vector_store.retrievers import VectorIndexRetriever
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from llama_index.retrievers.phasegraph.filters import every_filter, joined, key_of, operators_of
from llama_index.retrievers.phasegraph.matching_nodes import allowed_ids, matching_rows
from phasegraph import InvalidInputError
from phasegraph.retrieval import FilterRefusedError, Recent, SelectedIndex


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
    tests = sorted({f"{one.key!r} ({one.value!r:.40})" for one in every_filter(filters)})
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
