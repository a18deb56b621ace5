"""Passages, and the reader of corpus files.

A missing or broken file raises ``InvalidInputError``, whose message names the file and the line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from phasegraph._support.jsonl import objects_of, text_field
from phasegraph._support.validation import check_text, file_error

NO_FIELDS: Mapping[str, Any] = MappingProxyType({})
"""The `extra` of a passage or a query whose line has no other fields."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a corpus: id, title (may be empty), text, and all other fields of its line in the file (`extra`)."""

    id: str
    title: str
    text: str
    extra: Mapping[str, object] = field(default_factory=lambda: NO_FIELDS, repr=False)

    def __post_init__(self) -> None:
        check_text("Passage.id", self.id)

    @property
    def content(self) -> str:
        """The title, a line break and the text: the string that is embedded and that lexical sources index."""
        return f"{self.title}\n{self.text}"

    @property
    def metadata(self) -> object:
        """The field ``metadata`` of the passage's line; an index stores it with the passage."""
        return self.extra.get("metadata")


def read_corpus(path: str | Path) -> tuple[Passage, ...]:
    """Read passages from a JSONL file with one object ``{"id", "title", "text"}`` per line; the title is optional."""
    file = Path(path)
    return passages_in(file, objects_of(file))


def passages_in(file: Path, rows: Iterable[tuple[int, Mapping[str, object]]]) -> tuple[Passage, ...]:
    """Convert the JSON objects of a file, given with their line numbers, to passages."""
    seen: dict[str, int] = {}
    passages = []
    for line, row in rows:
        name = unique_id(file, line, row, seen)
        title = text_field(file, line, row, "title", "")
        text = text_field(file, line, row, "text", "")
        if not (title.strip() or text.strip()):
            raise file_error(file, line, f"a passage must have a title or a text; {name!r} has neither")
        extra = {key: value for key, value in row.items() if key not in ("id", "title", "text")}
        passages.append(Passage(name, title, text, MappingProxyType(extra)))
    if not passages:
        raise file_error(file, None, "a corpus must have at least one passage; the file is empty")
    return tuple(passages)


def unique_id(file: Path, line: int, row: Mapping[str, object], seen: dict[str, int]) -> str:
    """Return the id in a line of a file; raise InvalidInputError if an earlier line, in `seen`, has the same id.

    `seen` maps the ids of the earlier lines to their line numbers; the id is added to it.

    >>> seen = {"a": 1}
    >>> unique_id(Path("corpus.jsonl"), 2, {"id": "b"}, seen), seen
    ('b', {'a': 1, 'b': 2})
    """
    name = text_field(file, line, row, "id")
    if name in seen:
        raise file_error(file, line, f"ids must not repeat; {name!r} is already on line {seen[name]}")
    seen[name] = line
    return name
