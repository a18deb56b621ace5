"""The framework's BM25 for the nodes that filters let through."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from llama_index.retrievers.phasegraph.filtering import matching_rows
from phasegraph import InvalidInputError

_LANGUAGES: tuple[str | list[str], ...] = (
    "en",
    "english_plus",
    "de",
    "nl",
    "fr",
    "es",
    "pt",
    "it",
    "ru",
    "sv",
    "no",
    "zh",
    "tr",
    "ko",
    "da",
    [],
)
_SETTINGS = ("k1", "b", "delta", "method", "idf_method", "dtype", "int_dtype")


class Nothing(BaseRetriever):
    """A retriever that has no node."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return []


def is_bm25(retriever: object) -> bool:
    """Whether it is the framework's BM25 itself: a class of one's own may read its index in another way."""
    kind = type(retriever)
    return kind.__name__ == "BM25Retriever" and kind.__module__.startswith("llama_index.retrievers.bm25")


def bm25_within(retriever: Any, filters: MetadataFilters) -> BaseRetriever:
    """The retriever over the matching nodes alone, whose index is built anew.

    Every score depends on how often each word stands in all nodes; what others wrote must not be in them.

    Raises
    ------
    InvalidInputError
        If the index cannot be built anew: it holds no nodes, or was not made from their text as they have it now.
    """
    nodes = [metadata_dict_to_node(row) for row in retriever.corpus or ()]
    language = _language(retriever, [_text(node) for node in nodes])
    rows = [row for row in matching_rows(nodes, filters) if _weight(retriever, row)]
    tokens = _tokens(retriever, [_text(nodes[row]) for row in rows], language)
    if not rows or not any(tokens.ids):
        return Nothing()
    made = copy.copy(retriever)
    made.corpus = [retriever.corpus[row] for row in rows]
    made.corpus_weight_mask = None
    made.bm25 = type(retriever.bm25)(
        **{name: getattr(retriever.bm25, name) for name in _SETTINGS if hasattr(retriever.bm25, name)}
    )
    made.bm25.index(tokens, show_progress=False)
    made.similarity_top_k = min(retriever.similarity_top_k, len(rows))
    return made  # type: ignore[no-any-return]


def _weight(retriever: Any, row: int) -> bool:
    """Whether the retriever's own filters let a node through."""
    return retriever.corpus_weight_mask is None or bool(retriever.corpus_weight_mask[row])


def _language(retriever: Any, texts: Sequence[str]) -> str | list[str]:
    """The list of stop words that gives the very words of its index; a retriever does not keep its name."""
    held = set(retriever.bm25.vocab_dict) - {""}
    for one in _LANGUAGES:
        if texts and set(_tokens(retriever, texts, one).vocab) - {""} == held:
            return one
    raise InvalidInputError(
        "a BM25 index must hold its nodes, as they were indexed, where filters are given; it does not"
    )


def _tokens(retriever: Any, texts: Sequence[str], language: str | list[str]) -> Any:
    stemmer = None if retriever.skip_stemming else retriever.stemmer
    return importlib.import_module("bm25s").tokenize(
        list(texts), stopwords=language, stemmer=stemmer, token_pattern=retriever.token_pattern, show_progress=False
    )


def _text(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.EMBED)
