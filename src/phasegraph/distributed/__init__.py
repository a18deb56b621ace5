"""An index of more passages than one process should read, to the bit the one that a single process builds.

Here with the processes of one machine; :mod:`phasegraph.distributed.ray` and :mod:`phasegraph.distributed.spark` do the
same on a cluster.
"""

from typing import TYPE_CHECKING, Any

from phasegraph._support.renamed import warn_of_old_name
from phasegraph.distributed.building import BuildReport, Spent
from phasegraph.distributed.local import build_index
from phasegraph.distributed.names import EmbeddedNames
from phasegraph.distributed.retrieval import retrieve

__all__ = ["BuildReport", "EmbeddedNames", "Spent", "build_index", "retrieve"]


if not TYPE_CHECKING:  # where any name would be right

    def __getattr__(name: str) -> Any:
        """The old name of the report of a build."""
        if name != "Built":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warn_of_old_name("Built", "BuildReport")
        return BuildReport
