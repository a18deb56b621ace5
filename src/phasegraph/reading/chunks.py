"""Cut documents into passages of similar length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from phasegraph.evaluation.corpus_files import Passage
from phasegraph.reading.documents import Document, Section

SIZE = 800
"""Maximum length of a passage with its heading, in characters."""
_SENTENCE, _LONGEST_HEADING = re.compile(r"(?<=[.!?。！？])\s+"), 200


def passages_of(document: Document) -> list[Passage]:
    r"""Cut a document into passages of at most 800 characters.

    Short sections share a passage. A long section is cut between paragraphs if possible, else between sentences or
    words; each piece repeats the heading. Source code is cut between lines. The id of a passage consists of the
    document's name and the passage's number. The field ``source`` of a passage is the document's name, unless the
    document's metadata contain another ``source``. In a document with pages, ``page`` in the metadata is the page on
    which the passage starts.

    >>> document = Document("a.md", "A", (Section("One", "Ada met Bo."), Section("Two", "Bo met Cy.")))
    >>> [(passage.id, passage.text) for passage in passages_of(document)]
    [('a.md#1', 'One\nAda met Bo.\n\nTwo\nBo met Cy.')]
    """
    metadata = {"source": document.name, **document.metadata}
    return [
        Passage(
            f"{document.name}#{number}",
            document.title,
            text,
            {"source": metadata["source"], "metadata": metadata if page is None else {**metadata, "page": page}},
        )
        for number, (text, page) in enumerate(_packed(document), start=1)
    ]


def _packed(document: Document) -> Iterator[tuple[str, int | None]]:
    """Yield the text of each passage, and the page on which it starts; None in a document without pages."""
    held, page = "", None
    for section in document.sections:
        for piece in _pieces(section):
            if held and len(held) + len(piece) + 2 > SIZE:
                yield held, page
                held = ""
            held, page = (f"{held}\n\n{piece}", page) if held else (piece, section.page)
    if held:
        yield held, page


def _pieces(section: Section) -> Iterator[str]:
    """Cut a section into pieces that fit into a passage; each piece starts with the heading."""
    heading = section.heading.strip()[:_LONGEST_HEADING]
    head = f"{heading}\n" if heading else ""
    room, held = SIZE - len(head), ""
    for part in _lines(section.text, room) if section.lines else _parts(section.text.strip(), room):
        if held and len(held) + len(part) + 2 > room:
            yield head + held
            held = ""
        held = f"{held}\n\n{part}" if held else part
    if held:
        yield head + held


def _parts(text: str, room: int) -> Iterator[str]:
    """Yield the paragraphs of a text; cut paragraphs of more than `room` characters into sentences or words."""
    for paragraph in _paragraphs(text):
        if len(paragraph.strip()) <= room:
            yield paragraph
        else:
            yield from _joined(_SENTENCE.split(paragraph), room)


def _lines(text: str, room: int) -> Iterator[str]:
    """Yield the paragraphs of a text with all line breaks and indentation; cut long paragraphs between lines."""
    for paragraph in _paragraphs(text):
        held: list[str] = []
        whole = paragraph.split("\n")
        for line in (one[start : start + room] for one in whole for start in range(0, len(one), room)):
            if held and sum(map(len, held)) + len(held) + len(line) > room:
                yield "\n".join(held)
                held = []
            held.append(line)
        yield "\n".join(held)


def _paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text; paragraphs are separated by blank lines."""
    for blank, lines in groupby(text.split("\n"), lambda line: not line.strip()):
        if not blank:
            yield "\n".join(lines)


def _joined(parts: list[str], room: int) -> Iterator[str]:
    """Join consecutive parts of a text with spaces, and yield the results, each of at most `room` characters."""
    held = ""
    for part in (piece for one in parts for piece in _short(one, room)):
        if held and len(held) + len(part) + 1 > room:
            yield held
            held = ""
        held = f"{held} {part}" if held else part
    if held.strip():
        yield held


def _short(part: str, room: int) -> Iterator[str]:
    """Yield a sentence, or its words if it has more than `room` characters; also cut a word that is too long."""
    if len(part) <= room:
        yield part
        return
    for word in part.split():
        yield from (word[start : start + room] for start in range(0, len(word), room))
