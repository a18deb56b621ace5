"""LangChain's documents to rankings, and results to documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from langchain_core.documents import Document

from phasegraph import InvalidInputError, InvalidTypeError, Ranking, Result
from phasegraph.retrieval import (
    HitAccess,
    HitFields,
    HitReader,
    MalformedAnswerError,
    Payloads,
    SelectedHit,
    drained,
    evidence_blocks,
    limited,
)

_TEXT_COLUMNS = ("text", "page_content", "content")
SCORE_KEYS: Mapping[str, bool | None] = {
    "relevance_score": True,
    "similarity_score": True,
    "_score": True,
    "_similarity_score": True,
    "score": None,
}


def text_of(document: Document) -> str:
    """A document's text."""
    return document.page_content


def metadata_of(document: Document) -> Mapping[str, Any]:
    """A document's metadata."""
    return document.metadata


ACCESS = HitAccess(text_of, metadata_of)


class ScoredDocuments(list[Document]):
    """Documents as a retriever returns them, with their scores alongside.

    Attributes
    ----------
    scores : list of object or None
        One per document, in the source's own unit.
    searched : list of (Document, object) or None
        The score search from which scores are to be joined by id, where another search decided membership.
    told : (bool, str) or None
        Whether higher is better, and a note, where it is known.
    evidence : mapping of str to object or None
        How each was found, by id.
    ranking : Ranking or None
        The core's own ranking of them, where a source of the core found them.
    """

    scores: Sequence[object] | None = None
    searched: Sequence[tuple[Document, object]] | None = None
    told: tuple[bool, str] | None = None
    evidence: Mapping[str, object] | None = None
    ranking: Ranking | None = None


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
        raise MalformedAnswerError(f"a retriever must return a list of documents; got {type(answer).__name__}")
    items = answer if isinstance(answer, list | tuple) else drained(answer)
    kinds = set(map(type, items))
    if kinds == {Document}:
        return ScoredDocuments(cast("list[Document]", items))
    if not kinds or not kinds <= {tuple, list}:
        return ScoredDocuments(_document(item, row) for row, item in enumerate(items))
    try:
        heads, scores = [head for head, _ in items], [score for _, score in items]  # type: ignore[misc]
    except (TypeError, ValueError) as error:
        raise MalformedAnswerError("a scored hit must be a pair (document, score)") from error
    documents = ScoredDocuments(_document(head, row) for row, head in enumerate(heads))
    documents.scores = scores
    return documents


def _chain_documents(result: object) -> ScoredDocuments:
    """The result of a question-answering chain: its text is one hit, the rows of a database a hit each."""
    if isinstance(result, str):
        return ScoredDocuments([Document(page_content=result)] if result.strip() else [])
    if not isinstance(result, list | tuple):
        raise MalformedAnswerError(f"a chain's result must be a text or a list; got {type(result).__name__}")
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


def _document(item: object, row: int) -> Document:
    if isinstance(item, Document):
        return item
    if isinstance(item, str):
        return Document(page_content=item)
    raise MalformedAnswerError(
        f"a hit must be a document, a text or a (document, score) pair; got {type(item).__name__} at {row}"
    )


def check_documents(name: str, documents: object) -> ScoredDocuments:
    """Documents that a caller hands over, or an error that names the list."""
    try:
        return unpack(documents)
    except InvalidTypeError as error:
        raise InvalidTypeError(f"lists[{name!r}]: {error}") from error
    except InvalidInputError as error:
        raise InvalidInputError(f"lists[{name!r}]: {error}") from error


def reader_of(name: str, fields: HitFields, known: bool | None = None) -> HitReader:
    """The reader of one source's documents."""
    return HitReader(name, fields, known, metadata_of, text_of)


def ranking_of(reader: HitReader, answer: object, limit: int | None, notes: list[str]) -> Ranking:
    """A retriever's answer as a ranking; what had to be handled is added to `notes`."""
    documents = unpack(answer)
    if documents.ranking is not None:
        return limited(replace(documents.ranking, source=reader.name), limit, notes)
    own = [document.id for document in documents]
    ids = reader.ids(documents, own, notes)
    payloads = Payloads(ids, documents, documents.evidence, from_text=None in own)
    scores, order, key = reader.scores(documents), None, reader.fields.score
    if scores is None and documents.searched is not None:
        found = [document for document, _ in documents.searched]
        order = [score for _, score in documents.searched]
        score_of = dict(zip(reader.ids(found, [document.id for document in found], []), order, strict=True))
        scores = [score_of.get(identifier) for identifier in ids]
    elif scores is None and documents.scores is not None:
        scores = list(documents.scores)
    elif scores is None and (key := _score_key(documents)) is not None:
        scores = [document.metadata[key] for document in documents]
    known = SCORE_KEYS.get(key) if isinstance(key, str) else None
    told = documents.told if known is None else (known, f"higher is better: known for metadata key {key!r}")
    return reader.ranking(ids, scores, payloads, limit, notes, order=order, told=told)


def _score_key(documents: Sequence[Document]) -> str | None:
    """The first known metadata key that holds a number in every document."""
    for key in SCORE_KEYS if documents else ():
        if key in documents[0].metadata and all(_is_number(one.metadata.get(key)) for one in documents):
            return key
    return None


def _is_number(value: object) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool | str)


def documents_of(
    result: Result, hits: Sequence[SelectedHit], *, score_key: str | None, metadata_key: str | None
) -> list[Document]:
    """Copies of the results' documents, best first, the wrapped retrievers' own left as they are.

    Parameters
    ----------
    result : Result
    hits : sequence of SelectedHit
    score_key : str or None
        Metadata key for the published score; a key that the document already has is kept.
    metadata_key : str or None
        Metadata key for the evidence.
    """
    blocks = [] if metadata_key is None else evidence_blocks(result, hits)
    out: list[Document] = []
    for row, (hit, score) in enumerate(zip(hits, result.scores.tolist(), strict=True)):
        document = Document(page_content="") if hit.payload is None else hit.payload
        extra: dict[str, Any] = {} if metadata_key is None else {metadata_key: blocks[row]}
        if score_key is not None and score_key not in document.metadata:
            extra[score_key] = score
        out.append(copy_of(document, document.id or result.ids[row], extra))
    return out


def copy_of(document: Document, identifier: str, extra: Mapping[str, Any]) -> Document:
    """A shallow copy under an id, with further metadata."""
    metadata = {**document.metadata, **extra}
    if type(document) is Document:
        return Document(document.page_content, id=identifier, metadata=metadata)
    return document.model_copy(update={"metadata": metadata, "id": identifier})
