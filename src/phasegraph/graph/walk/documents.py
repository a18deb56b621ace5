"""Three rules for the scores of chunks: support from nearby words and chunks, and a penalty for many chunks.

A chunk gets a higher score if the text around it contains the query's words, and if its neighbors, the adjacent chunks
of the same document, have good scores. The fourth and later chunks of a document get lower scores. Passages with the
same title are chunks of one document.

No rule applies if the walk alone determines the scores. In this case, a title names the subject of a passage, not a
document. The rules are our own and not published; ``docs/research/ordinary-documents.md`` has the measurements.
"""

from __future__ import annotations

import numpy as np

from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.scoring import DEPTH, deviations, foremost
from phasegraph.lexical.index import K1, B

_WORDS = 0.2
"""Factor for the deviation of the BM25 score of the text around a chunk; the product is added to the chunk's score."""
_REACH = 4
"""Number of passages before and after a chunk whose text counts, if they belong to the same document."""
_MOST_READ = 150
"""Maximum number of best passages for which the text around them is read."""
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
    return _chunks_at(graph, rows, np.array([-1, 1]))


def _chunks_at(graph: EntityGraph, rows: IntArray, steps: IntArray) -> IntArray:
    """Return the rows of the passages at k distances from each of n passages, of shape (n, k).

    `steps` are the distances, in passages of the graph's order. The row is -1 if there is no passage, or if it is not a
    chunk of the same document.
    """
    places = graph.places_of(rows)[:, None] + steps
    inside = (places >= 0) & (places < graph.count)
    beside = graph.rows_at(np.where(inside, places, 0).ravel())
    own, theirs = graph.titles_at(rows), graph.titles_at(beside).reshape(len(rows), len(steps), 2)
    same = inside & (own[:, None, 0] >= 0) & (theirs == own[:, None]).all(axis=2)
    found: IntArray = np.where(same, beside.reshape(same.shape), -1)
    return found


def word_support(scores: FloatArray, graph: EntityGraph, query: str, rows: IntArray | None = None) -> FloatArray:
    """Compute the gain of each passage from the words around it, in the unit of `scores`.

    The text around a chunk is the chunk itself and the chunks of its document among the four passages before and after
    it. The gain is a fifth of the deviation (:func:`~phasegraph.graph.walk.scoring.deviations`) of this text's BM25
    score, in which each query word counts once. Only the 150 best passages can gain, without passages that tie with the
    151st. A passage gains nothing if no other chunk of its document is near. `rows` are the rows of the n passages of
    `scores`; None means all passages in the graph's order. Returns an array of shape (n,); all gains are 0 if the graph
    has no BM25 index.
    """
    gains, lexical = np.zeros(len(scores)), graph.lexical
    if len(scores) > _MOST_READ:  # passages that tie with the next one are left out: the order of rows must not matter
        best = np.flatnonzero(scores > np.partition(scores, -_MOST_READ - 1)[-_MOST_READ - 1])
    else:
        best = np.arange(len(scores))
    if lexical is None or not len(best):
        return gains
    own = best if rows is None else rows[best]
    around = np.hstack([own[:, None], _chunks_at(graph, own, np.delete(np.arange(-_REACH, _REACH + 1), _REACH))])
    several = (around >= 0).sum(axis=1) > 1
    if not several.any():
        return gains
    chunks = np.unique(around)
    chunks = chunks[chunks >= 0]
    terms = lexical.terms(query)
    counts = np.vstack([terms.counts_of(chunks), np.zeros(len(terms.words))])
    lengths = np.append(lexical.lengths_of(chunks), 0)
    place = np.where(around >= 0, np.searchsorted(chunks, around), len(chunks))
    times, sizes = sum(counts[column] for column in place.T), lengths[place].sum(axis=1)
    norms = K1 * (1 - B + B * sizes / max(float(sizes.mean()), 1.0))
    gains[best] = several * deviations((times / (times + norms[:, None]) * terms.idf).sum(axis=1))
    gains *= _WORDS * float(foremost(scores).std())
    return gains


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
    if share <= 0:
        return rows, values
    first = values[:DEPTH]
    titles = graph.titles_at(rows[:DEPTH])
    same = (titles[:, None] == titles).all(axis=2) & (titles[:, :1] >= 0)
    earlier = np.tril(same, -1).sum(axis=1)
    steps = np.clip(earlier - _FREE + 1, 0, _STEPS)
    if not steps.any():
        return rows, values
    left = np.maximum(first - share * _STEP * float(first.std()) * steps, first[-1])
    order = np.argsort(-left, kind="stable")
    return np.concatenate([rows[:DEPTH][order], rows[DEPTH:]]), np.concatenate([left[order], values[DEPTH:]])
