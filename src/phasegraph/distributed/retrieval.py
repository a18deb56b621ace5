"""Answer many questions with an index, in processes that share memory-mapped files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from time import time
from typing import Any

import numpy as np

from phasegraph._support.files import one_writer
from phasegraph._support.jsonl import objects_of
from phasegraph._support.ordering import reached_by, top_order
from phasegraph._support.validation import check_count, check_query
from phasegraph.distributed.building import Run, Spent, cuts, peak
from phasegraph.distributed.local import Piece, Processes, engine_of, row_file
from phasegraph.distributed.shards import EMBEDDING, arrow, digest_of, made_here, rows_of
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.evaluation.runs import check_columns
from phasegraph.fusion.context import Context
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.graph.chunk_graph import ChunkGraph
from phasegraph.graph.corpus.opening import opened
from phasegraph.graph.index.graph_index import GraphIndex
from phasegraph.graph.walk.covering import LocalIds
from phasegraph.graph.walk.source import GraphSource
from phasegraph.graph.walk.walker import prepare
from phasegraph.lexical import CountedTexts, LexicalIndex, read_hits
from phasegraph.ranking import Ranking

QUERIES_PER_SHARD = 1000
LIMIT = 50
_ROUGH = 1e-4
"""An upper bound for the rounding error of cosines, whose last digits depend on the number of vectors in a product."""
_PRODUCT = 2**25
"""Number of cosines (128 MB) up to which more than 64 questions, and at most 256, are multiplied at once."""
_TOGETHER = 32
"""Number of questions that the graph source searches together."""
_GREATEST = float(np.finfo(np.float32).max)
"""The greatest finite number in an embedding."""
QUESTION = ("text", "question", "query")
"""The columns that may contain a question; the first existing column is used."""
COLUMNS = ("id",), ("id", *QUESTION)
"""The required columns of a table of questions, and the columns that are read."""


class Answering:
    """An open index, or the open index of a saved retriever, which answers batches of questions.

    If a question has an embedding, it is compared with the embeddings of all passages, and the graph walk starts from
    the 50 nearest passages; the default pipeline fuses the rankings by vectors and by the walk. Otherwise, the walk
    starts from the names and words of the question. An answer has `k` passages.
    """

    def __init__(self, folder: str | os.PathLike[str], k: int = 10) -> None:
        index = opened(Path(folder))
        if isinstance(index, ChunkGraph):
            raise InvalidInputError(f"{folder}: a chunk graph cannot answer batches: use phasegraph search")
        self.index: GraphIndex = index
        self.k = check_count("k", k, minimum=1)
        self.source = GraphSource(index.graph)
        prepare(self.source)
        self.pipeline = FusionPipeline()

    def rows(self, rows: Sequence[Mapping[str, Any]], vectors: Any = None) -> list[dict[str, Any]]:
        """Answer questions in rows with an ``id`` and a text; `vectors` are the questions' embeddings, if available.

        An answer has the row's ``id``, the ``ids`` and ``scores`` of passages, and the ``confidence``, None if unknown.
        """
        found = []
        graph, asked = self.index.graph, [question_of(row) for row in rows]
        index = graph.lexical
        counted = CountedTexts(index, graph.passage_rows.__getitem__) if isinstance(index, LexicalIndex) else None
        dense: Sequence[Sequence[Ranking]] = [()] * len(rows)
        if vectors is not None:
            dense = [(one,) for one in self._nearest(vectors, len(rows))]
        for (name, question), lists, walk in zip(asked, dense, self._walks(asked, dense), strict=True):
            rankings = [*lists, walk]
            words = read_hits(question, rankings, self._content, counted)
            context = Context(query=question, now=time(), words=words)
            result = self.pipeline.decide(rankings, context, k=self.k)
            scores = result.scores.tolist()
            found.append({"id": name, "ids": list(result.ids), "scores": scores, "confidence": result.confidence})
        return found

    def _walks(self, asked: Sequence[tuple[str, str]], dense: Sequence[Sequence[Ranking]]) -> Iterator[Ranking]:
        """Yield the walk's ranking for each question; 32 questions at a time are searched together."""
        for start in range(0, len(asked), _TOGETHER):
            part = slice(start, start + _TOGETHER)
            upstreams = [{one.source: one for one in lists} for lists in dense[part]]
            yield from self.source.search_batch([question for _, question in asked[part]], LIMIT, upstreams)

    def table(self, table: Any, embed: Callable[[str], Any] | None = None) -> Any:
        """Answer an Arrow table of questions; return an Arrow table with the schema :func:`answer_schema`.

        `embed` embeds a question; without `embed`, the column ``embedding`` is used if it exists.
        """
        return self.answers(*rows_of(table, *COLUMNS), embed)

    def answers(self, rows: Sequence[Mapping[str, Any]], vectors: Any, embed: Callable[[str], Any] | None) -> Any:
        """Answer the questions in `rows`; return an Arrow table with the schema :func:`answer_schema`.

        `vectors` are the embeddings of the questions, or None. If `embed`, a function that embeds a question, is given,
        its results are used instead of `vectors`.
        """
        if embed is not None and len(rows):
            vectors = np.array([embed(question_of(row)[1]) for row in rows], dtype=np.float32)
        return arrow().Table.from_pylist(self.rows(rows, vectors), schema=answer_schema())

    def vectors_in(self, rows: Sequence[Mapping[str, Any]], embedded: bool) -> Any:
        """Return the embeddings in JSON rows of questions, or None if the questions of the file are not `embedded`."""
        held = self.index.graph.embeddings
        width = None if held is None else held.shape[1]
        for row in rows:
            given = row.get(EMBEDDING)
            if (given is not None) != embedded:
                raise InvalidInputError(
                    f"question {row.get('id')!r} must have {'an' if embedded else 'no'} embedding, because the first "
                    f"question has {'one' if embedded else 'none'}; got {given!r:.80}"
                )
            if embedded and width is not None and not _is_vector(given, width):
                raise InvalidInputError(
                    f"the embedding of question {row.get('id')!r} must be a list of {width} finite numbers; got "
                    f"{given!r:.80}: use the model that embedded the passages"
                )
        return [row[EMBEDDING] for row in rows] if embedded else None

    def _nearest(self, vectors: Any, count: int) -> Iterator[Ranking]:
        """Yield a ranking of the 50 nearest passages for each of `count` questions, from the questions' `vectors`."""
        held = self.index.graph.embeddings
        if held is None:
            raise InvalidInputError(
                "embeddings of questions need an index with embeddings; this index has none: leave them out, or build "
                "the index with embeddings"
            )
        given = np.asarray(vectors, dtype=np.float32)
        if given.shape != (count, held.shape[1]) or not np.isfinite(given).all():
            raise InvalidInputError(
                f"embeddings of questions must be finite, of shape {(count, held.shape[1])}; got shape {given.shape}"
                + ("" if np.isfinite(given).all() else " with NaN or infinity")
                + ": use the model that embedded the passages"
            )
        lengths = np.sqrt(np.einsum("ij,ij->i", given, given, dtype=np.float64))
        unit = (given / np.maximum(lengths, np.finfo(np.float32).tiny)[:, None]).astype(np.float32)
        graph = self.index.graph
        size = min(max(64, _PRODUCT // max(len(held), 1)), 256)
        for start in range(0, count, size):
            for vector, rough in zip(unit[start : start + size], unit[start : start + size] @ held.T, strict=True):
                least = reached_by(rough, LIMIT)
                rows = np.flatnonzero(rough >= (-np.inf if least is None else least - _ROUGH))
                scores = np.einsum("ij,j->i", held[rows], vector).astype(np.float64)  # independent of the batch
                best = top_order(scores, LocalIds(graph.passages, rows), LIMIT)
                yield Ranking("vector", graph.ids_at(rows[best]), scores[best])

    def _content(self, name: str) -> str:
        record = self.index.records.get(name)
        return "" if record is None else record.content


def _is_vector(given: object, width: int) -> bool:
    if not isinstance(given, list) or len(given) != width:
        return False
    return all(isinstance(one, int | float) and -_GREATEST <= one <= _GREATEST for one in given)


def are_embedded(queries: Path) -> bool:
    """Return True if a file of questions, Parquet or JSON lines, has an embedding of the first question."""
    if queries.suffix == ".parquet":
        from pyarrow.parquet import read_schema

        return EMBEDDING in read_schema(queries).names
    return next(objects_of(queries))[1].get(EMBEDDING) is not None


def question_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return the id and the text of a question in a row; raise an error that names the question if it is invalid."""
    name, asked = row.get("id"), next((row[key] for key in QUESTION if row.get(key) is not None), None)
    if not isinstance(name, str) or not name:
        raise InvalidTypeError(f"the id of a question must be a non-empty string; got {name!r} for {asked!r:.80}")
    if not isinstance(asked, str) or not asked.strip():
        raise InvalidInputError(f"question {name!r} must have text under {', '.join(QUESTION)}; got {asked!r:.80}")
    return name, check_query(asked)


def answer_schema() -> Any:
    """Return the Arrow schema of answers: ``id``, ``ids``, ``scores``, ``confidence``."""
    pa = arrow()
    numbers, texts = pa.list_(pa.float64()), pa.list_(pa.string())
    return pa.schema([("id", pa.string()), ("ids", texts), ("scores", numbers), ("confidence", pa.float64())])


@lru_cache(maxsize=1)
def answering(folder: str, k: int, state: str) -> Answering:
    """Open the index in a folder; the last opened index is reused unless folder, `k` or `state` (a digest) differ."""
    return Answering(folder, k)


def query_embedder(model: Any, said: str = "embeddings must be") -> Callable[[str], Any] | None:
    """Return a function that embeds a question, from a model of LangChain or LlamaIndex or from a function.

    Return None if `model` is None. For any other object, raise InvalidTypeError with a message that starts with `said`.
    """
    if model is None:
        return None
    model = made_here(model)
    for method in ("embed_query", "get_query_embedding"):
        found: Callable[[str], Any] | None = getattr(model, method, None)
        if callable(found):
            return found
    if not callable(model):
        raise InvalidTypeError(
            f"{said} an embedding model of LangChain or LlamaIndex, or a function from text to vector; "
            f"got {type(model).__name__}"
        )
    return lambda text: model(text)


def answer_piece(piece: Piece, folder: str, k: int, state: str, model: Any, to: Path) -> None:
    """Answer the questions in a piece of a file, and write the answers to the Parquet file `to`.

    `state` is a digest of the index in `folder`. `model` embeds the questions, or is None.
    """
    arrow()
    import pyarrow.parquet as pq

    asked = answering(folder, k, state)
    try:
        rows, vectors = piece.read(*COLUMNS, numbered=True)
        embed = query_embedder(model)
        if piece.line and embed is None:
            vectors = asked.vectors_in(rows, are_embedded(piece.file))
        table = asked.answers(rows, vectors, embed)
    except InvalidInputError as error:
        raise type(error)(f"{piece.file}: {error}") from error
    to.parent.mkdir(parents=True, exist_ok=True)
    begun = to.with_suffix(f".{os.getpid()}.partial")
    pq.write_table(table, begun)
    os.replace(begun, to)


def retrieve(
    queries: str | os.PathLike[str],
    index: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    k: int = 10,
    embeddings: Any = None,
    shards: int | None = None,
    workers: int | None = None,
    work: str | os.PathLike[str] | None = None,
    engine: Run | None = None,
) -> Spent:
    """Answer a file of questions in processes that share a memory-mapped index, and write the answers to a file.

    Parameters
    ----------
    queries : path
        A ``.parquet`` file or a file of JSON lines with ``id`` and a question in ``text``, ``question`` or ``query``.
        In JSON lines, the default ``id`` is the line number. Ids must not repeat. Every row or none may also have
        ``embedding``, the question's embedding by the model of the passages; it is not used with `embeddings`.
    index : path
        An index from :func:`~phasegraph.distributed.build_index` or ``phasegraph index``, or a saved retriever.
    out : path
        The file for the answers, in the order of the questions. The suffix ``.parquet`` gives the columns ``id``,
        ``ids``, ``scores`` and ``confidence``; ``.jsonl`` gives ``query``, ``ids`` and ``scores``; any other suffix
        gives TREC's six columns. ``phasegraph.evaluation.runs.read_run`` reads all formats.
    k : int, default 10
        Number of passages per answer.
    embeddings : object or callable, optional
        The model that embedded the passages: a model of LangChain or LlamaIndex, or a function from text to vector. It
        is sent to every process.
    shards, workers, work, engine
        As for :func:`~phasegraph.distributed.build_index`; by default, a shard has 1,000 questions.

    Returns
    -------
    Spent
        The CPU time of all processes in seconds, and the highest peak memory of a process in bytes, including
        memory-mapped files.

    Raises
    ------
    InvalidInputError
        If a question, a file or an option is invalid; the message names the question, the file or the option.
    """
    place, target = Path(out).absolute(), Path(index).absolute()
    read_queries, run = row_file(Path(queries)), engine_of(workers) if engine is None else engine
    at_once = run.workers if isinstance(run, Processes) else 1
    edges = cuts(len(read_queries), shards, at_once, QUERIES_PER_SHARD)
    query_embedder(embeddings)
    k = check_count("k", k, minimum=1)
    in_columns = place.suffix not in (".parquet", ".jsonl")
    if in_columns:
        check_columns(place.stem)
    read_queries.check_ids(in_columns=in_columns)
    state = _state(target)
    folder = Path(work).absolute() if work is not None else place.with_name(f"{place.name}.work")
    folder.mkdir(parents=True, exist_ok=True)
    with one_writer(folder):
        key = digest_of(
            read_queries.digest, state, str(k), str(len(edges)), version("phasegraph"), _model_state(embeddings)
        )
        parts = [folder / key / f"{number:06d}.parquet" for number in range(len(edges) - 1)]
        tasks = [
            (read_queries.piece(edges[n], edges[n + 1]), str(target), k, state, embeddings, part)
            for n, part in enumerate(parts)
            if not part.is_file()
        ]
        took = run(answer_piece, tasks, "retrieve")
        write_answers(parts, place)
    shutil.rmtree(folder)
    return Spent(sum(one.cpu for one in took), max((one.peak for one in took), default=peak()))


def _model_state(model: Any) -> str:
    """Return a digest that identifies a model; for a model that cannot be pickled, return a new random text.

    The answers of an interrupted run are reused only if the digest is the same; a random text therefore prevents this.
    """
    if model is None:
        return ""
    try:
        return hashlib.sha256(ForkingPickler.dumps(model)).hexdigest()
    except Exception:  # noqa: BLE001 - pickling another library's model can raise any error
        return uuid.uuid4().hex


def _state(index: Path) -> str:
    """Return a digest of the state of the index in the folder `index`, from the content of its JSON files."""
    files = sorted(one for one in index.rglob("*.json") if one.is_file())
    return digest_of(*(f"{one.relative_to(index)}\n{one.read_text(encoding='utf-8')}" for one in files))


def write_answers(parts: Sequence[Path], out: Path) -> None:
    """Write the answers of all parts to a file in the order of the parts; only one part is in memory at a time."""
    import pyarrow.parquet as pq

    begun = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        if out.suffix == ".parquet":
            with pq.ParquetWriter(begun, answer_schema()) as writer:
                for part in parts:
                    writer.write_table(pq.read_table(part))
        else:
            with begun.open("w", encoding="utf-8") as handle:
                for part in parts:
                    for row in pq.read_table(part).to_pylist():
                        handle.write(_line(row, out.stem, jsonl=out.suffix == ".jsonl"))
        os.replace(begun, out)
    finally:
        begun.unlink(missing_ok=True)


def _line(row: Mapping[str, Any], name: str, *, jsonl: bool) -> str:
    if jsonl:
        return json.dumps({"query": row["id"], "ids": row["ids"], "scores": row["scores"]}) + "\n"
    lines = []
    for rank, (passage, score) in enumerate(zip(row["ids"], row["scores"], strict=True), start=1):
        check_columns(name, row["id"], passage)
        lines.append(f"{row['id']} Q0 {passage} {rank} {score!r} {name}\n")
    return "".join(lines)
