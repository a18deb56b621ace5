"""A reader for HTML, which creates a section for each heading, and leaves out scripts, styles and navigation."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from phasegraph.reading.documents import Document, Section, title_of

_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_LEFT_OUT = frozenset(("script", "style", "nav", "noscript", "template", "svg", "button", "select", "iframe"))
_BLOCKS = frozenset(
    (
        "p", "div", "section", "article", "main", "ul", "ol", "dl", "table", "pre", "blockquote", "figure", "header",
        "footer", "aside", "form", "hr", "body",
    )
)  # fmt: skip
_LINES = frozenset(("br", "li", "dt", "dd", "tr"))


class _Page(HTMLParser):
    """A parser that collects the title and the sections of an HTML page.

    An element without an end tag ends where its parent element ends.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title, self.sections = "", list[Section]()
        self._heading, self._inside, self._left_out = "", "", ""
        self._depth = 0
        self._pieces, self._named = list[str](), list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._left_out:
            self._depth += tag == self._left_out
        elif tag in _LEFT_OUT:
            self._left_out, self._depth = tag, 1
        elif tag in _HEADINGS or tag == "title":
            if tag in _HEADINGS:
                self.flush()
            self._inside, self._named = tag, []
        elif tag in _BLOCKS:
            self._pieces.append("\n\n")
        elif tag in _LINES:
            self._pieces.append("\n")
        elif tag in ("td", "th"):
            self._pieces.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if self._left_out:
            self._depth -= tag == self._left_out
            if not self._depth:
                self._left_out = ""
        elif self._inside and tag == self._inside:
            said = " ".join("".join(self._named).split())
            if tag == "title":
                self.title = self.title or said
            else:
                self._heading = said
            self._inside = ""
        elif tag in _BLOCKS:
            self._pieces.append("\n\n")

    def handle_data(self, data: str) -> None:
        if self._left_out:
            return
        (self._named if self._inside else self._pieces).append(re.sub(r"\s+", " ", data))

    def flush(self) -> None:
        """End the current section, and add it to the page's sections."""
        lines = (" ".join(line.split()) for line in "".join(self._pieces).split("\n"))
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        if text:
            self.sections.append(Section(self._heading, text))
        self._pieces = []


def read_html(name: str, text: str) -> Document:
    """Read an HTML page as a document; if it has no title, the first heading or the file name is the title.

    >>> read_html("a.html", "<title>Ada</title><h2>Bo</h2><p>Bo met <b>Ada</b>.</p><script>no()</script>").sections
    (Section(heading='Bo', text='Bo met Ada.'),)
    """
    page = _Page()
    page.feed(text)
    page.close()
    page.flush()
    first = next((section.heading for section in page.sections if section.heading), "")
    return Document(name, page.title or first or title_of(name), tuple(page.sections))
