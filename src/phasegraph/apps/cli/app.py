"""The command-line application; the options of a command are imported when the command is named."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from importlib.metadata import version
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from phasegraph._support.renamed import renamed_options
from phasegraph._support.text import legible
from phasegraph.apps.cli.naming import did_you_mean, say_old_name
from phasegraph.errors import InvalidInputError

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "try": "Read your files, build a graph over them, and explain the answers to your questions on a local page.",
        "demo": "Explain an answer over the bundled data: passages of Wikipedia and questions of MuSiQue.",
        "index": "Build the graph of your files by rules, without a model, and save it for search, inspect, "
        "serve and retrieve.",
        "documents": "List the documents of a folder with the numbers of their passages, or list pairs of "
        "near-duplicates.",
        "delete": "Delete the passages with the given metadata from a folder: --where source=notes/old.md "
        "deletes a document.",
        "reembed": "Embed the passages of a folder of phasegraph index --sync again with another model.",
        "search": "Search a saved index: print the best passages, how they were found, and the confidence of "
        "the answer.",
        "retrieve": "Answer many questions in processes that share one memory-mapped index.",
        "inspect": "Show on a local page the hits of every source, how they were fused, and the effect of "
        "other settings.",
        "evaluate": "Measure systems on a folder of queries, passages and embeddings, and print one table with "
        "exact tests.",
        "tune": "Choose and fit a pipeline on one part of the judged queries, and confirm its gain on the other part.",
        "fuse": "Fuse runs by a preset or a rule; a source is named after its file (vector.run is 'vector').",
        "explain": "Show each passage's score, calibrated value and contribution per source, and the path of the walk.",
        "serve": "Serve the passages of a folder: search, explain, and read passages by id.",
    }
)
"""For each command, the first paragraph of its help, which `phasegraph --help` prints without importing the command."""
_NAMED_APART = {"try": "try_out"}
"""For each command whose name is a Python keyword, the name of its module and function."""


class Command(TyperCommand):
    """A command that also accepts the old names of its options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; the warning about an old name goes to standard error."""
        known = {name for parameter in self.params for name in parameter.opts}
        try:
            renamed = renamed_options(args, known, say_old_name)
        except InvalidInputError as error:
            raise typer.BadParameter(str(error)) from error
        return super().parse_args(ctx, renamed)


class Commands(TyperGroup):
    """The group of all commands; each command is a function in its own module of ``commands``."""

    _listing = False

    def invoke(self, ctx: Any) -> Any:
        """Run the command; escape control characters in error messages that quote its arguments.

        The error for extra arguments says that a text of several words needs quotes.
        """
        try:
            return super().invoke(ctx)
        except Exception as error:
            said = vars(error).get("message")
            if isinstance(said, str) and hasattr(
                error, "format_message"
            ):  # typer has its own copy of click's error classes
                quotes = ": put a text of several words in quotes" if "unexpected extra argument" in said else ""
                vars(error)["message"] = legible(said) + quotes
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of the first argument; the error for an unknown name suggests similar names."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            if args and isinstance(said := vars(error).get("message"), str):
                vars(error)["message"] = f"{said.rstrip('.')}{did_you_mean(args[0], COMMANDS)}"
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the group; the commands are listed without an import of their modules."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False

    def list_commands(self, ctx: object) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | None:
        """Import and return a command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        if self._listing:
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name])
        alone = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
        name = _NAMED_APART.get(cmd_name, cmd_name)
        module = import_module(f"phasegraph.apps.cli.commands.{name}")
        alone.command(cmd_name, cls=Command)(getattr(module, name))
        found = get_command(alone)
        if not isinstance(found, TyperCommand):
            return None
        panels: Mapping[str, Collection[str]] = getattr(module, "PANELS", {})
        for panel, names in panels.items():
            for parameter in found.params:
                if parameter.name in names:
                    vars(parameter)["rich_help_panel"] = panel
        return found


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"phasegraph {version('phasegraph')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")
]


@app.callback()
def phasegraph(show_version: Version = False) -> None:
    """Fuse retrievers whose scores differ in scale, and measure whether the fusion helps."""
