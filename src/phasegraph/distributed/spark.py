"""Build an index from a Spark DataFrame, answer the questions in a DataFrame, and embed the texts in a DataFrame."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from phasegraph._support.renamed import accepts_old_names
from phasegraph._support.validation import check_count
from phasegraph.distributed.building import BuildReport, Spent, Work, spent
from phasegraph.distributed.local import name_blocks
from phasegraph.distributed.names import EmbeddedNames
from phasegraph.distributed.retrieval import answering, query_embedder
from phasegraph.distributed.shards import EMBEDDING, BuildSettings, embed_texts, rows_of, stage
from phasegraph.errors import InvalidInputError, InvalidTypeError, PhasegraphError, needed
from phasegraph.graph.model.entity_graph import EdgeWeights

__all__ = ["Tasks", "build_index", "embed", "retrieve"]


def _sql() -> Any:
    with needed("the engine Spark needs pyspark; pip install 'phasegraph[spark]'"):
        import pyspark.sql
    return pyspark.sql


def _checked(frame: Any) -> Any:
    """Return `frame` if it is a DataFrame of Spark or of Spark Connect; otherwise, raise InvalidTypeError."""
    _sql()
    if not (hasattr(frame, "mapInArrow") and hasattr(frame, "sparkSession")):
        raise InvalidTypeError(f"dataset must be a pyspark.sql.DataFrame; got {type(frame).__name__}")
    return frame


@accepts_old_names
def build_index(
    dataset: Any,
    out: str | os.PathLike[str],
    *,
    order_by: str = "id",
    tokenizer: str = "english",
    known_names: Iterable[str] = (),
    weights: EdgeWeights | None = None,
    names: EmbeddedNames | None = None,
    shards: int | None = None,
    work: str | os.PathLike[str] | None = None,
) -> BuildReport:
    """Build the index of the passages in a Spark DataFrame on the Spark cluster, and save the index.

    Parameters
    ----------
    dataset : pyspark.sql.DataFrame
        The passages, with columns ``id``, ``text`` and optionally ``title``, ``metadata``, ``triples`` and
        ``embedding`` (see :func:`embed`).
    out : path
        The folder of the index. Its files equal, byte by byte, the files that a single process writes for the same
        passages in the same order.
    order_by : str, default "id"
        The column by which the passages are sorted, because a DataFrame has no order; equal values are sorted by id.
    tokenizer, known_names, weights
        As for :func:`phasegraph.graph.build_graph`.
    names : EmbeddedNames, optional
        As for :func:`phasegraph.distributed.build_index`.
    shards : int, optional
        Number of shards; default the number of partitions after Spark's sort.
    work : path, optional
        The folder for intermediate files, as for :func:`phasegraph.distributed.build_index`. The driver and all
        executors must have access to `work` and to `out` under the same paths.

    Returns
    -------
    BuildReport
        The size of the index, and the CPU time and memory of the build.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As for :func:`phasegraph.graph.build_graph`.
    MissingDependencyError
        If pyspark is not installed.

    Notes
    -----
    The DataFrame is sorted once. Each partition that is not empty becomes a shard. Spark repeats a failed task up to
    ``spark.task.maxFailures`` times.

    Examples
    --------
    >>> frame = spark.read.table("lake.passages")  # doctest: +SKIP
    >>> build_index(frame, "/shared/index", order_by="number").passages  # doctest: +SKIP
    4000000
    """
    settings = BuildSettings(tokenizer, tuple(known_names), EdgeWeights() if weights is None else weights)
    frame = _checked(dataset)
    place, blocks_of = Work.beside(out, work), None if names is None else name_blocks(names)
    lacking = [name for name in ("id", "text", order_by) if name not in frame.columns]
    if lacking:
        raise InvalidInputError(f"the data must have a column {lacking[0]!r}; it has {', '.join(frame.columns)}")
    keys = list(dict.fromkeys([order_by, "id"]))
    if shards is None:
        ordered = frame.orderBy(*keys)
    else:
        ordered = frame.repartitionByRange(check_count("shards", shards, minimum=1), *keys).sortWithinPartitions(*keys)

    def stage_all(folder: Path) -> tuple[list[Path], list[Spent]]:
        to = folder / "staged"
        found = _taken(ordered.mapInArrow(_Staging(str(to)), _TAKEN))
        return [to / f"{number:06d}" for number in sorted(found)], [*found.values()]

    return place.build(stage_all, settings, Tasks(frame.sparkSession), names=blocks_of)


class _Staging:
    """The function of a Spark task that checks the passages of a partition and writes them to a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        held = list(batches)
        context = TaskContext.get()
        if not held or context is None:
            return
        number = context.partitionId()
        yield _batch(number, _stage, (pa.Table.from_batches(held), Path(self._folder) / f"{number:06d}"))


def _stage(table: Any, to: Path) -> None:
    stage(*rows_of(table), to)


_TAKEN = "number int, cpu double, peak long, error string"


def _batch(number: int, task: Callable[..., None], arguments: Sequence[Any]) -> Any:
    """Run a task, and return its number, CPU time and peak memory as an Arrow batch.

    An InvalidInputError is returned as a text in the batch, because Spark would repeat a failed task in vain.
    """
    import pyarrow as pa

    took, error = Spent(0.0, 0), None
    try:
        took = spent(task, arguments)
    except InvalidInputError as wrong:
        error = str(wrong)
    columns = [pa.array([number], pa.int32()), pa.array([took.cpu]), pa.array([took.peak], pa.int64())]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array([error], pa.string())], names=["number", "cpu", "peak", "error"]
    )


def _taken(frame: Any) -> dict[int, Spent]:
    """Run the tasks of a lazy DataFrame; return CPU time and memory by task number.

    If tasks reported an InvalidInputError, raise the first of these errors.
    """
    rows = frame.collect()
    wrong = next((row["error"] for row in sorted(rows) if row["error"] is not None), None)
    if wrong is not None:
        raise InvalidInputError(wrong)
    return {row["number"]: Spent(row["cpu"], row["peak"]) for row in rows}


class Tasks:
    """An engine that runs each call as a Spark task.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session that runs the tasks.
    """

    def __init__(self, session: Any) -> None:
        self._session = session

    def __call__(self, task: Callable[..., None], arguments: Sequence[tuple[Any, ...]], label: str, /) -> list[Spent]:
        """Call the task with each tuple of arguments; see :class:`~phasegraph.distributed.building.Run`."""
        if not arguments:
            return []
        count = len(arguments)
        frame = self._session.range(0, count, 1, count)
        found = _taken(frame.mapInArrow(_Calls(task, arguments), _TAKEN))
        if len(found) != count:
            raise PhasegraphError(
                f"Spark returned results of {len(found)} of {count} tasks ({label}): see Spark's log for the failed "
                "tasks, and build again"
            )
        return [*found.values()]


class _Calls:
    """The function of a Spark task: for each number n in the batches, it calls ``task(*arguments[n])``."""

    def __init__(self, task: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> None:
        self._task, self._arguments = task, arguments

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _batch(number, self._task, self._arguments[number])


def embed(dataset: Any, embeddings: Any) -> Any:
    """Embed the texts in a Spark DataFrame, and add the embeddings as a column ``embedding``.

    Parameters
    ----------
    dataset : pyspark.sql.DataFrame
        The texts, in a column ``text``.
    embeddings : object or callable
        An embedding model of LangChain, LlamaIndex or Sentence Transformers, or a function from n texts to (n, d)
        vectors. The model or function is sent to every task. A class of such models is instantiated once in every
        process instead.

    Returns
    -------
    pyspark.sql.DataFrame
        The DataFrame with the new column. Texts are embedded when the DataFrame is read, in batches of
        ``spark.sql.execution.arrow.maxRecordsPerBatch``.

    Examples
    --------
    >>> build_index(embed(frame, OpenAIEmbeddings()), "/shared/index")  # doctest: +SKIP
    """
    from pyspark.sql.types import ArrayType, FloatType, StructType

    frame = _checked(dataset).drop(EMBEDDING)
    schema = StructType([*frame.schema.fields]).add(EMBEDDING, ArrayType(FloatType()))
    return frame.mapInArrow(_Embedding(embeddings), schema)


class _Embedding:
    def __init__(self, embeddings: Any) -> None:
        self._embeddings = embeddings

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            vectors = embed_texts(self._embeddings, batch.column("text").to_pylist())
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(list(vectors), pa.list_(pa.float32()))],
                names=[*batch.schema.names, EMBEDDING],
            )


def retrieve(dataset: Any, index: str | os.PathLike[str], *, k: int = 10, embeddings: Any = None) -> Any:
    """Answer the questions in a Spark DataFrame in Spark tasks; each process maps the index to memory once.

    Parameters
    ----------
    dataset : pyspark.sql.DataFrame
        The questions, with columns ``id``, ``text`` (or ``question`` or ``query``) and optionally ``embedding``.
    index : path
        An index from :func:`build_index` or ``phasegraph index``, or a saved retriever. All executors must have access
        to it.
    k, embeddings
        As for :func:`phasegraph.distributed.retrieve`.

    Returns
    -------
    pyspark.sql.DataFrame
        The answers, with columns ``id``, ``ids``, ``scores`` and ``confidence``. Questions are answered when the
        DataFrame is read.

    Examples
    --------
    >>> retrieve(spark.read.table("lake.queries"), "/shared/index").write.parquet("runs/")  # doctest: +SKIP
    """
    frame = _checked(dataset)
    query_embedder(embeddings)
    asked = _Retrieval(os.path.abspath(index), check_count("k", k, minimum=1), embeddings, uuid.uuid4().hex)
    return frame.mapInArrow(asked, "id string, ids array<string>, scores array<double>, confidence double")


class _Retrieval:
    """The function of a Spark task that answers each question of a partition with `k` passages.

    A process opens the index only once; `state` is a digest of the index. `embeddings` is the model that embeds the
    questions, or None.
    """

    def __init__(self, index: str, k: int, embeddings: Any, state: str) -> None:
        self._index, self._k, self._embeddings, self._state = index, k, embeddings, state

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        embed = query_embedder(self._embeddings)
        for batch in batches:
            asked = answering(self._index, self._k, self._state)
            yield from asked.table(pa.Table.from_batches([batch]), embed).to_batches()
