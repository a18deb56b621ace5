"""The options of ``phasegraph fuse``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasegraph.apps.cli.options import PipelineFile

RULES = (
    "default, reciprocal_rank, adr, min-max-sum, z-score-sum, paper, paper-2wiki, paper-hard-slice, paper-legacy, "
    "tsallis, convex, linear, rrf, comb_sum, comb_mnz, comb_anz, comb_med, boltzmann, isr, borda, dbsf, log_linear, "
    "power_mean, gumbel_copula, interference, normal_scores, wasserstein_temperature, plackett_luce"
)
"""The names in phasegraph.fusion.pipeline.PIPELINE_NAMES."""


def fuse(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", exists=True, dir_okay=False, help="Run files in the TREC format.")
    ],
    out: Annotated[Path, typer.Option(help="File for the fused run.", dir_okay=False)],
    rule: Annotated[str, typer.Option(help=f"One of {RULES}.")] = "default",
    weights: Annotated[str, typer.Option(help="Weights of the sources, such as vector=1,graph=0.35.")] = "",
    pipeline: PipelineFile = None,
    k: Annotated[int, typer.Option(min=1, help="Number of hits per query.")] = 100,
    name: Annotated[str, typer.Option(help="Name of the fused run.")] = "fused",
) -> None:
    """Fuse runs by a preset or a rule; a source is named after its file (vector.run is 'vector').

    The scores of the fused run are the values of the rule. With equal weights, they equal the published formulas.
    """
    from phasegraph.apps.cli.fuse import run

    run(runs, out, rule, weights, pipeline, k, name)
