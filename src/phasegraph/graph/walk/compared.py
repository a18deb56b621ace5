"""The passages that a search compares with its query, and their features."""

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
"""What a walk weighs its nodes with: an array, or the weights that a walk by lists worked out."""


@dataclass(frozen=True, slots=True, eq=False)
class PassageFeatures:
    """The features of n passages for one query, before the walk's scores.

    Parameters
    ----------
    graph : EntityGraph
    rows : (n,) array of int or None
        Unique rows of the passages; None for all passages in the graph's order.
    cosines : (n,) array of float
        Similarities to the query.
    near : (n,) array of float
        Cosines plus a share of BM25.
    terms : Terms
        The query's words in these passages.
    known : (n,) array of bool
        Whether vectors, the dense ranking or words give information about a passage.
    standing : (n,) array of float, optional
        How many passages of the graph each passage stands for; None for 1.
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
        """Return the rows in the graph of the passages at these positions."""
        return places if self.rows is None else self.rows[places]


class Comparison(Protocol):
    """The passages that a search compares with its query: all passages, or listed passages.

    A search takes the foremost passages, walks from them, and scores the passages that :meth:`reached` returns.
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
        """Return the passages from which the walk takes its seeds."""
        ...

    def walk(
        self, seeding: Seeding, names: Collection[str], named: float, settings: PushSettings
    ) -> tuple[PageRankResult, NodeWeights]:
        """Walk from the seeds with weights on the nodes.

        The walk prefers passages with query words other than the words of its `names`. `named` is the mass of the names
        that have a home passage.
        """
        ...

    def reached(self, walked: PageRankResult, weights: NodeWeights) -> tuple[PassageFeatures, FloatArray]:
        """Return the passages to score after a walk, and their (n,) masses."""
        ...

    def words_for(self, clause: str, features: PassageFeatures) -> FloatArray:
        """Compute (n,) BM25 scores of these passages for a clause of the query."""
        ...

    def cosines_to(self, vector: Any, features: PassageFeatures) -> FloatArray:
        """Compute (n,) cosines of these passages to a clause's embedding."""
        ...
