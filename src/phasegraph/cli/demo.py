"""``phasegraph demo``: the main job on bundled real data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from phasegraph.cli.evaluate import as_text, title_of
from phasegraph.cli.explain import show_result
from phasegraph.cli.output import console, progress, show_table, write_json
from phasegraph.demo import Demonstration, ask, run_demo
from phasegraph.errors import MissingDependencyError
from phasegraph.evaluation.datasets import Judgement, Query


def demo(
    question: Annotated[
        str | None, typer.Option("--ask", help="Answer this question instead; needs the [minilm] extra.")
    ] = None,
    json_to: Annotated[
        str | None, typer.Option("--json", help="Write the table as JSON ('-': standard output).")
    ] = None,
    picture: Annotated[
        Path, typer.Option(help="Where to put the picture of the scores; 'none': nowhere.", dir_okay=False)
    ] = Path("phasegraph-demo.png"),
    data: Annotated[
        Path | None, typer.Option(help="A folder of the data format in place of the bundled one.", file_okay=False)
    ] = None,
) -> None:
    """Fuse vectors and a knowledge graph on 100 real questions, in LangChain and in LlamaIndex."""
    to = console(beside_json=json_to == "-")
    if question is not None:
        dataset, result = ask(question, data)
        show_result(result, Query("typed", question, Judgement("typed", ())), dataset, to, top=5)
        return
    done = run_demo(data, progress)
    if json_to is not None:
        write_json(done.table.to_dict(), json_to)
    _show(done, to)
    if str(picture) != "none":
        _draw(done, picture, to)


def _show(done: Demonstration, to: Console) -> None:
    columns, rows = as_text(done.table)
    show_table(to, title_of(done.table), columns, rows)
    to.print(
        f"LangChain (InMemoryVectorStore) and LlamaIndex (SimpleVectorStore) gave the core's ids on all "
        f"{len(done.results)} questions, {done.seconds:.0f} s in all. Every system fuses the same two lists of "
        f"{done.table.limit}; ms: fusing alone. p: exact McNemar on LastHop, Holm-corrected.\n",
        markup=False,
    )
    if done.chosen is None:
        return
    to.print("One of the questions that vectors alone do not answer:", markup=False)
    show_result(done.results[done.chosen], done.dataset.queries[done.chosen], done.dataset, to, top=3)


def _draw(done: Demonstration, picture: Path, to: Console) -> None:
    from phasegraph.evaluation.report import calibrated_scores, score_distributions
    from phasegraph.pipeline import FusionPipeline

    try:
        figure = score_distributions(*calibrated_scores(done.rankings, FusionPipeline()))
    except MissingDependencyError as error:
        to.print(f"no picture: {error}", markup=False)
        return
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=140)
    to.print(f"Score distributions before and after calibration: {picture}", markup=False)
