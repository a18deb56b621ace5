"""The public names of phasegraph: calibrated fusion of different retrievers."""

from importlib import import_module
from typing import Any

from phasegraph.acceptance.confidence import Confidence, ConfidenceEvidence, ConfidenceModel
from phasegraph.calibration.background import BackgroundCalibrator
from phasegraph.calibration.per_list import ListCalibrator
from phasegraph.calibration.reference import ReferenceECDF, fit_reference_ecdf
from phasegraph.candidates import Candidates
from phasegraph.errors import (
    AllSourcesFailed,
    DegradedError,
    InsufficientDataError,
    IntegrityError,
    InvalidInputError,
    InvalidTypeError,
    MissingDependencyError,
    NotConvergedError,
    PhasegraphError,
    PhasegraphWarning,
    StoreError,
)
from phasegraph.fusion import FUSION_RULES
from phasegraph.fusion.context import Context
from phasegraph.fusion.exact_match import ExactMatchBonus
from phasegraph.fusion.grouping import GroupBy
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.fusion.priors import RecencyPrior, UnitPrior
from phasegraph.ranking import Background, Ranking
from phasegraph.reports import SourceReport
from phasegraph.result import Evidence, Inspection, Result, SourceEvidence
from phasegraph.sources.gatherer import Gathered, Gatherer
from phasegraph.sources.protocol import CallableSource, Source
from phasegraph.sources.settings import BreakerSettings, SourceSettings

__all__ = [
    "FUSION_RULES",
    "AllSourcesFailed",
    "Background",
    "BackgroundCalibrator",
    "BreakerSettings",
    "CallableSource",
    "Candidates",
    "Confidence",
    "ConfidenceEvidence",
    "ConfidenceModel",
    "Context",
    "DegradedError",
    "Evidence",
    "ExactMatchBonus",
    "FusionPipeline",
    "Gathered",
    "Gatherer",
    "GroupBy",
    "Inspection",
    "InsufficientDataError",
    "IntegrityError",
    "InvalidInputError",
    "InvalidTypeError",
    "ListCalibrator",
    "MissingDependencyError",
    "NotConvergedError",
    "PhasegraphError",
    "PhasegraphWarning",
    "Ranking",
    "RecencyPrior",
    "ReferenceECDF",
    "Result",
    "Source",
    "SourceEvidence",
    "SourceReport",
    "SourceSettings",
    "StoreError",
    "UnitPrior",
    "fit_reference_ecdf",
]


def __getattr__(name: str) -> Any:
    """Return the installed version, or the package ``graph`` or ``neo4j``, which is imported at its first use.

    The two imports are slow. Any other name raises AttributeError.
    """
    if name == "__version__":
        return import_module("importlib.metadata").version("phasegraph")
    if name not in ("graph", "neo4j"):
        raise AttributeError(f"module 'phasegraph' has no attribute {name!r}")
    return import_module(f"phasegraph.{name}")
