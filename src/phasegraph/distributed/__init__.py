"""An index of more passages than one process should read, to the bit the one that a single process builds.

Here with the processes of one machine; :mod:`phasegraph.distributed.ray` and :mod:`phasegraph.distributed.spark` do the
same on a cluster.
"""

from phasegraph.distributed.building import Built, Spent
from phasegraph.distributed.local import build_index
from phasegraph.distributed.names import EmbeddedNames
from phasegraph.distributed.retrieval import retrieve

__all__ = ["Built", "EmbeddedNames", "Spent", "build_index", "retrieve"]
