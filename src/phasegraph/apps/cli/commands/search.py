"""The options of ``phasegraph search``."""

from __future__ import annotations

from typing import Annotated

import typer

from phasegraph.apps.cli.options import Embedder, IndexFolder, JsonTo


def search(
    folder: IndexFolder,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question to answer.")],
    k: Annotated[int, typer.Option(min=1, help="Number of passages to show.")] = 5,
    embedder: Embedder = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Show each document once; KEY is the metadata key with the name of a passage's document.",
        ),
    ] = None,
    json_to: JsonTo = None,
) -> None:
    """Search a saved index: print the best passages, how they were found, and the confidence of the answer.

    Without --embedder, the walk starts from the names and words of the question, and no model is needed.
    """
    from phasegraph.apps.cli.search import run

    run(folder, question, k, embedder, group_by, json_to)
