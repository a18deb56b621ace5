"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.measures import Measure

DatasetDir = Annotated[
    Path,
    typer.Argument(
        metavar="DATASET_DIR", help="A folder with corpus, queries and embeddings.", exists=True, file_okay=False
    ),
]
Limit = Annotated[int, typer.Option(min=1, help="Hits asked of every source.")]
JsonTo = Annotated[str | None, typer.Option("--json", help="Write it as JSON ('-': standard output).")]
PipelineFile = Annotated[Path | None, typer.Option(help="A saved pipeline.", exists=True, dir_okay=False)]
GraphDir = Annotated[
    Path | None, typer.Option(help="A saved entity graph of this corpus (see index).", exists=True, file_okay=False)
]


def names_in(text: str) -> list[str]:
    """The names of a comma-separated list, each once, in order."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def measure_of(text: str) -> Measure:
    """A measure, or the command line's own error."""
    try:
        return Measure.parse(text)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from error
