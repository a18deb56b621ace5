"""The notebooks run from top to bottom as they are committed, in a process of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))
WANTED = {
    "langchain_chroma_neo4j": ("langchain_chroma", "matplotlib"),
    "llamaindex_postgres_property_graph": ("llama_index.core", "matplotlib"),
}


def cells(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def test_there_is_one_for_each_framework():
    assert {path.stem for path in NOTEBOOKS} == set(WANTED)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs_and_says_what_the_notebook_shows(path, tmp_path):
    for module in WANTED[path.stem]:
        pytest.importorskip(module)
    code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
    script = tmp_path / "notebook.py"
    script.write_text("\n\n".join("".join(cell["source"]) for cell in code), encoding="utf-8")
    left_out = {"NEO4J_URI", "POSTGRES_URI"}
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        env={**environment, "MPLBACKEND": "Agg", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    printed = [out for cell in code for out in cell["outputs"] if out["output_type"] == "stream"]
    shown = "".join("".join(out["text"]) for out in printed)
    assert len(ran.stdout.splitlines()) == len(shown.splitlines())
    assert steady(ran.stdout) == steady(shown)


def steady(text):
    """Lines without numbers: scores may differ in their last digits, and hits of one score in their order."""
    return [line for line in text.splitlines() if not any(letter.isdigit() for letter in line) and line[:1] != " "]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_committed_with_its_plots_and_without_errors(path):
    outputs = [out for cell in cells(path) for out in cell.get("outputs", ())]
    assert not [out for out in outputs if out["output_type"] == "error"]
    assert sum("image/png" in out.get("data", {}) for out in outputs) >= 2
