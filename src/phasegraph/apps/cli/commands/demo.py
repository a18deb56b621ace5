"""The options of ``phasegraph demo``."""

from __future__ import annotations

from typing import Annotated

import typer

from phasegraph.apps.cli.options import OpenPage, Port


def demo(
    ask: Annotated[
        str | None, typer.Option(metavar="QUESTION", help="Open the page with the answer to this question.")
    ] = None,
    port: Port = 0,
    open_it: OpenPage = None,
) -> None:
    """Explain an answer over the bundled data: passages of Wikipedia and questions of MuSiQue.

    The page opens on a question whose answer is one step away from the passage that the question names. Your own
    questions are answered with vectors if minilm is installed, otherwise by words and the graph.
    """
    from phasegraph.apps.cli.demo import run

    run(ask, port, open_it)
