"""The walk where passages are too many to compare each with the query: lists say where it starts, a sample the rest.

Relevance is worked out for the passages that a dense ranking or BM25 lists, for those to which much of the walk's mass
flows, and for an even sample, which stands for all others in means and deviations. Ours, no published method.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import BoolArray, FloatArray, IntArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.relevance import FLOOR, UNLISTED, entered, similarities, unit_vector
from phasegraph.graph.walk.settings import WordSettings
from phasegraph.lexical.index import ListedTerms, WordIn
from phasegraph.pagerank import PageRankResult, WalkOperator
from phasegraph.pagerank.push import RelevanceTransitions, ranges
from phasegraph.ranking import Ranking

COMPARED = 50_000
"""Passages up to which each is compared with the query."""
WORDS_LISTED = 200
"""Passages taken from BM25's list."""
SAMPLED = 1024
"""Passages in the sample, all where there are fewer."""
MUCH = 1e-3
"""Mass, of 1, from which on a passage's relevance is worked out when it flows there."""


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """What is known of n passages for one query: similarities, BM25, (n, t) words, and the relevance that all make."""

    rows: IntArray
    cosines: FloatArray
    words: FloatArray
    held: BoolArray
    near: FloatArray

    def at(self, places: Any) -> Looked:
        """Of the passages at some places."""
        return Looked(*(getattr(self, name)[places] for name in self.__slots__))

    def and_of(self, other: Looked) -> Looked:
        """Of these passages and others."""
        pairs = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return Looked(*map(np.concatenate, pairs))


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

    def of(self, rows: IntArray) -> Looked:
        """What is known of these passages."""
        return self._seen(rows, self.cosines(rows), *self.terms.read(rows))

    def of_sample(self, spaces: ListedSpaces) -> Looked:
        """The same of the sample, whose embeddings and words are kept."""
        vectors = None if self.unit is None else spaces.vectors
        return self._seen(
            spaces.sample, self.cosines(spaces.sample, vectors), *self.terms.read(spaces.sample, spaces.words)
        )

    def _seen(self, rows: IntArray, cosines: FloatArray, words: FloatArray, held: BoolArray) -> Looked:
        best = self.terms.best
        near = cosines + self.settings.weight * words / best if best > 0 else cosines
        return Looked(rows, cosines, words, held, near)

    def heed(self, names: Collection[str], named: float, foremost: Looked) -> FloatArray:
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


def within(rows: IntArray, some: IntArray) -> BoolArray:
    """(n,) which rows are among `some`, which ascend."""
    if not len(some):
        return np.zeros(len(rows), dtype=np.bool_)
    found: BoolArray = some[np.minimum(np.searchsorted(some, rows), len(some) - 1)] == rows
    return found


def in_any_order(ascending: Callable[[IntArray], FloatArray], rows: IntArray) -> FloatArray:
    """What a function of ascending rows gives for these rows, which are distinct."""
    order = rows.argsort()
    out = np.empty(len(rows))
    out[order] = ascending(rows[order])
    return out


def found_at(some: IntArray, values: FloatArray, rows: IntArray, otherwise: FloatArray | float = 0.0) -> FloatArray:
    """(n,) values of rows among `some`, which ascend, and what the others have.

    >>> found_at(np.array([2, 5]), np.array([0.2, 0.5]), np.array([5, 6, 2])).tolist()
    [0.5, 0.0, 0.2]
    """
    there = within(rows, some)
    out = np.array(np.broadcast_to(otherwise, len(rows)), dtype=np.float64)
    out[there] = values[np.searchsorted(some, rows[there])]
    return out


@dataclass(frozen=True, slots=True, eq=False)
class ListedGains:
    """What a walk took for the weights of nodes, as far as it worked them out: an array for those who look some up."""

    rows: IntArray
    values: FloatArray
    rest: float
    passages: int

    def take(self, nodes: Any) -> FloatArray:
        """Weights of these nodes."""
        return found_at(self.rows, self.values, nodes, np.where(nodes < self.passages, self.rest, 1.0))

    def __getitem__(self, node: int) -> float:
        return float(self.take(np.array([node]))[0])


class ListedTransitions(RelevanceTransitions):
    """Transitions whose passages are looked at when much mass is about to flow to them, and count `rest` till then.

    `weights` (P,) are scratch: 0 for every passage, and again after :meth:`end`. ``gains(rows)`` looks at passages.
    """

    def __init__(
        self, graph: WalkOperator, weights: FloatArray, gains: Callable[[IntArray], FloatArray], rest: float
    ) -> None:
        super().__init__(graph, weights)
        self.stepwise = True
        self._gains, self.rest, self._count = gains, rest, len(weights)
        self._known: list[IntArray] = []
        self._found = np.zeros(int(1 / MUCH) + 2, dtype=np.int32)  # all mass together is 1

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return self.graph.size

    def know(self, rows: IntArray, gains: FloatArray) -> None:
        """Take these for the gains of passages."""
        self.node_weights[rows] = gains
        self._known.append(rows)

    def before(self, nodes: IntArray, amounts: FloatArray) -> None:
        """Look at the passages to which much is about to flow."""
        heavy = amounts > MUCH
        if not heavy.any():
            self.stepwise = False
            return
        walk, nodes, amounts = self.graph, nodes[heavy], amounts[heavy]
        counts = walk.out_degrees.take(nodes).astype(np.int64)
        edges = ranges(walk.indptr.take(nodes), counts)
        flows = np.repeat(amounts * walk.inverse_out.take(nodes), counts) * walk.weights.take(edges)
        targets = walk.indices.take(edges[flows > MUCH])
        targets = targets[targets < self._count]
        self._look_at(targets[self.node_weights[targets] == 0])

    def resumes(self) -> bool:
        """As the compiled rounds say: see ``relevance_rounds``."""
        count = max(int(self._found[-1]), 0)
        self._look_at(self._found[:count])
        return count > 0

    def _look_at(self, targets: Any) -> None:
        if len(targets):
            rows = np.unique(targets).astype(np.int64)
            self.know(rows, self._gains(rows))

    def spread(self, nodes: IntArray, amounts: FloatArray) -> tuple[IntArray, FloatArray]:
        """What arrives where; see :class:`Transitions`."""
        graph = self.graph
        counts = graph.out_degrees.take(nodes).astype(np.int64)
        edges = ranges(graph.indptr.take(nodes), counts)
        targets = graph.indices.take(edges).astype(np.intp)
        gains = np.where(targets < self._count, self.node_weights.take(targets, mode="clip"), 1.0)
        values = graph.weights.take(edges).astype(np.float64) * np.where(gains > 0, gains, self.rest)
        owner = np.repeat(np.arange(len(nodes)), counts)
        sums = np.bincount(owner, weights=values, minlength=len(nodes))
        shares = np.divide(amounts, sums, out=np.zeros(len(nodes)), where=sums > 0)
        values *= shares.take(owner)
        return targets, values

    def sweep(self, amounts: FloatArray) -> FloatArray:
        """One sparse product; a small graph's, where a round reads much of it."""
        whole = np.ones(self.graph.size)
        whole[: self._count] = np.where(self.node_weights > 0, self.node_weights, self.rest)
        return RelevanceTransitions(self.graph, whole).sweep(amounts)

    def compiled(self) -> Callable[..., tuple[int, int, int, int]]:
        """The compiled rounds."""
        return self._rounds(self.rest, MUCH, self._found)

    def end(self) -> ListedGains:
        """Clean the scratch; what was known."""
        rows = np.unique(np.concatenate(self._known)) if self._known else np.empty(0, dtype=np.int64)
        found = ListedGains(rows, self.node_weights[rows], self.rest, self._count)
        self.node_weights[rows] = 0.0
        return found


@dataclass(frozen=True, slots=True, eq=False)
class LocalTerms:
    """The words of a query in some passages, as :mod:`~phasegraph.graph.walk.linking` asks for them."""

    terms: ListedTerms
    looked: Looked

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


@dataclass(eq=False)
class ListedSpaces:
    """What the searches of a graph share: its sample of passages, and scratch arrays."""

    graph: EntityGraph
    _idle: deque[FloatArray] = field(default_factory=deque)

    @lazy_property
    def sample(self) -> IntArray:
        """Rows of passages, evenly spread; all where there are few."""
        count = self.graph.count
        return self.graph.rows_at(np.arange(count) if count <= SAMPLED else np.arange(SAMPLED) * count // SAMPLED)

    @lazy_property
    def vectors(self) -> Any:
        """Embeddings of the sample."""
        vectors = self.graph.embeddings
        return None if vectors is None else vectors[self.sample]

    @lazy_property
    def words(self) -> dict[int, WordIn]:
        """Where words stand in the sample."""
        return {}

    def borrow(self) -> FloatArray:
        """An array of zeros, one for each passage."""
        try:
            return self._idle.pop()
        except IndexError:
            return np.zeros(len(self.graph.passages))

    def masses(self, walked: PageRankResult, rows: IntArray) -> FloatArray:
        """(n,) mass of these passages."""
        space, inside = self.borrow(), walked.nodes < len(self.graph.passages)
        reached = walked.nodes[inside]
        space[reached] = walked.values[inside]
        found: FloatArray = space[rows]
        space[reached] = 0.0
        self.give_back(space)
        return found

    def give_back(self, weights: FloatArray) -> None:
        """Keep an array of zeros for the next search."""
        self._idle.append(weights)
