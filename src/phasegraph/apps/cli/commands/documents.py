"""The options of ``phasegraph documents``."""

from __future__ import annotations

from typing import Annotated

import typer

from phasegraph.apps.cli.options import JsonTo, SyncedFolder


def documents(
    folder: SyncedFolder,
    near_duplicates: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0.01,
            max=1.0,
            help="Instead list pairs of documents that have at least this share of their four-word sequences in "
            "common, such as 0.8.",
        ),
    ] = None,
    json_to: JsonTo = None,
) -> None:
    """List the documents of a folder with the numbers of their passages, or list pairs of near-duplicates."""
    from phasegraph.apps.cli.documents import run

    run(folder, near_duplicates, json_to)
