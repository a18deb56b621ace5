"""Compute the scores of a walk: from its masses alone, or from masses, cosines and BM25 scores."""

from __future__ import annotations

import numpy as np

from phasegraph._support.ordering import reached_by
from phasegraph._support.typing import FloatArray, Int32Array
from phasegraph.pagerank import PageRankResult
from phasegraph.ranking import Background

DEPTH = 50
"""Number of best passages by which walk scores, cosines and BM25 scores are scaled; other passages get 0."""
_MANY = 200
"""Number of values above which the best values are selected before they are sorted."""
_EVEN = 0.29
"""Standard deviation of a uniform distribution over [0, 1].

Scores in standard deviations are multiplied by this number, and by the range of the walk's log scores. They then have
the unit of the walk's log scores.
"""
_LIFT = 0.25
"""Weight of a passage's best relevance to a clause, relative to the mean of walk score, cosine and BM25 score."""
_PART, _KEPT = 1.0, 0.75
"""Weight of the relevance to all clauses together; share of this weight that is lost at a trust of 1."""
_TAIL = 0.02
"""Minimum weight of the walk's scores; it keeps passages outside the 50 best of every kind in the walk's order."""
NO_SPREAD = 1e-9
"""Standard deviation up to which scores count as equal, because they differ only by rounding."""
_STEEP = 50.0
"""Log score above which final scores grow more slowly, because their exponential would become infinite."""


def passage_scores(
    walked: PageRankResult, node_weights: FloatArray | None, passages: int, *, floor: float, closeness: float
) -> tuple[Int32Array, FloatArray, Background | None]:
    """Return the rows and scores of the passages that a walk reached, and the background of the scores.

    `passages` is the number of passages of the graph. `node_weights` are positive similarities of the nodes to the
    query. With node weights, a score is ``(mass + floor) * node_weight ** closeness``; without node weights, a score is
    the mass. The background is the mean and the standard deviation of the log scores of all passages; None if all log
    scores are equal.

    >>> walk = PageRankResult(np.array([2, 0], np.int32), np.array([0.5, 0.3]), 4, 0.0, 1, 2, 2)
    >>> passage_scores(walk, np.array([0.25, 1.0, 1.0, 1.0]), 3, floor=0.1, closeness=0.5)[1].round(3).tolist()
    [0.6, 0.2]
    """
    held = (walked.nodes < passages) & (walked.values > 0)
    rows, masses = walked.nodes[held], walked.values[held]
    if node_weights is None or closeness == 0:
        return rows, masses, background(walked, passages, floor)
    tilt = closeness * np.log(node_weights[:passages])
    logs = tilt + np.log(floor)
    logs[rows] = tilt[rows] + np.log(masses + floor)
    spread = float(logs.std())
    found = Background(location=float(logs.mean()), scale=spread, transform="log") if spread > 0 else None
    return rows, np.exp(logs[rows]), found


def background(walked: PageRankResult, passages: int, floor: float) -> Background | None:
    """Compute the mean and the standard deviation of log(mass + floor) over all passages of a graph.

    Returns None if all masses are equal. `passages` is the number of passages. The cost depends only on the number of
    passages that the walk reached.
    """
    held = walked.values[walked.nodes < passages]
    base = float(np.log(floor))
    above = np.log(held + floor) - base
    mean = float(above.sum()) / passages
    spread = float(np.sqrt(max(float((above**2).sum()) / passages - mean**2, 0.0)))
    if spread <= 0:
        return None
    return Background(location=base + mean, scale=spread, transform="log", floor=floor)


def balanced(
    logs: FloatArray, cosines: FloatArray, words: FloatArray, trust: float, parts: FloatArray | None = None
) -> FloatArray:
    """Combine the walk's scores, cosines and BM25 scores into log scores of passages.

    Each value is converted to a deviation: its difference from the 50th best value of its kind, in standard deviations
    of the 50 best. If `trust` is 0, the log score is the scaled mean of the three deviations; a passage below the
    walk's 50 best also keeps a part of its log score. If `trust` is 1, the log score is the walk's log score. Between 0
    and 1, the log score is a weighted sum of both. If all passages have the same value of a kind (for example, the same
    cosine), this kind is left out. The method is our own and not published; it resembles distribution-based score
    fusion.

    Parameters
    ----------
    logs : (n,) array of float
        Log scores of the walk, minus their 50th best value (:func:`fiftieth`).
    cosines, words : (n,) array of float
        Similarities to the query, and BM25 scores.
    trust : float
        Weight of the walk's log scores, in [0, 1].
    parts : (c, n) array of float, optional
        Relevance to each clause of the question, in standard deviations. The greatest relevance of a passage to a
        clause raises its log score.

    Returns
    -------
    (n,) array of float
        Log scores in the unit of `logs`; equal to `logs` if the trust is 1.

    Examples
    --------
    >>> logs = np.array([4.0, 2.0, 0.0])
    >>> balanced(logs, np.array([0.1, 0.5, 0.1]), np.zeros(3), 1.0).tolist()
    [4.0, 2.0, 0.0]
    >>> balanced(logs, np.array([0.1, 0.5, 0.1]), np.zeros(3), 0.0).round(2).tolist()
    [1.42, 1.94, 0.0]
    """
    if trust == 1:
        return logs
    kinds = [found for found in map(deviations, (logs, cosines, words)) if found.any()]
    mean = sum(kinds, 0.0) / max(len(kinds), 1)
    if parts is not None:
        mean = mean + _LIFT * parts.max(axis=0)
    reach = max(float(logs.max()), NO_SPREAD)
    mixed: FloatArray = (1 - trust) * _EVEN * reach * mean + np.where(logs > 0, trust, max(trust, _TAIL)) * logs
    return mixed


def fiftieth(logs: FloatArray) -> float:
    """Return the 50th best of the walk's log scores, or the smallest log score if there are fewer than 50.

    >>> fiftieth(np.array([-1.0, -3.0]))
    -3.0
    """
    return float(foremost(logs).min())


def foremost(values: FloatArray) -> FloatArray:
    """Return the 50 best values in ascending order, or all values in the given order if there are at most 50.

    In ascending order, the sum of the values is the same on every processor.
    """
    if len(values) <= DEPTH:
        return values
    bound = reached_by(values, DEPTH)
    best = values if bound is None else values[values >= bound]
    if len(best) > _MANY:
        best = np.partition(best, len(best) - DEPTH)[-DEPTH:]
    return np.sort(best)[-DEPTH:]


def deviations(values: FloatArray) -> FloatArray:
    """Return the excess of each value over the 50th best value, in standard deviations of the 50 best values.

    A lower value has the excess 0. If there are fewer than 50 values, the smallest value counts as the 50th best. If
    the 50 best values are equal, the result is 0 for all values.

    >>> deviations(np.array([3.0, 2.0, 1.0])).round(2).tolist(), deviations(np.ones(2)).tolist()
    ([2.45, 1.22, 0.0], [0.0, 0.0])
    """
    best = foremost(values)
    spread, low, found = float(best.std()), best.min(), np.zeros(len(values))
    if spread > NO_SPREAD:
        above = np.flatnonzero(values > low)
        found[above] = (values[above] - low) / spread
    return found


def part_worths(parts: FloatArray, logs: FloatArray, trust: float) -> FloatArray:
    """Scale the relevance of n passages to c clauses to the unit of log scores; an array of shape (c, n).

    Each value is the maximum amount by which the clause can raise the passage's log score. `parts`, of shape (c, n), is
    the relevance. `logs`, of shape (n,), are the walk's log scores; the greatest of them sets the unit. The values are
    lower if `trust`, the trust in the walk, is high.
    """
    return parts * (_PART * (1 - _KEPT * trust) * _EVEN * float(logs.max()) / len(parts))


def moments(values: FloatArray, standing: FloatArray | None = None) -> tuple[float, float]:
    """Return the mean and the standard deviation of n values.

    `standing`, of shape (n,), is the number of values that each value represents; None means 1 for each.
    """
    if standing is None:
        return float(values.mean()), float(values.std())
    total = standing.sum()
    mean = float((values * standing).sum() / total)
    return mean, float(np.sqrt(((values - mean) ** 2 * standing).sum() / total))


def final_scores(values: FloatArray) -> FloatArray:
    """Convert log scores to final scores: positive, finite scores of a ranking, in the same order.

    >>> final_scores(np.array([0.0, -1.0])).round(3).tolist()
    [1.0, 0.368]
    """
    beyond = np.maximum(values - _STEEP, 0.0)
    return np.asarray(np.exp(np.minimum(values, _STEEP) + np.log1p(beyond)))
