"""What retrievers return: documents, with scores alongside where there are any."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from langchain_core.documents import Document

from phasegraph import InvalidInputError, InvalidTypeError, Ranking
from phasegraph.adapters.functions import drained
from phasegraph.sources.answers import MalformedAnswerError

BLOCK = "phasegraph"
_TEXT_COLUMNS = ("text", "page_content", "content")


class ScoredDocuments(list[Document]):
    """Documents as a retriever returns them, with their scores alongside.

    Attributes
    ----------
    scores : list of object or None
        One per document, in the source's own unit.
    searched : list of (Document, object) or None
        The score search from which scores are to be joined by id, where another search decided membership.
    ranking : Ranking or None
        The core's own ranking of them, where a source of the core found them.
    payloads : mapping of str to Document or None
        The ranking's documents by id.
    """

    scores: Sequence[object] | None = None
    searched: Sequence[tuple[Document, object]] | None = None
    ranking: Ranking | None = None
    payloads: Mapping[str, Document] | None = None


def unpack(answer: object) -> ScoredDocuments:
    """Whatever a retriever returned, as documents with or without scores.

    Raises
    ------
    MalformedAnswerError
        If it is not made of documents, texts, or pairs of one of them and a score, and is no chain's output either.
    """
    if isinstance(answer, ScoredDocuments):
        return answer
    if isinstance(answer, Mapping) and "result" in answer:
        return _chain_documents(answer["result"])
    if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
        raise MalformedAnswerError(
            f"malformed: a retriever must return a list of documents; got {type(answer).__name__}"
        )
    items = answer if isinstance(answer, list | tuple) else drained(answer)
    if items and type(items[0]) is tuple:
        found = _scored(items)
        if found is not None:
            return found
    kinds = set(map(type, items))
    if kinds == {Document}:
        return ScoredDocuments(cast("list[Document]", items))
    if kinds and kinds <= {tuple, list}:
        return _pairs(items)
    return ScoredDocuments(_document(item, row) for row, item in enumerate(items))


def _chain_documents(result: object) -> ScoredDocuments:
    """The result of a question-answering chain: its text is one hit, the rows of a database a hit each."""
    if isinstance(result, str):
        return ScoredDocuments([Document(page_content=result)] if result.strip() else [])
    if not isinstance(result, list | tuple):
        raise MalformedAnswerError(f"malformed: a chain's result must be a text or a list; got {type(result).__name__}")
    return unpack([_row_document(row) if isinstance(row, Mapping) else row for row in result])


def _row_document(row: Mapping[str, Any]) -> Document:
    """A database's row, or the node that is all of it; ``c.id`` is read as ``id``.

    Its columns are the document's metadata, so that an id or a score is found there.
    """
    only = next(iter(row.values()), None)
    if len(row) == 1 and isinstance(only, Mapping):
        row = only
    held = {str(name).rpartition(".")[2]: value for name, value in row.items()}
    texts = (held.get(name) for name in _TEXT_COLUMNS)
    text = next((one for one in texts if isinstance(one, str)), None)
    return Document(page_content=json.dumps(held, default=str) if text is None else text, metadata=held)


def _scored(items: Sequence[Any]) -> ScoredDocuments | None:
    """The documents of pairs (document, score); None where anything is something else."""
    try:
        heads = [head for head, _ in items]
    except (TypeError, ValueError):
        return None
    if set(map(type, heads)) != {Document}:
        return None
    documents = ScoredDocuments(heads)
    documents.scores = [score for _, score in items]
    return documents


def _pairs(items: Sequence[Any]) -> ScoredDocuments:
    try:
        heads, scores = [head for head, _ in items], [score for _, score in items]
    except ValueError as error:
        raise MalformedAnswerError("malformed: a scored hit must be a pair (document, score)") from error
    documents = ScoredDocuments(_document(head, row) for row, head in enumerate(heads))
    documents.scores = scores
    return documents


def _document(item: object, row: int) -> Document:
    if isinstance(item, Document):
        return item
    if isinstance(item, str):
        return Document(page_content=item)
    raise MalformedAnswerError(
        f"malformed: a hit must be a document, a text or a (document, score) pair; got {type(item).__name__} at {row}"
    )


def check_documents(name: str, documents: object) -> ScoredDocuments:
    """Documents that a caller hands over, or an error that names the list."""
    try:
        return unpack(documents)
    except InvalidTypeError as error:
        raise InvalidTypeError(f"lists[{name!r}]: {str(error).removeprefix('malformed: ')}") from error
    except InvalidInputError as error:
        raise InvalidInputError(f"lists[{name!r}]: {error}") from error
