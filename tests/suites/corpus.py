"""Shared tests of both integrations for retrievers that own their documents.

Derive a test class from :class:`CorpusSuite` and implement the methods that create the framework's documents and
retrievers. The tests need chromadb.
"""

from __future__ import annotations

import asyncio
import copy
import errno
import importlib
import json
import os
import re
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from inspect import getattr_static
from pathlib import Path
from typing import Any, cast

import pytest
from tests.graph_bits import same_graph
from tests.repeats import EXHAUSTIVE, repeats
from tests.suites.manual_time import until
from tests.suites.other_process import started

from phasegraph._support import files
from phasegraph.acceptance import AcceptancePolicy
from phasegraph.errors import (
    IntegrityError,
    InvalidInputError,
    InvalidTypeError,
    MissingDependencyError,
    PhasegraphWarning,
    StoreError,
)
from phasegraph.graph.corpus.change import Change
from phasegraph.graph.corpus.chroma import ChromaVectors, open_folder
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.corpus.folder import Folder
from phasegraph.graph.flat import VectorSource
from phasegraph.graph.model.entity_graph import Extraction
from phasegraph.graph.model.rules import RuleExtractor
from phasegraph.graph.walk.clauses import clauses
from phasegraph.graph.walk.source import GraphSource
from phasegraph.retrieval.indexing import Indexing

FOLDERS = Path(__file__).parents[1] / "folders"
"""Folder with corpus folders of this and older versions; ``tests/folders/write.py`` writes a corpus folder."""
STEPS = range(0, 20, repeats(1, 3))
"""Operations of a sync before each of which a process is killed."""
TITLES = ["Ada Lovelace", "Charles Babbage", "Analytical Engine", "London", "Byron", "Turin", "Luigi Menabrea", "Devon"]
QUESTIONS = ["Who wrote about the engine of Charles Babbage?", "Where was Byron?", "London", "Menabrea in Turin"]


def story(number: int) -> tuple[str, str]:
    """Return the title and text of a test passage, whose text names other titles."""
    one, other = TITLES[(number * 3 + 1) % 8], TITLES[(number * 5 + 2) % 8]
    return TITLES[number % 8] if number < 8 else f"Letter {number}", f"{one} met {other} in Letter {number // 2}."


def run_here(module: str, function: str, arguments: Sequence[str], seconds: float) -> str:
    """Stand for `phasegraph._support.apart.run_apart`, whose process imports everything for each merge.

    tests/test_durability.py merges in a real process.
    """
    assert threading.current_thread() is not threading.main_thread()
    getattr(importlib.import_module(module), function)(*arguments)
    return ""


def dying(*arguments: Any) -> None:
    """Kill the process, as a replacement for a method of a store."""
    os._exit(9)


class CorpusSuite:
    """Tests of retrievers that own their documents; derive a class ``Test…`` and override the hooks."""

    copiers: Sequence[Callable[[Any], Any]] = (copy.deepcopy,)
    """Functions that copy a retriever."""
    framework = ""
    """The framework's name as its folders store it."""
    embeds_query = ""
    """Name of the method of the embedding model that embeds a query."""
    vector_store = "flat"
    """The argument `vector_store` for the folders that the tests write."""

    def document(self, name: str | None, text: str, **metadata: Any) -> Any:
        """Create a document of the framework with the id `name`; None creates a document without an id."""
        raise NotImplementedError

    def model(self, name: str = "plain", size: int = 16) -> Any:
        """Create an embedding model; each name gives different vectors, and a model named "silent" raises an error."""
        raise NotImplementedError

    def counting(self) -> Any:
        """Create the model named "plain" with an attribute ``texts`` that collects the embedded texts."""
        raise NotImplementedError

    def made(self, documents: Sequence[Any], path: Path | None = None, model: Any = None, **fields: Any) -> Any:
        """Create the fused retriever from documents."""
        raise NotImplementedError

    def opened(self, path: Path, model: Any = None, **fields: Any) -> Any:
        """Open the fused retriever in a folder."""
        raise NotImplementedError

    def graph_of(self, documents: Sequence[Any], *model: Any) -> Any:
        """Create the entity-graph retriever from documents, without vectors unless a `model` is given."""
        raise NotImplementedError

    def opened_graph(self, path: Path, model: Any = None, **fields: Any) -> Any:
        """Open the entity-graph retriever in a folder."""
        raise NotImplementedError

    def add(self, retriever: Any, documents: Sequence[Any]) -> list[str]:
        """Add documents to a retriever, and return their ids."""
        raise NotImplementedError

    def aadd(self, retriever: Any, documents: Sequence[Any]) -> Any:
        """Return an awaitable that adds documents to a retriever."""
        raise NotImplementedError

    def ask(self, retriever: Any, query: str, **only: Any) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the ids, texts and metadata of the hits; `only` are metadata values that a hit must have."""
        raise NotImplementedError

    def documents(self, numbers: Sequence[int]) -> list[Any]:
        """Create the test passages with these numbers."""
        stories = ((number, *story(number)) for number in numbers)
        return [
            self.document(f"d{number}", text, title=title, team="red" if number % 2 else "blue")
            for number, title, text in stories
        ]

    @pytest.fixture(params=["in memory", "in a folder"])
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
        """Return None for a corpus in memory, or the path of a new folder."""
        return None if request.param == "in memory" else tmp_path / "corpus"

    @pytest.fixture(params=["in memory", "flat", "chroma"])
    def any_place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
        """Return None for a corpus in memory, or the path of a new folder, with each vector store in turn."""
        if request.param == "in memory":
            return None
        self.vector_store = request.param
        return tmp_path / "corpus"

    def in_chroma(self, documents: Sequence[Any], path: Path) -> Any:
        """Create a retriever in a folder, with its vectors in Chroma."""
        self.vector_store = "chroma"
        return self.made(documents, path)

    def answers(self, retriever: Any) -> list[Any]:
        """Return all hits for each of `QUESTIONS`."""
        return [self.ask(retriever, question) for question in QUESTIONS]

    @staticmethod
    def names_of(answers: Sequence[Any]) -> list[list[str]]:
        """Return only the ids from the return value of :meth:`answers`."""
        return [[name for name, _, _ in one] for one in answers]

    def write_folder(self, path: Path) -> None:
        """Write a folder with an index and later changes; ``tests/folders`` stores such folders of each version."""
        retriever = self.made(self.documents(range(6)), path)
        retriever.delete(["d2"])
        self.add(retriever, self.documents([7]))

    def test_clauses_are_embedded_only_where_the_caller_asks_for_it(
        self, place: Path | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kind, asked = type(self.model()), []
        embed = getattr_static(kind, self.embeds_query)

        @wraps(embed)  # wraps keeps the method's name, so that pickle can find it
        def heard(model: Any, text: str) -> Any:
            asked.append(text)
            return embed.__get__(model, kind)(text)

        monkeypatch.setattr(kind, self.embeds_query, heard)
        question = "Who wrote about the engine of Babbage, and who met Ada Lovelace in London before?"
        parts = set(clauses(question))
        assert len(parts) == 2

        def embedded(retriever: Any) -> set[str]:
            asked.clear()
            self.ask(retriever, question)
            return parts & set(asked)

        assert embedded(self.made(self.documents(range(12)))) == set()
        retriever = self.made(self.documents(range(12)), place, embed_clauses=True)
        assert embedded(retriever) == parts
        self.add(retriever, self.documents([12]))
        assert embedded(retriever) == parts
        assert all(embedded(copier(retriever)) == parts for copier in self.copiers)
        if place is not None:
            assert embedded(self.opened(place)) == set()
            assert embedded(self.opened(place, embed_clauses=True)) == parts

    def test_clauses_cannot_be_embedded_without_a_model(self, tmp_path: Path) -> None:
        self.graph_of(self.documents(range(4))).save(tmp_path / "graph")
        with pytest.raises(InvalidInputError, match="embed_clauses=True needs passages with embeddings"):
            self.opened_graph(tmp_path / "graph", embed_clauses=True)
        with pytest.raises(InvalidTypeError, match="embed_clauses must be True or False; got 'yes'"):
            self.made(self.documents(range(4)), embed_clauses="yes")

    def test_a_folder_that_a_version_before_this_one_wrote_opens_and_changes(self, tmp_path: Path) -> None:
        archives = sorted(FOLDERS.glob(f"{self.framework}-*.zip"))
        assert {f"{self.framework}-0.1.0.zip", f"{self.framework}-0.1.0-chroma.zip"} <= {one.name for one in archives}
        for archive in archives:
            place = tmp_path / archive.stem
            shutil.unpack_archive(archive, place)
            expected = json.loads((place / "expected.json").read_text())
            retriever = self.opened(place / "corpus")
            assert retriever.ids() == expected["ids"], archive.name
            assert self.names_of(self.answers(retriever)) == expected["answers"], archive.name
            retriever.delete(["d0"])
            self.add(retriever, self.documents([8]))
            again = self.opened(place / "corpus")
            assert again.ids() == [*expected["ids"][1:], "d8"], archive.name

    def test_a_folder_of_a_newer_version_names_the_command_that_upgrades(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        retriever = self.made(self.documents(range(3)), path)
        retriever.delete(["d1"])
        for file in ("folder.json", "graph/manifest.json", "changes/00000001/manifest.json"):
            before = (path / file).read_text()
            newer = before.replace('"version": 1', '"version": 2', 1)
            assert newer != before
            (path / file).write_text(newer)
            with pytest.raises(
                IntegrityError, match=r"up to version 1, and this file is newer: version 2.*pip install -U"
            ):
                self.opened(path)
            (path / file).write_text(before)
        assert self.opened(path).ids() == ["d0", "d2"]

    def test_one_call_makes_a_retriever_of_vectors_graph_and_words(self, place: Path | None) -> None:
        retriever = self.made(self.documents(range(12)), place)
        result = retriever.explain(QUESTIONS[0])
        assert {one.source for one in result.reports if one.status == "ok"} == {"vector", "graph", "bm25"}
        assert result.ids[0] in {name for name, _, _ in self.ask(retriever, QUESTIONS[0])}
        for name, text, metadata in self.ask(retriever, QUESTIONS[0]):
            assert text == story(int(name[1:]))[1]
            assert metadata["title"] == story(int(name[1:]))[0]

    def test_another_model_is_warned_of_once_and_not_for_the_words(self, tmp_path: Path) -> None:
        documents = self.documents(range(30))
        retriever = self.made(documents)
        retriever.calibrate([f"{one} {number}" for number, one in enumerate(QUESTIONS * 8)], progress=False)
        retriever.save(tmp_path / "fitted.json")
        with pytest.warns(PhasegraphWarning, match="calibrated on scores of") as seen:
            self.made(documents, model=self.model(size=8, name="other"), pipeline=tmp_path / "fitted.json")
        (said,) = (str(one.message) for one in seen)
        assert "source 'vector'" in said
        assert "source 'bm25'" not in said

    def test_a_threshold_of_one_source_is_no_threshold_of_the_others_and_a_warning_says_so_once(self) -> None:
        with pytest.warns(
            PhasegraphWarning, match="no threshold for 'bm25' and 'graph'.*unknown_source='reject'"
        ) as seen:
            retriever = self.made(self.documents(range(4)), accept={"vector": 9.0})
        assert len(seen) == 1
        assert self.ask(retriever, QUESTIONS[0])
        strict = AcceptancePolicy({"vector": 9.0}, unknown_source="reject")
        assert self.ask(self.made(self.documents(range(4)), accept=strict), QUESTIONS[0]) == []
        everywhere = dict.fromkeys(("bm25", "graph", "vector"), 99.0)
        assert self.ask(self.made(self.documents(range(4)), accept=everywhere), QUESTIONS[0]) == []

    def test_changes_equal_a_rebuild_to_the_bit(self, any_place: Path | None, tmp_path: Path) -> None:
        retriever = self.made(self.documents(range(12)), any_place)
        assert self.add(retriever, self.documents(range(12, 15))) == ["d12", "d13", "d14"]
        retriever.delete(["d3", "d13"])
        changed = self.document("d4", "Turin, where Luigi Menabrea sang.", title="Byron", team="blue")
        self.add(retriever, [changed])
        kept = [number for number in range(15) if number not in (3, 4, 13)]
        whole = self.made([*self.documents(kept), changed], None if any_place is None else tmp_path / "whole")
        same_graph(retriever._corpus.index.graph, whole._corpus.index.graph)
        assert self.answers(retriever) == self.answers(whole)
        for question in QUESTIONS:
            both = [one.explain(question, k=50) for one in (retriever, whole)]
            assert both[0].ids == both[1].ids
            assert both[0].scores.tolist() == both[1].scores.tolist()
        if any_place is not None:
            again = self.opened(any_place)
            same_graph(again._corpus.index.graph, whole._corpus.index.graph)
            assert self.answers(again) == self.answers(retriever)

    def test_many_changes_are_taken_into_the_index(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("phasegraph.graph.corpus.merging.run_apart", run_here)
        monkeypatch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 3)
        path = tmp_path / "corpus"
        retriever = self.made(self.documents(range(8)), path)
        for number in range(8, 16):
            self.add(retriever, self.documents([number]))
            retriever.delete([f"d{number - 8}"])
        retriever._corpus.settle()
        self.add(retriever, self.documents([16]))
        retriever.delete(["d16"])
        retriever._corpus.settle()
        assert len(list((path / "changes").iterdir())) <= 3
        same_graph(self.opened(path)._corpus.index.graph, self.made(self.documents(range(8, 16)))._corpus.index.graph)

    def test_what_was_deleted_stays_deleted(self, place: Path | None) -> None:
        retriever = self.made(self.documents(range(12)), place)
        before = {name for answer in self.answers(retriever) for name, _, _ in answer}
        retriever.delete(sorted(before)[:4])
        for again in [retriever] if place is None else [retriever, self.opened(place)]:
            for question in QUESTIONS:
                assert not {name for name, _, _ in self.ask(again, question)} & set(sorted(before)[:4])
                found = {name for name, _, _ in self.ask(again, question, team="red")}
                assert found
                assert all(int(name[1:]) % 2 for name in found)

    def test_a_filter_follows_what_comes_and_goes_at_once(self, place: Path | None) -> None:
        retriever = self.made(self.documents(range(6)), place, k=60)

        def red() -> list[str]:
            return sorted(name for name, _, _ in self.ask(retriever, "Where did Ada sing?", team="red"))

        assert red() == ["d1", "d3", "d5"]
        self.add(retriever, self.documents(range(6, 10)))
        assert red() == ["d1", "d3", "d5", "d7", "d9"]
        retriever.delete(["d3"])
        assert red() == ["d1", "d5", "d7", "d9"]

    def test_passages_that_are_deleted_during_a_filtered_question_cost_no_source(
        self, place: Path | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        results: list[Any] = []
        retriever = self.made(self.documents(range(16)), place, k=60, on_result=results.append)
        plain, gone = GraphSource.search, iter(["d1", "d3", "d5", "d7"])

        def search(source: GraphSource, *given: Any, **more: Any) -> Any:
            found = plain(source, *given, **more)
            name = next(gone, None)
            if name is not None:
                retriever.delete([name])  # like a change in another thread, after each search of the graph
            return found

        monkeypatch.setattr(GraphSource, "search", search)
        for _ in range(3):
            found = {name for name, _, _ in self.ask(retriever, QUESTIONS[0], team="red")}
            assert found
            assert not found - {f"d{number}" for number in range(1, 16, 2)}
        assert {one.status for result in results for one in result.reports} == {"ok"}

    def test_metadata_that_the_store_cannot_hold_come_back_whole(self, place: Path | None) -> None:
        document = self.document("n", "Ada met Bo.", title="Ada", tags=["a", 1], inner={"b": [None]}, none=None)
        retriever = self.made([document, *self.documents([1])], place)
        for again in [retriever] if place is None else [retriever, self.opened(place)]:
            metadata = next(metadata for name, _, metadata in self.ask(again, "Ada") if name == "n")
            assert (metadata["tags"], metadata["inner"], metadata["none"]) == (["a", 1], {"b": [None]}, None)

    def test_metadata_that_cannot_be_saved_are_named_and_nothing_is_written(self, tmp_path: Path) -> None:
        wrong = self.document("w", "Ada met Bo.", when=object())
        with pytest.raises((InvalidInputError, InvalidTypeError), match="when"):
            self.made([wrong], tmp_path / "corpus")
        retriever = self.made(self.documents([1]), tmp_path / "other")
        with pytest.raises((InvalidInputError, InvalidTypeError), match="when"):
            self.add(retriever, [wrong])
        assert retriever._corpus.index.graph.passages == ("d1",)
        assert self.opened(tmp_path / "other")._corpus.index.graph.passages == ("d1",)

    def test_a_repeated_id_is_named(self, place: Path | None) -> None:
        with pytest.raises(InvalidInputError, match="'d1'"):
            self.made([*self.documents([1, 2]), *self.documents([1])], place)
        retriever = self.made(self.documents([1, 2]), place)
        with pytest.raises(InvalidInputError, match="'d3'"):
            self.add(retriever, self.documents([3, 3]))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda suite, one: one.delete(["zz"]), "'zz'"),
            (lambda suite, one: suite.add(one, [suite.document("e", " ")]), r"'e'.*text"),
        ],
    )
    def test_a_change_that_cannot_be_made_changes_nothing(self, place: Path | None, change: Any, message: str) -> None:
        retriever = self.made(self.documents([1, 2]), place)
        before = self.answers(retriever)
        with pytest.raises(InvalidInputError, match=message):
            change(self, retriever)
        assert self.answers(retriever) == before

    def test_a_vector_store_that_refuses_a_change_leaves_everything_as_it_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "corpus"
        retriever = self.in_chroma(self.documents(range(6)), path)
        before, write = self.answers(retriever), ChromaVectors.write

        def refusing(store: ChromaVectors, records: Any, vectors: Any) -> None:
            write(store, records, vectors)
            if any(one.id == "d9" for one in records):
                raise OSError("no space left")

        monkeypatch.setattr(ChromaVectors, "write", refusing)
        with pytest.raises(StoreError, match=r"nothing was changed.*no space left"):
            self.add(retriever, [*self.documents([9]), self.document("d2", "Other words.", team="blue")])
        for again in (retriever, self.opened(path)):
            assert self.answers(again) == before
            assert again._corpus._store.ids() == {f"d{n}" for n in range(6)}

    @pytest.mark.parametrize("method", ["write", "remove"])
    def test_a_process_killed_within_a_change_leaves_it_made_when_it_is_opened_again(
        self, tmp_path: Path, method: str, other_process: Callable[..., int]
    ) -> None:
        path = tmp_path / "corpus"
        self.in_chroma(self.documents(range(6)), path)
        assert other_process("change_and_die", path, method) == 9
        again = self.opened(path)
        kept = [0, 1, 2, 3, 5, 9] if method == "write" else [0, 1, 2, 3, 5]
        same_graph(again._corpus.index.graph, self.made(self.documents(kept))._corpus.index.graph)
        assert again._corpus._store.ids() == {f"d{n}" for n in kept}

    def change_and_die(self, path: Path, method: str) -> None:
        """Change a folder, and kill the process in the method of the vector store that changes the vectors."""
        retriever = self.opened(path)
        if method == "write":
            retriever.delete(["d4"])
        setattr(ChromaVectors, method, dying)
        if method == "write":
            self.add(retriever, self.documents([9]))
        else:
            retriever.delete(["d4"])

    def test_a_change_that_was_not_written_to_its_end_is_not_there(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        retriever = self.made(self.documents(range(4)), path)
        self.add(retriever, self.documents([5]))
        torn = path / "changes" / "00000002"
        torn.mkdir()
        (torn / ".passages_text.1.partial").write_bytes(b"half")
        assert self.opened(path)._corpus.index.graph.passages == ("d0", "d1", "d2", "d3", "d5")

    def test_a_retriever_follows_what_another_changed_in_its_folder(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        first = self.made(self.documents(range(4)), path)
        second = self.opened(path)
        second.delete(["d1"])
        assert first.ids() == ["d0", "d2", "d3"]
        first.delete(["d2"])
        self.add(second, self.documents([5]))
        assert first.documents() == second.documents() == {"": 3}
        for one in (first, second, self.opened(path)):
            assert one.ids() == ["d0", "d3", "d5"]
            same_graph(one._corpus.index.graph, self.made(self.documents([0, 3, 5]))._corpus.index.graph)
            assert {name for name, _, _ in self.ask(one, QUESTIONS[0])} == {"d0", "d3", "d5"}

    def test_an_answer_comes_entirely_from_before_a_change_within_its_call(
        self, place: Path | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        retriever = self.made(self.documents(range(6)), place, k=20)
        before, plain = retriever.explain(QUESTIONS[0]), VectorSource.search

        def search(source: VectorSource, *given: Any, **more: Any) -> Any:
            found = plain(source, *given, **more)
            monkeypatch.undo()
            retriever.delete(["d1"])
            self.add(retriever, [self.document("d2", "Other words."), *self.documents([7])])
            return found

        monkeypatch.setattr(VectorSource, "search", search)
        during, after = retriever.explain(QUESTIONS[0]), retriever.explain(QUESTIONS[0])
        assert during.ids == before.ids
        assert during.scores.tolist() == before.scores.tolist()
        assert set(after.ids) == {"d0", "d2", "d3", "d4", "d5", "d7"}

    def test_a_change_while_the_words_of_the_hits_are_read_costs_no_answer(
        self, place: Path | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        retriever = self.made(self.documents(range(6)), place, k=20)
        before, armed = retriever.explain(QUESTIONS[0]), [True]

        def changing(plain: Any) -> property:
            def look(corpus: Corpus) -> Any:
                found = plain.fget(corpus)
                if armed and sys._getframe(1).f_code.co_name == "_counted":
                    armed.clear()
                    retriever.delete(["d1"])  # like a change in another thread, right after the passages were read
                return found

            return property(look)

        for name in ("index", "seen"):
            monkeypatch.setattr(Corpus, name, changing(getattr(Corpus, name)))
        during = retriever.explain(QUESTIONS[0])
        assert not armed
        assert during.ids == before.ids
        assert during.scores.tolist() == before.scores.tolist()
        assert "d1" not in retriever.explain(QUESTIONS[0]).ids

    def test_answers_follow_what_another_changed_without_being_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("phasegraph.graph.corpus.corpus.LOOKING", 0.0)
        path = tmp_path / "corpus"
        first = self.made(self.documents(range(6)), path, k=20)
        self.ask(first, QUESTIONS[0])
        other = self.opened(path)
        other.delete(["d1"])
        self.add(other, self.documents([7, 9]))
        for only in ({}, {"team": "red"}):
            self.ask(first, QUESTIONS[0], **only)  # notices the change
            first._corpus.settle()
            found = {name for name, _, _ in self.ask(first, QUESTIONS[0], **only)}
            assert found == {name for name, _, _ in self.ask(other, QUESTIONS[0], **only)}
            assert "d1" not in found
            assert {"d7", "d9"} <= found

    def test_a_damaged_folder_says_which_file(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        self.add(self.made(self.documents(range(4)), path), self.documents([5]))
        file = next((path / "changes" / "00000001").glob("passages_text*"))
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.raises(IntegrityError, match="passages_text"):
            self.opened(path)
        with pytest.raises(IntegrityError, match=r"folder\.json"):
            self.opened(tmp_path)

    def test_a_folder_of_another_framework_says_so(self, tmp_path: Path) -> None:
        graph = self.graph_of(self.documents(range(3)))
        graph._corpus.save(tmp_path / "foreign", {"framework": "haystack", "vectors": True})
        with pytest.raises(InvalidInputError, match="haystack"):
            self.opened(tmp_path / "foreign")

    def test_a_path_that_holds_files_is_refused_before_anything_is_embedded(self, tmp_path: Path) -> None:
        (tmp_path / "mine.txt").write_text("x")
        with pytest.raises(InvalidInputError, match=r"path must be .* new or empty"):
            self.made(self.documents([1]), tmp_path)
        assert [one.name for one in tmp_path.iterdir()] == ["mine.txt"]

    def test_an_index_of_vectors_needs_a_folder(self) -> None:
        with pytest.raises(InvalidInputError, match="vector_store='chroma' needs path="):
            self.made(self.documents([1]), vector_store="chroma")

    def _without_chroma(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("chromadb", "langchain_chroma", "llama_index.vector_stores.chroma"):
            monkeypatch.setitem(sys.modules, name, None)

    def test_without_chroma_a_folder_works_and_chroma_says_what_to_install(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._without_chroma(monkeypatch)
        with pytest.raises(MissingDependencyError, match=r"pip install 'phasegraph\[chroma\]'"):
            self.in_chroma(self.documents([1]), tmp_path / "corpus")
        assert not (tmp_path / "corpus").exists()
        with pytest.raises(InvalidInputError, match="vector_store must be 'flat' or 'chroma'; got 'faiss'"):
            self.made(self.documents([1]), tmp_path / "corpus", vector_store="faiss")
        self.vector_store = "flat"
        self.made(self.documents([1, 2]), tmp_path / "corpus")
        assert self.opened(tmp_path / "corpus").ids() == ["d1", "d2"]

    @pytest.mark.parametrize("vector_store", ["flat", "chroma"])
    def test_a_read_only_folder_opens_for_searching(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vector_store: str
    ) -> None:
        path, self.vector_store = tmp_path / "corpus", vector_store
        retriever = self.made(self.documents(range(6)), path)
        retriever.delete(["d2"])
        before = self.answers(retriever)
        files = {one: one.stat().st_mtime_ns for one in path.rglob("*")}

        def refused(*arguments: Any) -> None:
            raise OSError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr("phasegraph._support.files._lock", refused)  # because root can write to read-only folders
        monkeypatch.setattr(os, "access", lambda place, mode: mode != os.W_OK)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            again = self.opened(path)
        assert len(said) == (vector_store == "chroma")
        assert self.answers(again) == before
        assert len(self.opened_graph(path).ids()) == 5
        assert {one: one.stat().st_mtime_ns for one in path.rglob("*")} == files
        with pytest.raises((StoreError, InvalidInputError), match=r"Read-only file system|vector_store='flat'"):
            again.delete(["d1"])

    def test_vectors_move_from_chroma_and_back(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "corpus"
        first = self.in_chroma(self.documents(range(6)), path)
        before = self.answers(first)
        with monkeypatch.context() as missing:
            self._without_chroma(missing)
            with pytest.warns(PhasegraphWarning, match="Chroma are not used, because chromadb is not installed"):
                without = self.opened(path)
            assert self.answers(without) == before
            with pytest.raises(InvalidInputError, match=r"load\(..., vector_store='flat'\)"):
                without.delete(["d1"])
            flat = self.opened(path, vector_store="flat")
            flat.delete(["d1"])
            self.add(self.opened(path), self.documents([7]))
        assert not (path / "vectors").exists()
        kept = [0, 2, 3, 4, 5, 7]
        assert self.opened(path).ids() == [f"d{number}" for number in kept]
        back = self.opened(path, vector_store="chroma")
        assert back._corpus._store.ids() == {f"d{number}" for number in kept}
        back.delete(["d7"])
        again = self.opened(path)
        assert again._corpus._store.ids() == {f"d{number}" for number in kept[:-1]}
        same_graph(again._corpus.index.graph, self.made(self.documents(kept[:-1]))._corpus.index.graph)

    def test_a_graph_alone_is_saved_opened_and_changed(self, tmp_path: Path) -> None:
        graph = self.graph_of(self.documents(range(6)))
        graph.save(tmp_path / "graph")
        again = self.opened_graph(tmp_path / "graph")
        assert self.answers(again) == self.answers(graph)
        self.add(again, self.documents([7]))
        again.delete(["d0"])
        whole = self.graph_of(self.documents([1, 2, 3, 4, 5, 7]))
        for one in (again, self.opened_graph(tmp_path / "graph")):
            same_graph(one._corpus.index.graph, whole._corpus.index.graph)
            assert self.answers(one) == self.answers(whole)
        with pytest.raises(InvalidInputError, match="EntityGraphRetriever"):
            self.opened(tmp_path / "graph")

    def test_the_graph_of_a_fused_retriever_is_saved_alone(self, tmp_path: Path) -> None:
        retriever = self.made(self.documents(range(6)))
        retriever.graph.save(tmp_path / "graph")
        again = self.opened_graph(tmp_path / "graph")
        same_graph(again._corpus.index.graph, retriever._corpus.index.graph)

    def test_the_graph_of_a_folder_with_vectors_in_chroma_is_not_changed_alone(self, tmp_path: Path) -> None:
        self.in_chroma(self.documents(range(4)), tmp_path / "corpus")
        graph = self.opened_graph(tmp_path / "corpus")
        with pytest.raises(InvalidInputError, match="stores its vectors in Chroma"):
            graph.delete(["d1"])

    def test_the_graph_of_a_folder_with_flat_vectors_deletes_passages_of_both(self, tmp_path: Path) -> None:
        self.made(self.documents(range(4)), tmp_path / "corpus")
        graph = self.opened_graph(tmp_path / "corpus")
        graph.delete(["d1"])
        with pytest.raises(InvalidInputError, match="load the retriever with its model"):
            self.add(graph, self.documents([5]))
        assert self.opened(tmp_path / "corpus").ids() == ["d0", "d2", "d3"]

    def test_triples_handed_over_survive(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        retriever = self.made(
            self.documents(range(3)), path, triples={"d0": [("Ada Lovelace", "admired", "Mary Somerville")]}
        )
        more = {"d3": [("Mary Somerville", "taught", "Ada Lovelace")]}
        self._add_with(retriever, self.documents([3]), more)
        graph = self.opened(path)._corpus.index.graph
        assert graph.facts[graph.entity_rows["ada lovelace"], graph.entity_rows["mary somerville"]] == 2

    def _add_with(self, retriever: Any, documents: Sequence[Any], triples: Any) -> None:
        add = getattr(retriever, "add_documents", None) or retriever.add_nodes
        add(documents, triples=triples)

    def test_a_pipeline_saved_into_the_folder_is_taken_when_it_is_opened(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        retriever = self.made(self.documents(range(12)), path, k=3)
        retriever.calibrate([f"{one} {number}" for number, one in enumerate(QUESTIONS * 8)], progress=False)
        retriever.save(path)
        assert json.loads((path / "pipeline.json").read_text())
        again = self.opened(path)
        assert again.fitted_pipeline.k == 3
        for question in QUESTIONS:
            both = again.explain(question), retriever.explain(question)
            assert both[0].ids == both[1].ids
            assert both[0].scores.tolist() == both[1].scores.tolist()
            assert {one.calibration for one in both[0].reports} == {one.calibration for one in both[1].reports}

    @pytest.mark.parametrize("first", [None, "first"])
    def test_a_retriever_of_documents_is_saved_whole(self, tmp_path: Path, first: str | None) -> None:
        retriever = self.made(self.documents(range(12)), None if first is None else tmp_path / first, k=3)
        self.add(retriever, self.documents([13]))
        retriever.delete(["d0"])
        retriever.save(tmp_path / "new" / "folder")
        again = self.opened(tmp_path / "new" / "folder")
        assert again.fitted_pipeline.k == 3
        assert again.ids() == retriever.ids()
        same_graph(again._corpus.index.graph, retriever._corpus.index.graph)
        assert self.answers(again) == self.answers(retriever)
        assert self.add(again, self.documents([14])) == ["d14"]
        with pytest.raises(InvalidInputError, match="new or empty folder"):
            retriever.save(tmp_path)

    def test_a_folder_keeps_the_passages_of_its_own_retriever(self, tmp_path: Path) -> None:
        retriever = self.made(self.documents(range(6)), k=3)
        retriever.save(tmp_path / "a")
        self.add(retriever, self.documents([7]))
        folder = re.escape(repr(str(tmp_path / "a")))
        with pytest.raises(InvalidInputError, match=f"^{folder} already contains a saved retriever.*json"):
            retriever.save(tmp_path / "a")  # the folder would lack the added passage
        assert len(self.opened(tmp_path / "a").ids()) == 6

    def test_a_copy_has_the_passages_of_another_process(self, tmp_path: Path) -> None:
        retriever = self.made(self.documents(range(6)), tmp_path / "a")
        self.add(self.opened(tmp_path / "a"), self.documents([7]))
        retriever.save(tmp_path / "copy")
        assert "d7" in self.opened(tmp_path / "copy").ids()

    def test_a_folder_whose_pipeline_cannot_be_written_is_not_left(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        retriever = self.made(self.documents(range(6)), k=3)

        def full(self: object, path: Path) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(type(retriever), "_save_pipeline", full)
            with pytest.raises(StoreError, match="No space left"):
                retriever.save(tmp_path / "a")
        retriever.save(tmp_path / "a")
        assert self.opened(tmp_path / "a").fitted_pipeline.k == 3

    def test_a_file_receives_only_the_pipeline_and_is_not_opened_as_a_folder(self, tmp_path: Path) -> None:
        self.made(self.documents(range(4)), k=3).save(tmp_path / "new" / "fitted.json")
        with pytest.raises(IntegrityError, match=r"fitted\.json' is a file.*pipeline="):
            self.opened(tmp_path / "new" / "fitted.json")
        assert self.made(self.documents(range(4)), pipeline=tmp_path / "new" / "fitted.json").fitted_pipeline.k == 3

    def test_a_retriever_of_other_retrievers_warns_that_a_new_name_is_no_folder(self, tmp_path: Path) -> None:
        graph = self.graph_of(self.documents([1, 2]), self.model())
        retriever = type(self.made(self.documents([1, 2])))(graph=graph)
        with pytest.warns(PhasegraphWarning, match=r"'w' contains only the fitted pipeline; .* stay in your sources"):
            retriever.save(tmp_path / "w")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            retriever.save(tmp_path / "w")
            retriever.save(tmp_path / "new.json")
            retriever.save(tmp_path / "new.pipeline")
            retriever.save(tmp_path)

    def test_async_forms_do_the_same(self, place: Path | None) -> None:
        retriever = self.made(self.documents(range(6)), place)

        async def change() -> None:
            await self.aadd(retriever, self.documents([7, 8]))
            await retriever.adelete(["d0"])

        asyncio.run(change())
        whole = self.made(self.documents([1, 2, 3, 4, 5, 7, 8]))
        same_graph(retriever._corpus.index.graph, whole._corpus.index.graph)

    def test_questions_are_answered_while_documents_come_and_go(self, place: Path | None) -> None:
        retriever = self.made(self.documents(range(12)), place, timeout=60)
        failed: list[BaseException] = []
        done = threading.Event()

        def asking() -> None:
            while not done.is_set():
                try:
                    assert self.ask(retriever, QUESTIONS[0])
                except BaseException as error:  # noqa: BLE001 - reported below
                    failed.append(error)
                    return

        threads = [threading.Thread(target=asking) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(12, 18):
            self.add(retriever, self.documents([number]))
            retriever.delete([f"d{number - 6}"])
        done.set()
        for thread in threads:
            thread.join(30)
        assert not failed, failed

    def test_documents_without_an_id_meet_in_every_source(self, place: Path | None) -> None:
        texts = [story(number)[1] for number in range(6)]
        retriever = self.made([self.document(None, text) for text in texts], place)
        assert len(set(retriever._corpus.index.graph.passages)) == len(set(texts))
        found = retriever.explain(QUESTIONS[0])
        best = found.evidence(found.ids[0])
        assert sum(one.rank is not None for one in best.sources) == 3

    def test_a_retriever_of_other_retrievers_is_not_changed(self) -> None:
        retriever = self.made(self.documents([1, 2]))
        other = type(retriever)(graph=self.graph_of(self.documents([1, 2])))
        with pytest.raises(InvalidInputError, match="wraps your own sources"):
            other.delete(["d1"])

    def test_a_source_that_the_maker_makes_itself_cannot_be_given(self, tmp_path: Path) -> None:
        said = r"itself: leave out {0}=, and add sources with retrievers=\{{'NAME': source\}}"
        for name in ("vector", "graph"):
            with pytest.raises(InvalidInputError, match=said.format(name)):
                self.made([self.document("a", "Ada met Bo.")], **{name: object()})
        assert len(self.made([self.document("a", "Ada met Bo.")], vector=None, graph=None)._corpus) == 1
        with pytest.raises(InvalidInputError, match=r"load makes 'graph' itself: leave out graph=$"):
            self.opened_graph(tmp_path, graph=object())

    def test_a_passage_of_a_title_that_comes_is_read_again(self, place: Path | None) -> None:
        retriever = self.made([self.document("a", "They crossed the Order of the Seine.")], place)
        self.add(retriever, [self.document("b", "A river.", title="Seine")])
        graph = retriever._corpus.index.graph
        assert graph.mentions[0, graph.entity_rows["seine"]] == 1

    def test_a_merged_duplicate_is_said(self, place: Path | None) -> None:
        twice = [self.document(None, "Ada met Bo."), self.document(None, "Ada met Bo."), *self.documents([1])]
        if len({getattr(one, "node_id", None) for one in twice}) > 1:
            pytest.skip("the framework gives every document an id")
        with pytest.warns(PhasegraphWarning, match="only the first copy is kept"):
            assert len(self.made(twice, place)._corpus) == 2

    def test_a_relative_path_holds_when_the_working_directory_changes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / "one")
        one = self.in_chroma(self.documents(range(4)), Path("corpus"))
        monkeypatch.chdir(tmp_path / "other")
        self.made(self.documents([6, 7]), Path("corpus"))
        self.add(one, self.documents([5]))
        again = self.opened(tmp_path / "one" / "corpus")
        assert again._corpus._store.ids() == {"d0", "d1", "d2", "d3", "d5"}
        assert self.opened(Path("corpus"))._corpus._store.ids() == {"d6", "d7"}

    def test_a_folder_that_was_deleted_or_moved_is_made_again_at_its_path(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        self.in_chroma(self.documents(range(4)), path)
        shutil.rmtree(path)
        self.made(self.documents([5, 6]), path)
        path.rename(tmp_path / "moved")
        third = self.made(self.documents([7, 8]), path)
        assert third._corpus._store.ids() == {"d7", "d8"}
        moved = self.opened(tmp_path / "moved")
        self.add(moved, self.documents([9]))
        assert moved._corpus._store.ids() == {"d5", "d6", "d9"}

    def test_a_model_whose_vectors_have_another_length_is_refused_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        framework = str(self.made(self.documents(range(4)), path)._corpus._folder.settings["framework"])
        for vectors in (False, True):
            with pytest.raises(InvalidInputError, match=r"16 numbers.*have 3:"):
                open_folder(path, framework, lambda query: [1.0, 2.0, 3.0], vectors=vectors)

        def silent(query: str) -> Any:
            raise OSError("no route to host")

        with pytest.warns(PhasegraphWarning, match="does not answer.*OSError") as said:
            assert len(open_folder(path, framework, silent, vectors=False)) == 4
        assert "no route to host" in str(cast("Warning", said[0].message).__cause__)

    def test_another_model_of_the_same_length_is_refused_by_name(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        self.made(self.documents(range(6)), path)
        for opened in (self.opened, self.opened_graph):
            with pytest.raises(
                InvalidInputError,
                match=r"^'corpus' was embedded with Hashed plain, but .* is Hashed other.*cosine.*: load.*reembed=True",
            ):
                opened(path, self.model("other"))
        assert len(self.opened_graph(path, self.model())._corpus) == 6

    def test_a_folder_that_does_not_say_its_model_is_checked_all_the_same(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        retriever = self.made(self.documents(range(3)), path)
        settings = dict(retriever._corpus.settings)
        assert settings.pop("model") == {"name": "Hashed plain", "settings": {}, "given": False}
        retriever._corpus._folder.applied()
        retriever._corpus._folder._write_state(0, settings)  # as an older version wrote it
        with pytest.raises(
            InvalidInputError, match=r"embedded with another model, but the given model is Hashed other"
        ):
            self.opened(path, self.model("other"))
        self.add(self.opened(path), self.documents([4]))
        assert self.opened(path)._corpus.settings["model"] == retriever._corpus.made_by.to_json()

    def test_a_model_that_does_not_answer_is_known_by_its_name(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        self.made(self.documents(range(4)), path)
        with pytest.raises(
            InvalidInputError, match=r"embedded with Hashed plain, but the given model is Hashed silent.*not answer"
        ):
            self.opened(path, self.model("silent"))

    def test_the_model_is_checked_at_the_first_change_where_it_was_not_before(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        one = self.made(self.documents(range(4)), path)
        other = self.made(self.documents([1]), None, self.model("other"))._corpus.state.embedder
        one._corpus.state = replace(one._corpus.state, embedder=other)
        one._corpus._checked = False
        with pytest.raises(InvalidInputError, match=r"embedded with Hashed plain, but the given model is Hashed other"):
            self.add(one, self.documents([5]))
        assert len(self.opened(path)._corpus) == 4

    @pytest.mark.parametrize("size", [16, 24])
    def test_reembedding_equals_a_new_build_with_the_other_model(
        self, any_place: Path | None, tmp_path: Path, size: int
    ) -> None:
        model = self.model("other", size)
        retriever = self.made(self.documents(range(10)), any_place)
        retriever.delete(["d3"])
        retriever.reembed(model)
        self.add(retriever, self.documents([11]))
        kept = [number for number in range(12) if number not in (3, 10)]
        whole = self.made(self.documents(kept), None if any_place is None else tmp_path / "whole", model)
        retrievers = [retriever] if any_place is None else [retriever, self.opened(any_place, model)]
        for one in retrievers:
            same_graph(one._corpus.index.graph, whole._corpus.index.graph)
            assert self.answers(one) == self.answers(whole)
            assert {report.status for report in one.explain(QUESTIONS[0]).reports} == {"ok"}
        if any_place is not None:
            with pytest.raises(InvalidInputError, match=r"Hashed other"):
                self.opened(any_place)
            assert self.opened(any_place, reembed=True)._corpus.made_by.name == "Hashed plain"
            assert len(self.opened(any_place)._corpus) == 10

    def test_vectors_that_are_refused_leave_the_old_model(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "corpus"
        retriever = self.in_chroma(self.documents(range(6)), path)
        before = self.answers(retriever)

        def full(*arguments: Any) -> None:
            raise OSError("no space left")

        for place in (
            "phasegraph.graph.corpus.chroma.ChromaVectors.write",
            "phasegraph._support.serialization.write_document",
        ):
            monkeypatch.setattr(place, full)
            with pytest.raises(StoreError, match=r"nothing was changed.*no space left"):
                retriever.reembed(self.model("other", 24))
            monkeypatch.undo()
            for one in (retriever, self.opened(path)):
                assert self.answers(one) == before
        retriever = self.opened(path)
        retriever.reembed(self.model("other", 24))
        assert len(self.opened(path, self.model("other", 24))._corpus) == 6

    @pytest.mark.parametrize("method", ["write", "drop_others"])
    def test_a_process_killed_within_reembedding_leaves_one_model(
        self, tmp_path: Path, method: str, other_process: Callable[..., int]
    ) -> None:
        path = tmp_path / "corpus"
        self.in_chroma(self.documents(range(6)), path)
        assert other_process("reembed_and_die", path, method) == 9
        model = self.model() if method == "write" else self.model("other", 24)
        again = self.opened(path, model)
        same_graph(again._corpus.index.graph, self.made(self.documents(range(6)), None, model)._corpus.index.graph)
        assert again._corpus._store.ids() == {f"d{number}" for number in range(6)}
        assert [one.name for one in again._corpus._store.client.list_collections()] == [again._corpus._store.name]

    def reembed_and_die(self, path: Path, method: str) -> None:
        """Embed a folder again, and kill the process while the new vectors are written, or right after."""
        retriever = self.opened(path)
        if method == "write":
            setattr(ChromaVectors, method, dying)
        else:
            Folder.applied = dying  # type: ignore[method-assign]
        retriever.reembed(self.model("other", 24))

    def test_vectors_of_a_retriever_without_any_are_not_made_anew(self) -> None:
        with pytest.raises(InvalidInputError, match="no vectors"):
            self.graph_of(self.documents([1])).reembed(self.model())

    def pages(self, **texts: Sequence[str]) -> list[Any]:
        """Create passages without ids; `texts` maps names of documents to the texts of their passages."""
        return [self.piece(f"{name}.md", text) for name, each in texts.items() for text in each]

    def piece(self, source: str, text: str, **metadata: Any) -> Any:
        """Create a passage without an id, which belongs to the document `source`."""
        return self.document(None, text, source=source, **metadata)

    def test_documents_are_counted_listed_and_deleted_as_a_whole(self, place: Path | None) -> None:
        retriever = self.made(self.pages(a=["Ada met Bo.", "Bo sang."], b=["Cy danced."], c=["Dee slept."]), place)
        assert retriever.documents() == {"a.md": 2, "b.md": 1, "c.md": 1}
        assert len(retriever.ids()) == 4
        assert retriever.ids(where={"source": "a.md"}) == retriever.ids()[:2]
        assert retriever.delete(where={"source": "a.md"}) == 2
        assert asyncio.run(retriever.adelete(where={"source": "c.md"})) == 1
        for again in [retriever] if place is None else [retriever, self.opened(place)]:
            assert again.documents() == {"b.md": 1}
            assert [text for _, text, _ in self.ask(again, "Who danced?")] == ["Cy danced."]

    def test_a_where_that_lets_nothing_through_is_said_and_a_key_once(self) -> None:
        retriever = self.made(self.pages(a=["Ada met Bo."], b=["Cy danced."]))
        with pytest.warns(PhasegraphWarning, match="0 deleted"):
            assert retriever.delete(where={"source": "z.md"}) == 0
        with pytest.warns(PhasegraphWarning) as said:
            assert retriever.delete(where={"sorce": "a.md"}) == 0  # codespell:ignore sorce
        assert "filter key 'sorce' is in no passage; did you mean 'source'?" in str(said[0].message)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert retriever.ids(where={"sorce": "a.md"}) == []  # codespell:ignore sorce
        with pytest.warns(PhasegraphWarning, match="filter key 'sectoin' is in no passage"):
            assert self.ask(retriever, "Ada", sectoin="x") == []
        for wrong in ({}, {"ids": ["x"], "where": {"source": "a.md"}}):
            with pytest.raises(InvalidInputError, match="either ids or where"):
                retriever.delete(**wrong)
        assert len(retriever.ids()) == 2

    def test_an_id_that_moved_to_another_document_names_the_old_document_and_the_advice_helps(self) -> None:
        retriever = self.made(
            [self.document("1", "Ada met Bo.", source="old.md"), self.document("2", "Cy.", source="b")]
        )
        moved = [self.document("1", "Ada met Bo.", source="new.md"), self.document("2", "Cy.", source="b")]
        with pytest.raises(
            InvalidInputError, match=r"another passage, of document 'old.md'. If .* full=True, or delete"
        ):
            retriever.sync(moved)
        retriever.sync(moved, full=True)
        assert retriever.documents() == {"new.md": 1, "b": 1}

    def test_too_few_documents_for_k_are_warned_of_once_if_the_sources_have_more_hits(self) -> None:
        small = {f"s{row}": [f"Ada saw Cy {row}."] for row in range(4)}
        pages = self.pages(big=[f"Ada met Bo {row}." for row in range(60)], **small)
        retriever = self.made(pages, group_by="source", k=5)
        with pytest.warns(PhasegraphWarning, match=r"document.*, but k=5\. 'bm25'.*best 50 hits: .*raise fetch_k"):
            assert len(self.ask(retriever, "Who met Bo?")) < 5
        assert "raise fetch_k" in retriever.explain("Who met Bo?").warnings[-1]
        assert len(self.ask(self.made(pages, group_by="source", k=5, fetch_k=100), "Who met Bo?")) == 5
        assert len(self.ask(self.made(self.pages(**small), group_by="source", k=9), "Who saw Cy?")) == 4

    def test_the_passages_of_a_document_count_once(self, place: Path | None) -> None:
        pages = self.pages(a=["Ada met Bo.", "Ada met Bo in Oslo."], b=["Bo met Ada."], c=["Dee slept."])
        retriever = self.made(pages, place, group_by="source")
        for one in [retriever] if place is None else [retriever, self.opened(place, group_by="source")]:
            found = [metadata["source"] for _, _, metadata in self.ask(one, "Who met Bo?")]
            assert sorted(found) == ["a.md", "b.md", "c.md"]
            groups = one.explain("Who met Bo?").extras["groups"]
            assert sorted(map(len, groups.values())) == [1, 1, 2]
        with pytest.raises(InvalidTypeError, match="group_by"):
            self.made(pages, group_by=3)
        wrong = self.made(pages, group_by="sorce")  # codespell:ignore sorce
        with pytest.warns(PhasegraphWarning, match="'sorce'.*; did you mean 'source'?"):  # codespell:ignore sorce
            assert len(self.ask(wrong, "Who met Bo?")) == 4
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(self.ask(wrong, "Who met Ada?")) == 4
        with pytest.raises(InvalidInputError, match=r"parents= needs group_by="):
            self.made(pages, parents=True)

    def test_the_whole_document_stands_in_place_of_its_best_passage(self, place: Path | None) -> None:
        pages = self.pages(a=["Ada met Bo in Oslo.", "Bo in Oslo. Bo sang."], b=["Cy danced."])
        retriever = self.made(pages, place, group_by="source", parents=True)
        texts = {metadata["source"]: text for _, text, metadata in self.ask(retriever, "Who sang in Oslo?")}
        assert texts == {"a.md": "Ada met Bo in Oslo. Bo sang.", "b.md": "Cy danced."}
        retriever.sync(self.pages(a=["Ada met Cy."]))
        texts = {metadata["source"]: text for _, text, metadata in self.ask(retriever, "Who sang in Oslo?")}
        assert texts == {"a.md": "Ada met Cy.", "b.md": "Cy danced."}
        given = {"a.md": self.document("a.md", "All of a.", source="a.md")}
        one = self.made(self.pages(a=["Ada met Bo."], b=["Cy danced."]), group_by="source", parents=given)
        with pytest.warns(PhasegraphWarning, match="1 documents have no text, .*: 'b.md'"):
            texts = {metadata["source"]: text for _, text, metadata in self.ask(one, "Who danced?")}
        assert texts == {"a.md": "All of a.", "b.md": "Cy danced."}

    def test_a_filter_holds_for_the_whole_document(self) -> None:
        pages = [
            self.document("p", "Ada met Bo.", source="a.md", team="red"),
            self.document("q", "The secret of the blue team.", source="a.md", team="blue"),
        ]
        retriever = self.made(pages, group_by="source", parents=True)
        ((_, text, _),) = self.ask(retriever, "Who met Bo?", team="red")
        assert text == "Ada met Bo."
        ((_, text, _),) = self.ask(retriever, "Who met Bo?")
        assert "secret" in text
        given = {"a.md": self.document("a.md", "The secret, too.", source="a.md", team="blue")}
        retriever = self.made(pages, group_by="source", parents=given)
        with pytest.warns(PhasegraphWarning, match="1 documents have no text"):
            ((_, text, _),) = self.ask(retriever, "Who met Bo?", team="red")
        assert text == "Ada met Bo."

    def test_documents_that_say_nearly_the_same_are_reported(self, place: Path | None) -> None:
        text = "Ada met Bo in Oslo in the year in which the engine was made, and Cy sang of it for days."
        pages = self.pages(a=[text], b=[f"{text} Dee slept."], c=["Dee slept in Turin."])
        retriever = self.made(pages, place)
        (pair,) = retriever.near_duplicates()
        assert ({pair.first, pair.second}, pair.similarity > 0.8) == ({"a.md", "b.md"}, True)
        assert not retriever.near_duplicates(1.0)
        with pytest.raises(InvalidInputError, match="least"):
            retriever.near_duplicates(0.0)

    def test_an_index_that_memory_cannot_hold_is_built_in_memory_only_without_a_folder_and_a_warning_says_so(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("phasegraph._support.memory.free_memory", lambda: 1000)
        pages = self.pages(a=["Ada met Bo in Oslo. " * 20])
        with pytest.warns(PhasegraphWarning, match=r"GB are free: .* With path=FOLDER, the index is built in shards"):
            self.made(pages)
        with pytest.warns(PhasegraphWarning, match=r"GB are free: .* phasegraph index PASSAGES\.jsonl"):
            self.graph_of(pages)

    def in_shards(self, monkeypatch: pytest.MonkeyPatch, documents: Sequence[Any], path: Path, **fields: Any) -> Any:
        """Create a retriever in a folder while the free memory is too small for its index; fail if a build warns."""
        pytest.importorskip("pyarrow")
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("error", PhasegraphWarning)
            patch.setattr("phasegraph._support.memory.free_memory", lambda: 1000)
            patch.setattr("phasegraph.retrieval.new_folder.EMBEDDED", 5)
            return self.made(documents, path, **fields)

    @pytest.mark.parametrize("store", ["flat", "chroma"])
    def test_a_folder_that_memory_cannot_hold_is_built_in_shards_to_the_bit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
    ) -> None:
        self.vector_store = store
        triples = [
            Extraction("d1", ["Zed"], [("Ada", "met", "Bo")], ["The Title"], "Lead"), Extraction("d1", ["Eve"]),
            Extraction("d3", (), [("Eve", "met", "Zed")]),
        ]  # fmt: skip
        options = {"triples": triples, "known_names": ["Eve Online"], "tokenizer": "plain", "source_key": "team"}
        whole = self.made(self.documents(range(12)), tmp_path / "whole", **options)
        shards = self.in_shards(monkeypatch, self.documents(range(12)), tmp_path / "shards", **options)
        assert {one.name for one in tmp_path.iterdir()} == {"whole", "shards"}
        folders = [sorted(one.name for one in (tmp_path / name).iterdir()) for name in ("whole", "shards")]
        assert folders[0] == folders[1]
        bodies = [json.loads((tmp_path / name / "graph/manifest.json").read_text()) for name in ("whole", "shards")]
        assert bodies[0] == bodies[1]
        settings = [dict(one._corpus.settings) for one in (whole, shards)]
        assert all(one.pop("folder_id") for one in settings)
        assert settings[0] == settings[1]
        assert self.ask(whole, QUESTIONS[0]) == self.ask(shards, QUESTIONS[0])
        for one in (whole, shards):
            one.delete(["d1"])
            self.add(one, self.documents([13]))
        fresh = [self.document("new", "Eve sang.", team="green")]
        assert [str(one.sync(fresh, progress=False)) for one in (whole, shards)] == [
            "1 document added, 0 changed, 0 deleted, 0 as they were; 1 passage embedded"
        ] * 2
        same_graph(whole._corpus.index.graph, shards._corpus.index.graph)
        assert self.ask(whole, QUESTIONS[0]) == self.ask(self.opened(tmp_path / "shards"), QUESTIONS[0])

    def test_a_build_in_shards_that_is_interrupted_leaves_no_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pytest.importorskip("pyarrow")

        def interrupted(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        def full(*_: Any, **__: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        for raises, error in ((interrupted, KeyboardInterrupt), (full, StoreError)):
            for step in ("building.merge", "shards.write_bundle", "local.write_passages"):
                with monkeypatch.context() as patch:
                    patch.setattr(f"phasegraph.distributed.{step}", raises)
                    with pytest.raises(error):
                        self.in_shards(monkeypatch, self.documents(range(6)), tmp_path / "new" / "corpus")
                assert not list(tmp_path.iterdir()), step
        (tmp_path / "corpus").mkdir()
        with monkeypatch.context() as patch:
            patch.setattr("phasegraph.distributed.building.merge", interrupted)
            with pytest.raises(KeyboardInterrupt):
                self.in_shards(monkeypatch, self.documents(range(6)), tmp_path / "corpus")
        self.in_shards(monkeypatch, self.documents(range(6)), tmp_path / "corpus")
        assert self.opened(tmp_path / "corpus").ids() == [f"d{number}" for number in range(6)]

    def test_without_pyarrow_a_warning_names_the_memory_and_the_package(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("phasegraph.retrieval.indexing.find_spec", lambda name: None)
        monkeypatch.setattr("phasegraph._support.memory.free_memory", lambda: 1000)
        words = r"takes about .* GB of memory, and .* GB are free: .* pip install 'phasegraph\[distributed\]'"
        with pytest.warns(PhasegraphWarning, match=words):
            self.made(self.documents(range(6)), tmp_path / "corpus")
        assert self.opened(tmp_path / "corpus").ids() == [f"d{number}" for number in range(6)]

    def test_a_source_key_of_ones_own_names_documents_and_is_kept(self, tmp_path: Path) -> None:
        pages = [self.document(None, f"Ada met Bo {n}.", book=f"b{n % 2}", source="x") for n in range(4)]
        retriever = self.made(pages, tmp_path / "corpus", source_key="book")
        for one in (retriever, self.opened(tmp_path / "corpus")):
            assert one.documents() == {"b0": 2, "b1": 2}
        with pytest.warns(PhasegraphWarning, match="source_key 'boook' is in no passage.*did you mean 'book'"):
            self.made(pages, source_key="boook")  # codespell:ignore boook
        with pytest.raises(InvalidTypeError, match="source_key"):
            self.made(pages, source_key=3)

    def test_a_sync_adds_replaces_and_deletes_and_embeds_only_what_changed(self, any_place: Path | None) -> None:
        model = self.counting()
        retriever = self.made(self.pages(a=["Ada met Bo.", "Bo sang."], b=["Cy danced."], c=["Dee."]), any_place, model)
        before, model.texts[:] = retriever.ids(), []
        same = retriever.sync(self.pages(a=["Ada met Bo.", "Bo sang."], b=["Cy danced."], c=["Dee."]), full=True)
        assert (same.added, same.changed, same.deleted, same.unchanged, same.embedded) == (0, 0, 0, 3, 0)
        assert (retriever.ids(), model.texts) == (before, [])
        now = self.pages(a=["Ada met Bo.", "Eve wept.", "Bo sang twice."], d=["New words."])
        counts = retriever.sync(now)
        assert (counts.added, counts.changed, counts.deleted, counts.unchanged, counts.embedded) == (1, 1, 0, 0, 3)
        assert sorted(model.texts) == ["Bo sang twice.", "Eve wept.", "New words."]
        assert retriever.documents() == {"b.md": 1, "c.md": 1, "a.md": 3, "d.md": 1}
        counts = retriever.sync(iter(now), full=True)
        assert (counts.deleted, counts.unchanged, counts.embedded) == (2, 2, 0)
        for again in [retriever] if any_place is None else [retriever, self.opened(any_place)]:
            assert again.documents() == {"a.md": 3, "d.md": 1}
            assert again.ids()[0] == before[0]
            assert retriever.sync(now, full=True).unchanged == 2
        texts = {text for _, text, _ in self.ask(retriever, "Who sang?")}
        assert "Bo sang." not in texts
        assert "Bo sang twice." in texts

    def dated(self, text: str, day: int) -> Any:
        """Create a passage of the document ``a.md`` with the metadata ``day``, which the model does not embed."""
        return self.piece("a.md", text, day=day)

    def test_changed_metadata_that_are_not_embedded_keep_the_vectors(self, any_place: Path | None) -> None:
        model = self.counting()
        retriever = self.made([self.dated(text, 1) for text in ("Ada met Bo.", "Cy danced.")], any_place, model)
        before = {one[1]: one[0] for one in self.ask(retriever, "Ada met Bo.")}
        model.texts[:] = []
        counts = retriever.sync([self.dated(text, 2) for text in ("Cy danced.", "Ada met Bo.")])
        assert (counts.changed, counts.embedded, model.texts) == (1, 0, [])
        for again in [retriever] if any_place is None else [retriever, self.opened(any_place)]:
            found = self.ask(again, "Ada met Bo.")
            assert [text for _, text, _ in found] == list(before)
            assert {one["day"] for _, _, one in found} == {2}

    def test_changed_metadata_come_and_the_same_text_stands_in_several_documents(self, place: Path | None) -> None:
        retriever = self.made(self.pages(a=["All rights reserved."], b=["Cy danced."]), place)
        retriever.sync([*self.pages(b=["All rights reserved."]), self.piece("a.md", "All rights reserved.", page=2)])
        assert retriever.documents() == {"a.md": 1, "b.md": 1}
        for source, page in (("a.md", 2), ("b.md", None)):
            assert [one.get("page") for _, _, one in self.ask(retriever, "rights", source=source)] == [page]
        retriever.sync(self.pages(b=["All rights reserved."]), full=True)
        assert retriever.documents() == {"b.md": 1}

    def test_a_sync_of_nothing_is_refused_and_a_passage_without_a_document_is_named(self) -> None:
        retriever = self.made(self.pages(a=["Ada met Bo."]))
        with pytest.raises(InvalidInputError, match=r"would delete all documents: give allow_empty=True"):
            retriever.sync(iter(()), full=True)
        assert str(retriever.sync([])) == (
            "0 documents added, 0 changed, 0 deleted, 0 as they were; 0 passages embedded"
        )
        assert retriever.documents() == {"a.md": 1}
        with pytest.raises(InvalidInputError, match=r"under 'source', 'doc_id'.*'w'.*give key="):
            retriever.sync([self.document("w", "Cy danced.", team="red")])
        with pytest.raises(InvalidInputError, match=r"under 'book'.*give key="):
            retriever.sync(self.pages(a=["Cy danced."]), "book")
        other = self.made([self.document("own", "Dee slept."), *self.pages(a=["Ada met Bo."])])
        with pytest.raises(InvalidInputError, match=r"the id 'own' of a passage of document 'b.md'"):
            other.sync([self.document("own", "Other words.", source="b.md")])
        assert other.sync([self.piece("b.md", "Cy.")], full=True).deleted == 1
        assert other.documents() == {"": 1, "b.md": 1}

    def test_a_corpus_that_is_emptied_finds_nothing_and_can_be_filled_again(
        self, any_place: Path | None, tmp_path: Path
    ) -> None:
        retriever = self.made(self.pages(a=["Ada met Bo.", "Bo sang."], b=["Cy danced."]), any_place)
        follower = None if any_place is None else self.opened(any_place)
        assert retriever.sync(iter(()), full=True, allow_empty=True).deleted == 2
        for one in [retriever, *([] if follower is None else [follower, self.opened(any_place)])]:  # type: ignore[arg-type]
            assert (one.ids(), one.documents(), one.near_duplicates()) == ([], {}, [])
            assert self.answers(one) == [[] for _ in QUESTIONS]
            assert self.ask(one, "Who sang?", source="a.md") == []
        assert retriever.sync([], full=True, allow_empty=True).deleted == 0
        retriever.reembed(self.model("other", 8), progress=False)
        assert self.answers(retriever) == [[] for _ in QUESTIONS]
        retriever.reembed(self.model(), progress=False)
        now = self.pages(c=["Ada saw Eve.", "Eve wept in Turin."])
        assert retriever.sync(now, full=True).added == 1
        whole = self.made(now, None if any_place is None else tmp_path / "whole")
        again = [retriever] if any_place is None else [retriever, self.opened(any_place)]
        for one in again:
            same_graph(one._corpus.index.graph, replace(whole._corpus.index.graph, passages=tuple(one.ids())))
            assert self.ask(one, "Who wept?") == self.ask(retriever, "Who wept?") != []
        retriever.delete(retriever.ids())
        assert (retriever.ids(), self.answers(retriever)) == ([], [[] for _ in QUESTIONS])
        assert len(self.add(retriever, self.documents([1]))) == 1
        assert self.ask(retriever, QUESTIONS[0]) != []

    def test_an_empty_folder_refuses_a_model_of_another_name(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        self.made(self.pages(a=["Ada met Bo."]), path).sync([], full=True, allow_empty=True)
        with pytest.raises(
            InvalidInputError, match=r"was embedded with .* but the given model is .*no passage is left"
        ):
            self.opened(path, self.model("other"))
        assert self.opened(path, self.model("other"), reembed=True).ids() == []
        with pytest.raises(InvalidInputError, match=r"no passage is left"):
            self.opened(path)

    def test_an_emptied_corpus_is_merged_and_written_to_another_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not EXHAUSTIVE:
            monkeypatch.setattr("phasegraph.graph.corpus.merging.run_apart", run_here)
        monkeypatch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 1)
        path = tmp_path / "corpus"
        retriever = self.made(self.documents(range(4)), path)
        retriever.delete(retriever.ids())
        retriever._corpus.settle()
        assert not list((path / "changes").glob("[0-9]*"))
        other = retriever._corpus.save(tmp_path / "other", {})
        assert not len(other.load()[0].records)
        assert (self.opened(path).ids(), self.answers(self.opened(path))) == ([], [[] for _ in QUESTIONS])
        self.add(retriever, self.documents(range(3, 6)))
        retriever._corpus.settle()
        assert not list((path / "changes").glob("[0-9]*"))
        whole = self.made(self.documents(range(3, 6)))
        same_graph(self.opened(path)._corpus.index.graph, whole._corpus.index.graph)

    def test_a_sync_that_is_refused_changes_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "corpus"
        retriever = self.made(self.pages(a=["Ada met Bo."], b=["Cy danced."]), path)
        before = retriever.ids()

        def full(*arguments: Any) -> None:
            raise OSError("no space left")

        monkeypatch.setattr("phasegraph._support.serialization.write_document", full)
        with pytest.raises(StoreError, match=r"nothing was changed.*no space left"):
            retriever.sync(self.pages(a=["New words."]), full=True)
        monkeypatch.undo()
        for one in (retriever, self.opened(path)):
            assert (one.ids(), one.documents()) == (before, {"a.md": 1, "b.md": 1})

    def test_a_sync_killed_at_any_moment_leaves_the_old_or_the_new(
        self, tmp_path: Path, other_process: Callable[..., int]
    ) -> None:
        path, outcomes = tmp_path / "corpus", set()
        first = self.pages(**{f"p{n}": [f"Ada met Bo in {n}."] for n in range(6)})
        self.made(first, path)
        old = self.opened(path).documents()
        assert other_process("sync_and_die", path) == 0
        copies = sorted(tmp_path.glob("copy-*"))
        assert len(copies) == len(STEPS)
        for row, copied in enumerate(copies):
            again = self.opened(copied)
            found = again.documents()
            assert found in (old, {"p1.md": 2, "new.md": 1}), copied.name
            outcomes.add(len(found))
            if row % 7 == 0:
                again.sync(first, full=True)
                assert again.documents() == old
        assert outcomes == {2, 6}

    def sync_and_die(self, path: Path) -> None:
        """Sync copies of a folder in child processes; each child is killed before a different write to disk."""
        for step in STEPS:
            copied = path.with_name(f"copy-{step:02d}")
            shutil.copytree(path, copied)
            if child := os.fork():
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) in (0, 9), step
                continue
            self._dying_at(step, lambda: self._sync(copied))  # noqa: B023 - the function is called immediately
            os._exit(0)

    def _sync(self, path: Path) -> None:
        self.opened(path).sync(self.pages(p1=["Ada met Bo in 1.", "Cy sang."], new=["New words."]), full=True)

    @staticmethod
    def _dying_at(step: int, change: Callable[[], None]) -> None:
        """Make a change, and kill the process before the operation number `step` that replaces, removes or syncs."""
        left = iter(range(step))

        def dies(call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*given: Any, **more: Any) -> Any:
                if next(left, None) is None:
                    os._exit(9)
                return call(*given, **more)

            return called

        for name in ("replace", "unlink", "rmdir", "fsync"):
            setattr(os, name, dies(getattr(os, name)))
        change()

    def test_an_id_in_place_of_a_list_of_ids_is_refused(self, place: Path | None) -> None:
        retriever = self.made([self.document(name, f"Ada met {name}.") for name in ("a", "b", "c")], place)
        with pytest.raises(InvalidTypeError, match="ids must be a list"):
            retriever.delete("ab")
        assert len(retriever._corpus) == 3

    def test_what_cannot_be_kept_leaves_no_folder(self, tmp_path: Path) -> None:
        path = tmp_path / "corpus"
        wrong: list[tuple[Any, dict[str, Any], str]] = [
            (self.document("w", " "), {}, "'w' must have text"),
            (self.document("w", "Ada met Bo."), {"tokenizer": str.split}, "needs the name of a tokenizer"),
            (self.document("w", "Ada met Bo."), {"kk": 3}, "kk"),
            (self.document("\ud800", "Ada met Bo."), {}, "lone surrogates"),
        ]
        for document, fields, message in wrong:
            with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
                self.made([document], path, **fields)
            assert not path.exists()

    def test_passages_without_text_are_left_out_with_one_warning(self, any_place: Path | None) -> None:
        pages = [self.document(f"d{row}", "Ada met Bo." if row % 2 else " \n", page=row) for row in range(6)]
        said = r"^3 \w+s without text are left out, for example 'd0' \(metadata: \{'page': 0\}\)$"
        with pytest.warns(PhasegraphWarning, match=said) as warned:
            retriever = self.made([*pages, self.document("t", "", title="A Title")], any_place)
        assert len(warned) == 1
        for again in [retriever] if any_place is None else [retriever, self.opened(any_place)]:
            assert again.ids() == ["d1", "d3", "d5", "t"]
        with pytest.warns(PhasegraphWarning, match=said) as warned:
            graph = self.graph_of(pages, self.model())
        assert len(warned) == 1
        assert graph.ids() == ["d1", "d3", "d5"]
        with pytest.warns(PhasegraphWarning, match=said):
            graph = type(graph)._of_passages(pages, None, Indexing(), [[row, 1] for row in range(6)], None, {})
        vectors = graph._corpus.index.graph.embeddings
        assert (vectors[:, 0] / vectors[:, 1]).round(3).tolist() == [1, 3, 5]
        with pytest.warns(PhasegraphWarning, match=said):
            type(graph)._of_passages(pages, None, Indexing(), None, RuleExtractor(), {})

    def test_the_triples_of_passages_without_text_are_left_out_too(self, any_place: Path | None) -> None:
        pages = [self.document("a", "Ada met Bo."), self.document("b", " ")]
        for triples in (
            {"a": [("Ada", "met", "Bo")], "b": [("Bo", "met", "Cy")]},
            [Extraction("a", triples=[("Ada", "met", "Bo")]), Extraction("b", triples=[("Bo", "met", "Cy")])],
        ):
            with pytest.warns(PhasegraphWarning, match=r"^1 \w+ without text is left out"):
                retriever = self.made(pages, any_place and any_place / type(triples).__name__, triples=triples)
            assert retriever.ids() == ["a"]
            assert "bo" in retriever._corpus.index.graph.entities
            assert "cy" not in retriever._corpus.index.graph.entities

    def test_a_sync_of_an_emptied_document_alone_deletes_its_passages(self) -> None:
        retriever = self.made(self.pages(a=["Ada met Bo.", "Cy sang."], b=["Cy danced."]))
        with pytest.warns(PhasegraphWarning, match=r"^1 \w+ without text is left out"):
            assert str(retriever.sync(self.pages(b=[" "]))).startswith("0 documents added, 1 changed, 0 deleted")
        assert retriever.documents() == {"a.md": 2}
        for blank in ({"b": [" "]}, {"d": [" "]}):
            with pytest.warns(PhasegraphWarning, match=r"^1 \w+ without text is left out"):
                assert str(retriever.sync(self.pages(**blank))).startswith("0 documents added, 0 changed, 0 deleted")
        for full in (True, False):
            with (
                pytest.warns(PhasegraphWarning, match=r"^1 \w+ without text is left out"),
                pytest.raises(InvalidInputError, match="no text, and the sync would delete all documents"),
            ):
                retriever.sync(self.pages(a=[" "]), full=full)
        assert retriever.documents() == {"a.md": 2}

    def test_a_sync_leaves_out_passages_without_text_and_deletes_emptied_documents(self) -> None:
        retriever = self.made(self.pages(a=["Ada met Bo.", "Cy sang."], b=["Cy danced."], c=["Dee slept."]))
        now = self.pages(a=["Ada met Bo.", " "], b=[""], d=["\n"])
        with pytest.warns(PhasegraphWarning, match=r"^3 \w+s without text are left out, for example") as warned:
            counts = retriever.sync(now)
        assert len(warned) == 1
        assert (counts.added, counts.changed, counts.deleted, counts.unchanged) == (0, 2, 0, 0)
        assert retriever.documents() == {"a.md": 1, "c.md": 1}
        with pytest.warns(PhasegraphWarning, match="without text"):
            counts = retriever.sync(now, full=True)
        assert (counts.added, counts.changed, counts.deleted, counts.unchanged) == (0, 0, 1, 1)
        assert retriever.documents() == {"a.md": 1}

    def test_halves_of_characters_and_keys_of_the_stores_own_come_back_whole(self, tmp_path: Path) -> None:
        text, path = "Ada met Bo \ud83d in Turin.", tmp_path / "corpus"
        retriever = self.made([self.document("w", text, **{"$key": 1, "#": "x", "half": "\ud83d"})], path)
        for again in (retriever, self.opened(path)):
            ((_, found, metadata),) = self.ask(again, "Turin")
            assert found == text
            assert (metadata["$key"], metadata["#"], metadata["half"]) == (1, "x", "\ud83d")

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("no space left")])
    def test_an_interrupted_change_of_the_vectors_is_taken_back(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
    ) -> None:
        path = tmp_path / "corpus"
        retriever = self.in_chroma(self.documents(range(6)), path)
        before, write = self._vectors_of(retriever), ChromaVectors.write
        times = iter([True, False])

        def once(store: ChromaVectors, records: Any, vectors: Any) -> None:
            write(store, records, vectors)
            if next(times):
                raise error

        monkeypatch.setattr(ChromaVectors, "write", once)
        with pytest.raises((KeyboardInterrupt, StoreError)):
            self.add(retriever, [self.document("d2", "Other words."), *self.documents([9])])
        monkeypatch.undo()
        for again in (retriever, self.opened(path)):
            assert again._corpus.index.graph.passages == tuple(f"d{number}" for number in range(6))
            assert self._vectors_of(again) == before
        self.add(retriever, self.documents([9]))
        assert "d9" in self._vectors_of(self.opened(path))

    def test_vectors_that_could_not_be_taken_back_are_when_the_folder_is_loaded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "corpus"
        retriever = self.in_chroma(self.documents(range(6)), path)
        before, write = self._vectors_of(retriever), ChromaVectors.write

        def refusing(store: ChromaVectors, records: Any, vectors: Any) -> None:
            if len(records) > 1:
                write(store, records, vectors)
            raise OSError("no space left")

        monkeypatch.setattr(ChromaVectors, "write", refusing)
        with pytest.raises(StoreError, match="load the folder again") as raised:
            self.add(retriever, [self.document("d2", "Other words."), *self.documents([9])])
        assert not raised.type.__name__.startswith("_")  # a traceback shows the name
        monkeypatch.undo()
        assert self._vectors_of(retriever) != before
        assert self._vectors_of(self.opened(path)) == before
        assert not list((path / "changes").iterdir())

    def _vectors_of(self, retriever: Any) -> dict[str, list[float]]:
        found = retriever._corpus._store.collection.get(include=["embeddings"])
        return dict(zip(found["ids"], found["embeddings"].tolist(), strict=True))

    def test_a_full_disk_leaves_everything_as_it_was(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "corpus"
        retriever = self.made(self.documents(range(4)), path)
        before = self.answers(retriever)

        def full(*arguments: Any) -> None:
            raise OSError("no space left")

        monkeypatch.setattr("phasegraph._support.serialization.write_document", full)
        with pytest.raises(StoreError, match=r"nothing was changed.*no space left"):
            self.add(retriever, self.documents([9]))
        with pytest.raises(StoreError, match="no space left"):
            self.made(self.documents([1]), tmp_path / "other")
        monkeypatch.undo()
        assert not list((path / "changes").iterdir())
        for again in (retriever, self.opened(path)):
            assert self.answers(again) == before
        self.made(self.documents([1]), tmp_path / "other")

    def test_a_change_that_is_kept_but_not_taken_into_the_index_is_said_to_be_made(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "corpus"
        retriever = self.in_chroma(self.documents(range(4)), path)

        def full(*arguments: Any) -> None:
            raise OSError("no space left")

        monkeypatch.setattr("phasegraph.graph.corpus.folder.write_document", full)
        with pytest.warns(PhasegraphWarning, match=r"is complete and stored.*no space left"):
            self.add(retriever, self.documents([9]))
        monkeypatch.undo()
        for again in (retriever, self.opened(path)):
            assert "d9" in again._corpus._store.ids()
            assert "d9" in again._corpus

    def test_a_folder_is_not_loaded_in_the_midst_of_a_change(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "corpus"
        retriever = self.in_chroma(self.documents(range(4)), path)
        write, lock = ChromaVectors.write, files._lock
        opened, refused = list[Any](), list[Any]()
        other = threading.Thread(target=lambda: opened.append(self.opened(path)))

        def watched(descriptor: int) -> bool | None:
            got = lock(descriptor)
            if got is False:
                refused.append(threading.current_thread())
            return got

        def slowly(store: ChromaVectors, records: Any, vectors: Any) -> None:
            monkeypatch.undo()
            monkeypatch.setattr(files, "_lock", watched)
            other.start()
            until(lambda: refused.count(other) > 2)
            assert not opened
            write(store, records, vectors)

        monkeypatch.setattr(ChromaVectors, "write", slowly)
        self.add(retriever, self.documents([9]))
        other.join(30)
        assert opened[0]._corpus._store.ids() == {"d0", "d1", "d2", "d3", "d9"}

    def test_a_folder_is_loaded_while_its_changes_are_taken_into_the_index(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "graph"
        self.graph_of(self.documents(range(6))).save(path)
        first, read = self.opened_graph(path), Change.read
        self.add(first, self.documents([7]))

        def meanwhile(directory: Path) -> Change:
            monkeypatch.undo()
            monkeypatch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 0)
            monkeypatch.setattr("phasegraph.graph.corpus.merging.run_apart", run_here)
            self.add(first, self.documents([8]))
            first._corpus.settle()
            return read(directory)

        monkeypatch.setattr(Change, "read", meanwhile)
        assert self.opened_graph(path)._corpus.index.graph.passages[-2:] == ("d7", "d8")

    @pytest.mark.parametrize("number", range(2))
    def test_a_copy_is_kept_in_the_same_folder(self, tmp_path: Path, number: int) -> None:
        copied = self.copiers[number % len(self.copiers)]
        self.graph_of(self.documents(range(4))).save(tmp_path / "graph")
        for one, opened in [
            (self.made(self.documents(range(4)), tmp_path / "corpus"), self.opened),
            (self.opened_graph(tmp_path / "graph"), self.opened_graph),
        ]:
            other = copied(one)
            assert self.answers(other) == self.answers(one)
            self.add(other, self.documents([9]))
            assert "d9" not in one._corpus
            assert "d9" in opened(one._corpus._folder.path)._corpus
            one.delete(["d1"])
            assert one.ids() == other.ids() == ["d0", "d2", "d3", "d9"]

    def test_a_folder_that_another_process_changed_is_loaded_as_it_is_now(
        self, tmp_path: Path, other_process: Callable[..., int]
    ) -> None:
        path = tmp_path / "corpus"
        first = self.in_chroma(self.documents(range(6)), path)
        assert first.explain(QUESTIONS[0]).ids
        assert other_process("change", path) == 0
        again = self.opened(path)
        assert set(self._vectors_of(again)) == {"d0", "d1", "d3", "d4", "d5", "d9"}
        reports = again.explain(QUESTIONS[0], k=50).reports
        assert {one.source: one.status for one in reports}["vector"] == "ok"
        self.add(again, self.documents([2]))
        assert set(self._vectors_of(again)) == {f"d{number}" for number in (0, 1, 2, 3, 4, 5, 9)}

    def change(self, path: Path) -> None:
        """Delete, add and replace passages of a folder."""
        retriever = self.opened(path)
        retriever.delete(["d2"])
        self.add(retriever, [*self.documents([9]), self.document("d4", "Other words.")])

    @pytest.fixture
    def other_process(self) -> Callable[..., int]:
        """Return a function that runs a method of the suite in another process and returns the exit code."""
        other = started()

        def run(method: str, *arguments: object) -> int:
            code, said = other.run(type(self), method, *arguments)
            assert code != 1, said
            return code

        return run

    def load(self) -> None:
        """Import the modules that the framework and the stores import at the first change."""
        import chromadb  # noqa: F401 - imported before the fork; a client would not survive the fork

        self.add(self.made(self.documents(range(2))), self.documents([3]))
