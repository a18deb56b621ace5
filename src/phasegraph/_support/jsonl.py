"""Read text files and JSONL files line by line, and check their fields; each error names the file and the line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import isfinite
from pathlib import Path
from types import NoneType

from phasegraph._support.validation import file_error


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the non-blank lines of a file with their line numbers, which start at 1."""
    if not path.is_file():
        raise file_error(path, None, "the file does not exist")
    with path.open("rb") as handle:
        yield from texts_in(path, handle)


def texts_in(path: Path, lines: Iterable[bytes], first: int = 1) -> Iterator[tuple[int, str]]:
    """Decode the lines of a file and yield the non-blank lines with their numbers, counted from `first`."""
    for number, raw in enumerate(lines, start=first):
        try:
            text = (
                raw.decode("utf-8").removeprefix("\ufeff").strip()
            )  # a concatenation of files can contain several byte order marks
        except UnicodeDecodeError as error:
            raise file_error(path, number, f"the line must be UTF-8 text; byte {error.start} is invalid") from error
        if text:
            yield number, text


def objects_of(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield the JSON objects of a JSONL file with their line numbers."""
    return objects_in(path, lines_of(path))


def objects_in(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Parse numbered lines of a file and yield their JSON objects with the line numbers."""
    for number, text in lines:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise file_error(path, number, f"the line must be one JSON object; {error}") from error
        if not isinstance(row, dict):
            raise file_error(path, number, f"the line must be one JSON object; got {type(row).__name__}")
        yield number, row


def _is_finite(value: object) -> bool:
    return isinstance(value, float) and isfinite(value)


def metadata_of(
    row: Mapping[str, object], without: Collection[str | None] = ("id", "title", "text")
) -> dict[str, object]:
    """Return the metadata of a row: its field ``metadata``, and its other texts, numbers and Boolean values.

    The fields in `without` are left out, and the field ``source``, which is the name of the file. A value in the field
    ``metadata`` takes precedence.

    >>> metadata_of({"id": "p", "text": "Ada", "team": "red", "metadata": {"page": 3}})
    {'team': 'red', 'page': 3}
    """
    own = row.get("metadata")
    found = {
        key: value
        for key, value in row.items()
        if key not in without and key != "source" and (isinstance(value, str | int) or _is_finite(value))
    }
    return found | dict(own if isinstance(own, Mapping) else {})


def with_metadata(row: Mapping[str, object]) -> Mapping[str, object]:
    """Return a passage's row whose field ``metadata`` is :func:`metadata_of`; the row itself if this field is wrong."""
    if not isinstance(row.get("metadata"), Mapping | NoneType):
        return row
    found = metadata_of(row)
    return {**row, "metadata": found} if found else row


def text_field(path: Path, line: int, row: Mapping[str, object], name: str, default: str | None = None) -> str:
    """Return the value of the field `name` of a JSON object; raise an error unless the value is text.

    If the field is missing, return `default`. If `default` is None, the field is required, and its value must not be
    blank. The error names `path` and `line`, where the object `row` is.
    """
    value = row.get(name, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise file_error(
            path,
            line,
            f"{name!r} must be text that is not blank; got {value!r}"
            + (f"; rename the field '_{name}'" if name not in row and f"_{name}" in row else ""),
        )
    return value


def flag_field(path: Path, line: int, row: Mapping[str, object], name: str, default: bool) -> bool:
    """Return the value of the field `name` of a JSON object; raise an error unless the value is true or false.

    If the field is missing, return `default`. The error names `path` and `line`, where the object is.
    """
    value = row.get(name, default)
    if not isinstance(value, bool):
        raise file_error(path, line, f"{name!r} must be true or false; got {value!r}")
    return value


def id_list(path: Path, line: int, value: object, name: str, *, repeats: bool = False) -> tuple[str, ...]:
    """Return the ids in `value`, the field `name` of a JSON object; raise an error unless it is a list of ids.

    The list must contain at least one id. The ids must be distinct, unless `repeats` is true.
    """
    if not isinstance(value, list) or not value:
        raise file_error(path, line, f"{name!r} must be a list of at least one id; got {value!r}")
    for item in value:
        if not isinstance(item, str) or not item:
            raise file_error(path, line, f"{name!r} must contain ids (text); got {item!r}")
    if not repeats and len(set(value)) != len(value):
        raise file_error(path, line, f"{name!r} must not repeat an id; got {value!r}")
    return tuple(value)
