"""Two published walks as legs, for comparison with ours: HippoRAG 2 and SemFlowRAG, without a language model.

Both need facts with embeddings; a data set without them leaves these legs out. Neither has synonym edges here (the
data sets hold no embeddings of entity names), and no model filters the facts: the best ones are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from phasegraph._typing import FloatArray
from phasegraph.calibration import min_max
from phasegraph.candidates import Ranking, top_order
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.facts import Facts, load_facts
from phasegraph.graph.abstractness import abstractness, truncated_min_max
from phasegraph.graph.linking.resets import RESETS
from phasegraph.graph.pagerank import SEMFLOW_PARAMETERS, SemanticFlow, WalkOperator, personalized_pagerank

RECIPE, FOLLOW = RESETS["hipporag2"], 0.5


def hippo_adjacency(facts: Facts, *, parallel: bool = True) -> Any:
    """The undirected graph of entities, then passages.

    Parameters
    ----------
    facts : Facts
    parallel : bool, default True
        Count a fact edge once per direction, as HippoRAG 2's code does, so that it weighs twice a passage edge of
        the same count; False takes the doubling out.

    Returns
    -------
    (E + P, E + P) sparse array
    """
    links = facts.links * (2.0 if parallel else 1.0)
    return sparse.block_array([[links, facts.mentions.T], [facts.mentions, None]]).tocsr()


def fact_seeds(
    facts: Facts, scores: FloatArray, *, kept: int = RECIPE.top_facts, entities: int = RECIPE.top_entities
) -> FloatArray:
    """Weights of the entities of the best facts.

    Parameters
    ----------
    facts : Facts
    scores : (F,) array of float
        Similarity of each fact to the query.
    kept, entities : int
        How many facts, and how many of their entities.

    Returns
    -------
    (E,) array of float
        Mean over an entity's mentions in the kept facts of min-max score over its number of passages.

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
    """HippoRAG 2's walk: the best facts' entities and every passage seed an undirected walk."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.facts = dataset, load_facts(dataset)
        self.operator = WalkOperator.from_adjacency(hippo_adjacency(self.facts))

    def masses(self, row: int) -> FloatArray:
        """(P,) array: mass of each passage for one query."""
        seeds, passages = _seeds(self.dataset, self.facts, row, RECIPE.top_facts, RECIPE.top_entities)
        reset = np.concatenate([seeds, RECIPE.passage_weight * min_max(passages)])
        walked = personalized_pagerank(self.operator, reset, follow_probability=FOLLOW, tolerance=1e-8)
        return walked.mass[len(seeds) :]


class FlowWalk:
    """SemFlowRAG's walk: downhill in abstractness, weighted by the query, with the paper's numbers."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.facts = dataset, load_facts(dataset)
        self.parameters = SEMFLOW_PARAMETERS["paper"]
        heights = truncated_min_max(abstractness(self.facts.mentions, dataset.passage_vectors))
        self.flow = SemanticFlow.from_links(self.facts.links, self.facts.mentions, heights, self.parameters)

    def masses(self, row: int) -> FloatArray:
        """(P,) array: mass of each passage for one query."""
        chosen = self.parameters
        seeds, passages = _seeds(self.dataset, self.facts, row, chosen.facts, chosen.entity_seeds)
        reset = np.concatenate([seeds, chosen.passage_weight * min_max(passages)])
        walked = self.flow.walk(self.flow.relevance(passages), reset, method="power", tolerance=1e-8)
        return walked.mass[len(seeds) :]


def _seeds(dataset: Dataset, facts: Facts, row: int, kept: int, entities: int) -> tuple[FloatArray, FloatArray]:
    """Entity weights, and the similarity of every passage."""
    query = dataset.query_vectors[row]
    scores = (facts.vectors @ query).astype(np.float64)
    passages = (dataset.passage_vectors @ query).astype(np.float64)
    return fact_seeds(facts, scores, kept=kept, entities=entities), passages


def as_ranking(name: str, dataset: Dataset, masses: FloatArray, limit: int) -> Ranking:
    """The best passages by mass, ties by id."""
    ids = [passage.id for passage in dataset.passages]
    best = top_order(masses, ids, limit)
    best = best[masses[best] > 0]
    return Ranking(name, [ids[place] for place in best.tolist()], masses[best])
