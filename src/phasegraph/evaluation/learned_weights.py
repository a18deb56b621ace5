"""Learn the weights of a linear pipeline from judged queries, by a logistic regression of relevance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph.acceptance.judged import check_orientations
from phasegraph.errors import InsufficientDataError, NotConvergedError
from phasegraph.evaluation.judgements import Judgement
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking

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
        The pipeline whose calibrators are used; its rule and weights are ignored.
    rankings : mapping of str to sequence of Ranking
        Rankings by source, one per judgement.
    judgements : sequence of Judgement
        The relevant passages of each query.
    ridge : float, default 1e-3
        Ridge penalty on the squared weights; > 0.

    Returns
    -------
    dict of str to float
        Weights by source, >= 0, with the sum 1.

    Raises
    ------
    InsufficientDataError
        If fewer than 20 relevant candidates were found, or no source separates relevant from irrelevant candidates.
    InvalidInputError
        If a source gives relevant candidates lower scores than irrelevant candidates; the message names the source.
    NotConvergedError
        If the optimizer stops before its tolerance.

    Notes
    -----
    The weights come from a logistic regression of relevance on the sources' calibrated values. They are bounded below
    by 0; a higher score of a source therefore never lowers the fused value. The intercept is fitted and then dropped,
    because it does not affect the order.

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
    """Raise InvalidInputError if a source gives relevant candidates lower scores than irrelevant candidates.

    The message names the source.
    """
    answers = [(one.query, [rankings[name][row] for name in sorted(rankings)]) for row, one in enumerate(judgements)]
    check_orientations(answers, {one.query: one.passages for one in judgements})


def fit_weights(
    pipeline: FusionPipeline,
    rankings: Mapping[str, Sequence[Ranking]],
    judgements: Sequence[Judgement],
    ridge: float = RIDGE,
) -> dict[str, float]:
    """Fit the weights of a linear pipeline as :func:`learn_weights` does, without its check of the sources.

    The check raises an error if a source gives relevant candidates lower scores than irrelevant candidates.
    """
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
    weights = _fit(np.vstack(blocks), np.concatenate(labels), ridge)
    total = float(weights.sum())
    if not total > 0:
        raise InsufficientDataError(
            "no source separates relevant from irrelevant candidates, so all learned weights are 0: check the "
            "sources and the judgements"
        )
    return dict(zip(names, (weights / total).tolist(), strict=True))


def _columns(values: FloatArray, sources: Sequence[str], names: Sequence[str]) -> FloatArray:
    """Return a copy of `values`, whose columns belong to `sources`, with a column for each name in `names`.

    The column of a name that is not in `sources` contains the lowest value of each row.
    """
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
        raise NotConvergedError(f"fitting the weights did not converge: {found.message}. Judge more queries")
    return np.asarray(found.x[:-1] / scale, dtype=np.float64)
