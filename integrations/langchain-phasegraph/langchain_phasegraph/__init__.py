"""Calibrated fusion of any LangChain retrievers; this module defines the public names."""

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
from phasegraph.retrieval import version_attribute as _version_attribute

CalibratedFusionRetriever = PhaseGraphRetriever
"""An alias of :class:`PhaseGraphRetriever`: the name that the LlamaIndex package uses for the same retriever."""

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

if not typing.TYPE_CHECKING:  # a type checker that sees __getattr__ accepts every misspelled name
    __getattr__ = _version_attribute(__name__, "langchain-phasegraph")
