"""Checksums of a large folder are compared while it is in use: damage that is found then ends its use."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasegraph import IntegrityError
from phasegraph._support import late_checks, serialization
from phasegraph._support.serialization import MappedArray, mapped_in, read_bundle, write_bundle
from phasegraph.graph import GraphIndex, GraphSource, load_graph
from phasegraph.graph.flat import LexicalSource

pytestmark = pytest.mark.skipif(not late_checks.LATER, reason="this system compares all checksums at once")


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Small files count as large."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr("phasegraph.graph.model.storage.PACKED_BYTES", 0)
    monkeypatch.setattr(serialization, "MAPPED_BYTES", 300)
    monkeypatch.setattr(serialization, "LATE_BYTES", 0)
    monkeypatch.setattr(serialization, "_SETTLED", -3600.0)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Checks that wait until a test lets them begin."""
    opened, run = threading.Event(), late_checks.LateCheck._run
    monkeypatch.setattr(late_checks.LateCheck, "_run", lambda self: (opened.wait(60), run(self)))
    return opened


def _vectors(count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(count, 8))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder that was copied from elsewhere: nothing is noted of its files."""
    rows = [{"id": f"p{i}", "title": f"Ada {i}", "text": f"Ada {i} met Bo {i % 7}."} for i in range(90)]
    GraphIndex.build(rows, embeddings=_vectors(90)).save(tmp_path / "made")
    shutil.copytree(tmp_path / "made", tmp_path / "copied")
    return tmp_path / "copied"


def _damage(folder: Path, name: str) -> str:
    """Change the last byte of an array, so that the arrays fit together still."""
    file = next(folder.glob(f"{name}.*.npy"))
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    return file.name


def _settle(graph: Any) -> None:
    graph.check_files(settled=True)


@pytest.mark.parametrize("name", ["embeddings", "records_text"])
@pytest.mark.parametrize("source", [GraphSource, LexicalSource])
def test_damage_found_in_the_background_ends_searches(
    copied: Path, gate: threading.Event, caplog: pytest.LogCaptureFixture, name: str, source: Any
) -> None:
    file = _damage(copied, name)
    index = GraphIndex.load(copied)
    asked = source(index.graph)
    assert asked.search("Whom did Ada 3 meet?", 5, {}).ids
    with caplog.at_level(logging.ERROR, "phasegraph"):
        gate.set()
        with pytest.raises(IntegrityError, match=f"{file}: the checksum"):
            _settle(index.graph)
    assert file in caplog.text
    for _ in range(2):
        with pytest.raises(IntegrityError, match=file):
            asked.search("Whom did Ada 3 meet?", 5, {})
    with pytest.raises(IntegrityError, match=file):
        index.records["p3"].text  # noqa: B018
    for load in (GraphIndex.load, load_graph):
        with pytest.raises(IntegrityError, match=f"{file}.*found by an earlier check"):
            load(copied)


def test_a_damaged_folder_that_was_restored_is_opened(copied: Path) -> None:
    file = copied / _damage(copied, "embeddings")
    with pytest.raises(IntegrityError, match="checksum"):
        _settle(GraphIndex.load(copied).graph)
    shutil.copy(copied.parent / "made" / file.name, file)
    _settle(GraphIndex.load(copied).graph)


def test_a_sound_folder_is_noted_when_the_check_ends(copied: Path, gate: threading.Event, monkeypatch: Any) -> None:
    begun: list[object] = []
    begin = late_checks.LateCheck.begin
    monkeypatch.setattr(late_checks.LateCheck, "begin", lambda *given: (begun.append(given), begin(*given)))
    first, second = GraphIndex.load(copied), GraphIndex.load(copied)
    assert len(begun) == 2
    gate.set()
    _settle(first.graph)
    _settle(second.graph)
    assert load_graph(copied).entities == first.graph.entities
    assert len(begun) == 2


def test_small_files_and_structure_are_checked_at_once(copied: Path, gate: threading.Event) -> None:
    small = [one for one in copied.glob("*.npy") if one.stat().st_size <= 300 and one.stat().st_size > 128]
    file = _damage(copied, small[0].name.split(".")[0])
    with pytest.raises(IntegrityError, match=f"{file}: the checksum"):
        GraphIndex.load(copied)
    gate.set()


@pytest.mark.parametrize(
    "name", ["walk_indices", "mentions_indices", "mentions_indptr", "lexical_rows", "name_word_rows", "records_ends",
             "entities_ends", "passages_order", "walk_indptr", "homes_indices"]
)  # fmt: skip
def test_arrays_that_lead_beyond_others_are_refused_before_a_search(
    copied: Path, gate: threading.Event, name: str
) -> None:
    """A forger computes checksums anew: no note, and no check that comes later, may stand for this one."""
    body, arrays = read_bundle(copied, "entity-graph", 1, mmap=False)
    wrong = arrays[name].copy()
    wrong[len(wrong) // 2] = 2**31 - 1
    write_bundle(copied, "entity-graph", 1, body, {**arrays, name: wrong})
    with pytest.raises(IntegrityError):
        GraphIndex.load(copied)
    gate.set()


def test_embeddings_of_another_length_are_refused_late_and_normalised_at_once(copied: Path) -> None:
    body, arrays = read_bundle(copied, "entity-graph", 1, mmap=False)
    write_bundle(copied, "entity-graph", 1, body, {**arrays, "embeddings": arrays["embeddings"] * 2.0})
    assert np.allclose(load_graph(copied, verify="again").embeddings, arrays["embeddings"])
    with pytest.raises(IntegrityError, match=r"embeddings\..*length 1; load the folder with verify='again'"):
        _settle(load_graph(copied).view)


def test_damage_is_not_saved_with_a_new_checksum(copied: Path, tmp_path: Path) -> None:
    _damage(copied, "embeddings")
    with pytest.raises(IntegrityError, match="embeddings"):
        GraphIndex.load(copied).save(tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_check_goes_on_when_a_writer_replaces_the_files(copied: Path, gate: threading.Event) -> None:
    graph = load_graph(copied)
    GraphIndex.build([{"id": "a", "text": "Ada met Bo."}]).save(copied)
    gate.set()
    _settle(graph)


def test_a_file_that_is_cut_off_during_the_check_is_damage(copied: Path, gate: threading.Event) -> None:
    graph = load_graph(copied)
    file = next(copied.glob("embeddings.*.npy"))
    os.truncate(file, file.stat().st_size - 1)
    mapped = [one for one in mapped_in([graph.embeddings]) if isinstance(one, MappedArray)]
    gate.set()
    with pytest.raises(IntegrityError, match=file.name):
        mapped[0].late.refuse_damaged(settled=True)  # type: ignore[union-attr]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_checks_what_its_parent_had_not(copied: Path, gate: threading.Event) -> None:
    _damage(copied, "embeddings")
    graph = load_graph(copied)
    child = os.fork()
    if not child:
        gate.set()
        try:
            _settle(graph)
        except IntegrityError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    gate.set()


def test_no_file_stays_open(copied: Path) -> None:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("open files are counted in /proc, which this system has not")
    gc.collect()  # cycles of earlier tests may hold files
    before = len(list(Path("/proc/self/fd").iterdir()))
    graph = load_graph(copied)
    _settle(graph)
    mapped = len({id(one._mmap) for one in graph.mapped})
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + mapped
