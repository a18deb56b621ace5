"""Ray for real: one node and two, blocks of any size, a node and an actor that die, models of both frameworks."""

# ruff: noqa: E402 - what is required comes first

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from engines import require

require("ray", "pyarrow")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
import ray.data
from ray.cluster_utils import Cluster
from sharded_corpus import (
    GAZETTEER,
    HOSTILE,
    ChainModel,
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

import phasegraph.distributed.ray as engine
from phasegraph import InvalidInputError, InvalidTypeError
from phasegraph.distributed import EmbeddedNames, build_index
from phasegraph.graph import GraphIndex

pytestmark = pytest.mark.timeout(240)
STORE = 100 * 1024**2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core each on loopback, without a dashboard."""
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False},
    )
    made.add_node(num_cpus=1, object_store_memory=STORE)
    here = str(Path(__file__).parent)
    assert made.address.startswith("127.0.0.1:")
    ray.init(address=made.address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": here}})
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield made
    ray.shutdown()
    made.shutdown()


def rows_for_arrow(count: int) -> list[dict[str, Any]]:
    rows = passages(count)
    rows[8]["text"] = "No lone surrogate: Arrow has none."
    return rows


def table_of(rows: list[dict[str, Any]], embeddings: Any = None) -> pa.Table:
    table = pa.Table.from_pylist(
        [{"triples": None} | row | {"metadata": json.dumps(row.get("metadata"))} for row in rows]
    )
    if embeddings is not None:
        table = table.append_column("embedding", pa.array(list(embeddings)))
    return table


@pytest.mark.parametrize(("blocks", "shards", "workers"), [(1, None, 1), (7, None, 2), (3, 5, 2)])
def test_any_number_of_blocks_shards_and_actors_gives_the_index_of_one_process(
    cluster: Any, blocks: int, shards: int | None, workers: int, tmp_path: Path
) -> None:
    assert len(ray.nodes()) == 2
    rows, embeddings = rows_for_arrow(300), vectors(300)
    table = table_of(rows, embeddings)
    cuts = [300 * place // blocks for place in range(blocks + 1)]
    dataset = ray.data.from_arrow([table.slice(a, b - a) for a, b in pairwise(cuts)])
    built = engine.build_index(dataset, tmp_path / "out", known_names=GAZETTEER, shards=shards, workers=workers)
    assert digests(tmp_path / "out") == digests(of_one_process(rows, embeddings, tmp_path / "one"))
    assert (built.passages, built.shards) == (300, shards or blocks)
    assert not (tmp_path / "out.work").exists()


def test_triples_and_synonyms_are_built_by_actors(cluster: Any, tmp_path: Path) -> None:
    rows = plain(150)
    files = given_besides(tmp_path, rows)
    names = EmbeddedNames(files["names.txt"], files["names.npy"], 0.9)
    corpus = written(rows, tmp_path / "corpus.jsonl")
    actors = engine.Actors(2)
    options = {"names": names, "known_names": GAZETTEER, "shards": 4}
    build_index(corpus, tmp_path / "both", triples=files["triples.json"], engine=actors, **options)
    actors.stop()
    assert digests(tmp_path / "both") == digests(with_given(rows, files, tmp_path / "one"))
    engine.build_index(ray.data.from_arrow(pa.Table.from_pylist(rows)), tmp_path / "names", **options)
    assert digests(tmp_path / "names") == digests(with_given(rows, files, tmp_path / "one", triples=False))


def test_files_that_are_read_in_any_order_are_put_in_that_of_a_column(cluster: Any, tmp_path: Path) -> None:
    rows = rows_for_arrow(200)
    shuffled = np.random.default_rng(0).permutation(200).tolist()
    table = table_of([rows[one] for one in shuffled]).append_column("row", pa.array(shuffled))
    (tmp_path / "in").mkdir()
    for number in range(4):
        pq.write_table(table.slice(50 * number, 50), tmp_path / "in" / f"{number}.parquet")
    dataset = ray.data.read_parquet(str(tmp_path / "in"))
    engine.build_index(dataset, tmp_path / "out", order_by="row", known_names=GAZETTEER)
    assert digests(tmp_path / "out") == digests(of_one_process(rows, None, tmp_path / "one"))


def test_an_actor_that_is_killed_costs_its_own_task_alone(cluster: Any, tmp_path: Path) -> None:
    actors = engine.Actors(2)
    took = actors(dies_once, [(tmp_path, number, 1) for number in range(6)], "test")
    actors.stop()
    assert len(took) == 6
    assert {one.name: len(one.read_text()) for one in tmp_path.iterdir()} == {
        "0": 1, "1": 1, "2": 2, "3": 1, "4": 1, "5": 1
    }  # fmt: skip


@pytest.mark.parametrize("model", [ChainModel(), ChainModel, ChainModel().embed_documents])
def test_texts_are_embedded_by_actors(cluster: Any, model: Any, tmp_path: Path) -> None:
    rows = rows_for_arrow(120)
    dataset = ray.data.from_arrow([table_of(rows[:50]), table_of(rows[50:])])
    engine.build_index(engine.embed(dataset, model, batch_size=16, workers=1), tmp_path / "out", known_names=GAZETTEER)
    embeddings = np.array(lengths([row["text"] for row in rows]), np.float32)
    assert digests(tmp_path / "out") == digests(of_one_process(rows, embeddings, tmp_path / "one"))


def test_wrong_data_is_refused_as_elsewhere(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidTypeError, match=r"ray\.data\.Dataset; got list"):
        engine.build_index([], tmp_path / "out")
    twice = pa.table({"id": ["a", "b", "a"], "text": ["x", "y", "z"]})
    with pytest.raises(InvalidInputError, match="'a' is the id of rows 0 and 2"):
        engine.build_index(ray.data.from_arrow([twice.slice(0, 2), twice.slice(2)]), tmp_path / "out")
    with pytest.raises(InvalidInputError, match="'text'; it has id"):
        engine.build_index(ray.data.from_arrow(twice.select(["id"])), tmp_path / "out")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", sorted(HOSTILE))
def test_a_hostile_shard_leaves_no_index_and_a_sound_build_follows(cluster: Any, kind: str, tmp_path: Path) -> None:
    rows = [row | {"row": number} for number, row in enumerate(plain(60))]
    dataset = ray.data.from_arrow([pa.Table.from_pylist(rows[start : start + 20]) for start in range(0, 60, 20)])
    with pytest.raises(Exception, match=HOSTILE[kind]):
        engine.build_index(dataset.map(lambda row: hostile(kind, row, row["row"])), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    engine.build_index(dataset, tmp_path / "out", known_names=GAZETTEER)
    assert digests(tmp_path / "out") == digests(of_one_process(plain(60), None, tmp_path / "one"))


DRIVER = """
import sys
import pyarrow.parquet as pq
import ray
import ray.data
import phasegraph.distributed.ray as engine
ray.init(address=sys.argv[1], log_to_driver=False)
table = pq.read_table(sys.argv[2])
blocks = [table.slice(start, 100) for start in range(0, len(table), 100)]
engine.build_index(ray.data.from_arrow(blocks), sys.argv[3], workers=1)
"""


def test_a_driver_that_is_killed_leaves_no_index_and_another_driver_builds_it(cluster: Any, tmp_path: Path) -> None:
    """Actors of the dead driver may still write for a moment; what they leave is checked."""
    rows = plain(1200)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    command = [sys.executable, "-c", DRIVER, cluster.address, str(tmp_path / "rows.parquet"), str(tmp_path / "out")]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list((tmp_path / "out.work" / "parts").glob("*/manifest.json")) and driver.poll() is None:
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    assert not (tmp_path / "out").exists()
    blocks = [pa.Table.from_pylist(rows[start : start + 100]) for start in range(0, 1200, 100)]
    built = engine.build_index(ray.data.from_arrow(blocks), tmp_path / "out", workers=1)
    assert built.kept >= 1
    GraphIndex.build(rows).save(tmp_path / "one")
    assert digests(tmp_path / "out") == digests(tmp_path / "one")


def test_questions_are_answered_by_actors_in_their_order(cluster: Any, tmp_path: Path) -> None:
    index = of_one_process(rows_for_arrow(200), None, tmp_path / "index")
    asked = pa.Table.from_pylist(questions(40))
    dataset = ray.data.from_arrow([asked.slice(start, 10) for start in range(0, 40, 10)])
    found = engine.retrieve(dataset, index, k=5, batch_size=7, workers=1).take_all()
    assert [(one["id"], list(one["ids"]), list(one["scores"])) for one in found] == answers(index, questions(40))


def test_files_go_through_actors_as_through_processes(cluster: Any, tmp_path: Path) -> None:
    rows = passages(150)
    actors = engine.Actors()
    corpus = written(rows, tmp_path / "corpus.jsonl")
    build_index(corpus, tmp_path / "out", known_names=GAZETTEER, shards=4, engine=actors)
    actors.stop()
    assert digests(tmp_path / "out") == digests(of_one_process(rows, None, tmp_path / "one"))


def test_a_node_that_is_lost_costs_its_tasks_alone(cluster: Any, tmp_path: Path) -> None:
    """Last: the cluster has one node from then on."""
    rows = rows_for_arrow(1200)
    node = next(one for one in cluster.list_all_nodes() if not one.head)
    dataset = ray.data.from_arrow([table_of(rows[start : start + 100]) for start in range(0, 1200, 100)])

    def lose() -> None:
        while not list((tmp_path / "out.work" / "parts").glob("*/manifest.json")):
            time.sleep(0.01)
        cluster.remove_node(node, allow_graceful=False)

    loser = threading.Thread(target=lose, daemon=True)
    loser.start()
    engine.build_index(dataset, tmp_path / "out", known_names=GAZETTEER)
    loser.join(30)
    until = time.monotonic() + 60
    while len([one for one in ray.nodes() if one["Alive"]]) > 1 and time.monotonic() < until:
        time.sleep(0.2)
    assert len([one for one in ray.nodes() if one["Alive"]]) == 1
    assert digests(tmp_path / "out") == digests(of_one_process(rows, None, tmp_path / "one"))
