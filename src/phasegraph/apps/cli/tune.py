"""The command ``phasegraph tune``: fit a pipeline on one part of the queries, and confirm it on the other part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console

from phasegraph._support.text import counted
from phasegraph.apps.cli.output import (
    check_outputs,
    embedding_doubts,
    measure_of,
    names_in,
    open_dataset,
    percent,
    progress,
    show_table,
    write_json,
)
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.source_runs import SOURCES, ExperimentInput, search_sources
from phasegraph.evaluation.splits import split_rows
from phasegraph.evaluation.tuned_confidence import ConfidenceTuning, tune_confidence
from phasegraph.evaluation.tuning import Tuning
from phasegraph.evaluation.tuning import tune as tune_pipeline
from phasegraph.lexical import read_hits


def run(
    folder: Path,
    out: Path,
    measure: str,
    sources: str,
    fetch_k: int,
    confirm_split: str | None,
    span_overlap: float | None,
    keep_unconfirmed: bool,
    json_to: str | None,
) -> None:
    """Run ``phasegraph tune``; the parameters are the options of the command."""
    names = names_in(sources)
    if not names or any(name not in SOURCES for name in names):
        raise typer.BadParameter(f"--sources must be among {', '.join(SOURCES)}; got {sources!r}")
    goal = measure_of(measure, "--measure")
    check_outputs(out=out, json=json_to)
    dataset = open_dataset(folder, span_overlap)
    _, confirming, parted_by = split_rows(dataset, confirm_split)
    runs = search_sources(ExperimentInput(dataset, fetch_k, progress=progress), names)
    rankings = {name: runs[name].rankings for name in names}
    found = tune_pipeline(
        rankings,
        dataset.judgements,
        [dataset.context(row, [rankings[name][row] for name in names]) for row in range(len(dataset.queries))],
        measure=goal,
        groups=dataset.groups,
        confirmation=confirming,
        sizes=dict.fromkeys(names, len(dataset.passages)),
        progress=progress,
    )
    kept, verdict = found.pipeline, found.verdict
    if keep_unconfirmed and found.chosen != found.pipeline:
        kept = found.chosen
        verdict = verdict.replace("the default stays", f"--keep-unconfirmed writes the chosen pipeline to {out}")
    judged = tune_confidence(
        kept,
        rankings,
        dataset.judgements,
        [query.text for query in dataset.queries],
        lambda question, lists: read_hits(question, lists, dataset.contents.__getitem__),
        confirmation=confirming.tolist(),
    )
    (kept if judged is None else replace(kept, confidence=judged.model)).save(out)
    figures = None if judged is None else {key: getattr(judged, key) for key in ("queries", "auc", "ece", "brier")}
    state = {
        "dataset": dataset.name,
        "limit": fetch_k,
        "parted_by": parted_by,
        **found.to_dict(),
        "verdict": verdict,
        "confidence": figures,
    }
    to = write_json(state, json_to)
    _show(found, dataset, parted_by, verdict, to)
    if judged is not None:
        to.print(_said(judged))
    for line in embedding_doubts(dataset):
        to.print(line)


def _said(found: ConfidenceTuning) -> str:
    queries = counted(found.queries, "query", "queries")
    line = f"confidence: AUC {percent(found.auc)} on {queries} with and without their passages"
    if found.ece is None or found.brier is None:
        return f"{line}; no probability, because too few queries are judged"
    return f"{line}; as a probability: ECE {found.ece:.3f}, Brier {found.brier:.3f}"


def _show(found: Tuning, dataset: Dataset, parted_by: str, verdict: str, to: Console) -> None:
    name = dataset.name
    title = f"{name}: {found.tried} configurations tried, best is '{found.chosen_name}'"
    if found.unfitted:
        title += f" ({found.unfitted} more need more queries for fitting)"
    rows = [
        (
            f"tuning part ({counted(found.tuning_queries, 'query', 'queries')}, out of fold)",
            percent(found.tuning_default),
            percent(found.tuning_chosen),
        ),
        (
            f"confirmation part ({counted(found.confirmation_queries, 'query', 'queries')}, looked at once)",
            percent(found.confirmation_default),
            percent(found.confirmation_chosen),
        ),
    ]
    show_table(to, title, [found.measure, "default", "chosen"], rows)
    parted = f"parted by {parted_by}"
    if dataset.groups is not None:
        parted += f": {found.tuning_groups} and {found.confirmation_groups} collections, {found.shared_groups} in both"
    to.print(parted)
    to.print(f"gain {100 * found.low:+.1f} to {100 * found.high:+.1f} (95 %); {verdict}", markup=False)
