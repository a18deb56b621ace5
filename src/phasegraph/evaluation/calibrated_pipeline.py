"""Fit a pipeline to queries without labels: its calibrators, its ``min_agreement`` and its confidence model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from phasegraph.errors import InsufficientDataError, InvalidInputError
from phasegraph.fusion.fitting import fit_confidence, fit_min_agreement
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking
from phasegraph.retrieval.fitting import fit_calibrators

MINIMUM_QUERIES = 20


def calibrated_pipeline(
    rankings: Mapping[str, Sequence[Ranking]], *, sizes: Mapping[str, int] | None = None
) -> FusionPipeline:
    """Return the default pipeline with a fitted reference calibrator for every source that states no background.

    `rankings` are, by source, the answers to the same unlabeled queries. `sizes` gives the number of items in each
    source; default: the size that the rankings of the source state, else 1,000,000. The `min_agreement` and the
    confidence model are also fitted to these queries. Raise InsufficientDataError if a source answered fewer than 20
    queries, or always with the same score.

    >>> lists = [Ranking("v", ["a", "b"], [0.5 + i / 100, 0.4]) for i in range(20)]
    >>> sorted(calibrated_pipeline({"v": lists}, sizes={"v": 1000}).calibrators)
    ['v']
    """
    if not rankings:
        raise InvalidInputError("rankings must contain at least one source; got an empty mapping")
    for name in sorted(rankings):
        answered = sum(1 for ranking in rankings[name] if len(ranking))
        if answered < MINIMUM_QUERIES:
            raise InsufficientDataError(
                f"calibrating source {name!r} needs at least {MINIMUM_QUERIES} queries with hits; got {answered}"
            )
    base = FusionPipeline()
    calibrators = fit_calibrators([one for name in sorted(rankings) for one in rankings[name]], sizes)
    answers = list(zip(*(rankings[name] for name in sorted(rankings)), strict=False))
    judged = fit_confidence([("", lists) for lists in answers], base)
    return replace(base, calibrators=calibrators, min_agreement=fit_min_agreement(answers, base), confidence=judged)
