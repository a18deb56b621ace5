"""Run the notebooks against real servers and store what they show: ``python tests/examples/write_outputs.py``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

import nbformat
from example_runs import EXAMPLES, run_notebook
from modules import module_at
from real_servers import RealServers

tutorials = module_at(EXAMPLES.parent / "tools" / "docs" / "tutorials.py")


def main() -> None:
    with RealServers() as real, tempfile.TemporaryDirectory() as scratch:
        servers = {**real.neo4j.environment, "POSTGRES_URI": real.postgres}
        paths = sorted(EXAMPLES.glob("*.ipynb"))
        notebooks = {path: run_notebook(path, servers, Path(scratch)) for path in paths}
    for path, notebook in notebooks.items():  # when all have run: one that fails leaves all as they were
        # Nothing that differs with the machine: when each cell ran, which patch version of Python.
        notebook["metadata"]["language_info"] = {"name": "python"}
        for cell in notebook["cells"]:
            cell["metadata"] = {}
            if "outputs" in cell:
                cell["outputs"] = tutorials.joined(cell["outputs"])
        nbformat.write(notebook, path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
