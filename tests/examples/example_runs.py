"""Notebooks in a real kernel, scripts in processes; both are told of servers by variables alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVERS = ("NEO4J_URI", "NEO4J_USER", "NEO4J_PASSWORD", "POSTGRES_URI")
SECONDS = 280


def variables(servers: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The environment, with these servers and no others, and nothing left behind in anybody's home."""
    kept = {name: value for name, value in os.environ.items() if name not in SERVERS}
    folders = {name: str(scratch / name) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR")}
    return {**kept, **folders, **servers, "PYTHONUTF8": "1", "PYTHONWARNINGS": "ignore"}


def run_notebook(path: Path, servers: Mapping[str, str], scratch: Path) -> Any:
    """The notebook with the outputs of this run; nbclient's error names the cell that fails."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}
    )
    client.execute(env=variables(servers, scratch))
    return notebook


def run_script(path: Path, servers: Mapping[str, str], scratch: Path) -> str:
    """What the script printed."""
    return _run([str(path)], variables(servers, scratch))


ONE_BY_ONE = """
import contextlib, io, json, runpy, sys, traceback

found = {}
for path in sys.argv[1:]:
    text, error = io.StringIO(), ""
    with contextlib.redirect_stdout(text):
        try:
            runpy.run_path(path, run_name="__main__")
        except BaseException:
            error = traceback.format_exc()
    found[path] = {"printed": text.getvalue(), "error": error}
print(json.dumps(found))
"""


def run_scripts(paths: Sequence[Path], scratch: Path) -> dict[str, dict[str, str]]:
    """What each script printed and raised, without servers; one process loads their framework for all of them."""
    said = _run(["-c", ONE_BY_ONE, *map(str, paths)], variables({}, scratch))
    return {Path(path).name: one for path, one in json.loads(said.splitlines()[-1]).items()}


def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a Python of its own printed."""
    ran = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def outputs(notebook: Any) -> Iterator[Any]:
    """Every output of every cell, in order."""
    return (output for cell in notebook["cells"] for output in cell.get("outputs", ()))


def printed(notebook: Any, stream: str = "stdout") -> str:
    """What the cells printed."""
    streams = [one for one in outputs(notebook) if one["output_type"] == "stream" and one["name"] == stream]
    return "".join("".join(one["text"]) for one in streams)
