"""Compute the relevance of passages to a query, and the factors for the weights of edges into these passages."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasegraph._support.typing import Float32Array, FloatArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.settings import WordSettings
from phasegraph.ranking import Ranking

_UNKNOWN_SCALE = 0.7
"""Similarity of a ranking's last passage if the scores are not cosines; the first passage has similarity 1."""
FLOOR = 0.05
"""Minimum similarity of a passage; it is positive, because the walk must be able to reach every passage."""
UNLISTED = 0.5
"""Similarity of a passage outside the ranking, as a share of the similarity of the ranking's last passage."""


def similarities(ranking: Ranking) -> FloatArray:
    """Convert the scores of a ranking to similarities in [0, 1], an array of shape (n,).

    Scores that are all in [0, 1] are used unchanged. Other scores are scaled linearly to the range from 0.7 (last) to 1
    (first).
    """
    scores = np.asarray(ranking.scores, dtype=np.float64)
    if not len(scores) or (scores.min() >= 0 and scores.max() <= 1 + 1e-6):
        return np.clip(scores, 0.0, 1.0)
    low, high = float(scores.min()), float(scores.max())
    place = np.ones(len(scores)) if high == low else (scores - low) / (high - low)
    return _UNKNOWN_SCALE + (1 - _UNKNOWN_SCALE) * place


def unit_vector(vector: Any, dimensions: int) -> Float32Array:
    """Validate a query's embedding and return it as a float32 unit vector of shape (dimensions,)."""
    try:
        values = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"the query's embedding must be numbers; got {vector!r:.80}") from error
    if values.shape != (dimensions,):
        raise InvalidInputError(f"the query's embedding must have shape ({dimensions},); got {values.shape}")
    length = float(np.sqrt(np.dot(values.astype(np.float64), values)))
    if not np.isfinite(length):
        raise InvalidInputError(
            "the query's embedding must be finite; it contains NaN or infinity at position "
            f"{int(np.argmin(np.isfinite(values)))}"
        )
    return values / np.float32(length) if length > 0 else values


def relevance(
    graph: EntityGraph, ranking: Ranking | None, vector: Any = None, *, floor: float = FLOOR
) -> FloatArray | None:
    """Compute the factor for the weights of edges into each node, an array of shape (P + E,).

    The factor of a passage is its relevance, and the factor of an entity is 1. :func:`passage_relevance` describes the
    parameters. Returns None if no relevance is known.
    """
    near = passage_relevance(graph, ranking, vector, floor=floor)
    if near is None:
        return None
    node_weights = np.ones(graph.size)
    node_weights[: len(near)] = near
    return node_weights


def passage_relevance(
    graph: EntityGraph, ranking: Ranking | None, vector: Any = None, *, floor: float
) -> FloatArray | None:
    """Compute the relevance of all passages, an array of shape (P,) with values of at least `floor`.

    The relevance is the cosine of the passage's embedding to `vector`, the query's embedding. If there are no vectors
    to compare, the relevance is the passage's similarity in the dense ranking; a passage outside the ranking gets a
    part of the similarity of the last hit. If there is no ranking either, the result is None.
    """
    if vector is not None and graph.embeddings is not None:
        cosines = graph.cosines_to(unit_vector(vector, graph.embeddings.shape[1]))
        return np.maximum(cosines, floor).astype(np.float64)
    if ranking is None or not len(ranking):
        return None
    near = np.maximum(similarities(ranking), floor)
    found = np.full(len(graph.passages), max(UNLISTED * float(near[-1]), floor))
    for name, value in zip(ranking.ids, near.tolist(), strict=True):
        row = graph.passage_rows.get(name)
        if row is not None:
            found[row] = value
    return found


def relevance_by_words(cosines: FloatArray, scores: FloatArray, best: float, settings: WordSettings) -> FloatArray:
    """Compute cosine + weight * BM25 score / best BM25 score for each of n passages, an array of shape (n,).

    `scores` are the BM25 scores of the passages, and `best` is the best BM25 score of any passage. `settings` contains
    the weight.
    """
    return cosines + settings.weight * scores / best if best > 0 else cosines


def entered(gains: FloatArray, others: FloatArray, highest: float, named: float, settings: WordSettings) -> FloatArray:
    """Raise the gains of edges into passages that contain query words other than names; arrays have shape (n,).

    A gain is the factor for the weights of edges into a passage. Words of a question that are not names ("born",
    "directed") occur in the passage that answers the question. `others` are the BM25 scores of these words alone, and
    `highest` is the best such score. `named` is the mass of the entities that the query names and that have a home
    passage (a passage about the entity).

    >>> entered(np.array([0.5, 0.5]), np.array([4.0, 0.0]), 4.0, 1.0, WordSettings()).tolist()
    [1.0, 0.5]
    """
    return gains * (1 + settings.relation * named * np.minimum(others / highest, 1.0)) if highest > 0 else gains
