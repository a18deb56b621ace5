"""What the retriever is given: queries, numbers of nodes, functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from llama_index.core.schema import QueryBundle
from llama_index_instrumentation.dispatcher import DISPATCHER_SPAN_DECORATED_ATTR

from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.pipeline.checks import check_count, check_query

Method = TypeVar("Method", bound=Callable[..., Any])


def in_the_bases_span(method: Method) -> Method:
    """Mark a method that only checks and hands on, so that it gets no second span around the base class's own."""
    setattr(method, DISPATCHER_SPAN_DECORATED_ATTR, True)
    return method


def checked_query(query: object) -> QueryBundle:
    """A query as a bundle of text that is not blank."""
    if isinstance(query, QueryBundle):
        check_query(query.query_str)
        return query
    return QueryBundle(check_query(query))


def one_count(similarity_top_k: int | None, k: int | None) -> int | None:
    """The number of nodes, under whichever of its two names it was given."""
    if similarity_top_k is not None and k is not None:
        raise InvalidInputError("similarity_top_k and k are the same and must not both be given; got both")
    if k is not None:
        return check_count("k", k)
    return None if similarity_top_k is None else check_count("similarity_top_k", similarity_top_k)


def check_callable(name: str, value: Any) -> Any:
    """`value`, which must be a function or None."""
    if value is not None and not callable(value):
        raise InvalidTypeError(f"{name} must be a function or None; got {value!r}")
    return value
