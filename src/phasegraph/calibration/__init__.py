"""Calibrators, which transform the scores of each source to a common scale.

The *scale calibration* here is unsupervised and makes the scores of different sources comparable for fusion. The
supervised *probability calibration* is in :mod:`phasegraph.acceptance`; it makes a score comparable with a threshold.
To add a calibrator, write a class with ``__call__`` and ``to_dict``, and add its name to :data:`CALIBRATORS`.
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
    """Create a calibrator from the output of its ``to_dict``; raise InvalidInputError if the data is invalid."""
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
