"""The stored records of passages; a record is parsed when it is read, so a large corpus opens quickly."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasegraph._support.serialization import MISFITS, StreamedArray, check_mapped, mapped_in
from phasegraph.errors import IntegrityError, InvalidInputError, InvalidTypeError
from phasegraph.graph.model.building import texts_of
from phasegraph.graph.model.entity_graph import Extraction
from phasegraph.graph.model.storage import offsets

_RUN = 4 * 1024**2
"""Approximate number of bytes of records that are written at a time."""
MOST_READ = 20_000
"""Maximum number of parsed records that are cached."""
_PLAIN = frozenset({str, int, bool, NoneType})
_FIELDS = ("entities", "triples", "titles", "lead")


@dataclass(frozen=True, slots=True)
class PassageRecord:
    """A passage of an index, with its extractions and metadata.

    Parameters
    ----------
    id, title, text : str
        Id, title and text of the passage.
    found : Extraction
        The extraction of the default extractor, with the names that it found in the passage.
    given : tuple of Extraction
        Extractions that the caller supplied, such as triples of a language model.
    metadata : mapping of str to value
        The metadata of the document.
    """

    id: str
    title: str
    text: str
    found: Extraction
    given: tuple[Extraction, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def extractions(self) -> tuple[Extraction, ...]:
        """All extractions of the passage: `found`, by the default extractor, then `given`, by the caller."""
        return (self.found, *self.given)

    @property
    def content(self) -> str:
        """The title and the text as a single text, whose words the BM25 index counts."""
        return texts_of([(self.id, self.title, self.text)])[0]

    def line(self) -> bytes:
        """Convert the record to a line of JSON.

        Raises
        ------
        InvalidInputError
            If JSON cannot represent the metadata.
        """
        found, *given = ({key: getattr(one, key) for key in _FIELDS} for one in (self.found, *self.given))
        state: dict[str, Any] = {"id": self.id, "title": self.title, "text": self.text, "found": found, "given": given}
        if self.metadata:
            state["metadata"] = check_plain(self.id, self.metadata)
        return json.dumps(state, ensure_ascii=True).encode()

    @classmethod
    def of_line(cls, line: bytes) -> PassageRecord:
        """Parse a record from a line that :meth:`line` wrote."""
        state = json.loads(line)
        name, metadata = state["id"], state.get("metadata", {})
        if not isinstance(metadata, dict) or not all(isinstance(state[key], str) for key in ("title", "text")):
            raise InvalidTypeError(
                "title and text must be texts, and metadata must be a mapping; got "
                f"{state.get('title')!r:.40}, {state.get('text')!r:.40} and {metadata!r:.40}"
            )
        found, *given = (Extraction(name, *(one[key] for key in _FIELDS)) for one in (state["found"], *state["given"]))
        return cls(name, state["title"], state["text"], found, tuple(given), metadata)


def check_plain(name: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata as a dict; raise InvalidInputError if JSON cannot reproduce a value unchanged.

    The error names the passage and the key.
    """
    for key, value in metadata.items():
        if type(key) is str and type(value) in _PLAIN:
            continue
        try:
            same = isinstance(key, str) and json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            same = False
        if not same:
            raise InvalidInputError(
                f"metadata {key!r} of passage {name!r} must be plain (text, numbers, and lists and dicts of them) to "
                f"be saved; got {value!r:.80}"
            )
    return dict(metadata)


class PassageRecords(Mapping[str, PassageRecord]):
    """A mapping of passage ids to records, in the order of the passages.

    `held` contains records in memory, which have precedence over `packed` records. `packed` are the stored records as
    three parts: the concatenated lines of JSON, the end position of each line, and the row of each passage. `retitled`
    are the ids of passages to which the caller's extractions give titles.
    """

    def __init__(
        self,
        ids: Collection[str],
        held: Mapping[str, PassageRecord],
        packed: tuple[NDArray[Any], NDArray[Any], Mapping[str, int]] | None = None,
        retitled: frozenset[str] | None = None,
    ) -> None:
        self._ids, self.held, self._packed = ids, held, packed
        self._mapped = () if packed is None else mapped_in(packed[:2])
        self._read: dict[str, PassageRecord] = {}
        self.retitled = _retitled(held.values()) if retitled is None else retitled

    def __reduce__(self) -> tuple[Any, ...]:
        packed = None if self._packed is None else (*self._packed[:2], dict(self._packed[2]))
        return PassageRecords, (dict.fromkeys(self._ids), dict(self.held), packed, self.retitled)

    def __getitem__(self, name: str) -> PassageRecord:
        if name not in self._ids:
            raise KeyError(name)
        held = self.held.get(name) or self._read.get(name)
        if held is None:
            held = self._parsed(name)
            if len(self._read) >= MOST_READ:
                self._read.clear()
            self._read[name] = held
        return held

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the record of a passage, or `default` if there is none; this is quick for a record in memory."""
        held = self.held.get(name)
        return super().get(name, default) if held is None else held

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    @property
    def file(self) -> Path | None:
        """The memory-mapped file of the packed records; its name identifies its contents. None without a file."""
        return Path(str(self._mapped[0].filename)) if self._mapped else None

    @property
    def base(self) -> Collection[str]:
        """The ids of the packed records; the collection stays the same object until the packed records change."""
        return () if self._packed is None else self._packed[2]

    def content(self, name: str) -> tuple[str, dict[str, Any]]:
        """Return text and metadata from a passage's packed record, without parsing extractions and without caching."""
        return self._content(name, self._packed_line(name))

    def contents(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield (id, text, metadata) of each packed record, in the order of their lines."""
        if self._packed is None:
            return
        text, ends, rows = self._packed
        start = 0
        for name, end in zip(rows, ends.tolist(), strict=True):
            check_mapped(self._mapped)
            yield name, *self._content(name, text[start:end].tobytes())
            start = end

    @staticmethod
    def _content(name: str, line: bytes) -> tuple[str, dict[str, Any]]:
        try:
            state = json.loads(line)
            return state["text"], state.get("metadata", {})
        except MISFITS as error:
            raise _damaged(name, error) from error

    def replaced(self, ids: Collection[str], changed: Mapping[str, PassageRecord]) -> PassageRecords:
        """Return the records of the passages `ids`: the record in `changed`, or otherwise the existing record."""
        kept = {name: record for name, record in self.held.items() if name in ids and name not in changed}
        again = frozenset(name for name in self.retitled if name in ids and name not in changed)
        return PassageRecords(ids, {**kept, **changed}, self._packed, again | _retitled(changed.values()))

    def packed(self) -> dict[str, Any]:
        """Return two arrays to save: the concatenated lines of all records, and the end position of each line.

        The lines are streamed, which avoids a copy of all packed records in memory.
        """
        sources = list(self._sources())
        lengths = [one.stop - one.start if isinstance(one, slice) else len(one) for one in sources]
        ends = np.cumsum(lengths, dtype=np.int64)
        size = sum(lengths)
        return {
            "records_text": StreamedArray(np.dtype(np.uint8), (size,), lambda: self._runs(sources)),
            "records_ends": ends,
        }

    def _sources(self) -> Iterator[slice | bytes]:
        """Yield each passage's line: its slice of the packed bytes, or its own bytes if the record is in memory."""
        check_mapped(self._mapped)
        rows = _RowsInOrder(self._packed[2]) if self._packed is not None else None
        ends: list[int] = [] if self._packed is None else [0, *self._packed[1].tolist()]
        for name in self._ids:
            held = self.held.get(name)
            if held is not None:
                yield held.line()
                continue
            if rows is None:
                raise KeyError(name)
            row = rows[name]
            yield slice(ends[row], ends[row + 1])

    def _runs(self, sources: Iterable[slice | bytes]) -> Iterator[NDArray[Any]]:
        """Yield the bytes of the lines in `sources`; consecutive packed lines are combined into pieces of a few MB."""
        text: Any = None if self._packed is None else self._packed[0]
        run = slice(0, 0)
        for one in sources:
            joins = isinstance(one, slice) and one.start == run.stop and run.stop - run.start < _RUN
            if not joins and run.stop > run.start:
                yield text[run]
            if isinstance(one, slice):
                run = slice(run.start if joins else one.start, one.stop)
            else:
                run = slice(0, 0)
                yield np.frombuffer(one, dtype=np.uint8)
        if run.stop > run.start:
            yield text[run]

    @classmethod
    def unpacked(
        cls, rows: Mapping[str, int], arrays: Mapping[str, NDArray[Any]], retitled: object, *, sound: bool = False
    ) -> PassageRecords:
        """Create records from arrays of :meth:`packed`.

        `rows` are the rows of the passages, and `retitled` the stored list of ids. `sound` is True if the arrays were
        checked before. Raises InvalidInputError if the number of records differs from the number of passages.
        """
        text, ends = arrays["records_text"], arrays["records_ends"] if sound else offsets("records", arrays)
        if len(ends) != len(rows):
            raise InvalidInputError(f"there must be one record per passage ({len(rows)}); got {len(ends)} records")
        packed = text, ends, rows
        if isinstance(retitled, list):
            return cls(rows, {}, packed, frozenset(map(str, retitled)))
        return cls(rows, {}, packed, _retitled(cls(rows, {}, packed).values()))  # saved by an older version

    def _packed_line(self, name: str) -> bytes:
        if self._packed is None:
            raise KeyError(name)
        check_mapped(self._mapped)
        text, ends, rows = self._packed
        row = rows[name]
        return text[int(ends[row - 1]) if row else 0 : int(ends[row])].tobytes()

    def _parsed(self, name: str) -> PassageRecord:
        try:
            record = PassageRecord.of_line(self._packed_line(name))
        except MISFITS as error:
            raise _damaged(name, error) from error
        if record.id != name:
            raise IntegrityError(
                f"the record of passage {name!r} in the saved index is damaged: it is the record of {record.id!r}. "
                "Restore the folder, or build the index again"
            )
        return record


def _damaged(name: str, error: Exception) -> IntegrityError:
    return IntegrityError(
        f"the record of passage {name!r} in the saved index is damaged: {error}. Restore the folder, or build the "
        "index again"
    )


class _RowsInOrder:
    """A lookup of the rows of names that is fast if names are looked up in the order of their rows.

    >>> rows = _RowsInOrder({"a": 0, "b": 1, "c": 2})
    >>> rows["a"], rows["c"], rows["b"]
    (0, 2, 1)
    """

    def __init__(self, rows: Mapping[str, int]) -> None:
        self._rows, self._next = rows, enumerate(rows)

    def __getitem__(self, name: str) -> int:
        for row, other in self._next:
            if other == name:
                return row
        return self._rows[name]


def _retitled(records: Iterable[PassageRecord]) -> frozenset[str]:
    return frozenset(one.id for one in records if any(each.titles for each in one.given))
