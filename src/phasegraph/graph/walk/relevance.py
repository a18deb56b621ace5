"""How near passages are to a query, and how readily the walk enters them."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasegraph._support.typing import Float32Array, FloatArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.covering import Terms
from phasegraph.graph.walk.settings import WordSettings
from phasegraph.ranking import Ranking

_UNKNOWN_SCALE = 0.7
"""What the last seed's score is taken for, the first one's being 1, where scores are no cosines."""
FLOOR = 0.05
"""Least similarity a passage counts with: no passage is closed to the walk."""
UNLISTED = 0.5
"""What a passage outside the ranking counts with, as a share of the ranking's last similarity."""


def similarities(ranking: Ranking) -> FloatArray:
    """Scores of a ranking as (n,) similarities in [0, 1].

    The scores themselves where they can be cosines (all in [0, 1]); otherwise placed linearly between 0.7 (last) and
    1 (first).
    """
    scores = np.asarray(ranking.scores, dtype=np.float64)
    if not len(scores) or (scores.min() >= 0 and scores.max() <= 1 + 1e-6):
        return np.clip(scores, 0.0, 1.0)
    low, high = float(scores.min()), float(scores.max())
    place = np.ones(len(scores)) if high == low else (scores - low) / (high - low)
    return _UNKNOWN_SCALE + (1 - _UNKNOWN_SCALE) * place


def unit_vector(vector: Any, dimensions: int) -> Float32Array:
    """A query's embedding as (dimensions,) float32, checked and normalised."""
    try:
        values = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"the query's embedding must be numbers; got {vector!r:.80}") from error
    if values.shape != (dimensions,):
        raise InvalidInputError(f"the query's embedding must have shape ({dimensions},); got {values.shape}")
    length = float(np.sqrt(np.dot(values.astype(np.float64), values)))
    if not np.isfinite(length):
        raise InvalidInputError("the query's embedding must be finite; it holds NaN or infinity")
    return values / np.float32(length) if length > 0 else values


def relevance(
    graph: EntityGraph, ranking: Ranking | None, vector: Any = None, *, floor: float = FLOOR
) -> FloatArray | None:
    """How readily the walk enters each of the (P + E,) nodes; None where nothing is known.

    For passages the cosine of `vector`, the query's embedding, to `graph.embeddings`, or their similarity in a dense
    ranking where there are none to compare, at least `floor`; 1 for entities.
    """
    node_weights = np.ones(graph.size)
    count = len(graph.passages)
    if vector is not None and graph.embeddings is not None:
        near = graph.embeddings @ unit_vector(vector, graph.embeddings.shape[1])
        node_weights[:count] = np.maximum(near, floor)
        return node_weights
    if ranking is None or not len(ranking):
        return None
    near = np.maximum(similarities(ranking), floor)
    node_weights[:count] = max(UNLISTED * float(near[-1]), floor)
    for name, value in zip(ranking.ids, near.tolist(), strict=True):
        row = graph.passage_rows.get(name)
        if row is not None:
            node_weights[row] = value
    return node_weights


def relevance_by_words(cosines: FloatArray, terms: Terms, settings: WordSettings) -> FloatArray:
    """(P,) cosines with what BM25 adds to them."""
    highest = float(terms.scores.max(initial=0.0))
    return cosines + settings.weight * terms.scores / highest if highest > 0 else cosines


def entered(gains: FloatArray, others: FloatArray, highest: float, named: float, settings: WordSettings) -> FloatArray:
    """(n,) gains of edges into passages, with what the query's words besides its names say for each of these.

    What a question asks about its names ("born", "directed") stands in the passage that answers it, whoever that is
    about: `others` (n,) are BM25 scores of these words alone, `highest` that of the best passage, `named` the mass of
    the names that a passage is about.

    >>> entered(np.array([0.5, 0.5]), np.array([4.0, 0.0]), 4.0, 1.0, WordSettings()).tolist()
    [1.0, 0.5]
    """
    return gains * (1 + settings.relation * named * np.minimum(others / highest, 1.0)) if highest > 0 else gains
