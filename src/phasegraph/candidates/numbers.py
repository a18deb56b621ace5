"""Scores of any kind as float64, with NaN for what is no number."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import SupportsFloat

import numpy as np

from phasegraph._typing import FloatArray

_NUMERIC = frozenset({float, int, np.float64, np.float32, np.float16, np.int64, np.int32})


def all_none(scores: Sequence[object]) -> bool:
    """Whether every one of at least one score is None."""
    return scores[0] is None and all(score is None for score in scores)


def as_floats(scores: Sequence[object] | FloatArray) -> FloatArray:
    """Numbers as float64, anything that is not a number as NaN."""
    if isinstance(scores, np.ndarray) and scores.dtype.kind in "fiu":
        return scores.astype(np.float64)
    if set(map(type, scores)) <= _NUMERIC:
        try:
            return np.array(scores, dtype=np.float64)
        except OverflowError:
            return np.array([_as_float(score) for score in scores], dtype=np.float64)
    return np.array([_as_float(score) for score in scores], dtype=np.float64)


def _as_float(score: object) -> float:
    if isinstance(score, bool | np.bool_ | str | bytes) or score is None:
        return float("nan")
    if isinstance(score, Decimal | SupportsFloat):
        try:
            return float(score)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            return float("nan")
    return float("nan")
