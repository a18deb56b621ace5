"""Which hit is which: ids, the framework's own objects by id, and passages that hits only name."""

from __future__ import annotations

import hashlib
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from phasegraph.errors import InvalidTypeError, PhasegraphWarning
from phasegraph.ranking import Ranking

ID_KEYS = ("_id", "id", "pk", "chunk_id", "doc_id", "source_id")
_HASH_LENGTH = 32


def text_id(text: str, /) -> str:
    """A stable id for a text that has none.

    Parameters
    ----------
    text : str
        Compared after Unicode normalisation (NFC) and with every run of white space as one blank.

    Returns
    -------
    str
        ``text-`` and 32 hexadecimal digits.

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
    found = _usable(own)
    if found is not None:
        return found, "own"
    for key in ID_KEYS:
        found = _usable(metadata.get(key))
        if found is not None:
            return found, key
    return text_id(text), "text"


class Identities:
    """Reads the ids of one source's hits, and says once when it has to fall back on their text.

    Parameters
    ----------
    source : str
        Name of the source, for the warning.

    Examples
    --------
    >>> Identities("vector").read(["a", None], lambda row: ({"pk": "b"}, "text"))
    (['a', 'b'], ("ids of 1 of 2 hits from metadata key 'pk'",))
    """

    __slots__ = ("_source", "_warned")

    def __init__(self, source: str) -> None:
        self._source = source
        self._warned = False

    def read(
        self, own: Sequence[object], details: Callable[[int], tuple[Mapping[str, object], str]]
    ) -> tuple[list[str], tuple[str, ...]]:
        """Ids of the hits, and notes on those that carry none.

        Parameters
        ----------
        own : (n,) sequence of object
            The id each hit carries, or None.
        details : callable
            ``details(row) -> (metadata, text)``; only called for hits that carry no id.

        Returns
        -------
        (list of str, tuple of str)

        Warns
        -----
        PhasegraphWarning
            Once per source, when an id is made from a text.
        """
        if set(map(type, own)) == {str} and "" not in own:
            return list(own), ()  # type: ignore[arg-type]
        ids: list[str] = []
        counts: dict[str, int] = {}
        for row, value in enumerate(own):
            found = _usable(value)
            if found is None:
                found, origin = resolve_id(None, *details(row))
                counts[origin] = counts.get(origin, 0) + 1
            ids.append(found)
        if counts.get("text") and not self._warned:
            self._warned = True
            warnings.warn(
                f"source {self._source!r} returns hits without an id: their text is hashed in its place, so a passage "
                "whose text differs between sources counts as two; give ids, or an id_fn",
                PhasegraphWarning,
                stacklevel=3,
            )
        return ids, tuple(_note(origin, count, len(ids)) for origin, count in counts.items())


def _note(origin: str, count: int, total: int) -> str:
    where = "a hash of their text" if origin == "text" else f"metadata key {origin!r}"
    return f"ids of {count} of {total} hits from {where}"


def _usable(value: object) -> str | None:
    if value is None or isinstance(value, bool | float):
        return None
    if isinstance(value, str | int) or hasattr(value, "hex"):
        text = str(value)
        return text if text.strip() else None
    return None


Hit = TypeVar("Hit")


class Payloads(Mapping[str, Hit], Generic[Hit]):
    """Hits by id, the first of each; indexed when first asked.

    Parameters
    ----------
    ids : (n,) sequence of str
    hits : (n,) sequence

    Examples
    --------
    >>> Payloads(["a", "b", "a"], [1, 2, 3])["a"]
    1
    """

    __slots__ = ("_hits", "_ids", "_index", "_row_of")

    def __init__(self, ids: Sequence[str], hits: Sequence[Hit]) -> None:
        self._ids = ids
        self._hits = hits
        self._index: dict[str, Hit] | None = None
        self._row_of: Callable[..., int | None] | None = None

    def follow(self, ranking: Ranking) -> None:
        """Find the hits by the rows of `ranking`, whose order is theirs: no index of their own is needed."""
        self._row_of = ranking.row_of

    def get(self, identifier: str, default: Any = None, /) -> Any:
        """The hit, or `default`."""
        if self._row_of is None:
            return self.by_id.get(identifier, default)
        row = self._row_of(identifier)
        return default if row is None else self._hits[row]

    @property
    def by_id(self) -> dict[str, Hit]:
        """The hits as a plain dictionary."""
        if self._index is None:
            self._index = dict(zip(reversed(self._ids), reversed(self._hits), strict=True))
        return self._index

    def __getitem__(self, identifier: str) -> Hit:
        return self.by_id[identifier]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)


def by_id(ids: Sequence[str], found: object, unpack: Callable[[Any], Iterable[Any]]) -> dict[str, Any]:
    """The passages that there are, by id.

    Parameters
    ----------
    ids : (n,) sequence of str
    found : mapping or sequence
        By id, or one per id in the same order; None for those that are not there.
    unpack : callable
        The framework's own reading of an answer that is neither.

    Raises
    ------
    InvalidTypeError
        If there are more or fewer than ids.

    Examples
    --------
    >>> by_id(["a", "b"], ["text", None], list)
    {'a': 'text'}
    """
    if isinstance(found, Mapping):
        return {str(key): value for key, value in found.items() if value is not None}
    values = list(found) if isinstance(found, list | tuple) else list(unpack(found))
    if len(values) != len(ids):
        raise InvalidTypeError(
            f"malformed: resolve must give one passage per id, or a mapping; got {len(values)} for {len(ids)}"
        )
    return {key: value for key, value in zip(ids, values, strict=True) if value is not None}


def note_missing(ids: Sequence[str], found: Mapping[str, Any], notes: list[str]) -> None:
    """Note how many ids were given no passage."""
    missing = sum(one not in found for one in ids)
    if missing:
        notes.append(f"resolve gave no passage for {missing} of {len(ids)} ids")
