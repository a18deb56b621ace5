"""A rewritten query of a framework with separate texts to embed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class RewrittenQuery:
    """A query of the framework with texts that a source embeds in place of the query, as HyDE gives them.

    A source of the framework receives the framework's own query `native`. Any other source receives the `text`.
    ``is_read()`` says whether a source has read the texts to embed. Two queries are equal if `text` and `embeds` are.

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
    """The text of a query."""
    return query.text if isinstance(query, RewrittenQuery) else query


def is_unused(query: AskedQuery, original: str) -> bool:
    """Whether a rewritten query differs from the original only in texts to embed that no source has read.

    Call it after the search.
    """
    return isinstance(query, RewrittenQuery) and query.text == original and not query.is_read()


def bound_to(source: Any, query: AskedQuery) -> Any:
    """The source of one call, bound to a rewritten query if it can be; else the source itself."""
    rebind = getattr(source, "for_query", None)
    return source if rebind is None or not isinstance(query, RewrittenQuery) else rebind(query)
