"""What a retriever returned, as a ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.documents import Document

from langchain_phasegraph.documents import BLOCK, ScoredDocuments, unpack
from phasegraph import Ranking
from phasegraph.adapters import Direction, Identities, contradicts, limited, scores_of
from phasegraph.adapters.payloads import Payloads
from phasegraph.adapters.specs import Reading

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
