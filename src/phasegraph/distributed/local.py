"""The engine of processes on this machine, and the files it reads: JSON lines and Parquet."""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np

from phasegraph._support.files import file_digest
from phasegraph._support.renamed import accepts_old_names
from phasegraph._support.validation import check_count
from phasegraph.distributed.building import (
    PASSAGES_PER_SHARD,
    BuildReport,
    Run,
    Spent,
    Work,
    cuts,
    in_turn,
    shown,
    spent,
)
from phasegraph.distributed.names import NAMES_PER_BLOCK, EmbeddedNames, NameBlocks
from phasegraph.distributed.shards import STAGED, BuildSettings, arrow, digest_of, is_whole, rows_of, stage
from phasegraph.distributed.triples import TripleFile
from phasegraph.errors import InvalidInputError, PhasegraphError
from phasegraph.evaluation.datasets import objects_in, read_vectors, texts_in, wrong
from phasegraph.graph.model.entity_graph import EdgeWeights

TRIPLES_PER_PIECE = 100_000
"""Lines of a file of triples that are read at once."""
MOST_DEATHS = 3
"""Processes that may die over one and the same task before it is given up."""


@accepts_old_names
def build_index(
    corpus: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    embeddings: str | os.PathLike[str] | None = None,
    triples: str | os.PathLike[str] | None = None,
    names: EmbeddedNames | None = None,
    tokenizer: str = "english",
    known_names: Iterable[str] = (),
    weights: EdgeWeights | None = None,
    shards: int | None = None,
    workers: int | None = None,
    work: str | os.PathLike[str] | None = None,
    engine: Run | None = None,
) -> BuildReport:
    """Build the index of a file of passages in processes, and save it.

    Parameters
    ----------
    corpus : path
        ``.parquet``, or JSON lines: ``id``, ``text`` and optionally ``title``, ``metadata``, ``triples`` and, in
        Parquet, ``embedding``.
    out : path
        A folder that is new, empty, or an index. Becomes to the byte what ``GraphIndex.build(passages).save(out)``
        writes, for any number of shards and workers.
    embeddings : path, optional
        Of the passages, as ``.npy`` with a row for each, L2-normalised as ``phasegraph index`` does.
    triples : path, optional
        Triples of the passages besides those in their rows, as :func:`phasegraph.graph.read_openie` takes them: lines,
        which workers read in pieces, or HippoRAG's one object, which every worker reads whole.
    names : EmbeddedNames, optional
        Names whose embeddings tell synonyms; they are compared block with block, each with each.
    tokenizer, known_names, weights
        As for :func:`phasegraph.graph.build_graph`.
    shards : int, optional
        Default: one for every 10,000 passages, and at least one for each worker.
    workers : int, optional
        Processes; default: one for each core. With 1 all is done in this one.
    work : path, optional
        Where shards are kept until the index is complete, after which they are removed: about twice the size of the
        index. Default: ``out`` with ``.work`` at its end. A build that was cut short goes on from there.
    engine : callable, optional
        What calls functions elsewhere in place of `workers` here: ``phasegraph.distributed.ray.Actors()`` or
        ``phasegraph.distributed.spark.Tasks(session)``, whose workers must see corpus, work and out.

    Returns
    -------
    BuildReport

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As :func:`phasegraph.graph.build_graph`, with the file and its lines.
    MissingDependencyError
        Without pyarrow.
    PhasegraphError
        Where processes die three times over the same shard.

    Notes
    -----
    A worker holds one shard (some 15 kB for each of its passages), whatever the size of the corpus; this process some
    tens of bytes for each passage, entity and word. Processes are started anew (``spawn``): a script that calls this
    does so under ``if __name__ == "__main__":``. A worker that dies costs the shard it was at.

    Examples
    --------
    >>> import json, tempfile
    >>> from phasegraph.graph import GraphIndex
    >>> folder = tempfile.TemporaryDirectory()
    >>> corpus = Path(folder.name) / "corpus.jsonl"
    >>> lines = [{"id": "a", "title": "Ada", "text": "Ada met Bo."}, {"id": "b", "title": "Bo", "text": "Bo sang."}]
    >>> _ = corpus.write_text("".join(json.dumps(line) + chr(10) for line in lines))
    >>> build_index(corpus, Path(folder.name) / "index", shards=2, workers=1).entities
    2
    >>> GraphIndex.load(Path(folder.name) / "index", mmap=False).graph.entities
    ('ada', 'bo')
    >>> folder.cleanup()
    """
    settings = BuildSettings(tokenizer, tuple(known_names), EdgeWeights() if weights is None else weights)
    place = Work.beside(out, work)
    file, run = row_file(Path(corpus)), engine_of(workers) if engine is None else engine
    vectors = None if embeddings is None else Path(embeddings).absolute()
    if vectors is not None:
        read_vectors(vectors, len(file), file.path.name, span=(0, 0))
    edges = cuts(len(file), shards, run.workers if isinstance(run, Processes) else 1, PASSAGES_PER_SHARD)

    def stage_all(folder: Path) -> tuple[list[Path], list[Spent]]:
        key = digest_of(
            version("phasegraph"), file.digest, "" if vectors is None else file_digest(vectors), str(len(edges))
        )
        folders = [folder / f"staged-{key}" / f"{number:06d}" for number in range(len(edges) - 1)]
        lacking = [number for number, one in enumerate(folders) if not is_whole(one, STAGED)]
        tasks = [
            (file.piece(edges[n], edges[n + 1]), vectors, (edges[n], edges[n + 1]), len(file), folders[n])
            for n in lacking
        ]
        return folders, run(stage_piece, tasks, "stage")

    return place.build(
        stage_all, settings, run, triples=None if triples is None else triple_file(Path(triples)),
        names=None if names is None else name_blocks(names),
    )  # fmt: skip


def triple_file(path: Path) -> TripleFile:
    """A file of triples, in pieces where it has a line for each passage."""
    file = row_file(path)
    if file.starts is None:
        raise wrong(path, None, "triples must be JSON; this is Parquet")
    with file.path.open("rb") as handle:
        first = next(line for line in handle if line.removeprefix(BOM_UTF8).strip())
        try:
            found = json.loads(first.removeprefix(BOM_UTF8))
            whole = isinstance(found, dict) and "docs" in found
        except (ValueError, RecursionError):  # one object in several lines, or a line that the workers will name
            whole = b'"docs"' in first + handle.read(1024)
    if whole:
        return TripleFile(file.path, file.digest, ())
    edges = cuts(len(file), None, 1, TRIPLES_PER_PIECE)
    return TripleFile(file.path, file.digest, tuple(file.piece(*each) for each in pairwise(edges)))


def name_blocks(given: EmbeddedNames) -> NameBlocks:
    """Blocks of the files."""
    file, vectors = row_file(Path(given.names)), Path(given.embeddings).absolute()
    read_vectors(vectors, len(file), file.path.name, span=(0, 0))
    edges = cuts(len(file), None, 1, NAMES_PER_BLOCK)
    pieces = tuple((file.piece(*each), each) for each in pairwise(edges))
    return NameBlocks(digest_of(file.digest, file_digest(vectors)), vectors, pieces, given.threshold)


def engine_of(workers: int | None) -> Run:
    """The engine with so many processes; with one, this process."""
    count = (os.cpu_count() or 1) if workers is None else check_count("workers", workers, minimum=1)
    return Processes(count) if count > 1 else in_turn


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a file: bytes of JSON lines, whose first has a number, or rows of Parquet."""

    file: Path
    start: int
    stop: int
    line: int = 0

    def read(self, *columns: Sequence[str]) -> tuple[list[Any], Any]:
        """The rows, and their embeddings where they have some; `columns` of Parquet as :func:`rows_of` takes them."""
        if not self.line:
            return rows_of(_parquet_rows(self.file, self.start, self.stop), *columns)
        return [row for _, row in objects_in(self.file, texts_in(self.file, self.lines(), self.line))], None

    def lines(self) -> list[bytes]:
        """The bytes of its lines."""
        with self.file.open("rb") as handle:
            handle.seek(self.start)
            return handle.read(self.stop - self.start).split(b"\n")

    def texts(self) -> list[str]:
        """Its lines that are not blank."""
        return [text for _, text in texts_in(self.file, self.lines(), self.line)]

    def __str__(self) -> str:
        return f"{self.file}, from line {self.line}" if self.line else f"{self.file}, rows {self.start} to {self.stop}"


@dataclass(frozen=True)
class RowFile:
    """A file of rows: how many, a digest of it, and pieces of it."""

    path: Path
    digest: str
    starts: Any = field(default=None, repr=False)
    lines: Any = field(default=None, repr=False)
    rows: int = 0

    def __len__(self) -> int:
        return self.rows

    def piece(self, first: int, last: int) -> Piece:
        """Rows from `first` to before `last`."""
        if self.starts is None:
            return Piece(self.path, first, last)
        return Piece(self.path, self.starts[first], self.starts[last], self.lines[first])


def row_file(path: Path) -> RowFile:
    """A file of passages or of queries, gone through once; in memory are 16 bytes for each line of JSON."""
    file = path.absolute()
    if not file.is_file():
        raise wrong(path, None, "there is no such file")
    if file.suffix == ".parquet":
        arrow()
        import pyarrow.parquet as pq

        rows = pq.ParquetFile(file).metadata.num_rows
        found = RowFile(file, file_digest(file), rows=rows)
    else:
        starts, lines, made, place = array("q"), array("q"), hashlib.sha256(), 0
        with file.open("rb") as handle:
            for number, raw in enumerate(handle, start=1):
                made.update(raw)
                if raw.removeprefix(b"\xef\xbb\xbf").strip():
                    starts.append(place)
                    lines.append(number)
                place += len(raw)
        found = RowFile(file, made.hexdigest(), array("q", [*starts, place]), lines, len(starts))
    if not found.rows:
        raise wrong(path, None, "there must be at least one row; the file is empty")
    return found


def _parquet_rows(file: Path, first: int, last: int) -> Any:
    """Rows of a Parquet file; only the groups of rows that have some of them are read."""
    import pyarrow.parquet as pq

    held = pq.ParquetFile(file)
    ends = np.cumsum([held.metadata.row_group(one).num_rows for one in range(held.metadata.num_row_groups)])
    groups = range(int(np.searchsorted(ends, first, side="right")), int(np.searchsorted(ends, last)) + 1)
    before = int(ends[groups[0] - 1]) if groups[0] else 0
    return held.read_row_groups(list(groups)).slice(first - before, last - first)


def stage_piece(piece: Piece, embeddings: Path | None, span: tuple[int, int], rows: int, to: Path) -> None:
    """Stage a part of a file, with a span of the `rows` that a file of embeddings must have; errors name the part."""
    listed, own = piece.read()
    try:
        stage(listed, own if embeddings is None else read_vectors(embeddings, rows, piece.file.name, span=span), to)
    except InvalidInputError as error:
        raise type(error)(f"{piece}: {error}") from error


@dataclass(frozen=True, slots=True)
class Processes:
    """An engine of so many processes, each of which does one task after the other."""

    workers: int

    def __call__(self, task: Callable[..., None], arguments: Sequence[tuple[Any, ...]], label: str, /) -> list[Spent]:
        """As of :class:`~phasegraph.distributed.building.Run`."""
        return list(shown(self._finished(task, arguments), label, len(arguments)))

    def _finished(self, task: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> Iterator[Spent]:
        """What tasks took, as they are finished."""
        waiting = list(range(len(arguments)))[::-1]
        deaths = dict.fromkeys(waiting, 0)
        workers: dict[Connection, _Worker] = {}
        try:
            while waiting or any(one.at is not None for one in workers.values()):
                idle = [one for one in workers.values() if one.at is None]
                while waiting and (idle or len(workers) < self.workers):
                    if not idle:
                        idle.append(_Worker())
                        workers[idle[-1].line] = idle[-1]
                    number = waiting.pop()
                    idle.pop().start(number, task, arguments[number])
                for line in wait(list(workers)):
                    worker = workers[line]  # type: ignore[index]
                    number, found = worker.result()
                    if found is None:  # it died
                        del workers[worker.line]
                        deaths[number] += 1
                        if deaths[number] == MOST_DEATHS:
                            raise PhasegraphError(
                                f"{MOST_DEATHS} processes died over one task (the last {worker.fate()}): is there "
                                "memory enough for a shard in each, and does a script that starts them do so under "
                                'if __name__ == "__main__":? What was finished is kept'
                            )
                        waiting.append(number)
                    elif isinstance(found, BaseException):
                        raise found
                    else:
                        yield found
        finally:
            for worker in workers.values():
                worker.stop()


class _Worker:
    """A process that waits for tasks."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.line, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.at: int | None = None

    def start(self, number: int, task: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """Give it a task."""
        self.at = number
        with suppress(OSError):  # it is dead, which result() says
            self.line.send((task, arguments))

    def result(self) -> tuple[int, Spent | BaseException | None]:
        """The number of its task, and what that took or raised; None where the process has died."""
        number = -1 if self.at is None else self.at
        try:
            found: Spent | BaseException = self.line.recv()
        except (EOFError, OSError):
            self.stop()
            return number, None
        self.at = None
        return number, found

    def fate(self) -> str:
        """How it ended."""
        code = self.process.exitcode
        return "ended" if code is None else f"by signal {-code}" if code < 0 else f"with exit code {code}"

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.join()
        self.line.close()


def _work(line: Connection) -> None:
    """What a process does: tasks, until nobody is there."""
    while True:
        try:
            task, arguments = line.recv()
        except (EOFError, OSError):
            return
        try:
            found: Spent | BaseException = spent(task, arguments)
        except Exception as error:  # noqa: BLE001 - goes to who gave the task
            found = _portable(error)
        try:
            line.send(found)
        except OSError:
            return


def _portable(error: Exception) -> Exception:
    try:
        ForkingPickler.dumps(error)
    except Exception:  # noqa: BLE001 - whatever a foreign error does when it is copied
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
