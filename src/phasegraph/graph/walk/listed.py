"""Compare only a few passages of a large graph with the query; the cost does not depend on the graph's size.

There are three kinds of compared passages. Listed passages are in the dense ranking or among the best by BM25. Reached
passages receive much of the walk's mass. An evenly spaced sample represents all other passages in means and standard
deviations. This method is our own and not published.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from phasegraph._support.ordering import distinct
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import BoolArray, FloatArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.compared import NodeWeights, PassageFeatures
from phasegraph.graph.walk.linking import Seeding
from phasegraph.graph.walk.listed_relevance import ListedFeatures, ListedRelevance, LocalTerms
from phasegraph.graph.walk.listed_spaces import ListedSpaces
from phasegraph.graph.walk.listed_walk import MUCH, ListedTransitions
from phasegraph.graph.walk.question import Question
from phasegraph.graph.walk.relevance import FLOOR
from phasegraph.graph.walk.row_lookups import in_any_order, within
from phasegraph.graph.walk.scoring import DEPTH
from phasegraph.graph.walk.settings import WordSettings
from phasegraph.lexical.index import WordIn
from phasegraph.pagerank import PageRankResult
from phasegraph.pagerank.push import PushSettings, as_seeds, run_push

COMPARED = 50_000
"""Number of passages up to which every passage is compared with the query by default."""
WORDS_LISTED = 200
"""Number of best passages by BM25 that are compared with the query."""


class ListedPassages:
    """A comparison of a query with listed passages, passages with much of the walk's mass, and a sample.

    Listed passages are in the dense ranking or among the best by BM25. The sample represents all other passages. See
    :class:`~phasegraph.graph.walk.compared.Comparison` for the methods.

    Parameters
    ----------
    graph : EntityGraph
        A graph with a BM25 index, or the view of an index with a change log.
    question : Question
        The query, with its dense ranking and its embedding.
    clauses : sequence of str
        The clauses of the query; the best passages by BM25 for each clause are also listed.
    settings : WordSettings
        Settings for the effect of the query's words.
    spaces : ListedSpaces
        The sample and the scratch arrays of this graph.
    """

    def __init__(
        self,
        graph: EntityGraph,
        question: Question,
        clauses: Sequence[str],
        settings: WordSettings,
        spaces: ListedSpaces,
    ) -> None:
        lexical: Any = graph.lexical
        self.graph, self.clauses, self._spaces = graph, clauses, spaces
        self.terms, self.tokenizer = lexical.look_up_listed(question.query, WORDS_LISTED), lexical.tokenizer
        self._near = ListedRelevance(graph, question.ranking, question.vector, self.terms, settings)
        self._by_clause = {clause: lexical.look_up_listed(clause, DEPTH) for clause in clauses}
        found = [self._near.listed, self.terms.found, *(one.found for one in self._by_clause.values())]
        self._words: dict[str, WordIn] = {}
        self._foremost = self._near.of(distinct(np.concatenate(found)), self._words)

    @lazy_property
    def _sampled(self) -> ListedFeatures:
        return self._near.of_sample(self._spaces)

    def foremost(self) -> PassageFeatures:
        """Return the similarities, relevance and query words of the listed passages, from which seeds are chosen."""
        return self._features(self._foremost, np.ones(len(self._foremost.rows), dtype=np.bool_))

    def walk(
        self, seeding: Seeding, names: Collection[str], named: float, settings: PushSettings
    ) -> tuple[PageRankResult, NodeWeights]:
        """Walk from the seeds; return the masses, and the factors for the weights of edges into each node.

        Edges into a passage that is not listed and receives little mass have the mean factor of the sample.
        :meth:`Comparison.walk` describes the parameters.
        """
        operator = self.graph.operator
        rest = float(np.maximum(self._sampled.near, FLOOR).mean())
        gains_of, gains = self._near.gains(names, named, self._foremost, self._words)
        weights = self._spaces.borrow()
        transitions = ListedTransitions(operator, weights, gains_of, rest)
        transitions.know(self._foremost.rows, gains)
        seeds = as_seeds((seeding.nodes, seeding.masses), operator.size)
        walked = run_push(transitions, operator.pool, seeds, settings, None)
        used = transitions.end()
        self._spaces.give_back(weights)
        return walked, used

    def reached(self, walked: PageRankResult, weights: Any) -> tuple[PassageFeatures, FloatArray]:
        """Return the similarity, relevance and query words of the passages to score, and the walk's mass at each.

        The passages to score are the listed passages, the passages with much of the walk's mass, and the sample.
        """
        much = walked.nodes[walked.values > MUCH]
        met = distinct(np.concatenate([weights.rows, much[much < len(self.graph.passages)]]))
        own = self._foremost.and_of(self._near.of(met[~within(met, self._foremost.rows)]))
        own = own.at(np.argsort(own.rows))
        looked = own.and_of(self._sampled.at(~within(self._sampled.rows, own.rows)))
        count, rows = len(own.rows), looked.rows
        standing = np.ones(len(rows))
        standing[count:] = (self.graph.count - count) / max(len(rows) - count, 1)
        known = np.ones(len(rows), dtype=np.bool_)
        if self._near.unit is None:
            known = (looked.words > 0) | within(rows, self._near.listed)
        return self._features(looked, known, standing), walked.mass_of(rows, self.graph.operator.pool)

    def words_for(self, clause: str, features: PassageFeatures) -> FloatArray:
        """Compute the BM25 scores of the passages in `features` for a clause of the query, an array of shape (n,)."""
        rows: Any = features.rows
        return in_any_order(self._by_clause[clause].scores_of, rows)

    def cosines_to(self, vector: Any, features: PassageFeatures) -> FloatArray:
        """Compute the cosines of n passages to the embedding `vector` of a query's clause, of shape (n,)."""
        rows: Any = features.rows
        return self._near.cosines_to(vector, rows)

    def _features(
        self, looked: ListedFeatures, known: BoolArray, standing: FloatArray | None = None
    ) -> PassageFeatures:
        terms = LocalTerms(self.terms, looked)
        return PassageFeatures(self.graph, looked.rows, looked.cosines, looked.near, terms, known, standing)
