"""Readers for CSV and JSONL, which create a passage or a document for each row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from phasegraph._support.jsonl import objects_in, texts_in
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.corpus_files import Passage, passages_in
from phasegraph.reading.chunks import passages_of
from phasegraph.reading.documents import Document, Section, title_of

TEXTS = ("text", "content", "contents", "page_content", "body", "passage")
TITLES = ("title", "name", "heading", "subject")
"""The names of title fields, in order of preference; ``TEXTS`` are the names of text fields."""


def read_csv(name: str, text: str) -> list[Passage]:
    """Read a CSV table as passages; each row is a document.

    The first line contains the names of the columns. The separator is a comma, semicolon, tab or vertical bar.
    """
    try:
        dialect: Any = csv.Sniffer().sniff(text[:8192], delimiters=",;\t|")
    except csv.Error:
        dialect = csv.excel
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline=""), dialect=dialect, restkey="more"))
    except csv.Error as error:
        raise InvalidInputError(f"the table cannot be read: {error}") from error
    return list(_rows(name, rows))


def read_jsonl(name: str, data: bytes) -> list[Passage]:
    """Read a file with a JSON object per line as passages.

    If the first object has an ``id``, each object is a passage; otherwise, each object is a row of a table.
    """
    file = Path(name)
    rows = list(objects_in(file, texts_in(file, io.BytesIO(data))))
    if not rows or "id" in rows[0][1]:
        return list(passages_in(file, rows))
    return list(_rows(name, (row for _, row in rows)))


def _rows(name: str, rows: Iterable[Mapping[Any, Any]]) -> Iterator[Passage]:
    for number, row in enumerate(rows, start=1):
        fields = {str(key): value for key, value in row.items() if value not in (None, "", [])}
        low = {key.strip().lower(): key for key in fields}
        title = next((low[key] for key in TITLES if key in low and isinstance(fields[low[key]], str)), None)
        body = next((low[key] for key in TEXTS if key in low and isinstance(fields[low[key]], str)), None)
        if body is not None:
            text = str(fields[body])
        else:
            text = "\n".join(f"{key}: {value}" for key, value in fields.items() if key != title)
        named = title_of(name) if title is None else str(fields[title])
        if text.strip():
            yield from passages_of(Document(f"{name}:{number}", named, (Section("", text),)))
