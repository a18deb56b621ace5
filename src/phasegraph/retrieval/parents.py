"""Replace the texts of an answer's passages by the texts of their whole documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from phasegraph.errors import InvalidInputError, warn
from phasegraph.retrieval.answer import SelectedHit
from phasegraph.retrieval.framework import Framework, HitFilter, HitLookup
from phasegraph.retrieval.kept import KeptPassages

_SHORTEST, _LONGEST = 8, 4000
"""Minimum and maximum length, in characters, of the text that consecutive chunks share and that joining removes."""
_PLACES = ("start_index", "start_char_idx")
"""The metadata keys under which the frameworks' text splitters store the position of a chunk in its document."""


@dataclass(frozen=True, slots=True)
class Parents:
    """The settings for replacing the text of each hit by the text of its document.

    Parameters
    ----------
    framework : Framework
        The operations on the framework's documents or nodes.
    key : str
        Metadata key that names a hit's document.
    look_up : HitLookup
        A lookup of documents by name. If it is not set, a document is joined from its passages in the retriever's
        corpus.
    """

    framework: Framework
    key: str
    look_up: HitLookup

    def resolve(self, hits: Sequence[SelectedHit], wanted: HitFilter | None, kept: KeptPassages) -> list[SelectedHit]:
        """Return the hits with the texts of their documents.

        The filter `wanted` applies to the documents, and to each passage from which a document is joined. If no text of
        a document matches the filter, the hit keeps its own text, with a warning. `kept` is the retriever.
        """
        names = [None if one.payload is None else self._document(one.payload) for one in hits]
        known = list(dict.fromkeys(name for name in names if name is not None))
        texts = self._texts(known, wanted, kept) if known else {}
        lacking = [name for name in known if name not in texts]
        if lacking:
            warn(
                f"parents: {len(lacking)} documents have no text, or no text that matches the filters: "
                f"{', '.join(map(repr, lacking[:5]))}; the answer contains their passages instead"
            )
        return [
            replace(one, payload=self.framework.with_text(one.payload, texts[name])) if name in texts else one
            for one, name in zip(hits, names, strict=True)
        ]

    def _document(self, hit: Any) -> str | None:
        value = self.framework.metadata_of(hit).get(self.key)
        return None if value is None else str(value)

    def _texts(self, names: Sequence[str], wanted: HitFilter | None, kept: KeptPassages) -> dict[str, str]:
        if self.look_up.is_set:
            held = self.look_up(names)
            return {name: self.framework.text_of(one) for name, one in self._allowed(held, wanted).items()}
        if kept._corpus is None:
            raise InvalidInputError(
                "parents=True joins documents from the passages that the retriever owns, but this retriever wraps your "
                "own sources: give parents= a mapping of names to documents, a docstore or a function"
            )
        return self._made_up(names, wanted, kept)

    def _made_up(self, names: Sequence[str], wanted: HitFilter | None, kept: KeptPassages) -> dict[str, str]:
        """Return, by name, the text of each document in `names`, joined from its passages that match the filter.

        The passages are in the corpus of the retriever `kept`. A document without a matching passage is left out.
        """
        corpus = kept._corpus
        members = kept._members(corpus.seen.index, self.key)
        found = {}
        for name in names:
            records = corpus.records(members.get(name, ()))
            chunks = self._allowed({one: self.framework.of_record(record) for one, record in records.items()}, wanted)
            if chunks:
                found[name] = joined_chunks([self.framework.text_of(one) for one in _in_order(list(chunks.values()))])
        return found

    @staticmethod
    def _allowed(held: Mapping[str, Any], wanted: HitFilter | None) -> dict[str, Any]:
        if wanted is None:
            return dict(held)
        names, hits = list(held), list(held.values())
        return {names[row]: hits[row] for row in sorted(wanted.rows(hits))}


def _in_order(chunks: list[Any]) -> list[Any]:
    """Sort chunks by their position in the document, if all chunks store a position; otherwise keep their order."""
    for key in _PLACES:
        places = [_place(one, key) for one in chunks]
        if all(isinstance(one, int) for one in places):
            return [chunks[row] for row in sorted(range(len(chunks)), key=places.__getitem__)]
    return chunks


def _place(chunk: Any, key: str) -> Any:
    found = chunk.metadata.get(key)
    return getattr(chunk, key, None) if found is None else found


def joined_chunks(texts: Sequence[str]) -> str:
    r"""Join the chunks of a document into one text, without the overlaps of consecutive chunks.

    >>> joined_chunks(["Ada met Bo in Oslo.", "Bo in Oslo. Cy sang.", "Dee slept."])
    'Ada met Bo in Oslo. Cy sang.\n\nDee slept.'
    """
    whole = ""
    for text in texts:
        most = min(len(whole), len(text), _LONGEST)
        shared = next((size for size in range(most, _SHORTEST - 1, -1) if whole.endswith(text[:size])), 0)
        whole += text[shared:] if shared or not whole else f"\n\n{text}"
    return whole
