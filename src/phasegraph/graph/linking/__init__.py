"""Query to seeds: where a walk restarts, and which passages it prefers on its way."""

from phasegraph.graph.linking.relevance import RelevanceRows, relevance
from phasegraph.graph.linking.seeds import LinkSettings, Seeding, link, query_entities

__all__ = ["LinkSettings", "RelevanceRows", "Seeding", "link", "query_entities", "relevance"]
