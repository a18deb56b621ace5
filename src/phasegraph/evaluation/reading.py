"""Reading text files line by line, so that every complaint names the file and the line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from phasegraph.errors import InvalidInputError


def wrong(path: Path, line: int | None, message: str) -> InvalidInputError:
    """The error to raise for a line of a file: ``file:line: what must hold; what was given``."""
    where = f"{path}:{line}" if line is not None else f"{path}"
    return InvalidInputError(f"{where}: {message}")


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their number from 1."""
    if not path.is_file():
        raise wrong(path, None, "the file must exist; there is none")
    with path.open("rb") as handle:
        for number, raw in enumerate(handle, start=1):
            try:
                text = raw.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                raise wrong(path, number, f"the line must be UTF-8 text; byte {error.start} is not") from error
            if text:
                yield number, text


def objects_of(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The JSON objects of a JSONL file, with their line number."""
    for number, text in lines_of(path):
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise wrong(path, number, f"the line must be one JSON object; {error}") from error
        if not isinstance(row, dict):
            raise wrong(path, number, f"the line must be one JSON object; got {type(row).__name__}")
        yield number, row


def text_field(path: Path, line: int, row: Mapping[str, object], name: str, default: str | None = None) -> str:
    """A field that must hold text; not blank where it has no default."""
    value = row.get(name, default)
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise wrong(path, line, f"{name!r} must be text that is not blank; got {value!r}")
    return value


def flag_field(path: Path, line: int, row: Mapping[str, object], name: str, default: bool) -> bool:
    """A field that must be true or false."""
    value = row.get(name, default)
    if not isinstance(value, bool):
        raise wrong(path, line, f"{name!r} must be true or false; got {value!r}")
    return value


def id_list(path: Path, line: int, value: object, name: str, *, repeats: bool = False) -> tuple[str, ...]:
    """A field that must be a list of at least one id, each at most once unless `repeats`."""
    if not isinstance(value, list) or not value:
        raise wrong(path, line, f"{name!r} must be a list of at least one id; got {value!r}")
    for item in value:
        if not isinstance(item, str) or not item:
            raise wrong(path, line, f"{name!r} must hold ids (text); got {item!r}")
    if not repeats and len(set(value)) != len(value):
        raise wrong(path, line, f"{name!r} must not repeat an id; got {value!r}")
    return tuple(value)
