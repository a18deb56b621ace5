"""Calibrated fusion of unlike retrievers: the public names and nothing else."""

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

__all__ = [
    "AllSourcesFailed",
    "Background",
    "Candidates",
    "DegradedError",
    "InsufficientDataError",
    "IntegrityError",
    "InvalidInputError",
    "InvalidTypeError",
    "MissingDependencyError",
    "NotConvergedError",
    "PhasegraphError",
    "PhasegraphWarning",
    "Ranking",
    "SourceReport",
    "StoreError",
]
