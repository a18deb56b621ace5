"""``phasegraph fuse``: TREC runs in, a TREC run out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from phasegraph.cli.output import PipelineFile, check_outputs, console
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.experiment import min_max_sum
from phasegraph.evaluation.runs import Run, read_run, write_run
from phasegraph.pipeline import FusionPipeline
from phasegraph.ranking import Ranking

RULES: dict[str, Callable[[], FusionPipeline]] = {
    "default": FusionPipeline,
    "rrf": FusionPipeline.reciprocal_rank,
    "min-max-sum": min_max_sum,
    "phasegraph": FusionPipeline.phasegraph,
}


def fuse(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", exists=True, dir_okay=False)],
    out: Annotated[Path, typer.Option(help="The fused run.", dir_okay=False)],
    rule: Annotated[str, typer.Option(help=f"One of {', '.join(RULES)}.")] = "default",
    pipeline: PipelineFile = None,
    k: Annotated[int, typer.Option(min=1, help="Hits per query.")] = 100,
    name: Annotated[str, typer.Option(help="Name of the fused run.")] = "fused",
) -> None:
    """Fuse runs; a source is named after its file (vector.run is 'vector')."""
    if rule not in RULES:
        raise typer.BadParameter(f"the rule must be one of {', '.join(RULES)}; got {rule!r}")
    check_outputs(out=out)
    chosen = RULES[rule]() if pipeline is None else FusionPipeline.load(pipeline)
    read = [read_run(path) for path in runs]
    names = [run.name for run in read]
    if len(set(names)) != len(names):
        raise InvalidInputError(f"runs must have files of different names; got {names}")
    queries = dict.fromkeys(query for run in read for query in run.rankings)
    fused = {}
    for query in queries:
        found = chosen.decide([run.rankings[query] for run in read if query in run.rankings], k=k)
        fused[query] = Ranking(name, found.ids, found.scores)
    write_run(Run(name, fused), out)
    to = console()
    to.print(f"{len(queries)} queries from {len(read)} runs fused into {out}", markup=False)
    partial = sum(any(query not in run.rankings for run in read) for query in queries)
    if partial:
        lacks = ", ".join(f"{run.name} {len(queries) - len(run.rankings)}" for run in read)
        to.print(f"{partial} queries are not in every run (missing: {lacks}); fused from those that have them")
