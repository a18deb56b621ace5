"""Messages about the names of commands and options: similar names and old names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import typer


def say_old_name(text: str) -> None:
    """Print the warning about an old name to standard error."""
    typer.echo(f"phasegraph: {text}", err=True)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the known names that are similar to a misspelled name; return "" if none is similar.

    >>> did_you_mean("vectr", ["vector", "graph"])
    "; did you mean 'vector'?"
    """
    like = get_close_matches(name, list(known), n=2)
    return f"; did you mean {' or '.join(map(repr, like))}?" if like else ""
