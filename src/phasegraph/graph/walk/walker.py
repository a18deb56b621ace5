"""What the sources that walk a graph in memory share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from phasegraph._support.frozen import by_fields
from phasegraph._support.ordering import top_order
from phasegraph._support.shared import portable
from phasegraph._support.typing import FloatArray, Int32Array, IntArray
from phasegraph.errors import InvalidTypeError
from phasegraph.graph.model.entity_graph import EntityGraph

Embedder = Callable[[str], Any]


class GraphWalker:
    """Base of the sources that walk a graph in memory, which :func:`prepare` prepares."""

    __reduce__ = by_fields

    def prepare(self) -> Self:
        """Do now what the first search would wait for; returns the source."""
        raise NotImplementedError


def check_source_name(name: object) -> None:
    """Refuse a source's name that is no text or blank."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidTypeError(f"name must be text that is not blank; got {name!r}")


def check_embedder(source: Any) -> None:
    """Refuse an `embedder` that cannot be called; a method that a framework wrapped is kept as one to be pickled."""
    if not callable(source.embedder):
        raise InvalidTypeError(f"embedder must be callable; got {source.embedder!r:.80}")
    object.__setattr__(source, "embedder", portable(source.embedder))


def best_passages(
    graph: EntityGraph, rows: Int32Array | IntArray, scores: FloatArray, limit: int | None
) -> tuple[tuple[str, ...], FloatArray]:
    """Ids and scores of the best of the scored passages, ties by id."""
    if limit is not None and limit < len(scores):
        high = scores >= np.partition(scores, len(scores) - limit)[len(scores) - limit]
        rows, scores = rows[high], scores[high]
    ids = [graph.passages[row] for row in rows.tolist()]
    best = top_order(scores, ids, limit)
    return tuple(ids[place] for place in best.tolist()), scores[best]
