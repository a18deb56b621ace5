"""The options of ``phasegraph explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from phasegraph.apps.cli.options import FETCH_K, DatasetDir, FetchK, GraphDir, JsonTo, PipelineFile


def explain(
    folder: DatasetDir,
    query_id: Annotated[str, typer.Argument(metavar="QUERY_ID", help="The id of a query in queries.jsonl.")],
    pipeline: PipelineFile = None,
    graph: GraphDir = None,
    fetch_k: FetchK = FETCH_K,
    k: Annotated[int, typer.Option(min=1, help="Number of passages to explain.")] = 5,
    json_to: JsonTo = None,
) -> None:
    """Show each passage's score, calibrated value and contribution per source, and the path of the walk.

    If the pipeline has priors, their factors are also shown. Exact matches count as an additional source.
    """
    from phasegraph.apps.cli.explain import run

    run(folder, query_id, pipeline, graph, fetch_k, k, json_to)
