"""The entity graph as a source."""

from phasegraph.graph.source.evidence import Step, Trail, Trails
from phasegraph.graph.source.graph_source import GraphSource, WalkSettings

__all__ = ["GraphSource", "Step", "Trail", "Trails", "WalkSettings"]
