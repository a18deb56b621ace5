"""Batches of questions are answered as one by one, in their order, on any number of processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq
from sharded_corpus import ChainModel, answers, lengths, of_one_process, passages, questions

from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.distributed import retrieve
from phasegraph.distributed.retrieval import Answering
from phasegraph.evaluation.runs import read_run
from phasegraph.graph.index.records import PassageRecords


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [row for row in passages(300) if " " not in row["id"]]
    return of_one_process(rows, None, tmp_path_factory.mktemp("index"))


def in_lines(rows: list[dict[str, Any]], file: Path) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def run_of(file: Path) -> list[tuple[str, list[str], list[float]]]:
    return [(name, list(one.ids), one.scores.tolist()) for name, one in read_run(file).rankings.items()]


@pytest.mark.parametrize(("workers", "shards"), [(1, 1), (1, 4), (2, 3)])
def test_any_number_of_shards_and_processes_gives_the_answers_of_one(
    index: Path, workers: int, shards: int, tmp_path: Path
) -> None:
    queries = in_lines(questions(), tmp_path / "queries.jsonl")
    took = retrieve(queries, index, tmp_path / "run.parquet", k=5, workers=workers, shards=shards)
    assert took.peak > 1e7
    assert run_of(tmp_path / "run.parquet") == answers(index, questions())
    found = pq.read_table(tmp_path / "run.parquet")
    assert found.column_names == ["id", "ids", "scores", "confidence"]
    assert not list(tmp_path.glob("*.work"))


@pytest.mark.parametrize("suffix", [".jsonl", ".run"])
def test_the_run_is_written_as_the_name_says_and_read_by_the_evaluation(
    index: Path, suffix: str, tmp_path: Path
) -> None:
    pq.write_table(pa.Table.from_pylist(questions(9)), tmp_path / "queries.parquet")
    retrieve(tmp_path / "queries.parquet", index, tmp_path / f"mine{suffix}", k=5, workers=1)
    assert read_run(tmp_path / f"mine{suffix}").name == "mine"
    assert run_of(tmp_path / f"mine{suffix}") == answers(index, questions(9))


def test_no_text_is_read_for_an_answer(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Answering(index, 5)
    expected = asked.rows(questions(3))
    monkeypatch.setattr(PassageRecords, "__getitem__", lambda self, name: 1 / 0)
    assert asked.rows(questions(3)) == expected


def test_questions_with_embeddings_start_the_walk_at_the_nearest_passages(tmp_path: Path) -> None:
    rows = passages(60)
    vectors = np.random.default_rng(1).normal(size=(60, 32)).astype(np.float32)
    asked = Answering(of_one_process(rows, vectors, tmp_path / "index"), 5)
    near = np.stack([vectors[7], 2 * vectors[11]])
    two = asked.rows([{"id": "a", "text": "Who?"}, {"id": "b", "text": "Who?"}], near)
    assert [rows[7]["id"] in two[0]["ids"], rows[11]["id"] in two[1]["ids"]] == [True, True]
    alone = asked.rows([{"id": "b", "text": "Who?"}], near[1:])
    assert alone == two[1:]
    with pytest.raises(InvalidInputError, match=r"of shape \(1, 32\)"):
        asked.rows([{"id": "b", "text": "Who?"}], np.ones((1, 2)))


def test_embeddings_in_json_lines_are_used_as_those_in_parquet(tmp_path: Path) -> None:
    rows = passages(60)
    vectors = np.random.default_rng(1).normal(size=(60, 32)).astype(np.float32)
    index = of_one_process(rows, vectors, tmp_path / "index")
    asked = [{**one, "embedding": vectors[row].tolist()} for row, one in enumerate(questions(6))]
    pq.write_table(pa.Table.from_pylist(asked), tmp_path / "queries.parquet")
    retrieve(tmp_path / "queries.parquet", index, tmp_path / "expected.parquet", k=5, workers=1)
    queries = in_lines(asked, tmp_path / "queries.jsonl")
    retrieve(queries, index, tmp_path / "run.parquet", k=5, workers=1, shards=3)
    assert run_of(tmp_path / "run.parquet") == run_of(tmp_path / "expected.parquet")
    for bad, said in (
        (None, rf"question '{asked[5]['id']}' must have an embedding, because the first question has one; got None"),
        (
            [1.0, "x"],
            rf"embedding of question '{asked[5]['id']}' must be a list of 32 finite numbers; got \[1.0, 'x'",
        ),
        ([1.0], "must be a list of 32 finite numbers"),
        ([10**400, *[1] * 31], "must be a list of 32 finite numbers"),
    ):
        in_lines([*asked[:5], {**asked[5], "embedding": bad}], queries)
        with pytest.raises(InvalidInputError, match=said):
            retrieve(queries, index, tmp_path / "bad.parquet", workers=1, shards=3)
    in_lines([questions(6)[0], *asked[1:]], queries)
    with pytest.raises(InvalidInputError, match=r"question '.*' must have no embedding, because the first"):
        retrieve(queries, index, tmp_path / "bad.parquet", workers=1)


@pytest.mark.parametrize("model", [ChainModel(), lambda text: lengths([text])[0]])
def test_a_model_embeds_the_questions(model: Any, tmp_path: Path) -> None:
    rows = passages(60)
    index = of_one_process(rows, lengths([row["text"] for row in rows]), tmp_path / "index")
    queries = in_lines(questions(4), tmp_path / "queries.jsonl")
    retrieve(queries, index, tmp_path / "run.parquet", k=5, embeddings=model, workers=1)
    vectors = np.array(lengths([one["question"] for one in questions(4)]))
    expected = Answering(index, 5).rows(questions(4), vectors)
    assert run_of(tmp_path / "run.parquet") == [(one["id"], one["ids"], one["scores"]) for one in expected]


def test_answers_that_were_finished_are_kept(index: Path, tmp_path: Path) -> None:
    queries = in_lines([*questions(6), {"id": "last", "text": " "}], tmp_path / "queries.jsonl")
    with pytest.raises(InvalidInputError, match=r"queries\.jsonl: question 'last' must have text"):
        retrieve(queries, index, tmp_path / "run.parquet", workers=1, shards=7)
    done = list((tmp_path / "run.parquet.work").glob("*/*.parquet"))
    assert len(done) == 6
    assert not (tmp_path / "run.parquet").exists()
    in_lines([*questions(6), {"id": "last", "text": "Who?"}], queries)
    retrieve(queries, index, tmp_path / "run.parquet", workers=1, shards=7)
    assert pq.read_table(tmp_path / "run.parquet").num_rows == 7


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_an_id_that_a_trec_run_cannot_hold_is_named_before_the_work(index: Path, suffix: str, tmp_path: Path) -> None:
    rows = [*questions(3), {"id": "two words", "text": "Who?"}]
    queries = tmp_path / f"queries{suffix}"
    if suffix == ".jsonl":
        in_lines(rows, queries)
    else:
        pq.write_table(pa.Table.from_pylist([{"id": row["id"], "text": "Who?"} for row in rows]), queries)
    with pytest.raises(InvalidInputError, match=r"white space; got 'two words': .*\.jsonl or \.parquet"):
        retrieve(queries, index, tmp_path / "mine.run", workers=1)
    assert not list(tmp_path.glob("*.work"))
    retrieve(queries, index, tmp_path / "mine.jsonl", workers=1)
    assert "two words" in [name for name, _, _ in run_of(tmp_path / "mine.jsonl")]


def test_a_question_without_an_id_has_the_number_of_its_line(index: Path, tmp_path: Path) -> None:
    lines = [json.dumps({"question": one["question"]}) for one in questions(3)]
    (tmp_path / "queries.jsonl").write_text("\n\n".join(lines))
    retrieve(tmp_path / "queries.jsonl", index, tmp_path / "run.parquet", workers=1, shards=2)
    assert [name for name, _, _ in run_of(tmp_path / "run.parquet")] == ["1", "3", "5"]


def test_an_id_of_two_questions_is_refused_before_the_first_answer(index: Path, tmp_path: Path) -> None:
    rows = [{"id": "2", "text": "Who?"}, {"text": "Which?"}]
    queries, out = in_lines(rows, tmp_path / "queries.jsonl"), tmp_path / "run.parquet"
    with pytest.raises(InvalidInputError, match=r"queries\.jsonl: ids must not repeat; lines 1 and 2 have '2'"):
        retrieve(queries, index, out, workers=1, shards=2)
    pq.write_table(pa.Table.from_pylist([*questions(3), *questions(2)[1:]]), tmp_path / "queries.parquet")
    with pytest.raises(InvalidInputError, match=r"queries\.parquet: ids must not repeat; rows 1 and 3 have "):
        retrieve(tmp_path / "queries.parquet", index, out, workers=1)
    assert not list(tmp_path.glob("run*"))


def test_what_cannot_be_asked_is_refused(index: Path, tmp_path: Path) -> None:
    queries = in_lines([{"text": "Who?"}, {"id": 5, "text": "Which?"}], tmp_path / "queries.jsonl")
    with pytest.raises(
        InvalidTypeError, match=r"queries.jsonl: the id .* must be a non-empty string; got 5 for 'Which"
    ):
        retrieve(queries, index, tmp_path / "run.parquet", workers=1)
    in_lines([{"id": "a b", "text": "Who is Ada?"}], queries)
    with pytest.raises(InvalidInputError, match="non-empty text without white space"):
        retrieve(queries, index, tmp_path / "trec.run", workers=1)
    with pytest.raises(InvalidTypeError, match="embedding model"):
        retrieve(queries, index, tmp_path / "run.parquet", embeddings=3)
    with pytest.raises(InvalidInputError, match="no index in this folder"):
        retrieve(queries, tmp_path, tmp_path / "run.parquet", workers=1)
