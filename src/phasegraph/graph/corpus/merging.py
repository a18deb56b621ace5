"""Merge the changes of a corpus into its index: when, in which process, and what happens after a failure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from phasegraph._support.apart import run_apart
from phasegraph._support.background import Background
from phasegraph.errors import PhasegraphError, StoreError, warn
from phasegraph.graph.corpus.change import Change, joined
from phasegraph.graph.corpus.folder import MERGE_LOCK, Folder
from phasegraph.graph.index.graph_index import GraphIndex

MOST_CHANGED = 0.05
"""Number of changed passages, as a share of the corpus, above which the changes are merged into the index."""
FEWEST_CHANGED, MOST_LOGGED = 1000, 10_000
"""Lower and upper bound of the number of changed passages above which the changes are merged."""
MERGE_SECONDS = 3600.0
"""Seconds after which a merge is stopped; the changes then stay in separate files."""


def most_changed(index: GraphIndex) -> float:
    """Return the number of changed passages above which the changes are merged into the index."""
    return min(max(FEWEST_CHANGED, MOST_CHANGED * len(index.records)), MOST_LOGGED)


class Merges:
    """The merges of a corpus's changes into its index: at most one at a time, in a background thread.

    For a folder, the thread starts another process, which computes the merge.
    """

    def __init__(self) -> None:
        self._background = Background("merge")
        self._next_try = 0.0  # after a failed merge, the number of changed passages above which a merge is tried again
        self._since: list[Change] | None = None  # the changes since the start of a merge in memory; None if none runs

    def wait(self, timeout: float | None) -> None:
        """Wait until the running merge ends, but at most `timeout` seconds; None means no time limit."""
        self._background.wait(timeout)

    def in_folder(self, folder: Folder, index: GraphIndex, load: Callable[[], object]) -> None:
        """Start a merge if the folder has many changes; call ``load()`` after a successful merge.

        `index` is the index of the current passages. A failed merge causes a warning. If another process merges the
        folder, nothing happens.
        """
        most = most_changed(index)
        if folder.pending > max(most, self._next_try):
            upto = folder.last
            self._background.start(lambda: self._merge_folder(folder, upto, most, load))

    def _merge_folder(self, folder: Folder, upto: int, most: float, load: Callable[[], object]) -> None:
        try:
            with folder.held(name=MERGE_LOCK):  # fails if another process is merging this folder
                pass
        except StoreError:
            return
        reason = merge_apart(folder.path, upto)
        if reason:
            self._next_try = folder.pending + most
            warn(
                f"{folder.path.name}: {folder.pending} changed passages could not be merged into the index: {reason}. "
                "The changes stay in separate files, and searches include them. phasegraph tries again after "
                f"{self._next_try - folder.pending:.0f} more changed passages"
            )
            return
        self._next_try = 0.0
        load()

    def in_memory(
        self, change: Change, index: GraphIndex, changing: AbstractContextManager[object],
        become: Callable[[GraphIndex], object],
    ) -> None:  # fmt: skip
        """Start a merge of the change log of an index in memory if the log is long, because changes then become slow.

        `change` is the last change, and `index` the index with this change. After the merge, ``become(index)`` gets the
        merged index with all later changes. It runs under the lock `changing`, which the caller must hold, too.
        """
        if self._since is not None:
            self._since.append(change)
            return
        log = index.log
        if log is not None and len(log.gone) + len(log.came) + len(log.again) > most_changed(index):
            self._since = []
            if not self._background.start(lambda: self._merge_log(index, changing, become)):
                self._since = None

    def _merge_log(
        self, index: GraphIndex, changing: AbstractContextManager[object], become: Callable[[GraphIndex], object]
    ) -> None:
        merged = None
        try:
            merged = index.compact()
        finally:
            with changing:
                since, self._since = self._since or [], None
                if merged is not None:
                    for change in joined(since):
                        merged = change.made_in(merged)
                    become(merged)


def merge_folder(path: str, upto: str) -> None:
    """Run :meth:`Folder.merge`; the entry point of the process that :func:`merge_apart` starts."""
    Folder(path).merge(int(upto))


def merge_apart(path: Path, upto: int) -> str:
    """Merge the changes of a folder in another process, or in this thread if no process can be started.

    `upto` is the number of the last change to merge. Returns the reason if the merge fails, otherwise an empty string.
    """
    try:
        return run_apart(__name__, "merge_folder", [str(path), str(upto)], MERGE_SECONDS)
    except OSError:
        pass
    try:
        Folder(path).merge(upto)
    except (PhasegraphError, OSError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
