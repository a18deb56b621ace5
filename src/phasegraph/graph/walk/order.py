"""Order the compared passages of a search: all rules for their log scores, one after another."""

from __future__ import annotations

from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.graph.walk.compared import PassageFeatures
from phasegraph.graph.walk.covering import covering
from phasegraph.graph.walk.documents import neighbour_support, spread_over_documents, word_support
from phasegraph.graph.walk.question import Question
from phasegraph.graph.walk.scoring import DEPTH, balanced, part_worths
from phasegraph.graph.walk.settings import WordSettings


def order_passages(
    features: PassageFeatures,
    logs: FloatArray,
    heard: IntArray,
    parts: FloatArray | None,
    trust: float,
    question: Question,
    settings: WordSettings,
) -> tuple[IntArray, FloatArray]:
    """Return the rows of the best passages, best first, and their log scores.

    Cosines and BM25 scores join the walk's log scores. Then nearby chunks and words raise the scores. Passages that
    answer other parts of the question move up, and further chunks of a document move down. The rules for documents have
    the factor ``1 - trust``.

    Parameters
    ----------
    features : PassageFeatures
        The similarity, relevance and query words of n passages.
    logs : (n,) array of float
        Log scores of the walk, minus their 50th best value.
    heard : (m,) array of int
        Positions of the passages that the ranking may contain.
    parts : (c, n) array of float or None
        Relevance to each clause of the question; None without clauses.
    trust : float
        The trust in the walk, in [0, 1].
    question : Question
        The query, and the maximum number of passages to return.
    settings : WordSettings
        Settings for the effect of the query's words.

    Returns
    -------
    rows : array of int
        Rows of the passages in the graph.
    values : array of float
        Log scores in the unit of `logs`, in descending order.
    """
    graph, limit = features.graph, question.limit
    scores = balanced(logs, features.cosines, features.terms.scores, trust, parts)
    if trust < 1:
        scores += (1 - trust) * neighbour_support(scores, graph, features.rows)
        scores += (1 - trust) * word_support(scores, graph, question.query, features.rows)
    worths = None if parts is None else part_worths(parts, logs, trust)
    wanted = None if limit is None else max(limit, DEPTH)
    places, values = covering(scores, heard, features.ids, features.terms, wanted, settings, worths)
    rows, values = spread_over_documents(features.rows_at(places), values, graph, 1 - trust)
    return rows[:limit], values[:limit]
