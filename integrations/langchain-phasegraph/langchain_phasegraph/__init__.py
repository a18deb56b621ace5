"""Calibrated fusion of any LangChain retrievers: the public names and nothing else."""

import importlib.metadata
import typing

from langchain_phasegraph.corpus import extractions_of
from langchain_phasegraph.entity_graph import EntityGraphRetriever
from langchain_phasegraph.lists import fuse_lists
from langchain_phasegraph.retriever import PhaseGraphRetriever
from langchain_phasegraph.stages import text_model
from phasegraph.retrieval import (
    Corrective,
    Execution,
    HitFields,
    ModelAnswers,
    Rerank,
    SourceSpec,
    chat_router,
    compositional_router,
    dphf,
    fit_entropy_gates,
    hyde,
    keyword_router,
    modality_hyde,
    multi_query,
    neighbour_entropy,
    neighbour_entropy_router,
    oracle_router,
    step_back,
)

CalibratedFusionRetriever = PhaseGraphRetriever
"""The name of the same retriever in LlamaIndex."""

__all__ = [
    "CalibratedFusionRetriever",
    "Corrective",
    "EntityGraphRetriever",
    "Execution",
    "HitFields",
    "ModelAnswers",
    "PhaseGraphRetriever",
    "Rerank",
    "SourceSpec",
    "chat_router",
    "compositional_router",
    "dphf",
    "extractions_of",
    "fit_entropy_gates",
    "fuse_lists",
    "hyde",
    "keyword_router",
    "modality_hyde",
    "multi_query",
    "neighbour_entropy",
    "neighbour_entropy_router",
    "oracle_router",
    "step_back",
    "text_model",
]

__version__: str

if not typing.TYPE_CHECKING:  # where any name would be right

    def __getattr__(name):
        """The installed version, read when it is first named."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return importlib.metadata.version("langchain-phasegraph")
