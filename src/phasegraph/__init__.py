"""The public names of phasegraph: calibrated fusion of different retrievers.

The module of a name is imported when the name is first used, because numpy and scipy take long to import.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = {
    "acceptance.confidence": (
        "Confidence",
        "ConfidenceEvidence",
        "ConfidenceModel",
    ),
    "calibration.background": ("BackgroundCalibrator",),
    "calibration.per_list": ("ListCalibrator",),
    "calibration.reference": (
        "ReferenceECDF",
        "fit_reference_ecdf",
    ),
    "candidates": ("Candidates",),
    "errors": (
        "AllSourcesFailed",
        "DegradedError",
        "InsufficientDataError",
        "IntegrityError",
        "InvalidInputError",
        "InvalidTypeError",
        "MissingDependencyError",
        "NotConvergedError",
        "PhasegraphError",
        "PhasegraphWarning",
        "StoreError",
    ),
    "fusion": ("FUSION_RULES",),
    "fusion.context": ("Context",),
    "fusion.exact_match": ("ExactMatchBonus",),
    "fusion.grouping": ("GroupBy",),
    "fusion.pipeline": ("FusionPipeline",),
    "fusion.priors": (
        "RecencyPrior",
        "UnitPrior",
    ),
    "ranking": (
        "Background",
        "Ranking",
    ),
    "reports": ("SourceReport",),
    "result": (
        "Evidence",
        "Inspection",
        "Result",
        "SourceEvidence",
    ),
    "sources.gatherer": (
        "Gathered",
        "Gatherer",
    ),
    "sources.protocol": (
        "CallableSource",
        "Source",
    ),
    "sources.settings": (
        "BreakerSettings",
        "SourceSettings",
    ),
}
"""The public names by the module that defines them."""
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Return the installed version, a public name, or a module of the package; the import is made at the first use.

    Any other name raises AttributeError.
    """
    if name == "__version__":
        return import_module("importlib.metadata").version("phasegraph")
    if name in _PLACES:
        found = getattr(import_module(f"phasegraph.{_PLACES[name]}"), name)
        globals()[name] = found
        return found
    if name.startswith("_") or find_spec(f"phasegraph.{name}") is None:
        raise AttributeError(f"module 'phasegraph' has no attribute {name!r}")
    return import_module(f"phasegraph.{name}")


def __dir__() -> list[str]:
    """Return the names of the module, and the public names that are not imported yet."""
    return sorted({*globals(), *__all__})
