"""A reader for Markdown, which creates a section for each heading."""

from __future__ import annotations

import re

from phasegraph.reading.documents import Document, Section, title_of

_FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s[^()]*)?\)")
_HEADING = re.compile(r"#{1,6}[ \t]+")


def sections_of(text: str) -> tuple[str, list[Section]]:
    r"""Return the title of a Markdown text, and all sections that contain text.

    The title is the first heading, or "" if there is none. Text before the first heading is a section with the heading
    "". A line in a fenced code block is never a heading. A code block without an end reaches to the end of the text.

    >>> sections_of("# Ada\nShe met Bo.\n## Bo\nHe did not.")
    ('Ada', [Section(heading='Ada', text='She met Bo.'), Section(heading='Bo', text='He did not.')])
    """
    fenced = False
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        found = None if fenced else _HEADING.match(line)
        if found is None:
            parts[-1][1].append(line)
        else:
            parts.append((_heading(line), []))
    texts = ((heading, "\n".join(lines).strip("\n")) for heading, lines in parts)
    return next((heading for heading, _ in parts if heading), ""), [Section(*one) for one in texts if one[1]]


def _heading(line: str) -> str:
    return _HEADING.sub("", line, count=1).rstrip(" #")


def _without_comments(text: str) -> str:
    """Remove HTML comments from a text; a comment without an end stays."""
    kept: list[str] = []
    start = 0
    while (opened := text.find("<!--", start)) >= 0 and (closed := text.find("-->", opened)) >= 0:
        kept.append(text[start:opened])
        start = closed + len("-->")
    return "".join([*kept, text[start:]])


def read_markdown(name: str, text: str) -> Document:
    """Read a Markdown file as a document; remove front matter and comments, and replace each link by its text.

    If no heading has a text, the headings are the text.
    """
    plain = _LINK.sub(r"\1", _without_comments(_FRONT.sub("", text)))
    title, sections = sections_of(plain)
    if not any(section.text.strip() for section in sections):
        sections = [Section("", "\n\n".join(map(_heading, plain.splitlines())))]
    return Document(name, title or title_of(name), tuple(sections))
