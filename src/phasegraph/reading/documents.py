"""The classes for a document and its sections, and functions for titles and for decoding bytes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from phasegraph.errors import InvalidInputError

_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True)
class Section:
    """A heading, which may be "", and the text below it.

    If `lines` is true, line breaks and indentation have a meaning, as in source code: a long text is cut between lines.
    `page` is the number of the section's page, if the document has pages.
    """

    heading: str
    text: str
    lines: bool = field(default=False, repr=False)
    page: int | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Document:
    """A document: its name (a path with ``/``), its title, its sections in order, and the metadata of its passages.

    The metadata ``source`` is the name, unless `metadata` contains another value.
    """

    name: str
    title: str
    sections: tuple[Section, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict, repr=False)


def title_of(name: str) -> str:
    """Make a title from a file name, for documents without a title.

    >>> title_of("guide/your_first-index.md")
    'your first index'
    """
    return re.sub(r"[\s_-]+", " ", PurePosixPath(name).stem).strip() or name


def decoded(data: bytes) -> str:
    """Decode bytes as their byte order mark says; without a mark, as UTF-8 or, if that fails, as Windows-1252.

    Raises
    ------
    InvalidInputError
        If the bytes are not text.

    Examples
    --------
    >>> decoded("Käse".encode("cp1252"))
    'Käse'
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    if b"\0" in data:
        raise InvalidInputError("the file is not text, because it contains a zero byte")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")
