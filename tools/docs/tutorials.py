"""Write the notebooks of the tutorials, and the outputs on their pages; a page in docs/learn is the source of both.

Run: python tools/docs/tutorials.py    (formats the programs on the pages, writes examples/tutorials/*.ipynb and the
outputs below the programs; needs the environment of `make lint`)
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LEARN, FOLDER = ROOT / "docs" / "learn", ROOT / "examples" / "tutorials"
HOME = "https://github.com/phasegraph/phasegraph/blob/main/"
SKIPPED = "skip-execution"
"""The tag of a cell that nbclient does not run: the first cell installs, and needs a network."""
SECONDS = 280
_PROGRAM = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.DOTALL)
_INSTALL = re.compile(r"^(?: {4}.+\n)+", re.MULTILINE)


def tutorials() -> dict[Path, Path]:
    """Return the page of each tutorial with the path of its notebook."""
    pages = sorted(page for page in LEARN.glob("*.md") if page.name != "index.md")
    return {page: FOLDER / f"{page.stem.replace('-', '_')}.ipynb" for page in pages}


def notebook_of(page: Path) -> Any:
    """Convert a page to a notebook without outputs: the first cell installs; then text and programs alternate."""
    import nbformat

    made = nbformat.v4
    text = page.read_text(encoding="utf-8")
    install = _INSTALL.search(text)
    if install is None:
        raise ValueError(f"{page.name}: no indented lines say what to install")
    cells = [made.new_code_cell(_as_magic(install[0]), metadata={"tags": [SKIPPED]})]
    rest = text[: install.start()] + text[install.end() :]
    start = 0
    for program in _PROGRAM.finditer(rest):
        cells += _prose(rest[start : program.start()])
        cells.append(made.new_code_cell(program["code"].rstrip("\n")))
        start = program.end()
    cells += _prose(rest[start:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return made.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def _as_magic(lines: str) -> str:
    """Return shell commands (pip, git, cd) in the form that a notebook runs."""
    kinds = {"pip ": "%pip -q ", "git ": "!git ", "cd ": "%cd -q "}
    written = ["# Installs the packages and fetches the sample files: run it once."]
    for line in lines.split("\n"):
        command = line.strip()
        begins = next((begin for begin in kinds if command.startswith(begin)), None)
        if begins:
            written.append(kinds[begins] + command.removeprefix(begins))
    return "\n".join(written).replace("%pip -q install", "%pip install -q")


def _prose(text: str) -> Iterator[Any]:
    """Yield a cell with the text between two programs, if there is any; its links lead to the repository."""
    import nbformat

    def led(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs/learn", link[1]))
        return f"]({HOME}{path}{link[2] or ''})"

    text = re.sub(r"\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)", led, text).strip()
    if text:
        yield nbformat.v4.new_markdown_cell(text)


def run(notebook: Any) -> Any:
    """Run a notebook in a copy of examples/tutorials, and return it with its outputs.

    The folder itself does not change.
    """
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "examples" / "tutorials"
        shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("*.ipynb", "__pycache__"))
        (Path(scratch) / "data").symlink_to(ROOT / "data")
        places = {name: str(Path(scratch) / name) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR")}
        settings = {"metadata": {"path": str(folder)}}
        client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=settings)
        client.execute(env={**os.environ, **places, "PYTHONUTF8": "1", "PYTHONWARNINGS": "ignore"})
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
        if "outputs" in cell:
            cell["outputs"] = joined(cell["outputs"])
    return notebook


def joined(outputs: list[Any]) -> list[Any]:
    """Join the outputs of each stream to a single output, because a kernel splits its output at random places."""
    kept: list[Any] = []
    for output in outputs:
        if kept and output["output_type"] == kept[-1]["output_type"] == "stream" and output["name"] == kept[-1]["name"]:
            kept[-1]["text"] += output["text"]
        else:
            kept.append(output)
    return kept


def printed(notebook: Any) -> list[str]:
    """Return the output of each program of a run notebook in order, without the first cell."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and cell["source"]]
    return ["".join("".join(one.get("text", "")) for one in cell["outputs"]) for cell in cells[1:]]


def outputs_on(page: Path) -> list[str]:
    """Return the output that a page shows below each of its programs."""
    return [program["output"] or "" for program in _PROGRAM.finditer(page.read_text(encoding="utf-8"))]


def with_outputs(page: Path, outputs: list[str]) -> str:
    """Return the text of a page with the given outputs below its programs."""
    remaining = iter(outputs)

    def block(program: re.Match[str]) -> str:
        output = "\n".join(line.rstrip() for line in next(remaining).strip("\n").split("\n"))
        shown = f"\n```text\n{output}\n```\n" if output else ""
        return f"```python\n{program['code']}```\n{shown}"

    return _PROGRAM.sub(block, page.read_text(encoding="utf-8"))


def laid_out(page: Path) -> str:
    """Return the text of a page with its programs formatted by ruff."""

    def ruff(code: str, *command: str) -> str:
        name = ("--stdin-filename", str(FOLDER / "program.py"), "-")
        asked = [sys.executable, "-m", "ruff", *command, "--quiet", *name]
        return subprocess.run(asked, input=code, text=True, capture_output=True, check=True).stdout

    def block(program: re.Match[str]) -> str:
        code = ruff(ruff(program["code"], "check", "--fix", "--select", "I"), "format")
        return program[0].replace(program["code"], code)

    return _PROGRAM.sub(block, page.read_text(encoding="utf-8"))


def main() -> None:
    """Run all tutorials, write their notebooks, and write the outputs below the programs of their pages."""
    import nbformat

    for page, to in tutorials().items():
        page.write_text(laid_out(page), encoding="utf-8")
        notebook = run(notebook_of(page))
        page.write_text(with_outputs(page, printed(notebook)), encoding="utf-8")
        nbformat.write(notebook, to)
        print(f"{to.relative_to(ROOT)}: {to.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
