"""Normalizations that use only the returned list, as functions and as calibrators by name.

Each function takes ``scores``, an (n,) array of finite numbers in any order; higher is better. It raises
InvalidInputError for other input. An empty array gives an empty array.
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
    """Compute the percentile rank of each hit: the share of the list with an equal or lower score.

    The paper [1]_ calls this rank the probability integral transform (PIT) of a source's own list.

    Parameters
    ----------
    scores : (n,) array of float
        The scores of the list, finite.

    Returns
    -------
    (n,) array of float
        Percentile ranks in [1/n, 1]; the best hit has exactly 1. They are not probabilities of relevance.

    Notes
    -----
    Ties share their highest rank, according to ``<=`` in the paper's formula; some public ports break ties by sort
    order. The values depend only on ranks, ties and n, so they do not show whether the scores are high or low. The
    method does not satisfy the laws "an appended worst hit changes nothing" and "a poor list cannot have a top of 1".
    For example, the best hit of ``[.01, .02, .03]`` gets 1.0.

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
    """Scale scores linearly: the lowest score of the list becomes 0, and the highest score becomes 1.

    Parameters
    ----------
    scores : (n,) array of float
        The scores of the list, finite.
    constant : float, default 1.0
        Value of every hit in a list of equal scores, in [0, 1]. HippoRAG-2 and SemFlowRAG use 1.

    Returns
    -------
    (n,) array of float
        Scaled scores in [0, 1].

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
    """Scale scores linearly: the lowest possible score becomes 0, and the highest score of the list becomes 1.

    This is the normalization of the method TM2C2.

    Parameters
    ----------
    scores : (n,) array of float
        The scores of the list, finite and >= `infimum`.
    infimum : float
        Lowest possible score of the source: 0 for BM25, -1 for a cosine.

    Returns
    -------
    (n,) array of float
        Scaled scores in [0, 1]; all 0 if the highest score equals the infimum.

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
    moved = moderate(np.append(values, infimum))  # scaled together, because only the differences matter
    span = float(moved[:-1].max()) - float(moved[-1])
    return (moved[:-1] - moved[-1]) / span if span > 0 else np.zeros(len(values))


def max_normalise(scores: FloatArray, /) -> FloatArray:
    """Divide the scores by the highest score of the list.

    Parameters
    ----------
    scores : (n,) array of float
        The scores of the list, finite and >= 0; at least one score is positive.

    Returns
    -------
    (n,) array of float
        Scaled scores in [0, 1].

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
        raise InvalidInputError(
            f"max normalization needs scores >= 0 with at least one > 0; got {low!r} to {high!r}: choose another "
            "calibrator"
        )
    return np.asarray(values / high)


def z_score(scores: FloatArray, /) -> FloatArray:
    """Compute the distance of each score from the list's mean in standard deviations; 0 for a list of equal scores.

    Parameters
    ----------
    scores : (n,) array of float
        The scores of the list, finite.

    Returns
    -------
    (n,) array of float
        z-scores, unbounded, with mean 0. The standard deviation divides by n.

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
    """Compute the z-scores of ``log(score + floor)``, for heavy-tailed scores such as walk probabilities.

    Parameters
    ----------
    scores : (n,) array of float
        The scores of the list, finite and >= 0.
    floor : float, default 1e-4
        Number that is added to each score before the logarithm, > 0.

    Returns
    -------
    (n,) array of float
        z-scores, unbounded, with mean 0.

    Examples
    --------
    >>> log_z_score(np.array([0.1, 0.01, 0.001, 0.0001]), floor=1e-9).round(4)
    array([ 1.3416,  0.4472, -0.4472, -1.3416])
    """
    check_range("floor", floor, ends="(]")
    values = check_flat("scores", scores)
    if len(values) and values.min() < 0:
        raise InvalidInputError(
            f"log z-score needs scores >= 0; got {float(values.min())!r}: choose another calibrator"
        )
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
    """A calibrator that normalizes each returned list by a named function.

    Parameters
    ----------
    name : {"percentile", "min_max", "theoretical_min_max", "max", "z_score", "log_z_score", "raw"}
        Name of the normalization; ``raw`` leaves the scores unchanged. The module
        :mod:`phasegraph.calibration.per_list` contains the functions.
    options : mapping of str to float
        Keyword arguments of the function.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the name or an option is unknown, or the function does not accept the value of an option.

    Notes
    -----
    With a normalization to [0, 1], a candidate that the list lacks gets 0, as in the literature. With ``z_score``,
    ``log_z_score`` and ``raw``, it gets the lowest value of the list, because 0 is not a low value on these scales.

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
            raise InvalidInputError(f"{owner} needs the option 'infimum', the lowest possible score of the source")
        checked = {name: check_real(f"option {name!r} of {owner}", value) for name, value in options.items()}
        object.__setattr__(self, "options", MappingProxyType(checked))
        lowest = checked.get("infimum", 0.0)
        function(np.array([lowest + 1.0, lowest]), **checked)  # raises an error now if the options are invalid

    __reduce__ = by_fields

    @property
    def bounded(self) -> bool:
        """True if every value is in [0, 1]."""
        return self.name not in _UNBOUNDED

    def __call__(self, ranking: Ranking, /) -> Calibrated:
        """Normalize the scores of a ranking, and return the calibrated values."""
        values = _FUNCTIONS[self.name][0](ranking.scores, **self.options)
        lowest = float(values.min()) if len(values) else 0.0
        return Calibrated(values, lowest if self.name in _UNBOUNDED else 0.0, self.name)

    def to_dict(self) -> dict[str, object]:
        """Return the calibrator in plain JSON types."""
        return {"name": self.name, "options": dict(self.options)}

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> ListCalibrator:
        """Create the calibrator from the output of :meth:`to_dict`."""
        return cls(state.get("name"), state.get("options", {}))  # type: ignore[arg-type]
