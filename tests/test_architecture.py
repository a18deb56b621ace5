"""The architecture page's list of the calls of a query, held against the calls of a real query."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_phasegraph import PhaseGraphRetriever
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.retrieval import Corrective
from phasegraph.sources import workers

PAGE = Path(__file__).parents[1] / "docs" / "contributing" / "architecture.md"
LISTED = PAGE.read_text(encoding="utf-8").partition("## What one query passes through")[2].partition("\n## ")[0]
ROWS = [
    re.split(r" {2,}", line.strip().replace(" ─► ", "  ", 1)) for line in LISTED.splitlines() if line[:4] == " " * 4
]
NAME = r"[A-Z]?\w+(?:\.\w+)?"

Call = tuple[str, str]


@pytest.fixture(scope="module")
def calls() -> set[Call]:
    """The file and the qualified name of every function that runs in one call with every stage.

    Only threads that start later are watched, so the call gets worker threads of its own.
    """
    passages = [
        Document("A film by Alfred Hitchcock.", id="film", metadata={"title": "Vertigo"}),
        Document("A director, born in Leytonstone.", id="man", metadata={"title": "Alfred Hitchcock"}),
    ]
    retriever = PhaseGraphRetriever(
        vector=InMemoryVectorStore.from_documents(passages, DeterministicFakeEmbedding(size=8)),
        graph=lambda query: [(passages[1], 1.0), (passages[0], 0.5)],
        rerank=lambda query, texts: [1.0] * len(texts),
        corrective=Corrective(lambda query, hits: 1.0, rewrite=lambda query: query),
        accept=AcceptancePolicy(final=0.0),
        selection="mmr",
        k=2,
    )
    found: set[Call] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            found.add((Path(frame.f_code.co_filename).as_posix(), frame.f_code.co_qualname))

    before = sys.getprofile(), threading.getprofile()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "_process", workers._Process())
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            retriever.invoke("Who made Vertigo?")
        finally:
            sys.setprofile(before[0])
            threading.setprofile(before[1])
    return found


def kinds(name: str) -> set[str]:
    """The names of a class of ours and of all classes that are derived from it."""
    modules = [module for path, module in sys.modules.items() if "phasegraph" in path]
    found: set[type] = {one for one in (vars(module).get(name) for module in modules) if isinstance(one, type)}
    known: set[type] = set()
    while found:
        known |= found
        found = {derived for one in found for derived in one.__subclasses__()} - known
    return {one.__qualname__ for one in known}


def is_called(name: str, calls: set[Call]) -> list[str]:
    """The files in which a function, or a method of a class or of a derived class, was called."""
    kind, _, method = name.rpartition(".")
    if name[0].isupper() and not kind:
        kind, method = name, r"\w+"
    wanted = "|".join(re.escape(f"{one}.") for one in kinds(kind)) if kind else ""
    if kind and not wanted:
        return []
    return [file for file, called in calls if re.fullmatch(f"(?:{wanted}){method}", called) and "phasegraph" in file]


def test_the_list_is_read() -> None:
    assert len(ROWS) > 20
    assert ROWS[2] == ["run(Call.flow)", "retrieval/driver.py, retrieval/call.py"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_query_makes_the_calls_that_the_page_lists_in_the_files_that_it_names(
    row: list[str], calls: set[Call]
) -> None:
    place = next((number for number, cell in enumerate(row) if ".py" in cell), len(row))
    names = [name for cell in row[:place] for name in re.findall(NAME, cell)]
    files = [file for cell in row[place : place + 1] for file in cell.split(", ")]
    where = {name: is_called(name, calls) for name in names}
    assert [name for name, found in where.items() if not found] == [], "no call of these names"
    ran = {file for found in where.values() for file in found}
    assert [one for one in files if not any(file.endswith(f"/{one}") for file in ran)] == [], (
        "no such call in these files"
    )
