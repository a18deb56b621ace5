"""The options of ``phasegraph delete``."""

from __future__ import annotations

from typing import Annotated

import typer

from phasegraph.apps.cli.options import SyncedFolder


def delete(
    folder: SyncedFolder,
    where: Annotated[
        list[str],
        typer.Option(metavar="KEY=VALUE", help="Delete the passages with this metadata (repeatable: all must match)."),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
) -> None:
    """Delete the passages with the given metadata from a folder: --where source=notes/old.md deletes a document."""
    from phasegraph.apps.cli.delete import run

    run(folder, where, yes)
