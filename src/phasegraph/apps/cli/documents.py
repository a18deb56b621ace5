"""The command ``phasegraph documents``: list the documents of a folder, or its pairs of near-duplicates."""

from __future__ import annotations

from pathlib import Path

from phasegraph._support.serialization import MANIFEST
from phasegraph._support.text import counted, legible
from phasegraph.apps.cli.output import check_outputs, write_json
from phasegraph.errors import InvalidInputError
from phasegraph.graph.corpus.folder import STATE, check_new
from phasegraph.retrieval.passage_folder import PassageFolder


def run(folder: Path, near_duplicates: float | None, json_to: str | None) -> None:
    """Run ``phasegraph documents``; the parameters are the options of the command."""
    check_outputs(json=json_to)
    opened = opened_folder(folder)
    if near_duplicates is not None:
        pairs = opened.near_duplicates(near_duplicates)
        to = write_json([pair._asdict() for pair in pairs], json_to)
        for pair in pairs:
            to.print(legible(f"{pair.similarity:.3f}  {pair.first}  {pair.second}"))
        to.print(
            f"{counted(len(pairs), 'pair')} with at least {near_duplicates:g} of the four-word sequences in common"
        )
        return
    found = opened.documents()
    to = write_json(found, json_to)
    unnamed = found.pop("", 0)
    for name in sorted(found):
        to.print(f"{found[name]:>6}  {name}")
    to.print(f"{counted(sum(found.values()), 'passage')} of {counted(len(found), 'document')}")
    if unnamed:
        to.print(f"{counted(unnamed, 'passage')} without a document name")


def opened_folder(folder: Path, *, own: bool = False) -> PassageFolder:
    """Open the folder of a retriever or of ``phasegraph index --sync``; raise InvalidInputError for other folders.

    With `own`, also raise it for the folder of a retriever.
    """
    check_synced(folder, Path("FILES"))
    if not (folder / STATE).is_file():
        raise InvalidInputError(
            f"{folder}: neither a retriever nor phasegraph index --sync wrote this folder, because it has no file "
            f"{STATE}: check the path"
        )
    return PassageFolder.open(folder, own=own)


def check_synced(folder: Path, files: Path) -> None:
    """Raise InvalidInputError if a folder is an index without a table of its documents, built from `files`."""
    if (folder / MANIFEST).is_file() and not (folder / STATE).is_file():
        raise InvalidInputError(
            f"{folder}: phasegraph index wrote this folder without --sync, so it has no table of its documents: build "
            f"a new folder with phasegraph index {files} --out NEW --sync"
        )


def check_empty(folder: Path) -> None:
    """Raise InvalidInputError if a folder in which a command would create an index contains other files."""
    try:
        check_new(folder)
    except InvalidInputError as error:
        raise InvalidInputError(f"{folder}: the folder contains other files: name a new or empty folder") from error
