"""A graph whose names stay where they were saved, and files that are checked once."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
from bisect import bisect_left
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from repeats import repeats
from tests.graph_bits import same_graph

from phasegraph import IntegrityError
from phasegraph._support.packed import PackedTexts, TextRows, merged_names
from phasegraph._support.serialization import MANIFEST, read_bundle, write_bundle
from phasegraph.graph import EntityGraph, GraphIndex, GraphSource, load_graph
from phasegraph.graph.model.storage import packed
from phasegraph.lexical import LexicalIndex

NAMES = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Łukasz", "日本"]
TEXTS = ["", "a", "a\0", "ab", "é", "日本", "\ud800", "\uffff", "\U0001f600"]


@pytest.fixture(autouse=True)
def _packed(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr("phasegraph.graph.model.storage.PACKED_BYTES", 0)
    monkeypatch.setattr("phasegraph._support.serialization.MAPPED_BYTES", 64)
    monkeypatch.setattr("phasegraph._support.serialization._SETTLED", -3600.0)


def _note(folder: Path) -> Path:
    """Where it is noted that the files of a folder were checked."""
    digest = hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    return Path(os.environ["XDG_CACHE_HOME"]) / "phasegraph" / "checked" / f"{digest}.json"


def _passages(count: int, first: int = 0) -> list[dict[str, str]]:
    return [
        {"id": f"p{i * 7 % 100}", "title": f"{NAMES[i % 8]} {i}", "text": f"{NAMES[i % 8]} {i} met {NAMES[i % 5]}."}
        for i in range(first, first + count)
    ]


def _vectors(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(count, 8))


def _index(count: int = 40) -> GraphIndex:
    return GraphIndex.build(_passages(count), embeddings=_vectors(count))


def _same(one: EntityGraph, other: EntityGraph) -> None:
    same_graph(one, other)
    assert one.passage_rows == other.passage_rows
    for name in ("weights", "indices", "indptr", "inverse_out", "out_degrees", "costs"):
        assert getattr(one.operator, name).tobytes() == getattr(other.operator, name).tobytes(), name
    assert one.frequency.tobytes() == other.frequency.tobytes()
    assert one.anchored.tobytes() == other.anchored.tobytes()


def _texts(given: list[str]) -> PackedTexts:
    arrays = packed("x", given)
    return PackedTexts(arrays["x_text"], arrays["x_ends"])


def test_packed_texts_are_the_tuple_of_them() -> None:
    texts, plain = _texts(TEXTS), tuple(TEXTS)
    assert texts == plain
    assert plain == texts
    assert texts == _texts(TEXTS)
    assert (texts == _texts(TEXTS[1:]), texts == ["a"]) == (False, False)
    assert hash(texts) == hash(plain)
    assert (len(texts), texts[-1], texts[2:5], list(texts), texts.index("é")) == (9, plain[-1], plain[2:5], TEXTS, 4)
    assert (repr(texts), copy.deepcopy(texts)) == (repr(plain), plain)
    assert pickle.loads(pickle.dumps(texts)) == plain  # noqa: S301 - our own
    for outside in (9, -10):
        with pytest.raises(IndexError):
            texts[outside]
    assert list(_texts([])) == []


def test_rows_are_found_in_any_order() -> None:
    shuffled = [TEXTS[place] for place in np.random.default_rng(0).permutation(len(TEXTS))]
    rows = TextRows(_texts(shuffled))
    assert dict(rows) == {text: row for row, text in enumerate(shuffled)}
    assert [one in rows for one in ("b", "a\0\0", "\U0001f601", 5)] == [False] * 4


def test_ids_that_were_read_are_found_in_a_cache_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph._support.packed._MOST_CACHED", 3)
    rows = TextRows(_texts(NAMES))
    for first in range(0, len(NAMES), 2):
        read = np.arange(first, len(NAMES))
        assert rows.texts_at(read) == NAMES[first:]
        assert 0 < len(rows._known) <= 3
        assert [rows[name] for name in NAMES] == list(range(len(NAMES)))
    assert ["Ada"] not in rows


@pytest.mark.parametrize("stride", [1, 2, 7, 256])
def test_places_are_those_of_bisection(stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph._support.packed._STRIDE", stride)
    names = sorted({f"{first} {second}" for first in "abcdé" for second in ("", "x", "xy", "日")} | {"b"})
    texts = _texts(names)
    for sought in [*names, "", "a", "c ", "cc", "d xyz", "zz", "\ud800"]:
        for first in (0, 3, len(names)):
            assert texts.place(sought, first) == bisect_left(names, sought, first), (sought, first)
    rows = TextRows(texts)
    assert [rows[name] for name in names] == list(range(len(names)))
    assert "cc" not in rows


def test_bytes_that_are_no_text_are_damage() -> None:
    texts = PackedTexts(np.array([255, 97], dtype=np.uint8), np.array([1, 2]))
    assert texts[1] == "a"
    with pytest.raises(IntegrityError, match="damaged"):
        texts[0]


@pytest.mark.parametrize("verify", [True, False, "again"])
def test_a_packed_graph_is_the_one_that_was_saved(tmp_path: Path, verify: Any) -> None:
    index = _index()
    index.save(tmp_path)
    for _ in range(2):  # the second finds that the files have been checked
        graph = load_graph(tmp_path, verify=verify)
        assert isinstance(graph.passages, PackedTexts)
        assert isinstance(graph.entities, PackedTexts)
        _same(graph, index.graph)
        for query in ("Whom did Ada 0 meet?", "Łukasz 6", "Who met Bo 1?"):
            one, other = (
                GraphSource(each, embedder=lambda text: np.ones(8)).search(query, 9, {})
                for each in (graph, index.graph)
            )
            assert (one.ids, one.scores.tolist(), one.background) == (
                other.ids,
                other.scores.tolist(),
                other.background,
            )
            assert [str(one.payloads[name]) for name in one.ids] == [str(other.payloads[name]) for name in other.ids]


def test_a_packed_index_is_updated_to_the_bit_of_a_rebuild(tmp_path: Path) -> None:
    _index(30).save(tmp_path)
    more = GraphIndex.load(tmp_path).add(_passages(10, 30), embeddings=_vectors(40)[30:])
    whole = GraphIndex.build(_passages(40), embeddings=np.concatenate([_vectors(30), _vectors(40)[30:]]))
    _same(more.graph, whole.graph)
    assert dict(more.records) == dict(whole.records)
    gone = [one["id"] for one in _passages(30)]
    _same(more.remove(gone).graph, whole.remove(gone).graph)


def test_a_bundle_without_what_follows_from_it_still_loads(tmp_path: Path) -> None:
    """As older versions wrote it."""
    index = _index()
    index.save(tmp_path)
    body, arrays = read_bundle(tmp_path, "entity-graph", 1, mmap=False)
    fewer = {
        name: one
        for name, one in arrays.items()
        if not name.startswith("walk_") and name not in ("frequency", "anchored", "passages_order")
    }
    assert len(fewer) == len(arrays) - 9
    write_bundle(tmp_path, "entity-graph", 1, body, fewer)
    for _ in range(2):
        _same(GraphIndex.load(tmp_path).graph, index.graph)
    assert not _note(tmp_path).exists()


def test_an_index_of_an_older_version_keeps_its_words_as_they_were_counted(tmp_path: Path) -> None:
    """It splits questions and new passages as its own were."""
    passages = [{"id": "a", "text": "see find_peaks"}, {"id": "b", "text": "no peaks"}]
    old = GraphIndex.build(passages, tokenizer="english-without-parts")
    old.save(tmp_path)
    body, arrays = read_bundle(tmp_path, "entity-graph", 1, mmap=False)
    del body["identifiers_split"]
    write_bundle(tmp_path, "entity-graph", 1, {**body, "tokenizer": "english"}, arrays)
    loaded = GraphIndex.load(tmp_path)
    assert loaded.graph.lexical.look_up("peaks").scores.tolist() == old.graph.lexical.look_up("peaks").scores.tolist()
    more = loaded.add([{"id": "c", "text": "find_peaks again"}])
    assert tuple(more.graph.lexical.vocabulary) == ("again", "find_peaks", "peaks", "see")
    more.save(tmp_path)
    assert GraphIndex.load(tmp_path).graph.lexical.tokenizer == "english-without-parts"


@pytest.mark.parametrize("name", ["walk_data", "walk_indices", "walk_inverse_out", "walk_costs", "walk_out_degrees",
                                  "frequency", "anchored", "passages_order", "entities_text"])  # fmt: skip
def test_what_follows_is_checked_before_it_is_believed(tmp_path: Path, name: str) -> None:
    _index().save(tmp_path)
    body, arrays = read_bundle(tmp_path, "entity-graph", 1, mmap=False)
    wrong = arrays[name].copy()
    wrong[1] = {"walk_data": -1, "walk_indices": 10**6, "anchored": not wrong[1]}.get(name, wrong[1] + 1)
    write_bundle(tmp_path, "entity-graph", 1, body, {**arrays, name: wrong})
    for verify in (True, False):
        with pytest.raises(IntegrityError):
            load_graph(tmp_path, verify=verify)


def test_files_are_checked_once_for_each_of_their_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _index().save(tmp_path)
    _note(tmp_path).unlink()  # as after copying them elsewhere
    read = []
    digest = "phasegraph._support.serialization.hashlib.file_digest"
    plain = hashlib.file_digest
    monkeypatch.setattr(digest, lambda handle, name: read.append(1) or plain(handle, name))
    load_graph(tmp_path)
    first = len(read)
    assert first == len(list(tmp_path.glob("*.npy")))
    load_graph(tmp_path)
    assert len(read) == first
    GraphIndex.load(tmp_path)  # the graph's reader has not looked at the records
    assert len(read) == 2 * first
    GraphIndex.load(tmp_path)
    load_graph(tmp_path)
    assert len(read) == 2 * first
    load_graph(tmp_path, verify="again")
    assert len(read) == 3 * first


def test_what_was_just_saved_is_not_read_again_to_open_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = _index()
    index.save(tmp_path)
    monkeypatch.setattr("phasegraph._support.serialization.hashlib.file_digest", None)
    monkeypatch.setattr(EntityGraph, "__post_init__", None)
    assert GraphIndex.load(tmp_path).graph.passages == index.graph.passages
    assert load_graph(tmp_path).entities == index.graph.entities


def test_a_file_that_changes_while_the_others_are_written_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from phasegraph._support import serialization

    plain = serialization.write_document

    def later(path: Path, *content: Any) -> None:
        plain(path, *content)
        file = next(path.parent.glob("mentions_data.*"))
        written = file.stat().st_mtime_ns
        file.write_bytes(file.read_bytes()[:-1] + b"\x7f")
        os.utime(file, ns=(written + 10**7, written + 10**7))  # as if the clock of the file system had gone on

    monkeypatch.setattr("phasegraph._support.serialization.write_document", later)
    _index().save(tmp_path)
    with pytest.raises(IntegrityError, match="checksum"):
        GraphIndex.load(tmp_path)


def test_a_clock_that_cannot_tell_a_change_from_the_writing_notes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phasegraph._support.serialization._COARSE", 1)
    _index().save(tmp_path)
    assert not _note(tmp_path).exists()
    monkeypatch.setattr("phasegraph._support.serialization._COARSE", 10**30)
    monkeypatch.setattr("phasegraph._support.serialization._MOST_TICKS", 0)
    _index().save(tmp_path)
    assert not _note(tmp_path).exists()


@pytest.mark.parametrize("opened", [True, False])
def test_damage_after_a_check_is_found(tmp_path: Path, opened: bool) -> None:
    _index().save(tmp_path)
    if opened:
        _note(tmp_path).unlink()
        GraphIndex.load(tmp_path)
    assert _note(tmp_path).is_file()
    for file in sorted(tmp_path.glob("*.npy")):
        data, times = file.read_bytes(), file.stat()
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 255]))
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # as if nothing had happened
        with pytest.raises(IntegrityError, match=file.name):
            GraphIndex.load(tmp_path)
        file.write_bytes(data)
    GraphIndex.load(tmp_path)


@pytest.mark.parametrize(
    "found", [b"", b"[]", b"{}", b'{"readers": 5}', b"[" * 100_000, b'{"readers": ["graph"]}', b"\xff"]
)
def test_a_damaged_note_of_the_check_is_no_note(tmp_path: Path, found: bytes) -> None:
    index = _index()
    index.save(tmp_path)
    _note(tmp_path).write_bytes(found)
    _same(load_graph(tmp_path), index.graph)


def test_files_that_have_just_changed_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second change within the clock's grain would leave the same times."""
    settled = "phasegraph._support.serialization._SETTLED"
    monkeypatch.setattr(settled, 3600.0)
    _index().save(tmp_path)
    read = []
    plain = hashlib.file_digest
    monkeypatch.setattr(
        "phasegraph._support.serialization.hashlib.file_digest", lambda *of: read.append(1) or plain(*of)
    )
    load_graph(tmp_path)
    assert read  # although it was noted that they need not be
    _note(tmp_path).unlink()
    load_graph(tmp_path)
    assert not _note(tmp_path).exists()
    monkeypatch.setattr(settled, 0.0)
    load_graph(tmp_path)
    assert _note(tmp_path).exists()


@settings(max_examples=repeats(120, 30), deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(-1, 7), max_size=14), st.randoms(use_true_random=False))
def test_words_are_replaced_to_the_bit_of_counting_them_anew(kept: list[int], random: Any) -> None:
    """Wherever new passages stand among old ones, and in whatever order these stand now."""
    words = ["ada", "bo", "cy", "dee", "Łukasz", "日本", "zoe"]
    texts = [" ".join(random.choices(words[:5], k=random.randrange(6))) for _ in range(8)]
    new = {row: " ".join(random.choices(words, k=4)) for row, old in enumerate(kept) if old < 0}
    seen: set[int] = set()
    rows = [old if old < 0 or (old not in seen and not seen.add(old)) else -1 for old in kept]  # type: ignore[func-returns-value]
    new |= {row: "ada zoe" for row, old in enumerate(rows) if old < 0 and row not in new}
    plain = LexicalIndex.of(texts, "plain")
    arrays = packed("words", plain.vocabulary)
    stored = replace(plain, vocabulary=PackedTexts(arrays["words_text"], arrays["words_ends"], ascends=True))
    fresh = LexicalIndex.of([new.get(row, texts[old]) for row, old in enumerate(rows)], "plain")
    for index in (plain, stored):
        found = index.replaced(np.array(rows, dtype=np.int64), new)
        assert found.vocabulary == fresh.vocabulary
        for part in ("starts", "rows", "counts", "lengths"):
            one, other = getattr(found, part), getattr(fresh, part)
            assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes()), part


@settings(max_examples=repeats(100, 25), deadline=None, derandomize=True, database=None)
@given(st.sets(st.text("abé\0", max_size=3), max_size=12), st.sets(st.text("abé\0", max_size=3)), st.integers(0, 4095))
def test_names_are_merged_packed_as_they_are_in_memory(old: set[str], new: set[str], bits: int) -> None:
    names = sorted(old)
    alive = np.array([bool(bits >> place & 1) for place in range(len(names))], dtype=np.bool_)
    arrays = packed("names", names)
    stored = PackedTexts(arrays["names_text"], arrays["names_ends"], ascends=True)
    one, other = merged_names(tuple(names), alive, new), merged_names(stored, alive, new)
    assert (one[0], one[1].tolist()) == (other[0], other[1].tolist())
    assert [TextRows(PackedTexts(other[0].text, other[0].ends))[name] for name in one[0]] == list(range(len(one[0])))  # type: ignore[attr-defined]
