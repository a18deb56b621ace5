"""Fit the confidence of a pipeline on one part of the judged queries, and score it on the other part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from phasegraph.acceptance.confidence import ConfidenceModel
from phasegraph.evaluation.abstention import abstain_auc, calibration_errors
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.splits import split_by_id
from phasegraph.fusion.context import Context
from phasegraph.fusion.fitting import fit_confidence
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.lexical import HitWords
from phasegraph.ranking import Ranking


@dataclass(frozen=True, slots=True)
class ConfidenceTuning:
    """The confidence model fitted to judged queries, and its figures on other judged queries.

    `model` is fitted on the tuning part. It gives no probability if a probability could not be fitted. `queries` is the
    number of judged queries of the other part that have a confidence. `auc`, in [0, 1], is the probability that a query
    with its relevant passages has a higher confidence than a query without them. `ece` (over 10 bins of equal size) and
    `brier` are errors of the probabilities; None without a probability.
    """

    model: ConfidenceModel = field(repr=False)
    queries: int
    auc: float
    ece: float | None
    brier: float | None


def tune_confidence(
    pipeline: FusionPipeline,
    rankings: Mapping[str, Sequence[Ranking]],
    judgements: Sequence[Judgement],
    texts: Sequence[str],
    words: Callable[[str, Sequence[Ranking]], HitWords],
    *,
    confirmation: Sequence[int] | None = None,
) -> ConfidenceTuning | None:
    """Fit a pipeline's confidence on one part of the judged queries, and score it on the other part.

    ``words(query, rankings)`` returns the result of :func:`phasegraph.lexical.read_hits`. `confirmation` contains the
    positions of the queries to score; the confidence model is fitted to all other queries. By default, about half of
    the queries are scored, chosen by the MD5 of their ids. Each query is used twice: with its rankings, and with its
    relevant passages removed from the rankings. The second case stands for a query that the corpus cannot answer.
    Return None if no scored query has a confidence.
    """
    names, ids = sorted(rankings), [judgement.query for judgement in judgements]
    confirm_on = split_by_id(ids, "confirm").tolist() if confirmation is None else list(confirmation)
    fit_on = sorted(set(range(len(ids))) - set(confirm_on))
    lists = [[rankings[name][row] for name in names] for row in range(len(ids))]
    gold = {texts[row]: judgements[row].passages for row in fit_on}
    model = fit_confidence([(texts[row], lists[row]) for row in fit_on], pipeline, words, gold)
    judge = replace(pipeline, confidence=model, accept=None, strict=False)

    def confidence(row: int, found: Sequence[Ranking]) -> float | None:
        return judge.decide(found, Context(query=texts[row], words=words(texts[row], found))).confidence

    pairs = [
        (confidence(row, lists[row]), confidence(row, [one.without(judgements[row].passages) for one in lists[row]]))
        for row in confirm_on
    ]
    known = np.array([pair for pair in pairs if None not in pair], dtype=np.float64).reshape(-1, 2)
    if not len(known):
        return None
    auc = abstain_auc(known[:, 0], known[:, 1])
    if model.slope is None:
        return ConfidenceTuning(model, len(known), auc, None, None)
    errors = calibration_errors(known.T.ravel(), np.arange(known.size) < len(known))
    return ConfidenceTuning(model, len(known), auc, *errors)
