"""The entity graph of a corpus from which all passages were deleted."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.lexical import LexicalIndex


class EmptyGraph(EntityGraph):
    """A graph without passages and entities, which :class:`~phasegraph.graph.EntityGraph` itself refuses.

    Sources over this graph find nothing; :meth:`GraphSource.prepare` must not be called.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "mapped", ())

    @classmethod
    def like(cls, graph: Any) -> EmptyGraph:
        """Create a graph without passages, with the weights, the tokenizer and the vectors' length of `graph`."""
        vectors = None if graph.embeddings is None else np.empty((0, graph.embeddings.shape[1]), dtype=np.float32)
        words = None if graph.lexical is None else LexicalIndex.of([], graph.lexical.tokenizer)
        return cls(
            (), (), csr_array((0, 0), dtype=np.int32), csr_array((0, 0), dtype=np.int8),
            csr_array((0, 0), dtype=np.int32), csr_array((0, 0), dtype=np.float32), graph.weights, vectors, words,
        )  # fmt: skip
