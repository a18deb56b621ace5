"""Processes build the index of one process; one that is killed costs its shard; what was finished is kept."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from sharded_corpus import (
    GAZETTEER,
    dies_once,
    digests,
    fails,
    given_besides,
    of_one_process,
    passages,
    plain,
    vectors,
    with_given,
    written,
)

from phasegraph import InvalidInputError, PhasegraphError
from phasegraph._support.serialization import MANIFEST
from phasegraph._support.vector_files import read_vectors
from phasegraph.distributed import EmbeddedNames, build_index
from phasegraph.distributed.local import Processes
from phasegraph.graph import GraphIndex, NameSynonyms
from phasegraph.graph.model.building import read_openie


@pytest.mark.parametrize(("shards", "workers"), [(1, 1), (5, 2)])
@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_any_number_of_shards_and_processes_gives_the_index_of_one(
    suffix: str, shards: int, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = passages(200)
    if suffix == ".parquet":
        rows[8]["text"] = "No lone surrogate: Arrow has none."
    np.save(tmp_path / "vectors.npy", vectors(200))
    one = of_one_process(rows, read_vectors(tmp_path / "vectors.npy", 200, ""), tmp_path / "one")
    corpus = written(rows, tmp_path / f"corpus{suffix}")
    built = build_index(
        corpus, tmp_path / "out", embeddings=tmp_path / "vectors.npy", known_names=GAZETTEER, shards=shards,
        workers=workers,
    )  # fmt: skip
    assert digests(tmp_path / "out") == digests(one)
    assert (built.passages, built.shards, built.kept) == (200, shards, 0)
    assert built.cpu > 0
    assert built.worker_peak > 1e7
    digest = hashlib.sha256((tmp_path / "out" / MANIFEST).read_bytes()).hexdigest()
    noted = tmp_path / "cache" / "phasegraph" / "checked" / f"{digest}.json"
    assert noted.is_file()  # as of an index that was just saved: it opens without being read
    assert not (tmp_path / "out.work").exists()


@pytest.mark.parametrize(("form", "shards", "workers"), [("lines", 1, 1), ("docs", 3, 1), ("indented", 4, 2)])
def test_triples_and_synonyms_are_those_of_one_process(
    form: str, shards: int, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("local", "names"):
        monkeypatch.setattr(f"phasegraph.distributed.{module}.NAMES_PER_BLOCK", 300)
    monkeypatch.setattr("phasegraph.distributed.local.TRIPLES_PER_PIECE", 30)
    rows = plain(200)
    files = given_besides(tmp_path, rows, form)
    built = build_index(
        written(rows, tmp_path / "corpus.jsonl"), tmp_path / "out", triples=files["triples.json"],
        names=EmbeddedNames(files["names.txt"], files["names.npy"], 0.9), known_names=GAZETTEER, shards=shards,
        workers=workers,
    )  # fmt: skip
    assert digests(tmp_path / "out") == digests(with_given(rows, files, tmp_path / "one"))
    assert built.malformed == read_openie(files["triples.json"], rows, entities=False).malformed_triples
    assert built.synonyms == GraphIndex.load(tmp_path / "out").graph.synonyms.nnz // 2
    assert built.facts > 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "none", "triples": []}', r"triples\.json:1: passage 'none' is not in the corpus"),
        ('{"id": "{a}"}\n{"id": "{b}"}\n{"id": "{a}"}', r"triples\.json:3: this line and line 1 name the same passage"),
        ('{"id": "{a}", "triples": 3}', r":1: 'triples' must be a list"),
        (
            '{"docs": [{"idx": "{a}"}, {"idx": "x", "passage": "y"}]}',
            r"docs\[1\]: the entry belongs to no passage of the corpus",
        ),
        ("{", "must be JSON"),
    ],
)
def test_wrong_triples_are_named(text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph.distributed.local.TRIPLES_PER_PIECE", 2)
    rows = plain(20)
    file = tmp_path / "triples.json"
    file.write_text(text.replace("{a}", rows[0]["id"]).replace("{b}", rows[1]["id"]))
    with pytest.raises(InvalidInputError, match=message):
        build_index(written(rows, tmp_path / "corpus.jsonl"), tmp_path / "out", triples=file, shards=2, workers=1)


@pytest.mark.parametrize("names", [["!?", "?!"], ["Nowhere Known"]])
def test_names_of_no_entity_have_no_synonyms(names: list[str], tmp_path: Path) -> None:
    rows = plain(20)
    (tmp_path / "names.txt").write_text("\n".join(names))
    np.save(tmp_path / "names.npy", np.ones((len(names), 4), np.float32))
    corpus, given = (
        written(rows, tmp_path / "corpus.jsonl"),
        EmbeddedNames(tmp_path / "names.txt", tmp_path / "names.npy"),
    )
    assert build_index(corpus, tmp_path / "out", names=given, shards=2, workers=1).synonyms == 0
    unit = np.full(4, 0.5, np.float32)
    GraphIndex.build(rows, synonyms=NameSynonyms.of(dict.fromkeys(names, unit))).save(tmp_path / "one")
    assert digests(tmp_path / "out") == digests(tmp_path / "one")


def test_more_synonyms_than_memory_should_hold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasegraph.distributed.names.MAX_PAIRS", 10)
    rows = plain(60)
    files = given_besides(tmp_path, rows)
    names = EmbeddedNames(files["names.txt"], files["names.npy"], 0.5)
    with pytest.raises(InvalidInputError, match="more than max_pairs=10"):
        build_index(written(rows, tmp_path / "corpus.jsonl"), tmp_path / "out", names=names, shards=2, workers=1)


def test_a_process_that_is_killed_costs_its_own_task_alone(tmp_path: Path) -> None:
    took = Processes(2)(dies_once, [(tmp_path, number, 1) for number in range(6)], "test")
    assert len(took) == 6
    assert {one.name: len(one.read_text()) for one in tmp_path.iterdir()} == {
        "0": 1, "1": 1, "2": 2, "3": 1, "4": 1, "5": 1
    }  # fmt: skip


def test_a_task_over_which_processes_die_again_and_again_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(PhasegraphError, match=r"3 processes died during the same task .*by signal 9.*memory"):
        Processes(2)(dies_once, [(tmp_path, number, 9) for number in range(4)], "test")
    assert not multiprocessing.active_children()


def test_what_a_task_raises_is_raised_here() -> None:
    with pytest.raises(RuntimeError, match="_UnsendableError: no"):
        Processes(2)(fails, [(0,), (1,), (2,)], "test")
    assert not multiprocessing.active_children()


def test_an_index_is_whole_though_workers_are_killed_while_it_is_built(tmp_path: Path) -> None:
    rows = passages(1500)
    corpus = written(rows, tmp_path / "corpus.jsonl")
    killed: list[int] = []

    def kill() -> None:
        while not list((tmp_path / "out.work" / "parts").glob("*/manifest.json")):
            time.sleep(0.01)
        victim = multiprocessing.active_children()[0].pid
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    build_index(corpus, tmp_path / "out", known_names=GAZETTEER, shards=8, workers=2)
    killer.join(10)
    assert killed
    assert digests(tmp_path / "out") == digests(of_one_process(rows, None, tmp_path / "one"))


BUILD = """
import sys
from phasegraph.distributed import EmbeddedNames, build_index
if __name__ == "__main__":
    build_index(sys.argv[1], sys.argv[2], shards=8, workers=2)
"""


def test_a_build_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    rows = [{key: row[key] for key in ("id", "title", "text")} for row in passages(1500)]
    corpus = written(rows, tmp_path / "corpus.jsonl")
    script = tmp_path / "build.py"
    script.write_text(BUILD)
    first = subprocess.Popen([sys.executable, str(script), str(corpus), str(tmp_path / "out")])
    parts = tmp_path / "out.work" / "parts"
    while len(list(parts.glob("*/manifest.json"))) < 2 and first.poll() is None:
        time.sleep(0.01)
    first.kill()
    first.wait()
    assert not (tmp_path / "out").exists()
    damaged = next(parts.glob("*/mentions_data.*.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    built = build_index(corpus, tmp_path / "out", shards=8, workers=1)
    assert 1 <= built.kept <= 7  # a worker may have come to the end of its task when nobody was there any more
    build_index(corpus, tmp_path / "again", shards=1, workers=1)
    assert digests(tmp_path / "out") == digests(tmp_path / "again")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    with pytest.raises(InvalidInputError, match=r"corpus\.jsonl: there is no such file"):
        build_index(corpus, tmp_path / "out")
    corpus.write_text("\n \n")
    with pytest.raises(InvalidInputError, match="the file is empty"):
        build_index(corpus, tmp_path / "out")
    corpus.write_text('{"id": "a", "text": "Ada."}\n\n{"id": "b"\n')
    with pytest.raises(InvalidInputError, match=r"corpus\.jsonl:3: the line must be one JSON object"):
        build_index(corpus, tmp_path / "out", workers=1)
    corpus.write_text('{"id": "a", "text": "Ada."}\n\n{"id": "b", "text": ""}\n')
    with pytest.raises(InvalidInputError, match=r"corpus\.jsonl, from line 3: passage 0 \('b'\) must have text"):
        build_index(corpus, tmp_path / "out", workers=1, shards=2)
    corpus.write_text('{"id": "a", "text": "Ada."}\n')
    np.save(tmp_path / "two.npy", np.ones((2, 3), np.float32))
    with pytest.raises(
        InvalidInputError, match=r"two\.npy: the file must have one row per line of corpus\.jsonl \(1\); got 2"
    ):
        build_index(corpus, tmp_path / "out", embeddings=tmp_path / "two.npy")


def test_a_folder_of_other_files_is_left_alone(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"id": "a", "text": "Ada."}))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    with pytest.raises(InvalidInputError, match="contains other files"):
        build_index(corpus, tmp_path / "out")
