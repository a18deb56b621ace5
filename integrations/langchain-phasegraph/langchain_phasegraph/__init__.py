"""Calibrated fusion of any LangChain retrievers: the public names and nothing else."""

from langchain_phasegraph.lists import fuse_lists
from langchain_phasegraph.retriever import PhaseGraphRetriever
from langchain_phasegraph.specs import SourceSpec

__all__ = ["PhaseGraphRetriever", "SourceSpec", "fuse_lists"]
