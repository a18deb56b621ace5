"""Read documents of freely available packages as sections; a section's heading or description can be its question."""

from __future__ import annotations

import ast
import gzip
import re
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from phasegraph.reading.markdown import sections_of

Kind = Literal["heading", "purpose", "change", "docstring"]


@dataclass(frozen=True)
class Section:
    """A part of a document without its heading, and the question that it answers ("" if none) with its kind."""

    text: str
    question: str = ""
    kind: Kind = "heading"


@dataclass(frozen=True)
class Document:
    """A page or file: its name, the title that is repeated in every chunk, and its sections in order.

    `apart` says that no chunk may contain parts of two sections.
    """

    source: str
    title: str
    sections: tuple[Section, ...]
    apart: bool = False


# HTML as DocBook's stylesheets write it.

BREAKS = dict.fromkeys(("p", "div", "ul", "ol", "dl", "table", "h1", "h2", "h3", "h4", "h5"), "\n\n")
BREAKS |= dict.fromkeys(("li", "dt", "dd", "tr", "br"), "\n") | dict.fromkeys(("td", "th"), " ")
SKIPPED = frozenset(("navheader", "navfooter", "toc", "indexterm", "titlepage", "refnamediv"))
SECTION = re.compile(r"(ref)?sect\d|chapter|appendix|preface")


class _Page:
    """A parser that splits an HTML page into sections, each with its heading or purpose as the question."""

    def __init__(self) -> None:
        self.sections: list[Section] = []
        self.pieces: list[str] = []

    def flush(self, question: str = "", kind: Kind = "heading") -> None:
        text = re.sub(r"[ \t]+\n", "\n", "".join(self.pieces))
        text = re.sub(r"\n{3,}", "\n\n", re.sub(r"\n (?=\S)", "\n", text)).strip("\n ")
        self.pieces = []
        if text:
            self.sections.append(Section(text, question, kind))

    def walk(self, node: Any, question: str, kind: Kind) -> None:
        of = set((node.get("class") or "").split())
        if not isinstance(node.tag, str) or of & SKIPPED or node.tag == "hr":
            return
        if node.tag == "pre":
            self.pieces += ["\n\n", node.text_content().strip("\n"), "\n\n"]
            return
        inner = any(map(SECTION.fullmatch, of))
        if inner:
            self.flush(question, kind)
            heading = _heading(node)
            if heading != "Description":  # that of a reference page answers what the page is for
                question, kind = heading, "heading"
        gap = BREAKS.get(node.tag, "")
        self.pieces += [gap, _plain(node.text)]
        for child in node:
            self.walk(child, question, kind)
            self.pieces.append(_plain(child.tail))
        self.pieces.append(gap)
        if inner:
            self.flush(question, kind)


def _parsed(path: Path) -> Any:
    from lxml import html

    return html.fromstring(path.read_bytes(), parser=html.HTMLParser(encoding="utf-8"))


def _plain(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "")


def _heading(node: Any) -> str:
    found = node.xpath(
        "./div[@class='titlepage']//*[self::h1 or self::h2 or self::h3 or self::h4 or self::h5]|./h2|./h3"
    )
    text = _plain(found[0].text_content()).strip() if found else ""
    for one in found:
        if one.getparent() is node:
            node.remove(one)
    return _unnumbered(text)


def _unnumbered(text: str) -> str:
    return re.sub(r"^((Chapter|Appendix|Part) )?[A-Z\d]+(\.\d+)*\.\s+", "", text.replace("\xa0", " ")).strip()


def html_page(path: Path) -> Document:
    """Read an HTML page; the heading of each section is its question.

    A reference page has a one-line purpose below its name; this becomes the question of its section Description.
    """
    root = _parsed(path)
    page = _Page()
    purposes = [_plain(one.text_content()).partition("—")[2].strip() for one in root.find_class("refnamediv")]
    page.walk(root.find("body"), purposes[0] if purposes else "", "purpose")
    page.flush()
    return Document(path.stem, _unnumbered(_plain(root.findtext(".//title")).strip()), tuple(page.sections))


def html_pages(folder: Path) -> Iterator[Document]:
    """Yield every HTML page in a folder that has any text."""
    pages = map(html_page, sorted(folder.glob("*.html")))
    return (page for page in pages if page.sections)


def html_changes(folder: Path) -> Iterator[Document]:
    """Yield the release notes in a folder: the first paragraph of an entry, without authors, is its question.

    The rest of the entry is the answer.
    """
    for path in sorted(folder.glob("release-[0-9]*.html")):
        root = _parsed(path)
        sections = []
        for entry in root.xpath("//li[contains(@class, 'listitem')]"):
            first, *others = (_plain(part.text_content()).strip() for part in entry.xpath("./p|./pre"))
            headline = re.sub(r"( §)+$", "", first)
            headline = re.sub(r" \([^()]*\)$", "", headline)
            if others:
                sections.append(Section("\n\n".join(others), headline, "change"))
            else:
                sections.append(Section(headline))
        if sections:
            title = _unnumbered(_plain(root.findtext(".//title")).strip())
            yield Document(path.stem, title, tuple(sections), apart=True)


# Manual pages.


def manual_pages(folder: Path, name: str, description: str, most: int = 9_000) -> Iterator[Document]:
    """Render the manual pages in a folder with groff, and yield them, each with at most `most` characters.

    The one-line purpose in the section `name` is the question of the section `description`.
    """
    for path in sorted(folder.glob("man*/*.gz")):
        raw = gzip.decompress(path.read_bytes())
        if raw.startswith(b".so "):
            continue  # another name of a page
        command = ["groff", "-K", "utf8", "-T", "utf8", "-man", "-P-cbou", "-rHY=0", "-rLL=100n"]
        text = subprocess.run(command, input=raw, capture_output=True, check=True).stdout.decode("utf-8")
        parts = re.split(r"^(?=\S)", text.rstrip().rpartition("\n")[0], flags=re.MULTILINE)  # the last line is the foot
        of = {head.strip(): _undented(body) for head, _, body in (part.partition("\n") for part in parts)}
        page, _, number = path.name.removesuffix(".gz").rpartition(".")
        purpose = " ".join(of.pop(name, "").split()).partition(" - ")[2]
        purpose = "" if page.lower() in purpose.lower() else purpose
        sections, length = [], 0
        for head, body in of.items():
            body, length = body[: max(0, most - length)], length + len(body)
            if body.strip():  # the running head has none
                asked = purpose if head == description else ""
                sections.append(Section(body if asked else f"{head}\n\n{body}", asked, "purpose"))
        if sections:
            yield Document(f"{page}.{number}", f"{page}({number})", tuple(sections))


def _undented(body: str) -> str:
    lines = [re.sub(r"(?<=\S) {2,}", " ", line.removeprefix("       ")) for line in body.splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


# Markdown, and Python's source.


def markdown_pages(folder: Path) -> Iterator[Document]:
    """Yield every Markdown file below a folder; the first heading is the title, and other headings are questions."""
    for path in sorted(folder.rglob("*.md")):
        title, found = sections_of(path.read_text(encoding="utf-8"))
        sections = [Section(one.text, one.heading) for one in found]
        if sections:
            yield Document(path.relative_to(folder).as_posix(), title or path.stem, tuple(sections))


def python_functions(folder: Path) -> Iterator[Document]:
    """Yield every Python module below a folder, with a section for each function that has a docstring.

    The first sentence of the docstring is the section's question; the section does not contain the docstring.
    """
    for path in sorted(folder.rglob("*.py")):
        try:
            source = path.read_text(encoding="utf-8")
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            continue  # written for another Python, or for tests of the compiler
        lines = source.splitlines()
        sections = []
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
                said = node.body[0]
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1
                kept = lines[first : said.lineno - 1] + lines[said.end_lineno : node.end_lineno]
                paragraph = " ".join((ast.get_docstring(node) or "").partition("\n\n")[0].split())
                asked = re.split(r"(?<=[.?!]) ", paragraph)[0].rstrip(".")
                sections.append(Section(textwrap.dedent("\n".join(kept)), asked, "docstring"))
        if sections:
            name = path.relative_to(folder).as_posix()
            yield Document(name, name, tuple(sections), apart=True)
