"""A reader for source code and configuration, whose passages keep line breaks and indentation."""

from __future__ import annotations

from pathlib import PurePosixPath

from phasegraph.errors import InvalidInputError
from phasegraph.reading.documents import Document, Section

LONGEST_LINE = 5_000
"""Maximum length of a line, in characters; a file with a longer line is generated or minified."""


def read_code(name: str, text: str) -> Document:
    """Read a file of source code or configuration as a document; its title is the file name.

    Raises InvalidInputError if a line has more than 5,000 characters, because such a file gives no useful passages.
    """
    lines = text.splitlines()
    longest = max(map(len, lines), default=0)
    if longest > LONGEST_LINE:
        raise InvalidInputError(
            f"a line has more than {LONGEST_LINE:,} characters, so the file is probably minified or generated"
        )
    body = "\n".join(line.rstrip() for line in lines)
    return Document(name, PurePosixPath(name).name, (Section("", body, lines=True),))
