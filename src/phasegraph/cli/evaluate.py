"""``phasegraph evaluate``: the table of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasegraph.cli.calibrated import calibrated
from phasegraph.cli.output import console, p_text, percent, progress, show_table, write_json
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import load_dataset
from phasegraph.evaluation.experiment import Row, Table, compare, run_systems
from phasegraph.evaluation.legs import DEFAULT_LIMIT, Bench, Leg, search_legs
from phasegraph.evaluation.measures import DEFAULT_MEASURES, Measure
from phasegraph.evaluation.peers import PEERS
from phasegraph.evaluation.systems import OWN_SYSTEMS, TWO, System, pipeline_system
from phasegraph.pipeline import FusionPipeline

KNOWN = {**OWN_SYSTEMS, **PEERS}
ON_REQUEST = ("ranx-rrf", "ranx-min-max-sum", "hipporag2", "semflow")
USUAL = tuple(name for name in KNOWN if name not in ON_REQUEST)


def chosen_systems(text: str) -> list[System]:
    """The systems named in a comma-separated list; ``usual`` and ``all`` stand for many."""
    names: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        more = {"usual": USUAL, "all": tuple(KNOWN)}.get(part, (part,))
        names += [name for name in more if name and name not in names]
    unknown = [name for name in names if name not in KNOWN]
    if unknown or not names:
        raise typer.BadParameter(
            f"systems must be among usual, all, {', '.join(KNOWN)}; got {', '.join(unknown) or 'none'}"
        )
    return [KNOWN[name] for name in names]


def chosen_measures(text: str) -> tuple[Measure, ...]:
    """The measures named in a comma-separated list, with the six of the table always among them."""
    try:
        wanted = [Measure.parse(part.strip()) for part in text.split(",") if part.strip()]
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from error
    return (*DEFAULT_MEASURES, *dict.fromkeys(m for m in wanted if m not in DEFAULT_MEASURES))


def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="DATASET_DIR", exists=True, file_okay=False)],
    systems: Annotated[str, typer.Option(help="Comma-separated names, 'usual' or 'all'.")] = "usual",
    pipeline: Annotated[
        Path | None, typer.Option(help="Add a row 'tuned' for this pipeline.", exists=True, dir_okay=False)
    ] = None,
    calibrate_on: Annotated[
        Path | None,
        typer.Option(
            help="Add a row 'calibrated', fitted on this folder's queries without their labels.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Hits asked of every source.")] = DEFAULT_LIMIT,
    baseline: Annotated[str, typer.Option(help="The system the others are compared with.")] = "vector",
    measures: Annotated[str, typer.Option(help="Further measures, such as nDCG@10,MRR@10.")] = "",
    json_to: Annotated[
        str | None, typer.Option("--json", help="Write the table as JSON ('-': standard output).")
    ] = None,
    rows_to: Annotated[
        Path | None, typer.Option("--rows", help="Write every query's ids and measures as JSONL.", dir_okay=False)
    ] = None,
) -> None:
    """Measure systems on a folder of queries, passages and embeddings: one table, exact tests, no network."""
    wanted = chosen_systems(systems)
    goals = chosen_measures(measures)
    extra = ["tuned"] * (pipeline is not None) + ["calibrated"] * (calibrate_on is not None)
    if baseline not in [*(system.name for system in wanted), *extra]:
        raise typer.BadParameter(f"the baseline must be among the systems; got {baseline!r}")
    dataset = load_dataset(folder)
    bench = Bench(dataset, limit, progress=progress)
    if pipeline is not None:
        tuned = FusionPipeline.load(pipeline)
        wanted.append(pipeline_system("tuned", tuned, legs_of(tuned), "from a file"))
    if calibrate_on is not None:
        wanted.append(calibrated(calibrate_on, dataset, limit))
    legs = search_legs(bench, dict.fromkeys(leg for system in wanted for leg in system.legs if leg in TWO))
    table = _table(bench, wanted, legs, goals, baseline)
    if json_to is not None:
        write_json(table.to_dict(), json_to)
    if rows_to is not None:
        table.write_rows(rows_to)
    _show(table, beside_json=json_to == "-")


def legs_of(pipeline: FusionPipeline) -> tuple[str, ...]:
    """The legs a pipeline names in its weights; those of vector and graph where it names none."""
    return TWO if pipeline.weights is None else tuple(pipeline.weights)


def _table(
    bench: Bench, wanted: list[System], legs: dict[str, Leg], goals: tuple[Measure, ...], baseline: str
) -> Table:
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


def _show(table: Table, *, beside_json: bool) -> None:
    to = console(beside_json=beside_json)
    tested = [measure for measure in table.measures if measure.name == "LastHop"]
    columns = ["system", *(str(measure) for measure in table.measures)]
    columns += [text for measure in tested for text in (f"W/L@{measure.k}", f"p@{measure.k} (Holm)")] + ["ms"]
    title = f"{table.dataset}: {len(table.queries)} queries, lists of {table.limit}, against {table.baseline}"
    show_table(to, title, columns, [_cells(row, table) for row in table.rows])
    for line in table.left_out:
        to.print(f"left out: {line}", markup=False)


def _cells(row: Row, table: Table) -> list[str]:
    cells = [row.name, *(percent(row.means[measure]) for measure in table.measures)]
    for measure in table.measures:
        if measure.name == "LastHop":
            alone = row.name == table.baseline
            cells.append("" if alone else f"{row.wins[measure]}/{row.losses[measure]}")
            cells.append("" if alone else p_text(row.p_holm[measure]))
    return [*cells, "" if row.milliseconds is None else f"{row.milliseconds:.1f}"]
