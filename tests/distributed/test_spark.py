"""Spark for real in local mode: partitions of any number, a task whose worker is killed, models of both frameworks."""

# ruff: noqa: E402 - what is required comes first

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines import require

require("pyspark", "pyarrow")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, FloatType, IntegerType, StringType, StructType
from sharded_corpus import (
    GAZETTEER,
    HOSTILE,
    IndexModel,
    answers,
    dies_once,
    digests,
    given_besides,
    hostile,
    lengths,
    of_one_process,
    passages,
    plain,
    questions,
    vectors,
    with_given,
    written,
)

import phasegraph.distributed.spark as engine
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.distributed import EmbeddedNames, build_index
from phasegraph.graph import GraphIndex

pytestmark = pytest.mark.timeout(300)
SCHEMA = (
    StructType().add("id", StringType()).add("title", StringType()).add("text", StringType())
    .add("metadata", StringType()).add("triples", ArrayType(ArrayType(StringType()))).add("row", IntegerType())
)  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = (
        SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "600m").config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.adaptive.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    )  # fmt: skip
    yield made
    made.stop()


def rows_for_arrow(count: int) -> list[dict[str, Any]]:
    rows = passages(count)
    rows[8]["text"] = "No lone surrogate: Arrow has none."
    return rows


def frame_of(session: SparkSession, rows: list[dict[str, Any]], embeddings: Any = None) -> Any:
    schema = SCHEMA if embeddings is None else StructType([*SCHEMA.fields]).add("embedding", ArrayType(FloatType()))
    given = [
        (row["id"], row["title"], row["text"], json.dumps(row.get("metadata")), row.get("triples"), number)
        + (() if embeddings is None else (embeddings[number].tolist(),))
        for number, row in enumerate(rows)
    ]
    order = np.random.default_rng(0).permutation(len(given)).tolist()
    return session.createDataFrame([given[one] for one in order], schema)


@pytest.mark.parametrize("shards", [1, 5, None])
def test_any_number_of_partitions_gives_the_index_of_one_process(
    session: SparkSession, shards: int | None, tmp_path: Path
) -> None:
    rows, embeddings = rows_for_arrow(300), vectors(300)
    frame = frame_of(session, rows, embeddings)
    built = engine.build_index(frame, tmp_path / "out", order_by="row", known_names=GAZETTEER, shards=shards)
    assert digests(tmp_path / "out") == digests(of_one_process(rows, embeddings, tmp_path / "one"))
    assert built.passages == 300
    assert built.shards == shards or shards is None
    assert not (tmp_path / "out.work").exists()


def test_triples_and_synonyms_are_built_by_tasks(session: SparkSession, tmp_path: Path) -> None:
    rows = plain(150)
    files = given_besides(tmp_path, rows)
    names = EmbeddedNames(files["names.txt"], files["names.npy"], 0.9)
    corpus, tasks = written(rows, tmp_path / "corpus.jsonl"), engine.Tasks(session)
    options = {"names": names, "known_names": GAZETTEER, "shards": 4}
    build_index(corpus, tmp_path / "both", triples=files["triples.json"], engine=tasks, **options)
    assert digests(tmp_path / "both") == digests(with_given(rows, files, tmp_path / "one"))
    engine.build_index(frame_of(session, rows), tmp_path / "names", order_by="row", **options)
    assert digests(tmp_path / "names") == digests(with_given(rows, files, tmp_path / "one", triples=False))


def test_without_a_column_for_it_the_order_is_that_of_the_ids(session: SparkSession, tmp_path: Path) -> None:
    rows = rows_for_arrow(120)
    engine.build_index(frame_of(session, rows), tmp_path / "out", known_names=GAZETTEER)
    ordered = sorted(rows, key=lambda row: row["id"])
    assert digests(tmp_path / "out") == digests(of_one_process(ordered, None, tmp_path / "one"))


def test_a_worker_that_is_killed_costs_its_own_task_alone(session: SparkSession, tmp_path: Path) -> None:
    took = engine.Tasks(session)(dies_once, [(tmp_path, number, 1) for number in range(4)], "test")
    assert len(took) == 4
    assert {one.name: len(one.read_text()) for one in tmp_path.iterdir()} == {"0": 1, "1": 1, "2": 2, "3": 1}


@pytest.mark.parametrize("model", [IndexModel(), IndexModel, lengths])
def test_texts_are_embedded_by_tasks(session: SparkSession, model: Any, tmp_path: Path) -> None:
    rows = rows_for_arrow(120)
    frame = engine.embed(frame_of(session, rows), model)
    engine.build_index(frame, tmp_path / "out", order_by="row", known_names=GAZETTEER)
    embeddings = np.array(lengths([row["text"] for row in rows]), np.float32)
    assert digests(tmp_path / "out") == digests(of_one_process(rows, embeddings, tmp_path / "one"))


def test_questions_are_answered_by_tasks(session: SparkSession, tmp_path: Path) -> None:
    index = of_one_process(rows_for_arrow(200), None, tmp_path / "index")
    frame = session.createDataFrame(
        [(one["id"], one["question"]) for one in questions(40)], "id string, question string"
    )
    found = engine.retrieve(frame.repartition(3), index, k=5).collect()
    by_id = {one["id"]: (one["id"], list(one["ids"]), list(one["scores"])) for one in found}
    assert [by_id[one["id"]] for one in questions(40)] == answers(index, questions(40))


def test_wrong_data_is_refused_as_elsewhere(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidTypeError, match=r"pyspark\.sql\.DataFrame; got list"):
        engine.build_index([], tmp_path / "out")
    twice = session.createDataFrame([("a", "x", 1), ("b", "y", 2), ("a", "z", 3)], "id string, text string, row int")
    with pytest.raises(InvalidInputError, match="'a' is the id of rows 0 and 2"):
        engine.build_index(twice, tmp_path / "out", order_by="row")
    with pytest.raises(InvalidInputError, match="'text'; it has id"):
        engine.build_index(twice.select("id"), tmp_path / "out")
    blank = session.createDataFrame([("a", "x"), ("b", "")], "id string, text string")
    with pytest.raises(InvalidInputError, match=r"\('b'\) must have text"):
        engine.build_index(blank, tmp_path / "out")
    with pytest.raises(InvalidInputError, match="'page'; it has id"):
        engine.build_index(twice, tmp_path / "out", order_by="page")


@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_a_hostile_shard_leaves_no_index_and_a_sound_build_follows(
    session: SparkSession, kind: str, tmp_path: Path
) -> None:
    rows = plain(60)
    frame = frame_of(session, rows)

    def broken(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            made = [hostile(kind, row, row["row"]) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(made, schema=batch.schema)

    with pytest.raises(Exception, match=HOSTILE[kind]):
        engine.build_index(frame.mapInArrow(broken, frame.schema), tmp_path / "out", order_by="row", shards=3)
    assert not (tmp_path / "out").exists()
    engine.build_index(frame, tmp_path / "out", order_by="row", known_names=GAZETTEER, shards=3)
    assert digests(tmp_path / "out") == digests(of_one_process(rows, None, tmp_path / "one"))


DRIVER = """
import sys
from pyspark.sql import SparkSession
import phasegraph.distributed.spark as engine
made = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
made = made.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
session = made.config("spark.driver.memory", "600m").getOrCreate()
engine.build_index(session.read.parquet(sys.argv[1]), sys.argv[2], order_by="row", shards=6)
"""


@pytest.mark.timeout(400)
def test_a_driver_that_is_killed_leaves_no_index_and_another_driver_builds_it(
    session: SparkSession, tmp_path: Path
) -> None:
    """Tasks of the dead driver may still write for a moment; the next build checks what they leave."""
    rows = plain(400)
    pq.write_table(pa.Table.from_pylist([row | {"row": number} for number, row in enumerate(rows)]), tmp_path / "rows")
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "rows"), str(tmp_path / "out")]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list((tmp_path / "out.work").rglob("manifest.json")) and driver.poll() is None:
        time.sleep(0.01)
    assert driver.poll() is None
    driver.kill()
    driver.wait()
    assert not (tmp_path / "out").exists()
    frame = session.read.parquet(str(tmp_path / "rows"))
    engine.build_index(frame, tmp_path / "out", order_by="row", shards=6)
    GraphIndex.build(rows).save(tmp_path / "one")
    assert digests(tmp_path / "out") == digests(tmp_path / "one")
