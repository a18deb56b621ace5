"""The house rules as tests: one direction of imports, sizes, no unsafe calls, a frozen public surface."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import phasegraph

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "phasegraph"
INTEGRATIONS = [
    *(ROOT / "integrations/langchain-phasegraph/langchain_phasegraph").glob("*.py"),
    *(ROOT / "integrations/llama-index-retrievers-phasegraph/llama_index/retrievers/phasegraph").glob("*.py"),
]
# Lower stands on upper: a module imports only what stands above it (or beside it, in its own package).
ORDER = [
    "_typing", "errors", "candidates", "calibration", "fusion", "priors", "acceptance", "selection", "persistence",
    "pipeline", "sources", "adapters", "graph", "evaluation", "tuning", "report", "testing", "reproduce", "demo", "cli",
]  # fmt: skip
GRAPH_ORDER = [
    "pagerank", "entity_graph", "extraction", "linking", "synonyms", "abstractness", "semflow", "ising", "storage",
    "neo4j", "source",
]  # fmt: skip
PRODUCT = sorted(SOURCE.rglob("*.py"))


def _room(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imported(tree: ast.Module) -> list[str]:
    """Rooms of our own that a module imports when it runs (type-checking blocks left out)."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "phasegraph":
            parts = node.module.split(".")
            found += [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
    return found


@pytest.mark.parametrize("file", PRODUCT, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_module_imports_only_what_stands_above_it(file: Path) -> None:
    room = _room(file)
    if room == "__init__":
        return
    place = ORDER.index(room)
    for name in _imported(ast.parse(file.read_text(encoding="utf-8"))):
        if name in ORDER:
            assert ORDER.index(name) <= place, f"{room} imports {name}, which stands below it"


@pytest.mark.parametrize("file", [*PRODUCT, *INTEGRATIONS], ids=lambda file: f"{file.parent.name}/{file.name}")
def test_files_and_functions_stay_small(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count("\n") <= 300, f"{file.name} has {text.count(chr(10))} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False) or ""
            size = (node.end_lineno or 0) - node.lineno + 1 - (docstring.count("\n") + 1 if docstring else 0)
            assert size <= 40, f"{node.name} has {size} lines"


@pytest.mark.parametrize("file", [*PRODUCT, *INTEGRATIONS], ids=lambda file: f"{file.parent.name}/{file.name}")
def test_nothing_in_the_product_runs_what_it_reads(file: Path) -> None:
    forbidden = {"eval", "exec", "pickle.load", "pickle.loads", "dill.load", "dill.loads", "yaml.load", "__import__"}
    tree = ast.parse(file.read_text(encoding="utf-8"))
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not called & forbidden
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not imported & {"pickle", "dill", "yaml", "marshal", "shelve"}


def test_the_public_surface_is_what_all_says() -> None:
    assert len(phasegraph.__all__) == len(set(phasegraph.__all__))
    public = {name for name, value in vars(phasegraph).items() if not name.startswith("_") and not _is_module(value)}
    assert public == set(phasegraph.__all__)


def _is_module(value: object) -> bool:
    return type(value).__name__ in ("module", "_Feature")


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, phasegraph; heavy = ('scipy.stats', 'scipy.optimize', 'matplotlib', 'numba', 'langchain_core', "
        "'llama_index', 'neo4j', 'pandas'); print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _modules() -> list[str]:
    return sorted(
        info.name
        for info in pkgutil.walk_packages([str(SOURCE)], prefix="phasegraph.")
        if not info.name.endswith("__main__")
    )


@pytest.mark.parametrize("name", _modules())
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0
