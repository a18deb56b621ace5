"""Build an index from shards (parts of a corpus) with any engine, which runs tasks in processes or on a cluster.

After an interruption, the next build continues with the finished tasks.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from phasegraph._support.files import one_writer
from phasegraph._support.serialization import MANIFEST
from phasegraph._support.validation import check_count
from phasegraph.distributed.merging import merge, write_gazetteer
from phasegraph.distributed.names import NameBlocks
from phasegraph.distributed.shards import (
    READ,
    STAGED,
    BuildSettings,
    Staged,
    arrow,
    check_shards,
    digest_of,
    extract,
    is_whole,
)
from phasegraph.distributed.triples import TRIPLES, Stated, TripleFile, write_rows
from phasegraph.errors import InvalidInputError, StoreError

PASSAGES_PER_SHARD = 10_000


@dataclass(frozen=True, slots=True)
class Spent:
    """The resources of a task: CPU time in seconds (`cpu`), and peak memory in bytes (`peak`; 0 if unknown)."""

    cpu: float
    peak: int


class Run(Protocol):
    """The interface of engines; an engine calls a function with each tuple of arguments, usually in other processes."""

    def __call__(self, task: Callable[..., None], arguments: Sequence[tuple[Any, ...]], label: str, /) -> list[Spent]:
        """Call ``task(*arguments[i])`` for each i, and return the CPU time and memory of each call.

        A call is repeated if its process dies. If a call raises an error, the engine raises this error. `label` names
        the task in a progress bar.
        """
        ...


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The size of a new index, and the CPU time and memory of its build.

    Parameters
    ----------
    passages, entities, mentions, facts : int
        Numbers of passages, entities, mentions and facts.
    shards : int
        Number of shards.
    kept : int
        Number of shards that an earlier, interrupted build had finished.
    cpu : float
        CPU time in seconds of all processes, including this process, without the engine's own overhead.
    worker_peak, driver_peak : int
        Peak memory, in bytes, of a worker and of this process; 0 if unknown.
    synonyms : int
        Number of pairs of synonyms.
    malformed : int
        Number of malformed triples in the file of triples; the build ignored them.
    """

    passages: int
    entities: int
    mentions: int
    facts: int
    shards: int
    kept: int
    cpu: float
    worker_peak: int
    driver_peak: int
    synonyms: int = 0
    malformed: int = 0

    def __str__(self) -> str:
        kept = f" ({self.kept} kept)" if self.kept else ""
        peaks = f", at most {_megabytes(self.worker_peak)} a worker and {_megabytes(self.driver_peak)} here"
        return f"{self.shards} shards{kept}, {self.cpu:.1f} s of CPU{peaks if self.driver_peak else ''}"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


def peak() -> int:
    """Return the peak memory of this process in bytes; 0 if the system does not report it."""
    if sys.platform == "win32":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def spent(task: Callable[..., None], arguments: Sequence[Any]) -> Spent:
    """Call ``task(*arguments)``, and return the CPU time of the call and the peak memory of this process."""
    started = time.process_time()
    task(*arguments)
    return Spent(time.process_time() - started, peak())


@dataclass(frozen=True)
class Work:
    """The work folder of a build, which contains the intermediate files.

    `out` is the folder of the index, which is new, empty, or an index to replace. Only one process at a time can build
    in the work folder; it locks a file next to the folder. All processes that work on the shards must find the folder
    under the same path.
    """

    out: Path
    folder: Path = field(default=Path())

    @classmethod
    def beside(cls, out: str | os.PathLike[str], work: str | os.PathLike[str] | None) -> Work:
        """Return the :class:`Work` of a build that writes the index to the folder `out`; no folder is created.

        `work` is the path of the work folder. If it is None, the path is `out` with ``.work`` added to its name.
        """
        target = Path(out).absolute()
        if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).is_file():
            raise InvalidInputError(f"{target}: the folder must be new, empty, or an index; it contains other files")
        arrow()  # fails before a file is read if pyarrow is missing
        return cls(target, Path(work).absolute() if work is not None else target.with_name(f"{target.name}.work"))

    def build(
        self,
        stage_all: Callable[[Path], tuple[Sequence[Path], list[Spent]]],
        settings: BuildSettings,
        run: Run,
        *,
        triples: TripleFile | None = None,
        names: NameBlocks | None = None,
    ) -> BuildReport:
        """Build the index: check and write each shard, extract its names and words, and merge all shards.

        ``stage_all(folder)`` checks each shard and writes it to a subfolder with
        :func:`~phasegraph.distributed.shards.stage`. It returns the subfolders, and the CPU time and memory of each
        task (:class:`Spent`). `run` is the engine for the other tasks. `triples` is a file of further triples, and
        `names` are embedded names, from which synonyms are found.
        """
        started = time.process_time()
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        # The lock file is next to the work folder, because the work folder is removed at the end.
        with one_writer(self.folder.parent, name=f".{self.folder.name}.lock"):
            self.folder.mkdir(exist_ok=True)
            folders, took = stage_all(self.folder)
            self._check(folders, STAGED, "stage")
            shards = [Staged.read(folder) for folder in folders]
            check_shards(shards)
            whole = [one for one in shards if one.passages]

            def mapped(task: Callable[..., None], arguments: Sequence[tuple[Any, ...]], kind: str, label: str) -> int:
                lacking = [one for one in arguments if not is_whole(one[-1], kind)]
                took.extend(run(task, lacking, label))
                self._check([one[-1] for one in lacking], kind, label)
                return len(arguments) - len(lacking)

            malformed = 0
            stated: Sequence[Stated | None] = [None] * len(whole)
            if triples is not None:
                write_rows(whole, self.folder / "rows")
                placed, calls = triples.tasks(whole, self.folder / "rows", self.folder / "triples")
                mapped(placed, calls, TRIPLES, "triples")
                malformed, stated = triples.placed(whole, [one[-1] for one in calls])
            gazetteer = self.folder / "names"
            digest = write_gazetteer(whole, settings, gazetteer)
            key = "" if triples is None else triples.digest
            parts = [self.folder / "parts" / digest_of(one.digest, digest, settings.digest, key) for one in whole]
            tasks = [
                (shard, gazetteer, digest, settings, more, part)
                for shard, more, part in zip(whole, stated, parts, strict=True)
            ]
            kept = mapped(extract, tasks, READ, "read")

            link = None if names is None else partial(names.link, folder=self.folder / "synonyms", run=mapped)
            counts = merge(parts, settings, self.out, self.folder / "scratch", link)
            cpu = time.process_time() - started + sum(one.cpu for one in took)
            shutil.rmtree(self.folder)
        most = max((one.peak for one in took), default=0)
        return BuildReport(
            **counts, shards=len(shards), kept=kept, cpu=cpu, worker_peak=most, driver_peak=peak(), malformed=malformed
        )

    def _check(self, folders: Sequence[Path], kind: str, label: str) -> None:
        """Raise StoreError if the output of a task is missing or damaged, for example after a failure of a worker.

        `folders` are the output folders, and `kind` is the kind of output.
        """
        wrong = next((number for number, one in enumerate(folders) if not is_whole(one, kind)), None)
        if wrong is not None:
            raise StoreError(
                f"{self.folder}: the output of task {wrong + 1} of {len(folders)} ({label!r}) is missing, damaged, or "
                "belongs to another shard; make sure that all nodes can write to this folder, and build again: "
                "complete output is reused"
            )


def cuts(rows: int, shards: int | None, workers: int, each: int) -> list[int]:
    """Divide `rows` rows into shards; return the first row of each shard, then the end of the last shard.

    If `shards` is None, a shard has at most `each` rows, and there are at least `workers` shards.
    """
    count = max(-(-rows // each), workers) if shards is None else check_count("shards", shards, minimum=1)
    count = max(1, min(count, rows))
    return [rows * place // count for place in range(count + 1)]


def in_turn(
    task: Callable[..., None], arguments: Sequence[tuple[Any, ...]], label: str, /, *, progress: bool | None = True
) -> list[Spent]:
    """Run all calls of a task in this process; this is the engine without worker processes (see :class:`Run`).

    Each returned CPU time is 0, because the CPU time of this process includes the task. The progress bar appears only
    if `progress` is True.
    """
    found = []
    for one in shown(arguments, label, show=progress):
        task(*one)
        found.append(Spent(0.0, peak()))  # the CPU time of this process includes the CPU time of the task
    return found


def shown(items: Any, label: str, total: int | None = None, *, show: bool | None = True) -> Any:
    """Yield `items`, with a progress bar if `show` is True and the output is a terminal.

    `total` is the number of items, for the progress bar. It is required if `items` has no length.
    """
    from phasegraph._support.progress import with_progress

    return with_progress(items, show, label=label, unit="shard", total=total)
