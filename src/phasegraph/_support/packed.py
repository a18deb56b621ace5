"""Sequences of many texts in a single byte array, and lookups of the row (the position) of a text in a sequence."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress, islice, pairwise, starmap
from operator import eq, lt
from typing import Any, SupportsIndex, overload

import numpy as np

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import BoolArray, Int32Array, IntArray
from phasegraph.errors import IntegrityError

_AT_ONCE = 65_536
"""Number of texts that are decoded together in a loop over all texts."""
_MOST_CACHED = 10_000
"""Maximum number of texts in a cache of :class:`NameRows` or :class:`TextRows`; then the cache is emptied."""
_ROWS, _STRIDE = range(2**62), 32


class PackedTexts(Sequence[str]):
    """A sequence of texts that is stored as UTF-8 bytes and the end position of each text.

    The sequence compares equal to the tuple of its texts. `order` is an array of the rows (positions of texts) in
    ascending order of their texts; by default, it is computed when it is needed. `ascends` is True if the texts are
    known to be unique and in ascending order.

    >>> texts = PackedTexts(np.frombuffer("adabo".encode(), dtype=np.uint8), np.array([3, 5]))
    >>> texts, texts[-1], texts == ("ada", "bo")
    (('ada', 'bo'), 'bo', True)
    """

    def __init__(self, text: Any, ends: Any, order: IntArray | None = None, *, ascends: bool = False) -> None:
        self.text, self.ends, self._order, self.ascends = text, ends, order, ascends
        self._bytes, self._ends = memoryview(text), memoryview(ends)

    @overload
    def __getitem__(self, row: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> tuple[str, ...]: ...
    def __getitem__(self, row: SupportsIndex | slice) -> str | tuple[str, ...]:
        if isinstance(row, slice):
            return tuple(self[each] for each in range(*row.indices(len(self))))
        place, count = row.__index__(), len(self._ends)
        if place < 0:
            place += count
        if not 0 <= place < count:
            raise IndexError(f"row {row} does not exist: there are {count} texts")
        return _decoded(self.raw(place))

    def raw(self, row: int) -> bytes:
        """Return the UTF-8 bytes of the text in a row, which must exist."""
        return self._bytes[self._ends[row - 1] if row else 0 : self._ends[row]].tobytes()

    def place(self, text: str, first: int = 0) -> int:
        """Return the position of a text, or the position at which it would be inserted; the texts must ascend.

        The result is ``bisect_left(texts, text, first)``, computed without decoding the texts.
        """
        sought = text.encode("utf-8", "surrogatepass")
        near = bisect_left(self._marks, sought)
        low, high = max(first, (near - 1) * _STRIDE), min(near * _STRIDE, len(self._ends))
        return bisect_left(_ROWS, sought, low, max(low, high), key=self.raw)

    @lazy_property
    def _marks(self) -> list[bytes]:
        """The bytes of every 32nd text, as a list in memory, which a bisection searches first."""
        return self.raws(np.arange(0, len(self._ends), _STRIDE))

    def raws(self, rows: IntArray | Int32Array) -> list[bytes]:
        """Return the UTF-8 bytes of the texts in the given rows, which must exist."""
        ends = np.asarray(self.ends)
        starts = np.where(rows > 0, ends[rows - 1], 0)
        text = self._bytes
        return [text[start:end].tobytes() for start, end in zip(starts.tolist(), ends[rows].tolist(), strict=True)]

    def texts_at(self, rows: IntArray | Int32Array) -> list[str]:
        """Return the texts in the given rows, which must exist; faster than reading them one by one."""
        return list(map(_decoded, self.raws(rows)))

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        start = 0
        for first in range(0, len(self), _AT_ONCE):
            ends = self._ends[first : first + _AT_ONCE].tolist()
            run, base = bytes(self._bytes[start : ends[-1]]), start
            for end in ends:
                yield _decoded(run[start - base : end - base])
                start = end

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | PackedTexts):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self)) if len(self) <= _AT_ONCE else f"<{len(self):,} texts>"

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)

    def edited(self, stays: BoolArray, new: Sequence[tuple[int, str]]) -> PackedTexts:
        """Return a new sequence without the texts whose entry in `stays` is False, and with the texts in `new`.

        `new` contains pairs of a row and a text, in ascending order of rows. Each text is inserted before the old text
        in this row.

        >>> texts = PackedTexts(np.frombuffer(b"adabocy", dtype=np.uint8), np.array([3, 5, 7]))
        >>> texts.edited(np.array([True, False, True]), [(1, "al"), (3, "dee")])
        ('ada', 'al', 'cy', 'dee')
        """
        lengths = np.diff(self.ends, prepend=0)[stays]
        before = np.array([row for row, _ in new], dtype=np.int64)
        events = [(int(row), 1, b"") for row in np.flatnonzero(~stays)]
        events += [(row, 0, text.encode("utf-8", "surrogatepass")) for row, text in new]
        pieces: list[memoryview | bytes] = []
        at = 0
        for row, gone, text in sorted(events, key=lambda each: each[:2]):
            start = self._ends[row - 1] if row else 0
            pieces += [self._bytes[at:start], text]
            at = self._ends[row] if gone else start
        pieces.append(self._bytes[at:])
        places = before - np.concatenate([[0], np.cumsum(~stays)])[before]
        inserted = [len(text) for _, gone, text in sorted(events, key=lambda each: each[:2]) if not gone]
        ends = np.cumsum(np.insert(lengths, places, inserted), dtype=np.int64)
        return PackedTexts(np.frombuffer(b"".join(pieces), dtype=np.uint8), ends, ascends=self.ascends)

    @lazy_property
    def order(self) -> IntArray:
        """The rows in ascending order of their texts, as an array of shape (n,)."""
        return ascending_order(self) if self._order is None else self._order

    def ascend_by(self, rows: IntArray | None = None) -> bool:
        """Return True if the texts are unique and in ascending order.

        `rows` is the order in which the texts are taken; None means their own order. Eight bytes of many texts are
        compared at a time; UTF-8 bytes have the same order as texts.

        Raises
        ------
        IntegrityError
            If the bytes of a text are not UTF-8.

        Examples
        --------
        >>> texts = PackedTexts(np.frombuffer(b"boada", dtype=np.uint8), np.array([2, 5]))
        >>> texts.ascend_by(), texts.ascend_by(np.array([1, 0]))
        (False, True)
        """
        self._check_encoding()
        ends = np.asarray(self.ends, dtype=np.int64)
        starts = np.concatenate([[0], ends[:-1]])
        bytes_, last = _with_tail(np.asarray(self.text)), max(len(self) - 1, 0)
        for first in range(0, last, _AT_ONCE):
            part = slice(first, min(first + _AT_ONCE, last) + 1)
            taken = part if rows is None else rows[part]
            if not _spans_ascend(bytes_, starts[taken], ends[taken]):
                return False
        return True

    def _check_encoding(self) -> None:
        """Raise IntegrityError if a text is not valid UTF-8; the texts are checked without a copy of each text."""
        starts, start = np.asarray(self.ends)[:-1], 0
        inside = starts[starts < len(self.text)]
        if ((self.text[inside] & 0xC0) == 0x80).any():  # a text starts within a character
            for row in range(len(self)):
                self[row]
        for first in range(0, len(self), _AT_ONCE):
            end = self._ends[min(first + _AT_ONCE, len(self)) - 1]
            _decoded(self._bytes[start:end].tobytes())
            start = end


class TextRows(Mapping[str, int]):
    """A mapping of unique texts to their rows, which are found by bisection; the texts may be in any order.

    >>> texts = PackedTexts(np.frombuffer(b"boada", dtype=np.uint8), np.array([2, 5]))
    >>> dict(TextRows(texts)), "cy" in TextRows(texts)
    ({'bo': 0, 'ada': 1}, False)
    """

    def __init__(self, texts: PackedTexts) -> None:
        self.texts, self._order = texts, memoryview(np.ascontiguousarray(texts.order).data)
        self._known: dict[str, int] = {}

    @lazy_property
    def _marks(self) -> list[bytes]:
        return self.texts.raws(np.asarray(self._order)[::_STRIDE])

    def texts_at(self, rows: IntArray | Int32Array) -> list[str]:
        """Return the texts in the given rows, and cache the rows, because searches look up the ids that they read."""
        places, found = rows.tolist(), self.texts.texts_at(rows)
        if len(self._known) + len(found) > _MOST_CACHED:
            self._known.clear()
        self._known.update(islice(zip(found, places, strict=True), _MOST_CACHED))
        return found

    def __getitem__(self, text: str) -> int:
        if isinstance(text, str):
            known = self._known.get(text)
            if known is not None:
                return known
            sought = text.encode("utf-8", "surrogatepass")
            near = bisect_left(self._marks, sought)
            low, high = max(0, (near - 1) * _STRIDE), min(near * _STRIDE, len(self._order))
            place = bisect_left(self._order, sought, low, high, key=self.texts.raw)
            if place < len(self._order):
                row: int = self._order[place]
                if self.texts.raw(row) == sought:
                    return row
        raise KeyError(text)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)


def texts_at(texts: Sequence[str], rows: IntArray | Int32Array) -> list[str]:
    """Return the texts in the given rows of any sequence, by its own method ``texts_at`` if it has one.

    >>> texts_at(("ada", "bo"), np.array([1, 0]))
    ['bo', 'ada']
    """
    own: Callable[[Any], list[str]] | None = getattr(texts, "texts_at", None)
    return [texts[row] for row in rows.tolist()] if own is None else own(rows)


def place_of(names: Sequence[str], name: str, first: int = 0) -> int:
    """Return the row of a name among ascending names, or the row at which the name would be inserted.

    The search begins at the row `first`.

    >>> place_of(("ada", "bo"), "b")
    1
    """
    return names.place(name, first) if isinstance(names, PackedTexts) else bisect_left(names, name, first)


def ascending_order(texts: Sequence[str]) -> IntArray:
    """Return the positions of n texts, sorted by text, as an int32 array of shape (n,)."""
    listed = list(texts)
    return np.array(sorted(range(len(listed)), key=listed.__getitem__), dtype=np.int32)


def ascend(texts: Iterable[str]) -> bool:
    """Return True if the texts are unique and in ascending order.

    >>> ascend(("ada", "bo")), ascend(("ada", "ada"))
    (True, False)
    """
    if isinstance(texts, PackedTexts):
        return texts.ascends or texts.ascend_by()
    return all(starmap(lt, pairwise(texts)))


_WORD = 8
"""Number of bytes that are compared at once."""


def _with_tail(text: Any) -> Any:
    """Return the eight bytes that start at each position of `text`, as integers in native byte order.

    The last position is eight bytes before the end of `text`. A shorter text is first padded with zeros to eight bytes;
    otherwise, the result is a view, not a copy.
    """
    whole = text if len(text) >= _WORD else np.concatenate([text, np.zeros(_WORD, dtype=np.uint8)])
    return np.ndarray((len(whole) - _WORD + 1,), dtype=np.uint64, buffer=whole, strides=(1,))


def _spans_ascend(words: Any, starts: IntArray, ends: IntArray) -> bool:
    """Return True if the texts are unique and ascending; text i has the bytes from ``starts[i]`` to ``ends[i]``.

    `words` is the result of :func:`_with_tail` for the bytes of all texts.
    """
    found, counts = _next_word(words, starts, ends)
    low, high, left, right = found[:-1], found[1:], counts[:-1], counts[1:]
    before, after = (starts[:-1], ends[:-1]), (starts[1:], ends[1:])
    while True:
        tied = low == high
        over = tied & ((left < _WORD) | (right < _WORD))
        if (low > high).any() or (left >= right)[over].any():
            return False
        more = np.flatnonzero(tied & ~over)
        if not len(more):
            return True
        before, after = ((start[more] + _WORD, end[more]) for start, end in (before, after))
        (low, left), (high, right) = _next_word(words, *before), _next_word(words, *after)


def _next_word(words: Any, starts: IntArray, ends: IntArray) -> tuple[Any, IntArray]:
    """Return two arrays: the first eight bytes of each text as an integer, and the number of these bytes.

    See :func:`_spans_ascend` for the arguments. Missing bytes are zeros. The first byte is the most significant
    byte, so the integers have the same order as the bytes.
    """
    count = np.minimum(ends - starts, _WORD)
    places = np.minimum(starts, len(words) - 1)
    found = words[places]
    if sys.byteorder == "little":
        found.byteswap(inplace=True)
    found <<= ((starts - places) * _WORD).astype(np.uint64)
    unused = ((_WORD - count) * _WORD).astype(np.uint64)
    return found >> unused << unused, count


def _decoded(found: bytes) -> str:
    try:
        return str(found, "utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise IntegrityError(
            f"a saved name or id is not valid text ({error}), so a file of the saved data is damaged: restore the "
            "folder, or build it again"
        ) from error


class NameRows(Mapping[str, int]):
    """A mapping of names in ascending order to their rows.

    >>> dict(NameRows(("ada", "bo")))
    {'ada': 0, 'bo': 1}
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._begun: dict[str, tuple[int, bool, bool]] = {}

    def begun(self, text: str, first: int = 0) -> tuple[int, bool, bool]:
        """Return a tuple: the row of a text, whether a name begins with the text, and whether the text is a name.

        If the text is not a name, the row is the row at which the text would be inserted. The search begins at the row
        `first`. Results are cached, because many questions contain the same words.

        >>> NameRows(("ada", "bo")).begun("b")
        (1, True, False)
        """
        found = self._begun.get(text)
        if found is None:
            row = place_of(self.names, text, first)
            name = self.names[row] if row < len(self.names) else None
            if len(self._begun) >= _MOST_CACHED:
                self._begun.clear()
            found = self._begun[text] = row, name is not None and name.startswith(text), name == text
        return found

    def __getitem__(self, name: str) -> int:
        row = place_of(self.names, name)
        if row == len(self.names) or self.names[row] != name:
            raise KeyError(name)
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class ChangedRows(Mapping[str, int]):
    """A mapping of texts to rows after a change: the texts in `gone` are removed, the texts in `came` are added.

    >>> dict(ChangedRows({"a": 0, "b": 1}, {"a"}, {"c": 2, "a": 3}))
    {'b': 1, 'c': 2, 'a': 3}
    """

    def __init__(self, rows: Mapping[str, int], gone: Collection[str], came: Mapping[str, int]) -> None:
        self._rows, self._gone, self._came = rows, gone, came

    def __getitem__(self, text: str) -> int:
        row = self._came.get(text)
        if row is None:
            if text in self._gone:
                raise KeyError(text)
            row = self._rows[text]
        return row

    def __iter__(self) -> Iterator[str]:
        yield from (text for text in self._rows if text not in self._gone)
        yield from self._came

    def __len__(self) -> int:
        return len(self._rows) - len(self._gone) + len(self._came)


class ChangedNames(NameRows):
    """A mapping of names to rows after a change: `gone` are the removed names, and `came` maps added names to rows.

    The mapping has the methods of :class:`NameRows`. `parts` contains two sequences, which are searched by bisection:
    the old names and the added names, both ascending.
    """

    def __init__(self, names: Sequence[str], came: Mapping[str, int], gone: Collection[str]) -> None:
        super().__init__(names)
        self.gone, self._came = gone, came
        self.parts = NameRows(names), NameRows(tuple(sorted(came)))

    def __getitem__(self, name: str) -> int:
        row = self._came.get(name)
        if row is None:
            if name in self.gone:
                raise KeyError(name)
            row = super().__getitem__(name)
        return row

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in self.names if name not in self.gone)
        yield from self._came

    def __len__(self) -> int:
        return len(self.names) - len(self.gone) + len(self._came)


def merged_names(old: Sequence[str], alive: BoolArray, new: Iterable[str]) -> tuple[Sequence[str], IntArray]:
    """Merge old and new names in ascending order; old names with the entry False in `alive` are removed.

    Return the merged names, and an array with the new row of each old name, which is -1 for a removed name.

    >>> merged_names(("ada", "bo", "dee"), np.array([True, False, True]), ["cy", "ada"])
    (('ada', 'cy', 'dee'), array([ 0, -1,  2]))
    """
    fresh, revived = [], alive.copy()
    for name in new:
        row = place_of(old, name)
        if row < len(old) and old[row] == name:
            revived[row] = True
        else:
            fresh.append((row, name))
    fresh.sort()
    names: Sequence[str]
    if isinstance(old, PackedTexts):
        names = old.edited(revived, fresh) if fresh or not revived.all() else old
    else:
        kept = old if revived.all() else tuple(compress(old, revived.tolist()))
        names = tuple(sorted([*kept, *(name for _, name in fresh)])) if fresh else kept
    before = np.searchsorted([row for row, _ in fresh], np.arange(len(old)), side="right")
    return names, np.where(revived, np.cumsum(revived) - 1 + before, -1)
