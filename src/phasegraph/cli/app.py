"""All commands in one application."""

from __future__ import annotations

import typer

from phasegraph.cli.demo import demo
from phasegraph.cli.evaluate import evaluate
from phasegraph.cli.explain import explain
from phasegraph.cli.fuse import fuse
from phasegraph.cli.index import index
from phasegraph.cli.reproduce import reproduce
from phasegraph.cli.tune import tune

app = typer.Typer(
    help="Fuse unlike retrievers on one scale, and measure whether it helps.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (demo, index, evaluate, tune, fuse, explain, reproduce):
    app.command()(command)
