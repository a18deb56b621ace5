"""The engine Ray: an index of any Ray Dataset, batches of queries against it, embeddings by any model."""

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
"""How often a task is made again whose worker or node has died."""


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
    """Build the index of a Ray Dataset on its cluster, and save it.

    Parameters
    ----------
    dataset : ray.data.Dataset
        With columns ``id``, ``text`` and optionally ``title``, ``metadata``, ``triples`` and ``embedding`` (see
        :func:`embed`).
    out : path
        Becomes to the byte what a single process writes of the same passages in the same order.
    order_by : str, optional
        The column that says the order of the passages; by default it is that of the dataset's rows.
    tokenizer, known_names, weights
        As for :func:`phasegraph.graph.build_graph`.
    names : EmbeddedNames, optional
        As for :func:`phasegraph.distributed.build_index`.
    shards : int, optional
        Default: a shard for each block of the dataset.
    workers : int, optional
        Actors, of one core each; default: one for each core of the cluster.
    work : path, optional
        As for :func:`phasegraph.distributed.build_index`; every node must see it, and `out`, under the same path.

    Returns
    -------
    BuildReport

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As :func:`phasegraph.graph.build_graph`.
    MissingDependencyError
        Without ray.

    Notes
    -----
    The dataset is read once, into Ray's object store, which puts on disk what it has no room for. An actor or a node
    that dies costs the task it was at.

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
    """Stage a block of a dataset."""
    import ray

    stage(*rows_of(ray.get(held[0])), to)


class Actors:
    """An engine of actors over the whole cluster, which are kept from task to task and replaced where they die.

    Parameters
    ----------
    workers : int, optional
        Default: one for each core of the cluster.
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
        """What says that a new actor has a place, and the actor: after a node was lost there may be none."""
        actor = self._kind.remote()
        return actor.ready.remote(), actor

    def __call__(self, task: Callable[..., None], arguments: Sequence[tuple[Any, ...]], label: str, /) -> list[Spent]:
        """As of :class:`~phasegraph.distributed.building.Run`."""
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
            except ray.exceptions.RayActorError as error:  # it died, or its node
                if number < 0:
                    raise PhasegraphError(f"Ray could not start a worker: {error}") from error
                deaths[number] += 1
                if deaths[number] > RETRIES:
                    raise PhasegraphError(f"{RETRIES + 1} workers died over one task: {error}") from error
                waiting.appendleft(number)
                self._starting.update([self._started()])
                continue
            self._idle.append(actor)
            if number >= 0:
                yield found

    def stop(self) -> None:
        """End them."""
        for actor in [*self._idle, *self._starting.values(), *(actor for actor, _ in self._busy.values())]:
            _ray().kill(actor)


class _Worker:
    """An actor, with what its process holds of the tasks before."""

    def ready(self) -> None:
        """Be there."""

    def run(self, task: Callable[..., None], arguments: Sequence[Any]) -> Spent:
        """Make a call."""
        return spent(task, arguments)


def embed(dataset: Any, embeddings: Any, *, batch_size: int = 256, workers: int | None = None) -> Any:
    """A dataset with the embeddings of its texts, in a column ``embedding``.

    Parameters
    ----------
    dataset : ray.data.Dataset
    embeddings : object or callable
        An embedding model of LangChain (``embed_documents``), LlamaIndex (``get_text_embedding_batch``) or Sentence
        Transformers (``encode``), a class of these, of which every actor makes its own, or
        ``embeddings(texts) -> (n, d) vectors``.
    batch_size : int, default 256
        Texts that are embedded at once.
    workers : int, optional
        Actors; default: as many as there are cores, as Ray finds fit.

    Returns
    -------
    ray.data.Dataset
        Nothing is embedded before it is read.

    Examples
    --------
    >>> build_index(embed(dataset, OpenAIEmbeddings()), "/shared/index")  # doctest: +SKIP
    """
    return _mapped(dataset, _Embedder, (embeddings,), batch_size, workers)


def _mapped(dataset: Any, kind: type, arguments: tuple[Any, ...], batch_size: int, workers: int | None) -> Any:
    """The dataset as actors of a kind make it of its batches."""
    held, cores = _checked(dataset), int(_ray().cluster_resources().get("CPU", 1))
    return held.map_batches(
        kind, fn_constructor_args=arguments, batch_format="pyarrow", batch_size=batch_size,
        compute=_ray().data.ActorPoolStrategy(size=cores if workers is None else workers),
    )  # fmt: skip


class _Embedder:
    """Adds the embeddings to a batch."""

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
    """Answer a dataset of questions by actors, each of which maps the index once.

    Parameters
    ----------
    dataset : ray.data.Dataset
        With columns ``id``, ``text`` (or ``question`` or ``query``) and optionally ``embedding``.
    index : path
        What :func:`build_index` or ``phasegraph index`` wrote, or a saved retriever; every node must see it.
    k, embeddings
        As for :func:`phasegraph.distributed.retrieve`.
    batch_size : int, default 256
        Questions that are answered at once.
    workers : int, optional
        Actors; default: one for each core of the cluster.

    Returns
    -------
    ray.data.Dataset
        Columns ``id``, ``ids``, ``scores`` and ``confidence``, in the order of the questions. Nothing is answered
        before it is read.

    Examples
    --------
    >>> retrieve(ray.data.read_parquet("queries/"), "/shared/index").write_parquet("runs/")  # doctest: +SKIP
    """
    _checked(dataset).context.execution_options.preserve_order = True
    query_embedder(embeddings)
    asked = os.path.abspath(index), check_count("k", k, minimum=1), embeddings
    return _mapped(dataset, _Retriever, asked, batch_size, workers)


class _Retriever:
    """Answers a batch."""

    def __init__(self, index: str, k: int, embeddings: Any) -> None:
        self._answering, self._embed = Answering(index, k), query_embedder(embeddings)

    def __call__(self, table: Any) -> Any:
        return self._answering.table(table, self._embed)


def with_embeddings(table: Any, embeddings: Any) -> Any:
    """An Arrow table with the embeddings of its texts."""
    import pyarrow as pa

    vectors = embed_texts(embeddings, table.column("text").to_pylist())
    held = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    return table.drop_columns([EMBEDDING] if EMBEDDING in table.column_names else []).append_column(EMBEDDING, held)
