"""Calibrators from unlabelled queries: each source against the scores it gives to ordinary questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phasegraph.adapters.fitting import Fitted, fit_calibrators
from phasegraph.candidates import Ranking
from phasegraph.errors import InsufficientDataError, InvalidInputError
from phasegraph.pipeline import FusionPipeline
from phasegraph.pipeline.suspicion import fit_agreement_floor

MINIMUM_QUERIES = 20


def calibrated_pipeline(
    rankings: Mapping[str, Sequence[Ranking]],
    pipeline: FusionPipeline | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
) -> FusionPipeline:
    """A pipeline with a reference calibrator for every source that does not state its own background.

    Parameters
    ----------
    rankings : mapping of str to sequence of Ranking
        Per source its answers to the same unlabelled queries, at least 20 of which found something.
    pipeline : FusionPipeline, optional
        What to start from; default ours.
    sizes : mapping of str to int, optional
        How many items a source holds; default what its rankings state, else 1,000,000.

    Returns
    -------
    FusionPipeline
        A new value; calibrators it already had for other sources stay. Its `agreement_floor` is that of these queries.

    Raises
    ------
    InsufficientDataError
        If a source answered fewer than 20 queries, or always with the same score.
    InvalidInputError
        If there is no source.

    Examples
    --------
    >>> lists = [Ranking("v", ["a", "b"], [0.5 + i / 100, 0.4]) for i in range(20)]
    >>> sorted(calibrated_pipeline({"v": lists}, sizes={"v": 1000}).calibrators)
    ['v']
    """
    if not rankings:
        raise InvalidInputError("rankings must hold at least one source; got none")
    for name in sorted(rankings):
        answered = sum(1 for ranking in rankings[name] if len(ranking))
        if answered < MINIMUM_QUERIES:
            raise InsufficientDataError(
                f"calibrating source {name!r} needs at least {MINIMUM_QUERIES} queries that found something; "
                f"got {answered}"
            )
    base = FusionPipeline() if pipeline is None else pipeline
    fitted = fit_calibrators([one for name in sorted(rankings) for one in rankings[name]], sizes)
    answers = zip(*(rankings[name] for name in sorted(rankings)), strict=False)
    return Fitted(fitted, fit_agreement_floor(answers, base)).on(base)
