"""``phasegraph reembed``: embed the passages of a folder anew, by another model."""

from __future__ import annotations

from typing import Annotated

import typer

from phasegraph.apps.cli.documents import opened_folder
from phasegraph.apps.cli.output import IndexFolder, console
from phasegraph.apps.cli.syncing import model_named
from phasegraph.errors import InvalidInputError


def reembed(
    folder: IndexFolder,
    embedder: Annotated[
        str,
        typer.Option(metavar="NAME|MODULE:OBJECT", help="The new model: minilm, fastembed, or an object of yours."),
    ],
) -> None:
    """Embed the passages of a folder of phasegraph index --sync anew; interrupted, the same command goes on."""
    found, model = opened_folder(folder), model_named(embedder)
    if model is None:
        raise InvalidInputError("--embedder must name a model")
    found.reembed(model)
    console().print(f"{len(found.corpus)} passages embedded with {model.identity.name}: {folder}")
    found.corpus.settle()
