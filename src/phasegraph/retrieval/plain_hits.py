"""Convert the results of plain functions and of neo4j-graphrag (texts, rows, triples, ids with scores) to hits."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from phasegraph.errors import InvalidTypeError
from phasegraph.retrieval.identity import ID_KEYS, resolve_id
from phasegraph.retrieval.once import Once
from phasegraph.retrieval.reading import EXPECTED, SCORE_KEYS, parameters_of
from phasegraph.sources.protocol import MalformedAnswerError

TEXT_KEYS = ("text", "page_content", "content")


@dataclass(frozen=True, slots=True)
class PlainHit:
    """A hit without a framework's type: a text with metadata, or only the `id` of a passage.

    If the hit has a text, `id` is None, and the id is later read from the metadata. If the hit was a row of a table (a
    mapping), the metadata are the columns of the row without the text.
    """

    read: ClassVar[frozenset[str]] = frozenset((*ID_KEYS, *SCORE_KEYS))
    """The metadata keys that contain an id or a score, and no content."""

    text: str | None
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def are_scored(pairs: Iterable[bool]) -> bool:
    """Return True if all items of an answer are (hit, score) pairs, and False if none is a pair.

    `pairs` says, for each item, whether it is a pair. Raise MalformedAnswerError if only some items are pairs.
    """
    known = set(pairs)
    if len(known) > 1:
        raise MalformedAnswerError(
            "some hits are pairs with a score and other hits have no score: give a score with every hit, or with no hit"
        )
    return known == {True}


def head_and_score(item: object) -> tuple[Any, Any]:
    """Split an item of an answer into its hit and its score; an item that is not a pair has the score None.

    >>> head_and_score(("a text", 0.5)), head_and_score(("Ada", "met", "Bo"))
    (('a text', 0.5), (('Ada', 'met', 'Bo'), None))
    """
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    return item, None


def plain_hit(item: object, hits: str, row: int) -> PlainHit:
    """Convert a text, a row or a triple to a hit; raise MalformedAnswerError for any other type.

    In a row, a column ``c.id`` is read as ``id``. If the only column is a mapping (a node), this mapping is the row.
    The text is in the column ``text``, ``page_content`` or ``content``. Otherwise the text is the whole row as JSON,
    unless the row has only an id and a score. A triple becomes a text, because it does not name its passage. `hits` is
    the framework's word for hits, and `row` is the position of the item; the error message shows them.

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
                f"a dict must contain a text and its metadata; the dict at {row} contains a {type(inner).__name__}: "
                f"return {hits}, or pairs of hit and score"
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


# Retrievers that belong to neither framework and are not sources of the core.


def adapted(given: object) -> object:
    """Wrap a retriever of neo4j-graphrag in a function that returns rows; return other objects unchanged.

    Raise InvalidTypeError if a neo4j-graphrag retriever cannot search by text, or if any other object has a ``search``
    with incompatible parameters.
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
            f"a source's search must take (query, limit, upstream); {type(given).__name__}.search takes "
            f"{inspect.signature(search)}: give a function that calls it and returns hits"
        ) from None
    except ValueError:  # a built-in function without a signature
        return given
    return given


def _graph_rag(given: Any) -> GraphRagSearch:
    kind, accepts = type(given).__name__, parameters_of(given.search)
    if not hasattr(given, "get_search_results") or "query_text" not in accepts:
        raise InvalidTypeError(
            f"neo4j_graphrag's {kind} cannot be a source: it has no search by query_text that returns records; give "
            "a retriever of neo4j_graphrag.retrievers, or a function that returns hits"
        )
    if "query_vector" in accepts and getattr(given, "embedder", kind) is None:
        raise InvalidTypeError(f"neo4j_graphrag's {kind} has no embedder, so it cannot search a text: give embedder=")
    # A retriever with its own Cypher query has a parameter for filters, but raises an error if filters are given.
    keeps = "filters" in accepts and "top_k" in accepts and not hasattr(given, "retrieval_query")
    return FilteredGraphRagSearch(given) if keeps else GraphRagSearch(given)


class GraphRagSearch:
    """A function that searches a neo4j-graphrag retriever, and returns rows: the properties of a node, and its score.

    If the user gave a ``result_formatter``, it is applied. The library's default formatter is not used, because it
    writes the node as one text and identifies the node by an internal element id.
    """

    def __init__(self, retriever: Any) -> None:
        self.__name__ = type(retriever).__name__
        self._retriever = retriever
        self._accepts = parameters_of(retriever.search)
        self._once = Once()

    def __call__(self, query: str, k: int | None = None) -> list[dict[str, Any]]:
        """Search for at most `k` hits, and return their rows; None leaves the number to the retriever."""
        return self._rows(query, {"top_k": k} if k is not None and "top_k" in self._accepts else {})

    def _rows(self, query: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self._formats:
            return [_of_item(item) for item in self._retriever.search(query_text=query, **settings).items]
        found = self._retriever.get_search_results(query_text=query, **settings)
        rows = [_of_record(record) for record in found.records]
        textless = [row for row in rows if _lacks_text(row)]
        for row in textless:  # the score depends on the question, but the text may be the id of the hit
            row["text"] = json.dumps({name: row[name] for name in row if name not in SCORE_KEYS}, default=str)
        if textless:
            self._once.warn(
                f"neo4j_graphrag's {self.__name__} returns hits without a property text, page_content or content: "
                "their texts are all properties as JSON. Give the retriever a result_formatter= that returns the text "
                "as content"
            )
        return rows

    @property
    def _formats(self) -> bool:
        """True if the user gave a formatter, or the retriever's class has its own formatter."""
        kind = type(self._retriever)
        given = getattr(self._retriever, "result_formatter", None) is not None
        return given or not kind.default_record_formatter.__module__.startswith("neo4j_graphrag.")


class FilteredGraphRagSearch(GraphRagSearch):
    """A function that searches a neo4j-graphrag retriever with filters."""

    def __call__(
        self,
        query: str,
        k: int | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002
    ) -> list[dict[str, Any]]:
        """Search for at most `k` nodes that have the properties in `filter`, and return their rows."""
        settings: dict[str, Any] = {} if k is None else {"top_k": k}
        return self._rows(query, settings if filter is None else {**settings, "filters": dict(filter)})


def _lacks_text(row: Mapping[str, Any]) -> bool:
    names = {name.rpartition(".")[2] for name in row}
    return not names.intersection((*TEXT_KEYS, "metadata")) and bool(names - PlainHit.read)


def _of_item(item: Any) -> dict[str, Any]:
    content, said = item.content, dict(item.metadata or {})
    return {**said, **content} if isinstance(content, Mapping) else {**said, "text": str(content)}


def _of_record(record: Any) -> dict[str, Any]:
    """Return the columns of a database record; the properties of the node in the column ``node`` replace this column.

    If the record has only one column, with another name, and this column is a node, its properties are returned.
    Internal ids of the database are left out. A ``node`` that is no mapping becomes the text.
    """
    held = dict(record.data())
    node = held.pop("node", None)
    if "elementId" in held:  # the database's internal id of the node, which is not the id of a passage
        held = {name: value for name, value in held.items() if name not in ("id", "elementId")}
    if isinstance(node, Mapping):
        held |= {name: value for name, value in node.items() if value is not None}
    elif node is not None:
        held["text"] = str(node)
    only = next(iter(held.values()), None)
    return dict(only) if len(held) == 1 and isinstance(only, Mapping) else held  # a node under another name
