"""The graph leg: an entity graph over passages, personalised PageRank on it, and a source made of both."""

from phasegraph.graph.entity_graph import EdgeWeights, EntityGraph, Extraction, graph_from_extractions
from phasegraph.graph.extraction import Gazetteer, RuleExtractor, build_graph
from phasegraph.graph.linking import LinkSettings
from phasegraph.graph.source import GraphSource, WalkSettings

__all__ = [
    "EdgeWeights",
    "EntityGraph",
    "Extraction",
    "Gazetteer",
    "GraphSource",
    "LinkSettings",
    "RuleExtractor",
    "WalkSettings",
    "build_graph",
    "graph_from_extractions",
]
