"""The command ``phasegraph delete``: delete passages from a folder."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from phasegraph._support.text import counted
from phasegraph.apps.cli.documents import opened_folder
from phasegraph.apps.cli.output import console, only_with
from phasegraph.apps.cli.syncing import FILES


def run(folder: Path, where: list[str], yes: bool) -> None:
    """Run ``phasegraph delete``; the parameters are the options of the command."""
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
    if files := found.corpus.settings.get(FILES):
        to.print(f"if the files are still in {files}, the next sync adds the passages again")
    found.corpus.settle()
