"""The report page of the command ``phasegraph evaluate``: the table, its terms, and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phasegraph.apps.cli.evaluate_output import OURS, Sheet
from phasegraph.evaluation.experiment import Table
from phasegraph.evaluation.recommendation import recommendation_of
from phasegraph.evaluation.report import conclusion, evaluation_pictures, measure_to_show
from phasegraph.evaluation.report_page import write_report
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.evaluation.systems import TWO, System
from phasegraph.fusion.pipeline import FusionPipeline


def write_pictures(
    target: Path, inputs: ExperimentInput, table: Table, sheet: Sheet, systems: Sequence[System]
) -> Path:
    """Write the report page with its pictures to the folder `target`, and return the path of the page.

    `sheet` is `table` as text, and `systems` are explained on the page.
    """
    data, pipeline = inputs.dataset, FusionPipeline()
    runs = search_sources(inputs, TWO)
    rankings = {name: runs[name].rankings for name in TWO}
    lists = [[rankings[name][row] for name in TWO] for row in range(len(data.queries))]
    results = [pipeline.decide(each, data.context(row, each)) for row, each in enumerate(lists)]
    labels = {passage.id: passage.title or passage.id for passage in data.passages}
    shown = next((row for row, result in enumerate(results) if len(result)), 0)
    pictures = evaluation_pictures(
        table, rankings, results, data.judgements, pipeline=pipeline, chosen=shown, labels=labels
    )
    advice = recommendation_of(table)
    advised = f"Recommendation: {advice.sentence}. " if advice else ""
    lead = (
        "Values are percentages. In brackets and under W/L: p of the paired test against the baseline, with "
        "Holm's correction."
    )
    return write_report(
        target,
        title=sheet.title,
        lead=f"{advised}{conclusion(table)} {lead}".strip(),
        columns=sheet.columns,
        rows=sheet.rows,
        marked=OURS,
        pictures=pictures,
        notes=[*(f"left out: {line}" for line in table.left_out), *table.notes],
        terms=meanings(table, systems),
        sort_by=str(measure_to_show(table)),
    )


def meanings(
    table: Table,
    systems: Sequence[System],
    ms: str = "milliseconds per question to search the sources, one after another, and to fuse the hits",
) -> dict[str, str]:
    """Return an explanation for each measure, column and system in a table; `ms` explains the column of times."""
    terms = {measure.name: measure.about for measure in table.measures if measure.about}
    terms["@k"] = "the measure counts the first k passages"
    terms["(p)"] = f"p-value of the paired test against {table.baseline}, with Holm's correction"
    if any(measure.name == "LastHop" for measure in table.tests):
        terms["W/L"] = f"questions won and lost against {table.baseline}"
    terms["ms"] = ms
    return terms | {system.name: system.about for system in systems if system.about}
