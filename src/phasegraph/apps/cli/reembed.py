"""The command ``phasegraph reembed``: embed the passages of a folder again with another model."""

from __future__ import annotations

from pathlib import Path

from phasegraph._support.text import counted
from phasegraph.apps.cli.documents import opened_folder
from phasegraph.apps.cli.models import model_named
from phasegraph.apps.cli.output import console
from phasegraph.errors import InvalidInputError


def run(folder: Path, embedder: str) -> None:
    """Run ``phasegraph reembed``; the parameters are the options of the command."""
    found, model = opened_folder(folder), model_named(embedder)
    if model is None:
        raise InvalidInputError(f"--embedder must name a model, such as minilm; got {embedder!r}")
    found.reembed(model)
    console().print(f"{counted(len(found.corpus), 'passage')} embedded with {model.identity.name}: {folder}")
    found.corpus.settle()
