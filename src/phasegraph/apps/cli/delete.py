"""The command ``phasegraph delete``: delete passages from a folder."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from phasegraph._support.text import counted
from phasegraph.apps.cli.documents import opened_folder
from phasegraph.apps.cli.output import SyncedFolder, console, only_with


def delete(
    folder: SyncedFolder,
    where: Annotated[
        list[str],
        typer.Option(metavar="KEY=VALUE", help="Delete the passages with this metadata (repeatable: all must match)."),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
) -> None:
    """Delete the passages with the given metadata from a folder: --where source=notes/old.md deletes a document."""
    only = only_with(where, "--where")
    found = opened_folder(folder)
    ids = found.ids(where=only)
    to = console()
    if not ids:
        to.print("0 passages have this metadata; nothing is deleted")
        return
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Delete {len(ids)} of {counted(len(found.corpus), 'passage')}?", abort=True, err=True)
    to.print(f"{counted(found.delete(ids), 'passage')} deleted, {len(found.corpus)} left: {folder}")
    found.corpus.settle()
