"""Thresholds fitted to judged hits: published recipes, exact optima, and a common level for all sources.

Each function that takes judged hits raises an error if relevant hits have lower scores than other hits; see
:func:`phasegraph.acceptance.judged.check_orientation`.
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
    """Compute the threshold of "Beyond the Reranker", the SSCC paper.

    The threshold is ``tau_0 * (1 + alpha)`` for the bi-encoder, and ``tau_0`` for other sources.

    Parameters
    ----------
    tau_0 : float
        Threshold of a source that is not the bi-encoder, finite.
    alpha : float
        Relative increase of the threshold for the bi-encoder, finite.
    bi_encoder : bool
        Whether the source is the bi-encoder.

    Returns
    -------
    Threshold
        A threshold without a guarantee.

    Notes
    -----
    The public code of the paper has two independent thresholds instead, by default 0.5 for the bi-encoder and 0 for the
    cross-encoder. The formula cannot express these defaults: with `tau_0` = 0, both thresholds are 0.

    Examples
    --------
    >>> round(sscc_threshold(0.132, 4.28, bi_encoder=True).value, 5)
    0.69696
    """
    check_number("tau_0", tau_0, minimum=None)
    check_number("alpha", alpha, minimum=None)
    return Threshold(tau_0 * (1 + alpha) if bi_encoder else tau_0, method="sscc-formula")


def fit_grid(judged: JudgedScores, /, *, points: int = 100) -> Threshold:
    """Fit the threshold with the highest balanced accuracy on a grid of scores.

    This is the method in the public code of "Beyond the Reranker", the SSCC paper.

    Parameters
    ----------
    judged : JudgedScores
        Judged hits, with scores in the source's own unit.
    points : int, default 100
        Number of grid points, equally spaced from the lowest to the highest score, >= 2. Of equally good points, the
        lowest is chosen.

    Returns
    -------
    Threshold
        A threshold without a guarantee; `statistics` contains the balanced accuracy.

    Notes
    -----
    The SSCC code returns the median if all labels are equal, and 0 without labels. Here, both cases are an error,
    because these thresholds have no relation to relevance.

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
    """Fit the threshold that is best for an objective, such as the highest F1 score, among all distinct scores.

    Parameters
    ----------
    judged : JudgedScores
        Judged hits, with scores in the source's own unit.
    objective : {"youden", "f1", "recall", "precision"}, default "youden"
        ``youden`` maximizes the balanced accuracy, and ``f1`` the F1 score. ``recall`` chooses the highest threshold
        with a recall of at least `target`; ``precision`` chooses the lowest threshold with a precision of at least
        `target`. Of equally good thresholds, the lowest is chosen.
    target : float, optional
        The recall or precision to reach, in (0, 1]; only for ``recall`` and ``precision``.
    midway : bool, default True
        Whether to set the threshold midway between the lowest accepted score and the next lower score. Rounding of new
        scores then does not change verdicts. False sets the threshold to the lowest accepted score.

    Returns
    -------
    Threshold
        A threshold without a guarantee. `statistics` contains the AUC and, at the threshold, the balanced accuracy, F1,
        recall, precision and coverage (the share of judged hits that are accepted).

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
    """Compute the area under the ROC curve (AUC) of judged scores.

    Parameters
    ----------
    judged : JudgedScores
        The judged hits. Hits of all queries are compared with each other.

    Returns
    -------
    float
        Probability that a random relevant hit has a higher score than a random irrelevant hit; ties count half.
    """
    _, inverse, counts = np.unique(judged.scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]
    positives = judged.positives
    above = float(ranks[judged.labels].sum()) - positives * (positives + 1) / 2
    return above / (positives * (len(judged) - positives))


def fitted(judged: JudgedScores, value: float, **about: Any) -> Threshold:
    """Create a threshold at `value`, with the numbers of judged queries and hits, and statistics for drift tests.

    `about` contains the other fields of :class:`Threshold`.
    """
    columns = per_query(judged.scores, judged.groups, judged.query_count, judged.labels)
    reference = DriftReference(*(tuple(np.sort(column).tolist()) for column in columns.values()))
    return Threshold(value, queries=judged.query_count, hits=len(judged), reference=reference, **about)


def midpoint(lower: float, upper: float) -> float:
    """Return the mean of two numbers, or `upper` if the mean is rounded to `lower`.

    A threshold at this value therefore never accepts `lower`.
    """
    middle = lower / 2 + upper / 2
    return middle if middle > lower else upper


def _rates(judged: JudgedScores, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return two (t,) arrays: the shares of relevant and of irrelevant hits at or above each of t thresholds."""
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
            f"no threshold reaches {objective} {target:g} on these hits; the best is {best:.4f}: lower the target"
        )
    return int(rows[-1]) if objective == "recall" else int(rows[0])


def _check_target(objective: str, target: float | None) -> float:
    check_choice("objective", objective, get_args(Objective))
    if objective in _OPTIMA:
        if target is not None:
            raise InvalidInputError(
                f"target must be None unless the objective is 'recall' or 'precision'; got {target!r}"
            )
        return 0.0
    return check_range(f"target of objective {objective!r}", target, 0, 1, ends="(]")


def fit_global_threshold(
    judged: Mapping[str, JudgedScores],
    /,
    *,
    fit: Callable[[JudgedScores], Threshold] = fit_threshold,
) -> dict[str, Threshold]:
    """Fit a common percentile level for all sources, and convert the level to a threshold for each source.

    The percentile of a score is the share of the source's judged scores that are equal or lower. The function from
    scores to percentiles is the empirical distribution function (ECDF).

    Parameters
    ----------
    judged : mapping of str to JudgedScores
        Judged hits by source name. The scores of all queries of a source are its reference sample.
    fit : callable, default :func:`~phasegraph.acceptance.fit_threshold`
        The function that fits the level to the percentiles, in (0, 1], of all sources;
        :func:`~phasegraph.acceptance.fit_grid` is an alternative.

    Returns
    -------
    dict of str to Threshold
        Thresholds by source name, in the unit of each source. ``ECDF(score) >= level`` and ``score >= value`` accept
        the same judged hits. `statistics` contains the level.

    Notes
    -----
    Percentiles refer to the whole reference sample. In the list of a single query, the best hit would always have the
    percentile 1.
    """
    if not judged:
        raise InsufficientDataError(
            "the mapping of judged hits is empty: a global threshold needs judged hits of at least one source"
        )
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
    """Return, for each score, the share in [0, 1] of the numbers in `reference` that are equal or lower.

    `reference` is ascending.
    """
    return np.searchsorted(reference, scores, side="right") / len(reference)


def _quantile_for(reference: FloatArray, level: float) -> float:
    """Return the score threshold that accepts the numbers in `reference` whose ECDF is at least `level`.

    `reference` is ascending.
    """
    distinct = np.unique(reference)
    row = int(np.searchsorted(ecdf(reference, distinct), level, side="left"))
    if row >= len(distinct):
        return float(np.nextafter(distinct[-1], np.inf))
    return float(distinct[0]) if row == 0 else midpoint(float(distinct[row - 1]), float(distinct[row]))
