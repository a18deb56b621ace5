"""Compare two entity graphs to the bit."""

from __future__ import annotations

from phasegraph.graph import EntityGraph


def same_graph(one: EntityGraph, other: EntityGraph) -> None:
    """Assert that all parts of two graphs are equal to the bit: names, matrices, embeddings and lexical index."""
    assert (one.passages, one.entities, one.weights) == (other.passages, other.entities, other.weights)
    for name in ("mentions", "homes", "facts", "synonyms", "adjacency"):
        here, there = getattr(one, name), getattr(other, name)
        assert here.dtype == there.dtype, name
        for part in ("data", "indices", "indptr"):
            assert getattr(here, part).tobytes() == getattr(there, part).tobytes(), name
    assert (one.embeddings is None) == (other.embeddings is None)
    if one.embeddings is not None and other.embeddings is not None:
        assert one.embeddings.tobytes() == other.embeddings.tobytes()
    assert (one.lexical is None) == (other.lexical is None)
    if one.lexical is not None and other.lexical is not None:
        assert one.lexical.vocabulary == other.lexical.vocabulary
        for name in ("starts", "rows", "counts", "lengths"):
            assert getattr(one.lexical, name).tobytes() == getattr(other.lexical, name).tobytes(), name
