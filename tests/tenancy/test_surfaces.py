"""Nothing of another tenant shows on any surface, and every surface is listed."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.retrievers import BaseRetriever
from llama_index.core.base.base_retriever import BaseRetriever as LlamaRetriever
from repeats import repeats
from surfaces import LISTED, NEITHER, SURFACES
from tests.source_names import name_of
from worlds import FOREIGN, QUERIES, World, in_memory, on_neo4j, rows, stable

import langchain_phasegraph
import llama_index.retrievers.phasegraph as llama_phasegraph
from phasegraph import Candidates, Evidence, Ranking, Result, SourceEvidence, SourceReport
from phasegraph._support.renamed import PARAMETERS
from phasegraph.graph import RuleExtractor
from phasegraph.graph.walk.paths import WalkPath
from phasegraph.neo4j import drop_corpus, records_from_extractions, write_graph

ROOT = Path(__file__).parents[2]
FRAMEWORKS = ("langchain", "llama_index")
RETRIEVERS: tuple[tuple[Any, Any], ...] = tuple(
    (getattr(module, name), base)
    for module, base in ((langchain_phasegraph, BaseRetriever), (llama_phasegraph, LlamaRetriever))
    for name in ("PhaseGraphRetriever", "EntityGraphRetriever")
)
CLASSES = {
    "Result": Result, "Ranking": Ranking, "Candidates": Candidates, "SourceReport": SourceReport, "Evidence": Evidence,
    "SourceEvidence": SourceEvidence, "the walk's evidence": WalkPath,
}  # fmt: skip


# The list is whole.


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_part_of_what_is_answered_is_listed(name):
    kind = CLASSES[name]
    there = {one.name for one in dataclasses.fields(kind)} | {one for one in vars(kind) if not one.startswith("_")}
    assert there == set(LISTED[name]), "list it in surfaces.py, and see that its surface's test looks at it"


def test_every_method_and_argument_of_a_retriever_is_listed():
    methods, arguments = set(), set()
    for kind, base in RETRIEVERS:
        fields = getattr(kind, "model_fields", None) or inspect.signature(kind).parameters
        arguments |= set(fields)
        methods |= {one for one in dir(kind) if not one.startswith("_") and not hasattr(base, one)} - set(fields)
    assert methods - set(LISTED["methods of retrievers"]) - PARAMETERS.keys() == set()  # without old names of arguments
    assert arguments == set(LISTED["arguments of retrievers"])


def test_every_module_and_room_is_listed():
    """A room (a folder of the core) is one; the rooms that an answer passes through are listed module by module."""
    found = set()
    for package in (ROOT / "src", *(ROOT / "integrations").iterdir()):
        for file in package.rglob("*.py"):
            parts = file.relative_to(package).with_suffix("").parts
            if parts[0] in ("phasegraph", "langchain_phasegraph", "llama_index") and not parts[-1].startswith("_"):
                room = parts[0] == "phasegraph" and len(parts) > 2 and parts[1] not in ("retrieval", "sources")
                found.add("/".join(parts[:2] if room else parts))
    assert found == set(LISTED["modules and rooms"]), (
        "list it in surfaces.py, and see that its surface's test looks at it"
    )


def notes(node: ast.AST, called: str) -> bool:
    return called.endswith("notes.append") or (
        isinstance(node, ast.AugAssign) and ast.unparse(node.target).endswith("notes")
    )


REMEMBERING = ["Recent", "WeakKeyDictionary", "TtlCache", "OrderedDict"]


def remembers(node: ast.AST, called: str) -> bool:
    """Keeps what was worked out for one call, for others: by the cache of this house, or by object."""
    return called in REMEMBERING or (isinstance(node, ast.ClassDef) and node.name == "Recent")


SAYS = {
    "modules that warn": (["warn"], lambda node, called: called.split(".")[-1] in ("warn", "warn_at_user_line")),
    "modules that log": (["logg"], lambda node, called: called.startswith(("_logger.", "logger.", "logging."))),
    "modules that note": (["notes"], notes),
    "modules that remember calls": (REMEMBERING, remembers),
}
"""By kind: words of which the text of such a module contains one, and the test of a syntax node and the called name."""
SAID = re.compile("|".join(word for words, _ in SAYS.values() for word in words))
"""Each pattern of `SAYS` contains one of these words, so a file without them is not parsed."""
APART = ("evaluation", "cli", "testing", "tuning", "distributed", "experimental")
"""Rooms that no answer of a retriever passes through."""


@cache
def saying() -> dict[str, set[str]]:
    """The modules that an answer may pass through and that say or keep something of a call, by kind."""
    found: dict[str, set[str]] = {kind: set() for kind in SAYS}
    for package in (ROOT / "src", *(ROOT / "integrations").iterdir()):
        for file in package.rglob("*.py"):
            name = file.relative_to(package).with_suffix("").as_posix()
            if name.startswith(("tests/", "examples/")) or any(part in APART for part in name.split("/")):
                continue
            text = file.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if SAID.search(text) else ():
                if isinstance(node, ast.Call | ast.AugAssign | ast.ClassDef):
                    called = name_of(node.func) if isinstance(node, ast.Call) else ""
                    for kind in (kind for kind, (_, says) in SAYS.items() if says(node, called)):
                        found[kind].add(name)
    return found


@pytest.mark.parametrize("kind", sorted(SAYS))
def test_every_module_that_says_or_keeps_something_of_a_call_is_listed(kind):
    listed = set(LISTED[kind])
    assert saying()[kind] == listed, "list it in surfaces.py, and see that its surface's test looks at it"


def test_every_surface_that_is_named_has_a_test():
    assert {one for listed in LISTED.values() for one in listed.values()} <= {*SURFACES, *NEITHER}


# Nothing shows.

CALLS = {"memory": repeats(6, 2) * len(QUERIES), "Neo4j, read": 60, "Neo4j, walked there": 36}


@pytest.fixture(scope="module", params=FRAMEWORKS)
def memory(request, tmp_path_factory):
    both = in_memory(request.param, [*rows("red"), *rows("blue")])
    return both, both.ask(CALLS["memory"], tmp_path_factory.mktemp("files")), in_memory(request.param, rows("red"))


def checked(said, surface, least):
    assert surface in said
    assert len(said[surface]) >= (1 if surface in ("files", "logs", "warnings") else least), surface
    assert any(said[surface])
    for one in said[surface]:
        found = FOREIGN.search(one)
        assert found is None, (surface, one[max(0, found.start() - 300) : found.end() + 100])


@pytest.mark.parametrize("surface", sorted(SURFACES))
def test_nothing_of_the_other_tenant_shows_in_memory(memory, surface):
    _, said, _ = memory
    checked(said, surface, CALLS["memory"] if surface != "exceptions" else 60)


def counted(both: World, alone: World) -> None:
    """Counts, sizes and verdicts are those of a store that never held the other tenant."""
    for query in QUERIES:
        here, there = both.explained(query), alone.explained(query)
        for part in ("reports", "verdicts", "candidates"):
            one, other = (stable(PARTS[part](result)) for result in (here, there))
            assert one == other, (part, query)


def report_of(result: Result) -> str:
    return repr([dataclasses.replace(one, milliseconds=0.0) for one in result.reports])


def verdicts_of(result: Result) -> str:
    return repr((result.warnings, result.reason, result.agreement, result.degraded, result.confidence))


def candidates_of(result: Result) -> str:
    """By id: a walk in Neo4j is exact to its tolerance, in which nearly equal scores may change places."""
    shown = [
        (one.source, sorted(zip(one.ids, np.round(one.scores, 4).tolist(), strict=True)), one.size, one.reason)
        for one in result.candidates.rankings
    ]
    return repr((sorted(result.candidates.ids), shown))


PARTS = {"reports": report_of, "verdicts": verdicts_of, "candidates": candidates_of}


def test_counts_are_those_of_a_store_that_never_held_the_others_in_memory(memory):
    both, _, alone = memory
    counted(both, alone)


def test_a_leak_would_be_seen(memory):
    """Without a filter every surface that shows passages shows the other tenant's."""
    both, _, _ = memory
    found = both.retriever.explain(QUERIES[0])
    assert FOREIGN.search(candidates_of(found))
    assert not FOREIGN.search(candidates_of(both.explained(QUERIES[0])))


# On Neo4j: both tenants in one corpus, and a corpus of another's passages under the same ids beside it.


def records(given):
    rules = RuleExtractor(titles=[row["title"] for row in given])
    found = [rules(row["id"], row["title"], row["text"]) for row in given]
    return records_from_extractions([{key: row[key] for key in ("id", "title", "text")} for row in given], found)


@pytest.fixture(scope="module")
def corpora(address):
    import neo4j

    from phasegraph.neo4j import Neo4jConnection

    with neo4j.GraphDatabase.driver(address.uri, auth=address.auth, notifications_min_severity="OFF") as driver:
        connection = Neo4jConnection(driver, timeout=30.0)
        made = {
            "shared": [*rows("red"), *rows("blue")], "alone": rows("red"), "equal": rows("blue", equal=True),
        }  # fmt: skip
        for name, given in made.items():
            write_graph(connection, records(given), corpus=name)
        yield connection
        for name in made:
            drop_corpus(connection, name)


@pytest.fixture(scope="module", params=[(one, load) for one in FRAMEWORKS for load in (True, False)])
def served(request, corpora, tmp_path_factory):
    framework, load = request.param
    name = "Neo4j, read" if load else "Neo4j, walked there"
    both = on_neo4j(framework, [*rows("red"), *rows("blue")], corpora, "shared", load=load)
    alone = on_neo4j(framework, rows("red"), corpora, "alone", load=load)
    return both, both.ask(CALLS[name], tmp_path_factory.mktemp("files")), alone, CALLS[name]


@pytest.mark.parametrize("surface", sorted(SURFACES))
def test_nothing_of_the_other_tenant_shows_on_neo4j(served, surface):
    _, said, _, least = served
    checked(said, surface, least if surface != "exceptions" else 60)


def test_counts_are_those_of_a_store_that_never_held_the_others_on_neo4j(served):
    both, _, alone, _ = served
    counted(both, alone)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("load", [True, False])
def test_of_a_corpus_with_equal_ids_nothing_shows(corpora, framework, load):
    """A graph of red's corpus over documents among which blue has the same ids: fails, or shows red's alone."""
    mine = on_neo4j(framework, rows("red"), corpora, "alone", load=load)
    for query in QUERIES:
        assert not FOREIGN.search(candidates_of(mine.explained(query)))
    swapped = on_neo4j(framework, rows("blue", equal=True), corpora, "alone", load=load)
    for query in QUERIES:
        assert swapped.explained(query).ids == (), "every document under these ids is blue's"
