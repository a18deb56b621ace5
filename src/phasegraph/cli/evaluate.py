"""``phasegraph evaluate``: the table of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from phasegraph.cli.calibrated import calibrated
from phasegraph.cli.options import DatasetDir, GraphDir, JsonTo, Limit, PipelineFile, measure_of, names_in
from phasegraph.cli.output import check_outputs, console, p_text, percent, progress, show_table, write_json
from phasegraph.cli.pictures import write_pictures
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.experiment import Row, Table, compare, run_systems
from phasegraph.evaluation.legs import DEFAULT_LIMIT, Bench, search_legs
from phasegraph.evaluation.measures import DEFAULT_MEASURES, Measure
from phasegraph.evaluation.peers import PEERS
from phasegraph.evaluation.systems import OWN_SYSTEMS, TWO, System, pipeline_system
from phasegraph.graph.storage import load_graph
from phasegraph.pipeline import FusionPipeline

KNOWN = {**OWN_SYSTEMS, **PEERS}
ADDED_BY = {"tuned": "--pipeline", "calibrated": "--calibrate-on"}
ON_REQUEST = ("ranx-rrf", "ranx-min-max-sum")
USUAL = tuple(name for name in KNOWN if name not in ON_REQUEST)

CalibrateOn = Annotated[
    Path | None,
    typer.Option(
        help="Add a row 'calibrated', fitted on this folder's queries without their labels.",
        exists=True,
        file_okay=False,
    ),
]
RowsTo = Annotated[
    Path | None, typer.Option("--rows", help="Write every query's ids and measures as JSONL.", dir_okay=False)
]
ReportTo = Annotated[
    Path | None, typer.Option("--report", help="Write a page with pictures into this folder.", file_okay=False)
]


def evaluate(
    folder: DatasetDir,
    systems: Annotated[str, typer.Option(help="Comma-separated names, 'usual' or 'all'.")] = "usual",
    pipeline: PipelineFile = None,
    calibrate_on: CalibrateOn = None,
    limit: Limit = DEFAULT_LIMIT,
    baseline: Annotated[str, typer.Option(help="The system the others are compared with.")] = "vector",
    measures: Annotated[str, typer.Option(help="Further measures, such as nDCG@10,MRR@10.")] = "",
    graph: GraphDir = None,
    json_to: JsonTo = None,
    rows_to: RowsTo = None,
    report_to: ReportTo = None,
) -> None:
    """Measure systems on a folder of queries, passages and embeddings: one table, exact tests, no network.

    A saved pipeline adds a row 'tuned'. The baseline is added where it is not among the systems.
    """
    added = ["tuned"] * (pipeline is not None) + ["calibrated"] * (calibrate_on is not None)
    names = chosen_systems(systems, baseline, added)
    goals = chosen_measures(measures)
    check_outputs(json=json_to, rows=rows_to)
    kept = None if graph is None else load_graph(graph)
    bench = Bench(load_dataset(folder), limit, graph=kept, progress=progress)
    known = dict(KNOWN)
    if pipeline is not None:
        tuned = FusionPipeline.load(pipeline)
        known["tuned"] = pipeline_system("tuned", tuned, legs_of(tuned), "from a file")
    if calibrate_on is not None:
        known["calibrated"] = calibrated(calibrate_on, bench.dataset, limit)
    table = _table(bench, [known[name] for name in names], goals, baseline)
    if json_to is not None:
        write_json(table.to_dict(), json_to)
    if rows_to is not None:
        table.write_rows(rows_to)
    columns, cells = as_text(table)
    to = console(beside_json=json_to == "-")
    show_table(to, title_of(table), columns, cells)
    for line in table.left_out:
        to.print(f"left out: {line}", markup=False)
    if report_to is not None:
        page = write_pictures(report_to, bench, table, title_of(table), columns, cells)
        to.print(f"report: {page}", markup=False)


def chosen_systems(text: str, baseline: str, added: Sequence[str]) -> list[str]:
    """The systems named in a comma-separated list, those that other options add, and the baseline.

    ``usual`` and ``all`` stand for many.
    """
    groups = {"usual": USUAL, "all": tuple(KNOWN)}
    names = list(dict.fromkeys(name for part in names_in(text) for name in groups.get(part, (part,))))
    for name, option in ADDED_BY.items():
        if name in [*names, baseline] and name not in added:
            raise typer.BadParameter(f"the system {name!r} needs {option}")
    known = [*KNOWN, *added]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise typer.BadParameter(
            f"systems must be among usual, all, {', '.join(known)}; got {', '.join(unknown) or 'none'}"
        )
    if baseline not in known:
        raise typer.BadParameter(f"the baseline must be among {', '.join(known)}; got {baseline!r}")
    names += [name for name in added if name not in names]
    return names if baseline in names else [baseline, *names]


def chosen_measures(text: str) -> tuple[Measure, ...]:
    """The measures named in a comma-separated list, with the six of the table always among them."""
    return tuple(dict.fromkeys([*DEFAULT_MEASURES, *(measure_of(name) for name in names_in(text))]))


def legs_of(pipeline: FusionPipeline) -> tuple[str, ...]:
    """The legs a pipeline names in its weights; vector and graph where it names none."""
    return TWO if pipeline.weights is None else tuple(pipeline.weights)


def title_of(table: Table) -> str:
    """What was measured, on how much, against what."""
    return f"{table.dataset}: {len(table.queries)} queries, lists of {table.limit}, against {table.baseline}"


def as_text(table: Table) -> tuple[list[str], list[list[str]]]:
    """Columns and rows as a person reads them."""
    columns = ["system", *(str(measure) for measure in table.measures)]
    for measure in _tested(table):
        columns += [f"W/L@{measure.k}", f"p@{measure.k} (Holm)"]
    return [*columns, "ms"], [_cells(row, table) for row in table.rows]


def _tested(table: Table) -> list[Measure]:
    return [measure for measure in table.measures if measure.name == "LastHop"]


def _cells(row: Row, table: Table) -> list[str]:
    cells = [row.name, *(percent(row.means[measure]) for measure in table.measures)]
    for measure in _tested(table):
        alone = row.name == table.baseline
        cells.append("" if alone else f"{row.wins[measure]}/{row.losses[measure]}")
        cells.append("" if alone else p_text(row.p_holm[measure]))
    return [*cells, "" if row.milliseconds is None else f"{row.milliseconds:.1f}"]


def _table(bench: Bench, wanted: list[System], goals: tuple[Measure, ...], baseline: str) -> Table:
    legs = search_legs(bench, dict.fromkeys(leg for system in wanted for leg in system.legs if leg in TWO))
    answers, left_out = run_systems(bench, wanted, max(measure.k for measure in goals), legs)
    return compare(
        answers,
        bench.dataset.judgements,
        baseline=baseline,
        measures=goals,
        dataset=bench.dataset.name,
        limit=bench.limit,
        left_out=left_out,
    )
