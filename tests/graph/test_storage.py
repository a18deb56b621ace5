from __future__ import annotations

import multiprocessing
import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.graph_bits import same_graph
from tests.repeats import repeats

from phasegraph import IntegrityError, InvalidTypeError
from phasegraph._support.serialization import read_bundle, write_bundle
from phasegraph.graph import ChunkGraph, EntityGraph, GraphIndex, GraphSource, SummaryTree, build_graph
from phasegraph.graph.model.storage import load_graph, save_graph

NAMES = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo"]


def _graph(count: int = 60, seed: int = 0) -> EntityGraph:
    rng = np.random.default_rng(seed)
    passages = [
        {"id": f"p{i}", "title": f"{NAMES[i % 6]} {i}", "text": f"{NAMES[i % 6]} {i} met {NAMES[(i + 1) % 6]} {i + 1}."}
        for i in range(count)
    ]
    triples = {f"p{i}": [(f"{NAMES[i % 6]} {i}", "met", f"{NAMES[(i + 1) % 6]} {i + 1}")] for i in range(count)}
    return build_graph(passages, triples=triples, embeddings=rng.normal(size=(count, 16)))


@pytest.mark.parametrize("mmap", [True, False])
def test_a_saved_graph_comes_back_bit_equal(tmp_path: Path, mmap: bool) -> None:
    graph = _graph()
    save_graph(graph, tmp_path)
    again = load_graph(tmp_path, mmap=mmap)
    same_graph(graph, again)
    query = "Whom did Ada 0 meet?"
    assert GraphSource(graph).search(query, 5, {}).ids == GraphSource(again).search(query, 5, {}).ids


def test_large_arrays_are_mapped_and_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph._support.serialization.MAPPED_BYTES", 4096)
    save_graph(_graph(400), tmp_path)
    found = load_graph(tmp_path).embeddings
    owner: object = found
    while isinstance(owner, np.ndarray) and not isinstance(owner, np.memmap):
        owner = owner.base
    assert isinstance(owner, np.memmap)


def test_ids_of_any_script_survive(tmp_path: Path) -> None:
    passages = [
        {"id": "é\u202e", "text": "Ada met Bo."},
        {"id": "日本", "text": "Bo sang."},
        {"id": "\ud800", "text": "Cy."},
    ]
    save_graph(build_graph(passages), tmp_path)
    assert load_graph(tmp_path).passages == ("é\u202e", "日本", "\ud800")


def test_a_folder_is_made_where_a_graph_is_saved(tmp_path: Path) -> None:
    save_graph(_graph(12), tmp_path / "graph")
    same_graph(load_graph(tmp_path / "graph"), _graph(12))


def test_reading_where_nothing_was_saved_says_so(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="manifest"):
        load_graph(tmp_path)
    with pytest.raises(InvalidTypeError, match="EntityGraph"):
        save_graph("graph", tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("change", ["truncate", "flip", "remove"])
def test_every_damaged_file_is_named(tmp_path: Path, change: str) -> None:
    save_graph(_graph(), tmp_path)
    for file in sorted(tmp_path.glob("*.npy")):
        data = file.read_bytes()
        if change == "truncate":
            file.write_bytes(data[:-1])
        elif change == "flip":
            file.write_bytes(data[:-1] + bytes([data[-1] ^ 255]))
        else:
            file.unlink()
        with pytest.raises(IntegrityError, match=file.name):
            load_graph(tmp_path)
        file.write_bytes(data)
    same_graph(load_graph(tmp_path), _graph())


def test_parts_that_are_intact_but_do_not_fit_are_refused(tmp_path: Path) -> None:
    save_graph(_graph(), tmp_path)
    body, arrays = read_bundle(tmp_path, "entity-graph", 1, mmap=False)
    wrong = dict(arrays)
    wrong["mentions_indices"] = arrays["mentions_indices"] + np.int32(10_000)
    write_bundle(tmp_path, "entity-graph", 1, body, wrong)
    with pytest.raises(IntegrityError, match="column numbers of mentions"):
        load_graph(tmp_path)
    write_bundle(tmp_path, "entity-graph", 1, body, {n: a for n, a in arrays.items() if n != "entities_text"})
    with pytest.raises(IntegrityError, match="entities_text"):
        load_graph(tmp_path)
    write_bundle(tmp_path, "entity-graph", 1, {**body, "passages": 3}, arrays)
    with pytest.raises(IntegrityError, match="manifest"):
        load_graph(tmp_path)


def _save_and_die(graph: EntityGraph, directory: Path, step: int) -> None:
    """Save a graph, and end the process before operation number `step`; a file that is not synced is cut in half."""
    left = iter(range(step))

    def dies(call: Any) -> Any:
        def called(*given: Any, **more: Any) -> Any:
            if next(left, None) is None:
                if call is fsync and stat.S_ISREG(os.fstat(given[0]).st_mode):
                    os.ftruncate(given[0], os.fstat(given[0]).st_size // 2)
                os._exit(9)
            return call(*given, **more)

        return called

    fsync = os.fsync
    for name in ("fsync", "replace", "unlink"):
        setattr(os, name, dies(getattr(os, name)))
    save_graph(graph, directory)
    os._exit(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is killed in a fork")
def test_a_process_killed_while_saving_leaves_the_old_graph_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # the disk takes most of the time
    small, large = _graph(20), _graph(40)
    sizes, codes = [20], []
    save_graph(small, tmp_path)
    for step in range(0, 1000, repeats(2, 4)):
        if sizes[-1] != 20:
            save_graph(small, tmp_path)
        process = multiprocessing.get_context("fork").Process(target=_save_and_die, args=(large, tmp_path, step))
        process.start()
        process.join()
        codes.append(process.exitcode)
        sizes.append(len(load_graph(tmp_path).passages))
        if process.exitcode == 0:
            break
    assert codes == [9] * (len(codes) - 1) + [0]
    assert sizes == sorted(sizes)
    assert set(sizes) == {20, 40}
    assert sizes[-2] == 40, "it was killed after the new graph was complete, too"


@pytest.mark.parametrize("load", [load_graph, GraphIndex.load, ChunkGraph.load, SummaryTree.load])
def test_a_folder_that_does_not_exist_is_named_as_such(load: Any, tmp_path: Path) -> None:
    nope = tmp_path / "missing" / "nope"
    with pytest.raises(
        IntegrityError, match=f"^the folder {re.escape(repr(str(nope)))} does not exist: check the path$"
    ):
        load(nope)
    with pytest.raises(IntegrityError, match=r"is a directory with a manifest\.json"):
        load(tmp_path)
