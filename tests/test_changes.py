"""The fragments of the changelog: their check, and their way into CHANGELOG.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.modules import module_at

ROOT = Path(__file__).resolve().parents[1]
CHANGELOG = """# Changelog

## 0.2.0 (unreleased)

### Folders

* A folder is locked.

### Words

* Words count.

## 0.1.0 (2026-01-01)

### Folders

* The first folder.
"""


@pytest.fixture
def changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = module_at(ROOT / "tools" / "changes.py")
    (tmp_path / "changes").mkdir()
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module.fragments, "__defaults__", (tmp_path,))
    return module


def write(root: Path, name: str, text: str) -> Path:
    file = root / "changes" / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    "text",
    [
        "* `load` opens a folder (for example `a.md`), which takes 1.5 s.\n",
        "- `Folder.sync` and `a. B` are names of version 2.0.\n",
        "* The first sentence.\n* The second sentence.\n",
    ],
)
def test_a_bullet_with_one_sentence_passes(changes, tmp_path, text):
    assert changes.faults(write(tmp_path, "one.md", text)) == []


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("one.md", "", "the file is empty"),
        ("one.md", "A sentence.\n", "one.md:1: begin the line"),
        ("one.md", "* One.\n  More of it.\n", "one.md:2: begin the line"),
        ("one.md", "* \n", "begin the line"),
        ("one.md", "* No end\n", "end the sentence with a full stop"),
        ("one.md", "* One is here. Another follows.\n", "write one sentence a bullet"),
        ("one.md", "* One (is here.) `load` follows.\n", "write one sentence a bullet"),
        ("My change.md", "* One.\n", "name it like"),
        ("one.txt", "* One.\n", "name it like"),
    ],
)
def test_a_fragment_of_another_form_is_named_with_its_line_and_what_to_do(changes, tmp_path, name, text, reason):
    write(tmp_path, name, text)
    with pytest.raises(SystemExit, match=reason):
        changes.main("check")


def test_fragments_go_to_the_end_of_their_section_of_the_newest_version(changes, tmp_path, capsys):
    files = [write(tmp_path, "a.md", "- A folder is synced.\n- It is quick.\n"), write(tmp_path, "b.md", "* New.\n")]
    changes.main("collect", "Folders", str(files[0]))
    changes.main("collect", "Pages")
    assert capsys.readouterr().out == "1 fragments are in CHANGELOG.md\n" * 2
    assert not any(file.exists() for file in files)
    expected = CHANGELOG.replace("locked.\n", "locked.\n* A folder is synced.\n* It is quick.\n")
    expected = expected.replace("### Folders", "### Pages\n\n* New.\n\n### Folders", 1)
    assert (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8") == expected


def test_a_wrong_fragment_changes_nothing(changes, tmp_path):
    file = write(tmp_path, "a.md", "* No end\n")
    with pytest.raises(SystemExit, match="full stop"):
        changes.main("collect", "Folders")
    assert file.exists()
    assert (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8") == CHANGELOG


@pytest.mark.parametrize("arguments", [(), ("collect",), ("gather", "Folders"), ("check", "Folders")])
def test_anything_else_shows_what_to_run(changes, arguments):
    with pytest.raises(SystemExit, match="collect"):
        changes.main(*arguments)
