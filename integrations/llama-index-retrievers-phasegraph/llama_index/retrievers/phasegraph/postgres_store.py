"""Write the filters and read the nodes of LlamaIndex's ``PGVectorStore``."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable
from typing import Any

from llama_index.core.vector_stores.types import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQueryMode,
)

from phasegraph.retrieval import warn

_LISTS = {FilterOperator.EQ: FilterOperator.IN, FilterOperator.NE: FilterOperator.NIN}
_NO_NUMBER = "' || '"
"""SQL that appends an empty text. The store then compares texts of digits as texts."""
_PATTERNS = (FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE)


def is_postgres(store: object) -> bool:
    """Return True if the vector store is LlamaIndex's ``PGVectorStore``, or its class is derived from it."""
    return any(kind.__module__.startswith("llama_index.vector_stores.postgres") for kind in type(store).__mro__)


def with_sql_filters(retriever: Any) -> Any:
    """Return a copy of a ``PGVectorStore`` retriever with its filters as :func:`in_sql` writes them.

    Return any other retriever, and a retriever without filters, unchanged.
    """
    filters = getattr(retriever, "_filters", None)
    if not isinstance(filters, MetadataFilters) or not is_postgres(getattr(retriever, "_vector_store", None)):
        return retriever
    made = copy.copy(retriever)
    made._filters = in_sql(filters)
    return made


def warn_of_hybrid(name: str, retriever: Any) -> None:
    """Warn of a retriever that merges two scales: the hybrid search of ``PGVectorStore``.

    The search returns the nearest nodes with their similarities, and then the nodes of the text search with text ranks,
    which are much smaller. A limited list therefore contains none of the text search.
    """
    mode = getattr(retriever, "_vector_store_query_mode", None)
    if mode == VectorStoreQueryMode.HYBRID and is_postgres(getattr(retriever, "_vector_store", None)):
        warn(
            f"source {name!r}: the hybrid search of PGVectorStore ranks all hits of its text search below the nearest "
            "vectors, so that they are lost. Pass the two searches as two sources: vector=index.as_retriever() and "
            "retrievers={'text': index.as_retriever(vector_store_query_mode='sparse')}"
        )


def in_sql(filters: MetadataFilters) -> MetadataFilters:
    """Return the filters in a form that ``PGVectorStore`` can write into its SQL query.

    The store puts keys and values between single quotes, and passes the text to SQLAlchemy, which takes ``:name`` for a
    parameter. Without this conversion, a value with a quote would become SQL. The store also converts both sides of a
    comparison to numbers if the value is a text of digits, which fails if another passage has other text under the key.
    A test for equality with a text therefore becomes a test with a list of one text, and the text of another comparison
    ends with an expression of SQL.

    >>> one = MetadataFilter(key="team", value="O'Brien")
    >>> print(in_sql(MetadataFilters(filters=[one])).filters[0].value)
    ["O''Brien"]
    """
    parts = [in_sql(one) if isinstance(one, MetadataFilters) else _one_in_sql(one) for one in filters.filters]
    return MetadataFilters(filters=parts, condition=filters.condition)


def _one_in_sql(one: MetadataFilter) -> MetadataFilter:
    value: Any = one.value
    operator, end = one.operator, ""
    if isinstance(value, str):
        if operator in _PATTERNS:
            value = re.sub(r"([\\%_])", r"\\\1", value)  # LIKE reads these characters as a pattern
        elif operator == FilterOperator.CONTAINS:
            value = json.dumps(value)[1:-1]  # the store puts the value between double quotes of JSON
        elif operator in _LISTS:
            value, operator = [value], _LISTS[operator]
        else:
            end = _NO_NUMBER
    several = isinstance(value, Iterable) and not isinstance(value, str)
    quoted = list(map(_quoted, value)) if several else _quoted(value, end)
    return MetadataFilter(key=_quoted(one.key), value=quoted, operator=operator)


def _quoted(value: Any, end: str = "") -> Any:
    """Return a text without characters that end an SQL text or begin a parameter; other values stay unchanged."""
    return value.replace("'", "''").replace(":", r"\:") + end if isinstance(value, str) else value


def all_nodes(store: Any) -> list[Any]:
    """Return all nodes in a vector store that stores texts."""
    found: list[Any] = store.get_nodes(node_ids=[] if is_postgres(store) else None)  # Postgres refuses None
    return found
