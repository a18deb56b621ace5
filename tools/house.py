"""Print figures about the code: ``python tools/house.py [--json FILE]``; ``--tree`` writes two parts of a page.

The page is docs/contributing/architecture.md.

The figures are: files and lines per room (folder of the core), the longest and the most complex functions, identical
lines of the two integrations, the files that one call passes through, exported names, constructor parameters, modules
that an import loads, circles among imports (type-checking imports included), and imports from a higher layer. They are
not limits.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "phasegraph": ROOT / "src",
    "langchain_phasegraph": ROOT / "integrations/langchain-phasegraph",
    "llama_index.retrievers.phasegraph": ROOT / "integrations/llama-index-retrievers-phasegraph",
}
HEAVY = ("numba", "neo4j", "scipy.stats", "scipy.optimize", "matplotlib")
TEXTS = {"Vertigo": "A film by Alfred Hitchcock.", "Alfred Hitchcock": "A director, born in Leytonstone."}
QUESTION = "Where was the director of Vertigo born?"


def modules() -> dict[str, Path]:
    """Return the file of every module of the three packages, by the module's dotted name."""
    found: dict[str, Path] = {}
    for package, base in PACKAGES.items():
        for file in sorted((base / package.replace(".", "/")).rglob("*.py")):
            name = ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
            found[name] = file
    return found


def room_of(module: str) -> str:
    """Return the room of a module: the first part of its name below the package, or "integrations"."""
    if not module.startswith("phasegraph"):
        return "integrations"
    return module.split(".")[1] if "." in module else "__init__"


def rooms(found: Mapping[str, Path]) -> dict[str, dict[str, int]]:
    """Return the number of files and of lines of each room (folder of the core, or the integrations)."""
    table: dict[str, dict[str, int]] = {}
    for module, file in found.items():
        row = table.setdefault(room_of(module), {"files": 0, "lines": 0})
        row["files"] += 1
        row["lines"] += len(file.read_text(encoding="utf-8").splitlines())
    return dict(sorted(table.items()))


@cache
def parsed(file: Path) -> ast.Module:
    """Return the syntax tree of a module; it is cached, because several figures read it."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module's syntax tree."""
    return tuple(ast.walk(parsed(file)))


def imports_of(module: str, file: Path, known: Mapping[str, Path]) -> set[str]:
    """Return the modules of the three packages that a module imports, also inside functions and for type checking."""
    found: set[str] = set()
    for node in nodes(file):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inside & set(known)) or {node.module}
    return {name for name in found if name in known and name != module}


def circles(found: Mapping[str, Path]) -> list[str]:
    """Return circles among imports, each as its path of modules.

    Each circle is found after an import of the previous circle is taken away; the list is empty if there is none.
    """
    graph = {module: imports_of(module, file, found) for module, file in found.items()}
    out: list[str] = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            path = error.args[1]
            out.append(" -> ".join(reversed(path)))
            graph[path[1]] = graph[path[1]] - {path[0]}
        else:
            return out


def against_the_floors() -> list[str]:
    """Return a sentence for each import in the core from a higher layer than the layer of the importing module.

    The test calls the layers "floors", and lists them.
    """
    sys.path.insert(0, str(ROOT))
    from tests.test_house import PRODUCT, imports_against_the_floors

    return [found for file in PRODUCT for found in imports_against_the_floors(file)]


PAGE = ROOT / "docs/contributing/architecture.md"
SHOWN = (
    "src/phasegraph",
    "integrations/langchain-phasegraph/langchain_phasegraph",
    "integrations/llama-index-retrievers-phasegraph/llama_index/retrievers/phasegraph",
)
"""The packages whose files the tree shows: the core, then the integrations."""


def first_line(file: Path) -> str:
    """Return the first line of a module's docstring."""
    return (ast.get_docstring(parsed(file)) or "").split("\n")[0]


def tree() -> str:
    """Return the tree of rooms and files as text, with the first line of each docstring.

    An integration begins with its path.
    """
    lines = []

    def show(folder: Path, depth: int) -> None:
        files = [file for file in folder.glob("*.py") if file.name != "__init__.py"]
        rooms = [room.parent for room in folder.glob("*/__init__.py")]
        for path in sorted([*files, *rooms], key=lambda path: (path.is_file(), path.name)):
            name = f"{'  ' * depth}{path.name}{'/' if path.is_dir() else ''}"
            lines.append(f"    {name:<26}{first_line(path / '__init__.py' if path.is_dir() else path)}".rstrip())
            if path.is_dir():
                show(path, depth + 1)

    for package in SHOWN:
        if package != SHOWN[0]:
            lines.append(f"    {package}/")
        show(ROOT / package, 0 if package == SHOWN[0] else 1)
    return "\n".join(lines)


def papers() -> str:
    """Return a table of the references in the core's docstrings, with the definitions that cite each reference."""
    base = ROOT / "src/phasegraph"
    found: dict[str, tuple[str, set[str]]] = {}
    for file in sorted(base.rglob("*.py")):
        for node in nodes(file) if ".. [" in file.read_text(encoding="utf-8") else ():
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            for cited in re.findall(r"^\.\. \[\d+\] (.+(?:\n   .+)*)", ast.get_docstring(node) or "", re.MULTILINE):
                text = " ".join(cited.split()).rstrip(".")
                number = re.search(r"arXiv:\d+\.\d+|doi:\S+|\"[^\"]+\"", text)
                key = number[0] if number else text
                where = f"`{file.relative_to(base).as_posix()}`"
                named = where if isinstance(node, ast.Module) else f"`{node.name}` in {where}"
                shortest, places = found.get(key, (text, set()))
                found[key] = min(shortest, text, key=len), places | {named}
    rows = sorted((text, ", ".join(sorted(places))) for text, places in found.values())
    return "\n".join(["| source | code |", "|---|---|", *(f"| {text} | {places} |" for text, places in rows)])


def generated(page: str) -> str:
    """Return the architecture page `page` with the present tree of files and the present table of papers."""
    for name, text in (("tree", tree()), ("papers", papers())):
        before, _, rest = page.partition(f"<!-- {name} -->\n")
        page = f"{before}<!-- {name} -->\n{text}\n<!-- /{name} -->\n{rest.partition(f'<!-- /{name} -->' + chr(10))[2]}"
    return page


def functions(found: Mapping[str, Path]) -> list[tuple[str, int, int]]:
    """Return every function with its number of lines (docstring included), and its number of branches plus one.

    The last number is a measure of complexity.
    """
    out = []
    branches = (ast.If, ast.For, ast.While, ast.AsyncFor, ast.ExceptHandler, ast.BoolOp, ast.IfExp, ast.comprehension)
    for module, file in found.items():
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                out.append(
                    (f"{module}.{node.name}", lines, 1 + sum(isinstance(one, branches) for one in ast.walk(node)))
                )
    return out


def identical_lines() -> int:
    """Return the number of lines of at least 20 characters that both integrations contain, without imports."""
    held = []
    for package in list(PACKAGES)[1:]:
        files = (PACKAGES[package] / package.replace(".", "/")).glob("*.py")
        lines = {line.strip() for file in files for line in file.read_text(encoding="utf-8").splitlines()}
        held.append({line for line in lines if len(line) >= 20 and not line.startswith(("from ", "import "))})
    return len(held[0] & held[1])


def exported(found: Mapping[str, Path]) -> dict[str, int]:
    """Return the number of names in the ``__all__`` of each module that has one."""
    out: dict[str, int] = {}
    for module, file in found.items():
        for node in parsed(file).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                out[module] = len(ast.literal_eval(node.value))
    return out


def passed(framework: str) -> list[str]:
    """Return the files of the three packages whose code runs in the first call of the README's program, in any thread.

    `framework` names the program. The call runs in a separate process, because worker threads of an earlier call would
    not be observed.
    """
    code = f"import house, json; print(json.dumps(house.followed(house.{framework}_call())))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "tools")
    return list(json.loads(done.stdout.splitlines()[-1]))


def followed(call: Callable[[], object]) -> list[str]:
    """Call a function, and return the files of the three packages whose code runs in the call."""
    seen: set[str] = set()
    homes = tuple(str(base) for base in PACKAGES.values())

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(homes):
            seen.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return sorted(str(Path(name).relative_to(ROOT)) for name in seen)


def langchain_call() -> Callable[[], object]:
    """Build the LangChain program of the README, and return a function that makes its first call."""
    from langchain_core.documents import Document
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_core.vectorstores import InMemoryVectorStore

    from langchain_phasegraph import EntityGraphRetriever, PhaseGraphRetriever

    documents = [Document(text, id=title, metadata={"title": title}) for title, text in TEXTS.items()]
    store = InMemoryVectorStore.from_documents(documents, DeterministicFakeEmbedding(size=64))
    graph = EntityGraphRetriever.from_documents(documents)
    retriever = PhaseGraphRetriever(vector=store.as_retriever(), graph=graph, k=2)
    return lambda: retriever.invoke(QUESTION)


def llama_index_call() -> Callable[[], object]:
    """Build the LlamaIndex program of the README, and return a function that makes its first call."""
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.schema import TextNode

    from llama_index.retrievers.phasegraph import CalibratedFusionRetriever, EntityGraphRetriever

    nodes = [TextNode(text=text, id_=title, metadata={"title": title}) for title, text in TEXTS.items()]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=64))
    graph = EntityGraphRetriever.from_nodes(nodes)
    retriever = CalibratedFusionRetriever(vector=index.as_retriever(), graph=graph, similarity_top_k=2)
    return lambda: retriever.retrieve(QUESTION)


def parameters() -> dict[str, int]:
    """Return the number of constructor parameters of the four classes that a user creates.

    Parameters of the frameworks' base classes are not counted.
    """
    from dataclasses import fields

    from langchain_core.retrievers import BaseRetriever
    from llama_index.core.base.base_retriever import BaseRetriever as LlamaIndexRetriever

    from langchain_phasegraph import PhaseGraphRetriever, SourceSpec
    from llama_index.retrievers.phasegraph import CalibratedFusionRetriever
    from phasegraph import FusionPipeline

    ours, base = (
        {name for name, one in inspect.signature(kind).parameters.items() if one.kind is not one.VAR_KEYWORD}
        for kind in (CalibratedFusionRetriever, LlamaIndexRetriever)
    )
    return {
        "PhaseGraphRetriever": len(set(PhaseGraphRetriever.model_fields) - set(BaseRetriever.model_fields)),
        "CalibratedFusionRetriever": len(ours - base),
        "SourceSpec": len(fields(SourceSpec)),
        "FusionPipeline": len(fields(FusionPipeline)),
    }


def loaded(statement: str) -> dict[str, object]:
    """Return how many modules of the three packages a statement loads, and which of the modules in ``HEAVY``."""
    code = (
        f"import json, sys; {statement}; ours = {tuple(PACKAGES)}; heavy = {HEAVY}; print(json.dumps({{"
        "'ours': sum(name.startswith(ours) for name in sys.modules), 'heavy': [m for m in heavy if m in sys.modules]}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def measure() -> dict[str, Any]:
    """Compute all figures about the code, and return them by name, as JSON types."""
    found = modules()
    table = rooms(found)
    files, lines = sum(row["files"] for row in table.values()), sum(row["lines"] for row in table.values())
    core = lines - table["integrations"]["lines"]
    largest = max((name for name in table if name != "integrations"), key=lambda name: table[name]["lines"])
    names = exported(found)
    each = functions(found)
    return {
        "longest": sorted(each, key=lambda one: -one[1])[:3],
        "most_complex": sorted(each, key=lambda one: -one[2])[:3],
        "identical_lines": identical_lines(),
        "rooms": table,
        "files": files,
        "lines": lines,
        "core_lines": core,
        "largest_room": {"name": largest, "share": round(table[largest]["lines"] / lines, 3)},
        "invoke_files": passed("langchain"),
        "retrieve_files": passed("llama_index"),
        "exported": {"lists": len(names), "names": sum(names.values()), "contract": names["phasegraph.retrieval"]},
        "parameters": parameters(),
        "loaded": {
            name: loaded(f"import {name}")
            for name in ("phasegraph", "phasegraph.graph", "langchain_phasegraph", "llama_index.retrievers.phasegraph")
        },
        "circles": circles(found),
        "against_the_floors": against_the_floors(),
    }


def report(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures as lines of text."""
    yield f"{'room':<16}{'files':>6}{'lines':>8}"
    for name, row in found["rooms"].items():
        yield f"{name:<16}{row['files']:>6}{row['lines']:>8}"
    yield f"{'all':<16}{found['files']:>6}{found['lines']:>8}   (core {found['core_lines']})"
    yield "largest room: {name}, {share:.1%} of all lines".format(**found["largest_room"])
    yield "longest functions: " + ", ".join(f"{name} {lines} lines" for name, lines, _ in found["longest"])
    yield "most branches: " + ", ".join(f"{name} {branches}" for name, _, branches in found["most_complex"])
    yield f"identical lines of the integrations: {found['identical_lines']}"
    yield f"files passed by one invoke {len(found['invoke_files'])}, by one retrieve {len(found['retrieve_files'])}"
    yield "exported names {names} in {lists} lists, {contract} of them for the integrations".format(**found["exported"])
    yield "constructor parameters: " + ", ".join(f"{name} {count}" for name, count in found["parameters"].items())
    for name, row in found["loaded"].items():
        yield f"import {name}: {row['ours']} modules of ours; heavy ones of others: {row['heavy'] or 'none'}"
    for name, places in (("import circles", "circles"), ("imports against the floors", "against_the_floors")):
        yield f"{name}: {len(found[places])}" + "".join(f"\n  {place}" for place in found[places])


def main() -> None:
    """Measure, and print or write the figures; with ``--tree``, write the generated parts of the page."""
    parser = argparse.ArgumentParser(description="How large the house is, counted.")
    parser.add_argument("--json", metavar="FILE", help="write the measurement there as well")
    parser.add_argument("--tree", action="store_true", help="write the tree and the papers of the architecture page")
    chosen = parser.parse_args()
    if chosen.tree:
        PAGE.write_text(generated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    found = measure()
    print("\n".join(report(found)))
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
