"""How near listed passages are to a query, worked out for the passages that are asked about."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasegraph._support.typing import BoolArray, FloatArray, IntArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.listed_spaces import ListedSpaces
from phasegraph.graph.walk.relevance import FLOOR, UNLISTED, entered, similarities, unit_vector
from phasegraph.graph.walk.row_lookups import found_at
from phasegraph.graph.walk.settings import WordSettings
from phasegraph.lexical.index import ListedTerms
from phasegraph.ranking import Ranking


@dataclass(frozen=True, slots=True, eq=False)
class ListedFeatures:
    """What is known of n passages for one query: similarities, BM25, (n, t) words, and the relevance that all make."""

    rows: IntArray
    cosines: FloatArray
    words: FloatArray
    held: BoolArray
    near: FloatArray

    def at(self, places: Any) -> ListedFeatures:
        """Of the passages at some places."""
        return ListedFeatures(*(getattr(self, name)[places] for name in self.__slots__))

    def and_of(self, other: ListedFeatures) -> ListedFeatures:
        """Of these passages and others."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return ListedFeatures(*map(np.concatenate, pairs))


class ListedRelevance:
    """How near passages are to one query, worked out when it is asked.

    With the query's `vector` and the graph's embeddings by cosine, else as a dense `ranking` says, in which a passage
    that it lacks counts half its last.
    """

    def __init__(
        self, graph: EntityGraph, ranking: Ranking | None, vector: Any, terms: ListedTerms, settings: WordSettings
    ) -> None:
        self.graph, self.terms, self.settings = graph, terms, settings
        held = [] if ranking is None else [graph.passage_rows.get(name, -1) for name in ranking.ids]
        known = np.array(held, dtype=np.int64)
        near = similarities(ranking) if ranking is not None else np.empty(0)
        order = np.argsort(known, kind="stable")
        order = order[known[order] >= 0]
        self.listed, self._handed = known[order], near[order]
        self._unlisted = UNLISTED * float(near[-1]) if len(self.listed) else 0.0
        vectors = graph.embeddings
        self.unit = None if vector is None or vectors is None else unit_vector(vector, vectors.shape[1])

    def cosines(self, rows: IntArray, vectors: FloatArray | None = None) -> FloatArray:
        """(n,) similarities of these passages, whose embeddings are `vectors` if they are at hand."""
        if self.unit is not None and self.graph.embeddings is not None:
            held = self.graph.embeddings[rows] if vectors is None else vectors
            return np.asarray(np.einsum("ij,j->i", held, self.unit), dtype=np.float64)  # the same in any order of rows
        return found_at(self.listed, self._handed, rows, self._unlisted)

    def cosines_to(self, vector: Any, rows: IntArray) -> FloatArray:
        """(n,) cosines of these passages to another vector; 0 where the graph has no embeddings."""
        held = self.graph.embeddings
        if held is None:
            return np.zeros(len(rows))
        return np.asarray(np.einsum("ij,j->i", held[rows], unit_vector(vector, held.shape[1])), dtype=np.float64)

    def of(self, rows: IntArray) -> ListedFeatures:
        """What is known of these passages."""
        return self._seen(rows, self.cosines(rows), *self.terms.read(rows))

    def of_sample(self, spaces: ListedSpaces) -> ListedFeatures:
        """The same of the sample, whose embeddings and words are kept."""
        vectors = None if self.unit is None else spaces.vectors
        return self._seen(
            spaces.sample, self.cosines(spaces.sample, vectors), *self.terms.read(spaces.sample, spaces.words)
        )

    def _seen(self, rows: IntArray, cosines: FloatArray, words: FloatArray, held: BoolArray) -> ListedFeatures:
        best = self.terms.best
        near = cosines + self.settings.weight * words / best if best > 0 else cosines
        return ListedFeatures(rows, cosines, words, held, near)

    def heed(self, names: Collection[str], named: float, foremost: ListedFeatures) -> FloatArray:
        """Let the walk prefer passages that have other words of the query than those of its names.

        Returns the (n,) gains of the foremost passages, of which the best has what others are measured by.
        """
        self._others, self._named = self.terms.without(names), named
        scores = self._others.scores_of(foremost.rows)
        self._highest = float(scores.max(initial=0.0))
        return self._entered(np.maximum(foremost.near, FLOOR), scores)

    def _entered(self, gains: FloatArray, others: FloatArray) -> FloatArray:
        return entered(gains, others, self._highest, self._named, self.settings)

    def gains(self, rows: IntArray) -> FloatArray:
        """(n,) how readily the walk enters these passages, whose relevance is their cosine: BM25 does not list them."""
        return self._entered(np.maximum(self.cosines(rows), FLOOR), self._others.scores_of(rows))


@dataclass(frozen=True, slots=True, eq=False)
class LocalTerms:
    """The words of a query in some passages, as :class:`~phasegraph.graph.walk.covering.Terms` asks for them."""

    terms: ListedTerms
    looked: ListedFeatures

    @property
    def scores(self) -> FloatArray:
        """(n,) BM25."""
        return self.looked.words

    @property
    def words(self) -> tuple[str, ...]:
        """Those that the collection has."""
        return self.terms.words

    @property
    def idf(self) -> FloatArray:
        """(t,) array of float."""
        return self.terms.idf

    @property
    def all_idf(self) -> Any:
        """Of every word of the query."""
        return self.terms.all_idf

    @property
    def shares(self) -> FloatArray:
        """(t,) shares of the words in their idf."""
        return self.idf / self.idf.sum() if len(self.idf) else self.idf

    def held_by(self, places: IntArray) -> BoolArray:
        """(n, t) which of the passages at these places has which of the words."""
        return self.looked.held[places]
