"""The command ``phasegraph reembed``: embed the passages of a folder again with another model."""

from __future__ import annotations

from typing import Annotated

import typer

from phasegraph._support.text import counted
from phasegraph.apps.cli.documents import opened_folder
from phasegraph.apps.cli.models import model_named
from phasegraph.apps.cli.output import SyncedFolder, console
from phasegraph.errors import InvalidInputError


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
    found, model = opened_folder(folder), model_named(embedder)
    if model is None:
        raise InvalidInputError(f"--embedder must name a model, such as minilm; got {embedder!r}")
    found.reembed(model)
    console().print(f"{counted(len(found.corpus), 'passage')} embedded with {model.identity.name}: {folder}")
    found.corpus.settle()
