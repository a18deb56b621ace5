"""Convert the output of plain functions to hits: texts, rows, triples, ids with scores, neo4j-graphrag's items."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from phasegraph.errors import InvalidTypeError
from phasegraph.retrieval.identity import ID_KEYS, resolve_id
from phasegraph.retrieval.reading import EXPECTED, SCORE_KEYS, parameters_of
from phasegraph.sources.protocol import MalformedAnswerError

TEXT_KEYS = ("text", "page_content", "content")


@dataclass(frozen=True, slots=True)
class PlainHit:
    """A hit in plain types; without a text, it only names a passage by its `id`.

    The id of a hit with a text is read from its metadata, which are the other columns of a row.
    """

    read: ClassVar[frozenset[str]] = frozenset((*ID_KEYS, *SCORE_KEYS))
    """Keys of the metadata that say which hit it is and how good, not what it says."""

    text: str | None
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def are_scored(pairs: Iterable[bool]) -> bool:
    """Whether hits are pairs with a score; MalformedAnswerError if only some hits have a score."""
    known = set(pairs)
    if len(known) > 1:
        raise MalformedAnswerError("hits must all be pairs with a score, or none of them; got both")
    return known == {True}


def head_and_score(item: object) -> tuple[Any, Any]:
    """Split a hit from its score; any pair is read as hit and score, and the score is None otherwise.

    >>> head_and_score(("a text", 0.5)), head_and_score(("Ada", "met", "Bo"))
    (('a text', 0.5), (('Ada', 'met', 'Bo'), None))
    """
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    return item, None


def plain_hit(item: object, hits: str, row: int) -> PlainHit:
    """Convert a text, a row or a triple to a hit; `hits` and `row` are for the error message.

    Of a row, ``c.id`` is read as ``id``, and a node that is all of it as the row itself; its text is what ``text``,
    ``page_content`` or ``content`` hold, else the whole row as JSON, unless all it has besides an id is a score. A
    triple is a text of its own, as it does not say which passage states it. MalformedAnswerError if it is none of
    these.

    >>> plain_hit({"c.id": "p", "c.text": "Ada met Bo.", "score": 0.5}, "documents", 0).metadata
    {'id': 'p', 'score': 0.5}
    >>> plain_hit(("Ada", "met", "Bo"), "documents", 0).text
    'Ada -> met -> Bo'
    """
    if isinstance(item, str):
        return PlainHit(item)
    if isinstance(item, Mapping) and item:
        inner = next(
            (one for one in item.values() if hasattr(one, "page_content") or hasattr(one, "get_content")), None
        )
        if inner is not None:
            raise MalformedAnswerError(
                f"a dict must hold a text and its metadata; got one that holds a {type(inner).__name__} at {row}: "
                f"return {hits}, or pairs of one and its score"
            )
        return _of_row(item)
    if isinstance(item, tuple | list) and len(item) == 3 and all(isinstance(part, str) for part in item):
        return PlainHit(" -> ".join(item))
    many = f" of {len(item)}" if isinstance(item, tuple | list) else ""
    raise MalformedAnswerError(
        f"a retriever must return a list of {hits}, {EXPECTED}; got {type(item).__name__}{many} at {row}"
    )


def _of_row(row: Mapping[Any, Any]) -> PlainHit:
    only = next(iter(row.values()))
    if len(row) == 1 and isinstance(only, Mapping):
        row = only
    held = {str(name).rpartition(".")[2]: value for name, value in row.items()}
    if isinstance(held.get("metadata"), Mapping):
        held = {**held.pop("metadata"), **held}
    key = next((key for key in TEXT_KEYS if isinstance(held.get(key), str)), None)
    text = None if key is None else held.pop(key)
    found, origin = resolve_id(None, held, "")
    if text is None and (origin == "text" or set(held) - PlainHit.read):
        text = json.dumps(held, default=str)
    return PlainHit(text, None if text is not None else found, held)


# Retrievers that are neither of a framework nor sources of ours.


def adapted(given: object) -> object:
    """Wrap a retriever of neo4j-graphrag in a function that returns rows; return other objects unchanged.

    InvalidTypeError if a neo4j-graphrag retriever does not search by text, or if another object has an incompatible
    ``search``.
    """
    if isinstance(given, type) or not callable(getattr(given, "search", None)):
        return given
    if any(kind.__module__.partition(".")[0] == "neo4j_graphrag" for kind in type(given).__mro__):
        return _graph_rag(given)
    if hasattr(given, "retrieve"):
        return given
    search: Callable[..., object] = given.search  # type: ignore[attr-defined]
    try:
        inspect.signature(search).bind("query", 50, {})
    except TypeError:
        raise InvalidTypeError(
            f"a source's search must take (query, limit, upstream); that of {type(given).__name__} takes "
            f"{inspect.signature(search)}: give a function that calls it and returns hits"
        ) from None
    except ValueError:  # a built-in that does not tell
        return given
    return given


def _graph_rag(given: Any) -> GraphRagSearch:
    kind, accepts = type(given).__name__, parameters_of(given.search)
    if not hasattr(given, "get_search_results") or "query_text" not in accepts:
        raise InvalidTypeError(
            f"neo4j_graphrag's {kind} cannot be a source: it has no search by query_text that returns records; give "
            "one of neo4j_graphrag.retrievers, or a function that returns hits"
        )
    if "query_vector" in accepts and getattr(given, "embedder", kind) is None:
        raise InvalidTypeError(f"neo4j_graphrag's {kind} needs an embedder= to be asked with a text; it has none")
    # One with a Cypher of its own takes filters, and raises when it is given them.
    keeps = "filters" in accepts and "top_k" in accepts and not hasattr(given, "retrieval_query")
    return FilteredGraphRagSearch(given) if keeps else GraphRagSearch(given)


class GraphRagSearch:
    """Searches a neo4j-graphrag retriever and returns rows: the properties of the node, and the score.

    A ``result_formatter`` of the user is applied. The library's default formatter is not used, because it writes the
    node as one text and identifies it by an internal element id.
    """

    def __init__(self, retriever: Any) -> None:
        self.__name__ = type(retriever).__name__
        self._retriever = retriever
        self._accepts = parameters_of(retriever.search)

    def __call__(self, query: str, k: int | None = None) -> list[dict[str, Any]]:
        """Return the rows of one search."""
        return self._rows(query, {"top_k": k} if k is not None and "top_k" in self._accepts else {})

    def _rows(self, query: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self._formats:
            return [_of_item(item) for item in self._retriever.search(query_text=query, **settings).items]
        found = self._retriever.get_search_results(query_text=query, **settings)
        return [_of_record(record) for record in found.records]

    @property
    def _formats(self) -> bool:
        """Whether the user's own formatter makes the items."""
        kind = type(self._retriever)
        given = getattr(self._retriever, "result_formatter", None) is not None
        return given or not kind.default_record_formatter.__module__.startswith("neo4j_graphrag.")


class FilteredGraphRagSearch(GraphRagSearch):
    """A search of a neo4j-graphrag retriever that supports filters."""

    def __call__(
        self,
        query: str,
        k: int | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
    ) -> list[dict[str, Any]]:
        """Return the rows of one search among nodes that have these properties."""
        settings: dict[str, Any] = {} if k is None else {"top_k": k}
        return self._rows(query, settings if filter is None else {**settings, "filters": dict(filter)})


def _of_item(item: Any) -> dict[str, Any]:
    content, said = item.content, dict(item.metadata or {})
    return {**said, **content} if isinstance(content, Mapping) else {**said, "text": str(content)}


def _of_record(record: Any) -> dict[str, Any]:
    """Return the columns of a record, with the properties of its node instead of the node."""
    held = dict(record.data())
    node = held.pop("node", None)
    if "elementId" in held:  # by which the library names a node
        held = {name: value for name, value in held.items() if name not in ("id", "elementId")}
    if isinstance(node, Mapping):
        held |= {name: value for name, value in node.items() if value is not None}
    elif node is not None:
        held["text"] = str(node)
    return held
