"""The options of ``phasegraph try``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasegraph.apps.cli.options import Embedder, OpenPage, Port, ReadableFiles

Questions = Annotated[
    Path | None,
    typer.Argument(
        metavar="QUESTIONS.jsonl",
        exists=True,
        dir_okay=False,
        help="Your questions and the passages that answer them (JSONL). Default: questions that phasegraph generates "
        "from the files.",
        show_default=False,
    ),
]
Compare = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:OBJECT",
        help="Your own retriever over these files, to compare it with vectors, BM25, the fusion of both, and "
        "phasegraph.",
    ),
]


def try_out(
    context: typer.Context,
    files: ReadableFiles,
    questions: Questions = None,
    compare: Compare = None,
    embedder: Embedder = None,
    ask: Annotated[
        str | None, typer.Option(metavar="QUESTION", help="Open the page with the answer to this question.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Save the index in this folder, for search, inspect and serve.", file_okay=False),
    ] = None,
    port: Port = 0,
    open_it: OpenPage = None,
) -> None:
    """Read your files, build a graph over them, and explain the answers to your questions on a local page.

    The command needs no model and no network. With --embedder, vectors also find passages. With judged questions,
    the page marks the passages that answer them with a star.

    With --compare, no page opens: the command says whether phasegraph finds more than your retriever does.
    """
    from phasegraph.apps.cli.try_out import run

    run(context, files, questions, compare, embedder, ask, out, port, open_it)
