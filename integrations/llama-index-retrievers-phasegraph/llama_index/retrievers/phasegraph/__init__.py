"""Calibrated fusion of any LlamaIndex retrievers; this module defines the public names."""

import typing

from llama_index.retrievers.phasegraph.base import CalibratedFusionRetriever
from llama_index.retrievers.phasegraph.corpus import PropertyGraphRecords, read_property_graph
from llama_index.retrievers.phasegraph.entity_graph import EntityGraphRetriever
from llama_index.retrievers.phasegraph.postprocessor import PhaseGraphPostprocessor
from llama_index.retrievers.phasegraph.stages import selector_router, text_model
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
"""An alias of :class:`CalibratedFusionRetriever`: the name that the LangChain package uses for the same retriever."""

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

if not typing.TYPE_CHECKING:  # a type checker that sees __getattr__ accepts every misspelled name
    __getattr__ = _version_attribute(__name__, "llama-index-retrievers-phasegraph")
