"""The relevance of single passages of a large graph to a query, computed on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasegraph._support.typing import BoolArray, FloatArray, IntArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.listed_spaces import ListedSpaces
from phasegraph.graph.walk.relevance import FLOOR, UNLISTED, entered, relevance_by_words, similarities, unit_vector
from phasegraph.graph.walk.row_lookups import found_at
from phasegraph.graph.walk.settings import WordSettings
from phasegraph.lexical.index import ListedTerms, WordIn
from phasegraph.ranking import Ranking


@dataclass(frozen=True, slots=True, eq=False)
class ListedFeatures:
    """The similarities, BM25 scores, relevance and query words of n passages for one query.

    `rows` are the rows of the passages in the graph. `cosines` are their similarities to the query, and `words` their
    BM25 scores. `near` is their relevance: the similarity plus a weighted BM25 score. These arrays have shape (n,).
    Entry (i, j) of `held`, of shape (n, t), is True if passage i contains query word j.
    """

    rows: IntArray
    cosines: FloatArray
    words: FloatArray
    held: BoolArray
    near: FloatArray

    def at(self, places: Any) -> ListedFeatures:
        """Return only the passages at the positions `places` of these arrays, in this order."""
        return ListedFeatures(*(getattr(self, name)[places] for name in self.__slots__))

    def and_of(self, other: ListedFeatures) -> ListedFeatures:
        """Return the passages of this object followed by the passages of `other`, with their values."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return ListedFeatures(*map(np.concatenate, pairs))


class ListedRelevance:
    """The relevance of passages to a query, computed on demand.

    The relevance is a similarity plus a weighted BM25 score. The similarity is the cosine if there are the query's
    `vector` and the graph's embeddings. Otherwise, the dense `ranking` supplies the similarity; a passage outside the
    ranking gets half of the similarity of the ranking's last passage.
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
        """Compute the similarities of the passages in `rows` to the query, an array of shape (n,).

        `vectors` are the embeddings of the passages, if the caller already has them.
        """
        if self.unit is not None and self.graph.embeddings is not None:
            held = self.graph.embeddings[rows] if vectors is None else vectors
            return np.asarray(np.einsum("ij,j->i", held, self.unit), dtype=np.float64)  # independent of row order
        return found_at(self.listed, self._handed, rows, self._unlisted)

    def cosines_to(self, vector: Any, rows: IntArray) -> FloatArray:
        """Compute the cosines between `vector` and the embeddings of the passages in `rows`, of shape (n,).

        Without embeddings, all cosines are 0.
        """
        held = self.graph.embeddings
        if held is None:
            return np.zeros(len(rows))
        return np.asarray(np.einsum("ij,j->i", held[rows], unit_vector(vector, held.shape[1])), dtype=np.float64)

    def of(self, rows: IntArray, words: dict[str, WordIn] | None = None) -> ListedFeatures:
        """Return the similarities, BM25 scores, relevance and query words of the passages in `rows`.

        `words` caches the query's words in these passages, for a later call of :meth:`gains`.
        """
        return self._seen(rows, self.cosines(rows), *self.terms.read(rows, words))

    def of_sample(self, spaces: ListedSpaces) -> ListedFeatures:
        """Return the similarities, BM25 scores, relevance and query words of the passages in ``spaces.sample``.

        `spaces` caches the embeddings and the words of these passages.
        """
        vectors = None if self.unit is None else spaces.vectors
        return self._seen(
            spaces.sample, self.cosines(spaces.sample, vectors), *self.terms.read(spaces.sample, spaces.words)
        )

    def _seen(self, rows: IntArray, cosines: FloatArray, words: FloatArray, held: BoolArray) -> ListedFeatures:
        near = relevance_by_words(cosines, words, self.terms.best, self.settings)
        return ListedFeatures(rows, cosines, words, held, near)

    def gains(
        self, names: Collection[str], named: float, foremost: ListedFeatures, words: dict[str, WordIn]
    ) -> tuple[Callable[[IntArray], FloatArray], FloatArray]:
        """Return a function that computes the gains of passages, and the gains of the n passages `foremost`.

        A gain is a factor for the weights of edges into a passage; the function maps m rows to m gains. `names` are the
        words of the entities that the query names; passages with other query words get greater gains. `named` is the
        mass of the entities that the query names and that have a home passage (a passage about the entity). `foremost`
        are the passages from which seeds are chosen, and `words` is the cache of :meth:`of` for them. Their best BM25
        score also scales the gains of other passages.
        """
        others = self.terms.without(names)
        scores, _ = others.read(foremost.rows, words)
        highest = float(scores.max(initial=0.0))

        def gains_of(rows: IntArray) -> FloatArray:
            near = np.maximum(self.cosines(rows), FLOOR)
            return entered(near, others.scores_of(rows), highest, named, self.settings)

        return gains_of, entered(np.maximum(foremost.near, FLOOR), scores, highest, named, self.settings)


@dataclass(frozen=True, slots=True, eq=False)
class LocalTerms:
    """The query's words in the n passages of `looked`; see :class:`~phasegraph.graph.walk.covering.Terms`."""

    terms: ListedTerms
    looked: ListedFeatures

    @property
    def scores(self) -> FloatArray:
        """The BM25 scores of the n passages, an array of shape (n,)."""
        return self.looked.words

    @property
    def words(self) -> tuple[str, ...]:
        """The t query words that occur in the collection."""
        return self.terms.words

    @property
    def idf(self) -> FloatArray:
        """The inverse document frequency (idf) of each word in `words`, an array of shape (t,)."""
        return self.terms.idf

    @property
    def all_idf(self) -> Any:
        """The idf of each query word, including words that do not occur in the collection."""
        return self.terms.all_idf

    @property
    def shares(self) -> FloatArray:
        """The idf of each word in `words`, as a share of the sum of all idf, an array of shape (t,)."""
        return self.idf / self.idf.sum() if len(self.idf) else self.idf

    def held_by(self, places: IntArray) -> BoolArray:
        """Return a boolean array of shape (m, t): True if the passage ``places[i]`` contains the word ``words[j]``."""
        return self.looked.held[places]
