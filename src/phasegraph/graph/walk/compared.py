"""The passages that one search compares with its query, and what the search knows of each."""

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
    """What one search knows of n passages before it scores them.

    Parameters
    ----------
    graph : EntityGraph
    rows : (n,) array of int or None
        Rows of the passages, each once; None for all passages of the graph, in its order.
    cosines : (n,) array of float
        Similarities to the query.
    near : (n,) array of float
        Cosines, with the share of BM25 that is added to them.
    terms : Terms
        The query's words in these passages.
    known : (n,) array of bool
        Whether vectors, the dense ranking or words say anything of a passage.
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
        """The ids of the passages, by place."""
        return self.graph.passages if self.rows is None else LocalIds(self.graph.passages, self.rows)

    def rows_at(self, places: IntArray) -> IntArray:
        """Rows in the graph of the passages at these places."""
        return places if self.rows is None else self.rows[places]


class Comparison(Protocol):
    """The passages that one search compares with its query: all of them, or the listed ones.

    A search asks for the foremost passages, walks from them, and scores the passages that the walk leaves to score.
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
        """Splits texts into words."""
        ...

    @property
    def clauses(self) -> Sequence[str]:
        """The clauses of the query; none if it is not read by clauses."""
        ...

    def foremost(self) -> PassageFeatures:
        """The passages among which the walk finds its seeds."""
        ...

    def walk(
        self, seeding: Seeding, names: Collection[str], named: float, settings: PushSettings
    ) -> tuple[PageRankResult, NodeWeights]:
        """Walk from the seeds, and weigh the nodes.

        The walk prefers passages that have other words of the query than those of its `names`. `named` is the mass of
        the names that a passage is about.
        """
        ...

    def reached(self, walked: PageRankResult, weights: NodeWeights) -> tuple[PassageFeatures, FloatArray]:
        """The passages to score after a walk, and the (n,) masses that the walk brought them."""
        ...

    def words_for(self, clause: str, features: PassageFeatures) -> FloatArray:
        """(n,) BM25 of these passages for a clause of the query."""
        ...

    def cosines_to(self, vector: Any, features: PassageFeatures) -> FloatArray:
        """(n,) cosines of these passages to a clause's embedding."""
        ...
