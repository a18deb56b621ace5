"""Build an index and answer questions in many processes, for corpora that are too large for one process.

The index is identical, to the bit, to the index that a single process builds. The functions in this module use
processes on one machine; :mod:`phasegraph.distributed.ray` and :mod:`phasegraph.distributed.spark` use a cluster.
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
        """Return the class `BuildReport` for its old name ``Built``, and warn that the name is old."""
        if name != "Built":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warn_of_old_name("Built", "BuildReport")
        return BuildReport
