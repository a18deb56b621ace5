"""The per-list normalisations as calibrators, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.calibration import lists
from phasegraph.calibration.base import Calibrated
from phasegraph.candidates import Ranking
from phasegraph.candidates.copying import by_fields
from phasegraph.errors import InvalidInputError, InvalidTypeError

_UNBOUNDED = frozenset({"z_score", "log_z_score", "raw"})


def _raw(scores: FloatArray, /) -> FloatArray:
    return np.asarray(scores, dtype=np.float64)


_FUNCTIONS: Mapping[str, tuple[Callable[..., FloatArray], frozenset[str]]] = MappingProxyType(
    {
        "percentile": (lists.percentile_rank, frozenset()),
        "min_max": (lists.min_max, frozenset({"constant"})),
        "theoretical_min_max": (lists.theoretical_min_max, frozenset({"infimum"})),
        "max": (lists.max_normalise, frozenset()),
        "z_score": (lists.z_score, frozenset()),
        "log_z_score": (lists.log_z_score, frozenset({"floor"})),
        "raw": (_raw, frozenset()),
    }
)


@dataclass(frozen=True, slots=True)
class ListCalibrator:
    """A normalisation of each list by itself, by name.

    Parameters
    ----------
    name : {"percentile", "min_max", "theoretical_min_max", "max", "z_score", "log_z_score", "raw"}
        Which one; see the function of that name.
    options : mapping of str to float
        Its keyword arguments.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the name or an option is unknown, or an option's value is not one that the function accepts.

    Notes
    -----
    A candidate that the list lacks takes 0 under the bounded ones (as the papers have it) and the list's lowest
    value under ``z_score``, ``log_z_score`` and ``raw``, where 0 would be the mean or nothing in particular.

    Examples
    --------
    >>> ListCalibrator("min_max")(Ranking("v", ["a", "b", "c"], [3.0, 2.0, 1.0])).values
    array([1. , 0.5, 0. ])
    """

    name: str
    options: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or self.name not in _FUNCTIONS:
            raise InvalidInputError(f"calibrator name must be one of {sorted(_FUNCTIONS)}; got {self.name!r}")
        if not isinstance(self.options, Mapping):
            raise InvalidTypeError(f"options of calibrator {self.name!r} must be a mapping; got {self.options!r}")
        allowed = _FUNCTIONS[self.name][1]
        unknown = [name for name in self.options if name not in allowed]
        if unknown:
            raise InvalidInputError(
                f"options of calibrator {self.name!r} must be among {sorted(allowed)}; got {unknown}"
            )
        if self.name == "theoretical_min_max" and "infimum" not in self.options:
            raise InvalidInputError("calibrator 'theoretical_min_max' needs the option 'infimum'; got none")
        checked = {name: _checked(self.name, name, value) for name, value in self.options.items()}
        object.__setattr__(self, "options", MappingProxyType(checked))
        lowest = checked.get("infimum", 0.0)
        _FUNCTIONS[self.name][0](np.array([lowest + 1.0, lowest]), **checked)  # refuses what it would refuse later

    __reduce__ = by_fields

    @property
    def bounded(self) -> bool:
        """Whether every value is in [0, 1]."""
        return self.name not in _UNBOUNDED

    def __call__(self, ranking: Ranking, /) -> Calibrated:
        """Calibrate one ranking; see the class."""
        values = _FUNCTIONS[self.name][0](ranking.scores, **self.options)
        lowest = float(values.min()) if len(values) else 0.0
        return Calibrated(values, lowest if self.name in _UNBOUNDED else 0.0, self.name)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready state."""
        return {"name": self.name, "options": dict(self.options)}

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> ListCalibrator:
        """Rebuild from :meth:`to_dict`."""
        name, options = state.get("name"), state.get("options", {})
        if not isinstance(name, str) or not isinstance(options, Mapping):
            raise InvalidInputError(f"a list calibrator needs a name and a mapping of options; got {state!r}")
        return cls(name, options)


def _checked(calibrator: str, option: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidTypeError(f"option {option!r} of calibrator {calibrator!r} must be a number; got {value!r}")
    return float(value)
