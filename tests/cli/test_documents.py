"""``phasegraph documents --near-duplicates`` and ``phasegraph search --group-by`` over a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from phasegraph.apps.cli import main
from phasegraph.retrieval.passage_folder import PassageFolder

TEXT = "Ada met Bo in Oslo in the year in which the engine was made, and Cy sang of it for days."


@pytest.fixture
def folder(tmp_path: Path) -> str:
    texts = {"a.md": [TEXT, "Ada met Bo again."], "b.md": [f"{TEXT} Ada met Bo again."], "c.md": ["Dee met Bo."]}
    rows = [
        {"id": f"{source}-{row}", "text": text, "metadata": {"source": source}}
        for source, each in texts.items()
        for row, text in enumerate(each)
    ]
    PassageFolder.create(tmp_path / "folder", rows, progress=False)
    return str(tmp_path / "folder")


def test_documents_that_say_nearly_the_same_are_listed(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["documents", folder, "--near-duplicates", "0.7", "--json", "-"]) == 0
    (pair,) = json.loads(capsys.readouterr().out)
    assert (pair["first"], pair["second"]) == ("a.md", "b.md")
    assert main(["documents", folder, "--near-duplicates", "0.7"]) == 0
    assert "1 pair with at least 0.7" in capsys.readouterr().out
    assert main(["documents", folder, "--near-duplicates", "3"]) == 2
    assert "--near-duplicates" in capsys.readouterr().err


def test_a_search_shows_each_document_once(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for more in ([], ["--group-by", "source"]):
        assert main(["search", folder, "Who met Bo?", "--json", "-", *more]) == 0
        passages = json.loads(capsys.readouterr().out)["passages"]
        found[len(more)] = [one["id"].partition("-")[0] for one in passages]
        assert all(one["paths"] for one in passages)
    assert sorted(found[0]) == ["a.md", "a.md", "b.md", "c.md"]
    assert sorted(found[2]) == ["a.md", "b.md", "c.md"]
    assert main(["search", folder, "Who met Bo?", "--group-by", "sorce"]) == 0  # codespell:ignore sorce
    assert "none of 4 candidates has the metadata key" in capsys.readouterr().out


def test_commands_on_a_plain_index_say_what_they_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.md").write_text(TEXT, encoding="utf-8")
    index = str(tmp_path / "index")
    assert main(["index", str(tmp_path / "files"), "--out", index]) == 0
    capsys.readouterr()
    for given in (["documents", index], ["delete", index, "--where", "source=a.md"]):
        assert main(given) == 1
        said = capsys.readouterr().err
        assert "has no table of its documents" in said
        assert "phasegraph index FILES --out NEW --sync" in said
    for given in (["evaluate", index], ["explain", index, "q1"], ["tune", index, "--out", str(tmp_path / "t.json")]):
        assert main(given) == 1
        said = capsys.readouterr().err
        assert "is an index, but the command needs a data set" in said
        assert "--graph FOLDER" in said
        assert "phasegraph search or phasegraph inspect" in said


@pytest.mark.parametrize("command", ["documents", "delete", "reembed"])
def test_the_help_names_the_folders_with_documents(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert "written by index --sync" in " ".join(capsys.readouterr().out.replace("│", " ").split())
