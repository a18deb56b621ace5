"""The ``phasegraph`` command with its exit codes: 0 (done), 1 (failed), 2 (bad usage), 130 (interrupted)."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from io import TextIOWrapper

from phasegraph._support.text import legible
from phasegraph.errors import AllSourcesFailed, PhasegraphError, PhasegraphWarning, text_of

__all__ = [
    "main",
]

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default with the process's arguments; return its exit code.

    The code is 0 (done), 1 (failed), 2 (bad usage) or 130 (interrupted). The reason of a failure goes to standard
    error.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    lacking = [name for name in ("typer", "rich", "tqdm") if find_spec(name) is None]
    if lacking and given == ["--version"]:
        sys.stdout.write(f"phasegraph {version('phasegraph')}\n")
        return 0
    if lacking:
        sys.stderr.write(f"the command line needs {', '.join(lacking)}: pip install 'phasegraph[cli]'\n")
        return 1
    from phasegraph.apps.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # escape characters that the terminal cannot show
    try:
        with _plain_warnings():
            app(args=given, prog_name="phasegraph")
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            sys.stderr.write("phasegraph: interrupted\n")
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("phasegraph: interrupted\n")
        return _INTERRUPTED
    except (PhasegraphError, OSError) as error:
        sys.stderr.write(f"phasegraph: {legible(str(error))}\n")
        for name, cause in error.causes.items() if isinstance(error, AllSourcesFailed) else ():
            quoted = text_of(cause).removeprefix(f"source {name!r} ")
            if f"{name}: {quoted}" not in str(error):  # the message quotes only errors of phasegraph
                said = f"{name}: {type(cause).__name__}: {text_of(cause)}".splitlines()[0]
                sys.stderr.write(f"{legible(said)}\n")
        return 1
    except Exception as error:  # noqa: BLE001 - an error of the caller's model or module, or a bug
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = getattr(error, "place", f"{where.filename}, line {where.lineno}")  # an error of another process has it
        said = f"{type(error).__name__}: {error} ({place})"
        sys.stderr.write(f"phasegraph: {legible(said)}\n")
        return 1
    return 0


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Within the ``with`` block, show a warning of phasegraph as one line, without the place in the code."""
    usual = warnings.formatwarning

    def formatted(message: Warning | str, category: type[Warning], *place: object) -> str:
        return f"warning: {message}\n" if issubclass(category, PhasegraphWarning) else usual(message, category, *place)  # type: ignore[arg-type]

    warnings.formatwarning = formatted  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.formatwarning = usual
