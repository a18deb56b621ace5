"""The documents of passages: kept beside a large index, and never believed of another one."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from phasegraph._support.serialization import read_bundle
from phasegraph.graph import GraphIndex
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.corpus.document_table import BESIDE, DocumentTable, digest_of, document_of
from phasegraph.graph.corpus.folder import Folder
from phasegraph.graph.index.records import PassageRecords
from phasegraph.retrieval.passage_folder import PassageFolder


@pytest.fixture(autouse=True)
def _mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of every index are mapped, as those of a large one are."""
    monkeypatch.setattr("phasegraph._support.serialization.MAPPED_BYTES", 0)


def rows(count: int, said: str = "met") -> list[dict[str, Any]]:
    return [
        {"id": f"p{n}", "text": f"Ada {said} Bo {n}.", "metadata": {"source": f"{n % 3}.md", "own": n}}
        for n in range(count)
    ]


def wanted(index: GraphIndex, without: tuple[str, ...] = ()) -> tuple[dict[str, str], dict[str, bytes]]:
    records = index.records.items()
    documents = {name: str(one.metadata["source"]) for name, one in records}
    return documents, {name: digest_of(one.text, one.metadata, without) for name, one in records}


def test_a_table_is_kept_and_read_without_reading_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    GraphIndex.build(rows(9)).save(tmp_path)
    index = GraphIndex.load(tmp_path)
    assert DocumentTable(None).of(index) == wanted(index)
    monkeypatch.setattr(PassageRecords, "contents", lambda *given: 1 / 0)
    again = GraphIndex.load(tmp_path)
    assert DocumentTable(None).of(again) == wanted(index)
    monkeypatch.undo()


def test_a_folder_is_written_with_the_table_of_its_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = PassageFolder.create(tmp_path / "folder", rows(9))
    monkeypatch.setattr(PassageRecords, "contents", lambda *given: 1 / 0)
    assert folder.sync_files(rows(9)).unchanged == 3
    assert folder.documents() == {"0.md": 3, "1.md": 3, "2.md": 3}


@pytest.mark.parametrize("other", [DocumentTable("own"), DocumentTable(None, ["own"])])
def test_a_table_of_other_keys_is_not_taken(tmp_path: Path, other: DocumentTable) -> None:
    GraphIndex.build(rows(9)).save(tmp_path)
    index = GraphIndex.load(tmp_path)
    before = DocumentTable(None).of(index)
    assert other.of(index) != before
    assert DocumentTable(None).of(GraphIndex.load(tmp_path)) == before


def test_a_table_of_another_index_or_a_damaged_one_is_worked_out_again(tmp_path: Path) -> None:
    GraphIndex.build(rows(9)).save(tmp_path)
    DocumentTable(None).of(GraphIndex.load(tmp_path))
    GraphIndex.build(rows(9, "wrote to")).save(tmp_path)
    index = GraphIndex.load(tmp_path)
    assert DocumentTable(None).of(index) == wanted(index)
    for file in (tmp_path / BESIDE).glob("digests*"):
        file.write_bytes(file.read_bytes()[:-1])
    assert DocumentTable(None).of(GraphIndex.load(tmp_path)) == wanted(index)
    manifest = tmp_path / BESIDE / "manifest.json"
    manifest.write_text(json.dumps({"format": "phasegraph"}))
    assert DocumentTable(None).of(GraphIndex.load(tmp_path)) == wanted(index)


def test_a_table_of_an_older_version_is_worked_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older version named a passage by its random id and not by its file, so a sync would add every file again."""
    random = str(uuid.uuid4())
    given = [{"id": "p", "text": "Ada met Bo.", "metadata": {"file_path": "a.md", "ref_doc_id": random}}]
    GraphIndex.build(given).save(tmp_path)
    with monkeypatch.context() as old:
        old.setattr("phasegraph.graph.corpus.document_table._RANDOM_ID", re.compile("(?!)"))
        old.setattr(DocumentTable, "_body", lambda self, file: {"of": file.name, "key": None, "without": []})
        assert DocumentTable(None).of(GraphIndex.load(tmp_path)).documents == {"p": random}
    assert DocumentTable(None).of(GraphIndex.load(tmp_path)).documents == {"p": "a.md"}


@pytest.mark.parametrize(
    ("metadata", "name"),
    [
        ({"ref_doc_id": "row 1", "file_path": "rows.csv"}, "row 1"),
        ({"ref_doc_id": str(uuid.UUID(int=7, version=4)), "file_path": "a.pdf"}, "a.pdf"),
        ({"ref_doc_id": str(uuid.UUID(int=7, version=1)), "file_path": "a.pdf"}, str(uuid.UUID(int=7, version=1))),
        ({"ref_doc_id": str(uuid.UUID(int=7, version=4))}, str(uuid.UUID(int=7, version=4))),
        ({"source": str(uuid.UUID(int=7, version=4)), "doc_id": "report"}, str(uuid.UUID(int=7, version=4))),
    ],
)
def test_only_a_random_id_gives_way_to_another_name(metadata: dict[str, str], name: str) -> None:
    assert document_of(metadata) == name


def test_a_table_follows_changes_of_its_own_and_other_processes_and_merges(tmp_path: Path) -> None:
    Folder.create(tmp_path / "folder", GraphIndex.build(rows(9)), {})

    def opened() -> Corpus:
        folder = Folder(tmp_path / "folder")
        return Corpus(folder.load()[0], folder=folder)

    one, other, table = opened(), opened(), DocumentTable(None)
    assert table.of(one.index) == wanted(one.index)
    one.replace(["p1"], [{**rows(9, "sang to")[2], "title": ""}])
    assert table.of(one.index) == wanted(one.index)
    other.replace(["p4"], [{**rows(9, "wept with")[5], "title": ""}])
    Folder(tmp_path / "folder").merge(2)
    assert one.refresh()
    assert table.of(one.index) == wanted(one.index) == wanted(opened().index)
    body, _ = read_bundle(tmp_path / "folder" / "graph" / BESIDE, "document-table", 1)
    assert one.index.records.file is not None
    assert body["of"] == one.index.records.file.name  # the merge carried it on


def test_a_table_that_cannot_be_written_is_worked_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    GraphIndex.build(rows(9)).save(tmp_path)

    def refused(*given: Any, **more: Any) -> None:
        raise OSError("Read-only file system")

    monkeypatch.setattr("phasegraph.graph.corpus.document_table.write_bundle", refused)
    index = GraphIndex.load(tmp_path)
    assert DocumentTable(None).of(index) == wanted(index)
    assert not (tmp_path / BESIDE).exists()
