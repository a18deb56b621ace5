"""The house rules as tests: one direction of imports, light imports, no unsafe calls, a pinned public surface."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.metadata
import importlib.util
import inspect
import pkgutil
import subprocess
import sys
import typing
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "phasegraph"
INTEGRATIONS = [
    *(ROOT / "integrations/langchain-phasegraph/langchain_phasegraph").glob("*.py"),
    *(ROOT / "integrations/llama-index-retrievers-phasegraph/llama_index/retrievers/phasegraph").glob("*.py"),
]
# Lower stands on upper: a module imports only what stands above it, or beside it in its own room.
ORDER = [
    "_typing", "_shared", "_text", "errors", "_packed", "_files",
    "_validation", "markup", "ranking", "lexical", "calibration", "fusion", "priors", "confidence", "acceptance",
    "selection",
    "serialization", "result", "rescoring", "pipeline", "tracing", "sources", "retrieval", "pagerank", "graph",
    "neo4j", "evaluation", "distributed", "tuning", "testing", "serving", "inspecting", "cli",
]  # fmt: skip
# The same inside rooms with more than a handful of thoughts.
INSIDE = {
    "graph": [
        "words", "entity_graph", "rules", "building", "storage", "synonyms", "records", "deltas", "index", "linking",
        "listed", "source", "flat", "clusters", "experimental", "models", "summaries", "chunk_graph", "corpus",
        "chroma",
    ],
    "neo4j": [
        "errors", "transactions", "connection", "schema", "records", "gds", "reading", "writing", "edge_cache",
        "remote_walk", "source",
    ],
    "sources": ["workers", "protocol", "settings", "gatherer"],
}  # fmt: skip
# What the separately released integrations may import of the core: their contract.
CONTRACT = {"phasegraph", "phasegraph.graph", "phasegraph.neo4j", "phasegraph.retrieval"}
# What users may import, letter for letter: a name comes or goes here first.
PUBLIC = {
    "phasegraph": (
        "AllSourcesFailed Background BackgroundCalibrator BreakerSettings CallableSource Candidates Confidence "
        "ConfidenceEvidence ConfidenceModel Context "
        "DegradedError Evidence ExactMatchBonus FUSION_RULES FusionPipeline Gathered Gatherer "
        "Inspection InsufficientDataError IntegrityError InvalidInputError InvalidTypeError ListCalibrator "
        "MissingDependencyError NotConvergedError PhasegraphError PhasegraphWarning Ranking RecencyPrior "
        "ReferenceECDF Result Source SourceEvidence SourceReport SourceSettings StoreError UnitPrior "
        "fit_reference_ecdf"
    ),
    "phasegraph.graph": (
        "ChunkGraph ChunkGraphSource ClusterSettings EdgeWeights EntityGraph Extraction FactFilter "
        "FactIndex "
        "FlowParameters Gazetteer GraphIndex GraphSource LexicalSource LinkSettings ModelSettings NameSynonyms "
        "RuleExtractor SemFlowSource Summary SummarySource SummaryTree VectorSource WalkSettings "
        "build_chunk_graph build_graph extract_with_model extractive filter_facts_with graph_from_extractions "
        "load_graph read_openie save_graph summarise_with"
    ),
    "phasegraph.neo4j": (
        "FetchSettings GraphChanges GraphRecords GraphSchema Neo4jConnection Neo4jGraphSource OpenedGraph "
        "PassageRecord changes_between detect_schema drop_corpus drop_projections drop_schema list_corpora "
        "list_projections list_schema open_graph read_changes read_graph "
        "records_from_extractions remove_passages write_graph write_synonyms"
    ),
    "phasegraph.distributed": "Built EmbeddedNames Spent build_index retrieve",
    "phasegraph.distributed.ray": "Actors build_index embed retrieve",
    "phasegraph.distributed.spark": "Tasks build_index embed retrieve",
    "phasegraph.evaluation": "Evaluation evaluate",
    "phasegraph.tracing": "SpansOfResults",
    "langchain_phasegraph": (
        "CalibratedFusionRetriever Corrective EntityGraphRetriever Execution HitFields PhaseGraphRetriever Rerank "
        "SourceSpec chat_router compositional_router dphf extractions_of fuse_lists hyde keyword_router modality_hyde "
        "multi_query neighbour_entropy_router oracle_router step_back text_model"
    ),
    "llama_index.retrievers.phasegraph": (
        "CalibratedFusionRetriever Corrective EntityGraphRetriever Execution HitFields PhaseGraphPostprocessor "
        "PhaseGraphRetriever PropertyGraphRecords Rerank SourceSpec chat_router compositional_router dphf hyde "
        "keyword_router modality_hyde multi_query neighbour_entropy_router oracle_router read_property_graph "
        "selector_router step_back text_model"
    ),
}
PRODUCT = sorted(SOURCE.rglob("*.py"))


def _imported(tree: ast.Module) -> list[str]:
    """Every module of ours that is imported, inside functions and for type checking too."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "phasegraph":
            found += [node.module] if "." in node.module else [f"phasegraph.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] == "phasegraph"]
    return found


@pytest.mark.parametrize("file", PRODUCT, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_module_imports_only_what_stands_above_it(file: Path) -> None:
    parts = [part.removesuffix(".py") for part in file.relative_to(SOURCE).parts]
    if parts[0] == "__init__":
        return
    for name in _imported(ast.parse(file.read_text(encoding="utf-8"))):
        there = name.split(".")[1:]
        if there[0] in ORDER:
            assert ORDER.index(there[0]) <= ORDER.index(parts[0]), f"{parts[0]} imports {name}, which stands below it"
        if there[0] == parts[0] in INSIDE and len(there) > 1 and parts[1] != "__init__":
            order = INSIDE[parts[0]]
            assert order.index(there[1]) <= order.index(parts[1]), f"{parts} imports {name}, which stands below it"


def test_no_imports_run_in_a_circle():
    spec = importlib.util.spec_from_file_location("house", ROOT / "tools" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    house = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(house)
    assert len(house.modules()) > 100
    assert house.circles(house.modules()) == []


@pytest.mark.parametrize("file", [*PRODUCT, *INTEGRATIONS], ids=lambda file: f"{file.parent.name}/{file.name}")
def test_nothing_in_the_product_runs_what_it_reads(file: Path) -> None:
    forbidden = {"eval", "exec", "pickle.load", "pickle.loads", "dill.load", "dill.loads", "yaml.load", "__import__"}
    tree = ast.parse(file.read_text(encoding="utf-8"))
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not called & forbidden
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not imported & {"pickle", "dill", "yaml", "marshal", "shelve"}


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_the_public_surface_is_what_is_written_here(name: str) -> None:
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(PUBLIC[name].split())
    assert all(hasattr(module, one) for one in module.__all__)
    if name.startswith(("langchain", "llama")):
        own = {one for one, value in vars(module).items() if not one.startswith("_") and not _is_module(value)}
        assert own == set(module.__all__)


def _is_module(value: object) -> bool:
    return type(value).__name__ == "module"


@pytest.mark.parametrize(
    ("name", "distribution"),
    [
        ("phasegraph", "phasegraph"),
        ("langchain_phasegraph", "langchain-phasegraph"),
        ("llama_index.retrievers.phasegraph", "llama-index-retrievers-phasegraph"),
    ],
)
def test_the_version_is_that_of_the_installed_package(name: str, distribution: str) -> None:
    module = importlib.import_module(name)
    assert module.__version__ == importlib.metadata.version(distribution)
    with pytest.raises(AttributeError, match=r"has no attribute '__verzion__'"):
        _ = module.__verzion__


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_the_type_hints_of_the_public_names_can_be_read(name: str) -> None:
    room = importlib.import_module(name)
    for public in filter(callable, map(vars(room).get, PUBLIC[name].split())):
        for _, one in [("", public), *inspect.getmembers(public, inspect.isroutine)]:
            if not isinstance(one, cached_property) and str(getattr(one, "__module__", "")).startswith(tuple(PUBLIC)):
                typing.get_type_hints(one)


@pytest.mark.parametrize("file", INTEGRATIONS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_the_integrations_import_four_modules_of_the_core_and_no_others(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    found |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name for name in found if name.split(".")[0] == "phasegraph"} <= CONTRACT


@pytest.mark.parametrize(
    "statement",
    ["phasegraph", "phasegraph.graph", "langchain_phasegraph", "llama_index.retrievers.phasegraph"],
)
def test_importing_loads_nothing_heavy_of_ours(statement: str) -> None:
    own = {
        "phasegraph": ["scipy.stats", "scipy.optimize", "langchain_core", "llama_index", "pandas"],
        "phasegraph.graph": ["scipy.stats", "langchain_core", "llama_index", "pandas"],
        "langchain_phasegraph": ["llama_index.core", "scipy.stats"],
        "llama_index.retrievers.phasegraph": ["langchain_core"],
    }
    heavy = ["numba", "neo4j", "matplotlib", *own[statement]]
    code = f"import sys, {statement}; print([name for name in {heavy} if name in sys.modules])"
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
