"""What a retriever returned, as a ranking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

from langchain_core.documents import Document

from langchain_phasegraph.specs import Reading
from phasegraph import InvalidInputError, InvalidTypeError, Ranking
from phasegraph.adapters import Direction, Identities, contradicts, limited
from phasegraph.sources.answers import MalformedAnswerError

BLOCK = "phasegraph"
SCORE_KEYS: Mapping[str, bool | None] = {
    "relevance_score": True,
    "similarity_score": True,
    "_score": True,
    "_similarity_score": True,
    "score": None,
}
_MOST_LAZY_HITS = 100_000


class ScoredDocuments(list[Document]):
    """Documents as a retriever returns them, with their scores alongside.

    Attributes
    ----------
    scores : list of object or None
        One per document, in the source's own unit.
    searched : list of (Document, object) or None
        The score search from which scores are to be joined by id, where another search decided membership.
    """

    scores: Sequence[object] | None = None
    searched: Sequence[tuple[Document, object]] | None = None


class Payloads(Mapping[str, Document]):
    """Documents by id, the first of each; indexed when first asked."""

    __slots__ = ("_documents", "_ids", "_index")

    def __init__(self, ids: Sequence[str], documents: Sequence[Document]) -> None:
        self._ids = ids
        self._documents = documents
        self._index: dict[str, Document] | None = None

    @property
    def by_id(self) -> dict[str, Document]:
        """The documents as a plain dictionary."""
        if self._index is None:
            self._index = dict(zip(reversed(self._ids), reversed(self._documents), strict=True))
        return self._index

    def __getitem__(self, identifier: str) -> Document:
        return self.by_id[identifier]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the answers of one source; remembers its direction, and that it warned about ids."""

    name: str
    reading: Reading
    direction: Direction
    identities: Identities = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identities", Identities(self.name))

    def ranking(self, answer: object, limit: int | None, notes: list[str]) -> Ranking:
        """The answer as a ranking; what had to be handled is added to `notes`."""
        documents = unpack(answer)
        ids = self._ids(documents, notes)
        scores, order = self._scores(documents, ids)
        higher: bool | None = True
        if scores is not None:
            higher = self._higher(documents, order, notes)
            if higher is None:
                scores = None
        elif len(documents):
            notes.append("rank only: it returns no scores")
        found = Ranking.from_hits(
            self.name,
            ids,
            scores,
            higher_is_better=higher is not False,
            size=self.reading.size,
            payloads=Payloads(ids, documents),
        )
        if scores is not None and documents.searched is None and found.ids != tuple(ids) and contradicts(found, ids):
            notes.append("its order contradicts its scores; the scores were believed")
        return limited(found, limit)

    def _ids(self, documents: Sequence[Document], notes: list[str]) -> list[str]:
        if self.reading.id_fn is None:
            carried = [document.id for document in documents]
            if all(carried):
                return carried  # type: ignore[return-value]
            own: list[object] = list(carried)
        else:
            own = [self.reading.id_fn(document) for document in documents]
        ids, found = self.identities.read(own, lambda row: (documents[row].metadata, documents[row].page_content))
        notes.extend(found)
        return ids

    def _scores(
        self, documents: ScoredDocuments, ids: Sequence[str]
    ) -> tuple[Sequence[object] | None, Sequence[object]]:
        """Scores of the documents, and the scores whose order tells the direction."""
        reading = self.reading
        if reading.score_fn is not None:
            scores: Sequence[object] = [reading.score_fn(document) for document in documents]
            return scores, scores
        if reading.score_key is not None:
            scores = [document.metadata.get(reading.score_key) for document in documents]
            return scores, scores
        if documents.searched is not None:
            found = [document for document, _ in documents.searched]
            order = [score for _, score in documents.searched]
            score_of = dict(zip(self._ids(found, []), order, strict=True))
            return [score_of.get(identifier) for identifier in ids], order
        if documents.scores is not None:
            return documents.scores, documents.scores
        key = _score_key(documents)
        if key is None:
            return None, ()
        scores = [_metadata_score(document, key) for document in documents]
        return scores, scores

    def _higher(self, documents: ScoredDocuments, order: Sequence[object], notes: list[str]) -> bool | None:
        if documents.scores is None and documents.searched is None and self.direction.higher_is_better is None:
            key = None if self.reading.score_fn is not None else self.reading.score_key or _score_key(documents)
            known = True if key == BLOCK else SCORE_KEYS.get(key or "")
            if known is not None:
                notes.append(f"higher is better: known for metadata key {key!r}")
                return known
        higher, note = self.direction.of(order)
        if note and documents:
            notes.append(note)
        return higher


def unpack(answer: object) -> ScoredDocuments:
    """Whatever a retriever returned, as documents with or without scores.

    Raises
    ------
    MalformedAnswerError
        If it is not made of documents, texts, or pairs of one of them and a score.
    """
    if isinstance(answer, ScoredDocuments):
        return answer
    if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
        raise MalformedAnswerError(
            f"malformed: a retriever must return a list of documents; got {type(answer).__name__}"
        )
    items = answer if isinstance(answer, list | tuple) else _drained(answer)
    kinds = set(map(type, items))
    if kinds == {Document}:
        return ScoredDocuments(cast("list[Document]", items))
    if kinds and kinds <= {tuple, list}:
        return _pairs(items)
    return ScoredDocuments(_document(item, row) for row, item in enumerate(items))


def _pairs(items: Sequence[Any]) -> ScoredDocuments:
    try:
        heads, scores = zip(*items, strict=True)
    except ValueError as error:
        raise MalformedAnswerError("malformed: a scored hit must be a pair (document, score)") from error
    if set(map(type, heads)) != {Document}:
        heads = tuple(_document(item, row) for row, item in enumerate(heads))
    documents = ScoredDocuments(heads)
    documents.scores = scores
    return documents


def _drained(answer: Iterable[object]) -> list[object]:
    items: list[object] = []
    try:
        items.extend(islice(answer, _MOST_LAZY_HITS + 1))
    except MemoryError:
        raise
    except Exception as error:
        raise MalformedAnswerError(f"malformed: {type(error).__name__} raised by an iterator of hits") from error
    if len(items) > _MOST_LAZY_HITS:
        raise MalformedAnswerError(f"malformed: an iterator of hits must end within {_MOST_LAZY_HITS}; it went on")
    return items


def _document(item: object, row: int) -> Document:
    if isinstance(item, Document):
        return item
    if isinstance(item, str):
        return Document(page_content=item)
    raise MalformedAnswerError(
        f"malformed: a hit must be a document, a text or a (document, score) pair; got {type(item).__name__} at {row}"
    )


def _score_key(documents: Sequence[Document]) -> str | None:
    """The known metadata key under which every document has a number."""
    if not documents:
        return None
    first = documents[0].metadata
    for key in (BLOCK, *SCORE_KEYS):
        if key in first and all(_is_number(_metadata_score(document, key)) for document in documents):
            return key
    return None


def _metadata_score(document: Document, key: str) -> object:
    value = document.metadata.get(key)
    return value.get("score") if key == BLOCK and isinstance(value, Mapping) else value


def _is_number(value: object) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, bool | str)


def check_documents(name: str, documents: object) -> ScoredDocuments:
    """Documents that a caller hands over, or an error that names the list."""
    try:
        return unpack(documents)
    except InvalidTypeError as error:
        raise InvalidTypeError(f"lists[{name!r}]: {str(error).removeprefix('malformed: ')}") from error
    except InvalidInputError as error:
        raise InvalidInputError(f"lists[{name!r}]: {error}") from error
