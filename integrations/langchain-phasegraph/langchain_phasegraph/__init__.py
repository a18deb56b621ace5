"""Calibrated fusion of any LangChain retrievers: the public names and nothing else."""

from langchain_phasegraph.extraction import extractions_of, text_model
from langchain_phasegraph.graph import EntityGraphRetriever
from langchain_phasegraph.lists import fuse_lists
from langchain_phasegraph.retriever import PhaseGraphRetriever
from phasegraph.adapters.specs import Reading, SourceSpec

__all__ = [
    "EntityGraphRetriever",
    "PhaseGraphRetriever",
    "Reading",
    "SourceSpec",
    "extractions_of",
    "fuse_lists",
    "text_model",
]
