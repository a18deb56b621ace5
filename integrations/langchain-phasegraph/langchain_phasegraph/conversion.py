"""LangChain's documents to rankings, and results to documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from langchain_core.documents import Document

from phasegraph import InvalidInputError, InvalidTypeError, Ranking, Result
from phasegraph.retrieval import Direction, Identities, contradicts, limited, plain, provenance, scores_of
from phasegraph.retrieval.engine import drained
from phasegraph.retrieval.ids import Payloads
from phasegraph.retrieval.source_config import Reading
from phasegraph.sources.protocol import MalformedAnswerError

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


SCORE_KEYS: Mapping[str, bool | None] = {
    "relevance_score": True,
    "similarity_score": True,
    "_score": True,
    "_similarity_score": True,
    "score": None,
}


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
        if documents.ranking is not None:
            held = documents.payloads or {}
            return limited(replace(documents.ranking, source=self.name, payloads=held), limit, notes)
        ids = self._ids(documents, notes)
        given, order = self._scores(documents, ids)
        scores = scores_of(given, self.reading, notes, len(documents))
        higher: bool | None = True
        if scores is not None:
            higher = self._higher(documents, order, notes)
            if higher is None:
                scores = None
        payloads = Payloads(ids, documents)
        found = Ranking.from_hits(
            self.name,
            ids,
            scores,
            higher_is_better=higher is not False,
            size=self.reading.size,
            payloads=payloads,
        )
        if found.ids == tuple(ids):
            payloads.follow(found)
        elif scores is not None and documents.searched is None and contradicts(found, ids):
            notes.append("its order contradicts its scores; the scores were believed")
        return limited(found, limit, notes)

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


_put = object.__setattr__


@dataclass(slots=True)
class Winner:
    """A returned passage: the document of the heaviest source that returned it with a text, and what the others hold.

    Parameters
    ----------
    source : str
        Whose document it is; ties between equal weights go by name.
    document : Document
    others : tuple of str
        Sources that returned another text under the same id.
    inner : tuple of (str, object)
        Provenance that the sources' documents already carried, with the source's name.
    """

    source: str
    document: Document
    others: tuple[str, ...] = ()
    inner: tuple[tuple[str, Any], ...] = ()


def winners_of(result: Result) -> list[Winner]:
    """One per id of the result, in order."""
    rankings, weights = result.candidates.rankings, result.weights.tolist()
    order = sorted(range(len(rankings)), key=lambda column: -weights[column])
    columns = [(rankings[column].source, rankings[column].payloads.get) for column in order]
    return [_winner(identifier, columns) for identifier in result.ids]


def _winner(identifier: str, columns: Sequence[tuple[str, Callable[[str], Any]]]) -> Winner:
    winner: Winner | None = None
    for name, held in columns:
        document = held(identifier)
        if document is None:
            continue
        if winner is None:
            winner = Winner(name, document)
        elif not winner.document.page_content:
            winner = Winner(name, document, winner.others, winner.inner)
        elif document is not winner.document and document.page_content != winner.document.page_content:
            winner.others = (*winner.others, name)
        if BLOCK in document.metadata:
            winner.inner = (*winner.inner, (name, document.metadata[BLOCK]))
    return Winner("", Document(page_content="", id=identifier)) if winner is None else winner


def documents_of(result: Result, winners: Sequence[Winner], *, score_key: str | None, block: bool) -> list[Document]:
    """Copies of the winners' documents, best first, the wrapped retrievers' own left as they are.

    Parameters
    ----------
    result : Result
    winners : sequence of Winner
    score_key : str or None
        Metadata key for the published score; a key that the document already has is kept.
    block : bool
        Whether to add the provenance under ``metadata["phasegraph"]``.

    Returns
    -------
    list of Document
    """
    blocks = provenance(result) if block else []
    out: list[Document] = []
    for row, (winner, score) in enumerate(zip(winners, result.scores.tolist(), strict=True)):
        document = winner.document
        metadata: dict[str, Any] = dict(document.metadata)
        if winner.inner:
            _take_out(metadata, score_key)
        if block:
            metadata[BLOCK] = _with_inner(blocks[row], winner) if winner.inner else blocks[row]
        if score_key is not None and score_key not in metadata:
            metadata[score_key] = score
        update: dict[str, Any] = {"metadata": metadata}
        if document.id is None:
            update["id"] = result.ids[row]
        out.append(_copied(document, update))
    return out


def _copied(document: Document, update: Mapping[str, Any]) -> Document:
    """A shallow copy with these fields; a plain document is copied in a third of what ``model_copy`` takes."""
    if type(document) is not Document:
        return document.model_copy(update=update)
    twin = Document.__new__(Document)
    _put(twin, "__dict__", {**document.__dict__, **update})
    _put(twin, "__pydantic_fields_set__", document.__pydantic_fields_set__ | update.keys())
    _put(twin, "__pydantic_extra__", document.__pydantic_extra__)
    _put(twin, "__pydantic_private__", document.__pydantic_private__)
    return twin


def _take_out(metadata: dict[str, Any], score_key: str | None) -> None:
    """Remove the block, and the score, that an inner retriever of ours left."""
    inner = metadata.pop(BLOCK, None)
    if isinstance(inner, Mapping) and score_key is not None and metadata.get(score_key) == inner.get("score"):
        metadata.pop(score_key, None)


def _with_inner(block: dict[str, Any], winner: Winner) -> dict[str, Any]:
    """The block, with the provenance that a source's document already carried."""
    for name, inner in winner.inner:
        block["sources"][name]["evidence"] = plain(inner)
    return block
