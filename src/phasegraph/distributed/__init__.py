"""Build an index in many processes, for corpora that are too large for one process.

The index equals, bit by bit, the index that a single process builds. The functions here use processes on one machine;
:mod:`phasegraph.distributed.ray` and :mod:`phasegraph.distributed.spark` use a cluster.
"""

from typing import TYPE_CHECKING, Any

from phasegraph._support.renamed import warn_of_old_name
from phasegraph.distributed.building import BuildReport, Spent
from phasegraph.distributed.local import build_index
from phasegraph.distributed.names import EmbeddedNames
from phasegraph.distributed.retrieval import retrieve

__all__ = ["BuildReport", "EmbeddedNames", "Spent", "build_index", "retrieve"]


if not TYPE_CHECKING:  # a type checker would otherwise accept any name

    def __getattr__(name: str) -> Any:
        """Return `BuildReport` for its deprecated name ``Built``, with a warning."""
        if name != "Built":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warn_of_old_name("Built", "BuildReport")
        return BuildReport
