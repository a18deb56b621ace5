"""Compute the trust in the walk: the share of its mass that followed links between passages."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasegraph._support.typing import IntArray
from phasegraph.graph.walk.linking import Seeding
from phasegraph.pagerank import PageRankResult
from phasegraph.pagerank.push import out_edges

LINKED = 0.05
"""Share of linked mass (see :func:`linked_share`) from which the walk alone decides."""
FIRST = 20
"""Best passages of a walk by which it is judged."""
_FEW_HOMES = 2
"""An entity with more home passages is the title of a document in many chunks, and links nothing."""
_HUB = 1000
"""Edges from which on an entity is too common to link two passages."""


def linked_share(
    walked: PageRankResult, graph: Any, node_weights: Any, seeding: Seeding, best: IntArray, follow_probability: float
) -> float:
    """Compute the share of mass of the best passages that arrived along home edges from elsewhere, in [0, 1].

    A home edge leads from an entity to the passage about it. Mass along a home edge from another passage, or from a
    name in the query, finds a passage that the query does not describe; cosines and words cannot find it. In manuals,
    code or news hardly any mass comes this way. An edge counts by the square of its weight in that of a title, so that
    a passage which merely starts with a name counts a quarter. An entity with more than two home passages does not
    count: it is the title of a document in many chunks.

    Parameters
    ----------
    walked : PageRankResult
    graph : EntityGraph
    node_weights : array of float, or ListedGains
        The weights of the nodes in this walk.
    seeding : Seeding
    best : (n,) array of int
        Rows of the best passages, of which the first 20 count.
    follow_probability : float

    Returns
    -------
    float
        The mean over these passages, weighted by mass.
    """
    walk, size = graph.operator, len(graph.passages)
    best = np.sort(best[:FIRST])
    masses = walked.mass_of(best)
    if not masses.sum() > 0:
        return 0.0
    leaving, edges = out_edges(walk, best)
    ends = walk.indices.take(edges).astype(np.int64)
    back = follow_probability * (masses * walk.inverse_out.take(best))[leaving] * walk.weights.take(edges)
    entities = np.union1d(ends, seeding.nodes)
    entities = entities[(entities >= size) & (walk.out_degrees.take(entities) <= _HUB)]
    owners, edges = out_edges(walk, entities)
    targets, weights = walk.indices.take(edges).astype(np.int64), walk.weights.take(edges)
    home = weights >= graph.weights.lead
    homes = np.bincount(owners[home], minlength=len(entities))
    weighed = weights * node_weights.take(targets)
    totals = np.bincount(owners, weights=weighed, minlength=len(entities))
    place = np.minimum(np.searchsorted(best, targets), len(best) - 1)
    counts = home & (best[place] == targets) & (homes[owners] <= _FEW_HOMES)
    sure = np.minimum(weights[counts] / graph.weights.home, 1.0) ** 2 if counts.any() else np.zeros(0)
    owners, place, shares = owners[counts], place[counts], weighed[counts] / totals[owners[counts]]
    own = {(row, end): amount for row, end, amount in zip(leaving.tolist(), ends.tolist(), back.tolist(), strict=True)}
    returned = [own.get((row, int(entities[owner])), 0.0) for row, owner in zip(place.tolist(), owners, strict=True)]
    came = follow_probability * sure * shares * np.maximum(walked.mass_of(entities[owners]) - np.array(returned), 0.0)
    linked = np.minimum(np.bincount(place, weights=came, minlength=len(best)), masses)
    return float(linked.sum() / masses.sum())
