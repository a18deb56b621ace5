"""Search a vector store with scores, with the vector that another source of the same call has already requested."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from langchain_core.vectorstores import VectorStore

from phasegraph.retrieval import aquestion_vector, postgres_search, question_vector

_BY_TEXT = "similarity_search_with_score"
_BY_VECTOR = "similarity_search_with_score_by_vector"
_STORES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "InMemoryVectorStore": (_BY_VECTOR, _BY_VECTOR),
        "FAISS": (_BY_VECTOR, f"a{_BY_VECTOR}"),
        "PGVector": (_BY_VECTOR, f"a{_BY_VECTOR}"),
        "PGVectorStore": (_BY_VECTOR, f"a{_BY_VECTOR}"),
        "Chroma": ("similarity_search_by_vector_with_relevance_scores", ""),
    }
)
"""The methods of stores, by class name, that search by vector exactly as the store's search by text does.

The first method is for synchronous calls, the second for asynchronous calls. Qdrant makes an additional request in its
search by vector, and LanceDB ignores the filter in it, so these stores are searched by text.
"""


def hybrid_settings(store: object, query: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a setting that makes a hybrid ``PGVectorStore`` search the words of this query; {} for another store.

    The store writes the words of its first query into its configuration, and searches them in all later queries, too.
    Each search therefore gets a copy of the configuration. The copy also asks both parts of the search for as many rows
    as `settings` request; the store's own default is four.
    """
    config: Any = settings.get("hybrid_search_config") or getattr(postgres_search(store), "hybrid_search_config", None)
    if not hasattr(config, "fts_query"):  # None, or the configuration of another kind of store
        return {}
    depth = max(settings.get("k") or 0, settings.get("fetch_k") or 0)
    own = replace(
        config,
        fts_query=query,
        fusion_function_parameters=dict(config.fusion_function_parameters),
        primary_top_k=max(depth, config.primary_top_k),
        secondary_top_k=max(depth, config.secondary_top_k),
    )
    return {"hybrid_search_config": own}


def search_by_vector(store: VectorStore, query: str, settings: Mapping[str, Any]) -> Any:
    """Return the store's documents with scores; the sources of a call embed the query only once.

    A store that is not in the list above embeds the query itself. `settings` are the other arguments of the search.
    """
    search, model = _by_vector(store, _BY_TEXT, 0)
    if search is None:
        return store.similarity_search_with_score(query, **settings)
    return search(question_vector(model, query, partial(model.embed_query, query)), **settings)


async def asearch_by_vector(store: VectorStore, query: str, settings: Mapping[str, Any]) -> Any:
    """Run :func:`search_by_vector` asynchronously."""
    search, model = _by_vector(store, f"a{_BY_TEXT}", 1)
    if search is None:
        return await store.asimilarity_search_with_score(query, **settings)
    found = search(await aquestion_vector(model, query, partial(model.aembed_query, query)), **settings)
    return await found if inspect.isawaitable(found) else found


def _by_vector(store: VectorStore, by_text: str, row: int) -> tuple[Any, Any]:
    """Return the store's search by vector, and its embedding model; (None, None) if the store is searched by text.

    This is the case if the store is not in the list above, has no model, or if its class is derived from such a store.
    """
    kind = type(store)
    known = _STORES.get(kind.__name__) if kind.__module__.startswith("langchain") else None
    model = None if known is None or not known[row] or by_text in vars(store) else store.embeddings
    return (None, None) if known is None or model is None else (getattr(store, known[row]), model)
