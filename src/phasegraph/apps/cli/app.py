"""The command-line application; the module of a command is imported when the command is called or listed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from phasegraph._support.renamed import renamed_options
from phasegraph._support.text import legible
from phasegraph.apps.cli.output import did_you_mean, say_old_name
from phasegraph.errors import InvalidInputError

COMMANDS = (
    "try", "demo", "index", "documents", "delete", "reembed", "search", "retrieve", "inspect", "evaluate", "tune",
    "fuse", "explain", "serve",
)  # fmt: skip
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
    """The group of all commands; each command is a function in its own module."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; escape control characters in error messages that quote its arguments."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            said = vars(error).get("message")
            if isinstance(said, str) and hasattr(
                error, "format_message"
            ):  # typer has its own copy of click's error classes
                vars(error)["message"] = legible(said)
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of the first argument; the error for an unknown name suggests similar names."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            if args and isinstance(said := vars(error).get("message"), str):
                vars(error)["message"] = f"{said.rstrip('.')}{did_you_mean(args[0], COMMANDS)}"
            raise

    def list_commands(self, ctx: object) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | None:
        """Import and return a command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        alone = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
        module = _NAMED_APART.get(cmd_name, cmd_name)
        alone.command(cmd_name, cls=Command)(getattr(import_module(f"phasegraph.apps.cli.{module}"), module))
        found = get_command(alone)
        if not isinstance(found, TyperCommand):
            return None
        panels: Mapping[str, Collection[str]] = getattr(import_module(f"phasegraph.apps.cli.{module}"), "PANELS", {})
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
