"""The options of ``phasegraph inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phasegraph.apps.cli.options import Embedder, IndexFolder, OpenPage, Port, file_option


def inspect(
    context: typer.Context,
    folder: IndexFolder,
    embedder: Embedder = None,
    corpus: Annotated[
        Path | None,
        file_option("The corpus of a chunk graph, which stores only the ids of its passages.", metavar="CORPUS.jsonl"),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="The pipeline that fuses the hits. Default: the pipeline saved in the "
            "folder, otherwise the default pipeline.",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="A second pipeline, whose answers the page compares with the answers of --pipeline.",
        ),
    ] = None,
    judged: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="Questions and the passages that answer them (JSONL, or a folder with queries.jsonl). The page marks "
            "these passages with a star, and shows which questions a changed setting gains or loses.",
        ),
    ] = None,
    ask: Annotated[str | None, typer.Option(metavar="QUESTION", help="With --export: the question to answer.")] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="PAGE.html", help="Write one offline page instead of starting a server.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; if other machines can reach the address, a token is needed.")
    ] = "127.0.0.1",
    port: Port = 8765,
    open_it: OpenPage = False,
) -> None:
    """Show on a local page the hits of every source, how they were fused, and the effect of other settings.

    The page contacts only this server, which by default listens only on this machine. For other hosts (--host),
    the token comes from PHASEGRAPH_INSPECT_TOKEN; without this variable, the command generates a token.
    """
    from phasegraph.apps.cli.inspect import run

    run(context, folder, embedder, corpus, pipeline, compare, judged, ask, export, host, port, open_it)
