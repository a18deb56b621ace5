"""All commands in one application; each is imported when it is called, or listed."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from phasegraph._text import legible

COMMANDS = ("index", "search", "retrieve", "inspect", "evaluate", "tune", "fuse", "explain", "serve")


class Commands(TyperGroup):
    """The commands by name: each is the function of its own module."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what a message about its arguments quotes of them steers no terminal."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            said = vars(error).get("message")
            if isinstance(said, str) and hasattr(error, "format_message"):  # click's, of which typer has a copy
                vars(error)["message"] = legible(said)
            raise

    def list_commands(self, ctx: object) -> list[str]:
        """Names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | None:
        """The command, imported now; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        alone = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
        alone.command(cmd_name)(getattr(import_module(f"phasegraph.cli.{cmd_name}"), cmd_name))
        found = get_command(alone)
        return found if isinstance(found, TyperCommand) else None


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"phasegraph {version('phasegraph')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and do nothing else.")
]


@app.callback()
def phasegraph(show_version: Version = False) -> None:
    """Fuse unlike retrievers on one scale, and measure whether it helps."""
