"""The page of an evaluation: its table and its pictures, for our default."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from phasegraph.errors import MissingDependencyError
from phasegraph.evaluation.experiment import Table
from phasegraph.evaluation.legs import Bench, search_legs
from phasegraph.evaluation.systems import TWO
from phasegraph.pipeline import FusionPipeline
from phasegraph.priors import Context


def write_pictures(
    target: Path, bench: Bench, table: Table, title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]
) -> Path:
    """Write the page and its pictures.

    Parameters
    ----------
    target : path
        Folder; made if missing.
    bench : Bench
    table : Table
    title : str
    columns, cells
        The table as text.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    MissingDependencyError
        If matplotlib is not installed.
    """
    try:
        from phasegraph.report import evaluation_pictures, write_report
    except ImportError as error:
        raise MissingDependencyError("--report needs matplotlib; pip install 'phasegraph[viz]'") from error
    data, pipeline = bench.dataset, FusionPipeline()
    legs = search_legs(bench, TWO)
    rankings = {name: legs[name].rankings for name in TWO}
    results = [
        pipeline.decide([rankings[name][row] for name in TWO], Context(query=query.text))
        for row, query in enumerate(data.queries)
    ]
    labels = {passage.id: passage.title or passage.id for passage in data.passages}
    shown = next((row for row, result in enumerate(results) if len(result)), 0)
    pictures = evaluation_pictures(
        table, rankings, results, data.judgements, pipeline=pipeline, chosen=shown, labels=labels
    )
    lead = "Percentages; p is the exact McNemar test on LastHop, corrected by Holm over the whole table."
    return write_report(
        target,
        title=title,
        lead=lead,
        columns=columns,
        rows=cells,
        marked=["default"],
        pictures=pictures,
        notes=[f"left out: {line}" for line in table.left_out],
    )
