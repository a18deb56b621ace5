"""Passages to names and facts, and a corpus to its graph.

An extractor makes one :class:`Extraction` per passage; the graph is built from those and from nothing else.
:class:`RuleExtractor` needs no model.
"""

from phasegraph.graph.entity_graph import Extraction, Extractor, normalise_name, split_words
from phasegraph.graph.extraction.corpus import build_graph, read_passages
from phasegraph.graph.extraction.gazetteer import Gazetteer
from phasegraph.graph.extraction.rules import RuleExtractor, find_names, lead_name, title_names

__all__ = [
    "Extraction",
    "Extractor",
    "Gazetteer",
    "RuleExtractor",
    "build_graph",
    "find_names",
    "lead_name",
    "normalise_name",
    "read_passages",
    "split_words",
    "title_names",
]
