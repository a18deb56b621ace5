"""The entity graph: passages, entities, who mentions whom, and what a walk makes of it.

It is built from :class:`Extraction` records, whoever made them. Integer counts are kept and every weight is derived
from them, so that two graphs with equal counts are equal.
"""

from phasegraph.graph.entity_graph.build import graph_from_extractions
from phasegraph.graph.entity_graph.graph import EntityGraph
from phasegraph.graph.entity_graph.records import Extraction, Extractor, Triple
from phasegraph.graph.entity_graph.weights import EdgeWeights
from phasegraph.graph.entity_graph.words import Words, normalise_name, split_words

__all__ = [
    "EdgeWeights",
    "EntityGraph",
    "Extraction",
    "Extractor",
    "Triple",
    "Words",
    "graph_from_extractions",
    "normalise_name",
    "split_words",
]
