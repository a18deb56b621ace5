"""Notebooks in a real kernel, scripts in a process of their own; both are told of servers by variables alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
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
    ran = subprocess.run(
        [sys.executable, str(path)],
        env=variables(servers, scratch),
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
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
