"""Merge the changes of a corpus into its index: when, in which process, and what happens after a failure."""

from __future__ import annotations

from pathlib import Path

from phasegraph._support.apart import run_apart
from phasegraph.errors import PhasegraphError
from phasegraph.graph.corpus.folder import Folder
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
