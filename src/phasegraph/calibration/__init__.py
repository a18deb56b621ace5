"""Scores to a common scale.

*Scale* calibration (unsupervised, here) makes sources comparable for fusing. *Probability* calibration
(supervised) makes a score thresholdable and lives with acceptance. A new calibrator is one class with
``__call__`` and ``to_dict``, and its name in :data:`CALIBRATORS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from phasegraph._support.validation import check_choice
from phasegraph.calibration.background import BackgroundCalibrator, Calibrated, Calibrator
from phasegraph.calibration.per_list import LIST_CALIBRATORS, ListCalibrator
from phasegraph.calibration.reference import ReferenceECDF, fit_reference_ecdf

__all__ = [
    "CALIBRATORS",
    "BackgroundCalibrator",
    "Calibrated",
    "Calibrator",
    "ListCalibrator",
    "ReferenceECDF",
    "fit_reference_ecdf",
]


def calibrator_from_dict(state: Mapping[str, object]) -> Calibrator:
    """Rebuild a calibrator from its ``to_dict`` state; InvalidInputError where it does not fit."""
    name = state.get("name")
    check_choice("calibrator name", name, CALIBRATORS)
    return CALIBRATORS[str(name)](state)


CALIBRATORS: Mapping[str, Callable[[Mapping[str, object]], Calibrator]] = MappingProxyType(
    {
        "background": BackgroundCalibrator.from_dict,
        "reference_ecdf": ReferenceECDF.from_dict,
        **dict.fromkeys(LIST_CALIBRATORS, ListCalibrator.from_dict),
    }
)
