"""Workers that say they are done and are not, and two builds of one index at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from sharded_corpus import GAZETTEER, digests, given_besides, of_one_process, plain, with_given, written

from phasegraph import StoreError
from phasegraph.distributed import EmbeddedNames, build_index
from phasegraph.distributed.building import in_turn


def swap(first: Path, second: Path) -> None:
    """Each has the work of the other."""
    aside = first.with_name("aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


def repeat(first: Path, second: Path) -> None:
    """Both have the work of the second."""
    shutil.rmtree(first)
    shutil.copytree(second, first)


def lose(first: Path, second: Path) -> None:
    shutil.rmtree(first)


def largest(folder: Path) -> Path:
    return max((one for one in folder.iterdir() if one.suffix != ".json"), key=lambda one: one.stat().st_size)


def cut(first: Path, second: Path) -> None:
    """The end of a file is missing."""
    os.truncate(largest(first), largest(first).stat().st_size - 4)


def flip(first: Path, second: Path) -> None:
    """A bit of a file is wrong."""
    data = bytearray(largest(first).read_bytes())
    data[-len(data) // 4] ^= 1
    largest(first).write_bytes(data)


def hostile(label: str, damage: Callable[[Path, Path], None]) -> Any:
    """An engine that damages the work of its first tasks of one kind, and says that all is done."""

    def run(task: Callable[..., None], arguments: Sequence[tuple[Any, ...]], of: str, /) -> Any:
        took = in_turn(task, arguments, of)
        if of == label:
            damage(arguments[0][-1], arguments[1][-1])
        return took

    return run


@pytest.mark.parametrize(
    ("label", "damage"),
    [
        *((label, repeat) for label in ("stage", "read", "triples", "names", "compare")),
        *(("read", damage) for damage in (swap, lose, cut)),
        *(("stage", damage) for damage in (swap, flip)),
    ],
)
def test_work_that_is_missing_damaged_or_of_another_shard_is_not_merged(
    label: str, damage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("local", "names"):
        monkeypatch.setattr(f"phasegraph.distributed.{module}.NAMES_PER_BLOCK", 300)
    monkeypatch.setattr("phasegraph.distributed.local.TRIPLES_PER_PIECE", 30)
    rows = plain(80)
    files = given_besides(tmp_path, rows)
    options: dict[str, Any] = {
        "triples": files["triples.json"], "names": EmbeddedNames(files["names.txt"], files["names.npy"], 0.9),
        "known_names": GAZETTEER, "shards": 3,
    }  # fmt: skip
    corpus = written(rows, tmp_path / "corpus.jsonl")
    with pytest.raises(StoreError, match=f"'{label}'.* is missing, damaged, or belongs to another shard;.*build again"):
        build_index(corpus, tmp_path / "out", engine=hostile(label, damage), **options)
    assert not (tmp_path / "out").exists()
    build_index(corpus, tmp_path / "out", workers=1, **options)
    assert digests(tmp_path / "out") == digests(with_given(rows, files, tmp_path / "one"))


def test_a_build_that_waits_for_another_keeps_its_own_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = plain(40)
    corpus = written(rows, tmp_path / "corpus.jsonl")
    remove, failed = shutil.rmtree, list[BaseException]()

    def slowly(path: Any, *arguments: Any, **options: Any) -> None:
        if str(path).endswith("out.work"):
            time.sleep(0.2)  # the other build looks for the lock every 20 ms
        remove(path, *arguments, **options)

    def build(engine: Any = in_turn) -> None:
        try:
            build_index(corpus, tmp_path / "out", known_names=GAZETTEER, shards=2, engine=engine)
        except BaseException as error:  # noqa: BLE001 - the test shows it
            failed.append(error)

    second = threading.Thread(target=build)

    def joined(task: Callable[..., None], arguments: Sequence[tuple[Any, ...]], label: str, /) -> Any:
        if label == "read":
            second.start()
            time.sleep(0.1)
        return in_turn(task, arguments, label)

    monkeypatch.setattr(shutil, "rmtree", slowly)
    build(joined)
    second.join()
    assert not failed
    assert digests(tmp_path / "out") == digests(of_one_process(rows, None, tmp_path / "one"))
    assert not (tmp_path / "out.work").exists()


BUILD = """
import sys
from phasegraph.distributed import build_index
if __name__ == "__main__":
    build_index(*sys.argv[1:3], shards=3, workers=1, work=sys.argv[3] if len(sys.argv) > 3 else None)
"""


@pytest.mark.parametrize("apart", [False, True])
def test_two_processes_that_build_into_one_folder_leave_one_whole_index(tmp_path: Path, apart: bool) -> None:
    """With one work folder, the second process waits; with two, the last index stands."""
    corpora = [written(plain(size), tmp_path / f"{size}.jsonl") for size in (60, 90)]
    script = tmp_path / "build.py"
    script.write_text(BUILD)
    whole = []
    for corpus in corpora:
        build_index(corpus, tmp_path / f"whole-{corpus.stem}", shards=1, workers=1)
        whole.append(digests(tmp_path / f"whole-{corpus.stem}"))
    builds = [
        subprocess.Popen(
            [sys.executable, str(script), str(one), str(tmp_path / "out")]
            + ([str(tmp_path / f"work-{one.stem}")] if apart else []),
            stderr=subprocess.PIPE,
        )
        for one in corpora
    ]
    said = [one.communicate()[1] for one in builds]
    assert [one.returncode for one in builds] == [0, 0], said
    assert digests(tmp_path / "out") in whole
    assert not list(tmp_path.glob("*work"))
