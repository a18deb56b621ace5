"""Semantic abstractness of entities, and how relevant each is to a query.

An entity that is mentioned in passages of many kinds is abstract; one whose passages say the same is specific.
SemFlowRAG lets a walk run downhill, from the abstract to the specific.

References
----------
SemFlowRAG. arXiv:2606.28447
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from phasegraph._typing import FloatArray, IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.synonyms import finite_rows

if TYPE_CHECKING:
    from phasegraph.graph.entity_graph import EntityGraph

_ROWS = 1024
_kept: WeakKeyDictionary[EntityGraph, dict[tuple[Any, ...], FloatArray]] = WeakKeyDictionary()


def truncated_min_max(values: ArrayLike, /, *, low: float = 0.01, high: float = 0.99) -> FloatArray:
    """Min-max between two quantiles, clipped to [0, 1].

    Parameters
    ----------
    values : (n,) array of float
        Any finite numbers.
    low, high : float
        Quantiles (by linear interpolation), 0 <= low < high <= 1.

    Returns
    -------
    (n,) array of float
        In [0, 1]; all .5 where the two quantiles are equal, empty where `values` is.

    Raises
    ------
    InvalidInputError
        If a value is not finite, or the quantiles are out of range.

    Examples
    --------
    >>> truncated_min_max([0.575, 0.1, 0.0, 0.1]).round(6).tolist()
    [1.0, 0.173913, 0.0, 0.173913]
    """
    given = finite_vector(values, "values")
    if not 0.0 <= low < high <= 1.0:
        raise InvalidInputError(f"quantiles must satisfy 0 <= low < high <= 1; got {low} and {high}")
    if not len(given):
        return given
    ordered = np.sort(given)
    bottom, top = (_interpolated(ordered, level) for level in (low, high))
    if top <= bottom:
        return np.full(len(given), 0.5)
    scaled: FloatArray = np.clip((given - bottom) / (top - bottom), 0.0, 1.0)
    return scaled


def abstractness(
    mentions: Any,
    passages: ArrayLike,
    *,
    ddof: int = 0,
    shrinkage: float = 0.0,
    prior: float | None = None,
) -> FloatArray:
    """Variance of the embeddings of the passages that mention each entity: the trace of their covariance.

    Parameters
    ----------
    mentions : (P, E) sparse matrix
        Non-zero where the passage mentions the entity; how often does not matter.
    passages : (P, d) array of float
        Embeddings of the passages, finite; float64 is summed in float64, anything shorter in float32.
    ddof : {0, 1}
        0 for the population covariance (SemFlowRAG), 1 for the unbiased one.
    shrinkage : float
        m0 >= 0 of (m * variance + m0 * prior) / (m + m0), where m is the number of passages.
    prior : float, optional
        What the estimate shrinks to; by default the mean over the entities with at least two passages.

    Returns
    -------
    (E,) array of float
        At least 0. Without shrinkage, 0 for an entity in fewer than two passages.

    Raises
    ------
    InvalidTypeError, InvalidInputError
        If the shapes do not fit, an embedding is not finite (its row is named), or a setting is out of range.

    Notes
    -----
    The population variance has expectation (m - 1) / m of the true one, so that it rises with frequency, and
    entities in one passage, usually most, are pinned at 0. ``ddof=1`` takes out the first effect,
    `shrinkage` (ours) lifts the second; a single passage counts there as one observation of 0.

    Examples
    --------
    >>> from scipy import sparse
    >>> mentions = sparse.csr_array([[1, 1], [1, 0]])
    >>> abstractness(mentions, [[1.0, 0.0], [0.0, 1.0]]).tolist()
    [0.5, 0.0]
    >>> abstractness(mentions, [[1.0, 0.0], [0.0, 1.0]], ddof=1, shrinkage=1.0).round(6).tolist()
    [1.0, 0.5]
    """
    vectors = finite_rows(passages, "passages")
    members = members_of(mentions, len(vectors))
    if ddof not in (0, 1):
        raise InvalidInputError(f"ddof must be 0 or 1; got {ddof!r}")
    if not (np.isfinite(shrinkage) and shrinkage >= 0) or (prior is not None and not 0 <= prior < np.inf):
        raise InvalidInputError(f"shrinkage and prior must be finite and at least 0; got {shrinkage}, {prior}")
    counts = np.diff(members.indptr).astype(np.float64)
    several = counts > 1
    variance = np.zeros(len(counts))
    variance[several] = _scatter(members[several], vectors) / (counts[several] - ddof)
    if shrinkage == 0:
        return variance
    level = prior
    if level is None:
        level = float(variance[several].mean()) if several.any() else 0.0
    shrunk: FloatArray = (counts * variance + shrinkage * level) / (counts + shrinkage)
    return shrunk


def graph_abstractness(graph: EntityGraph, *, normalised: bool = True, **options: Any) -> FloatArray:
    """Abstractness of a graph's entities, from its own mentions and embeddings.

    Parameters
    ----------
    graph : EntityGraph
        With embeddings.
    normalised : bool, default True
        Whether to pass the values through :func:`truncated_min_max`, as the semantic flow takes them.
    **options
        As for :func:`abstractness`.

    Returns
    -------
    (E,) array of float
        Read-only, and kept while the graph is, so that asking again costs nothing; in [0, 1] if normalised.

    Raises
    ------
    InvalidInputError
        If the graph has no embeddings, or a setting is out of range.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> passages = [{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Ada sang."}]
    >>> graph = build_graph(passages, embeddings=[[1.0, 0.0], [0.0, 1.0]])
    >>> graph.entities, graph_abstractness(graph, normalised=False).tolist()
    (('ada', 'bo'), [0.5, 0.0])
    """
    if graph.embeddings is None:
        raise InvalidInputError("abstractness must be that of a graph with embeddings; this one has none")
    kept = _kept.setdefault(graph, {})
    key = (normalised, *sorted(options.items()))
    if key not in kept:
        values = abstractness(graph.mentions, graph.embeddings, **options)
        values = truncated_min_max(values) if normalised else values
        values.flags.writeable = False
        kept[key] = values
    return kept[key]


def entity_relevance(mentions: Any, passage_scores: ArrayLike, *, normalised: bool = True) -> FloatArray:
    """How relevant each entity is to a query: the best score of a passage that mentions it.

    Parameters
    ----------
    mentions : (P, E) sparse matrix
        Non-zero where the passage mentions the entity.
    passage_scores : (P,) array of float
        Similarity of each passage to the query.
    normalised : bool
        Whether to pass the result through :func:`truncated_min_max`.

    Returns
    -------
    (E,) array of float
        In [0, 1] if normalised; 0 (before that) for an entity without a passage.

    Raises
    ------
    InvalidTypeError, InvalidInputError
        If the shapes do not fit, or a score is not finite.

    Examples
    --------
    >>> from scipy import sparse
    >>> mentions = sparse.csr_array([[1, 1, 0], [1, 0, 0]])
    >>> entity_relevance(mentions, [0.2, 0.8], normalised=False).tolist()
    [0.8, 0.2, 0.0]
    """
    scores = finite_vector(passage_scores, "passage_scores")
    members = members_of(mentions, len(scores))
    best = best_of(members, scores)
    return truncated_min_max(best) if normalised else best


def best_of(members: Any, scores: FloatArray, rows: IntArray | None = None) -> FloatArray:
    """Per row of a CSR matrix, the highest of the scores its columns have; 0 for an empty row.

    `rows`, the row of each entry, saves a third of the time where it is known.
    """
    entries = np.repeat(np.arange(members.shape[0]), np.diff(members.indptr)) if rows is None else rows
    best = np.full(members.shape[0], -np.inf)
    np.maximum.at(best, entries, scores.take(members.indices))
    best[best == -np.inf] = 0.0
    return best


def _interpolated(ordered: FloatArray, level: float) -> float:
    """Quantile of sorted values by linear interpolation."""
    place = level * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (place - below) * (ordered[above] - ordered[below]))


def _scatter(members: Any, vectors: Any) -> FloatArray:
    """Summed squared distance of each row's passages to their mean, some rows at a time."""
    centred = vectors.astype(np.float64 if vectors.dtype.itemsize > 4 else np.float32)
    centred -= vectors.mean(axis=0, dtype=np.float64).astype(centred.dtype)
    squares = np.einsum("ij,ij->i", centred, centred, dtype=np.float64)
    total: FloatArray = members @ squares
    counts = np.diff(members.indptr)
    for first in range(0, len(total), _ROWS):
        rows = members[first : first + _ROWS].astype(centred.dtype)
        sums = rows @ centred
        total[first : first + _ROWS] -= np.einsum("ij,ij->i", sums, sums) / counts[first : first + _ROWS]
    return np.maximum(total, 0.0)


def members_of(mentions: Any, passages: int) -> Any:
    """(E, P) CSR of ones: the passages of each entity."""
    if not sparse.issparse(mentions):
        raise InvalidTypeError(f"mentions must be a scipy sparse matrix; got {type(mentions).__name__}")
    given: Any = mentions
    if given.ndim != 2 or given.shape[0] != passages:
        raise InvalidInputError(f"mentions must have one row per passage ({passages}); got shape {given.shape}")
    members = given.T.tocsr()
    members = sparse.csr_array(members, copy=True)
    members.sum_duplicates()
    members.eliminate_zeros()
    members.data = np.ones(len(members.data))
    return members


def finite_vector(values: ArrayLike, name: str) -> FloatArray:
    """Check that `values` are finite numbers in one dimension; `name` is what an error calls them."""
    try:
        given = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"{name} must be numbers; got {values!r:.80}") from error
    if given.ndim != 1:
        raise InvalidInputError(f"{name} must be one-dimensional; got shape {given.shape}")
    bad = np.flatnonzero(~np.isfinite(given))
    if len(bad):
        raise InvalidInputError(f"{name} must be finite; got {given[bad[0]]} at position {bad[0]}")
    return given
