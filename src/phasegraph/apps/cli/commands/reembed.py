"""The options of ``phasegraph reembed``."""

from __future__ import annotations

from typing import Annotated

import typer

from phasegraph.apps.cli.options import SyncedFolder


def reembed(
    folder: SyncedFolder,
    embedder: Annotated[
        str,
        typer.Option(metavar="NAME|MODULE:OBJECT", help="The new model: minilm, fastembed, or your own object."),
    ],
) -> None:
    """Embed the passages of a folder of phasegraph index --sync again with another model.

    If the command is interrupted, run it again to continue.
    """
    from phasegraph.apps.cli.reembed import run

    run(folder, embedder)
