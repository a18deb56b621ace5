"""A rewritten query of a framework, with texts that are embedded instead of the query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class RewrittenQuery:
    """A query with texts `embeds` (such as HyDE texts) that a source embeds instead of the query's text.

    A source of the framework receives the framework's own query object `native`. Any other source receives `text`.
    ``is_read()`` returns True after a source has read the texts to embed. Two queries are equal if their `text` and
    `embeds` are equal.

    >>> query = RewrittenQuery("Who?", ("Ada did.",), native=None, is_read=lambda: False)
    >>> text_of(query), is_unused(query, "Who?"), is_unused("Who?", "Who?")
    ('Who?', True, False)
    """

    text: str
    embeds: tuple[str, ...]
    native: Any = field(compare=False)
    is_read: Callable[[], bool] = field(compare=False)


AskedQuery: TypeAlias = str | RewrittenQuery


def text_of(query: AskedQuery) -> str:
    """Return the text of a query."""
    return query.text if isinstance(query, RewrittenQuery) else query


def is_unused(query: AskedQuery, original: str) -> bool:
    """Return True if a rewritten query has the original text, and no source has read its texts to embed.

    Call this function after the search.
    """
    return isinstance(query, RewrittenQuery) and query.text == original and not query.is_read()


def bound_to(source: Any, query: AskedQuery) -> Any:
    """Return a source that searches with the rewritten query; the same source if it has no method ``for_query``."""
    rebind = getattr(source, "for_query", None)
    return source if rebind is None or not isinstance(query, RewrittenQuery) else rebind(query)
