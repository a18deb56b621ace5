"""Compare a large graph's listed passages with the query; lists supply the seeds, and a sample represents the rest.

Relevance is computed for passages in a dense ranking or BM25's list, for passages that receive much of the walk's mass,
and for an even sample. The sample represents all other passages in means and deviations. This method is our own and not
published.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import BoolArray, FloatArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.compared import NodeWeights, PassageFeatures
from phasegraph.graph.walk.linking import Seeding
from phasegraph.graph.walk.listed_relevance import ListedFeatures, ListedRelevance, LocalTerms
from phasegraph.graph.walk.listed_spaces import ListedSpaces
from phasegraph.graph.walk.listed_walk import MUCH, ListedTransitions
from phasegraph.graph.walk.relevance import FLOOR
from phasegraph.graph.walk.row_lookups import in_any_order, within
from phasegraph.graph.walk.scoring import DEPTH
from phasegraph.graph.walk.settings import WordSettings
from phasegraph.pagerank import PageRankResult, WalkOperator
from phasegraph.pagerank.push import PushSettings, as_seeds, run_push
from phasegraph.ranking import Ranking

COMPARED = 50_000
"""Passages up to which each is compared with the query."""
WORDS_LISTED = 200
"""Passages taken from BM25's list."""


class ListedPassages:
    """Compares listed passages, passages that receive much of the walk's mass, and a sample that represents the rest.

    Parameters
    ----------
    graph : EntityGraph
        A graph with words, or the view of an index with a log.
    query : str
    clauses : sequence of str
        The clauses of the query; BM25 also lists passages for each clause.
    ranking : Ranking, optional
    vector : (d,) array_like of float, optional
        The query's embedding.
    settings : WordSettings
    spaces : ListedSpaces
        Of this graph.
    """

    def __init__(
        self,
        graph: EntityGraph,
        query: str,
        clauses: Sequence[str],
        ranking: Ranking | None,
        vector: Any,
        settings: WordSettings,
        spaces: ListedSpaces,
    ) -> None:
        lexical: Any = graph.lexical
        self.graph, self.clauses, self._spaces = graph, clauses, spaces
        self.terms, self.tokenizer = lexical.look_up_listed(query, WORDS_LISTED), lexical.tokenizer
        self._near = ListedRelevance(graph, ranking, vector, self.terms, settings)
        self._by_clause = {clause: lexical.look_up_listed(clause, DEPTH) for clause in clauses}
        found = [self._near.listed, self.terms.found, *(one.found for one in self._by_clause.values())]
        self._foremost = self._near.of(np.unique(np.concatenate(found)))

    @lazy_property
    def _sampled(self) -> ListedFeatures:
        return self._near.of_sample(self._spaces)

    def foremost(self) -> PassageFeatures:
        """Features of the listed passages; see :class:`~phasegraph.graph.walk.compared.Comparison` for all methods."""
        return self._features(self._foremost, np.ones(len(self._foremost.rows), dtype=np.bool_))

    def walk(
        self, seeding: Seeding, names: Collection[str], named: float, settings: PushSettings
    ) -> tuple[PageRankResult, NodeWeights]:
        """Walk from the seeds; passages that the walk does not examine have the sample's mean gain."""
        operator = self.graph.operator
        rest = float(np.maximum(self._sampled.near, FLOOR).mean())
        entering = self._near.heed(names, named, self._foremost)
        weights = self._spaces.borrow()
        transitions = ListedTransitions(operator, weights, self._near.gains, rest)
        transitions.know(self._foremost.rows, entering)
        seeds = as_seeds((seeding.nodes, seeding.masses), operator.size)
        if settings.compiled and not isinstance(operator, WalkOperator):
            settings = replace(settings, compiled=False)
        walked = run_push(transitions, operator.pool, seeds, settings, None)
        gains = transitions.end()
        self._spaces.give_back(weights)
        return walked, gains

    def reached(self, walked: PageRankResult, weights: Any) -> tuple[PassageFeatures, FloatArray]:
        """Return listed passages, passages that received much mass, and the sample, together with their masses."""
        much = walked.nodes[walked.values > MUCH]
        met = np.union1d(weights.rows, much[much < len(self.graph.passages)])
        own = self._foremost.and_of(self._near.of(met[~within(met, self._foremost.rows)]))
        own = own.at(np.argsort(own.rows))
        looked = own.and_of(self._sampled.at(~within(self._sampled.rows, own.rows)))
        count, rows = len(own.rows), looked.rows
        standing = np.ones(len(rows))
        standing[count:] = (self.graph.count - count) / max(len(rows) - count, 1)
        known = np.ones(len(rows), dtype=np.bool_)
        if self._near.unit is None:
            known = (looked.words > 0) | within(rows, self._near.listed)
        return self._features(looked, known, standing), self._spaces.masses(walked, rows)

    def words_for(self, clause: str, features: PassageFeatures) -> FloatArray:
        """Compute (n,) BM25 scores for a clause."""
        rows: Any = features.rows
        return in_any_order(self._by_clause[clause].scores_of, rows)

    def cosines_to(self, vector: Any, features: PassageFeatures) -> FloatArray:
        """Compute (n,) cosines to a clause's embedding."""
        rows: Any = features.rows
        return self._near.cosines_to(vector, rows)

    def _features(
        self, looked: ListedFeatures, known: BoolArray, standing: FloatArray | None = None
    ) -> PassageFeatures:
        terms = LocalTerms(self.terms, looked)
        return PassageFeatures(self.graph, looked.rows, looked.cosines, looked.near, terms, known, standing)
