"""What ``phasegraph evaluate --retriever`` does: the user's own retrievers on their own judged questions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from phasegraph.cli.output import check_outputs, console, load_object, progress, show_table, write_json
from phasegraph.errors import PhasegraphWarning
from phasegraph.evaluation import Evaluation, evaluate
from phasegraph.evaluation.measures import Measure
from phasegraph.sources.protocol import one_line

Retrievers = Annotated[
    list[str] | None,
    typer.Option(
        "--retriever",
        metavar="MODULE:OBJECT",
        help="Measure your own retriever: LangChain's, LlamaIndex's, a source or a function (repeatable).",
    ),
]
CorpusFile = Annotated[
    Path | None,
    typer.Option(
        help="With --retriever: the passages there are, to count ids that are none.", exists=True, dir_okay=False
    ),
]
IdKey = Annotated[
    str | None, typer.Option(help="With --retriever: metadata key or attribute of the hits that holds the judged id.")
]
GOES_WITH = frozenset({"folder", "retriever", "corpus", "id_key", "measures", "json_to", "rows_to"})


def check_options(context: typer.Context) -> None:
    """Raise where an option is given that measuring one's own retriever would not heed."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name not in GOES_WITH and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"{parameter.opts[0]} must be left out with --retriever")


def evaluate_retrievers(
    names: Sequence[str],
    judged: Path,
    corpus: Path | None,
    id_key: str | None,
    further: Sequence[Measure],
    json_to: str | None,
    rows_to: Path | None,
) -> None:
    """Measure the retrievers that are named, print the table, and write what was asked for."""
    check_outputs(json=json_to, rows=rows_to)
    given = {name: load_object(name) for name in dict.fromkeys(names)}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*none of the .* ids it returned", category=PhasegraphWarning)
        found = evaluate(given, judged, corpus=corpus, measures=further, id_key=id_key, progress=progress)
    if json_to is not None:
        write_json(found.to_dict(), json_to)
    if rows_to is not None:
        found.table.write_rows(rows_to)
    to = console(beside_json=json_to == "-")
    table = found.table
    show_table(to, f"{table.dataset}: {len(table.queries)} questions, 95 % intervals in brackets", *found.cells())
    for line in [*found.notes, *_first_errors(found)]:
        to.print(line, markup=False)


def _first_errors(found: Evaluation) -> list[str]:
    """The first error of each retriever with its text, which is for the eyes of whoever runs it, not for a file."""
    firsts = {name: next(iter(of.items())) for name, of in found.errors.items() if of}
    return [
        f"{name}: the first, on question {query!r}: {type(error).__name__}: {one_line(str(error))}"
        for name, (query, error) in firsts.items()
    ]
