"""Two rules for the scores of chunks: support from adjacent chunks, and a penalty for documents with many chunks.

A chunk gets a higher score if its neighbors, the adjacent chunks of the same document, have good scores. The fourth and
later chunks of a document get lower scores. Passages with the same title are chunks of one document.

Neither rule applies if the walk alone determines the scores. In this case, a title names the subject of a passage, not
a document. The rules are our own and not published; ``docs/research/ordinary-documents.md`` has the measurements.
"""

from __future__ import annotations

import numpy as np

from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.scoring import DEPTH, deviations, foremost

_SUPPORT = 0.2
"""Factor for the mean deviation of a chunk's neighbors; the product is added to the chunk's score."""
_FREE = 3
"""Number of chunks per document that keep their full score."""
_STEP, _STEPS = 0.2, 3
"""Additional loss of each chunk after a document's third, in standard deviations; maximum number of added losses."""


def neighbours(graph: EntityGraph, rows: IntArray) -> IntArray:
    """Return the rows of the previous and the next chunk in the document of each of n passages, of shape (n, 2).

    The row is -1 if there is no previous or next chunk.

    >>> from phasegraph.graph import build_graph
    >>> texts = [("a", "Vertigo", "One."), ("b", "Vertigo", "Two."), ("c", "Psycho", "Three.")]
    >>> graph = build_graph([{"id": name, "title": title, "text": text} for name, title, text in texts])
    >>> neighbours(graph, np.arange(3)).tolist()
    [[-1, 1], [0, -1], [-1, -1]]
    """
    places = graph.places_of(rows)[:, None] + np.array([-1, 1])
    inside = (places >= 0) & (places < graph.count)
    beside = graph.rows_at(np.where(inside, places, 0).ravel())
    own, theirs = graph.titles_at(rows), graph.titles_at(beside).reshape(-1, 2, 2)
    same = inside & (own[:, None, 0] >= 0) & (theirs == own[:, None]).all(axis=2)
    found: IntArray = np.where(same, beside.reshape(-1, 2), -1)
    return found


def neighbour_support(scores: FloatArray, graph: EntityGraph, rows: IntArray | None = None) -> FloatArray:
    """Compute by how much good neighboring chunks raise each passage's score, in the unit of `scores`.

    The gain is a fifth of the mean deviation of the passage's neighbors
    (:func:`~phasegraph.graph.walk.scoring.deviations`). A neighbor that is not among the 50 best passages has the
    deviation 0. `rows` are the rows of the n passages of `scores`; None means all passages in the graph's order.
    Returns an array of shape (n,).
    """
    above, gains = deviations(scores), np.zeros(len(scores))
    best = np.flatnonzero(above)
    to = neighbours(graph, best if rows is None else rows[best])
    given, reached = np.repeat(above[best], 2)[to.ravel() >= 0], to[to >= 0]
    if not len(reached):
        return gains
    given = given / (neighbours(graph, reached) >= 0).sum(axis=1)
    if rows is not None:
        order = np.argsort(rows)
        place = order[np.minimum(np.searchsorted(rows, reached, sorter=order), len(rows) - 1)]
        there = rows[place] == reached
        reached, given = place[there], given[there]
    np.add.at(gains, reached, given)
    return gains * (_SUPPORT * float(foremost(scores).std()))


def spread_over_documents(
    rows: IntArray, values: FloatArray, graph: EntityGraph, share: float
) -> tuple[IntArray, FloatArray]:
    """Lower the values of the fourth and later chunks of each document, and sort the ranking again.

    Only the first 50 passages change. The fourth chunk of a document loses .2 standard deviations of the 50 values, the
    fifth chunk loses .4, and each later chunk loses .6. No value falls below the 50th value.

    Parameters
    ----------
    rows : (n,) array of int
        Rows of the passages, best passage first.
    values : (n,) array of float
        Log scores of the passages, in descending order.
    graph : EntityGraph
        The graph with the titles of the passages.
    share : float
        Factor for all losses, in [0, 1].

    Returns
    -------
    rows : (n,) array of int
        Rows of the passages in the new order.
    values : (n,) array of float
        The new values, in descending order.

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> titles = ["Vertigo"] * 4 + ["Psycho", "Rope"]
    >>> graph = build_graph([{"id": str(at), "title": one, "text": "A film."} for at, one in enumerate(titles)])
    >>> spread_over_documents(np.arange(6), np.array([5.0, 4.0, 3.0, 2.0, 1.9, 0.0]), graph, 1.0)[0].tolist()
    [0, 1, 2, 4, 3, 5]
    """
    first = values[:DEPTH]
    titles = graph.titles_at(rows[:DEPTH])
    same = (titles[:, None] == titles).all(axis=2) & (titles[:, :1] >= 0)
    earlier = np.tril(same, -1).sum(axis=1)
    steps = np.clip(earlier - _FREE + 1, 0, _STEPS)
    if share <= 0 or not steps.any():
        return rows, values
    left = np.maximum(first - share * _STEP * float(first.std()) * steps, first[-1])
    order = np.argsort(-left, kind="stable")
    return np.concatenate([rows[:DEPTH][order], rows[DEPTH:]]), np.concatenate([left[order], values[DEPTH:]])
