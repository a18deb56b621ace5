"""The options of ``phasegraph reembed``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def reembed(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="A folder written by index --sync.", exists=True, file_okay=False),
    ],
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
