"""``phasegraph index --chunks``: what it builds, where it is walked, and what it refuses before anything is written."""

import json
from pathlib import Path

import numpy as np
import pytest
from tiny import PASSAGES, write_dataset, write_jsonl

from phasegraph.apps.cli import main
from phasegraph.graph import ChunkGraph, build_chunk_graph, load_graph


@pytest.fixture
def folder(tmp_path):
    return write_dataset(tmp_path / "tiny")


def _run(folder: Path, out: Path, *more: object) -> int:
    return main(["index", str(folder / "corpus.jsonl"), "--out", str(out), "--chunks", *map(str, more)])


def _rows(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]


def test_it_is_the_graph_that_a_program_builds(folder, tmp_path, capsys):
    rows = [{**row, "file": place // 4, "at": -place} for place, row in enumerate(_rows(folder))]
    write_jsonl(folder / "corpus.jsonl", rows)
    vectors = folder / "passages.f16.npy"
    assert _run(folder, tmp_path / "g", "--document", "file", "--position", "at", "--embeddings", vectors) == 0
    expected = build_chunk_graph(
        rows,
        documents=[str(row["file"]) for row in rows],
        positions=[row["at"] for row in rows],
        embeddings=np.load(vectors),
    )
    back = ChunkGraph.load(tmp_path / "g")
    assert back.counts() == expected.counts()
    assert back.counts()["sequential"] == 9
    assert all((back.links[kind] != link).nnz == 0 for kind, link in expected.links.items())
    counts = ", ".join(f"{count} {kind}" for kind, count in expected.counts().items())
    assert f"{len(PASSAGES)} passages, {counts} edges in " in capsys.readouterr().out


def test_evaluate_walks_it(folder, tmp_path, capsys):
    assert _run(folder, tmp_path / "chunks", "--embeddings", folder / "passages.f16.npy") == 0
    assert main(["index", str(folder / "corpus.jsonl"), "--out", str(tmp_path / "entities")]) == 0
    capsys.readouterr()
    found = {}
    for kind in ("chunks", "entities"):
        systems = ["--systems", "vector,graph", "--json", "-"]
        assert main(["evaluate", str(folder), "--graph", str(tmp_path / kind), *systems]) == 0
        found[kind] = json.loads(capsys.readouterr().out)["systems"]
    assert found["chunks"]["vector"]["Recall@5"] == found["entities"]["vector"]["Recall@5"]
    assert set(found["chunks"]) == {"vector", "graph"}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [("--document", None, "must be str or int"), ("--document", 1.5, "has 1.5"), ("--position", "3", "int or float")],
)
def test_a_line_without_the_field_is_named(folder, tmp_path, capsys, field, value, said):
    write_jsonl(folder / "corpus.jsonl", [{**row, **({} if value is None else {"f": value})} for row in _rows(folder)])
    assert _run(folder, tmp_path / "g", field, "f") == 1
    error = " ".join(capsys.readouterr().err.split())
    assert f"{field} f: this field must be" in error
    assert said in error
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize(
    "option", ["--triples", "--known-names", "--names", "--tokenizer", "--entities-to", "--update"]
)
def test_what_is_of_entities_does_not_go_with_it(folder, tmp_path, capsys, option):
    given = [option] if option == "--update" else [option, str(folder / "corpus.jsonl")]
    if option == "--entities-to":
        given = [option, str(tmp_path / "names.txt")]
    assert _run(folder, tmp_path / "g", *given) == 1
    assert f"{option} must be left out with --chunks" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "g").exists()


def test_its_own_fields_need_it(folder, tmp_path, capsys):
    assert main(["index", str(folder / "corpus.jsonl"), "--out", str(tmp_path / "g"), "--document", "title"]) == 1
    assert "--document must be left out without --chunks" in " ".join(capsys.readouterr().err.split())


def test_a_graph_of_the_other_kind_is_replaced_whole(folder, tmp_path):
    assert _run(folder, tmp_path / "g") == 0
    assert main(["index", str(folder / "corpus.jsonl"), "--out", str(tmp_path / "g"), "--force"]) == 0
    assert len(load_graph(tmp_path / "g").passages) == len(PASSAGES)
