"""Passages to names and facts, and a corpus to its graph.

An extractor makes one :class:`Extraction` per passage; the graph is built from those and from nothing else.
:class:`RuleExtractor` needs no model; :func:`extract_with_model` takes any; :func:`read_openie` reads what was found
before.
"""

from phasegraph.graph.entity_graph import Extraction, Extractor, normalise_name, split_words
from phasegraph.graph.extraction.corpus import build_graph, read_passages
from phasegraph.graph.extraction.gazetteer import Gazetteer
from phasegraph.graph.extraction.model import ModelReport, ModelRun, ModelSettings, extract_with_model
from phasegraph.graph.extraction.openie import OpenieFile, read_openie
from phasegraph.graph.extraction.rules import RuleExtractor, find_names, lead_name, title_names

__all__ = [
    "Extraction",
    "Extractor",
    "Gazetteer",
    "ModelReport",
    "ModelRun",
    "ModelSettings",
    "OpenieFile",
    "RuleExtractor",
    "build_graph",
    "extract_with_model",
    "find_names",
    "lead_name",
    "normalise_name",
    "read_openie",
    "read_passages",
    "split_words",
    "title_names",
]
