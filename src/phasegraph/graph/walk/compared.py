"""The passages that a search compares with its query: their similarity, relevance and query words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from phasegraph._support.typing import BoolArray, FloatArray, IntArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.covering import LocalIds, Terms
from phasegraph.graph.walk.linking import Seeding
from phasegraph.graph.walk.listed_walk import ListedGains
from phasegraph.lexical import Tokenizer
from phasegraph.lexical.index import ChangedTerms, ListedTerms, QueryTerms
from phasegraph.pagerank import PageRankResult
from phasegraph.pagerank.push import PushSettings

NodeWeights: TypeAlias = FloatArray | ListedGains
"""Factors for the weights of edges into each node: an array of shape (P + E,), or factors computed on demand."""


@dataclass(frozen=True, slots=True, eq=False)
class PassageFeatures:
    """The similarity, relevance and query words of n passages, computed for one query before the walk.

    Parameters
    ----------
    graph : EntityGraph
        The graph of the passages.
    rows : (n,) array of int or None
        Distinct rows of the passages in the graph; None for all passages in the graph's order.
    cosines : (n,) array of float
        Similarities to the query.
    near : (n,) array of float
        Relevance to the query: the similarity plus a weighted BM25 score.
    terms : Terms
        The query's words in these passages.
    known : (n,) array of bool
        True if vectors, the dense ranking or query words give information about the passage.
    standing : (n,) array of float, optional
        Number of passages of the graph that each passage represents when means and standard deviations are computed;
        None means 1 for each.
    """

    graph: EntityGraph
    rows: IntArray | None
    cosines: FloatArray
    near: FloatArray
    terms: Terms
    known: BoolArray
    standing: FloatArray | None = None

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the passages, by position."""
        return self.graph.passages if self.rows is None else LocalIds(self.graph.passages, self.rows)

    def rows_at(self, places: IntArray) -> IntArray:
        """Return the rows, in the graph, of the passages at the positions `places` of these arrays."""
        return places if self.rows is None else self.rows[places]


class Comparison(Protocol):
    """The interface of a comparison of passages with a query.

    :class:`~phasegraph.graph.walk.all_passages.AllPassages` compares all passages, and
    :class:`~phasegraph.graph.walk.listed.ListedPassages` only some passages. A search chooses seeds among the
    :meth:`foremost` passages, walks from the seeds, and scores the passages that :meth:`reached` returns.
    """

    @property
    def graph(self) -> EntityGraph:
        """The graph that the search walks."""
        ...

    @property
    def terms(self) -> QueryTerms | ListedTerms | ChangedTerms:
        """The query's words in the collection."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The function that splits texts into words."""
        ...

    @property
    def clauses(self) -> Sequence[str]:
        """The clauses of the query; empty if the query is not split."""
        ...

    def foremost(self) -> PassageFeatures:
        """Return the similarity, relevance and query words of the passages from which seeds are chosen."""
        ...

    def walk(
        self, seeding: Seeding, names: Collection[str], named: float, settings: PushSettings
    ) -> tuple[PageRankResult, NodeWeights]:
        """Walk from the seeds; return the masses, and the factors that the walk used for edges into each node.

        The walk prefers passages with query words that are not in `names`, the words of the entities that the query
        names. `named`, in [0, 1], is the mass of the entities that the query names and that have a home passage (a
        passage about the entity).
        """
        ...

    def reached(self, walked: PageRankResult, weights: NodeWeights) -> tuple[PassageFeatures, FloatArray]:
        """Return the similarity, relevance and query words of the n passages to score, and the walk's mass at each."""
        ...

    def words_for(self, clause: str, features: PassageFeatures) -> FloatArray:
        """Compute the BM25 scores of the passages in `features` for a clause of the query, an array of shape (n,)."""
        ...

    def cosines_to(self, vector: Any, features: PassageFeatures) -> FloatArray:
        """Compute the cosines of n passages to the embedding `vector` of a query's clause, of shape (n,)."""
        ...
