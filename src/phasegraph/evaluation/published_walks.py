"""The published walks of HippoRAG 2 and SemFlowRAG over the facts of a data set, for comparison with phasegraph's."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from phasegraph._support.ordering import top_order
from phasegraph._support.typing import FloatArray
from phasegraph.calibration.per_list import min_max
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.triple_facts import Facts, load_facts
from phasegraph.graph.experimental.semflow import (
    SEMFLOW_PARAMETERS,
    FlowParameters,
    SemanticFlow,
    abstractness,
    truncated_min_max,
)
from phasegraph.graph.walk.resets import RESETS
from phasegraph.pagerank import WalkOperator, personalized_pagerank
from phasegraph.ranking import Ranking

RECIPE, FOLLOW = RESETS["hipporag2"], 0.5


def hippo_adjacency(facts: Facts, *, parallel: bool = True) -> Any:
    """Return the adjacency matrix of HippoRAG 2's undirected graph over E entities and P passages.

    The matrix has the shape (E + P, E + P); its first rows and columns are entities. An edge between an entity and a
    passage has the weight 1. The weight of an edge between two entities is the number of their facts. If `parallel` is
    True, it is twice this number, because HippoRAG 2's code adds each fact once per direction.
    """
    links = facts.links * (2.0 if parallel else 1.0)
    return sparse.block_array([[links, facts.mentions.T], [facts.mentions, None]]).tocsr()


def fact_seeds(
    facts: Facts, scores: FloatArray, *, kept: int = RECIPE.top_facts, entities: int = RECIPE.top_entities
) -> FloatArray:
    """Return the seed weights of all entities, of shape (E,), from the similarities of the facts to the query.

    `scores`, of shape (F,), are these similarities; they are scaled to [0, 1]. Only the `kept` best facts count. Each
    end of such a fact gets the fact's scaled score, divided by the number of passages that state facts about this
    entity. An entity's weight is the mean over its facts. All but the best `entities` weights are 0.

    References
    ----------
    Gutiérrez et al. (2025). From RAG to memory (HippoRAG 2). arXiv:2502.14802
    """
    level = min_max(scores)
    best = np.argsort(-level, kind="stable")[:kept]
    ends = facts.pairs[best].ravel()
    worth = np.repeat(level[best], 2) / np.maximum(facts.frequency[ends], 1.0)
    total = np.bincount(ends, weights=worth, minlength=len(facts.entities))
    mean = total / np.maximum(np.bincount(ends, minlength=len(facts.entities)), 1)
    out = np.zeros(len(mean))
    first = np.argsort(-mean, kind="stable")[:entities]
    out[first] = mean[first]
    return out


class HippoWalk:
    """HippoRAG 2's walk over a data set's facts, on an undirected graph.

    The walk is seeded by the entities of the facts that are most similar to the query, and by every passage.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.facts = dataset, load_facts(dataset)
        self.operator = WalkOperator.from_adjacency(hippo_adjacency(self.facts))

    def masses(self, row: int) -> FloatArray:
        """Return the PageRank mass of each passage for the query at `row`, as an array of shape (P,)."""
        seeds, passages = _seeds(self.dataset, self.facts, row, RECIPE.top_facts, RECIPE.top_entities)
        reset = np.concatenate([seeds, RECIPE.passage_weight * min_max(passages)])
        walked = personalized_pagerank(self.operator, reset, follow_probability=FOLLOW, tolerance=1e-8)
        return walked.mass[len(seeds) :]


class FlowWalk:
    """SemFlowRAG's walk over a data set's facts, with edges weighted by the query.

    The walk prefers edges to less abstract entities. An entity is more abstract if the embeddings of the passages about
    it vary more. The default parameters are those of the SemFlowRAG paper.
    """

    def __init__(self, dataset: Dataset, parameters: FlowParameters = SEMFLOW_PARAMETERS["paper"]) -> None:
        self.dataset, self.facts, self.parameters = dataset, load_facts(dataset), parameters
        self.heights = truncated_min_max(abstractness(self.facts.mentions, dataset.passage_vectors))
        self.walker: SemanticFlow | WalkOperator
        if parameters.directed:
            self.walker = SemanticFlow.from_links(self.facts.links, self.facts.mentions, self.heights, parameters)
        else:
            self.walker = WalkOperator.from_adjacency(hippo_adjacency(self.facts, parallel=False))

    def seeds(self, row: int) -> FloatArray:
        """Return the seed weight of each entity for the query at `row`, as an array of shape (E,)."""
        return _seeds(self.dataset, self.facts, row, self.parameters.facts, self.parameters.entity_seeds)[0]

    def nodes(self, row: int) -> FloatArray:
        """Return the walk's mass of each entity, then of each passage, for the query at `row`; shape (E + P,)."""
        chosen, walker = self.parameters, self.walker
        seeds, passages = _seeds(self.dataset, self.facts, row, chosen.facts, chosen.entity_seeds)
        reset = np.concatenate([seeds, chosen.passage_weight * min_max(passages)])
        if isinstance(walker, SemanticFlow):
            return walker.walk(walker.relevance(passages), reset, method="power", tolerance=1e-8).mass
        return personalized_pagerank(walker, reset, follow_probability=chosen.follow_probability, tolerance=1e-8).mass

    def masses(self, row: int) -> FloatArray:
        """Return the walk's mass of each passage for the query at `row`, as an array of shape (P,)."""
        return self.nodes(row)[len(self.heights) :]


def _seeds(dataset: Dataset, facts: Facts, row: int, kept: int, entities: int) -> tuple[FloatArray, FloatArray]:
    """Return two arrays: the seed weight of each entity, and the similarity of each passage to the query.

    `row` is the position of the query in `dataset`. `kept` and `entities` are as for :func:`fact_seeds`.
    """
    query = dataset.query_vectors[row]
    scores = (facts.vectors @ query).astype(np.float64)
    passages = (dataset.passage_vectors @ query).astype(np.float64)
    return fact_seeds(facts, scores, kept=kept, entities=entities), passages


def ranking_of_masses(name: str, dataset: Dataset, masses: FloatArray, limit: int) -> Ranking:
    """Return the ranking `name` of the `limit` passages with the highest positive walk mass; ties are ordered by id.

    `masses` contains the mass of each passage of `dataset`.
    """
    ids = [passage.id for passage in dataset.passages]
    best = top_order(masses, ids, limit)
    best = best[masses[best] > 0]
    return Ranking(name, [ids[place] for place in best.tolist()], masses[best])
