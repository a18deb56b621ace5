"""Calibrated fusion of any LangChain retrievers: the public names and nothing else."""

from langchain_phasegraph.entity_graph import EntityGraphRetriever
from langchain_phasegraph.lists import fuse_lists
from langchain_phasegraph.llm import extractions_of, text_model
from langchain_phasegraph.retriever import PhaseGraphRetriever
from phasegraph.retrieval.source_config import Reading, SourceSpec

__all__ = [
    "EntityGraphRetriever",
    "PhaseGraphRetriever",
    "Reading",
    "SourceSpec",
    "extractions_of",
    "fuse_lists",
    "text_model",
]
