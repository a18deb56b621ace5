"""Calibrated fusion of any LlamaIndex retrievers: the public names and nothing else."""

import typing

from llama_index.retrievers.phasegraph.base import CalibratedFusionRetriever
from llama_index.retrievers.phasegraph.conversion import text_model
from llama_index.retrievers.phasegraph.corpus import PropertyGraphRecords, read_property_graph
from llama_index.retrievers.phasegraph.entity_graph import EntityGraphRetriever
from llama_index.retrievers.phasegraph.postprocessor import PhaseGraphPostprocessor
from llama_index.retrievers.phasegraph.stages import selector_router
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
from phasegraph.retrieval import version_attribute as _version_attribute

PhaseGraphRetriever = CalibratedFusionRetriever
"""The name of the same retriever in LangChain."""

__all__ = [
    "CalibratedFusionRetriever",
    "Corrective",
    "EntityGraphRetriever",
    "Execution",
    "HitFields",
    "ModelAnswers",
    "PhaseGraphPostprocessor",
    "PhaseGraphRetriever",
    "PropertyGraphRecords",
    "Rerank",
    "SourceSpec",
    "chat_router",
    "compositional_router",
    "dphf",
    "fit_entropy_gates",
    "hyde",
    "keyword_router",
    "modality_hyde",
    "multi_query",
    "neighbour_entropy",
    "neighbour_entropy_router",
    "oracle_router",
    "read_property_graph",
    "selector_router",
    "step_back",
    "text_model",
]

__version__: str

if not typing.TYPE_CHECKING:  # where any name would be right
    __getattr__ = _version_attribute(__name__, "llama-index-retrievers-phasegraph")
