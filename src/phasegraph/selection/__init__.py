"""Which passages go together: relevance against reading the same thing twice.

A :class:`SelectionPolicy` is one stored value with one call, ``select(relevance, embeddings, k)``. The default
maximises relevance plus a log-determinant of the set's similarities, which has a guarantee; the other methods
are baselines, a penalty variant, and the quantum document's rule to the letter.
"""

from phasegraph.selection.policy import METHODS, SelectionPolicy, SelectionResult, scaled_relevance
from phasegraph.selection.similarity import (
    kernel_rows,
    redundancy,
    unit_rows,
    vendi_score,
    von_neumann_entropy,
)

__all__ = [
    "METHODS",
    "SelectionPolicy",
    "SelectionResult",
    "kernel_rows",
    "redundancy",
    "scaled_relevance",
    "unit_rows",
    "vendi_score",
    "von_neumann_entropy",
]
