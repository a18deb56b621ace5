"""What a power cut, a restore, a sync service or a forger does to a folder: an error, and never an older corpus."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from repeats import repeats
from tests.suites.corpus import run_here

from phasegraph import IntegrityError, InvalidInputError, PhasegraphWarning, StoreError
from phasegraph._support.apart import run_apart
from phasegraph._support.files import naming_full_disk, replace_file
from phasegraph._support.serialization import MANIFEST, read_bundle, read_document, write_bundle, write_document
from phasegraph.embedding.identity import EmbeddingModel
from phasegraph.graph import GraphIndex
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.corpus.folder import STATE, Folder
from phasegraph.graph.corpus.opening import opened


def _passage(name: str, text: str = "Ada met Bo.") -> dict[str, Any]:
    return {"id": name, "title": "", "text": text, "metadata": {}}


def _create(path: Path, *names: str) -> Corpus:
    index = GraphIndex.build([_passage(name) for name in names or ("a", "b")])
    return Corpus(index, folder=Folder.create(path, index, {}))


def _open(path: Path) -> Corpus:
    folder = Folder(path)
    return Corpus(folder.load()[0], folder=folder)


def _changed_and_merged(corpus: Corpus, name: str) -> None:
    corpus.replace([], [_passage(name)])
    corpus.settle()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two changes, of which the second deletes a passage."""
    corpus = _create(tmp_path / "folder")
    corpus.replace([], [_passage("c")])
    corpus.replace(["a"])
    return tmp_path / "folder"


# The last changes are missing


@pytest.mark.parametrize("lost", [[2], [1, 2]])
def test_a_folder_without_its_last_changes_is_refused(folder: Path, lost: list[int]) -> None:
    assert set(_open(folder).index.records) == {"b", "c"}
    for number in lost:
        shutil.rmtree(folder / "changes" / f"{number:08d}")
    for load in (lambda: Folder(folder).load(), lambda: opened(folder)):
        with pytest.raises(IntegrityError, match="change 2"):
            load()


def test_a_change_that_was_kept_and_not_noted_counts(folder: Path) -> None:
    """The process may end after the change is written and before the folder's state is."""
    state = read_document(folder / STATE, "passage-folder", 1)
    write_document(folder / STATE, "passage-folder", 1, {**state, "applied": 1})
    index, behind = Folder(folder).load()
    assert (set(index.records), behind) == ({"b", "c"}, frozenset({"a"}))


def test_changes_that_the_index_holds_may_be_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph.graph.corpus.merging.run_apart", run_here)
    monkeypatch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 0)
    corpus = _open(folder)
    corpus.replace([], [_passage("d")])
    corpus.settle()
    assert not list((folder / "changes").iterdir())
    assert set(_open(folder).index.records) == {"b", "c", "d"}


# What a power cut leaves: only what was synced


class Disk:
    """What a power cut would leave of what was written: records which files and directories were synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.content: dict[int, tuple[int, int]] = {}
        self.entries: dict[str, frozenset[str]] = {}
        self.at_rename: list[tuple[str, list[str]]] = []
        fsync, replace = os.fsync, os.replace

        def syncing(descriptor: int) -> None:
            fsync(descriptor)
            about, path = os.fstat(descriptor), Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            if path.is_dir():
                self.entries[str(path)] = frozenset(one.name for one in path.iterdir())
            else:
                self.content[about.st_ino] = (about.st_size, about.st_mtime_ns)

        def renaming(source: Any, target: Any) -> None:
            name = Path(target).name
            if name in (MANIFEST, STATE):
                about = os.stat(source)
                own = [] if self.content.get(about.st_ino) == (about.st_size, about.st_mtime_ns) else [name]
                self.at_rename.append((name, own + self.unsynced(Path(target).parent)))
            replace(source, target)

        monkeypatch.setattr(os, "fsync", syncing)
        monkeypatch.setattr(os, "replace", renaming)

    def unsynced(self, directory: Path) -> list[str]:
        """Arrays of a directory whose content, or whose name in the directory, a power cut would lose."""
        named = self.entries.get(str(directory), frozenset())
        lost = []
        for file in directory.glob("*.npy"):
            about = file.stat()
            if self.content.get(about.st_ino) != (about.st_size, about.st_mtime_ns) or file.name not in named:
                lost.append(file.name)
        return lost

    def keeps(self, path: Path, top: Path) -> bool:
        """Whether the names on the way from `top` to a path would survive."""
        steps = [path, *path.parents]
        steps = steps[: steps.index(top)]
        return all(one.name in self.entries.get(str(one.parent), ()) for one in steps)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("the path of an open directory is read from /proc, which this system has not")
    return Disk(monkeypatch)


def test_a_manifest_is_replaced_after_everything_it_names_is_synced(tmp_path: Path, disk: Disk) -> None:
    write_bundle(tmp_path / "deep" / "bundle", "graph", 1, {}, {"x": np.arange(9), "y": np.ones(3)})
    assert disk.at_rename == [(MANIFEST, [])]
    assert disk.keeps(tmp_path / "deep" / "bundle" / MANIFEST, tmp_path)


def test_a_change_is_on_disk_before_the_folder_says_that_it_is_made(tmp_path: Path, disk: Disk) -> None:
    corpus = _create(tmp_path / "folder")
    disk.at_rename.clear()
    corpus.replace(["a"])
    assert disk.at_rename == [(MANIFEST, []), (STATE, [])]
    for path in (f"changes/00000001/{MANIFEST}", STATE, f"graph/{MANIFEST}"):
        assert disk.keeps(tmp_path / "folder" / path, tmp_path), path


# The disk is full at any write


class FullDisk:
    """Lets some files and directories be written, and then no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
        self.writes, self.refused = writes, False
        fsync = os.fsync

        def syncing(descriptor: int) -> None:
            self.writes -= 1
            if self.writes < 0:
                self.refused = True
                raise OSError(errno.ENOSPC, "No space left on device")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", syncing)


def test_a_disk_that_is_full_at_any_write_of_a_change_leaves_the_old_corpus_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = set()
    for writes in range(0, 200, repeats(1, 3)):
        path = tmp_path / str(writes)
        corpus = _create(path)
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore", PhasegraphWarning)
            disk = FullDisk(patch, writes)
            try:
                corpus.replace(["a"], [_passage("c")])
                made = True
            except StoreError:
                made = False
        found = set(_open(path).index.records)
        assert found == ({"b", "c"} if made else {"a", "b"}), writes
        assert set(corpus.index.records) == found, writes
        corpus.replace([], [_passage("d")])  # there is space again
        assert set(_open(path).index.records) == found | {"d"}, writes
        states.add(made)
        if not disk.refused:
            break
    assert not disk.refused
    assert states == {False, True}


def test_a_disk_that_is_full_at_any_write_of_a_merge_leaves_the_folder_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {one.name for one in (folder / "graph").iterdir()}
    for writes in range(0, 200, repeats(1, 3)):
        with monkeypatch.context() as patch:
            disk = FullDisk(patch, writes)
            try:
                Folder(folder).merge(2)
            except (OSError, StoreError):
                assert disk.refused
                if not list((folder / "changes").iterdir()):
                    break
                assert set(_open(folder).index.records) == {"b", "c"}, writes
                if Folder(folder)._base() == 0:
                    assert {one.name for one in (folder / "graph").iterdir()} == before, writes
                continue
        break
    assert not disk.refused
    assert not list((folder / "changes").iterdir())
    assert set(_open(folder).index.records) == {"b", "c"}


def test_a_merge_that_fails_is_said_and_tried_again_later(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 1)
    asked: list[list[str]] = []

    def refused(module: str, function: str, arguments: list[str], seconds: float) -> str:
        asked.append(arguments)
        return "OSError: [Errno 28] No space left on device"

    monkeypatch.setattr("phasegraph.graph.corpus.merging.run_apart", refused)
    corpus = _open(folder)
    with pytest.warns(PhasegraphWarning, match=r"3 changed passages could not be merged.*No space left.*after 1 more"):
        _changed_and_merged(corpus, "d")
    corpus.replace([], [_passage("e")])  # 4 are not more than 3 and 1 more
    corpus.settle()
    assert [number for _, number in asked] == ["3"]
    monkeypatch.setattr("phasegraph.graph.corpus.merging.run_apart", run_apart)
    corpus.replace([], [_passage("f")])
    corpus.settle()
    assert not list((folder / "changes").iterdir())
    assert set(_open(folder).index.records) == {"b", "c", "d", "e", "f"}


def test_a_folder_is_merged_without_another_process_where_none_can_be_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 0)

    def refused(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "run", refused)
    corpus = _open(folder)
    corpus.replace([], [_passage("d")])
    corpus.settle()
    assert not list((folder / "changes").iterdir())
    assert corpus._folder is not None
    assert corpus._folder.pending == 0


def test_a_merge_of_a_folder_that_was_restored_meanwhile_is_given_up(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, save = tmp_path / "backup", GraphIndex.save
    shutil.copytree(folder, backup)
    _open(folder).replace([], [_passage("d")])

    def slowly(index: GraphIndex, *given: Any, **options: Any) -> None:
        monkeypatch.undo()
        shutil.rmtree(folder / "changes")
        shutil.copytree(backup / "changes", folder / "changes")
        shutil.copy(backup / STATE, folder / STATE)
        save(index, *given, **options)

    monkeypatch.setattr(GraphIndex, "save", slowly)
    with pytest.raises(StoreError, match="restored or created again during the merge"):
        Folder(folder).merge(3)
    assert set(_open(folder).index.records) == {"b", "c"}


def test_two_processes_do_not_merge_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 0)
    corpus = _open(folder)
    with Folder(folder).held(name=".merging"):
        with pytest.raises(StoreError, match="is writing to it"):
            Folder(folder).merge(2)
        corpus.replace([], [_passage("d")])
        corpus.settle()
    assert len(list((folder / "changes").iterdir())) == 3


# Another process changes an open folder


def test_a_corpus_follows_the_changes_and_merges_of_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = _open(folder), _open(folder)
    assert not reader.refresh()
    before = reader.state
    writer.replace(["b"], [_passage("d", "Ada met Cy.")])
    writer.replace(["d"], [_passage("e", "Cy met Di.")])
    assert reader.refresh()
    assert list(reader.index.records) == list(writer.index.records) == ["c", "e"]
    assert list(before.index.records) == ["b", "c"]
    assert reader.state.version == before.version + 1
    read: list[Path] = []
    monkeypatch.setattr(GraphIndex, "load", lambda path: read.append(path) or GraphIndex.load(path))
    writer.replace([], [_passage("f")])
    reader.refresh()
    assert not read  # only the change was
    monkeypatch.undo()
    Folder(folder).merge(5)
    version = reader.state.version
    assert reader.refresh()
    assert reader.state.version == version
    assert reader._folder is not None
    assert (reader._folder.pending, list(reader.index.records)) == (0, ["c", "e", "f"])


def test_a_change_of_a_corpus_that_is_behind_is_made_of_the_folder_as_it_is(folder: Path) -> None:
    one, other = _open(folder), _open(folder)
    planned = one.state
    other.replace([], [_passage("d")])
    with pytest.raises(StoreError, match="while this change was prepared; nothing was changed"):
        one.replace(["b"], planned=planned)
    one.replace(["b"])
    assert set(one.index.records) == set(_open(folder).index.records) == {"c", "d"}


def test_a_search_sees_what_another_process_changed_within_seconds(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("phasegraph.graph.corpus.corpus.LOOKING", 0.0)
    reader = _open(folder)
    source = reader.source("bm25")
    assert source.search("Where did Cy sing?", 5, {}).ids == ()
    _open(folder).replace([], [_passage("d", "Cy sang.")])
    reader._next_look = time.monotonic()  # as after another search
    source.search("Where did Cy sing?", 5, {})
    reader.settle()
    assert source.search("Where did Cy sing?", 5, {}).ids == ("d",)
    _open(folder).replace(["d"])
    monkeypatch.setattr("phasegraph.graph.corpus.corpus.AWAITED", 60.0)
    reader._next_look = 0.0  # as after a long time
    assert source.search("Where did Cy sing?", 5, {}).ids == ()


def test_a_folder_that_was_embedded_anew_by_another_model_is_not_taken_over(tmp_path: Path) -> None:
    def model(name: str) -> EmbeddingModel:
        return EmbeddingModel(
            SimpleNamespace(model_name=name), lambda query: [1.0, 0.0], lambda records: [[1.0, 0.0] for _ in records]
        )

    index = GraphIndex.build([_passage("a"), _passage("b")], embeddings=[[1.0, 0.0], [0.0, 1.0]])
    Corpus(index, made_by=model("one").identity).save(tmp_path / "folder", {"vectors": True, "vector_store": "flat"})
    readers = [Corpus(Folder(tmp_path / "folder").load()[0], model("one"), folder=Folder(tmp_path / "folder"))]
    for one in readers:
        assert one._folder is not None
        one._folder.load()
    other = _open(tmp_path / "folder")
    other.reembed(model("two"), [[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(StoreError, match="embedded again with SimpleNamespace two: load it with that model"):
        readers[0].refresh()
    with pytest.warns(PhasegraphWarning, match="searches continue without the changes.*SimpleNamespace two"):
        readers[0].follow()
    readers[0].follow()  # said once
    assert readers[0].index.graph.embeddings is not None
    assert readers[0].index.graph.embeddings.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_disk_that_is_full_at_any_write_of_a_bundle_leaves_the_old_one_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, writes, done = set(), 0, False
    write_bundle(tmp_path, "graph", 1, {"turn": -1}, {"x": np.full(9, -1), "y": np.ones(3)})
    while not done:
        with monkeypatch.context() as patch:
            disk = FullDisk(patch, writes)
            try:
                write_bundle(tmp_path, "graph", 1, {"turn": writes}, {"x": np.full(9, writes), "y": np.ones(3)})
            except OSError:
                assert disk.refused
            done = not disk.refused
        body, arrays = read_bundle(tmp_path, "graph", 1, mmap=False)
        assert set(arrays["x"].tolist()) == {body["turn"]}
        found.add(body["turn"])
        writes += 1
    assert found == {-1, writes - 2, writes - 1}  # all before the last two writes: the old one


def test_a_disk_that_is_full_while_a_folder_is_made_leaves_nothing_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for writes in range(200):
        with monkeypatch.context() as patch:
            disk = FullDisk(patch, writes)
            try:
                _create(tmp_path / "folder")
            except StoreError:
                assert disk.refused
                continue
        break
    assert writes > 20
    assert set(_open(tmp_path / "folder").index.records) == {"a", "b"}


@pytest.mark.parametrize("code", [errno.ENOSPC, None])
def test_the_error_of_a_disk_that_is_full_names_the_folder(tmp_path: Path, code: int | None) -> None:
    cause = OSError(code, "No space left on device") if code else OSError("8192 requested and 0 written")  # numpy's
    with pytest.raises(OSError, match="No space left on the disk of the folder") as caught, naming_full_disk(tmp_path):
        raise cause
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path))
    assert caught.value.__cause__ is cause
    with pytest.raises(PermissionError, match="denied"), naming_full_disk(tmp_path):
        raise PermissionError("denied")


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_file(tmp_path / "file", b"old")
    with monkeypatch.context() as patch:
        FullDisk(patch, 0)
        with pytest.raises(OSError, match="No space left on the disk of the folder") as caught:
            replace_file(tmp_path / "file", b"new")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path))
    assert isinstance(caught.value.__cause__, OSError)
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("file", b"old")]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no mask for new files")
def test_a_new_file_has_the_mode_that_the_process_gives_files(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "file", b"new")
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


# What a sync service makes


@pytest.mark.parametrize("name", ["00000001 (copy)", "00000001.sb-1a2b", "1", "00000003 2", "٠٠٠٠٠٠٠٣"])
def test_a_copy_of_a_change_is_left_out_with_a_warning(folder: Path, name: str) -> None:
    shutil.copytree(folder / "changes" / "00000001", folder / "changes" / name)
    with pytest.warns(PhasegraphWarning, match="is not a change"):
        index, _ = Folder(folder).load()
    assert set(index.records) == {"b", "c"}


def test_a_copy_of_a_change_is_in_nobodys_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(folder / "changes" / "00000001", folder / "changes" / "00000001 (copy)")
    monkeypatch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 0)
    monkeypatch.setattr("phasegraph.graph.corpus.merging.run_apart", run_here)
    with pytest.warns(PhasegraphWarning, match="is not a change"):
        corpus = _open(folder)
    with pytest.warns(PhasegraphWarning, match="is not a change"):
        _changed_and_merged(corpus, "d")
    assert [one.name for one in (folder / "changes").iterdir()] == ["00000001 (copy)"]
    assert set(corpus.index.records) == {"b", "c", "d"}


# Another folder stands at the path


def test_a_corpus_that_was_open_during_a_restore_follows_what_was_restored(tmp_path: Path) -> None:
    path, backup = tmp_path / "folder", tmp_path / "backup"
    corpus = _create(path)
    corpus.replace([], [_passage("c")])
    shutil.copytree(path, backup)
    corpus.replace([], [_passage("d")])
    shutil.rmtree(path)
    shutil.copytree(backup, path)
    _open(path).replace([], [_passage("e")])  # as many changes as the first corpus has seen, but others
    with pytest.raises(InvalidInputError, match="'d' is not in the index"):
        corpus.replace(["d"])
    assert set(_open(path).index.records) == set(corpus.index.records) == {"a", "b", "c", "e"}


def test_a_folder_that_was_made_anew_is_not_the_one_that_was_opened(tmp_path: Path) -> None:
    corpus = _create(tmp_path / "folder")
    shutil.rmtree(tmp_path / "folder")
    _create(tmp_path / "folder", "x", "y")
    with pytest.raises(StoreError, match="load it again, or restart the server"):
        corpus.replace([], [_passage("c")])
    assert set(_open(tmp_path / "folder").index.records) == {"x", "y"}


def test_a_restored_folder_that_is_as_it_was_goes_on(tmp_path: Path) -> None:
    path, backup = tmp_path / "folder", tmp_path / "backup"
    corpus = _create(path)
    corpus.replace([], [_passage("c")])
    shutil.copytree(path, backup)
    shutil.rmtree(path)
    shutil.copytree(backup, path)
    corpus.replace([], [_passage("d")])
    assert set(_open(path).index.records) == {"a", "b", "c", "d"}


def test_a_folder_of_an_older_version_has_no_identity_and_works(folder: Path) -> None:
    state = read_document(folder / STATE, "passage-folder", 1)
    write_document(folder / STATE, "passage-folder", 1, {name: state[name] for name in ("applied", "settings")})
    corpus = _open(folder)
    corpus.replace([], [_passage("d")])
    corpus.replace([], [_passage("e")])
    assert set(_open(folder).index.records) == {"b", "c", "d", "e"}


# A note that the files were checked

_FORGED = """
import hashlib, json, os, sys
from pathlib import Path
import numpy as np
from phasegraph.graph import GraphIndex, GraphSource
from phasegraph._support import serialization
from phasegraph._support.serialization import MANIFEST, _opened, _state, read_bundle, write_bundle

serialization._SETTLED = 0.0  # the times of files tell every change
where, notes = Path(sys.argv[1]), Path(os.environ["XDG_CACHE_HOME"]) / "phasegraph" / "checked"
rows = [{"id": f"p{i}", "title": f"Ada {i}", "text": f"Ada {i} met Bo {i % 7}."} for i in range(300)]
GraphIndex.build(rows).save(where)
body, arrays = read_bundle(where, "entity-graph", 1, mmap=False)
wrong = {name: arrays[name].copy() for name in ("walk_indices", "mentions_indices")}
for one in wrong.values():
    one[:] = 2**31 - 1
write_bundle(where, "entity-graph", 1, body, {**arrays, **wrong})
manifest = (where / MANIFEST).read_bytes()
entries = json.loads(manifest)["body"]["arrays"]
state, _ = _state(manifest, {name: _opened(where, one) for name, one in entries.items()})
note = json.dumps({**state, "readers": ["graph", "index"]})
for file in ("checked.json", hashlib.sha256(manifest).hexdigest() + ".json", ".phasegraph/checked/x.json"):
    (where / file).parent.mkdir(parents=True, exist_ok=True)
    (where / file).write_text(note)
if sys.argv[2] == "shared":  # where every user may write notes
    (notes / (hashlib.sha256(manifest).hexdigest() + ".json")).write_text(note)
    notes.chmod(0o777)
GraphSource(GraphIndex.load(where).graph).search("Ada 3 met Bo", 5, {})
"""


@pytest.mark.parametrize("how", ["inside", "shared"])
def test_a_forged_note_spares_no_check(tmp_path: Path, how: str) -> None:
    """The walk's edges lead beyond its memory, and the note has the files' real inodes, sizes and times."""
    run = subprocess.run(
        [sys.executable, "-c", _FORGED, str(tmp_path / "index"), how],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (run.returncode, "IntegrityError" in run.stderr) == (1, True), (run.returncode, run.stderr[-500:])


@pytest.mark.parametrize("home", ["file", ""])
def test_without_a_cache_of_the_user_nothing_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / home) if home else "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    GraphIndex.build([_passage("a")]).save(tmp_path / "index")
    assert "a" in GraphIndex.load(tmp_path / "index").records
    assert {one.name for one in tmp_path.iterdir()} == {"file", "index"}


def test_the_oldest_notes_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph._support.serialization._MOST_NOTES", 2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    notes = tmp_path / "cache" / "phasegraph" / "checked"
    kept: list[set[str]] = []
    for number in range(3):
        GraphIndex.build([_passage(f"a{number}")]).save(tmp_path / "index")
        kept.append({one.name for one in notes.iterdir()})
    assert (len(kept[1]), len(kept[2])) == (2, 2)
    assert not kept[0] & kept[2]
    assert notes.stat().st_mode & 0o777 == 0o700
