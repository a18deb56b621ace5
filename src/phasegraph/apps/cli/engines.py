"""The engines of ``index`` and ``retrieve``, which run shards in local processes, on Ray or on Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from phasegraph.apps.cli.options import Engine
from phasegraph.distributed.building import Run
from phasegraph.distributed.local import engine_of
from phasegraph.errors import needed


@contextmanager
def started(engine: Engine, workers: int | None) -> Iterator[Run]:
    """Provide the engine within a ``with`` block; on exit, stop Ray or Spark if this block started it.

    `workers` is the number of processes or actors; None means the default of the engine.
    """
    if engine is Engine.local:
        yield engine_of(workers)
    elif engine is Engine.ray:
        with _ray(workers) as run:
            yield run
    else:
        with _spark(workers) as run:
            yield run


@contextmanager
def _ray(workers: int | None) -> Iterator[Run]:
    from phasegraph.distributed.ray import Actors

    with needed("--engine ray needs ray; pip install 'phasegraph[ray]'"):
        import ray
    own = not ray.is_initialized()
    if own and "RAY_ADDRESS" in os.environ:
        ray.init(log_to_driver=False, logging_level="ERROR")
    elif own:
        ray.init(
            address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
            _node_ip_address="127.0.0.1", object_store_memory=100 * 1024**2,
        )  # fmt: skip
    try:
        actors = Actors(workers)
        try:
            yield actors
        finally:
            actors.stop()
    finally:
        if own:
            ray.shutdown()


@contextmanager
def _spark(workers: int | None) -> Iterator[Run]:
    from phasegraph.distributed.spark import Tasks

    with needed("--engine spark needs pyspark; pip install 'phasegraph[spark]'"):
        from pyspark.sql import SparkSession
    there = SparkSession.getActiveSession()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = there or (
        SparkSession.builder.master(os.environ.get("SPARK_MASTER", f"local[{workers or '*'},4]"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"))
        .config("spark.driver.host", os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        yield Tasks(session)
    finally:
        if there is None:
            session.stop()
