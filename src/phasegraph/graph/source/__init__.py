"""The entity graph as a source."""

from phasegraph.graph.source.evidence import Step, Trail, Trails
from phasegraph.graph.source.graph_source import GraphSource, WalkSettings
from phasegraph.graph.source.narrowing import passage_ids
from phasegraph.graph.source.restricted import RestrictedGraphSource, restrict_graph
from phasegraph.graph.source.semflow import SemFlowSource

__all__ = [
    "GraphSource",
    "RestrictedGraphSource",
    "SemFlowSource",
    "Step",
    "Trail",
    "Trails",
    "WalkSettings",
    "passage_ids",
    "restrict_graph",
]
