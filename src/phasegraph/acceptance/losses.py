"""What a threshold costs each judged query."""

from __future__ import annotations

from typing import Literal

import numpy as np

from phasegraph._typing import FloatArray, IntArray
from phasegraph.acceptance.judged import JudgedScores
from phasegraph.errors import InvalidInputError

Risk = Literal["wrong", "missed"]


def query_losses(judged: JudgedScores, thresholds: FloatArray, /, *, risk: Risk) -> FloatArray:
    """Loss of every query at every threshold.

    Parameters
    ----------
    judged : JudgedScores
        With q queries.
    thresholds : (t,) array of float
        Ascending; a hit is accepted where its score is at or above the threshold.
    risk : {"wrong", "missed"}
        ``wrong``: share of the query's accepted hits that are not relevant, NaN where nothing is accepted.
        ``missed``: share of the query's relevant hits that are not accepted, NaN where it has none.

    Returns
    -------
    (q, t) array of float
        In [0, 1] or NaN.
    """
    width = len(thresholds) + 1
    passed = np.searchsorted(thresholds, judged.scores, side="right")
    cells = judged.groups * width + passed
    total = judged.query_count * width
    accepted = _counts_at_or_above(np.bincount(cells, minlength=total), width)
    relevant = _counts_at_or_above(np.bincount(cells[judged.labels], minlength=total), width)
    if risk == "wrong":
        kept = accepted[:, 1:].astype(np.float64)
        return _share(kept - relevant[:, 1:], kept)
    if risk != "missed":
        raise InvalidInputError(f"risk must be 'wrong' or 'missed'; got {risk!r}")
    owned = np.repeat(relevant[:, :1], width - 1, axis=1).astype(np.float64)
    return _share(owned - relevant[:, 1:], owned)


def _share(part: FloatArray, whole: FloatArray) -> FloatArray:
    """`part` / `whole`, NaN where `whole` is 0."""
    return np.asarray(np.where(whole > 0, part / np.maximum(whole, 1.0), np.nan))


def _counts_at_or_above(cells: IntArray, width: int) -> IntArray:
    table = cells.reshape(-1, width)
    return np.ascontiguousarray(np.cumsum(table[:, ::-1], axis=1)[:, ::-1])
