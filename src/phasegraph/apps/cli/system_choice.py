"""Choose the systems that ``phasegraph evaluate`` compares: by name, by group, or from the files of options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from phasegraph._support.renamed import new_system
from phasegraph.apps.cli.naming import say_old_name
from phasegraph.apps.cli.output import check_named, names_in, progress
from phasegraph.evaluation.calibrated_system import calibrated_system
from phasegraph.evaluation.datasets import Dataset, EmbeddedDataset
from phasegraph.evaluation.peers import PEERS
from phasegraph.evaluation.systems import NAMED_SYSTEMS, OWN_SYSTEMS, THREE, TWO, Batch, System, pipeline_system
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.fusion.renamed_sources import with_new_source_names

KNOWN = {**OWN_SYSTEMS, **PEERS, **NAMED_SYSTEMS}
"""The systems that need no option, by name; :data:`ADDED_BY` has the others."""
ADDED_BY = {"tuned": "--pipeline", "calibrated": "--calibrate-on"}
"""The options that add a system, by the system's name."""
ON_REQUEST = ("ranx-rrf", "ranx-min-max-sum", "bayesian-bm25", *NAMED_SYSTEMS)
"""The known systems that ``usual`` leaves out."""
USUAL = tuple(name for name in KNOWN if name not in ON_REQUEST)
"""The systems that ``usual`` stands for; they are compared by default."""


def chosen_systems(text: str, baseline: str, added: Sequence[str]) -> list[str]:
    """Return the names of the systems to compare: those in the comma-separated `text` and in `added`, and `baseline`.

    In `text`, ``usual`` and ``all`` stand for groups of systems.
    """
    groups = {"usual": USUAL, "all": tuple(KNOWN)}
    given = [new_system(part, say_old_name) for part in names_in(text)]
    names = list(dict.fromkeys(name for part in given for name in groups.get(part, (part,))))
    for name, option in ADDED_BY.items():
        if name in [*names, baseline] and name not in added:
            raise typer.BadParameter(f"--systems: {name!r} needs {option}")
    known = [*KNOWN, *added]
    for name in names or [""]:
        check_named("--systems", name, ["usual", "all", *known])
    check_named("--baseline", baseline, known)
    names += [name for name in added if name not in names]
    return names if baseline in names else [baseline, *names]


def added_systems(
    pipeline: Path | None, calibrate_on: Path | None, dataset: Dataset, fetch_k: int
) -> dict[str, System]:
    """Return, by name, the systems that options add: ``tuned`` for `pipeline`, ``calibrated`` for `calibrate_on`.

    ``tuned`` is the pipeline in this file. ``calibrated`` is fitted on the queries of this folder. An option that is
    None adds no system.
    """
    found: dict[str, System] = {}
    if pipeline is not None:
        tuned = with_new_source_names(FusionPipeline.load(pipeline), THREE)
        named = TWO if tuned.weights is None else tuple(tuned.weights)
        system = pipeline_system("tuned", tuned, named, "the pipeline of --pipeline", ours=True)
        found["tuned"] = system if tuned.selection is None else _with_embeddings(system)
    if calibrate_on is not None:
        found["calibrated"] = calibrated_system(calibrate_on, dataset, fetch_k, progress)
    return found


def _with_embeddings(system: System) -> System:
    """Return a system that fuses with the embeddings of the passages, because its pipeline selects passages."""

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        return system.answer(EmbeddedDataset.of(dataset), batch, k)

    def confidence(dataset: Dataset, batch: Batch) -> Sequence[float | None]:
        return [] if system.confidence is None else system.confidence(EmbeddedDataset.of(dataset), batch)

    return replace(system, answer=answer, confidence=confidence)
