"""Thresholds fitted to judged hits: the published recipes, exact optima, and one level for all sources.

Each refuses scores that fall where relevance rises (:func:`~phasegraph.acceptance.check_orientation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_choice, check_count, check_number, check_range
from phasegraph.acceptance.judged import JudgedScores, check_orientation, per_query
from phasegraph.acceptance.thresholds import DriftReference, Threshold
from phasegraph.errors import InsufficientDataError, InvalidInputError

Objective: TypeAlias = Literal["youden", "f1", "recall", "precision"]
_OPTIMA = {"youden": "balanced_accuracy", "f1": "f1"}


def sscc_threshold(tau_0: float, alpha: float, *, bi_encoder: bool) -> Threshold:
    """Threshold ``tau_0 * (1 + alpha)`` for the bi-encoder and ``tau_0`` for every other source.

    Parameters
    ----------
    tau_0 : float
        Finite.
    alpha : float
        Finite; the relative rise for the bi-encoder.
    bi_encoder : bool
        Whether the source is the bi-encoder.

    Returns
    -------
    Threshold
        With no promise.

    Notes
    -----
    The paper's formula. Its public code has two free numbers instead (.5 for the bi-encoder and 0 for the
    cross-encoder by default), which this formula cannot express: with `tau_0` = 0 both are 0.

    Examples
    --------
    >>> round(sscc_threshold(0.132, 4.28, bi_encoder=True).value, 5)
    0.69696
    """
    check_number("tau_0", tau_0, minimum=None)
    check_number("alpha", alpha, minimum=None)
    return Threshold(tau_0 * (1 + alpha) if bi_encoder else tau_0, method="sscc-formula")


def fit_grid(judged: JudgedScores, /, *, points: int = 100) -> Threshold:
    """Grid value of the highest balanced accuracy, the first of equals: the public SSCC code's calibrator.

    Parameters
    ----------
    judged : JudgedScores
        In the source's own unit.
    points : int, default 100
        Equally spaced from the lowest to the highest score; >= 2.

    Returns
    -------
    Threshold
        With no promise; `statistics` holds the balanced accuracy.

    Notes
    -----
    The code returns the median for labels of one kind and 0 for no labels; here both are an error, because
    either accepts or rejects by accident.

    Examples
    --------
    >>> fit_grid(JudgedScores([0.0, 0.4, 0.6, 1.0], [0, 0, 1, 1]), points=11).value
    0.5
    """
    check_count("points", points, minimum=2)
    check_orientation(judged)
    grid = np.linspace(judged.scores.min(), judged.scores.max(), points)
    true_rate, false_rate = _rates(judged, grid)
    balanced = (true_rate + 1 - false_rate) / 2
    best = int(np.argmax(balanced))
    observed = {"balanced_accuracy": balanced[best], "positives": judged.positives}
    return fitted(judged, float(grid[best]), method=f"grid-{points}", statistics=observed)


def fit_threshold(
    judged: JudgedScores,
    /,
    *,
    objective: Objective = "youden",
    target: float | None = None,
    midway: bool = True,
) -> Threshold:
    """Best threshold over all distinct scores.

    Parameters
    ----------
    judged : JudgedScores
        In the source's own unit.
    objective : {"youden", "f1", "recall", "precision"}, default "youden"
        ``youden`` maximises the balanced accuracy, ``f1`` the F1; ``recall`` takes the highest threshold whose
        recall is at least `target`, ``precision`` the lowest whose precision is. Of equals, the lowest.
    target : float, optional
        In (0, 1]; for ``recall`` and ``precision`` only.
    midway : bool, default True
        Put the value midway between the lowest accepted score and the next one below it (the lowest score
        itself where there is none), so that rounding of new scores does not tip hits over. False: on the
        lowest accepted score.

    Returns
    -------
    Threshold
        With no promise; `statistics` holds the AUC, and at the optimum the balanced accuracy, F1, recall,
        precision and coverage (share of judged hits accepted).

    Raises
    ------
    InsufficientDataError
        If no threshold reaches the target precision.

    Examples
    --------
    >>> judged = JudgedScores([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1])
    >>> fit_threshold(judged).value
    0.5
    """
    wanted = _check_target(objective, target)
    check_orientation(judged)
    scores = np.unique(judged.scores)
    table = _table(judged, scores)
    row = _best_row(table, objective, wanted)
    value = float(scores[row])
    if midway and row > 0:
        value = midpoint(float(scores[row - 1]), value)
    observed = {name: float(column[row]) for name, column in table.items()}
    observed |= {"auc": area_under_curve(judged), "positives": judged.positives}
    return fitted(judged, value, method=objective, level=target, statistics=observed)


def area_under_curve(judged: JudgedScores, /) -> float:
    """Probability that a relevant hit outscores an irrelevant one, ties counting half; over the hits of all queries."""
    _, inverse, counts = np.unique(judged.scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
    positives = judged.positives
    above = float(ranks[judged.labels].sum()) - positives * (positives + 1) / 2
    return above / (positives * (len(judged) - positives))


def fitted(judged: JudgedScores, value: float, **about: Any) -> Threshold:
    """A threshold fitted on `judged`, whose queries it remembers; `about` are further fields."""
    columns = per_query(judged.scores, judged.groups, judged.query_count, judged.labels)
    reference = DriftReference(*(tuple(np.sort(column).tolist()) for column in columns.values()))
    return Threshold(value, queries=judged.query_count, hits=len(judged), reference=reference, **about)


def midpoint(lower: float, upper: float) -> float:
    """Halfway between, but never equal to `lower`, so that `lower` itself stays out."""
    middle = lower / 2 + upper / 2
    return middle if middle > lower else upper


def _rates(judged: JudgedScores, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Share of relevant and of irrelevant hits at or above each threshold."""
    relevant = np.sort(judged.scores[judged.labels])
    rest = np.sort(judged.scores[~judged.labels])
    accepted = [1 - np.searchsorted(part, thresholds, side="left") / len(part) for part in (relevant, rest)]
    return accepted[0], accepted[1]


def _table(judged: JudgedScores, scores: FloatArray) -> dict[str, FloatArray]:
    recall, false_rate = _rates(judged, scores)
    positives, negatives = judged.positives, len(judged) - judged.positives
    hits = np.rint(recall * positives)
    accepted = hits + np.rint(false_rate * negatives)
    return {
        "balanced_accuracy": (recall + 1 - false_rate) / 2,
        "f1": 2 * hits / (accepted + positives),
        "recall": recall,
        "precision": hits / accepted,
        "coverage": accepted / len(judged),
    }


def _best_row(table: Mapping[str, FloatArray], objective: str, target: float) -> int:
    if objective in _OPTIMA:
        return int(np.argmax(table[_OPTIMA[objective]]))
    rows = np.flatnonzero(table[objective] >= target - 1e-12)
    if not len(rows):
        best = float(table[objective].max())
        raise InsufficientDataError(
            f"no threshold reaches {objective} {target:g} on these hits; the best is {best:.4f}"
        )
    return int(rows[-1]) if objective == "recall" else int(rows[0])


def _check_target(objective: str, target: float | None) -> float:
    check_choice("objective", objective, get_args(Objective))
    if objective in _OPTIMA:
        if target is not None:
            raise InvalidInputError(f"target is for 'recall' and 'precision' only; got {target!r}")
        return 0.0
    return check_range(f"target of objective {objective!r}", target, 0, 1, ends="(]")


def fit_global_threshold(
    judged: Mapping[str, JudgedScores],
    /,
    *,
    fit: Callable[[JudgedScores], Threshold] = fit_threshold,
) -> dict[str, Threshold]:
    """One level for all sources, on each source's own pooled ECDF, given back in each source's unit.

    Parameters
    ----------
    judged : mapping of str to JudgedScores
        By source name; the scores of all its queries together are its reference sample.
    fit : callable, default :func:`~phasegraph.acceptance.fit_threshold`
        Finds the level on the shares in (0, 1] that all sources have in common;
        :func:`~phasegraph.acceptance.fit_grid` is the other natural choice.

    Returns
    -------
    dict of str to Threshold
        ``ECDF(score) >= level`` and ``score >= value`` accept the same judged hits; `statistics` holds the
        level.

    Notes
    -----
    A share here is of the whole reference sample, never of one query's list, whose best hit always has 1.
    """
    if not judged:
        raise InsufficientDataError("a global threshold needs judged hits of at least one source; got none")
    names = sorted(judged)
    for name in names:
        check_orientation(judged[name], name)
    references = {name: np.sort(judged[name].scores) for name in names}
    shares = [ecdf(references[name], judged[name].scores) for name in names]
    labels = np.concatenate([judged[name].labels for name in names])
    queries = [judged[name].names[group] for name in names for group in judged[name].groups.tolist()]
    level = fit(JudgedScores(np.concatenate(shares), labels, queries))
    out = {}
    for name in names:
        value = _quantile_for(references[name], level.value)
        observed = {"level": level.value, **level.statistics, "positives": judged[name].positives}
        out[name] = fitted(
            judged[name], value, method=f"pooled-ecdf/{level.method}", level=level.value, statistics=observed
        )
    return out


def ecdf(reference: FloatArray, scores: FloatArray, /) -> FloatArray:
    """Share of the ascending `reference` at or below each score, in [0, 1]."""
    return np.searchsorted(reference, scores, side="right") / len(reference)


def _quantile_for(reference: FloatArray, level: float) -> float:
    """Raw value that accepts the same members of `reference` as ``ECDF >= level``."""
    distinct = np.unique(reference)
    row = int(np.searchsorted(ecdf(reference, distinct), level, side="left"))
    if row >= len(distinct):
        return float(np.nextafter(distinct[-1], np.inf))
    return float(distinct[0]) if row == 0 else midpoint(float(distinct[row - 1]), float(distinct[row]))
