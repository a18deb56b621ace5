"""Compute the trust in a walk: the weight, in [0, 1], of the walk's scores beside cosines and BM25 scores.

The trust rises with the share of the walk's mass that followed links between passages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasegraph._support.ordering import distinct
from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.graph.walk.linking import Seeding
from phasegraph.pagerank import PageRankResult
from phasegraph.pagerank.push import out_edges

LINKED = 0.05
"""Share of linked mass (see :func:`linked_share`) above which scores depend only on the walk."""
FIRST = 20
"""Number of a walk's best passages for which :func:`linked_share` is computed."""
_FEW_HOMES = 2
"""Maximum number of home passages (passages about the entity) of an entity whose home edges count.

More home passages are chunks of a document.
"""
_HUB = 1000
"""Number of edges above which an entity is too common to link two passages."""


def linked_share(
    walked: PageRankResult,
    graph: Any,
    node_weights: Any,
    seeding: Seeding,
    best: IntArray,
    masses: FloatArray,
    follow_probability: float,
) -> float:
    """Compute the share of the best passages' mass that arrived along home edges from other nodes, in [0, 1].

    A home edge leads from an entity to the passage about the entity. Along home edges, the walk can reach a passage
    that the query does not describe, which cosines and BM25 cannot find. The mass comes from another passage, or from a
    name in the query. In manuals, code or news, hardly any mass flows along home edges.

    The mass along a home edge is multiplied by the square of the edge's weight, divided by the weight of a title's home
    edge. The home edge of a passage that merely starts with the entity's name therefore counts a quarter. An entity
    with more than two home passages does not count, because its name is the title of a document with many chunks.

    Parameters
    ----------
    walked : PageRankResult
        The masses of the nodes after the walk.
    graph : EntityGraph
        The graph that was walked.
    node_weights : array of float, or ListedGains
        The factors by which the walk multiplied the weights of edges into each node.
    seeding : Seeding
        The seeds of the walk.
    best : (n,) array of int
        Ascending rows of the best passages.
    masses : (n,) array of float
        The masses of these passages after the walk.
    follow_probability : float
        The walk's probability of following an edge.

    Returns
    -------
    float
        The mean of the passages' shares, weighted by their masses.
    """
    walk, size = graph.operator, len(graph.passages)
    if not masses.sum() > 0:
        return 0.0
    leaving, back = out_edges(walk, best)
    ends = walk.indices.take(back).astype(np.int64)
    entities = distinct(np.concatenate([ends, seeding.nodes]))
    entities = entities[(entities >= size) & (walk.out_degrees.take(entities) <= _HUB)]
    owners, edges = out_edges(walk, entities)
    home = np.flatnonzero(walk.weights.take(edges) >= graph.weights.lead)
    owners, edges = owners[home], edges[home]
    targets = walk.indices.take(edges).astype(np.int64)
    place = np.minimum(np.searchsorted(best, targets), len(best) - 1)
    counts = (best[place] == targets) & (np.bincount(owners, minlength=1)[owners] <= _FEW_HOMES)
    if not counts.any():
        return 0.0
    place, edges, sources = place[counts], edges[counts], entities[owners[counts]]
    weights = walk.weights.take(edges)
    sure = np.minimum(weights / graph.weights.home, 1.0) ** 2
    owners, edges = out_edges(walk, sources)
    totals = np.bincount(owners, walk.weights.take(edges) * node_weights.take(walk.indices.take(edges)))
    shares = weights * node_weights.take(best[place]) / totals
    sent = follow_probability * (masses * walk.inverse_out.take(best))[leaving] * walk.weights.take(back)
    pairs = (leaving * walk.size + ends).tolist(), (place * walk.size + sources).tolist()
    own = dict(zip(pairs[0], sent.tolist(), strict=True))
    returned = np.array([own.get(pair, 0.0) for pair in pairs[1]])
    came = follow_probability * sure * shares * np.maximum(walked.mass_of(sources, walk.pool) - returned, 0.0)
    linked = np.minimum(np.bincount(place, weights=came, minlength=len(best)), masses)
    return float(linked.sum() / masses.sum())
