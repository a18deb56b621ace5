"""Convert LangChain documents to rankings, and results to documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from langchain_core.documents import Document

from phasegraph import InvalidInputError, Ranking, Result
from phasegraph.retrieval import (
    HitAccess,
    HitFields,
    HitReader,
    Once,
    Payloads,
    SelectedHit,
    answer_items,
    are_scored,
    evidence_blocks,
    head_and_score,
    is_taken,
    lacks_score,
    limited,
    plain_hit,
    warn_without_text,
)

if TYPE_CHECKING:
    import phasegraph.graph

_HITS = "documents"


class NamedDocument(Document):
    """A placeholder for a passage with a known id and an unknown text."""


def text_of(document: Document) -> str:
    """Return a document's text."""
    return document.page_content


def metadata_of(document: Document) -> Mapping[str, Any]:
    """Return a document's metadata."""
    return document.metadata


ACCESS = HitAccess(text_of, metadata_of)


class ScoredDocuments(list[Document]):
    """The documents that a retriever returned, together with their scores.

    Attributes
    ----------
    scores : list of object or None
        The score of each document, in the source's own unit; None if the source gave no scores.
    searched : list of (Document, object) or None
        Documents and scores from a second search, which runs only if the first search returns no scores. The scores are
        assigned to the documents by id.
    stated : (bool, str) or None
        True if a higher score is better, and a note for the report; None if the direction of the scores is unknown.
    evidence : mapping of str to object or None
        Evidence by document id, which says how the source found the document.
    ranking : Ranking or None
        The core's ranking, if a source of the core found the documents.
    dropped : int
        Number of hits that were dropped because they did not match the filter.
    """

    scores: Sequence[object] | None = None
    searched: Sequence[tuple[Document, object]] | None = None
    stated: tuple[bool, str] | None = None
    evidence: Mapping[str, object] | None = None
    ranking: Ranking | None = None
    dropped: int = 0


def unpack(answer: object) -> ScoredDocuments:
    """Convert the return value of a retriever to documents, with scores if the value contains scores.

    Raises
    ------
    MalformedAnswerError
        If the value contains neither documents, nor hits that :func:`phasegraph.retrieval.plain_hit` can read, nor the
        output of a chain.
    """
    if isinstance(answer, ScoredDocuments):
        return answer
    if type(answer) is not list and isinstance(answer, Mapping) and "result" in answer:
        answer = answer["result"]  # the output of a question-answering chain: a text, or the rows of a database
    items = answer_items(answer, _HITS)
    kinds = set(map(type, items))
    if kinds == {Document}:
        return ScoredDocuments(cast("list[Document]", items))
    if kinds == {tuple} and set(map(len, items)) == {2}:  # a fast path for (Document, score) pairs
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
    """Convert a hit to a document; the columns of a database row become metadata."""
    if isinstance(item, Document):
        return item
    hit = plain_hit(item, _HITS, row)
    if hit.text is None:
        return NamedDocument(page_content="", metadata=dict(hit.metadata))
    return Document(page_content=hit.text, metadata=dict(hit.metadata))


def reader_of(name: str, fields: HitFields, known: bool | None = None) -> HitReader:
    """Create the reader that converts the documents of the source `name` to a ranking.

    `known` is True if a higher score is better, False if a lower score is better, and None if this is unknown.
    """
    return HitReader(name, fields, known, metadata_of, text_of)


def ranking_of(reader: HitReader, answer: object, limit: int | None, notes: list[str]) -> Ranking:
    """Convert the return value of a retriever to a ranking, and add a note to `notes` for each repaired problem."""
    documents = unpack(answer)
    if documents.ranking is not None:
        ranking = documents.ranking
        named_so = ranking if ranking.source == reader.name else replace(ranking, source=reader.name)
        return limited(named_so, limit, notes)
    own = [document.id for document in documents]
    ids = reader.ids(documents, own, notes)
    named = NamedDocument in set(map(type, documents))
    held = [None if isinstance(one, NamedDocument) else one for one in documents] if named else documents
    payloads = Payloads(ids, held, documents.evidence)
    scores, order, stated = reader.scores(documents), None, documents.stated
    if scores is None and documents.searched is not None:
        found = [document for document, _ in documents.searched]
        order = [score for _, score in documents.searched]
        score_of = dict(zip(reader.ids(found, [document.id for document in found], []), order, strict=True))
        scores = [score_of.get(identifier) for identifier in ids]
    elif scores is None and documents.scores is not None:
        scores = list(documents.scores)
    elif scores is None:
        scores, said = reader.stated_scores(documents, notes)
        stated = said or stated
    return reader.ranking(ids, scores, payloads, limit, notes, order=order, stated=stated)


def check_distinct(score_key: str | None, evidence_key: str | None) -> None:
    """Raise InvalidInputError if the metadata keys for the score and for the evidence are equal."""
    if score_key is not None and score_key == evidence_key:
        raise InvalidInputError(f"score_key and evidence_key must be different metadata keys; got {score_key!r} twice")


def documents_of(
    result: Result,
    hits: Sequence[SelectedHit],
    *,
    score_key: str | None,
    evidence_key: str | None,
    once: Once | None = None,
) -> list[Document]:
    """Return copies of the result's documents, best first; the wrapped retrievers' documents stay unchanged.

    Parameters
    ----------
    result : Result
        The core's result, with scores and evidence.
    hits : sequence of SelectedHit
        The document chosen for each id of the result, in the same order.
    score_key : str or None
        Metadata key for the final score; None: add no score. If a document already has a value under this key, the
        value stays, with a warning.
    evidence_key : str or None
        Metadata key for the evidence; None: add no evidence.
    once : Once, optional
        The warnings of the caller's retriever; see :func:`~phasegraph.retrieval.lacks_score`.
    """
    warn_without_text(result, hits)
    blocks = [] if evidence_key is None else evidence_blocks(result, hits)
    out: list[Document] = []
    for row, (hit, score) in enumerate(zip(hits, result.scores.tolist(), strict=True)):
        document = Document(page_content="") if hit.payload is None else hit.payload
        extra: dict[str, Any] = {} if evidence_key is None else {evidence_key: blocks[row]}
        if score_key is not None and lacks_score(score_key, document.metadata, once):
            extra[score_key] = score
        out.append(copy_of(document, document.id or result.ids[row], extra))
    return out


def copy_of(document: Document, identifier: str, extra: Mapping[str, Any]) -> Document:
    """Return a shallow copy of a document with the given id and additional metadata."""
    own = document.metadata
    added = {key: value for key, value in extra.items() if not is_taken(key, own)} if extra else extra
    return document.model_copy(update={"metadata": {**own, **added}, "id": identifier})


def document_of(record: phasegraph.graph.PassageRecord) -> Document:
    """Convert a stored passage to a document."""
    return Document(record.text, id=record.id, metadata=dict(record.metadata))
