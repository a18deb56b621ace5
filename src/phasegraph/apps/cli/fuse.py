"""The command ``phasegraph fuse``: fuse TREC runs into one TREC run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import typer

from phasegraph._support.renamed import new_system
from phasegraph._support.text import counted
from phasegraph.apps.cli.naming import say_old_name
from phasegraph.apps.cli.output import check_named, check_outputs, console, names_in
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.runs import Run, read_run, write_run
from phasegraph.fusion.pipeline import PIPELINE_NAMES, FusionPipeline
from phasegraph.ranking import Ranking
from phasegraph.retrieval.source_config import check_no_exact_match


def run(runs: list[Path], out: Path, rule: str, weights: str, pipeline: Path | None, k: int, name: str) -> None:
    """Run ``phasegraph fuse``; the parameters are the options of the command."""
    rule = new_system(rule, say_old_name)
    check_named("--rule", rule, PIPELINE_NAMES)
    own = weights_in(weights)
    if pipeline is not None and (rule != "default" or own is not None):
        raise typer.BadParameter("--pipeline sets the rule and the weights: leave out --rule and --weights")
    check_outputs(out=out)
    chosen = FusionPipeline.named(rule, own) if pipeline is None else FusionPipeline.load(pipeline)
    read = [read_run(path) for path in runs]
    names = [run.name for run in read]
    if len(set(names)) != len(names):
        raise InvalidInputError(
            f"run files must have different names, because the name of a file is the source; got {names}"
        )
    check_no_exact_match(names)
    _check_weighted(rule, chosen.weights or {}, names, own is not None or pipeline is not None)
    unread = [str(prior.to_dict()["name"]) for prior in chosen.priors]
    chosen = replace(chosen, priors=())
    queries = dict.fromkeys(query for run in read for query in run.rankings)
    fused: dict[str, Ranking] = {}
    said: list[str] = []
    for query in queries:
        found = chosen.decide([run.rankings[query] for run in read if query in run.rankings], k=k)
        fused[query] = Ranking(name, found.ids, found.fused)
        said += found.warnings[:1]
    write_run(Run(name, fused), out)
    to = console()
    to.print(f"{counted(len(queries), 'query', 'queries')} from {counted(len(read), 'run')} fused into {out}")
    if unread:
        to.print(
            f"{', '.join(unread)}: left out, because runs contain neither texts nor fields (see evaluate and explain)"
        )
    partial = sum(any(query not in run.rankings for run in read) for query in queries)
    if partial:
        lacks = ", ".join(f"{run.name} {len(queries) - len(run.rankings)}" for run in read)
        to.print(
            f"{counted(partial, 'query', 'queries')} not in every run (missing: {lacks}), fused from the other runs"
        )
    if said:
        to.print(f"{counted(len(said), 'query', 'queries')} with a warning; the first: {said[0]}")


def weights_in(text: str) -> dict[str, float] | None:
    """Parse the text ``name=number,name=number`` to weights by source name; None if it contains no weight."""
    found: dict[str, float] = {}
    for part in names_in(text):
        name, _, number = part.partition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            raise typer.BadParameter(f"--weights must be name=number,name=number; got {part!r}") from None
    return found or None


def _check_weighted(rule: str, weights: Mapping[str, float], names: Sequence[str], own: bool) -> None:
    """Raise BadParameter if the default weights of a rule lack the name of a run.

    If `own` is true, the user gave the weights, and the fusion checks them.
    """
    lost = [name for name in names if name not in weights]
    if weights and lost and not own:
        raise typer.BadParameter(
            f"--rule {rule} has weights for {' and '.join(sorted(weights))}, and not for {', '.join(lost)}: set "
            f"--weights {','.join(f'{name}=1' for name in names)}, with your numbers, or rename the run files"
        )
