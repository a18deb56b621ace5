"""Readers for CSV and JSONL, which create a passage, or several passages, for each row."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import Any

from phasegraph._support.jsonl import metadata_of, objects_in, texts_in, with_metadata
from phasegraph._support.text import counted
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.corpus_files import Passage, passages_in
from phasegraph.reading.chunks import passages_of
from phasegraph.reading.documents import Document, Section, title_of

TEXTS = ("text", "content", "contents", "page_content", "body", "passage")
TITLES = ("title", "name", "heading", "subject")
"""The names of title fields, in order of preference; ``TEXTS`` are the names of text fields."""
IDS = ("id", "_id", "uuid", "key")
"""The names of id fields, in order of preference."""
_QUOTED = re.compile('"[^"]*"')


def read_csv(name: str, text: str) -> list[Passage]:
    """Read a CSV table as passages; its rows are the parts of one document.

    The first line contains the names of the columns. The separator is the comma, semicolon, tab or vertical bar that
    occurs most often in it outside of double quotes. A row with more cells than columns is an error, unless the
    additional cells are blank.
    """
    names = _QUOTED.sub("", text[:8192]).partition("\n")[0]
    separator = max(",;\t|", key=names.count)
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    try:
        return list(_rows(name, _rows_of(name, table), _typed))
    except csv.Error as error:
        raise InvalidInputError(f"the table cannot be read: {error}") from error


def _rows_of(name: str, table: csv.DictReader[str]) -> Iterator[Mapping[Any, Any]]:
    """Yield the rows of the CSV file `name`; raise InvalidInputError for a row with more cells than columns."""
    for row in table:
        surplus: Any = row.pop(None, ())  # csv stores surplus cells under None
        if any(cell.strip() for cell in surplus):
            columns = len(table.fieldnames or ())
            raise InvalidInputError(
                f"{name}:{table.line_num}: the row has {columns + len(surplus)} cells, but the first line names "
                f"{counted(columns, 'column')}; put a cell that contains {table.reader.dialect.delimiter!r} in quotes"
            )
        yield row


def read_jsonl(name: str, data: bytes) -> list[Passage]:
    """Read a file with a JSON object per line as passages.

    If the first object has an ``id``, each object is a passage; otherwise, each object is a row of a table. Null, an
    empty text and a Boolean value are no id. The fields of titles and texts have the same names in both cases. Other
    fields with texts and numbers become metadata.
    """
    file = Path(name)
    rows = list(objects_in(file, texts_in(file, io.BytesIO(data))))
    if rows and not (rows[0][1].get("id") in (None, "") or isinstance(rows[0][1]["id"], bool)):
        return list(passages_in(file, [(line, _as_passage(row)) for line, row in rows]))
    return list(_rows(name, (row for _, row in rows)))


def _as_passage(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row with metadata, and with its title and text, which may have other names, as ``title`` and ``text``.

    A title of another name stays in the metadata. An integer is converted to the id that its digits spell.

    >>> dict(_as_passage({"id": 7, "title": None, "body": "Ada", "team": "red"}))
    {'id': '7', 'body': 'Ada', 'team': 'red', 'metadata': {'team': 'red'}, 'text': 'Ada'}
    """
    fields, low = _filled(row)
    named = {"title": _first(TITLES, low, fields, {str}), "text": _first(TEXTS, low, fields, {str})}
    given = {key: value for key, value in row.items() if value is not None or key not in named}
    if type(row.get("id")) is int:
        given["id"] = str(row["id"])
    others = with_metadata({key: value for key, value in given.items() if key != named["text"]})
    return {**given, **others, **{name: fields[key] for name, key in named.items() if key is not None}}


def _filled(row: Mapping[Any, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of a row that have a value, and their names by lower-case name."""
    fields = {str(key): value for key, value in row.items() if value not in (None, "", [])}
    return fields, {key.strip().lower(): key for key in fields}


def _typed(text: Any) -> Any:
    """Return the number or the Boolean value that a text is in JSON, as a filter on the command line reads it.

    Other values are returned unchanged.

    >>> [_typed(text) for text in ("12", "1.5", "true", "007", "NaN", "red")]
    [12, 1.5, True, '007', 'NaN', 'red']
    """
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return text
    return value if isinstance(value, int) or (isinstance(value, float) and isfinite(value)) else text


def _rows(
    name: str, rows: Iterable[Mapping[Any, Any]], value_of: Callable[[Any], Any] = lambda value: value
) -> Iterator[Passage]:
    """Yield the passages of a table's rows; `value_of` converts the values of the other columns to metadata.

    The id of a row is the value of its id column, or a digest of the row, so another row does not change it. A repeated
    id gets the first free number.
    """
    seen: dict[str, int] = {}
    for row in rows:
        fields, low = _filled(row)
        title, body = _first(TITLES, low, fields, {str}), _first(TEXTS, low, fields, {str})
        if body is not None:
            text = str(fields[body])
        else:
            text = "\n".join(f"{key}: {value}" for key, value in fields.items() if key != title)
        if not text.strip():
            continue
        given = _first(IDS, low, fields, {str, int})
        identity = _digest(fields) if given is None else str(fields[given])
        free = identity
        while free in seen:
            seen[identity] += 1
            free = f"{identity}:{seen[identity]}"
        seen[free] = 1
        yield from passages_of(
            Document(
                f"{name}:{free}",
                title_of(name) if title is None else str(fields[title]),
                (Section("", text),),
                {key: value_of(value) for key, value in metadata_of(fields, (title, body)).items()} | {"source": name},
            )
        )


def _first(
    names: Iterable[str], low: Mapping[str, str], fields: Mapping[str, Any], kinds: Collection[type]
) -> str | None:
    """Return the first field with one of the names and a value of a type in `kinds`; a Boolean value is no integer.

    `low` maps lower-case names to names.
    """
    return next((low[one] for one in names if one in low and type(fields[low[one]]) in kinds), None)


def _digest(fields: Mapping[str, Any]) -> str:
    """Return a short digest of a row."""
    return blake2b(json.dumps(fields, sort_keys=True).encode(), digest_size=6).hexdigest()
