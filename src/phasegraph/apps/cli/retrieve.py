"""The command ``phasegraph retrieve``: answer a file of questions from a saved index."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from phasegraph.apps.cli import engines
from phasegraph.apps.cli.engines import Engine, EngineName, Shards, Workers, WorkFolder
from phasegraph.apps.cli.models import check_model_of
from phasegraph.apps.cli.output import check_outputs, console, load_object
from phasegraph.distributed import retrieval


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
            help="Parquet or JSONL file: id, question, and optionally embedding.",
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
    began = perf_counter()
    check_outputs(out=out)
    model = None if embedder is None else load_object(embedder, "--embedder")
    if model is not None:
        check_model_of(index, model)
    with engines.started(engine or Engine.local, workers) as run:
        took = retrieval.retrieve(queries, index, out, k=k, embeddings=model, shards=shards, work=work, engine=run)
    console().print(
        f"{queries} answered in {perf_counter() - began:.1f} s ({took.cpu:.1f} s of CPU, at most "
        f"{took.peak / 1e6:,.0f} MB per process including mapped files): {out}",
        markup=False,
    )
