"""``phasegraph reproduce``: every table of the documentation, from the data, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasegraph.cli.output import console
from phasegraph.reproduce.running import reproduce as write_pages


def reproduce(
    folder: Annotated[Path, typer.Argument(metavar="DIR", exists=True, file_okay=False)],
    out: Annotated[Path, typer.Option(help="Folder for the pages.", file_okay=False)] = Path("docs/reproduction"),
) -> None:
    """Write the reproduction's pages from a folder of data sets (musique, 2wiki, published), or from one data set."""
    to = console()
    written = write_pages(folder, out, say=lambda line: to.print(line, markup=False))
    to.print(f"{len(written)} files written to {out}", markup=False)
