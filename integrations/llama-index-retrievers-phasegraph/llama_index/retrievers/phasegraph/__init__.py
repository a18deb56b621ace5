"""Calibrated fusion of any LlamaIndex retrievers: the public names and nothing else."""

from llama_index.retrievers.phasegraph.base import CalibratedFusionRetriever
from phasegraph.adapters.specs import Reading, SourceSpec

__all__ = ["CalibratedFusionRetriever", "Reading", "SourceSpec"]
