"""``phasegraph index --sync`` and ``--watch``, ``documents``, ``delete``, ``reembed``: a folder that follows files."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from pyarrow.parquet import write_table
from tests.repeats import EXHAUSTIVE

from langchain_phasegraph import PhaseGraphRetriever
from phasegraph import InvalidInputError, StoreError
from phasegraph.apps.cli import main
from phasegraph.apps.cli.syncing import FileSync
from phasegraph.distributed.building import in_turn
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.graph import GraphIndex
from phasegraph.graph.corpus.opening import opened
from phasegraph.retrieval.passage_folder import PassageFolder

MODELS = """
import numpy as np

class Counting:
    model_name, texts, factor = "one", [], 1
    def embed_query(self, text):
        return (np.bincount([ord(c) % 16 for c in text] or [0], minlength=16) ** self.factor + 1.0).tolist()
    def embed_documents(self, texts):
        self.texts += texts
        return [self.embed_query(text) for text in texts]

class Other(Counting):
    model_name, factor = "two", 2

one, two = Counting(), Other()

def plain(text):
    return two.embed_query(text)
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's."""
    root = tmp_path / "notes"
    (root / "deep").mkdir(parents=True)
    (root / "a.md").write_text("# Ada\n\nAda Lovelace met Charles Babbage in London.")
    (root / "b.txt").write_text("Cy sang in Turin.")
    (root / "deep" / "c.jsonl").write_text(json.dumps({"id": "q", "text": "Bo danced.", "metadata": {"team": "red"}}))
    (tmp_path / "sync_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("sync_models", None)
    return root


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer many questions without the processes of ``retrieve``, except where all tests run in full."""
    if not EXHAUSTIVE:
        monkeypatch.setattr("phasegraph.apps.cli.engines.engine_of", lambda workers: in_turn)


def sync(files: Path, *more: str, code: int = 0) -> dict[str, int]:
    """Sync, and list the documents."""
    assert main(["index", str(files), "--out", "out", "--sync", *more]) == code
    return PassageFolder.open("out").documents() if Path("out/folder.json").is_file() else {}


def test_a_folder_follows_the_files(files: Path, capsys: Any) -> None:
    assert sync(files) == {"a.md": 1, "b.txt": 1, "deep/c.jsonl": 1}
    assert "3 passages of 3 documents added" in capsys.readouterr().out
    before = PassageFolder.open("out").ids()
    (files / "b.txt").unlink()
    (files / "new.md").write_text("# New\n\nDi wrote to Ed.")
    (files / "a.md").write_text("# Ada\n\nAda Lovelace met Bo in London.")
    assert sync(files) == {"deep/c.jsonl": 1, "a.md": 1, "new.md": 1}
    assert "1 document added, 1 changed, 1 deleted, 1 as they were" in capsys.readouterr().out
    sync(files)
    assert "0 documents added, 0 changed, 0 deleted, 3 as they were" in capsys.readouterr().out
    assert before[2] in PassageFolder.open("out").ids()
    whole = GraphIndex.build([(one.id, one.title, one.text) and one for one in opened(Path("out")).records.values()])
    assert whole.graph.entities == opened(Path("out")).graph.entities
    assert main(["search", "out", "Who met Bo?"]) == 0
    assert "Ada" in capsys.readouterr().out


def test_a_title_that_alone_changes_is_a_change(files: Path) -> None:
    sync(files)
    passages = [
        {"id": one.id, "title": one.title, "text": one.text, "metadata": dict(one.metadata)}
        for one in opened(Path("out")).records.values()
    ]
    passages[0] |= {"title": "Countess", "metadata": {"source": "a.md"}}
    counts = PassageFolder.open("out").sync(passages)
    assert (counts.changed, counts.unchanged) == (1, 2)


def test_a_sync_from_another_path_needs_the_word_of_the_user(files: Path, capsys: Any) -> None:
    documents = sync(files)
    assert main(["index", str(files / "deep"), "--out", "out", "--sync"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(r"synced from \S*notes; a sync from \S*deep would delete.*--moved", said)
    assert PassageFolder.open("out").documents() == documents
    os.chdir("notes")
    assert main(["index", ".", "--out", "../out", "--sync"]) == 0  # the same path, written in another way
    os.chdir("..")
    files.rename("moved")
    assert main(["index", "moved", "--out", "out", "--sync"]) == 1
    capsys.readouterr()
    for more in (["--moved"], []):
        assert main(["index", "moved", "--out", "out", "--sync", *more]) == 0
        assert "0 documents added, 0 changed, 0 deleted, 3 as they were" in capsys.readouterr().out
    assert main(["index", "moved", "--out", "new", "--moved"]) == 1
    assert "--moved needs --sync or --watch" in capsys.readouterr().err


def set_path(path: str | None) -> None:
    """Store another path of the files in the folder, or none, as a former version did."""
    folder = PassageFolder.open("out").corpus._folder
    assert folder is not None
    del folder.settings["files"]
    folder.applied({} if path is None else {"files": path})
    assert PassageFolder.open("out").corpus.settings.get("files") == path


def test_a_folder_that_was_made_without_its_path_learns_the_path(files: Path) -> None:
    documents = sync(files)
    set_path(None)
    assert sync(files) == documents
    assert PassageFolder.open("out").corpus.settings["files"] == str(files.absolute())


def test_a_folder_without_its_path_refuses_files_of_which_it_knows_none(files: Path, capsys: Any) -> None:
    documents = sync(files)
    set_path(None)
    Path("other").mkdir()
    Path("other", "z.md").write_text("Di slept.")
    assert main(["index", "other", "--out", "out", "--sync"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(r"\S*other contains none of the 3 documents of the folder.*would delete.*--moved", said)
    assert PassageFolder.open("out").documents() == documents
    assert main(["index", "other", "--out", "out", "--sync", "--moved"]) == 0
    assert PassageFolder.open("out").documents() == {"z.md": 1}


def test_a_folder_without_its_path_knows_a_file_that_cannot_be_read_and_its_rows(files: Path) -> None:
    (files / "b.txt").unlink()
    (files / "a.md").unlink()
    (files / "deep" / "c.jsonl").write_text('{"text": "Bo danced."}')
    documents = sync(files)
    PassageFolder.open("out").sync(
        [{"id": "1", "text": "Bo danced.", "metadata": {"source": "deep/c.jsonl:1"}}], full=True
    )  # the documents of a former version
    set_path(None)
    assert sync(files) == documents
    set_path(None)
    (files / "deep" / "c.jsonl").write_text("no json")
    (files / "z.md").write_text("Di slept.")
    assert sync(files) == documents | {"z.md": 1}
    for one in ("deep/c.jsonl", "z.md"):
        (files / one).unlink()
    set_path(None)
    assert sync(files, "--allow-empty") == {}
    set_path(None)
    (files / "z.md").write_text("Di slept.")
    assert sync(files) == {"z.md": 1}


def test_a_new_folder_has_its_path_from_the_start(files: Path, monkeypatch: Any) -> None:
    # the process ends here
    monkeypatch.setattr("phasegraph.graph.corpus.corpus.Corpus.record_settings", lambda *_: 1 / 0)
    with suppress(ZeroDivisionError):
        FileSync(files, Path("out"), None, None).sync()
    assert PassageFolder.open("out").corpus.settings["files"] == str(files.absolute())


def test_a_link_that_is_switched_to_other_files_is_the_same_path(files: Path) -> None:
    shutil.copytree(files, "v2")
    Path("v2", "b.txt").unlink()
    link = Path("current")
    link.symlink_to(files)
    assert sync(link) == {"a.md": 1, "b.txt": 1, "deep/c.jsonl": 1}
    set_path(str(files.resolve()))  # a former version stored this path
    sync(link)
    sync(files)  # as a working directory below a link does
    sync(Path("notes/../current"))
    link.unlink()
    link.symlink_to("v2")
    assert sync(link) == {"a.md": 1, "deep/c.jsonl": 1}


def test_ignored_files_and_the_folder_itself_are_left_out(files: Path) -> None:
    (files / ".phasegraphignore").write_text("*.txt\n!keep.txt\n/deep/\n")
    (files / "keep.txt").write_text("Kept by a pattern.")
    (files / "more").mkdir()
    (files / "more" / ".phasegraphignore").write_text("x.md\n")
    (files / "more" / "x.md").write_text("Left out.")
    (files / "more" / "y.md").write_text("Taken.")
    out = files / "index"
    for _ in range(2):
        assert main(["index", str(files), "--out", str(out), "--sync"]) == 0
        assert PassageFolder.open(out).documents() == {"a.md": 1, "keep.txt": 1, "more/y.md": 1}
    (files / ".phasegraphignore").write_text("")
    assert main(["index", str(files), "--out", str(out), "--sync"]) == 0
    assert set(PassageFolder.open(out).documents()) == {
        "a.md", "b.txt", "deep/c.jsonl", "keep.txt", "more/y.md"
    }  # fmt: skip


def test_ignoring_without_pathspec_says_what_to_install(files: Path, monkeypatch: Any, capsys: Any) -> None:
    (files / ".phasegraphignore").write_text("*.txt\n")
    monkeypatch.setitem(sys.modules, "pathspec", None)
    assert sync(files, code=1) == {}
    assert "pip install 'phasegraph[files]'" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_now_stays_and_no_files_at_all_change_nothing(files: Path, capsys: Any) -> None:
    (files / "t.csv").write_text("name,text\nx,Ed wrote to Flo.\ny,Flo sang.\n")
    assert sync(files)["t.csv"] == 2
    (files / "t.csv").write_text("name,text\n" + '"' + "x" * 200_000)
    documents = sync(files)
    assert "skipped 1 file" in capsys.readouterr().out
    assert "t.csv" in documents
    for one in ("a.md", "b.txt", "t.csv", "deep/c.jsonl"):
        (files / one).unlink()
    assert sync(files, code=1) == documents
    assert re.search(r"contains no files.*out was not changed.*add --allow-empty", capsys.readouterr().err)


def test_the_passages_of_an_emptied_file_and_of_a_link_are_deleted(files: Path, capsys: Any) -> None:
    (files / "d.txt").write_text("Di wrote to Ed.")
    (files / "e.md").write_text("Ed slept.")
    documents = sync(files)
    (files / "a.md").write_text(" \n")
    (files / "deep" / "c.jsonl").write_text("")
    (files / "d.txt").rename("d.txt")
    (files / "d.txt").symlink_to(Path("d.txt").absolute())
    capsys.readouterr()
    assert sync(files) == {"b.txt": 1, "e.md": 1}
    said = capsys.readouterr().out
    assert "skipped 1 file: links are not followed (d.txt)" in said
    assert "skipped 2 files: the file contains no text (a.md, deep/c.jsonl)" in said
    assert "3 deleted" in said
    for one in ("b.txt", "e.md"):
        (files / one).write_text("")
    assert sync(files, code=1) == {"b.txt": 1, "e.md": 1}
    assert "the file contains no text" in (said := capsys.readouterr().err)
    assert "out was not changed" in said
    assert sync(files, "--allow-empty") == {}
    assert len(documents) == 5


def test_a_link_in_an_archive_and_a_file_of_another_kind_keep_no_passages(files: Path) -> None:
    def archived(linked: bool) -> None:
        with tarfile.open(files / "a.tar", "w") as archive:
            for name in ("x.md", "y.md"):
                entry = tarfile.TarInfo(name)
                if linked and name == "y.md":
                    entry.type, entry.linkname = tarfile.SYMTYPE, "x.md"
                entry.size = 0 if entry.issym() else 11
                archive.addfile(entry, io.BytesIO(b"Ada met Bo."))

    archived(linked=False)
    documents = sync(files)
    archived(linked=True)
    (files / "deep" / "c.jsonl").unlink()
    (files / "deep").rmdir()
    (files / "deep").write_text("a file without a suffix")
    assert documents.keys() - sync(files).keys() == {"a.tar/y.md", "deep/c.jsonl"}


def test_one_damaged_file_is_no_error_if_the_folder_may_become_empty(files: Path, capsys: Any) -> None:
    (files / "b.csv").write_text("text\nBo left\n")
    documents = sync(files)
    for name in ("a.md", "b.txt", "deep/c.jsonl"):
        (files / name).unlink()
    (files / "b.csv").write_text("text\nBo,left\n")
    assert sync(files, code=1) == documents
    assert "b.csv:2: the row has 2 cells" in capsys.readouterr().err
    assert sync(files, "--allow-empty").keys() == {"b.csv"}
    assert "b.csv:2: the row has 2 cells" in capsys.readouterr().out


def test_a_folder_that_cannot_be_opened_keeps_its_passages(files: Path, monkeypatch: Any, capsys: Any) -> None:
    (files / "deeper.txt").write_text("Di wrote to Ed.")
    documents = sync(files)
    (files / "deeper.txt").unlink()
    del documents["deeper.txt"]
    plain, closed = os.scandir, "deep"

    def refused(path: Any) -> Any:
        if Path(path).name == closed:
            raise OSError(5, "Input/output error", os.fspath(path))
        return plain(path)

    monkeypatch.setattr(os, "scandir", refused)
    capsys.readouterr()
    for more in ([], ["--allow-empty"]):
        assert sync(files, *more) == documents
        said = capsys.readouterr().out
        assert said.count("skipped 1 folder: the folder cannot be opened: Input/output error (deep/)") == 1
    for one in ("a.md", "b.txt"):
        (files / one).unlink()
    assert sync(files, "--allow-empty") == {"deep/c.jsonl": 1}
    closed = files.name
    assert sync(files, "--allow-empty", code=1) == {"deep/c.jsonl": 1}


@pytest.mark.usefixtures("in_this_process")
def test_a_folder_whose_files_are_all_deleted_is_emptied_if_allowed_and_filled_again(files: Path, capsys: Any) -> None:
    model = ["--embedder", "sync_models:one"]
    sync(files, *model)
    shutil.rmtree(files / "deep")
    (files / "b.txt").unlink()
    (files / "a.md").rename("a.md")
    (files / "picture.png").write_bytes(b"")
    assert sync(files, *model, "--allow-empty") == {}
    assert "3 deleted" in capsys.readouterr().out
    assert main(["documents", "out"]) == 0
    assert "0 passages of 0 documents" in capsys.readouterr().out
    for given in ([], model):
        assert main(["search", "out", "Who met Ada?", *given]) == 0
        assert "no passages: every source searched and found nothing" in capsys.readouterr().out
    assert main(["inspect", "out", "--ask", "Who met Ada?", "--export", "page.html"]) == 0
    Path("asked.jsonl").write_text('{"id": "1", "question": "Who met Ada?"}\n')
    for given in ([], model):
        assert main(["retrieve", "out", "asked.jsonl", "--out", "run.jsonl", *given]) == 0
        assert json.loads(Path("run.jsonl").read_text())["ids"] == []
    assert sync(files, *model, "--allow-empty") == {}
    assert sync(files, *model, code=1) == {}
    assert main(["reembed", "out", "--embedder", "sync_models:two"]) == 0
    model = ["--embedder", "sync_models:two"]
    Path("a.md").rename(files / "a.md")
    assert sync(files, *model) == {"a.md": 1}
    capsys.readouterr()
    assert main(["search", "out", "Who met Ada?", *model]) == 0
    assert "Babbage" in capsys.readouterr().out
    whole = GraphIndex.build([one for one in opened(Path("out")).records.values()])
    assert whole.graph.entities == opened(Path("out")).graph.entities


@pytest.mark.usefixtures("in_this_process")
def test_answers_to_a_file_of_questions_say_that_they_used_no_vectors(files: Path, capsys: Any) -> None:
    sync(files, "--embedder", "sync_models:one")
    Path("asked.jsonl").write_text('{"id": "1", "question": "Who met Ada?"}\n')
    write_table(pa.table({"id": ["1"], "text": ["Who?"], "embedding": [[1.0] * 16]}), "embedded.parquet")
    write_table(pa.table({"id": ["1"], "text": ["Who?"]}), "asked.parquet")
    told = {}
    for asked in ("asked.jsonl", "asked.parquet", "embedded.parquet"):
        assert main(["retrieve", "out", asked, "--out", "run.jsonl"]) == 0
        told[asked] = "--embedder also uses the embeddings of the index" in " ".join(capsys.readouterr().out.split())
    assert told == {"asked.jsonl": True, "asked.parquet": True, "embedded.parquet": False}
    assert main(["retrieve", "out", "asked.jsonl", "--out", "run.jsonl", "--embedder", "sync_models:one"]) == 0
    assert "uses the embeddings" not in capsys.readouterr().out


def test_an_interrupted_command_says_so(files: Path, monkeypatch: Any, capsys: Any) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FileSync, "sync", interrupted)
    sync(files, code=130)
    assert capsys.readouterr().err == "phasegraph: interrupted\n"


def test_a_table_is_a_document_whose_rows_keep_their_ids(files: Path, capsys: Any) -> None:
    rows = ["Ed,red,Ed wrote to Flo.", "Flo,blue,Flo sang.", "Gil,red,Gil slept."]
    (files / "t.csv").write_text("\n".join(["name,team,text", *rows]))
    assert sync(files, "--embedder", "sync_models:one")["t.csv"] == 3
    before = PassageFolder.open("out").ids({"source": "t.csv"})
    (files / "t.csv").write_text("\n".join(["name,team,text", "Hal,blue,Hal left.", *rows]))
    assert sync(files, "--embedder", "sync_models:one")["t.csv"] == 4
    assert "0 documents added, 1 changed, 0 deleted, 3 as they were; 1 passage embedded" in capsys.readouterr().out
    assert PassageFolder.open("out").ids({"source": "t.csv"})[:3] == before
    assert main(["delete", "out", "--where", "team=blue"]) == 0
    assert "2 passages deleted" in capsys.readouterr().out


def test_a_folder_whose_rows_were_documents_changes_over(files: Path, capsys: Any) -> None:
    (files / "t.csv").write_text("name,text\nEd,Ed wrote to Flo.\nFlo,Flo sang.\n")
    documents = sync(files)
    folder = PassageFolder.open("out")
    old = [
        {"id": f"t.csv:{row}#1", "title": name, "text": text, "metadata": {"source": f"t.csv:{row}"}}
        for row, name, text in [(1, "Ed", "Ed wrote to Flo."), (2, "Flo", "Flo sang.")]
    ]
    folder.sync(old)
    folder.delete(where={"source": "t.csv"})
    capsys.readouterr()
    assert sync(files) == documents
    assert "1 document added, 0 changed, 2 deleted, 3 as they were" in capsys.readouterr().out


def test_allow_empty_is_an_option_of_a_sync_of_a_folder_that_exists(files: Path, capsys: Any) -> None:
    assert main(["index", str(files), "--out", "out", "--allow-empty"]) == 1
    assert "--allow-empty needs --sync or --watch" in capsys.readouterr().err
    Path("none").mkdir()
    assert main(["index", "none", "--out", "out", "--sync", "--allow-empty"]) == 1
    assert "contains no files" in capsys.readouterr().err
    sync(files)
    assert main(["index", "gone", "--out", "out", "--sync", "--allow-empty"]) != 0
    assert len(PassageFolder.open("out").documents()) == 3


def test_only_what_changed_is_parsed_and_embedded(files: Path, monkeypatch: Any) -> None:
    assert len(sync(files, "--embedder", "sync_models:one")) == 3
    from sync_models import one  # type: ignore[import-not-found]

    made = FileSync(files, Path("out"), "sync_models:one", None)
    one.texts[:] = []
    made.sync()
    assert one.texts == []
    parsed: list[str] = []
    from phasegraph.reading import files as reading

    plain = reading._read_place
    monkeypatch.setattr(reading, "_read_place", lambda *given: parsed.append(given[1]) or plain(*given))
    (files / "b.txt").write_text("Cy sang in Rome.")
    assert "1 changed" in made.sync()
    assert (parsed, one.texts) == (["b.txt"], ["b\nCy sang in Rome."])


@pytest.mark.parametrize(
    ("made", "given", "message"),
    [
        ([], ["--embedder", "sync_models:one"], "created without vectors: leave --embedder out"),
        (["--embedder", "sync_models:one"], [], "created with vectors from Counting one: add --embedder"),
        (["--embedder", "sync_models:one"], ["--embedder", "sync_models:two"], "was embedded with Counting one"),
        (["--tokenizer", "german"], ["--tokenizer", "english"], "must be the tokenizer of the folder, german"),
        ([], ["--triples", "notes/b.txt"], "--triples must be left out with --sync"),
        ([], ["--force"], "--force must be left out with --sync"),
    ],
)
def test_what_does_not_fit_the_folder_is_refused(files, capsys, made, given, message) -> None:
    documents = sync(files, *made)
    assert sync(files, *given, code=1) == documents
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("given", ["two", "plain"])
@pytest.mark.parametrize("command", ["search", "inspect", "serve", "retrieve"])
def test_questions_with_another_model_than_the_passages_are_refused(files, capsys, command, given) -> None:
    sync(files, "--embedder", "sync_models:one")
    Path("asked.jsonl").write_text('{"id": "1", "question": "Who met Ada?"}\n')
    more = {
        "search": ["Who met Ada?"],
        "inspect": ["--ask", "Who met Ada?", "--export", "page.html"],
        "serve": [],
        "retrieve": ["asked.jsonl", "--out", "run.jsonl"],
    }[command]
    capsys.readouterr()
    assert main([command, "out", *more, "--embedder", f"sync_models:{given}"]) == 1
    name = {"two": "Other two", "plain": "sync_models:plain"}[given]
    assert f"'out' was embedded with Counting one, but the given model is {name}" in capsys.readouterr().err


def test_questions_with_the_model_of_the_passages_are_answered(files, capsys) -> None:
    """Also in a process of ``retrieve``, which imports the model."""
    sync(files, "--embedder", "sync_models:one")
    Path("asked.jsonl").write_text('{"id": "1", "question": "Who met Ada?"}\n')
    assert main(["search", "out", "Who met Ada?", "--embedder", "sync_models:one"]) == 0
    capsys.readouterr()
    assert main(["search", "out", "Who met Ada?"]) == 0
    assert "--embedder also uses the embeddings of the index, which are from Counting one" in capsys.readouterr().out
    model = ["--embedder", "sync_models:one"]
    assert main(["retrieve", "out", "asked.jsonl", "--out", "run.jsonl", "--workers", "2", *model]) == 0
    assert main(["reembed", "out", "--embedder", "sync_models:two"]) == 0
    capsys.readouterr()
    assert main(["search", "out", "Who met Ada?", "--embedder", "sync_models:one"]) == 1
    assert "was embedded with Other two, but the given model is Counting one" in capsys.readouterr().err


def test_a_class_that_retrieve_makes_a_model_of_is_named_as_the_model(files, capsys) -> None:
    sync(files, "--embedder", "sync_models:one")
    Path("asked.jsonl").write_text('{"id": "1", "question": "Who met Ada?"}\n')
    command = ["retrieve", "out", "asked.jsonl", "--out", "run.jsonl", "--embedder", "sync_models:Other"]
    assert main(command) == 1
    assert "'out' was embedded with Counting one, but the given model is Other two" in capsys.readouterr().err


def test_a_warning_is_one_line(files) -> None:
    sync(files)
    code = "import sys; from phasegraph.apps.cli import main; sys.exit(main())"
    said = subprocess.run(
        [sys.executable, "-c", code, "delete", "out", "--where", "sourse=b.txt"],
        capture_output=True, text=True, check=True,
    ).stderr.splitlines()  # fmt: skip
    assert len(said) == 1
    assert said[0].startswith("warning: ")
    assert "'source'" in said[0]


def test_only_a_folder_of_a_sync_is_synced_and_it_is_not_replaced(files: Path, capsys: Any) -> None:
    assert main(["index", str(files), "--out", "plain"]) == 0
    assert sync(files) != {}
    Path("mine").mkdir()
    Path("mine/x").touch()
    Path("a.jsonl").write_text('{"id": "a", "text": "Ada met Bo."}')
    for given, said in [
        (["index", str(files), "--out", "plain", "--sync"], "plain: phasegraph index wrote this folder without --sync"),
        (["documents", "plain"], "build a new folder with phasegraph index FILES --out NEW --sync"),
        (["delete", "plain", "--where", "a=b"], "phasegraph index FILES --out NEW --sync"),
        (["reembed", "plain", "--embedder", "sync_models:one"], "phasegraph index FILES --out NEW --sync"),
        (["index", str(files), "--out", "mine", "--sync"], "mine: the folder contains other files"),
        (["index", str(files), "--out", "out"], f"update it with phasegraph index {files} --out out --sync"),
        (
            ["index", str(files), "--out", "out", "--update"],
            f"update it with phasegraph index {files} --out out --sync",
        ),
        (["index", "a.jsonl", "--out", "out", "--engine", "local"], "--sync"),
    ]:
        capsys.readouterr()
        assert main(given) == 1
        assert said in " ".join(capsys.readouterr().err.split())


def test_of_two_first_syncs_the_second_embeds_nothing(files: Path, capsys: Any) -> None:
    first, second = (FileSync(files, Path("out"), "sync_models:one", None) for _ in range(2))
    from sync_models import one  # type: ignore[import-not-found]

    plain, said = one.embed_documents, []

    def embed(texts: list[str]) -> Any:
        if not said:
            said.append("")
            with pytest.raises(StoreError, match=r"out: another writer .* is writing to it"):
                second.sync()
        return plain(texts)

    one.embed_documents = embed
    one.texts[:] = []
    assert "3 passages of 3 documents added" in first.sync()
    assert len(one.texts) == 3
    assert "3 as they were; 0 passages embedded" in second.sync()
    assert not list(Path().glob(".*lock"))


def test_documents_are_listed_and_deleted(files: Path, capsys: Any) -> None:
    sync(files)
    capsys.readouterr()
    assert main(["documents", "out", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == {"a.md": 1, "b.txt": 1, "deep/c.jsonl": 1}
    assert main(["documents", "out"]) == 0
    assert "3 passages of 3 documents" in capsys.readouterr().out
    assert main(["delete", "out", "--where", 'source=["a.md", "b.txt"]', "--where", "title=Ada"]) == 0
    assert "1 passage deleted, 2 left" in capsys.readouterr().out
    assert main(["delete", "out", "--where", "team=red"]) == 0
    assert main(["delete", "out", "--where", "source=zz"]) == 0
    assert "0 passages have this metadata" in capsys.readouterr().out
    assert main(["documents", "out"]) == 0
    assert "1 passage of 1 document\n" in capsys.readouterr().out
    for given, message in [
        (["delete", "out", "--where", "b.txt"], "--where must be KEY=VALUE"),
        (["documents", "notes"], "neither a retriever nor phasegraph index --sync wrote this folder"),
        (
            ["reembed", "out", "--embedder", "sync_models:one"],
            f"phasegraph index {files} --out NEW --sync --embedder sync_models:one",
        ),
    ]:
        assert main(given) in (1, 2)
        assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("vector_store", ["flat", "chroma"])
def test_a_retrievers_folder_is_listed_and_deleted_from_and_not_embedded(files, capsys, vector_store) -> None:
    model = DeterministicFakeEmbedding(size=8)
    pages = [Document(f"Ada met Bo {n}.", id=f"p{n}", metadata={"source": f"{n % 2}.md"}) for n in range(4)]
    PhaseGraphRetriever.from_documents(pages, model, path="made", vector_store=vector_store)
    assert main(["documents", "made", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == {"0.md": 2, "1.md": 2}
    assert main(["delete", "made", "--where", "source=1.md"]) == 0
    assert "next sync" not in capsys.readouterr().out
    assert PhaseGraphRetriever.load("made", model).ids() == ["p0", "p2"]
    one = ["--embedder", "sync_models:one"]
    for given in (
        ["reembed", "made", *one],
        *(["index", "notes", "--out", "made", "--sync", *more] for more in (one, [])),
    ):
        assert main(given) == 1
        assert "made: the folder was created by a retriever of langchain" in capsys.readouterr().err
    with pytest.raises(InvalidInputError, match="created by a retriever of langchain"):
        PassageFolder.open("made").sync_files([])


def test_delete_says_that_the_next_sync_adds_the_passages_again(files: Path, capsys: Any) -> None:
    sync(files)
    assert main(["delete", "out", "--where", "source=a.md", "--yes"]) == 0
    said = f"if the files are still in {files}, the next sync adds the passages again"
    assert said in capsys.readouterr().out
    assert "a.md" in sync(files)
    (files / "a.md").unlink()
    assert "a.md" not in sync(files)


def test_a_retriever_says_of_a_synced_folder_who_wrote_it(files: Path) -> None:
    sync(files, "--embedder", "sync_models:one")
    with pytest.raises(
        InvalidInputError, match=r"[/\\]out' was written by phasegraph index --sync, .* path= and a new"
    ):
        PhaseGraphRetriever.load("out", DeterministicFakeEmbedding(size=8))


def test_passages_are_embedded_anew(files: Path, capsys: Any) -> None:
    sync(files, "--embedder", "sync_models:one")
    assert main(["reembed", "out", "--embedder", "sync_models:two"]) == 0
    assert "3 passages embedded with Other two" in capsys.readouterr().out
    from sync_models import two  # type: ignore[import-not-found]

    held = opened(Path("out")).graph
    wanted = np.array(two.embed_query("b\nCy sang in Turin."), dtype=np.float32)
    assert np.allclose(held.embeddings[held.passage_rows["b.txt#1"]], wanted / np.linalg.norm(wanted), atol=1e-6)
    assert len(sync(files, "--embedder", "sync_models:two")) == 3
    sync(files, "--embedder", "sync_models:one", code=1)


def test_a_watch_tries_again_after_an_error_and_follows(files: Path, monkeypatch: Any) -> None:
    steps: list[Any] = [False, True, *[False] * 12, True, *[False] * 12]
    made = FileSync(files, Path("out"), None, None)
    said: list[str] = []

    def changes(stop: threading.Event) -> Any:
        for number, changed in enumerate(steps):
            if number == 1:
                (files / "b.txt").unlink()
                monkeypatch.setattr(PassageFolder, "sync_files", refused)
            if number == 18:
                monkeypatch.undo()
            yield changed

    def refused(*given: Any, **more: Any) -> None:
        raise OSError("no space left")

    made._changes = changes  # type: ignore[method-assign]
    os.chdir(files.parent)
    made.watch(said.append, lambda error: said.append(f"failed: {error}"))
    assert said[:2] == ["3 passages of 3 documents added", "failed: no space left"]
    assert said[2] == "failed: the sync failed again for the same reason"
    assert said[3:] == ["0 documents added, 0 changed, 1 deleted, 2 as they were; 0 passages embedded"]


@pytest.mark.tools
def test_an_interrupt_that_python_loses_ends_a_watch(files: Path, monkeypatch: Any) -> None:
    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    made, lost, usual = FileSync(files, Path("out"), None, None), [], signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: lost.append(raised.exc_type))
    monkeypatch.setattr(made, "sync", lambda: str(Finalized()) and "synced")
    guard = threading.Timer(20, signal.raise_signal, [signal.SIGINT])
    guard.start()
    made.watch(print, print)
    assert (lost, guard.is_alive()) == ([KeyboardInterrupt], True)
    guard.cancel()
    assert signal.getsignal(signal.SIGINT) is usual


@pytest.mark.tools
def test_an_interrupt_ends_a_sync_of_a_watch(files: Path, monkeypatch: Any) -> None:
    made = FileSync(files, Path("out"), None, None)
    monkeypatch.setattr(made, "sync", lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        made.watch(print, print)


@pytest.mark.tools
def test_a_watching_process_follows_files_until_it_is_interrupted(files: Path) -> None:
    ignored = "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # as in a shell's background process
    code = f"{ignored}; from phasegraph.apps.cli import main; sys.exit(main())"
    command = [sys.executable, "-u", "-c", code]
    process = subprocess.Popen(
        [*command, "index", "notes", "--out", "notes/out", "--watch"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    guard = threading.Timer(120, process.kill)
    guard.start()

    def told(pattern: bytes) -> list[int]:
        """Return the counts of the next line that the process prints about a sync."""
        assert process.stdout is not None
        for line in iter(process.stdout.readline, b""):
            if found := re.search(pattern, line):
                return [int(count) for count in found.groups()]
        raise AssertionError(process.stderr.read() if process.stderr else "")

    try:
        assert told(rb"(\d+) passages of (\d+) documents added") == [3, 3]
        (files / "b.txt").unlink()
        (files / "deep" / "d.md").write_text("Di met Ed.")
        counts = np.zeros(3, dtype=int)
        while counts[0] < 1 or counts[2] < 1:
            counts += told(rb"(\d+) documents? added, (\d+) changed, (\d+) deleted")
        assert set(PassageFolder.open("notes/out").documents()) == {"a.md", "deep/c.jsonl", "deep/d.md"}
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        guard.cancel()
        process.kill()
    assert (process.returncode, err) == (0, b"")
    assert counts.tolist() == [1, 0, 1]


def test_a_passage_keeps_its_vector_while_its_title_and_text_stay(files: Path) -> None:
    texts: list[str] = []

    def embedded(records: Sequence[Any]) -> Any:
        texts.extend(one.content for one in records)
        return np.ones((len(records), 2), dtype=np.float32)

    def passage(title: str, day: int) -> dict[str, Any]:
        return {"id": "1", "title": title, "text": "Ada met Bo.", "metadata": {"source": "a.md", "day": day}}

    folder = PassageFolder.create("out", [passage("Ada", 1)], EmbeddingModel("m", lambda text: [1.0, 1.0], embedded))
    texts.clear()
    assert folder.sync([passage("Ada", 2)]).embedded == 0
    assert folder.ids(where={"day": 2})
    assert folder.sync([passage("Bo", 2)]).embedded == 1
    assert texts == ["Bo\nAda met Bo."]
