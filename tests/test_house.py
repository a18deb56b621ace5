"""The house rules as tests: one direction of imports, light imports, no unsafe calls, a pinned public surface."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.metadata
import inspect
import pkgutil
import re
import subprocess
import sys
import typing
from collections import Counter
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest
from tests.modules import module_at
from tests.source_names import name_of

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "phasegraph"
INTEGRATIONS = [
    *(ROOT / "integrations/langchain-phasegraph/langchain_phasegraph").glob("*.py"),
    *(ROOT / "integrations/llama-index-retrievers-phasegraph/llama_index/retrievers/phasegraph").glob("*.py"),
]
# The floors of the house, from the ground up: a module imports from the same or a lower floor. A name with a dot stands
# for one file of a room; modules of one line may import each other's names as long as no circle forms.
FLOORS = [
    "_support.typing", "_support.shared", "_support.text", "_support.user_line", "errors", "_support.packed",
    "_support.files", "_support.renamed", "_support.validation", "_support", "sentences", "_support.markup",
    "_support.serialization", "embedding", "ranking",
    "candidates", "reports", "lexical", "calibration", "fusion", "acceptance", "selection", "result",
    "fusion.settings", "fusion.renamed_sources", "fusion.adjustments", "fusion.decide", "fusion.pipeline",
    "fusion.fitting",
    "sources", "pagerank", "graph", "neo4j",
    "distributed.shards", "distributed.triples", "distributed.array_files", "distributed.walk_edges",
    "distributed.merging", "distributed.names", "distributed.building", "distributed.local",
    "retrieval", "methods", "evaluation", "reading", "distributed", "testing", "apps",
]  # fmt: skip
# The same inside rooms with more than a handful of thoughts.
INSIDE = {
    "fusion": [
        "rules", "experimental", "weighting", "contributions", "agreement", "context", "fields", "prior", "priors",
        "exact_match", "superposition", "stored_priors", "grouping", "settings", "renamed_sources", "adjustments",
        "decide", "pipeline", "fitting",
    ],
    "lexical": ["tokenizers", "index", "changes", "hits"],
    "graph": ["model", "index", "walk", "flat", "experimental", "summaries", "chunk_graph", "corpus"],
    "graph.model": ["words", "entity_graph", "rules", "building", "storage", "synonyms"],
    "graph.index": [
        "records", "change_log", "combined_arrays", "logged_operator", "changed_edges", "logged_graph", "graph_index",
    ],
    "graph.walk": [
        "settings", "covering", "relevance", "linking", "facts", "fact_filter", "question", "resets", "scoring",
        "documents", "trust", "clauses", "row_lookups", "listed_walk", "paths", "restricting", "walker",
        "restricted_source", "compared", "all_passages", "listed_spaces", "listed_relevance", "listed", "order",
        "batch", "source",
    ],
    "graph.summaries": ["clusters", "models", "tree"],
    "graph.corpus": ["embedded", "document_table", "near_duplicates", "reembedding", "merging", "corpus", "chroma"],
    "evaluation": [
        "judgements", "corpus_files", "query_files", "datasets", "own_questions", "natural_questions", "runs",
        "significance", "measures", "splits", "triple_facts", "published_walks", "source_runs", "systems",
        "experiment", "system_runs", "peers", "abstention", "calibrated_pipeline", "learned_weights",
        "configurations", "tuning", "tuned_confidence", "calibrated_system", "answering", "predicted_answers",
        "protocol", "recommendation", "report_page", "report", "ablation", "judged_questions", "retriever_runs",
        "passage_matching", "retrievers", "comparison",
    ],
    "apps": ["tracing", "server", "inspector", "cli"],
    "neo4j": [
        "errors", "transactions", "connection", "schema", "records", "gds", "writing", "reading", "edge_cache",
        "remote_walk", "source",
    ],
    "sources": [
        "workers", "breaker", "protocol", "steps", "settings", "source_state", "source_task", "gathering", "gatherer",
    ],
    "retrieval": [
        "attempts", "once", "identity", "payloads", "notes", "joining", "access", "deletions", "additions",
        "directions",
        "stages.report", "stages.models", "stages.cached_models", "stages.rewritten_query", "stages.rewriting",
        "stages.routing", "source_spec", "representation", "fingerprints", "source_config", "reading",
        "filters", "faiss_rows", "wrapped", "nearest", "plain_hits", "stages", "answer", "notices", "driver",
        "routed_search", "correction", "call", "fitting", "engine", "lists", "by_document", "framework", "filter_types",
        "indexing", "new_folder", "kept", "plain_filters", "passage_folder", "parents", "graph_search", "over_corpus",
        "surface", "provenance",
    ],
}  # fmt: skip
# What the separately released integrations may import of the core: their contract.
CONTRACT = {"phasegraph", "phasegraph.graph", "phasegraph.neo4j", "phasegraph.retrieval"}
# What users may import, letter for letter: a name comes or goes here first.
PUBLIC = {
    "phasegraph": (
        "AllSourcesFailed Background BackgroundCalibrator BreakerSettings CallableSource Candidates Confidence "
        "ConfidenceEvidence ConfidenceModel Context "
        "DegradedError Evidence ExactMatchBonus FUSION_RULES FusionPipeline Gathered Gatherer GroupBy "
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
    "phasegraph.distributed": "BuildReport EmbeddedNames Spent build_index retrieve",
    "phasegraph.distributed.ray": "Actors build_index embed retrieve",
    "phasegraph.distributed.spark": "Tasks build_index embed retrieve",
    "phasegraph.evaluation": "Evaluation evaluate",
    "phasegraph.apps.tracing": "SpansOfResults",
    "langchain_phasegraph": (
        "CalibratedFusionRetriever Corrective EntityGraphRetriever Execution HitFields ModelAnswers "
        "PhaseGraphRetriever Rerank SourceSpec chat_router compositional_router dphf extractions_of "
        "fit_entropy_gates fuse_lists hyde keyword_router modality_hyde multi_query neighbour_entropy "
        "neighbour_entropy_router oracle_router step_back text_model"
    ),
    "llama_index.retrievers.phasegraph": (
        "CalibratedFusionRetriever Corrective EntityGraphRetriever Execution HitFields ModelAnswers "
        "PhaseGraphPostprocessor PhaseGraphRetriever PropertyGraphRecords Rerank SourceSpec chat_router "
        "compositional_router dphf fit_entropy_gates hyde keyword_router modality_hyde multi_query "
        "neighbour_entropy neighbour_entropy_router oracle_router read_property_graph selector_router step_back "
        "text_model"
    ),
}
PRODUCT = sorted(SOURCE.rglob("*.py"))


@cache
def _house() -> Any:
    """The program tools/house.py, which reads the same files."""
    return module_at(ROOT / "tools" / "house.py")


@cache
def _nodes(file: Path) -> list[ast.AST]:
    """The imports, calls and attributes of a file, which several rules read."""
    kinds = ast.ImportFrom | ast.Import | ast.Call | ast.Attribute
    return [node for node in _house().nodes(file) if isinstance(node, kinds)]


def _imported(nodes: list[ast.AST]) -> list[str]:
    """Every module of ours that is imported (in functions and for type checking, too) or read as an attribute."""
    found: list[str] = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "phasegraph":
            found += [node.module] if "." in node.module else [f"phasegraph.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] == "phasegraph"]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "phasegraph":
            found.append(f"phasegraph.{node.attr}")
    return found


def _floor(order: list[str], parts: list[str]) -> int:
    """The place of a module in an order, by its own name or by that of its folder."""
    whole = ".".join(parts)
    return order.index(whole if whole in order else parts[0])


def imports_against_the_floors(file: Path) -> list[str]:
    """Every import of a module from a higher floor, as "fusion.rules imports phasegraph.graph"."""
    here = [part.removesuffix(".py") for part in file.relative_to(SOURCE).parts if part != "__init__.py"]
    wrong = []
    for name in _imported(_nodes(file)) if here else []:
        there = name.split(".")[1:]
        if not there or there[0] == "__version__":
            continue
        order = INSIDE.get(here[0], [])
        inside = there[0] == here[0] and order and len(here) > 1 < len(there)
        if _floor(FLOORS, there) > _floor(FLOORS, here) or (
            inside and _floor(order, there[1:]) > _floor(order, here[1:])
        ):
            wrong.append(f"{'.'.join(here)} imports {name}")
    return wrong


def test_a_module_imports_only_from_its_own_floor_or_a_lower_one() -> None:
    assert [wrong for file in PRODUCT for wrong in imports_against_the_floors(file)] == []


def test_an_import_from_a_higher_floor_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: tuple[tuple[str, str, list[str]], ...] = (
        ("fusion/rules.py", "from phasegraph.graph import GraphSource", ["fusion.rules imports phasegraph.graph"]),
        (
            "fusion/rules.py",
            "from phasegraph.fusion.decide import make_shortlist",
            ["fusion.rules imports phasegraph.fusion.decide"],
        ),
        ("fusion/decide.py", "from phasegraph.fusion.rules import RULES", []),
        ("graph/model/words.py", "import phasegraph.fusion", []),
        (
            "fusion/rules.py",
            "import phasegraph\n\nKIND = phasegraph.graph.GraphSource",
            ["fusion.rules imports phasegraph.graph"],
        ),
    )
    for number, (name, text, wrong) in enumerate(cases):
        monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path / str(number))  # each file is read once
        file = tmp_path / str(number) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        assert imports_against_the_floors(file) == wrong


@pytest.fixture(scope="module")
def house() -> Any:
    return _house()


def test_no_imports_run_in_a_circle(house: Any) -> None:
    assert len(house.modules()) > 100
    assert house.circles(house.modules()) == []


def test_the_architecture_page_shows_the_folders_and_the_papers(house: Any) -> None:
    page = house.PAGE.read_text(encoding="utf-8")
    assert page == house.generated(page), "python tools/house.py --tree"


def test_two_programs_of_the_tools_have_two_names() -> None:
    """Tests put several folders of tools/ on the path: of two modules of one name the second is the first again."""
    names = [file.stem for file in (ROOT / "tools").rglob("*.py") if file.stem != "__main__"]
    assert len(names) > 50
    assert sorted(name for name, times in Counter(names).items() if times > 1) == []


def test_every_file_that_the_architecture_page_names_is_there(house: Any) -> None:
    page = house.PAGE.read_text(encoding="utf-8").partition("## Where to change what")[2]
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]*)*(?:\.py|/))`", page))
    assert len(named) >= 20
    bases = [SOURCE, *house.PACKAGES.values()]
    assert [name for name in sorted(named) if not any((base / name).exists() for base in bases)] == []


def test_nothing_in_the_product_runs_what_it_reads() -> None:
    forbidden = {"eval", "exec", "pickle.load", "pickle.loads", "dill.load", "dill.loads", "yaml.load", "__import__"}
    found = {}
    for file in [*PRODUCT, *INTEGRATIONS]:
        nodes = _nodes(file)
        called = {name_of(node.func) for node in nodes if isinstance(node, ast.Call)}
        imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        found[file] = called & forbidden | imported & {"pickle", "dill", "yaml", "marshal", "shelve"}
    assert len(found) > 300
    assert {file: names for file, names in found.items() if names} == {}


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
    nodes = _nodes(file)
    found = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    found |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    assert {name for name in found if name.split(".")[0] == "phasegraph"} <= CONTRACT


@pytest.mark.parametrize(
    "statements",
    [["phasegraph", "phasegraph.graph", "langchain_phasegraph"], ["llama_index.retrievers.phasegraph"]],
    ids=["core and LangChain", "LlamaIndex"],
)
def test_importing_loads_nothing_heavy_of_ours(statements: list[str]) -> None:
    """One after another in one process: what a package must not load, those before it must not load either."""
    own = {
        "phasegraph": ["scipy.stats", "scipy.optimize", "langchain_core", "llama_index", "pandas"],
        "phasegraph.graph": ["scipy.stats", "langchain_core", "llama_index", "pandas"],
        "langchain_phasegraph": ["llama_index.core", "scipy.stats", "langchain_core.language_models.llms", "tenacity"],
        "llama_index.retrievers.phasegraph": ["langchain_core"],
    }
    code = "import sys\n"
    for statement in statements:
        heavy = ["numba", "neo4j", "matplotlib", *own[statement]]
        code += f"import {statement}\nprint({statement!r}, [name for name in {heavy} if name in sys.modules])\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{statement} []" for statement in statements]


def _modules(*, with_examples: bool) -> list[str]:
    found = (
        one for one in pkgutil.walk_packages([str(SOURCE)], prefix="phasegraph.") if not one.name.endswith("__main__")
    )
    return sorted(one.name for one in found if not with_examples or ">>>" in _text_of(one))


def _text_of(module: pkgutil.ModuleInfo) -> str:
    spec = module.module_finder.find_spec(module.name, None)  # type: ignore[call-arg]
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


def test_every_module_can_be_imported() -> None:
    names = _modules(with_examples=False)
    assert len(names) > 250
    for name in names:
        importlib.import_module(name)


@pytest.mark.parametrize("name", _modules(with_examples=True))
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0
