"""Query to seeds: where a walk restarts, and which passages it prefers on its way."""

from phasegraph.graph.linking.nearest import FactIndex, nearest_entities
from phasegraph.graph.linking.relevance import RelevanceRows, relevance
from phasegraph.graph.linking.resets import RESETS, ResetRecipe, fact_reset, reset_by_name
from phasegraph.graph.linking.seeds import LinkSettings, Seeding, link, query_entities

__all__ = [
    "RESETS",
    "FactIndex",
    "LinkSettings",
    "RelevanceRows",
    "ResetRecipe",
    "Seeding",
    "fact_reset",
    "link",
    "nearest_entities",
    "query_entities",
    "relevance",
    "reset_by_name",
]
