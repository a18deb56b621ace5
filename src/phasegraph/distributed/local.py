"""Build an index with processes on this machine from a file of JSON lines or a Parquet file."""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from phasegraph._support.files import file_digest
from phasegraph._support.jsonl import objects_in, objects_of, texts_in, with_metadata
from phasegraph._support.renamed import accepts_old_names
from phasegraph._support.validation import check_count, file_error
from phasegraph._support.vector_files import read_vectors
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
from phasegraph.distributed.shards import GIVEN, STAGED, BuildSettings, arrow, digest_of, is_whole, rows_of, stage
from phasegraph.distributed.triples import TripleFile
from phasegraph.errors import InvalidInputError, PhasegraphError, portable
from phasegraph.graph.model.building import passage_field
from phasegraph.graph.model.entity_graph import EdgeWeights

TRIPLES_PER_PIECE = 100_000
"""Maximum number of lines in a piece of a file of triples."""
MOST_DEATHS = 3
"""Number of processes that may die during the same task before the build fails."""


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
    """Build the index of a file of passages in several processes, and save it.

    Parameters
    ----------
    corpus : path
        A ``.parquet`` file or a file of JSON lines with the fields ``id``, ``text`` and optionally ``title``,
        ``metadata`` and ``triples``. A Parquet file may also have ``embedding``. Texts and numbers in other fields of a
        JSON line become metadata.
    out : path
        The folder of the index: a new or empty folder, or an index to replace. Its files equal, byte by byte, the files
        of ``GraphIndex.build(passages).save(out)``, for any number of shards and workers.
    embeddings : path, optional
        A ``.npy`` file with the embedding of each passage. The rows are scaled to length 1, as in ``phasegraph index``.
    triples : path, optional
        A file with further triples of the passages, in a format of :func:`phasegraph.graph.read_openie`. A file with a
        line per passage is divided among the workers. A file in HippoRAG's format is read completely by every worker.
    names : EmbeddedNames, optional
        Entity names with embeddings; entities with similar embeddings are linked as synonyms.
    tokenizer, known_names, weights
        As for :func:`phasegraph.graph.build_graph`.
    shards : int, optional
        Number of shards, the parts in which the corpus is processed. Default: one per 10,000 passages, and at least one
        per worker.
    workers : int, optional
        Number of processes; default the number of cores. With 1, the calling process does all work.
    work : path, optional
        The folder for intermediate files, which needs about twice the size of the index. It is removed when the index
        is complete. After an interruption, the next call continues with its files. Default: `out` with the suffix
        ``.work``.
    engine : callable, optional
        An engine that runs the tasks instead of `workers`: ``phasegraph.distributed.ray.Actors()`` or
        ``phasegraph.distributed.spark.Tasks(session)``. Its workers must have access to `corpus`, `work` and `out`.

    Returns
    -------
    BuildReport
        The size of the index, and the CPU time and memory of the build.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        As for :func:`phasegraph.graph.build_graph`; the message names the file and the line.
    MissingDependencyError
        If pyarrow is not installed.
    PhasegraphError
        If three processes die during the same task.

    Notes
    -----
    A worker has one shard in memory, about 15 kB per passage of the shard. The calling process needs tens of bytes per
    passage, entity and distinct word of the corpus. Processes are started by the method ``spawn``, so a script must
    call this function under ``if __name__ == "__main__":``. If a worker dies, only its current task is repeated.

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
    return build_files(
        Path(corpus), out, settings, engine_of(workers) if engine is None else engine,
        vectors=None if embeddings is None else VectorFile(Path(embeddings).absolute()),
        triples=None if triples is None else Path(triples), names=names, shards=shards, work=work,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class VectorFile:
    """A ``.npy`` file with the embedding of each passage.

    In a user's file, a row of zeros is an error. If phasegraph wrote the file from vectors in memory (`own`), its rows
    are treated as in ``GraphIndex.build``, where a row of zeros stays.
    """

    path: Path
    own: bool = False

    def read(self, rows: int, corpus: str, span: tuple[int, int]) -> Any:
        """Return the embeddings in rows ``span[0]`` to ``span[1] - 1``.

        The file must have `rows` rows, a row for each passage of the file `corpus`.
        """
        if self.own:
            return np.load(self.path, mmap_mode="r")[slice(*span)]
        return read_vectors(self.path, rows, corpus, span=span)


def build_files(
    corpus: Path,
    out: str | os.PathLike[str],
    settings: BuildSettings,
    run: Run,
    *,
    vectors: VectorFile | None = None,
    triples: Path | None = None,
    names: EmbeddedNames | None = None,
    shards: int | None = None,
    work: str | os.PathLike[str] | None = None,
) -> BuildReport:
    """Build the index of a file of passages with the engine `run`; :func:`build_index` describes the parameters."""
    place = Work.beside(out, work)
    file = row_file(corpus)
    if vectors is not None:
        vectors.read(len(file), file.path.name, (0, 0))
    edges = cuts(len(file), shards, run.workers if isinstance(run, Processes) else 1, PASSAGES_PER_SHARD)

    def stage_all(folder: Path) -> tuple[list[Path], list[Spent]]:
        embedded = "" if vectors is None else file_digest(vectors.path)
        key = digest_of(version("phasegraph"), file.digest, embedded, str(len(edges)))
        folders = [folder / f"staged-{key}" / f"{number:06d}" for number in range(len(edges) - 1)]
        lacking = [number for number, one in enumerate(folders) if not is_whole(one, STAGED)]
        tasks = [
            (file.piece(edges[n], edges[n + 1]), vectors, (edges[n], edges[n + 1]), len(file), folders[n])
            for n in lacking
        ]
        return folders, run(stage_piece, tasks, "stage")

    return place.build(
        stage_all, settings, run, triples=None if triples is None else triple_file(triples),
        names=None if names is None else name_blocks(names),
    )  # fmt: skip


def write_passages(
    file: Path, passages: Iterable[Any], given: Mapping[str, Sequence[Any]] = MappingProxyType({})
) -> None:
    """Write passages (mappings or objects) to a file of JSON lines for :func:`build_files`.

    `given` are the caller's extractions by passage id, as :func:`phasegraph.graph.fields_of` returns them.
    """
    with file.open("w", encoding="ascii") as lines:
        for one in passages:
            row = {name: passage_field(one, name) for name in ("id", "title", "text", "metadata")}
            if given.get(row["id"]):
                row[GIVEN] = given[row["id"]]
            lines.write(json.dumps(row) + "\n")


def triple_file(path: Path) -> TripleFile:
    """Open a file of triples; a file with a line per passage is divided into pieces."""
    file = row_file(path)
    if file.starts is None:
        raise file_error(path, None, "a file of triples must be JSON; this file is Parquet")
    with file.path.open("rb") as handle:
        first = next(line for line in handle if line.removeprefix(BOM_UTF8).strip())
        try:
            found = json.loads(first.removeprefix(BOM_UTF8))
            whole = isinstance(found, dict) and "docs" in found
        except (ValueError, RecursionError):  # an object in several lines, or an invalid line, which a worker reports
            whole = b'"docs"' in first + handle.read(1024)
    if whole:
        return TripleFile(file.path, file.digest, ())
    edges = cuts(len(file), None, 1, TRIPLES_PER_PIECE)
    return TripleFile(file.path, file.digest, tuple(file.piece(*each) for each in pairwise(edges)))


def name_blocks(given: EmbeddedNames) -> NameBlocks:
    """Divide the files of embedded names into blocks."""
    file, vectors = row_file(Path(given.names)), Path(given.embeddings).absolute()
    read_vectors(vectors, len(file), file.path.name, span=(0, 0))
    edges = cuts(len(file), None, 1, NAMES_PER_BLOCK)
    pieces = tuple((file.piece(*each), each) for each in pairwise(edges))
    return NameBlocks(digest_of(file.digest, file_digest(vectors)), vectors, pieces, given.threshold)


def engine_of(workers: int | None) -> Run:
    """Return the engine for a number of worker processes; None means the number of cores, and 1 uses this process."""
    count = (os.cpu_count() or 1) if workers is None else check_count("workers", workers, minimum=1)
    return Processes(count) if count > 1 else in_turn


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file of JSON lines or of a Parquet file.

    For JSON lines, `start` and `stop` are byte positions, and `line` is the number of the first line. For Parquet,
    `start` and `stop` are rows, and `line` is 0.
    """

    file: Path
    start: int
    stop: int
    line: int = 0

    def read(self, *columns: Sequence[str], numbered: bool = False) -> tuple[list[Any], Any]:
        """Return the rows of the piece as mappings, and their embeddings.

        The embeddings are None for JSON lines, and for a Parquet file without embeddings. `columns` are the required
        columns and the columns to read, as for :func:`rows_of`. If `numbered` is true, the line number is the id of a
        JSON line without an ``id``.
        """
        if not self.line:
            return rows_of(_parquet_rows(self.file, self.start, self.stop), *columns)
        rows = objects_in(self.file, texts_in(self.file, self.lines(), self.line))
        return [{"id": str(line), **row} if numbered else row for line, row in rows], None

    def lines(self) -> list[bytes]:
        """Return the lines of the piece as bytes."""
        with self.file.open("rb") as handle:
            handle.seek(self.start)
            return handle.read(self.stop - self.start).split(b"\n")

    def texts(self) -> list[str]:
        """Return the lines of the piece that are not blank, as texts."""
        return [text for _, text in texts_in(self.file, self.lines(), self.line)]

    def __str__(self) -> str:
        return f"{self.file}, from line {self.line}" if self.line else f"{self.file}, rows {self.start} to {self.stop}"


@dataclass(frozen=True)
class RowFile:
    """The file `path` of JSON lines or Parquet, with a digest of its content and the positions of its rows.

    For JSON lines, `starts` are the byte positions of the rows and of the end, and `lines` the line numbers; for
    Parquet, both are None.
    """

    path: Path
    digest: str
    starts: Any = field(default=None, repr=False)
    lines: Any = field(default=None, repr=False)
    rows: int = 0

    def __len__(self) -> int:
        return self.rows

    def piece(self, first: int, last: int) -> Piece:
        """Return the piece with the rows from `first` to `last` - 1."""
        if self.starts is None:
            return Piece(self.path, first, last)
        return Piece(self.path, self.starts[first], self.starts[last], self.lines[first])

    def check_ids(self, *, in_columns: bool = False) -> None:
        """Raise InvalidInputError if an id repeats; the number of a JSON line is the id of a line without an ``id``.

        With `in_columns`, an id with white space is also an error, because white space separates TREC's columns. Ids
        that are not strings are not checked.
        """
        rows: Iterable[tuple[int, Mapping[str, Any]]]
        if self.starts is None:
            arrow()
            import pyarrow.parquet as pq

            kind, rows = "rows", enumerate(pq.ParquetFile(self.path).read(columns=["id"]).to_pylist())
        else:
            kind, rows = "lines", ((line, {"id": str(line), **row}) for line, row in objects_of(self.path))
        seen: dict[str, int] = {}
        for place, row in rows:
            name = row.get("id")
            if in_columns and isinstance(name, str) and len(name.split()) != 1:
                raise file_error(
                    self.path, place if self.lines is not None else None,
                    f"the ids of a TREC run must be non-empty text without white space; got {name!r}: change the id, "
                    "or write a file that ends in .jsonl or .parquet",
                )  # fmt: skip
            if isinstance(name, str) and seen.setdefault(name, place) != place:
                raise file_error(self.path, None, f"ids must not repeat; {kind} {seen[name]} and {place} have {name!r}")


def row_file(path: Path) -> RowFile:
    """Find the rows of a Parquet file or of a file of JSON lines or text lines, and compute the file's digest.

    The result needs 16 bytes of memory per line.
    """
    file = path.absolute()
    if not file.is_file():
        raise file_error(path, None, "there is no such file")
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
        raise file_error(path, None, "the file is empty; it must have at least one row")
    return found


def _parquet_rows(file: Path, first: int, last: int) -> Any:
    """Read rows of a Parquet file; only the row groups that contain these rows are read."""
    import pyarrow.parquet as pq

    held = pq.ParquetFile(file)
    ends = np.cumsum([held.metadata.row_group(one).num_rows for one in range(held.metadata.num_row_groups)])
    groups = range(int(np.searchsorted(ends, first, side="right")), int(np.searchsorted(ends, last)) + 1)
    before = int(ends[groups[0] - 1]) if groups[0] else 0
    return held.read_row_groups(list(groups)).slice(first - before, last - first)


def stage_piece(piece: Piece, vectors: VectorFile | None, span: tuple[int, int], rows: int, to: Path) -> None:
    """Check the passages in a piece of a file, and write them to the folder `to`; error messages name the piece.

    This task applies :func:`~phasegraph.distributed.shards.stage` to a piece. `span` is the range of the piece's rows
    in the file `vectors`, which must have `rows` rows.
    """
    listed, own = piece.read()
    try:
        stage(
            list(map(with_metadata, listed)) if piece.line else listed,
            own if vectors is None else vectors.read(rows, piece.file.name, span),
            to,
        )
    except InvalidInputError as error:
        raise type(error)(f"{piece}: {error}") from error


@dataclass(frozen=True, slots=True)
class Processes:
    """An engine that runs tasks in `workers` processes on this machine."""

    workers: int

    def __call__(self, task: Callable[..., None], arguments: Sequence[tuple[Any, ...]], label: str, /) -> list[Spent]:
        """Call the task with each tuple of arguments; see :class:`~phasegraph.distributed.building.Run`."""
        return list(shown(self._finished(task, arguments), label, len(arguments)))

    def _finished(self, task: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> Iterator[Spent]:
        """Yield the CPU time and peak memory of each call when it is finished; repeat a call if its process dies."""
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
                    if found is None:  # the process died
                        del workers[worker.line]
                        deaths[number] += 1
                        if deaths[number] == MOST_DEATHS:
                            raise PhasegraphError(
                                f"{MOST_DEATHS} processes died during the same task (the last {worker.fate()}). Check "
                                "that memory suffices for a shard per process, and that your script calls the function "
                                'under if __name__ == "__main__":. The next call continues with the finished tasks'
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
    """A worker process, which runs one task at a time; `at` is the number of its current task, or None."""

    def __init__(self) -> None:
        context = get_context("spawn")
        self.line, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.at: int | None = None

    def start(self, number: int, task: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """Send a task and its arguments to the process; `number` becomes the number of its current task."""
        self.at = number
        with suppress(OSError):  # the process is dead, which result() reports
            self.line.send((task, arguments))

    def result(self) -> tuple[int, Spent | BaseException | None]:
        """Return the number and the outcome of the current task.

        The outcome is the CPU time and memory of the task, or its error, or None if the process has died.
        """
        number = -1 if self.at is None else self.at
        try:
            found: Spent | BaseException = self.line.recv()
        except (EOFError, OSError):
            self.stop()
            return number, None
        self.at = None
        return number, found

    def fate(self) -> str:
        """Return how the process ended, such as "by signal 9", for a message."""
        code = self.process.exitcode
        return "ended" if code is None else f"by signal {-code}" if code < 0 else f"with exit code {code}"

    def stop(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.line.close()


def _work(line: Connection) -> None:
    """Receive tasks from the main process, run them, and send back the outcomes, until the connection ends.

    This is the main function of a worker process.
    """
    while True:
        try:
            task, arguments = line.recv()
        except (EOFError, OSError):
            return
        try:
            found: Spent | BaseException | None = spent(task, arguments)
        except Exception as error:  # noqa: BLE001 - sent to the main process
            found = portable(error)
        try:
            line.send(found)
        except OSError:
            return
