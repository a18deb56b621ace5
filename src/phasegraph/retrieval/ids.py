"""Which hit is which: the id a hit carries, else a known metadata key, else its text."""

from __future__ import annotations

import hashlib
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from phasegraph.errors import PhasegraphWarning
from phasegraph.ranking import Ranking

ID_KEYS = ("_id", "id", "pk", "chunk_id", "doc_id", "source_id")
_HASH_LENGTH = 32


def text_id(text: str, /) -> str:
    """A stable id for a text that has none: ``text-`` and 32 hexadecimal digits.

    Texts are compared after Unicode normalisation (NFC) and with every run of white space as one blank.

    Examples
    --------
    >>> text_id("one  two ") == text_id("one two")
    True
    """
    normal = " ".join(unicodedata.normalize("NFC", text).split())
    digest = hashlib.sha256(normal.encode("utf-8", "surrogatepass")).hexdigest()
    return f"text-{digest[:_HASH_LENGTH]}"


def resolve_id(own: object, metadata: Mapping[str, object], text: str, /) -> tuple[str, str]:
    """The id of one hit, and where it came from.

    Parameters
    ----------
    own : object
        The id that the document or node carries, or None.
    metadata : mapping
        Looked through for :data:`ID_KEYS`, in their order.
    text : str
        Hashed where nothing else is there.

    Returns
    -------
    (str, str)
        The id, and ``"own"``, the metadata key, or ``"text"``.

    Examples
    --------
    >>> resolve_id(None, {"pk": 7}, "some text")
    ('7', 'pk')
    """
    for origin, value in (("own", own), *((key, metadata.get(key)) for key in ID_KEYS)):
        if value is None or isinstance(value, bool | float):
            continue
        if (isinstance(value, str | int) or hasattr(value, "hex")) and str(value).strip():
            return str(value), origin
    return text_id(text), "text"


class Payloads(Mapping[str, Any]):
    """The framework's own hits by id, the first of each, and what the source says of how it found them.

    Parameters
    ----------
    ids : (n,) sequence of str
    hits : (n,) sequence
    evidence : mapping of str to object
        By id.
    from_text : bool
        Whether some of the ids are made from texts.

    Examples
    --------
    >>> Payloads(["a", "b", "a"], [1, 2, 3])["a"]
    1
    """

    __slots__ = ("_hits", "_ids", "_index", "_ranking", "evidence", "from_text")

    def __init__(
        self,
        ids: Sequence[str],
        hits: Sequence[Any],
        evidence: Mapping[str, object] | None = None,
        *,
        from_text: bool = False,
    ) -> None:
        self._ids = ids
        self._hits = hits
        self._index: dict[str, Any] | None = None
        self._ranking: Ranking | None = None
        self.evidence: Mapping[str, object] = {} if evidence is None else evidence
        self.from_text = from_text

    def __reduce__(self) -> tuple[object, ...]:
        return _payloads, (list(self._ids), list(self._hits), dict(self.evidence), self.from_text)

    def follow(self, ranking: Ranking) -> None:
        """Find the hits by the rows of `ranking`, whose order is theirs: no index of their own is needed."""
        self._ranking = ranking

    def get(self, identifier: str, default: Any = None, /) -> Any:
        """The hit, or `default`."""
        if self._ranking is None:
            return self.by_id.get(identifier, default)
        row = self._ranking.row_of(identifier)
        return default if row is None else self._hits[row]

    @property
    def by_id(self) -> dict[str, Any]:
        """The hits as a plain dictionary."""
        if self._index is None:
            self._index = dict(zip(reversed(self._ids), reversed(self._hits), strict=True))
        return self._index

    def __getitem__(self, identifier: str) -> Any:
        return self.by_id[identifier]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)


def _payloads(ids: list[str], hits: list[Any], evidence: dict[str, object], from_text: bool) -> Payloads:
    return Payloads(ids, hits, evidence, from_text=from_text)


class Identities:
    """Reads the ids of one source's hits, and says once when it has to fall back on their text.

    Parameters
    ----------
    source : str
        Name of the source, for the warning.

    Examples
    --------
    >>> Identities("vector").read(["a", None], lambda row: ({"pk": "b"}, "text"), notes := [])
    ['a', 'b']
    >>> notes
    ["ids of 1 of 2 hits from metadata key 'pk'"]
    """

    __slots__ = ("_source", "_warned")

    def __init__(self, source: str) -> None:
        self._source = source
        self._warned = False

    def read(
        self,
        own: Sequence[object],
        details: Callable[[int], tuple[Mapping[str, object], str]],
        notes: list[str],
    ) -> list[str]:
        """Ids of the hits; what those that carry none were given is added to `notes`.

        Parameters
        ----------
        own : (n,) sequence of object
            The id each hit carries, or None.
        details : callable
            ``details(row) -> (metadata, text)``; only called for hits that carry no id.
        notes : list of str

        Warns
        -----
        PhasegraphWarning
            Once per source, when an id is made from a text.
        """
        if set(map(type, own)) == {str} and "" not in own:
            return list(own)  # type: ignore[arg-type]
        ids: list[str] = []
        counts: dict[str, int] = {}
        for row, value in enumerate(own):
            found, origin = resolve_id(value, {}, "") if value is not None else ("", "text")
            if origin == "text":
                found, origin = resolve_id(None, *details(row))
                counts[origin] = counts.get(origin, 0) + 1
            ids.append(found)
        if counts.get("text") and not self._warned:
            self._warned = True
            warnings.warn(
                f"source {self._source!r} returns hits without an id: they are told apart, and joined with those of "
                "other sources, by their text; give them ids, or fields=HitFields(id=...)",
                PhasegraphWarning,
                stacklevel=3,
            )
        for origin, count in counts.items():
            where = "their text" if origin == "text" else f"metadata key {origin!r}"
            notes.append(f"ids of {count} of {len(ids)} hits from {where}")
        return ids


def join_by_text(
    rankings: Sequence[Ranking], text: Callable[[Any], str]
) -> tuple[tuple[Ranking, ...], dict[str, list[str]]]:
    """Hits whose id is made from their text take the id of another source's hit that has the same text.

    Parameters
    ----------
    rankings : sequence of Ranking
    text : callable
        Text of a payload.

    Returns
    -------
    (tuple of Ranking, dict of str to list of str)
        The rankings in their order, and what to note of each source. Where several ids have the same text, the first
        of them in alphabetical order is taken: the outcome does not depend on the order of the sources.
    """
    nameless = [one for one in rankings if getattr(one.payloads, "from_text", False)]
    if not nameless or len(rankings) < 2:
        return tuple(rankings), {}
    named: dict[str, str] = {}
    for ranking in rankings:
        for identifier, hit in ranking.payloads.items():
            held = text(hit)
            made = text_id(held) if held else identifier
            if made != identifier and identifier < named.get(made, "\U0010ffff"):
                named[made] = identifier
    out, notes = [], {}
    for ranking in rankings:
        taken = {one: named[one] for one in ranking.ids if one in named} if ranking in nameless else {}
        if not taken:
            out.append(ranking)
            continue
        ids = [taken.get(one, one) for one in ranking.ids]
        hits = [ranking.payloads[one] for one in ranking.ids]
        payloads = Payloads(ids, hits, getattr(ranking.payloads, "evidence", None), from_text=True)
        out.append(replace(ranking, ids=tuple(ids), payloads=payloads))
        notes[ranking.source] = [
            f"{len(taken)} of {len(ids)} hits without an id joined to other sources' by their text"
        ]
    return tuple(out), notes
