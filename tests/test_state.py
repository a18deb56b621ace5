"""What is saved: one writer at a time, readers see the old or the new, and nothing that is read ends the process."""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasegraph import FusionPipeline, IntegrityError, PhasegraphError, StoreError
from phasegraph._support.files import LOCK, one_writer, replace_file
from phasegraph._support.serialization import encode_document, read_bundle, read_document, write_bundle
from phasegraph.graph import ChunkGraph, EntityGraph, GraphIndex, build_chunk_graph, build_graph, load_graph, save_graph
from phasegraph.graph.corpus.change import Change
from phasegraph.graph.corpus.corpus import Corpus
from phasegraph.graph.corpus.folder import Folder

SPAWN = multiprocessing.get_context("spawn")
SECONDS = float(os.environ.get("PHASEGRAPH_STATE_SECONDS", "0.3"))
"""How long each kind of state is written and read at once; a longer run is asked for by the environment."""


def _passages(count: int, word: str) -> list[dict[str, str]]:
    return [{"id": f"p{row}", "title": f"Ada {row}", "text": f"Ada {row} met {word} {row}."} for row in range(count)]


def _vectors(count: int, fill: float) -> np.ndarray[Any, Any]:
    return np.full((count, 8), fill, dtype=np.float32) + np.eye(count, 8, dtype=np.float32)


# One kind of state after another: how it is written, and what a reader has to find, for two generations.


def _write_graph(path: Path, turn: int) -> None:
    save_graph(build_graph(_passages(60 + turn, "Bo"), embeddings=_vectors(60 + turn, 0.1)), path)


def _read_graph(path: Path) -> int:
    return len(load_graph(path).passages) - 60


def _write_index(path: Path, turn: int) -> None:
    GraphIndex.build(_passages(40 + turn, "Bo"), embeddings=_vectors(40 + turn, 0.1)).save(path)


def _read_index(path: Path) -> int:
    index = GraphIndex.load(path)
    assert [one.id for one in index.records.values()] == list(index.graph.passages)
    return len(index.graph.passages) - 40


def _write_chunks(path: Path, turn: int) -> None:
    build_chunk_graph(_passages(60 + turn, "Table 2"), documents=["one"] * (60 + turn)).save(path)


def _read_chunks(path: Path) -> int:
    return len(ChunkGraph.load(path).passages) - 60


def _write_pipeline(path: Path, turn: int) -> None:
    FusionPipeline(k=turn + 1).save(path)


def _read_pipeline(path: Path) -> int:
    return FusionPipeline.load(path).k - 1


def _write_folder(path: Path, turn: int) -> None:
    """Changes, and every third time the taking of them into the index."""
    if not (path / "folder.json").is_file():
        Corpus(GraphIndex.build(_passages(30, "Bo"))).save(path, {})
    folder = Folder(path)
    corpus = Corpus(folder.load()[0], folder=folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("phasegraph.graph.corpus.merging.FEWEST_CHANGED", 2)
        patch.setattr("phasegraph.graph.corpus.merging.MOST_CHANGED", 0.0)
        other = {"id": "p40", "title": "Cy", "text": "Cy sang.", "metadata": {}}
        if "p40" in corpus:
            corpus.replace(["p40"])
        else:
            corpus.replace((), [other])
        corpus.settle()


def _read_folder(path: Path) -> int:
    found = len(Folder(path).load()[0].graph.passages) - 30
    assert found in (0, 1)
    return found


STATES = {
    "graph": (_write_graph, _read_graph),
    "index": (_write_index, _read_index),
    "chunks": (_write_chunks, _read_chunks),
    "pipeline": (_write_pipeline, _read_pipeline),
    "folder": (_write_folder, _read_folder),
}


def _writing(folder: Path, start: Any, stops: dict[str, Any]) -> None:
    for kind in STATES:
        turn = 0
        start.wait(120)
        while not stops[kind].is_set():
            turn = 1 - turn
            STATES[kind][0](folder / kind, turn)


def _reading(folder: Path, start: Any, said: Any) -> None:
    for kind in STATES:
        failed, seen = [], [0, 0]
        start.wait(120)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or (not all(seen) and time.monotonic() < end + 60):  # a busy machine's is slow
            try:
                seen[STATES[kind][1](folder / kind)] += 1
            except Exception as error:  # noqa: BLE001 - each is a failure of the promise
                failed.append(f"{type(error).__name__}: {error}")
        said.put((kind, seen, failed))


@pytest.mark.timeout(600)
def test_readers_beside_a_writer_see_the_old_or_the_new(tmp_path: Path) -> None:
    """One kind of state after another, between the same three processes."""
    for kind, (write, _) in STATES.items():
        write(tmp_path / kind, 0)
    start, stops, said = SPAWN.Barrier(4), {kind: SPAWN.Event() for kind in STATES}, SPAWN.Queue()
    writers = [SPAWN.Process(target=_writing, args=(tmp_path, start, stops))]
    readers = [SPAWN.Process(target=_reading, args=(tmp_path, start, said)) for _ in range(2)]
    for one in [*writers, *readers]:
        one.start()
    for kind in STATES:
        start.wait(120)
        found = [said.get(timeout=SECONDS + 120) for _ in readers]
        stops[kind].set()
        assert [(named, failed) for named, _, failed in found] == [(kind, [])] * 2
        seen = np.sum([each for _, each, _ in found], axis=0)
        print(f"{kind}: {seen.sum()} loads, {seen.tolist()} of the two states, 0 failed")
        assert seen.min() > 0, kind
    for one in [*writers, *readers]:
        one.join(60)
        assert one.exitcode == 0


# Writers.


def _hold(path: Path, held: Any, seconds: float) -> None:
    with one_writer(path):
        held.set()
        time.sleep(seconds)


def test_a_second_writer_is_told_who_holds_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, held = build_graph(_passages(3, "Bo")), SPAWN.Event()
    save_graph(graph, tmp_path)
    monkeypatch.setattr("phasegraph._support.files.PATIENCE", 0.2)
    other = SPAWN.Process(target=_hold, args=(tmp_path, held, 600.0))
    other.start()
    try:
        assert held.wait(60)
        with pytest.raises(StoreError, match=rf"process {other.pid} on .*, since 20.* is writing to it"):
            save_graph(build_graph(_passages(4, "Bo")), tmp_path)
        assert len(load_graph(tmp_path).passages) == 3
    finally:
        other.kill()
        other.join()
    save_graph(build_graph(_passages(4, "Bo")), tmp_path)  # who dies gives the lock back
    assert len(load_graph(tmp_path).passages) == 4


def test_writers_wait_for_each_other_threads_included(tmp_path: Path) -> None:
    inside, most = [0], [0]
    lock = threading.Lock()

    def write() -> None:
        for _ in range(5):
            with one_writer(tmp_path):
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                time.sleep(0.002)
                with lock:
                    inside[0] -= 1

    threads = [threading.Thread(target=write) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert most == [1]
    assert not (tmp_path / LOCK).read_bytes()


def test_a_child_that_was_forked_while_a_file_was_written_does_not_hold_its_lock(tmp_path: Path) -> None:
    with one_writer(tmp_path):
        child = os.fork()
        if not child:
            time.sleep(30)
            os._exit(0)
    try:
        with one_writer(tmp_path, patience=0.0):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_what_a_lock_file_says_is_shown_only_where_it_can_be(tmp_path: Path) -> None:
    with one_writer(tmp_path):
        (tmp_path / LOCK).write_bytes(b"\x1b]0;owned\x07")
        with pytest.raises(StoreError, match="another writer is writing to it"), one_writer(tmp_path, patience=0.0):
            pass


# What writers that died have left.


def _die_writing(path: Path, how: str) -> None:
    os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
    if how == "document":
        FusionPipeline().save(path)
    else:
        save_graph(build_graph(_passages(3, "Bo")), path)


@pytest.mark.parametrize("how", ["document", "bundle"])
def test_the_next_save_removes_what_a_writer_that_died_has_left(tmp_path: Path, how: str) -> None:
    path = tmp_path / "state"
    save = FusionPipeline().save if how == "document" else lambda to: save_graph(build_graph(_passages(3, "Bo")), to)
    save(path)
    folder = tmp_path if how == "document" else path
    before = sorted(one.name for one in folder.iterdir())
    for _ in range(2):
        other = SPAWN.Process(target=_die_writing, args=(path, how))
        other.start()
        other.join(60)
        assert other.exitcode == -signal.SIGKILL
    assert sorted(one.name for one in folder.iterdir()) != before
    save(path)
    assert sorted(one.name for one in folder.iterdir()) == before


def test_what_a_living_writer_is_writing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, mine = os.fsync, tmp_path / ".state.json.swp"
    mine.write_text("an editor's")

    def meanwhile(descriptor: int) -> None:
        monkeypatch.setattr("os.fsync", sync)
        replace_file(tmp_path / "state.json", b"two")
        assert len(list(tmp_path.glob(".state.json.*.partial"))) == 1

    monkeypatch.setattr("os.fsync", meanwhile)
    replace_file(tmp_path / "state.json", b"one")
    assert (tmp_path / "state.json").read_bytes() == b"one"
    assert sorted(one.name for one in tmp_path.iterdir()) == [mine.name, "state.json"]


def test_a_document_that_is_being_written_into_the_folder_of_a_bundle_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def meanwhile(descriptor: int) -> None:
        monkeypatch.setattr("os.fsync", sync)
        save_graph(build_graph(_passages(3, "Bo")), tmp_path)

    monkeypatch.setattr("os.fsync", meanwhile)
    FusionPipeline(k=7).save(tmp_path / "pipeline.json")
    assert FusionPipeline.load(tmp_path / "pipeline.json").k == 7


# Bundles whose checksums are right, and whose content is hostile.


def _header(shape: str, descr: str = "'<i4'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    body = text.encode() + b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


def _sealed(target: Path, data: bytes, entry: dict[str, Any]) -> None:
    """A bundle with one array, sealed as ours are; `entry` says what the manifest claims otherwise."""
    digest = hashlib.sha256(data).hexdigest()
    file = f"a.{digest[:16]}.npy"
    (target / file).write_bytes(data)
    said = {"file": file, "sha256": digest, "bytes": len(data), "shape": [3], "dtype": "<i4"}
    body = {"arrays": {"a": said | entry}, "content": {}}
    (target / "manifest.json").write_bytes(encode_document("graph", 1, body))


DATA = np.arange(3, dtype=np.int32).tobytes()
HOSTILE: dict[str, tuple[bytes, dict[str, Any]]] = {
    "3.6 TiB": (_header("(1000000000000,)") + DATA, {"shape": [1000000000000]}),
    "more than there are numbers": (_header(f"({10**17}, {10**17})") + DATA, {"shape": [10**17, 10**17]}),
    "nothing, of absurd width": (_header(f"(0, {10**17})"), {"shape": [0, 10**17]}),
    "a negative size": (_header("(-3,)") + DATA, {"shape": [-3]}),
    "a shape that is a program": (_header("(3*1,)") + DATA, {}),
    "a header of brackets": (_header("(" * 20_000 + ")" * 20_000) + DATA, {}),
    "a header of digits": (_header("(" + "1" * 30_000 + "x)") + DATA, {}),
    "elements without a size": (_header(f"({10**15},)", "'|V0'"), {"shape": [10**15], "dtype": "|V0"}),
    "objects": (_header("(3,)", "'|O'") + DATA, {"dtype": "|O"}),
    "records": (_header("(3,)", "[('a', '<i4')]") + DATA, {"dtype": "<i4"}),
    "long text": (_header("(3,)", "'<U1000000000'") + DATA, {"dtype": "<U1000000000"}),
    "dates": (_header("(3,)", "'<M8[s]'") + DATA, {"dtype": "<M8[s]"}),
    "columns first": (_header("(3,)").replace(b"False", b"True ") + DATA, {}),
    "another version": (_header("(3,)").replace(b"NUMPY\x01", b"NUMPY\x03") + DATA, {}),
    "half a header": (_header("(3,)")[:40], {}),
    "no bytes at all": (b"", {}),
    "a pickle": (b"\x80\x04\x95\x00", {}),
    "a size that is text": (_header("(3,)") + DATA, {"bytes": "many"}),
    "a size of 4,000 digits": (_header("(3,)") + DATA, {"bytes": 10**4000}),
    "a file elsewhere": (_header("(3,)") + DATA, {"file": "../../etc/passwd"}),
    "a file with a line break": (_header("(3,)") + DATA, {"file": "a.0123456789abcdef.npy\n"}),
    "no name": (_header("(3,)") + DATA, {"file": None}),
}


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("case", HOSTILE)
def test_a_resealed_array_is_refused(tmp_path: Path, case: str, mmap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph._support.serialization.MAPPED_BYTES", 0)
    data, entry = HOSTILE[case]
    _sealed(tmp_path, data, entry)
    for verify in (True, False):
        with pytest.raises(IntegrityError):
            read_bundle(tmp_path, "graph", 1, mmap=mmap, verify=verify)


def test_what_the_cases_above_are_made_of_is_sound(tmp_path: Path) -> None:
    _sealed(tmp_path, _header("(3,)") + DATA, {})
    assert read_bundle(tmp_path, "graph", 1)[1]["a"].tolist() == [0, 1, 2]
    write_bundle(tmp_path / "big", "graph", 1, {}, {"a": np.arange(3, dtype=">i4"), "b": np.zeros((0, 5), dtype="<f2")})
    found = read_bundle(tmp_path / "big", "graph", 1)[1]
    assert (found["a"].tolist(), found["a"].dtype.isnative, found["b"].shape) == ([0, 1, 2], True, (0, 5))


DEEP: Any = 1
for _ in range(90):
    DEEP = [DEEP]

BODIES: dict[str, Callable[[dict[str, Any]], None]] = {
    f"{key} = {name}": lambda content, key=key, value=value: content.update({key: value})
    for key in ("passages", "entities", "weights", "tokenizer", "gazetteer", "change", "retitled", "synonyms")
    for name, value in {
        "deep": DEEP, "10**400": 10**400, "-1": -1, "1e308": 1e308, "true": True, "text": "x", "null": None,
        "list of lists": [[1], {"a": []}], "mapping": {"home": 10**400, "threshold": "x", "required": []},
    }.items()
}  # fmt: skip


@pytest.mark.parametrize("case", BODIES)
def test_a_resealed_body_is_refused_or_harmless(tmp_path: Path, case: str) -> None:
    GraphIndex.build(_passages(5, "Bo")).save(tmp_path)
    manifest = tmp_path / "manifest.json"
    body = read_document(manifest, "entity-graph", 1)
    BODIES[case](body["content"])  # type: ignore[arg-type]
    manifest.write_bytes(encode_document("entity-graph", 1, body))
    for load in (GraphIndex.load, load_graph):
        with contextlib.suppress(IntegrityError):
            load(tmp_path)


@pytest.mark.parametrize("depth", [101, 500, 900, 960, 990, 5000, 100_000])
def test_lists_in_lists_are_refused_and_never_recursed_into(tmp_path: Path, depth: int) -> None:
    text = '{"format": "phasegraph", "kind": "pipeline", "version": 1, "body": {"k": %s}}' % ("[" * depth + "]" * depth)
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(IntegrityError):
        FusionPipeline.load(tmp_path / "p.json")


@pytest.mark.parametrize("value", [DEEP, 10**400, -(10**400), 1e308, 5e-324, "x" * 100_000, {"a": {}}, [], None])
def test_a_resealed_pipeline_is_refused_or_sound(tmp_path: Path, value: Any) -> None:
    body = FusionPipeline().to_dict()
    for key in body:
        (tmp_path / "p.json").write_bytes(encode_document("pipeline", 1, {**body, key: value}))
        with contextlib.suppress(PhasegraphError):
            FusionPipeline.load(tmp_path / "p.json")


def test_a_record_that_is_no_record_is_refused_when_it_is_read(tmp_path: Path) -> None:
    GraphIndex.build(_passages(2, "Bo")).save(tmp_path)
    body, arrays = read_bundle(tmp_path, "entity-graph", 1, mmap=False)
    line = b'{"id": "p0", "title": 5, "text": "x", "found": {}, "given": []}'
    for bad in (line, b"[" * 100_000, b"5", b'"x"', b"{}", b'{"id": "p0", "found": 1}', b"\xff"):
        text, ends = bad + b"{}", [len(bad), len(bad) + 2]
        wrong = {"records_text": np.frombuffer(text, dtype=np.uint8), "records_ends": np.array(ends, dtype=np.int64)}
        write_bundle(tmp_path, "entity-graph", 1, body, {**arrays, **wrong})
        index = GraphIndex.load(tmp_path)
        with pytest.raises(IntegrityError, match="p0"):
            index.records["p0"]


@pytest.mark.parametrize("lines", [["5"], ["[]"], ['{"id": 5}'], ['{"id": "a"}'], ["[" * 100_000], ['{"id": "p0"}']])
def test_a_change_that_is_no_change_is_refused(tmp_path: Path, lines: list[str]) -> None:
    from phasegraph.graph.model.storage import packed

    Corpus(GraphIndex.build(_passages(3, "Bo"))).save(tmp_path / "f", {})
    arrays = packed("passages", lines) | packed("removed", [])
    write_bundle(tmp_path / "f" / "changes" / "00000001", "passage-change", 1, {"passages": 1}, arrays)
    with pytest.raises(IntegrityError):
        Folder(tmp_path / "f").load()


# Arrays that are damaged where checksums are not looked at: whatever happens, the process goes on.

_PROBE = """
import json, sys, warnings
import numpy as np
from phasegraph import PhasegraphError
from phasegraph.graph import ChunkGraph, ChunkGraphSource, GraphSource, load_graph
from phasegraph._support.serialization import read_bundle, write_bundle

where, kind, first, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
warnings.simplefilter("error")
body, sound = read_bundle(where + "/sound", kind, 1, mmap=False)
refused = answered = 0
for seed in range(first, last):
    rng = np.random.default_rng(seed)
    name = sorted(sound)[rng.integers(len(sound))]
    array = sound[name].copy()
    if array.size:
        row = tuple(rng.integers(size) for size in array.shape)
        way = rng.integers(6)
        if array.dtype.kind == "f":
            array[row] = [np.nan, np.inf, -np.inf, -1, 3e38, 1e-45][way]
        else:
            most = np.iinfo(array.dtype)
            array[row] = [most.max, most.min, -1 % 256 if most.min == 0 else -1, array[row] // 2, most.max // 2, 0][way]
    if rng.random() < 0.2:
        array = np.concatenate([array, array[-1:]]) if rng.random() < 0.5 else array[:-1]
    elif rng.random() < 0.1:
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(["<f8", "<i8", "|u1", "<u8", "<u4", "|b1", "<f4"]))
    elif rng.random() < 0.1:
        array = array.reshape(-1, 1) if array.ndim == 1 else array.ravel()
    write_bundle(where + "/damaged", kind, 1, body, {**sound, name: array})
    try:
        if kind == "chunk-graph":
            graph = ChunkGraph.load(where + "/damaged", verify=False)
            source = ChunkGraphSource(graph, embedder=lambda query: np.ones(8))
        else:
            graph = load_graph(where + "/damaged", verify=False)
            source = GraphSource(graph, embedder=lambda query: np.ones(8))
        ranking = source.search("Whom did Ada 3 meet?", 10, {})
        assert np.isfinite(ranking.scores).all(), (seed, name)
        for one in ranking.ids:
            ranking.payloads[one]
        answered += 1
    except PhasegraphError:
        refused += 1
    except BaseException:
        print("seed", seed, name, file=sys.stderr)
        raise
print(json.dumps([refused, answered]))
"""


@pytest.mark.parametrize("kind", ["entity-graph", "chunk-graph"])
def test_damaged_arrays_never_end_the_process(tmp_path: Path, kind: str) -> None:
    passages, vectors = _passages(30, "Table 2"), _vectors(30, 0.1)
    triples = {"p1": [("Ada 1", "met", "Table 2")], "p2": [("Ada 2", "met", "Ada 3")]}
    if kind == "entity-graph":
        save_graph(build_graph(passages, triples=triples, embeddings=vectors), tmp_path / "sound")
    else:
        build_chunk_graph(passages, documents=["one"] * 30, embeddings=vectors).save(tmp_path / "sound")
    count = int(os.environ.get("PHASEGRAPH_DAMAGED", "80"))
    command = [sys.executable, "-X", "faulthandler", "-c", _PROBE, str(tmp_path), kind, "0", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    refused, answered = json.loads(done.stdout)
    assert refused + answered == count
    assert refused > count // 4


_CUT_OFF = """
import os, sys
import numpy as np
import phasegraph._support.serialization
phasegraph._support.serialization.MAPPED_BYTES = 4096
from phasegraph import IntegrityError
from phasegraph.graph import (
    ChunkGraph, ChunkGraphSource, GraphIndex, GraphSource, LexicalSource, VectorSource, load_graph, save_graph
)
from pathlib import Path

where, what = Path(sys.argv[1]), sys.argv[2]
embed = lambda query: np.ones(8)
if what == "chunks":
    graph = ChunkGraph.load(where)
    source = ChunkGraphSource(graph, embedder=embed)
    uses = [lambda: source.search("q", 5, {}), lambda: graph.save(where / "again"), lambda: graph.kinds("p0", "p1")]
else:
    index = GraphIndex.load(where)
    graph = index.graph
    walk, words, near = GraphSource(graph, embedder=embed), LexicalSource(graph), VectorSource(graph, embedder=embed)
    ranking = walk.search("Whom did Ada 3 meet?", 5, {})
    uses = [
        lambda: walk.search("Whom did Ada 3 meet?", 5, {}),
        lambda: words.search("Whom did Ada 3 meet?", 5, {}),
        lambda: near.search("Whom did Ada 3 meet?", 5, {}),
        lambda: ranking.payloads[ranking.ids[0]],
        lambda: walk.within({"p0", "p1"}),
        lambda: save_graph(graph, where / "again"),
        lambda: index.save(where / "again"),
        lambda: index.remove(["p1"]),
        lambda: index.records["p2999"],
        lambda: GraphSource(graph).prepare(),
    ]
for file in where.glob("*.npy"):
    if what == "removed":
        file.unlink()
    else:
        os.truncate(file, 100)
for number, use in enumerate(uses):
    try:
        use()
    except IntegrityError as error:
        assert "was truncated" in str(error), error
    else:
        assert what == "removed", number
print("alive")
"""


@pytest.mark.parametrize("what", ["index", "chunks", "removed"])
def test_a_mapped_file_that_is_cut_off_is_an_error_and_one_that_is_removed_stays(tmp_path: Path, what: str) -> None:
    passages, vectors = _passages(3000, "Bo"), np.random.default_rng(0).normal(size=(3000, 8))
    if what == "chunks":
        build_chunk_graph(passages, documents=["one"] * 3000, embeddings=vectors).save(tmp_path)
    else:
        GraphIndex.build(passages, embeddings=vectors).save(tmp_path)
    command = [sys.executable, "-c", _CUT_OFF, str(tmp_path), what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_arrays_of_up_to_a_mebibyte_are_out_of_that_danger(tmp_path: Path) -> None:
    save_graph(build_graph(_passages(30, "Bo"), embeddings=_vectors(30, 0.1)), tmp_path)
    graph = load_graph(tmp_path)
    for file in tmp_path.glob("*.npy"):
        os.truncate(file, 100)
    assert _bytes_of(graph) == _bytes_of(build_graph(_passages(30, "Bo"), embeddings=_vectors(30, 0.1)))


def _bytes_of(graph: EntityGraph) -> list[bytes]:
    return [getattr(graph, name).data.tobytes() for name in ("mentions", "homes", "embeddings", "adjacency")]


def test_a_change_is_read_as_it_was_written(tmp_path: Path) -> None:
    change = Change(("a",), ({"id": "b", "title": "", "text": "x", "metadata": {}},), np.ones((1, 4), dtype=np.float32))
    change.write(tmp_path)
    again = Change.read(tmp_path)
    assert (again.removed, again.passages) == (change.removed, change.passages)
