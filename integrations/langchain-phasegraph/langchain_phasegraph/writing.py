"""A result, as documents with their provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document

from langchain_phasegraph.reading import BLOCK
from phasegraph import Result
from phasegraph.adapters import plain, provenance


def documents_of(result: Result, *, score_key: str | None, block: bool) -> list[Document]:
    """Copies of the winners' documents, best first, the wrapped retrievers' own left as they are.

    Parameters
    ----------
    result : Result
        Its payloads are documents. Where several sources returned the same id, the document of the source with the
        largest weight is taken (ties by name).
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
    for row, (identifier, score) in enumerate(zip(result.ids, result.scores.tolist(), strict=True)):
        owners = _owners(result, identifier)
        document = next(iter(owners.values()))
        metadata: dict[str, Any] = dict(document.metadata)
        inner = metadata.pop(BLOCK, None)
        if isinstance(inner, Mapping) and score_key is not None and metadata.get(score_key) == inner.get("score"):
            metadata.pop(score_key, None)
        if block:
            metadata[BLOCK] = _with_inner(blocks[row], owners)
        if score_key is not None:
            metadata.setdefault(score_key, score)
        update: dict[str, Any] = {"metadata": metadata}
        if document.id is None:
            update["id"] = identifier
        out.append(document.model_copy(update=update))
    return out


def with_text_warnings(result: Result) -> Result:
    """The result, with a warning for each id under which sources returned different texts."""
    if len(result.candidates.sources) < 2:
        return result
    found = []
    for identifier in result.ids:
        owners = _owners(result, identifier)
        if len(owners) > 1 and len({document.page_content for document in owners.values()}) > 1:
            first, *others = owners
            found.append(f"id {identifier!r} has different texts in {', '.join((first, *others))}; kept {first}'s")
    return replace(result, warnings=(*result.warnings, *found)) if found else result


def _owners(result: Result, identifier: str) -> dict[str, Document]:
    """The documents under one id by source, that of the heaviest source first."""
    rankings = result.candidates.rankings
    order = sorted(range(len(rankings)), key=lambda column: (-result.weights[column], rankings[column].source))
    found: dict[str, Document] = {}
    for column in order:
        payload = rankings[column].payloads.get(identifier)
        if isinstance(payload, Document):
            found[rankings[column].source] = payload
    return found


def _with_inner(block: dict[str, Any], owners: Mapping[str, Document]) -> dict[str, Any]:
    """The block, with the provenance that a source's document already carried."""
    for name, document in owners.items():
        inner = document.metadata.get(BLOCK)
        if inner is not None:
            block["sources"][name]["evidence"] = plain(inner)
    return block
