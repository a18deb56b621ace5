"""Where the documents of a core source come from, and what they carry away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from langchain_phasegraph.documents import BLOCK
from phasegraph import InvalidTypeError, Ranking
from phasegraph.adapters import plain, resolve_id

Fetch = Callable[[Sequence[str]], Mapping[str, Document]]


class Passages(Mapping[str, Document]):
    """Copies of the passages' documents with their evidence, each made when it is asked for."""

    def __init__(self, ranking: Ranking, texts: Mapping[str, Document], score_key: str | None, block: bool) -> None:
        self._ranking = ranking
        self._texts = texts
        self._score_key = score_key
        self._block = block
        self._rows = {identifier: row for row, identifier in enumerate(ranking.ids)}

    def __getitem__(self, identifier: str) -> Document:
        row, document = self._rows[identifier], self._texts.get(identifier)
        score = float(self._ranking.scores[row])
        metadata = {} if document is None else dict(document.metadata)
        if self._block:
            trail: Any = self._ranking.payloads.get(identifier)
            block: dict[str, Any] = {"score": score, "rank": row + 1}
            if hasattr(trail, "path"):
                block["path"] = [[step.kind, step.name] for step in trail.path]
                block["seeds"] = [[step.kind, step.name, share] for step, share in trail.seeds]
            elif trail is not None:
                block["evidence"] = plain(trail)
            metadata[BLOCK] = block
        if self._score_key is not None:
            metadata.setdefault(self._score_key, score)
        if document is None:
            return Document(page_content="", id=identifier, metadata=metadata)
        return document.model_copy(update={"id": document.id or identifier, "metadata": metadata})

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def fetcher(documents: Any) -> Fetch:
    """A function of ids that gives the documents there are."""
    if documents is None:
        return lambda ids: {}
    if isinstance(documents, Mapping):
        return lambda ids: _kept(ids, [documents.get(one) for one in ids])
    if hasattr(documents, "get_by_ids"):
        return lambda ids: {str(one.id): one for one in documents.get_by_ids(list(ids))}
    if hasattr(documents, "mget"):
        return lambda ids: _kept(ids, documents.mget(list(ids)))
    if callable(documents):
        return lambda ids: _fetched(ids, documents(ids))
    if isinstance(documents, str | bytes) or not isinstance(documents, Iterable):
        raise InvalidTypeError(f"documents must be documents, a store or a function; got {type(documents).__name__}")
    listed = list(documents)
    wrong = next((one for one in listed if not isinstance(one, Document)), None)
    if wrong is not None:
        raise InvalidTypeError(f"documents must hold documents; got {type(wrong).__name__}")
    return fetcher({resolve_id(one.id, one.metadata, one.page_content)[0]: one for one in listed})


def _fetched(ids: Sequence[str], found: Any) -> dict[str, Document]:
    return _kept(ids, [found.get(one) for one in ids] if isinstance(found, Mapping) else list(found))


def _kept(ids: Sequence[str], found: Sequence[Any]) -> dict[str, Document]:
    """Documents by id; a text becomes a document."""
    return {
        one: held if isinstance(held, Document) else Document(page_content=str(held), id=one)
        for one, held in zip(ids, found, strict=True)
        if held is not None
    }
