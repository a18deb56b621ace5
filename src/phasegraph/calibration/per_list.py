"""Normalisations of one list by itself, as most fusion libraries have them, and as calibrators by name.

Each takes ``scores``, an (n,) array of finite numbers in any order, higher is better, and raises InvalidInputError
for anything else. An empty list gives an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from phasegraph._support.frozen import by_fields
from phasegraph._support.numbers import moderate
from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import (
    check_choice,
    check_flat,
    check_mapping,
    check_number,
    check_range,
    check_real,
)
from phasegraph.calibration.background import Calibrated
from phasegraph.errors import InvalidInputError
from phasegraph.ranking import Ranking


def percentile_rank(scores: FloatArray, /) -> FloatArray:
    """Share of the list that scores no higher than each hit (the paper's PIT of a source's own list).

    Parameters
    ----------
    scores : (n,) array of float
        Finite.

    Returns
    -------
    (n,) array of float
        In [1/n, 1]; the best hit has exactly 1. Not a probability of relevance.

    Notes
    -----
    Ties share their *maximum* rank, as the formula with ``<=`` says; some public ports break ties by sort order.
    The value is a function of ranks, ties and n only: any strictly increasing transform of the scores leaves it
    unchanged, so it keeps no magnitude. It breaks the laws "an appended worst hit changes nothing" and "a poor
    list cannot have a top of 1": ``[.01, .02, .03]`` gets 1.0 at its top.

    References
    ----------
    .. [1] "Calibrated Fusion for Heterogeneous Graph-Vector Retrieval in Multi-Hop QA", arXiv:2603.28886, Eq. 1

    Examples
    --------
    >>> percentile_rank(np.array([0.5, 0.5, 0.2])).round(4)
    array([1.    , 1.    , 0.3333])
    """
    values = check_flat("scores", scores)
    if not len(values):
        return values
    return np.searchsorted(np.sort(values), values, side="right") / len(values)


def min_max(scores: FloatArray, /, *, constant: float = 1.0) -> FloatArray:
    """Scores stretched so that the worst of the list is 0 and the best 1.

    Parameters
    ----------
    scores : (n,) array of float
        Finite.
    constant : float, default 1.0
        What every hit of a constant list gets; in [0, 1]. HippoRAG-2 and SemFlowRAG use 1.

    Returns
    -------
    (n,) array of float
        In [0, 1].

    Examples
    --------
    >>> min_max(np.array([3.0, 2.0, 1.0]))
    array([1. , 0.5, 0. ])
    """
    check_range("constant", constant, 0, 1)
    values = check_flat("scores", scores)
    if not len(values):
        return values
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.full(len(values), constant)
    half = high / 2 - low / 2
    return np.clip((values / 2 - low / 2) / half, 0.0, 1.0) if half > 0 else np.full(len(values), constant)


def theoretical_min_max(scores: FloatArray, /, *, infimum: float) -> FloatArray:
    """Scores between the scorer's theoretical infimum (0) and the best of the list (1), as in TM2C2.

    Parameters
    ----------
    scores : (n,) array of float
        Finite and >= `infimum`.
    infimum : float
        Lowest score the scorer can give: 0 for BM25, -1 for a cosine.

    Returns
    -------
    (n,) array of float
        In [0, 1]; all 0 where the best score equals the infimum.

    References
    ----------
    .. [1] Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", arXiv:2210.11934

    Examples
    --------
    >>> theoretical_min_max(np.array([0.8, 0.2]), infimum=-1.0).round(4)
    array([1.    , 0.6667])
    """
    check_number("infimum", infimum, minimum=None)
    values = check_flat("scores", scores)
    if not len(values):
        return values
    if values.min() < infimum:
        raise InvalidInputError(f"scores must be >= infimum {infimum!r}; got {float(values.min())!r}")
    moved = moderate(np.append(values, infimum))  # together: neither alone says what their difference is
    span = float(moved[:-1].max()) - float(moved[-1])
    return (moved[:-1] - moved[-1]) / span if span > 0 else np.zeros(len(values))


def max_normalise(scores: FloatArray, /) -> FloatArray:
    """Scores divided by the best of the list ("raw/max").

    Parameters
    ----------
    scores : (n,) array of float
        Finite, >= 0, at least one positive.

    Returns
    -------
    (n,) array of float
        In [0, 1].

    Examples
    --------
    >>> max_normalise(np.array([4.0, 1.0]))
    array([1.  , 0.25])
    """
    values = check_flat("scores", scores)
    if not len(values):
        return values
    low, high = float(values.min()), float(values.max())
    if low < 0 or high <= 0:
        raise InvalidInputError(f"max normalisation needs scores >= 0, one > 0; got a range of {low!r} to {high!r}")
    return np.asarray(values / high)


def z_score(scores: FloatArray, /) -> FloatArray:
    """Population standard deviations above the list's own mean; 0 for a constant list.

    Parameters
    ----------
    scores : (n,) array of float
        Finite.

    Returns
    -------
    (n,) array of float
        Unbounded, mean 0.

    Examples
    --------
    >>> z_score(np.array([3.0, 2.0, 1.0])).round(4)
    array([ 1.2247,  0.    , -1.2247])
    """
    values = moderate(check_flat("scores", scores))
    if not len(values):
        return values
    spread = float(values.std())
    if spread == 0 or values.min() == values.max():  # the mean of equal scores is rounded, and may differ from them
        return np.zeros(len(values))
    return np.asarray((values - values.mean()) / spread)


def log_z_score(scores: FloatArray, /, *, floor: float = 1e-4) -> FloatArray:
    """z-score of ``log(score + floor)``: for heavy-tailed scores such as walk probabilities.

    Parameters
    ----------
    scores : (n,) array of float
        Finite and >= 0.
    floor : float, default 1e-4
        Added before the logarithm; > 0.

    Returns
    -------
    (n,) array of float
        Unbounded, mean 0.

    Examples
    --------
    >>> log_z_score(np.array([0.1, 0.01, 0.001, 0.0001]), floor=1e-9).round(4)
    array([ 1.3416,  0.4472, -0.4472, -1.3416])
    """
    check_range("floor", floor, ends="(]")
    values = check_flat("scores", scores)
    if len(values) and values.min() < 0:
        raise InvalidInputError(f"log z-score needs scores >= 0; got {float(values.min())!r}")
    return z_score(np.log(values + floor))


def _raw(scores: FloatArray, /) -> FloatArray:
    return np.asarray(scores, dtype=np.float64)


_UNBOUNDED = frozenset({"z_score", "log_z_score", "raw"})
_FUNCTIONS: Mapping[str, tuple[Callable[..., FloatArray], tuple[str, ...]]] = MappingProxyType(
    {
        "percentile": (percentile_rank, ()),
        "min_max": (min_max, ("constant",)),
        "theoretical_min_max": (theoretical_min_max, ("infimum",)),
        "max": (max_normalise, ()),
        "z_score": (z_score, ()),
        "log_z_score": (log_z_score, ("floor",)),
        "raw": (_raw, ()),
    }
)
LIST_CALIBRATORS = tuple(_FUNCTIONS)


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
        check_choice("calibrator name", self.name, _FUNCTIONS)
        owner = f"calibrator {self.name!r}"
        function, allowed = _FUNCTIONS[self.name]
        options = check_mapping(f"options of {owner}", self.options)
        unknown = [name for name in options if name not in allowed]
        if unknown:
            raise InvalidInputError(f"options of {owner} must be among {sorted(allowed)}; got {unknown}")
        if self.name == "theoretical_min_max" and "infimum" not in options:
            raise InvalidInputError(f"{owner} needs the option 'infimum'; got none")
        checked = {name: check_real(f"option {name!r} of {owner}", value) for name, value in options.items()}
        object.__setattr__(self, "options", MappingProxyType(checked))
        lowest = checked.get("infimum", 0.0)
        function(np.array([lowest + 1.0, lowest]), **checked)  # refuses what it would refuse later

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
        return cls(state.get("name"), state.get("options", {}))  # type: ignore[arg-type]
