"""``index --engine`` and ``retrieve`` on the command line, with the local engine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("typer")

from engines import absent
from sharded_corpus import digests, given_besides, passages, plain, questions, vectors

from phasegraph.apps.cli import main
from phasegraph.evaluation.runs import read_run


def corpus_in(folder: Path) -> Path:
    rows = [{key: row[key] for key in ("id", "title", "text")} for row in passages(120) if " " not in row["id"]]
    file = folder / "corpus.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    np.save(folder / "vectors.npy", vectors(len(rows)))
    (folder / "names.txt").write_text("Bo\nNew York\n")
    return file


def test_an_index_of_shards_is_that_of_the_plain_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = corpus_in(tmp_path)
    options = ["--embeddings", str(tmp_path / "vectors.npy"), "--known-names", str(tmp_path / "names.txt")]
    assert main(["index", str(corpus), "--out", str(tmp_path / "one"), *options]) == 0
    plain = capsys.readouterr().out
    engine = ["--engine", "local", "--shards", "3", "--workers", "2"]
    assert main(["index", str(corpus), "--out", str(tmp_path / "many"), *options, *engine]) == 0
    said = capsys.readouterr().out
    assert digests(tmp_path / "one") == digests(tmp_path / "many")
    assert said.split(" in ")[0] == plain.split(" in ")[0]
    assert "3 shards, " in said
    assert "MB a worker" in said
    assert main(["index", str(corpus), "--out", str(tmp_path / "many"), *engine]) == 1
    assert "--force replaces it" in capsys.readouterr().err
    assert main(["index", str(corpus), "--out", str(tmp_path / "many"), *engine, "--force"]) == 0


@pytest.mark.parametrize("given", ["file", "folder", "triples"])
def test_shards_are_built_unasked_where_memory_would_not_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """To the byte what is built in memory: of chunks of a folder, too, and without the triples in lines."""
    rows = plain(120) if given == "triples" else [row for row in passages(120) if " " not in row["id"]]
    files = given_besides(tmp_path, rows)
    corpus = tmp_path / "in" / "corpus.jsonl"
    corpus.parent.mkdir()
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    np.save(tmp_path / "vectors.npy", vectors(len(rows)))
    options = ["--embeddings", str(tmp_path / "vectors.npy")]
    if given == "folder":
        (corpus.parent / "more.md").write_text("# Bo\n\nBo met Ada in New York.\n")
        options = []
    if given == "triples":
        options += ["--triples", str(files["triples.json"]), "--names", str(files["names.txt"])]
        options += ["--name-embeddings", str(files["names.npy"]), "--synonym-threshold", "0.9"]
    source = str(corpus.parent if given == "folder" else corpus)
    said = []
    for name, free in (("whole", 10**12), ("several", 1000)):
        monkeypatch.setattr("phasegraph._support.memory.free_memory", lambda free=free: free)
        assert main(["index", source, "--out", str(tmp_path / name), *options]) == 0
        said.append(capsys.readouterr().out)
    assert digests(tmp_path / "whole") == digests(tmp_path / "several")
    assert "in shards" not in said[0]
    assert "GB are free: the index is built in shards" in said[1]
    assert "1 shards, " in said[1]
    left = {one.name for one in tmp_path.iterdir() if one.name.startswith(".") or one.suffix == ".work"}
    assert left == {".several.work.lock"}, "another build may wait for the lock, so its file stays"


def test_memory_is_where_an_index_is_built_when_pyarrow_is_missing_or_the_system_says_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = corpus_in(tmp_path)
    monkeypatch.setattr("phasegraph._support.memory.free_memory", lambda: None)
    assert main(["index", str(corpus), "--out", str(tmp_path / "one")]) == 0
    assert "GB are free" not in capsys.readouterr().out
    monkeypatch.setattr("phasegraph._support.memory.free_memory", lambda: 1000)
    monkeypatch.setattr("phasegraph.retrieval.indexing.find_spec", lambda name: None)
    assert main(["index", str(corpus), "--out", str(tmp_path / "two")]) == 0
    assert "pip install 'phasegraph[distributed]'" in capsys.readouterr().out
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_free_memory_is_that_of_the_machine_or_of_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from phasegraph._support import memory

    monkeypatch.setattr(memory, "_MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    assert memory.free_memory() is None
    (tmp_path / "meminfo").write_text("MemTotal:  9000 kB\nMemAvailable:  4000 kB\n")
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1024000\n")
    assert memory.free_memory() == 4000 * 1024
    (tmp_path / "memory.max").write_text("2048000\n")
    assert memory.free_memory() == 1024000


def test_triples_and_synonyms_of_shards_are_those_of_the_plain_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = plain(120)
    corpus, files = tmp_path / "corpus.jsonl", given_besides(tmp_path, rows)
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--triples", str(files["triples.json"]), "--names", str(files["names.txt"])]
    options += ["--name-embeddings", str(files["names.npy"]), "--synonym-threshold", "0.9"]
    said = []
    for name, engine in (("one", []), ("many", ["--engine", "local", "--shards", "3", "--workers", "1"])):
        listed = ["--entities-to", str(tmp_path / f"{name}.txt")]
        assert main(["index", str(corpus), "--out", str(tmp_path / name), *options, *listed, *engine]) == 0
        said.append(capsys.readouterr().out)
    assert digests(tmp_path / "one") == digests(tmp_path / "many")
    assert (tmp_path / "one.txt").read_bytes() == (tmp_path / "many.txt").read_bytes()
    assert said[0].split(" in ")[0] == said[1].split(" in ")[0]
    for one in said:
        assert " synonyms in " in one
        assert "malformed triple" in one


def test_questions_are_answered_to_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = corpus_in(tmp_path)
    assert main(["index", str(corpus), "--out", str(tmp_path / "index"), "--engine", "local", "--workers", "1"]) == 0
    asked = tmp_path / "queries.jsonl"
    asked.write_text("".join(json.dumps(row) + "\n" for row in questions(12)))
    out = tmp_path / "run.parquet"
    assert main(["retrieve", str(tmp_path / "index"), str(asked), "--out", str(out), "-k", "3", "--workers", "1"]) == 2
    capsys.readouterr()
    assert main(["retrieve", str(tmp_path / "index"), str(asked), "--out", str(out), "--k", "3", "--workers", "1"]) == 0
    assert "s of CPU" in capsys.readouterr().out
    found = read_run(out).rankings
    assert list(found) == [one["id"] for one in questions(12)]
    assert {len(one.ids) for one in found.values()} == {3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "local", "--update"], "--update must be left out with --engine"),
        (["--engine", "local", "--names", "{corpus}"], "--names and --name-embeddings must be given together"),
        (["--engine", "local", "--chunks"], "--chunks must be left out with --engine"),
        (["--shards", "3"], "--shards must be left out without --engine"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = corpus_in(tmp_path)
    given = [one.format(corpus=corpus) for one in options]
    assert main(["index", str(corpus), "--out", str(tmp_path / "out"), *given]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("engine", ["ray", "spark"])
def test_an_engine_that_is_not_installed_is_named_with_what_installs_it(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not absent({"spark": "pyspark"}.get(engine, engine)):
        pytest.skip("the engine is installed")
    corpus = corpus_in(tmp_path)
    assert main(["index", str(corpus), "--out", str(tmp_path / "out"), "--engine", engine]) == 1
    assert f"pip install 'phasegraph[{engine}]'" in capsys.readouterr().err
