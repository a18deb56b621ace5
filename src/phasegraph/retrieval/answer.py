"""Choose the document or node for each id of a result; warn if a text is missing, or differs between two sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from phasegraph.errors import warn
from phasegraph.result import Result
from phasegraph.retrieval.access import HitAccess
from phasegraph.retrieval.payloads import hits_of
from phasegraph.retrieval.plain_hits import PlainHit

_PLAIN = PlainHit.read
"""Keys that describe nothing: an id and a score."""


@dataclass(slots=True)
class SelectedHit:
    """A selected passage: its payload, which is the framework's document or node, and the evidence of all sources.

    The payload is None if no source returned a document or node. The payload comes from `source`, which is the source
    with the largest weight among the sources that returned a text for the passage. Sources with equal weights are taken
    in name order. If the payload of this source has no metadata but an id and a score, the payload is the first with
    the same text and with metadata. `others` are sources that returned a different text under the same id. Evidence
    shows how a source found the passage, such as the path of a graph walk. `evidence_readers` pairs the name of each
    source that has evidence with a function that returns the evidence.
    """

    source: str = ""
    payload: Any = None
    others: tuple[str, ...] = ()
    evidence_readers: tuple[tuple[str, Callable[[], object]], ...] = ()

    @property
    def evidence(self) -> dict[str, object]:
        """The evidence (such as a graph path) by source name; it is computed when this property is read."""
        return {name: read() for name, read in self.evidence_readers}


Answer: TypeAlias = tuple[Result, list[SelectedHit]]


def select_hits(result: Result, access: HitAccess) -> list[SelectedHit]:
    """Choose a document or node for each id of the result, in order; prefer a text, and then metadata.

    `access` reads the texts and metadata of documents or nodes.
    """
    text, metadata = access.text, access.metadata
    ids, rankings = result.ids, result.candidates.rankings
    weights = (-result.weights).tolist()
    columns = [rankings[column] for column in sorted(range(len(rankings)), key=weights.__getitem__)]
    hits: list[SelectedHit | None] = [None] * len(ids)
    for one in columns:
        for row, payload in enumerate(hits_of(one.payloads, ids)):
            if payload is None:
                continue
            hit = hits[row]
            if hit is None:
                hits[row] = SelectedHit(one.source, payload)
            elif payload is not hit.payload:
                kept, own = text(hit.payload), text(payload)
                if own == kept:
                    said = metadata(payload)
                    better = said and not _PLAIN.issuperset(said) and _PLAIN.issuperset(metadata(hit.payload))
                else:
                    better = not kept
                    if kept and own and not (own.endswith(kept) or kept.endswith(own)):
                        hit.others = (*hit.others, one.source)
                if better:
                    hit.source, hit.payload = one.source, payload
    found = [SelectedHit() if hit is None else hit for hit in hits]
    for one in columns:
        evidence: Mapping[str, object] = getattr(one.payloads, "evidence", {})
        for identifier, hit in zip(ids, found, strict=True) if evidence else ():
            if identifier in evidence:
                hit.evidence_readers += ((one.source, partial(evidence.__getitem__, identifier)),)
    return found


def without_text(result: Result, hits: Sequence[SelectedHit]) -> str:
    """Return the warning that some of the result's passages have no document or node; "" if none is missing."""
    missing = {name for name, hit in zip(result.ids, hits, strict=True) if hit.payload is None}
    if not missing:
        return ""
    named = [one.source for one in result.candidates.rankings if not missing.isdisjoint(one.ids)]
    return (
        f"results without a text: {', '.join(map(repr, sorted(named)))} returned ids of passages that no source has; "
        "make an EntityGraphRetriever of a core source, with documents= (LangChain) or nodes= (LlamaIndex), or give "
        "SourceSpec(retriever=..., fields=HitFields(resolve=...))"
    )


def warn_without_text(result: Result, hits: Sequence[SelectedHit]) -> None:
    """Warn if the result contains ids for which no source has a document or node."""
    said = without_text(result, hits)
    if said:
        warn(said)


def with_text_warnings(result: Result, hits: Sequence[SelectedHit]) -> Result:
    """Add warnings to the result about ids with different texts in several sources, and about missing texts."""
    for hit in hits:
        if hit.others or hit.payload is None:
            break
    else:
        return result
    found = [
        f"id {identifier!r} has different texts in {hit.source} and in {', '.join(hit.others)}: the text of "
        f"{hit.source} is used"
        for identifier, hit in zip(result.ids, hits, strict=True)
        if hit.others
    ]
    said = without_text(result, hits)
    found += [said] if said else []
    return replace(result, warnings=(*result.warnings, *found)) if found else result
