"""The published reset distributions: HippoRAG 2 and SemFlowRAG.

.. [1] "From RAG to Memory: Non-Parametric Continual Learning for Large Language Models", arXiv:2502.14802
.. [2] "SemFlowRAG", arXiv:2606.28447
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from phasegraph._support.typing import FloatArray, Int32Array, IntArray
from phasegraph.errors import InvalidInputError
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.facts import FactIndex
from phasegraph.graph.walk.linking import Seeding


@dataclass(frozen=True, slots=True)
class ResetRecipe:
    """The parameters of a published reset distribution.

    `passage_weight` is the mass of the passage with the highest similarity; the passage with the lowest similarity gets
    0. `top_facts` is the number of facts that supply seeds, and `top_entities` is the maximum number of entity seeds.
    """

    passage_weight: float
    top_facts: int
    top_entities: int


RESETS: Mapping[str, ResetRecipe] = MappingProxyType(
    {
        "hipporag2": ResetRecipe(0.05, 5, 5),
        "semflowrag": ResetRecipe(0.08, 5, 5),
        "semflowrag-paper": ResetRecipe(0.08, 12, 20),
    }
)
"""The parameters of HippoRAG 2 and SemFlowRAG in their released code, and of SemFlowRAG in its paper."""
NO_FACTS = "there is no fact to seed the walk: passages are ranked by their similarity to the query, as published"


def fact_reset(
    graph: EntityGraph, ends: Int32Array, fact_scores: FloatArray, similarities: FloatArray, recipe: ResetRecipe
) -> Seeding:
    """Compute the reset distribution of HippoRAG 2 (arXiv:2502.14802), which SemFlowRAG also uses.

    The facts with the highest scores are used, at most ``recipe.top_facts``. Each fact gives a value to its subject and
    to its object: the fact's score, divided by the number of passages that mention this entity. The mass of an entity
    is the mean of the values that it gets from its facts. Only the entities with the greatest mass become seeds, at
    most ``recipe.top_entities``; ties are broken by row. The mass of a passage is its min-max scaled similarity times
    ``recipe.passage_weight``. In the result, entities come before passages.

    `ends`, of shape (F, 2), contains the entity rows of the facts; -1 means no entity. `fact_scores`, of shape (F,),
    are the similarities of the facts to the query, min-max scaled over all facts. `similarities`, of shape (P,), are
    the similarities of all passages. In the papers, a language model first filters the facts.

    >>> from phasegraph.graph import Extraction, graph_from_extractions
    >>> graph = graph_from_extractions(["0", "1"], [Extraction("0", ["b", "c"]), Extraction("1", ["b"])])
    >>> seeds = fact_reset(graph, np.array([[0, 1]]), np.array([0.9]), np.array([1.0, 0.0]), RESETS["semflowrag"])
    >>> seeds.nodes.tolist(), seeds.masses.round(3).tolist()
    ([3, 2, 0], [0.9, 0.45, 0.08])
    """
    if len(ends) != len(fact_scores) or len(similarities) != len(graph.passages):
        raise InvalidInputError(
            f"there must be one score per fact and one similarity per passage; got {len(fact_scores)} for {len(ends)} "
            f"facts, {len(similarities)} for {len(graph.passages)} passages"
        )
    best = np.lexsort((np.arange(len(ends)), -np.asarray(fact_scores)))[: recipe.top_facts]
    found: dict[int, list[float]] = {}
    for fact in best.tolist():
        for entity in (row for row in ends[fact].tolist() if row >= 0):
            mass = float(fact_scores[fact]) / max(int(graph.frequency[entity]), 1)
            found.setdefault(entity, []).append(mass)
    means = sorted(((-sum(each) / len(each), entity) for entity, each in found.items()))[: recipe.top_entities]
    nodes = np.array([entity + len(graph.passages) for _, entity in means], dtype=np.intp)
    scaled = recipe.passage_weight * _min_max(np.asarray(similarities, dtype=np.float64))
    nodes = np.concatenate([nodes, np.arange(len(scaled))])
    masses = np.concatenate([[-mass for mass, _ in means], scaled])
    held = masses > 0
    reason = "" if held.any() else "no fact and no passage stands out for the query"
    return Seeding(nodes[held], masses[held], reason)


def reset_by_name(
    name: str, graph: EntityGraph, facts: FactIndex, vector: Any, similarities: FloatArray, rows: IntArray | None = None
) -> Seeding:
    """Compute the reset distribution ``RESETS[name]`` for a query.

    `vector` is the query's embedding. `similarities`, of shape (P,), are the similarities of all passages. `rows` are
    the rows of the facts that a filter accepted; None means all facts.
    """
    if name not in RESETS:
        raise InvalidInputError(f"reset must be one of {', '.join(RESETS)}; got {name!r}")
    kept = slice(None) if rows is None else np.sort(rows)
    return fact_reset(graph, facts.ends[kept], fact_scores(facts, vector)[kept], similarities, RESETS[name])


def fact_scores(facts: FactIndex, vector: Any) -> FloatArray:
    """Compute the cosines of all facts to a query's embedding, min-max scaled to [0, 1]; an array of shape (F,)."""
    return _min_max(facts.near(vector).astype(np.float64))


def _min_max(values: FloatArray) -> FloatArray:
    """Scale values to [0, 1]; if all values are equal, return ones."""
    if not len(values):
        return values
    low, high = float(values.min()), float(values.max())
    return np.ones(len(values)) if high == low else (values - low) / (high - low)
