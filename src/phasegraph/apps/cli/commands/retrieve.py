"""The options of ``phasegraph retrieve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasegraph.apps.cli.options import EngineName, Shards, Workers, WorkFolder


def retrieve(
    index: Annotated[
        Path,
        typer.Argument(
            metavar="INDEX", help="A folder written by index, or a saved retriever.", exists=True, file_okay=False
        ),
    ],
    queries: Annotated[
        Path,
        typer.Argument(
            metavar="QUERIES",
            help="Parquet or JSONL file: id (in JSONL, default: line number), question, and optionally embedding.",
            exists=True,
            dir_okay=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="File for the run: .parquet, .jsonl, or any other suffix for the TREC format.", dir_okay=False
        ),
    ],
    k: Annotated[int, typer.Option(min=1, help="Number of passages per question.")] = 10,
    embedder: Annotated[
        str | None, typer.Option(metavar="MODULE:OBJECT", help="The model that embedded the passages, as for search.")
    ] = None,
    engine: EngineName = None,
    shards: Shards = None,
    workers: Workers = None,
    work: WorkFolder = None,
) -> None:
    """Answer many questions in processes that share one memory-mapped index.

    A run that was interrupted continues after its finished parts.
    """
    from phasegraph.apps.cli.retrieve import run

    run(index, queries, out, k, embedder, engine, shards, workers, work)
