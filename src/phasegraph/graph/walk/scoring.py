"""Compute the scores of a walk: from its masses alone, or balanced with cosines and words."""

from __future__ import annotations

import numpy as np

from phasegraph._support.ordering import reached_by
from phasegraph._support.typing import FloatArray, Int32Array
from phasegraph.pagerank import PageRankResult
from phasegraph.ranking import Background

DEPTH = 50
"""Passages over which a kind of evidence is scaled to [0, 1]; every other passage has 0."""
_MANY = 200
"""Values from which on the best of them are parted from the others before they are sorted."""
_EVEN = 0.29
"""Standard deviation of values spread evenly over [0, 1]: it turns deviations into shares of a reach."""
_LIFT = 0.25
"""What the relevance to one clause adds to the mean of the evidence for the whole question."""
_PART, _KEPT = 1.0, 0.75
"""What all clauses together add, and how much less where the walk is trusted."""
_TAIL = 0.02
"""Share of the walk that orders passages outside every kind's 50 best, where the walk is not trusted."""
NO_SPREAD = 1e-9
"""A deviation up to which scores are equal but for rounding."""
_STEEP = 50.0
"""Logarithm of a score beyond which it grows more slowly: one passage among millions may stand 1,000 deviations out."""


def passage_scores(
    walked: PageRankResult, node_weights: FloatArray | None, passages: int, *, floor: float, closeness: float
) -> tuple[Int32Array, FloatArray, Background | None]:
    """Return rows and scores of the passages that a walk reached, and the background over all passages.

    `node_weights` are positive similarities of the passages to the query. With them, a score is ``(mass + floor) *
    node_weight ** closeness``; otherwise it is the mass. The background describes the logarithms of the scores over all
    passages; None if all are equal.

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
    """Compute mean and deviation of log(mass + floor) over all passages, in O(reached); None if masses are equal."""
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
    """Combine three kinds of evidence to logarithms of passage scores.

    Each kind is measured over its own 50 best passages, from the least of them and in their standard deviation. With
    no trust in the walk, a score is the mean of the three; with full trust, the walk alone counts. Evidence that is
    equal for all passages is left out. Ours, no published method; it resembles distribution-based score fusion.

    Parameters
    ----------
    logs : (n,) array of float
        Logarithms of the walk's scores, 0 for the 50th best (less :func:`fiftieth`).
    cosines, words : (n,) array of float
        Similarities to the query, and BM25.
    trust : float
        In [0, 1]: how far the walk alone decides.
    parts : (c, n) array of float, optional
        Relevance to each clause of the question, in standard deviations; the best clause of a passage adds to its
        score.

    Returns
    -------
    (n,) array of float
        In the unit of `logs`, and equal to them where the walk alone counts.

    Examples
    --------
    >>> logs = np.array([4.0, 2.0, 0.0])
    >>> balanced(logs, np.array([0.1, 0.5, 0.1]), np.zeros(3), 1.0).tolist()
    [4.0, 2.0, 0.0]
    >>> balanced(logs, np.array([0.1, 0.5, 0.1]), np.zeros(3), 0.0).round(2).tolist()
    [1.42, 1.94, 0.0]
    """
    kinds = [found for found in map(deviations, (logs, cosines, words)) if found.any()]
    mean = sum(kinds, np.zeros(len(logs))) / max(len(kinds), 1)
    if parts is not None:
        mean = mean + _LIFT * parts.max(axis=0)
    reach = max(float(logs.max()), NO_SPREAD)
    mixed: FloatArray = (1 - trust) * _EVEN * reach * mean + np.where(logs > 0, trust, max(trust, _TAIL)) * logs
    return mixed


def fiftieth(logs: FloatArray) -> float:
    """Return the 50th best of the walk's logarithms, or the smallest of fewer than 50.

    >>> fiftieth(np.array([-1.0, -3.0]))
    -3.0
    """
    return float(foremost(logs).min())


def foremost(values: FloatArray) -> FloatArray:
    """Return the 50 best values in ascending order, so that their sum is the same on every processor."""
    if len(values) <= DEPTH:
        return values
    bound = reached_by(values, DEPTH)
    best = values if bound is None else values[values >= bound]
    if len(best) > _MANY:
        best = np.partition(best, len(best) - DEPTH)[-DEPTH:]
    return np.sort(best)[-DEPTH:]


def deviations(values: FloatArray) -> FloatArray:
    """Return how far values exceed the 50th best, in standard deviations of the 50 best; 0 for other values.

    >>> deviations(np.array([3.0, 2.0, 1.0])).round(2).tolist(), deviations(np.ones(2)).tolist()
    ([2.45, 1.22, 0.0], [0.0, 0.0])
    """
    best = foremost(values)
    spread = float(best.std())
    return np.maximum(values - best.min(), 0.0) / spread if spread > NO_SPREAD else np.zeros(len(values))


def part_worths(parts: FloatArray, logs: FloatArray, trust: float) -> FloatArray:
    """Compute (c, n) the gain in a passage's score for each answered clause, in the unit of `logs`."""
    return parts * (_PART * (1 - _KEPT * trust) * _EVEN * float(logs.max()) / len(parts))


def moments(values: FloatArray, standing: FloatArray | None = None) -> tuple[float, float]:
    """Compute mean and deviation; with `standing`, each value may represent many."""
    if standing is None:
        return float(values.mean()), float(values.std())
    total = standing.sum()
    mean = float((values * standing).sum() / total)
    return mean, float(np.sqrt(((values - mean) ** 2 * standing).sum() / total))


def published(values: FloatArray) -> FloatArray:
    """Convert logarithms to positive, finite scores in the same order."""
    beyond = np.maximum(values - _STEEP, 0.0)
    return np.asarray(np.exp(np.minimum(values, _STEEP) + np.log1p(beyond)))
