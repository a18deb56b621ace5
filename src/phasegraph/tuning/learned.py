"""Learned fusion: one non-negative logistic weight per source over calibrated values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.acceptance import check_orientations
from phasegraph.candidates import Ranking
from phasegraph.errors import InsufficientDataError, NotConvergedError
from phasegraph.evaluation.judgements import Judgement
from phasegraph.pipeline import FusionPipeline

MINIMUM_RELEVANT = 20
RIDGE = 1e-3


def learn_weights(
    pipeline: FusionPipeline,
    rankings: Mapping[str, Sequence[Ranking]],
    judgements: Sequence[Judgement],
    *,
    ridge: float = RIDGE,
) -> dict[str, float]:
    """Fit the weights of a linear pipeline to judged queries.

    Parameters
    ----------
    pipeline : FusionPipeline
        Its calibrators are used; its own rule and weights are not.
    rankings : mapping of str to sequence of Ranking
        Per source its answers, one per judgement.
    judgements : sequence of Judgement
    ridge : float, default 1e-3
        Penalty on the squared weights, per candidate; > 0.

    Returns
    -------
    dict of str to float
        By source, >= 0, adding up to 1.

    Raises
    ------
    InsufficientDataError
        If fewer than 20 relevant candidates were found, or no source tells relevant from irrelevant.
    InvalidInputError
        If a source's scores fall where relevance rises; the message names it.
    NotConvergedError
        If the optimiser stops before its tolerance.

    Notes
    -----
    Logistic regression of relevance on the sources' calibrated values, with weights bounded below by 0: the fused
    value never falls when a source's score rises. The intercept is fitted and dropped, since it changes no order.

    Examples
    --------
    >>> good = [Ranking("g", list("abcdef"), [9.0, 5, 4, 3, 2, 1]) for _ in range(30)]
    >>> poor = [Ranking("v", list("abcdef"[i % 6 :] + "abcdef"[: i % 6]), [9.0, 5, 4, 3, 2, 1]) for i in range(30)]
    >>> judged = [Judgement(str(i), (("a",),)) for i in range(30)]
    >>> learn_weights(FusionPipeline(), {"g": good, "v": poor}, judged)
    {'g': 1.0, 'v': 0.0}
    """
    require_orientation(rankings, judgements)
    return fit_weights(pipeline, rankings, judgements, ridge)


def require_orientation(rankings: Mapping[str, Sequence[Ranking]], judgements: Sequence[Judgement]) -> None:
    """Refuse a source whose scores fall where relevance rises; InvalidInputError names it."""
    answers = [(one.query, [rankings[name][row] for name in sorted(rankings)]) for row, one in enumerate(judgements)]
    check_orientations(answers, {one.query: one.passages for one in judgements})


def fit_weights(
    pipeline: FusionPipeline,
    rankings: Mapping[str, Sequence[Ranking]],
    judgements: Sequence[Judgement],
    ridge: float = RIDGE,
) -> dict[str, float]:
    """As :func:`learn_weights`, of sources whose orientation is known to be right."""
    names = sorted(rankings)
    plain = FusionPipeline(calibrator=pipeline.calibrator, calibrators=pipeline.calibrators, weighting="equal")
    blocks, labels = [], []
    for row, judgement in enumerate(judgements):
        found = plain.decide([rankings[name][row] for name in names], k=1_000_000)
        if len(found):
            gold = judgement.passages
            blocks.append(_columns(found.calibrated, found.candidates.sources, names))
            labels.append(np.array([passage in gold for passage in found.ids], dtype=np.float64))
    relevant = int(sum(label.sum() for label in labels))
    if relevant < MINIMUM_RELEVANT:
        raise InsufficientDataError(
            f"learning weights needs at least {MINIMUM_RELEVANT} relevant candidates; got {relevant}"
        )
    return _normalised(names, _fit(np.vstack(blocks), np.concatenate(labels), ridge))


def _columns(values: FloatArray, sources: Sequence[str], names: Sequence[str]) -> FloatArray:
    """`values` in the order of all sources; one that found nothing gets its row's lowest value."""
    out = np.repeat(values.min(axis=1, keepdims=True), len(names), axis=1)
    for column, source in enumerate(sources):
        out[:, names.index(source)] = values[:, column]
    return out


def _fit(values: FloatArray, labels: FloatArray, ridge: float) -> FloatArray:
    from scipy.optimize import minimize

    centre = values.mean(axis=0)
    scale = np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
    features = (values - centre) / scale

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        logits = features @ parameters[:-1] + parameters[-1]
        residual = 1.0 / (1.0 + np.exp(-np.clip(logits, -500, 500))) - labels
        value = float(np.mean(np.logaddexp(0.0, logits) - labels * logits))
        value += 0.5 * ridge * float(parameters[:-1] @ parameters[:-1])
        slope = features.T @ residual / len(labels) + ridge * parameters[:-1]
        return value, np.append(slope, residual.mean())

    width = features.shape[1]
    start = np.append(np.full(width, 0.5), -3.0)
    bounds = [(0.0, None)] * width + [(None, None)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500})
    if not found.success:
        raise NotConvergedError(f"the weights' fit must converge; the optimiser says: {found.message}")
    return np.asarray(found.x[:-1] / scale, dtype=np.float64)


def _normalised(names: Sequence[str], weights: FloatArray) -> dict[str, float]:
    total = float(weights.sum())
    if not total > 0:
        raise InsufficientDataError("no source tells relevant from irrelevant here; all learned weights are 0")
    return {name: float(weight) / total for name, weight in zip(names, weights.tolist(), strict=True)}
