"""What the site takes from outside ``docs``: README, packages' pages, changes; and links between them."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
HOME = "https://github.com/phasegraph/phasegraph/blob/main/"
RAW = "https://raw.githubusercontent.com/phasegraph/phasegraph/main/"  # pictures, which a package index shows too
# The pages of the site that are files elsewhere in the repository, since they are shown there, too.
PAGES = {
    "index.md": "README.md",
    "packages/langchain.md": "integrations/langchain-phasegraph/README.md",
    "packages/llamaindex.md": "integrations/llama-index-retrievers-phasegraph/README.md",
    "changes.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages that lie outside ``docs``."""
    for page, path in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Lead absolute links to a file of the repository to its page on the site, where it has one."""
    pages = {path: name for name, path in PAGES.items()}
    here = page.file.src_uri

    def led(link: re.Match[str]) -> str:
        path, anchor = link[1], link[2] or ""
        name = pages.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if name is None or not name.endswith((".md", ".png", ".svg")):
            return link[0]
        return f"]({posixpath.relpath(name, posixpath.dirname(here) or '.')}{anchor})"

    # Only a page from outside `docs` has relative links that start at the repository's root.
    start = rf"(?:{re.escape(HOME)}|{re.escape(RAW)}|(?=docs/))" if here in PAGES else re.escape(HOME)
    return re.sub(rf"\]\({start}([^)#\s]+)(#[^)\s]*)?\)", led, markdown)
