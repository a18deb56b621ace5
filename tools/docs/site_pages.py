"""The pages of the site: the files in ``docs``, and further files of the repository that GitHub and PyPI also show.

The site generator reads the assembled folder and needs no plugin of this project, so it can be replaced.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CONFIG = ROOT / "mkdocs.yml"
HOME = "https://github.com/phasegraph/phasegraph/blob/main/"
RAW = "https://raw.githubusercontent.com/phasegraph/phasegraph/main/"  # pictures, which a package index shows too
OUTSIDE = {
    "index.md": "README.md",
    "packages/langchain.md": "integrations/langchain-phasegraph/README.md",
    "packages/llamaindex.md": "integrations/llama-index-retrievers-phasegraph/README.md",
    "changes.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
"""Pages of the site that are files elsewhere in the repository."""
LEFT_OUT = ("figures", "reproduction/figures.json", "reproduction/.lock")
"""Below ``docs``, what tools read and no page shows."""
SEARCH = {
    "guide/": 2.0, "learn/": 2.0, "understand/": 1.5, "packages/": 1.5, "guide/filters.md": 8.0,
    "guide/stores.md": 0.5, "changes.md": 0.2, "research/": 0.2, "reproduction/": 0.1, "reliability.md": 0.2,
    "contributing": 0.2, "security.md": 0.2,
}  # fmt: skip
"""How much a page counts in the search, by the longest matching beginning of its path; other pages count 1."""


def page_paths() -> list[str]:
    """Return the path of every page of the site, relative to the root of the site."""
    inside = (path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    return sorted({*OUTSIDE, *(path for path in inside if not path.startswith(LEFT_OUT))})


def page_text(path: str) -> str:
    """Return the Markdown of a page; links to other pages lead to their place on the site.

    >>> page_text("index.md").splitlines()[0]
    '# phasegraph'
    """
    file = ROOT / OUTSIDE[path] if path in OUTSIDE else DOCS / path
    return with_links_inside(file.read_text(encoding="utf-8"), path)


def with_links_inside(markdown: str, path: str) -> str:
    """Replace absolute links to files of the repository by links to their pages, if the site has these pages.

    >>> with_links_inside(f"[Stores]({HOME}docs/guide/stores.md#notes)", "packages/langchain.md")
    '[Stores](../guide/stores.md#notes)'
    """
    pages = {file: page for page, file in OUTSIDE.items()}

    def led(link: re.Match[str]) -> str:
        file, anchor = link["file"], link["anchor"] or ""
        page = pages.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
        if page is None or not page.endswith((".md", ".png", ".svg")):
            return link[0]
        return f"{link['open']}{posixpath.relpath(page, posixpath.dirname(path) or '.')}{anchor}"

    # Only a page from outside `docs` has relative links that start at the repository's root.
    start = rf"(?:{re.escape(HOME)}|{re.escape(RAW)}|(?=docs/))" if path in OUTSIDE else re.escape(HOME)
    return re.sub(rf"(?P<open>\]\(|src=\"){start}(?P<file>[^)#\s\"]+)(?P<anchor>#[^)\s\"]*)?", led, markdown)


def search_weight(path: str) -> float:
    """Return the weight of a page in the search of the site.

    >>> search_weight("guide/filters.md"), search_weight("reference/core.md")
    (8.0, 1.0)
    """
    return SEARCH[max(starts, key=len)] if (starts := [one for one in SEARCH if path.startswith(one)]) else 1.0


def assemble(to: Path) -> None:
    """Write every page with its weight in the search, and every picture, into an empty folder."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(DOCS, to, ignore=_left_out)
    for path in page_paths():
        page = to / path
        page.parent.mkdir(parents=True, exist_ok=True)
        weight = f"---\nsearch:\n  boost: {search_weight(path)}\n---\n\n"
        page.write_text(weight + page_text(path), encoding="utf-8")


def _left_out(folder: str, names: list[str]) -> list[str]:
    here = Path(folder).relative_to(DOCS)
    return [name for name in names if (here / name).as_posix() in LEFT_OUT]


def navigation() -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield every page of the site's menu in order: the headings above the page, its title, and its path."""
    yield from _entries(yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["nav"], ())


def _entries(
    entries: list[Mapping[str, Any] | str], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    for entry in entries:
        for title, below in {"": entry}.items() if isinstance(entry, str) else entry.items():
            if isinstance(below, str):
                yield above, title, below
            else:
                yield from _entries(below, (*above, title))
