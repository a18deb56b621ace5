"""Whole documents in place of the passages that stand for them in an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from phasegraph.errors import InvalidInputError, warn
from phasegraph.retrieval.answer import SelectedHit
from phasegraph.retrieval.framework import Framework, HitFilter, HitLookup
from phasegraph.retrieval.kept import KeptPassages

_SHORTEST, _LONGEST = 8, 4000
"""Characters that two chunks in a row may have in common, as splitters with an overlap leave them."""
_PLACES = ("start_index", "start_char_idx")
"""Metadata keys under which the splitters of the frameworks keep where a chunk begins."""


@dataclass(frozen=True, slots=True)
class Parents:
    """The text of the document that each hit of an answer belongs to.

    Parameters
    ----------
    framework : Framework
    key : str
        Metadata key that names a hit's document.
    look_up : HitLookup
        Documents by name; where it has none of its own, the passages of the retriever's corpus make up the document.
    """

    framework: Framework
    key: str
    look_up: HitLookup

    def resolve(self, hits: Sequence[SelectedHit], wanted: HitFilter | None, kept: KeptPassages) -> list[SelectedHit]:
        """The hits with the texts of their documents.

        A filter holds for the documents, and for each passage that a document is made up of. Where no text is left, a
        warning says so and the hit keeps its own text.
        """
        names = [None if one.payload is None else self._document(one.payload) for one in hits]
        known = list(dict.fromkeys(name for name in names if name is not None))
        texts = self._texts(known, wanted, kept) if known else {}
        lacking = [name for name in known if name not in texts]
        if lacking:
            warn(
                f"parents: no text of the {len(lacking)} documents {', '.join(map(repr, lacking[:5]))} that the "
                "filters let through; their best passages stay",
                stacklevel=4,
            )
        return [
            replace(one, payload=self.framework.with_text(one.payload, texts[name])) if name in texts else one
            for one, name in zip(hits, names, strict=True)
        ]

    def _document(self, hit: Any) -> str | None:
        value = hit.metadata.get(self.key)
        return None if value is None else str(value)

    def _texts(self, names: Sequence[str], wanted: HitFilter | None, kept: KeptPassages) -> dict[str, str]:
        if self.look_up.is_set:
            held = self.look_up(names)
            return {name: self.framework.text_of(one) for name, one in self._allowed(held, wanted).items()}
        if kept._corpus is None:
            raise InvalidInputError(
                "parents=True makes documents up of the passages of the retriever, and this one was made of sources of "
                "yours: give parents= the documents by name, a docstore or a function"
            )
        return self._made_up(names, wanted, kept)

    def _made_up(self, names: Sequence[str], wanted: HitFilter | None, kept: KeptPassages) -> dict[str, str]:
        """The documents as their passages make them up."""
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
    """Chunks by where they begin in their document, if all of them say it; else as they came."""
    for key in _PLACES:
        places = [_place(one, key) for one in chunks]
        if all(isinstance(one, int) for one in places):
            return [chunks[row] for row in sorted(range(len(chunks)), key=places.__getitem__)]
    return chunks


def _place(chunk: Any, key: str) -> Any:
    found = chunk.metadata.get(key)
    return getattr(chunk, key, None) if found is None else found


def joined_chunks(texts: Sequence[str]) -> str:
    r"""The chunks of a document in one text, without what the end of one and the beginning of the next share.

    >>> joined_chunks(["Ada met Bo in Oslo.", "Bo in Oslo. Cy sang.", "Dee slept."])
    'Ada met Bo in Oslo. Cy sang.\n\nDee slept.'
    """
    whole = ""
    for text in texts:
        most = min(len(whole), len(text), _LONGEST)
        shared = next((size for size in range(most, _SHORTEST - 1, -1) if whole.endswith(text[:size])), 0)
        whole += text[shared:] if shared or not whole else f"\n\n{text}"
    return whole
