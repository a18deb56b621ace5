"""Blocks of pages between two marks; a mark names the block's command and the digests of its sources.

A mark is an HTML comment, which no page displays; a new block begins with ``<!-- figures NAME -->``. A page that a
command writes as a whole has a single block: everything below its title. A notebook has this stamp in its metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from digests import digest_of_text

_MARK = re.compile(
    r"<!-- figures (?P<name>[\w-]+)(?:: rewrite with `(?P<command>[^`]+)`; "
    r"code (?P<code>\w+), data (?P<data>\w+), text (?P<text>\w+))? -->\n"
    r"(?P<body>.*?)<!-- end of figures (?P=name) -->\n?",
    re.DOTALL,
)
DATED = "*Measured on {ran}; the code has changed since. `{again}` measures again.*"
"""What a page says that was not measured with the present code."""
_DATED = re.compile(r"\n*\*Measured on [\d-]+; the code has changed since\. `[^`]+` measures again\.\*\n*")

RECORD = re.compile(r"\*Record of (?P<day>\d{4}-\d\d-\d\d), commit (?P<commit>[0-9a-f]{7,})")
"""So begins what a page, or a section, says whose figures no command makes any more."""

_CODE = re.compile(r"```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_DECIMAL = r"(?<![\w.@/-])[-+−±]?\d*\.\d+\b"
_FIGURE = re.compile(
    rf"^\|.*\|\s*\**[<>+−-]?\d+\.\d"
    rf"|\b(?:Recall|PageRecall|LastHop|FullSup|nDCG|MRR|F1|AUC|ECE|Brier)\b[^.;]*?(?:{_DECIMAL}|\bfrom \d+ to \d+)"
    rf"|\d points\b|{_DECIMAL} s\b|\d ms\b"
)
"""What reads as a measured figure: a decimal in a cell or beside a measure, points, and times."""


@dataclass(frozen=True, slots=True)
class Block:
    """The content between two marks: the figure's name, its command, the digests of its sources, and the text."""

    name: str
    command: str
    code: str
    data: str
    text: str
    body: str

    @property
    def edited(self) -> bool:
        """Return True if the text was changed after a command wrote it."""
        return digest_of_text(self.body) != self.text

    def __str__(self) -> str:
        return (
            f"<!-- figures {self.name}: rewrite with `{self.command}`; code {self.code}, data {self.data}, "
            f"text {self.text} -->\n{self.body}<!-- end of figures {self.name} -->\n"
        )


def made(name: str, command: str, code: str, data: str, body: str) -> Block:
    """Create a block from the text `body`, which a command has just made."""
    body = f"\n{body.strip()}\n\n"
    return Block(name, command, code, data, digest_of_text(body), body)


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a page, in order."""
    for mark in _MARK.finditer(text):
        yield Block(**mark.groupdict(default=""))


def with_block(text: str, block: Block) -> str:
    """Return a page in which `block` replaces the block of the same name; raise KeyError if there is none."""
    if block.name not in {one.name for one in blocks(text)}:
        raise KeyError(block.name)
    return _MARK.sub(lambda mark: str(block) if mark["name"] == block.name else mark[0], text)


def without_marks(text: str) -> str:
    """Return a page without the marks of its blocks, as a reader sees it."""
    return _MARK.sub(lambda mark: mark["body"].strip() + "\n", text)


def typed(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) of each line of a page with a figure that was typed by hand, and the figure.

    Ignored are figures in code and blocks, figures below the line of a record in the same section, and figures that are
    quoted with their source (arXiv) on the same line.
    """
    bare_text = text
    for hidden in (_MARK, _CODE):
        bare_text = hidden.sub(lambda mark: "\n" * mark[0].count("\n"), bare_text)
    recorded = False
    for number, line in enumerate(bare_text.splitlines(), start=1):
        if line.startswith("#"):
            recorded = False
        recorded = recorded or RECORD.search(line) is not None
        found = _FIGURE.search(line)
        if found and not recorded and "arxiv" not in line.lower():
            yield number, found[0]


def read_stamp(path: Path) -> Block | None:
    """Return the stamp of a page or notebook that one command writes as a whole, as a block; None if there is none."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        rest = _titled(text)[1]
        found = list(blocks(rest))
        return found[0] if len(found) == 1 and rest == str(found[0]) else None
    notebook = json.loads(text)
    stamp = notebook["metadata"].get("figures")
    return None if stamp is None else Block(**stamp, body=_shown(notebook))


def bare(text: str) -> str:
    """Return a whole page without its marks and the line about its age, as its command writes it."""
    return _DATED.sub("\n", without_marks(text))


def stamp(path: Path, name: str, command: str, code: str, data: str, dated: str = "") -> Block:
    """Mark a page or notebook that its command has just written as a whole, and return the mark as a block.

    `dated` is the line about its age; in a notebook, it becomes an additional last cell.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        title, rest = _titled(bare(text))
        block = made(name, command, code, data, f"{rest.strip()}\n\n{dated}")
        path.write_text(title + str(block), encoding="utf-8")
        return block
    notebook = json.loads(text)
    notebook["cells"] = [cell for cell in notebook["cells"] if not _DATED.fullmatch("".join(cell["source"]))]
    if dated:
        notebook["cells"].append({"cell_type": "markdown", "id": "dated", "metadata": {}, "source": [dated]})
    block = made(name, command, code, data, _shown(notebook))
    kept = {key: getattr(block, key) for key in ("name", "command", "code", "data", "text")}
    notebook["metadata"]["figures"] = kept
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)  # as nbformat writes it
    path.write_text(text + "\n", encoding="utf-8")
    return block


def _titled(text: str) -> tuple[str, str]:
    """Return the title of a page with the blank line below it, and the rest.

    The first text is empty if the page has no title.
    """
    title, _, rest = text.partition("\n\n")
    return (f"{title}\n\n", rest) if title.startswith("# ") and "\n" not in title else ("", text)


def _shown(notebook: dict[str, Any]) -> str:
    """Return everything that a notebook displays, and the code that displays it."""
    cells = [[cell["source"], cell.get("outputs")] for cell in notebook["cells"]]
    return json.dumps(cells, ensure_ascii=False, sort_keys=True)


def source_of(notebook: Path) -> str:
    """Return the Python code of a notebook's cells, without lines that only notebooks understand (``%matplotlib``)."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return "\n".join(line for line in text.splitlines() if not line.startswith("%"))
