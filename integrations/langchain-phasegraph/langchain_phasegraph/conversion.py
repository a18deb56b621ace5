"""LangChain's documents to rankings, and results to documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.documents import Document

from phasegraph import Ranking, Result
from phasegraph.retrieval import (
    HitAccess,
    HitFields,
    HitReader,
    Payloads,
    SelectedHit,
    answer_items,
    are_scored,
    evidence_blocks,
    head_and_score,
    is_taken,
    limited,
    plain_hit,
    warn_without_text,
)

if TYPE_CHECKING:
    import phasegraph.graph

_HITS = "documents"


class NamedDocument(Document):
    """Stands for a passage of which only the id is known."""


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
    dropped : int
        Further hits, which did not match the filter although the source was given it.
    """

    scores: Sequence[object] | None = None
    searched: Sequence[tuple[Document, object]] | None = None
    told: tuple[bool, str] | None = None
    evidence: Mapping[str, object] | None = None
    ranking: Ranking | None = None
    dropped: int = 0


def unpack(answer: object) -> ScoredDocuments:
    """Whatever a retriever returned, as documents with or without scores.

    Raises
    ------
    MalformedAnswerError
        If it is not made of documents or of what :func:`phasegraph.retrieval.plain_hit` reads, and is no chain's
        output either.
    """
    if isinstance(answer, ScoredDocuments):
        return answer
    if type(answer) is not list and isinstance(answer, Mapping) and "result" in answer:
        answer = answer["result"]  # a question-answering chain's: its words, or the rows of a database
    items = answer_items(answer, _HITS)
    kinds = set(map(type, items))
    if kinds == {Document}:
        return ScoredDocuments(cast("list[Document]", items))
    if kinds == {tuple} and set(map(len, items)) == {2}:  # what nearly every store returns, read at once
        heads, scores = zip(*items, strict=True)
        if set(map(type, heads)) == {Document}:
            found = ScoredDocuments(heads)
            found.scores = list(scores)
            return found
    pairs = [head_and_score(item) for item in items]
    documents = ScoredDocuments(_document(head, row) for row, (head, _) in enumerate(pairs))
    if are_scored(isinstance(item, tuple | list) and len(item) == 2 for item in items):
        documents.scores = [score for _, score in pairs]
    return documents


def _document(item: object, row: int) -> Document:
    """A hit as a document; a row's columns are its metadata, so that an id or a score is found there."""
    if isinstance(item, Document):
        return item
    hit = plain_hit(item, _HITS, row)
    if hit.text is None:
        return NamedDocument(page_content="", metadata=dict(hit.metadata))
    return Document(page_content=hit.text, metadata=dict(hit.metadata))


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
    named = NamedDocument in set(map(type, documents))
    held = [None if isinstance(one, NamedDocument) else one for one in documents] if named else documents
    payloads = Payloads(ids, held, documents.evidence)
    scores, order, told = reader.scores(documents), None, documents.told
    if scores is None and documents.searched is not None:
        found = [document for document, _ in documents.searched]
        order = [score for _, score in documents.searched]
        score_of = dict(zip(reader.ids(found, [document.id for document in found], []), order, strict=True))
        scores = [score_of.get(identifier) for identifier in ids]
    elif scores is None and documents.scores is not None:
        scores = list(documents.scores)
    elif scores is None:
        scores, said = reader.stated_scores(documents, notes)
        told = said or told
    return reader.ranking(ids, scores, payloads, limit, notes, order=order, told=told)


def documents_of(
    result: Result, hits: Sequence[SelectedHit], *, score_key: str | None, evidence_key: str | None
) -> list[Document]:
    """Copies of the results' documents, best first, the wrapped retrievers' own left as they are.

    Parameters
    ----------
    result : Result
    hits : sequence of SelectedHit
    score_key : str or None
        Metadata key for the published score; a key that the document already has is kept.
    evidence_key : str or None
        Metadata key for the evidence.
    """
    warn_without_text(result, hits)
    blocks = [] if evidence_key is None else evidence_blocks(result, hits)
    out: list[Document] = []
    for row, (hit, score) in enumerate(zip(hits, result.scores.tolist(), strict=True)):
        document = Document(page_content="") if hit.payload is None else hit.payload
        extra: dict[str, Any] = {} if evidence_key is None else {evidence_key: blocks[row]}
        if score_key is not None and score_key not in document.metadata:
            extra[score_key] = score
        out.append(copy_of(document, document.id or result.ids[row], extra))
    return out


def copy_of(document: Document, identifier: str, extra: Mapping[str, Any]) -> Document:
    """A shallow copy under an id, with further metadata."""
    own = document.metadata
    added = {key: value for key, value in extra.items() if not is_taken(key, own)} if extra else extra
    return document.model_copy(update={"metadata": {**own, **added}, "id": identifier})


def document_of(record: phasegraph.graph.PassageRecord) -> Document:
    """A passage as a document."""
    return Document(record.text, id=record.id, metadata=dict(record.metadata))
