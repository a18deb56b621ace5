"""SemFlowRAG as a source: the facts nearest to the query seed a walk from abstract to specific entities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from phasegraph._typing import FloatArray
from phasegraph.candidates import Ranking, top_order
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.graph.abstractness import graph_abstractness
from phasegraph.graph.entity_graph import EntityGraph
from phasegraph.graph.linking import FactIndex, ResetRecipe, fact_reset
from phasegraph.graph.linking.nearest import unit_vector
from phasegraph.graph.linking.resets import NO_FACTS, fact_scores
from phasegraph.graph.pagerank import (
    SEMFLOW_PARAMETERS,
    FlowParameters,
    SemanticFlow,
    WalkOperator,
    personalized_pagerank,
)
from phasegraph.pipeline.checks import check_count, check_query
from phasegraph.sources.protocol import Given


@dataclass(frozen=True, eq=False)
class SemFlowSource:
    """A source that ranks passages by SemFlowRAG's walk, without a language model's filter of the facts.

    Parameters
    ----------
    graph : EntityGraph
        With embeddings of the passages. Entities are linked by facts and by synonym edges.
    facts : FactIndex
        Embedded facts of the graph.
    embedder : callable
        ``embedder(query) -> (d,) vector``.
    parameters : {"paper", "released"} or FlowParameters, default "paper"
        Key of ``SEMFLOW_PARAMETERS``: what the paper states, or what its released entry point runs (an undirected
        walk).
    name : str, default "semflow"

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field does not fit, or the graph has no embeddings.

    Notes
    -----
    A score is the mass of the passage. With no fact in the index the passages are ranked by similarity, as published,
    and the ranking's reason says so.

    References
    ----------
    SemFlowRAG. arXiv:2606.28447

    Examples
    --------
    >>> from phasegraph.graph import build_graph
    >>> passages = [{"id": "a", "text": "Ada met Bo."}, {"id": "b", "text": "Bo sang."}]
    >>> graph = build_graph(passages, embeddings=[[1.0, 0.0], [0.0, 1.0]])
    >>> facts = FactIndex.of(graph, [("Ada", "met", "Bo")], [[0.8, 0.6]])
    >>> SemFlowSource(graph, facts, lambda query: [0.6, 0.8]).search("Who met Bo?", 10, {}).ids
    ('a', 'b')
    """

    graph: EntityGraph
    facts: FactIndex
    embedder: Callable[[str], Any]
    parameters: str | FlowParameters = "paper"
    name: str = "semflow"

    def __post_init__(self) -> None:
        for label, kind in (("graph", EntityGraph), ("facts", FactIndex)):
            if not isinstance(getattr(self, label), kind):
                raise InvalidTypeError(f"{label} must be a {kind.__name__}; got {getattr(self, label)!r:.80}")
        if self.graph.embeddings is None:
            raise InvalidInputError("graph must have embeddings of its passages; it has none")
        if not callable(self.embedder):
            raise InvalidTypeError(f"embedder must be callable; got {self.embedder!r:.80}")
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidTypeError(f"name must be a name that is not blank; got {self.name!r}")
        if not isinstance(self.parameters, FlowParameters) and self.parameters not in tuple(SEMFLOW_PARAMETERS):
            known = ", ".join(SEMFLOW_PARAMETERS)
            raise InvalidInputError(f"parameters must be FlowParameters or one of {known}; got {self.parameters!r:.80}")

    @property
    def needs(self) -> Sequence[str]:
        """No ranking of another source."""
        return ()

    @cached_property
    def chosen(self) -> FlowParameters:
        """The numbers behind `parameters`."""
        return self.parameters if isinstance(self.parameters, FlowParameters) else SEMFLOW_PARAMETERS[self.parameters]

    @cached_property
    def _links(self) -> Any:
        return (self.graph.facts.astype(np.float32) + self.graph.synonyms).tocsr()

    @cached_property
    def _flow(self) -> SemanticFlow:
        return SemanticFlow.from_links(self._links, self.graph.mentions, graph_abstractness(self.graph), self.chosen)

    @cached_property
    def _undirected(self) -> WalkOperator:
        mentions = self.graph.mentions.astype(np.float32)
        return WalkOperator.from_adjacency(sparse.block_array([[self._links, mentions.T], [mentions, None]]).tocsr())

    def prepare(self) -> SemFlowSource:
        """Do now what the first search would wait for; see :meth:`phasegraph.graph.GraphSource.prepare`."""
        self._walked(np.zeros(1, dtype=np.intp), np.ones(1), np.ones(len(self.graph.passages)))
        return self

    def search(self, query: str, limit: int | None, given: Given) -> Ranking:
        """Rank passages for `query`; parameters and result as in :meth:`phasegraph.sources.Source.search`."""
        query = check_query(query)
        limit = None if limit is None else check_count("limit", limit, minimum=1)
        graph, chosen, vector = self.graph, self.chosen, self.embedder(query)
        vectors = np.asarray(graph.embeddings)
        near = (vectors @ unit_vector(vector, vectors.shape[1])).astype(np.float64)
        if not len(self.facts.ends):
            return self._ranked(near, limit, NO_FACTS)
        recipe = ResetRecipe(chosen.passage_weight, chosen.facts, chosen.entity_seeds)
        seeds = fact_reset(graph, self.facts.ends, fact_scores(self.facts, vector), near, recipe)
        if not len(seeds):
            return Ranking(self.name, (), np.empty(0), size=len(near), reason=seeds.reason)
        masses = self._walked(np.roll(np.arange(graph.size), -len(graph.entities))[seeds.nodes], seeds.masses, near)
        return self._ranked(masses, limit, "")

    def _walked(self, nodes: Any, masses: FloatArray, near: FloatArray) -> FloatArray:
        """The passages' masses of a walk from these nodes, entities first."""
        follow = self.chosen.follow_probability
        if self.chosen.directed:
            walked = self._flow.walk(self._flow.relevance(near), (nodes, masses))
        else:
            walked = personalized_pagerank(self._undirected, (nodes, masses), follow_probability=follow, method="push")
        return walked.mass[len(self.graph.entities) :]

    def _ranked(self, scores: FloatArray, limit: int | None, reason: str) -> Ranking:
        ids, rows = self.graph.passages, np.flatnonzero(scores > 0)
        best = rows[top_order(scores[rows], [ids[row] for row in rows.tolist()], limit)]
        return Ranking(self.name, [ids[row] for row in best.tolist()], scores[best], size=len(ids), reason=reason)
