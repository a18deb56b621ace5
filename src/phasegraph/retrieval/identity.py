"""Determine the ids of hits: their own ids, ids from their metadata, or ids made from their texts."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from phasegraph._support.text import composed
from phasegraph.errors import InvalidInputError, warn
from phasegraph.retrieval.once import Once

ID_KEYS = ("_id", "id", "pk", "chunk_id", "doc_id", "source_id")

_HASH_LENGTH = 32

_TEXT_ID = re.compile(f"text-[0-9a-f]{{{_HASH_LENGTH}}}")


def text_id(text: str, /) -> str:
    """Return a stable id made from a text: ``text-`` and 32 hexadecimal digits.

    Two texts have the same id if they are equal after Unicode normalization (NFC), with every run of white space
    replaced by one blank.

    >>> text_id("one  two ") == text_id("one two")
    True
    """
    normal = " ".join(composed(text).split())
    digest = hashlib.sha256(normal.encode("utf-8", "surrogatepass")).hexdigest()
    return f"text-{digest[:_HASH_LENGTH]}"


def is_text_id(identifier: str, /) -> bool:
    """Return True if the id was made by :func:`text_id`.

    >>> is_text_id(text_id("one two")), is_text_id("text-book")
    (True, False)
    """
    return identifier.startswith("text-") and _TEXT_ID.fullmatch(identifier) is not None


def resolve_id(
    own: object, metadata: Mapping[str, object], text: str, /, refused: Collection[str] = ()
) -> tuple[str, str]:
    """Return the id of a hit, and its origin: ``"own"``, ``"text"``, or the metadata key that contains the id.

    The id that the hit carries comes first, then the first of the :data:`ID_KEYS` in its metadata, then an id made from
    its text. Metadata keys in `refused` are skipped, because the same value under such a key belongs to several
    passages.

    >>> resolve_id(None, {"pk": 7}, "some text")
    ('7', 'pk')
    """
    if type(own) is str and own.strip():
        return own, "own"
    for origin, value in (("own", own), *((key, metadata.get(key)) for key in ID_KEYS if key not in refused)):
        if value is None or isinstance(value, bool | float):
            continue
        if (isinstance(value, str | int) or hasattr(value, "hex")) and str(value).strip():
            return str(value), origin
    return text_id(text), "text"


class _Ids(list[str]):
    """A list of the ids of hits, with the set `derived` of the ids that were read from metadata."""

    def __init__(self, ids: Sequence[str], derived: frozenset[str]) -> None:
        super().__init__(ids)
        self.derived = derived


class Identities:
    """A reader of the ids of one source's hits; it warns once if texts have to serve as ids.

    >>> Identities("vector").read(["a", None], lambda row: ({"pk": "b"}, "text"), notes := [])
    ['a', 'b']
    >>> notes
    ["ids of 1 of 2 hits from metadata key 'pk'"]
    """

    __slots__ = ("_once", "_refused", "_source")

    def __init__(self, source: str) -> None:
        self._source, self._once = source, Once()
        self._refused: set[str] = set()

    def read(
        self,
        own: Sequence[object],
        details: Callable[[int], tuple[Mapping[str, object], str]],
        notes: list[str],
        advice: str | None = None,
    ) -> list[str]:
        """Return an id for each hit: its own id, or an id from its metadata or its text.

        `own` contains each hit's own id, or None if the hit has none. `notes` receives the origin of all other ids.
        ``details(row) -> (metadata, text)`` is called only for hits without an own id. Warn once per source if an id is
        made from a text. Also warn once per metadata key that gives the same id to different texts; such a key often
        contains the id of a whole document. `advice` ends the warning about texts as ids; None means how to give ids.
        """
        if set(map(type, own)) == {str} and "" not in own:
            return list(own)  # type: ignore[arg-type]
        hits = [
            (value, *(({}, "") if resolve_id(value, {}, "")[1] == "own" else details(row)))
            for row, value in enumerate(own)
        ]
        found = self._resolved(hits)
        ids = [identifier for identifier, _ in found]
        counts = Counter(origin for _, origin in found if origin != "own")
        if counts.get("text"):
            self._once.warn(
                f"source {self._source!r} returns hits without an id: their texts serve as ids, also to join them "
                f"with hits of other sources; {advice or 'give the hits ids, or set fields=HitFields(id=...)'}",
                key="no id",
            )
        for origin, count in counts.items():
            where = "their text" if origin == "text" else f"metadata key {origin!r}"
            notes.append(f"ids of {count} of {len(ids)} hits from {where}")
        return _Ids(ids, frozenset(one for one, origin in found if origin not in ("own", "text")))

    def learn(self, corpus: Iterable[Held]) -> list[str]:
        """Return the ids of a source's whole corpus, and remember which metadata keys do not identify passages.

        Raise InvalidInputError if two passages have the same own id.
        """
        rows = list(corpus)
        _refuse_repeated(f"source {self._source!r}", rows)
        return [identifier for identifier, _ in self._resolved(rows)]

    def _resolved(self, hits: Sequence[Held]) -> list[tuple[str, str]]:
        return _resolved(f"source {self._source!r}", hits, self._refused)

    def repeated(self, ids: Sequence[str], text: Callable[[int], str], notes: list[str]) -> None:
        """Add a note, and warn once, if an answer has different texts under one id; only the best hit counts.

        `ids` are the ids of the hits, best first. ``text(row)`` returns the text of the hit at position `row`.
        """
        first: dict[str, str] = {}
        for row, identifier in enumerate(ids):
            held = first.setdefault(identifier, text(row))
            if held is not text(row) and text_id(held) != text_id(text(row)):
                said = f"different texts under one id ({identifier!r}), and only the best of these hits is used"
                notes.append(said)
                self._once.warn(
                    f"source {self._source!r} returns {said}; give each passage its own id", key="repeated id"
                )
                return


def corpus_ids(corpus: Iterable[Held], what: str) -> list[str]:
    """Return the id of each passage; a passage that carries no id gets its id from its metadata or text.

    A passage is a tuple (id or None, metadata, text). Passages without an id that have the same text get the same id,
    with a warning. Raise InvalidInputError if two passages have the same own id. If a metadata key gives the same id to
    different texts, the key is ignored, with a warning; it may contain the id of a document. `what` names the argument
    in messages.

    >>> corpus_ids([("a", {}, "one"), (None, {"pk": 2}, "two")], "documents")
    ['a', '2']
    """
    rows = list(corpus)
    _refuse_repeated(what, rows)
    found = _resolved(what, rows, set())
    ids = [identifier for identifier, _ in found]
    twice = len(ids) - len(set(ids))
    if twice:
        warn(
            f"{what}: {twice} of {len(ids)} have no id and repeat the text of another passage; only the first copy is "
            "kept"
        )
    return ids


Held: TypeAlias = tuple[object, Mapping[str, object], str]
"""A passage as a tuple: the id that it carries or None, its metadata and its text."""


def _refuse_repeated(what: str, rows: Iterable[Held]) -> None:
    """Raise InvalidInputError if two passages have the same own id; the message starts with `what`."""
    counts = Counter(found for found, origin in (resolve_id(own, {}, "") for own, _, _ in rows) if origin == "own")
    repeated = [one for one, count in counts.items() if count > 1]
    if repeated:
        raise InvalidInputError(
            f"{what}: id {repeated[0]!r} is repeated ({counts[repeated[0]]} passages): give each passage its own id"
            + (f"; {len(repeated) - 1} other ids are repeated" if len(repeated) > 1 else "")
        )


def _resolved(what: str, rows: Sequence[Held], refused: set[str]) -> list[tuple[str, str]]:
    """Return a pair (id, its origin) for each passage; the origins are those of :func:`resolve_id`.

    Metadata keys in `refused` are not used. A key that gives one id to different texts is added to `refused`, with a
    warning that starts with `what`.
    """
    found = [resolve_id(*row, refused) for row in rows]
    first: dict[tuple[str, str], str] = {}
    repeated: dict[str, str] = {}
    for (identifier, origin), (_, _, text) in zip(found, rows, strict=True):
        if origin in ("own", "text") or origin in repeated:
            continue
        held = first.setdefault((identifier, origin), text)
        if held is not text and text_id(held) != text_id(text):
            repeated[origin] = identifier
    if not repeated:
        return found
    for key, example in repeated.items():
        warn(
            f"{what}: metadata {key!r} gives one id to different texts ({example!r}), perhaps the id of their "
            "document: ids from the texts are used instead; give each passage its own id"
        )
    refused.update(repeated)
    return _resolved(what, rows, refused)
