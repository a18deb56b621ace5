"""Calibrated fusion of unlike retrievers: the public names and nothing else."""

from phasegraph.calibration import BackgroundCalibrator, ListCalibrator, ReferenceECDF, fit_reference_ecdf
from phasegraph.candidates import Background, Candidates, Ranking, SourceReport
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
from phasegraph.pipeline import Context, Evidence, FusionPipeline, Result, SourceEvidence
from phasegraph.priors import ExactMatchBonus, RecencyPrior, UnitPrior
from phasegraph.sources import BreakerSettings, CallableSource, Gathered, Gatherer, Source, SourceSettings

__all__ = [
    "FUSION_RULES",
    "AllSourcesFailed",
    "Background",
    "BackgroundCalibrator",
    "BreakerSettings",
    "CallableSource",
    "Candidates",
    "Context",
    "DegradedError",
    "Evidence",
    "ExactMatchBonus",
    "FusionPipeline",
    "Gathered",
    "Gatherer",
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
