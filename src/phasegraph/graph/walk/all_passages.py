"""Compare every passage of a graph with the query."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.compared import NodeWeights, PassageFeatures
from phasegraph.graph.walk.linking import Seeding
from phasegraph.graph.walk.question import Question
from phasegraph.graph.walk.relevance import FLOOR, entered, passage_relevance, relevance_by_words
from phasegraph.graph.walk.settings import WordSettings
from phasegraph.graph.walk.walker import walk_from
from phasegraph.lexical import LexicalIndex
from phasegraph.pagerank import PageRankResult
from phasegraph.pagerank.push import PushSettings


class AllPassages:
    """A comparison of all passages of a graph with a query, by vectors or a dense ranking, and by BM25.

    See :class:`~phasegraph.graph.walk.compared.Comparison` for the methods.

    Parameters
    ----------
    graph : EntityGraph
        A graph with a BM25 index.
    question : Question
        The query. Its dense ranking is used if there are no vectors to compare.
    clauses : sequence of str
        The clauses of the query; empty if the query is not split.
    settings : WordSettings
        Settings for the effect of the query's words.
    """

    def __init__(self, graph: EntityGraph, question: Question, clauses: Sequence[str], settings: WordSettings) -> None:
        lexical: Any = graph.lexical
        self.graph, self.clauses, self._settings = graph, clauses, settings
        self._lexical: LexicalIndex = lexical
        self.terms, self.tokenizer = self._lexical.look_up(question.query), self._lexical.tokenizer
        size, known = len(graph.passages), np.ones(len(graph.passages), dtype=np.bool_)
        ranking, vector = question.ranking, question.vector
        if vector is None or graph.embeddings is None:
            ids = ranking.ids if ranking else ()
            listed = [row for one in ids if (row := graph.passage_rows.get(one)) is not None]
            ranking, known = ranking if listed else None, self.terms.scores > 0
            known[listed] = True
        found = passage_relevance(graph, ranking, vector, floor=-1.0)
        cosines = np.zeros(size) if found is None else found
        scores = self.terms.scores
        near = relevance_by_words(cosines, scores, float(scores.max(initial=0.0)), settings)
        self._features = PassageFeatures(graph, None, cosines, near, self.terms, known)

    def foremost(self) -> PassageFeatures:
        """Return the similarities, relevance and query words of all passages, from which seeds are chosen."""
        return self._features

    def walk(
        self, seeding: Seeding, names: Collection[str], named: float, settings: PushSettings
    ) -> tuple[PageRankResult, NodeWeights]:
        """Walk from the seeds; return the masses, and the factors for the weights of edges into each node.

        :meth:`Comparison.walk` describes the parameters.
        """
        weights, gains = np.ones(self.graph.size), np.maximum(self._features.near, FLOOR)
        others = self.terms.scores_without(names)
        weights[: len(gains)] = entered(gains, others, float(others.max()), named, self._settings)
        return walk_from(self.graph.operator, seeding, weights[: len(gains)], settings), weights

    def reached(self, walked: PageRankResult, weights: NodeWeights) -> tuple[PassageFeatures, FloatArray]:
        """Return the similarities, relevance and query words of all passages, and the walk's mass at each passage."""
        return self._features, walked.mass[: len(self.graph.passages)]

    def words_for(self, clause: str, features: PassageFeatures) -> FloatArray:
        """Compute the BM25 scores of all passages for a clause of the query, an array of shape (P,)."""
        return self._lexical.look_up(clause).scores

    def cosines_to(self, vector: Any, features: PassageFeatures) -> FloatArray:
        """Compute the cosines of all passages to the embedding of a clause of the query, an array of shape (P,)."""
        return np.asarray(passage_relevance(self.graph, None, vector, floor=-1.0))
