"""Build an index from a Ray Dataset, answer the questions in a dataset, and embed the texts in a dataset."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from phasegraph._support.renamed import accepts_old_names
from phasegraph._support.validation import check_count
from phasegraph.distributed.building import BuildReport, Spent, Work, shown, spent
from phasegraph.distributed.local import name_blocks
from phasegraph.distributed.names import EmbeddedNames
from phasegraph.distributed.retrieval import Answering, query_embedder
from phasegraph.distributed.shards import EMBEDDING, BuildSettings, embed_texts, rows_of, stage
from phasegraph.errors import InvalidTypeError, PhasegraphError, needed
from phasegraph.graph.model.entity_graph import EdgeWeights

__all__ = ["Actors", "build_index", "embed", "retrieve"]

RETRIES = 3
"""Maximum number of repetitions of a task whose worker or node has died."""


def _ray() -> Any:
    with needed("the engine Ray needs ray; pip install 'phasegraph[ray]'"):
        import ray
        import ray.data
    return ray


def _checked(dataset: Any) -> Any:
    ray = _ray()
    if not isinstance(dataset, ray.data.Dataset):
        raise InvalidTypeError(f"dataset must be a ray.data.Dataset; got {type(dataset).__name__}")
    return dataset


@accepts_old_names
def build_index(
    dataset: Any,
    out: str | os.PathLike[str],
    *,
    order_by: str | None = None,
    tokenizer: str = "english",
    known_names: Iterable[str] = (),
    weights: EdgeWeights | None = None,
    names: EmbeddedNames | None = None,
    shards: int | None = None,
    workers: int | None = None,
    work: str | os.PathLike[str] | None = None,
) -> BuildReport:
    """Build the index of the passages in a Ray Dataset on the Ray cluster, and save the index.

    Parameters
    ----------
    dataset : ray.data.Dataset
        The passages, with columns ``id``, ``text`` and optionally ``title``, ``metadata``, ``triples`` and
        ``embedding`` (see :func:`embed`).
    out : path
        The folder of the index. Its files equal, byte by byte, the files that a single process writes for the same
        passages in the same order.
    order_by : str, optional
        The column by which the passages are sorted; by default, they have the order of the dataset's rows.
    tokenizer, known_names, weights
        As for :func:`phasegraph.graph.build_graph`.
    names : EmbeddedNames, optional
        As for :func:`phasegraph.distributed.build_index`.
    shards : int, optional
        Number of shards; default the number of blocks of the dataset.
    workers : int, optional
        Number of actors, each with one core; default the number of cores of the cluster.
    work : path, optional
        The folder for intermediate files, as for :func:`phasegraph.distributed.build_index`. Every node must have
        access to `work` and to `out` under the same paths.

    Returns
    -------
    BuildReport
        The size of the index, and the CPU time and memory of the build.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As for :func:`phasegraph.graph.build_graph`.
    MissingDependencyError
        If ray is not installed.

    Notes
    -----
    The dataset is read once, into Ray's object store, which moves data to disk if memory is full. If an actor or a node
    dies, only its current task is repeated.

    Examples
    --------
    >>> import ray  # doctest: +SKIP
    >>> dataset = ray.data.read_parquet("s3://bucket/passages/")  # doctest: +SKIP
    >>> build_index(dataset, "/shared/index").passages  # doctest: +SKIP
    4000000
    """
    settings = BuildSettings(tokenizer, tuple(known_names), EdgeWeights() if weights is None else weights)
    held = _checked(dataset)
    place, blocks_of = Work.beside(out, work), None if names is None else name_blocks(names)
    held.context.execution_options.preserve_order = True
    if order_by is not None:
        held = held.sort([order_by, "id"] if order_by != "id" else "id")
    if shards is not None:
        held = held.repartition(check_count("shards", shards, minimum=1))
    blocks = held.to_arrow_refs()
    engine = Actors(workers)

    def stage_all(folder: Path) -> tuple[list[Path], list[Spent]]:
        folders = [folder / "staged" / f"{number:06d}" for number in range(len(blocks))]
        tasks = [([block], one) for block, one in zip(blocks, folders, strict=True)]
        return folders, engine(stage_block, tasks, "stage")

    try:
        return place.build(stage_all, settings, engine, names=blocks_of)
    finally:
        engine.stop()


def stage_block(held: Sequence[Any], to: Path) -> None:
    """Check the passages in a block of a Ray Dataset, and write them to the folder `to`.

    This task applies :func:`~phasegraph.distributed.shards.stage` to a block. `held` is a list with a single item, the
    Ray object reference of the block.
    """
    import ray

    stage(*rows_of(ray.get(held[0])), to)


class Actors:
    """An engine that runs tasks in Ray actors on the whole cluster; an actor that dies is replaced.

    Parameters
    ----------
    workers : int, optional
        Number of actors; default the number of cores of the cluster.
    """

    def __init__(self, workers: int | None = None) -> None:
        ray = _ray()
        cores = int(ray.cluster_resources().get("CPU", 1))
        self.workers = cores if workers is None else min(check_count("workers", workers, minimum=1), cores)
        self._kind = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(_Worker)
        self._idle: list[Any] = []
        self._starting = dict[Any, Any](self._started() for _ in range(max(self.workers, 1)))
        self._busy: dict[Any, tuple[Any, int]] = {}

    def _started(self) -> tuple[Any, Any]:
        """Create an actor; return a Ray reference that is ready when the actor runs, and the actor.

        The actor may never run, for example if the cluster lost a node and has no free core.
        """
        actor = self._kind.remote()
        return actor.ready.remote(), actor

    def __call__(self, task: Callable[..., None], arguments: Sequence[tuple[Any, ...]], label: str, /) -> list[Spent]:
        """Call the task with each tuple of arguments; see :class:`~phasegraph.distributed.building.Run`."""
        return list(shown(self._finished(task, arguments), label, len(arguments)))

    def _finished(self, task: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> Iterator[Spent]:
        ray = _ray()
        waiting, deaths = deque(range(len(arguments))), [0] * len(arguments)
        while waiting or self._busy:
            while waiting and self._idle:
                number, actor = waiting.popleft(), self._idle.pop()
                self._busy[actor.run.remote(task, arguments[number])] = actor, number
            (done, *_), _ = ray.wait([*self._busy, *self._starting], num_returns=1)
            number = -1
            if done in self._starting:
                actor = self._starting.pop(done)
            else:
                actor, number = self._busy.pop(done)
            try:
                found = ray.get(done)
            except ray.exceptions.RayTaskError as error:
                raise (error.cause or error) from None
            except ray.exceptions.RayActorError as error:  # the actor or its node died
                if number < 0:
                    raise PhasegraphError(
                        "Ray could not start a worker; check that the cluster has a free "
                        f"processor and enough memory: {error}"
                    ) from error
                deaths[number] += 1
                if deaths[number] > RETRIES:
                    raise PhasegraphError(
                        f"{RETRIES + 1} workers died during the same task; check that memory "
                        f"suffices for a shard per worker: {error}"
                    ) from error
                waiting.appendleft(number)
                self._starting.update([self._started()])
                continue
            self._idle.append(actor)
            if number >= 0:
                yield found

    def stop(self) -> None:
        """Kill all actors."""
        for actor in [*self._idle, *self._starting.values(), *(actor for actor, _ in self._busy.values())]:
            _ray().kill(actor)


class _Worker:
    """A Ray actor that runs tasks; data that tasks cache stay in its process for later tasks."""

    def ready(self) -> None:
        """Do nothing; the call returns when the actor runs."""

    def run(self, task: Callable[..., None], arguments: Sequence[Any]) -> Spent:
        """Run a task, and return its CPU time and peak memory."""
        return spent(task, arguments)


def embed(dataset: Any, embeddings: Any, *, batch_size: int = 256, workers: int | None = None) -> Any:
    """Embed the texts in a Ray Dataset, and add the embeddings as a column ``embedding``.

    Parameters
    ----------
    dataset : ray.data.Dataset
        The texts, in a column ``text``.
    embeddings : object or callable
        The embedding model: an object with the method ``embed_documents`` (LangChain), ``get_text_embedding_batch``
        (LlamaIndex) or ``encode`` (Sentence Transformers). A function from n texts to (n, d) vectors is also possible.
        A class of such models is instantiated once in every actor.
    batch_size : int, default 256
        Number of texts per call of the model.
    workers : int, optional
        Number of actors; default the number of cores of the cluster.

    Returns
    -------
    ray.data.Dataset
        The dataset with the new column. Texts are embedded when the dataset is read.

    Examples
    --------
    >>> build_index(embed(dataset, OpenAIEmbeddings()), "/shared/index")  # doctest: +SKIP
    """
    return _mapped(dataset, _Embedder, (embeddings,), batch_size, workers)


def _mapped(dataset: Any, kind: type, arguments: tuple[Any, ...], batch_size: int, workers: int | None) -> Any:
    """Transform the batches of a dataset in a pool of actors, each with its own instance of the class `kind`.

    An actor creates its instance as ``kind(*arguments)``, and calls it with each batch, an Arrow table. `workers` is
    the number of actors; None means the number of cores of the cluster.
    """
    held, cores = _checked(dataset), int(_ray().cluster_resources().get("CPU", 1))
    return held.map_batches(
        kind, fn_constructor_args=arguments, batch_format="pyarrow", batch_size=batch_size,
        compute=_ray().data.ActorPoolStrategy(size=cores if workers is None else workers),
    )  # fmt: skip


class _Embedder:
    """A callable that embeds the texts in a batch of a dataset, and adds the embeddings as a column."""

    def __init__(self, embeddings: Any) -> None:
        self._embeddings = embeddings

    def __call__(self, table: Any) -> Any:
        return with_embeddings(table, self._embeddings)


def retrieve(
    dataset: Any,
    index: str | os.PathLike[str],
    *,
    k: int = 10,
    embeddings: Any = None,
    batch_size: int = 256,
    workers: int | None = None,
) -> Any:
    """Answer the questions in a Ray Dataset in actors; each actor maps the index to memory once.

    Parameters
    ----------
    dataset : ray.data.Dataset
        The questions, with columns ``id``, ``text`` (or ``question`` or ``query``) and optionally ``embedding``.
    index : path
        An index from :func:`build_index` or ``phasegraph index``, or a saved retriever. Every node must have access to
        it.
    k, embeddings
        As for :func:`phasegraph.distributed.retrieve`.
    batch_size : int, default 256
        Number of questions per batch.
    workers : int, optional
        Number of actors; default the number of cores of the cluster.

    Returns
    -------
    ray.data.Dataset
        The answers in the order of the questions, with columns ``id``, ``ids``, ``scores`` and ``confidence``.
        Questions are answered when the dataset is read.

    Examples
    --------
    >>> retrieve(ray.data.read_parquet("queries/"), "/shared/index").write_parquet("runs/")  # doctest: +SKIP
    """
    _checked(dataset).context.execution_options.preserve_order = True
    query_embedder(embeddings)
    asked = os.path.abspath(index), check_count("k", k, minimum=1), embeddings
    return _mapped(dataset, _Retriever, asked, batch_size, workers)


class _Retriever:
    """A callable that answers each question of a batch with `k` passages; it opens the index once per actor.

    `embeddings` is the model that embeds the questions, or None.
    """

    def __init__(self, index: str, k: int, embeddings: Any) -> None:
        self._answering, self._embed = Answering(index, k), query_embedder(embeddings)

    def __call__(self, table: Any) -> Any:
        return self._answering.table(table, self._embed)


def with_embeddings(table: Any, embeddings: Any) -> Any:
    """Return a copy of an Arrow table with the embeddings of its column ``text`` in a column ``embedding``."""
    import pyarrow as pa

    vectors = embed_texts(embeddings, table.column("text").to_pylist())
    held = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return table.drop_columns([EMBEDDING] if EMBEDDING in table.column_names else []).append_column(EMBEDDING, held)
