"""From the walk's mass to scores, and their distribution over all passages."""

from __future__ import annotations

import numpy as np

from phasegraph._typing import FloatArray, Int32Array
from phasegraph.candidates import Background
from phasegraph.graph.pagerank import PageRankResult


def passage_scores(
    walked: PageRankResult, gains: FloatArray | None, passages: int, *, floor: float, closeness: float
) -> tuple[Int32Array, FloatArray, Background | None]:
    """Scores of the passages a walk reached, and the background of all.

    Parameters
    ----------
    walked : PageRankResult
    gains : (at least P,) array of float, optional
        Positive similarities of the P passages to the query, first; what follows them is not looked at.
    passages : int
        How many passages there are: nodes below P.
    floor : float
        > 0.
    closeness : float
        >= 0.

    Returns
    -------
    rows : (h,) array of int32
        Passages with mass.
    scores : (h,) array of float
        With `gains` ``(mass + floor) * gain ** closeness``, otherwise the mass; positive.
    background : Background or None
        Of the scores' logarithms over all passages; None where all are equal.

    Examples
    --------
    >>> walk = PageRankResult(np.array([2, 0], np.int32), np.array([0.5, 0.3]), 4, 0.0, 1, 2, 2)
    >>> passage_scores(walk, np.array([0.25, 1.0, 1.0, 1.0]), 3, floor=0.1, closeness=0.5)[1].round(3).tolist()
    [0.6, 0.2]
    """
    held = (walked.nodes < passages) & (walked.values > 0)
    rows, masses = walked.nodes[held], walked.values[held]
    if gains is None or closeness == 0:
        return rows, masses, background(walked, passages, floor)
    tilt = closeness * np.log(gains[:passages])
    logs = tilt + np.log(floor)
    logs[rows] = tilt[rows] + np.log(masses + floor)
    spread = float(logs.std())
    found = Background(location=float(logs.mean()), scale=spread, transform="log") if spread > 0 else None
    return rows, np.exp(logs[rows]), found


def background(walked: PageRankResult, passages: int, floor: float) -> Background | None:
    """Mean and standard deviation of log(mass + floor) over all passages, in O(reached).

    Parameters
    ----------
    walked : PageRankResult
    passages : int
        Nodes below this are passages; those the walk did not reach have mass 0.
    floor : float
        > 0.

    Returns
    -------
    Background or None
        None where all masses are equal.
    """
    held = walked.values[walked.nodes < passages]
    base = float(np.log(floor))
    above = np.log(held + floor) - base
    mean = float(above.sum()) / passages
    spread = float(np.sqrt(max(float((above**2).sum()) / passages - mean**2, 0.0)))
    if spread <= 0:
        return None
    return Background(location=base + mean, scale=spread, transform="log", floor=floor)
