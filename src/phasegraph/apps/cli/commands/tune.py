"""The options of ``phasegraph tune``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasegraph.apps.cli.options import FETCH_K, DatasetDir, FetchK, JsonTo, SpanOverlap


def tune(
    folder: DatasetDir,
    out: Annotated[Path, typer.Option(help="JSON file to write the pipeline to.", dir_okay=False)],
    measure: Annotated[str, typer.Option(help="The measure to maximize.")] = "Recall@5",
    sources: Annotated[str, typer.Option(help="Comma-separated sources to fuse.")] = "vector,graph",
    fetch_k: FetchK = FETCH_K,
    confirm_split: Annotated[
        str | None,
        typer.Option(
            help="The split on which the best pipeline is confirmed; default: the last split of the data set."
        ),
    ] = None,
    span_overlap: SpanOverlap = None,
    keep_unconfirmed: Annotated[
        bool, typer.Option(help="Write the best pipeline of the tuning part even if its gain was not confirmed.")
    ] = False,
    json_to: JsonTo = None,
) -> None:
    """Choose and fit a pipeline on one part of the judged queries, and confirm its gain on the other part.

    The field `split` of the queries names the parts. Without this field, the parts are two halves of the queries that
    share no collection.
    """
    from phasegraph.apps.cli.tune import run

    run(folder, out, measure, sources, fetch_k, confirm_split, span_overlap, keep_unconfirmed, json_to)
