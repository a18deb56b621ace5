"""The command ``phasegraph reembed``: embed the passages of a folder again with another model."""

from __future__ import annotations

from pathlib import Path

from phasegraph._support.text import counted
from phasegraph.apps.cli.documents import opened_folder
from phasegraph.apps.cli.models import model_named
from phasegraph.apps.cli.output import console
from phasegraph.apps.cli.syncing import FILES
from phasegraph.errors import InvalidInputError


def run(folder: Path, embedder: str) -> None:
    """Run ``phasegraph reembed``; the parameters are the options of the command."""
    found, model = opened_folder(folder, own=True), model_named(embedder)
    if model is None:
        raise InvalidInputError(f"--embedder must name a model, such as minilm; got {embedder!r}")
    if not found.corpus.settings.get("vectors"):
        raise InvalidInputError(
            f"{folder}: the passages have no vectors: build a new folder with phasegraph index "
            f"{found.corpus.settings.get(FILES, 'FILES')} --out NEW --sync --embedder {embedder}"
        )
    found.reembed(model)
    console().print(f"{counted(len(found.corpus), 'passage')} embedded with {model.identity.name}: {folder}")
    found.corpus.settle()
