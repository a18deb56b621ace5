"""``phasegraph inspect``: look at the answers of a saved index on a local page."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated

import typer

from phasegraph.cli.output import Embedder, IndexFolder, check_outputs, console, load_embedder, progress
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.retrievers import read_judged
from phasegraph.evaluation.runs import write_text
from phasegraph.graph.corpus import opened
from phasegraph.graph.index import GraphIndex
from phasegraph.inspecting.inspector import OTHER, OWN, Inspector
from phasegraph.inspecting.server import LOOPBACK, exported, serve
from phasegraph.pipeline import PIPELINE_NAMES, FusionPipeline
from phasegraph.retrieval import PIPELINE

TOKEN = "PHASEGRAPH_INSPECT_TOKEN"
"""Environment variable that may hold the token."""


def _pipeline_of(given: str | None, option: str) -> FusionPipeline | None:
    if given is None:
        return None
    if given in PIPELINE_NAMES:
        return FusionPipeline.named(given)
    if not Path(given).is_file():
        raise InvalidInputError(
            f"{option} must be a saved pipeline or one of {', '.join(PIPELINE_NAMES)}; got {given!r}"
        )
    return FusionPipeline.load(given)


def inspect(
    folder: IndexFolder,
    embedder: Embedder = None,
    pipeline: Annotated[
        str | None, typer.Option(metavar="FILE|NAME", help="Default: the one saved in the folder, else the default.")
    ] = None,
    compare: Annotated[
        str | None, typer.Option(metavar="FILE|NAME", help="Another pipeline, to be compared with it.")
    ] = None,
    judged: Annotated[
        Path | None,
        typer.Option(help="Judged questions (JSONL, or a folder with queries.jsonl): which a setting gains or loses."),
    ] = None,
    ask: Annotated[str | None, typer.Option(metavar="QUESTION", help="With --export: the question.")] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="PAGE.html", help="Write one offline page instead of serving.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Beyond loopback a token is needed, made where none is given.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8765,
) -> None:
    """Show what every source found, how it was fused, and what other settings would make of it, on a local page.

    The page asks nobody but this server, which answers on this machine only unless --host says otherwise.
    The token of another host is taken from PHASEGRAPH_INSPECT_TOKEN, or made.
    """
    if (ask is None) != (export is None):
        raise InvalidInputError("--ask and --export go together: --export page.html --ask QUESTION")
    check_outputs(export=export)
    index = opened(folder)
    if not isinstance(index, GraphIndex):
        raise InvalidInputError(f"{folder}: inspect shows indexes with an entity graph; this one is a graph of chunks")
    kept = folder / PIPELINE
    inspector = Inspector(
        index,
        folder.resolve().name,
        embedder=load_embedder(embedder),
        pipeline=_pipeline_of(pipeline or (str(kept) if kept.is_file() else None), "--pipeline"),
        compared=_pipeline_of(compare, "--compare"),
        judged=() if judged is None else read_judged(judged)[0],
    )
    to = console()
    if export is not None:
        other = None if compare is None else {"pipeline": OTHER}
        write_text(str(export), exported(inspector, ask, {"pipeline": OWN}, other))
        to.print(f"wrote {export}")
        return
    token = os.environ.get(TOKEN) or (None if host in LOOPBACK else secrets.token_urlsafe(24))
    inspector.prepare(progress)
    serve(inspector, host, port, token, lambda address: to.print(f"{address}  (Ctrl-C ends it)"))
