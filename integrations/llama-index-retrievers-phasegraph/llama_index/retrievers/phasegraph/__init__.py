"""Calibrated fusion of any LlamaIndex retrievers: the public names and nothing else."""

import importlib.metadata
import typing

from llama_index.retrievers.phasegraph.base import CalibratedFusionRetriever
from llama_index.retrievers.phasegraph.conversion import text_model
from llama_index.retrievers.phasegraph.entity_graph import EntityGraphRetriever
from llama_index.retrievers.phasegraph.postprocessor import PhaseGraphPostprocessor
from llama_index.retrievers.phasegraph.property_graph import PropertyGraphRecords, read_property_graph
from phasegraph.retrieval import Execution, HitFields, SourceSpec

PhaseGraphRetriever = CalibratedFusionRetriever
"""The name of the same retriever in LangChain."""

__all__ = [
    "CalibratedFusionRetriever",
    "EntityGraphRetriever",
    "Execution",
    "HitFields",
    "PhaseGraphPostprocessor",
    "PhaseGraphRetriever",
    "PropertyGraphRecords",
    "SourceSpec",
    "read_property_graph",
    "text_model",
]

__version__: str

if not typing.TYPE_CHECKING:  # where any name would be right

    def __getattr__(name):
        """The installed version, read when it is first named."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return importlib.metadata.version("llama-index-retrievers-phasegraph")
