"""Fit a pipeline's minimum agreement between sources, and its confidence model, to calibration queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from phasegraph.acceptance.confidence import ConfidenceEvidence, ConfidenceModel, fit_bar, fit_probability
from phasegraph.candidates import apply_caps
from phasegraph.errors import InsufficientDataError, warn
from phasegraph.fusion.agreement import agreement
from phasegraph.fusion.context import Context
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.lexical import HitWords
from phasegraph.ranking import Ranking

LEAST_QUERIES = 20

_LEVEL = 0.05


def fit_min_agreement(
    answers: Iterable[Sequence[Ranking]], /, pipeline: FusionPipeline
) -> dict[tuple[str, str], float]:
    """Return the 5th percentile of the agreement over calibration queries, in [0, 1], for each ordered pair of sources.

    :func:`~phasegraph.fusion.agreement.agreement` defines the agreement. The rankings are first cut to the pipeline's
    `pool_caps`. If the pipeline has `weights`, sources without a positive weight are ignored. A pair is left out if
    fewer than 20 queries have answers from both sources. If two sources have no common hit in most queries, this
    function warns, because answers will not warn about this pair.

    >>> from phasegraph import FusionPipeline
    >>> lists = [[Ranking("a", ["x", "y"], [2.0, 1.0]), Ranking("b", ["x", "z"], [9.0, 8.0])]] * 20
    >>> fit_min_agreement(lists, FusionPipeline())
    {('a', 'b'): 0.5, ('b', 'a'): 0.5}
    """
    seen: dict[tuple[str, str], list[float]] = {}
    weights = pipeline.weights
    for rankings in answers:
        fused = [one for one in rankings if len(one) and (weights is None or weights.get(one.source, 0.0) > 0)]
        for pair, share in agreement(apply_caps(fused, pipeline.pool_caps, pipeline.pool_cap_mode)).items():
            seen.setdefault(pair, []).append(share)
    known = {pair: seen[pair] for pair in sorted(seen) if len(seen[pair]) >= LEAST_QUERIES}
    for first, second in known:
        if first < second and not any(np.median(known[pair]) for pair in ((first, second), (second, first))):
            warn(
                f"sources {first!r} and {second!r} agree on nothing in most of the calibration queries: check whether "
                "a source is broken or searches another collection"
            )
    return {pair: float(np.quantile(shares, _LEVEL)) for pair, shares in known.items()}


Hits: TypeAlias = Callable[[str, Sequence[Ranking]], HitWords | None]


def fit_confidence(
    answers: Iterable[tuple[str, Sequence[Ranking]]],
    /,
    pipeline: FusionPipeline,
    words: Hits | None = None,
    relevant: Mapping[str, Collection[str]] | None = None,
) -> ConfidenceModel:
    """Fit the pipeline's confidence model to calibration questions and the rankings of their sources.

    The parameters `bar` and `width` of the model are fitted if the source ``vector`` answers at least 20 questions; see
    :func:`phasegraph.acceptance.confidence.fit_bar`. The fit of a probability needs at least 20 judged questions with a
    confidence. `relevant` gives the ids of the relevant passages by question; they are empty if the corpus has no
    answer. ``words(question, rankings)`` returns the output of :func:`phasegraph.lexical.read_hits`.

    Each judged question with relevant passages is used twice: once unchanged, and once with its relevant passages
    removed from the rankings. The probability therefore assumes that the corpus answers half of all questions. If the
    fit fails with 20 or more judged questions, this function warns.

    >>> lists = [(f"q{i}", [Ranking("vector", ["x"], [0.5 + i / 100])]) for i in range(21)]
    >>> fit_confidence(lists, FusionPipeline()).bar
    0.51
    """
    plain = replace(
        pipeline, accept=None, strict=False, priors=(), consensus_bonus=0.0,
        confidence=replace(pipeline.confidence, slope=None, intercept=None),
    )  # fmt: skip

    def judged(question: str, rankings: Sequence[Ranking]) -> ConfidenceEvidence:
        said = None if words is None else words(question, rankings)
        return plain.shortlist(rankings, Context(query=question, words=said)).confidence

    listed = list(answers)
    found = [plain.shortlist(rankings, Context(query=question)).confidence.top for question, rankings in listed]
    model = fit_bar(plain.confidence, [top for top in found if top is not None])
    if words is None or not relevant:
        return model
    plain = replace(plain, confidence=model)
    good, poor = [], []
    for question, rankings in listed:
        if question in relevant:
            gold = frozenset(relevant[question])
            if gold:
                good.append(judged(question, rankings))
            poor.append(judged(question, [ranking.without(gold) for ranking in rankings]))
    try:
        return fit_probability(model, good, poor)
    except InsufficientDataError as error:
        if len([one for one in good if one.value is not None]) >= LEAST_QUERIES:  # with fewer, no fit is expected
            warn(f"the confidence is not calibrated as a probability: {error}")
        return model
