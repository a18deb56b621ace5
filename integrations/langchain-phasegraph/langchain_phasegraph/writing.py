"""A result, as documents with their provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document

from langchain_phasegraph.documents import BLOCK
from phasegraph import Result
from phasegraph.adapters import plain, provenance

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
