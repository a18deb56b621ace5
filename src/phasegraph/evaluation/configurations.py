"""The configurations of a pipeline that ``tune`` tries, in a fixed order, with the default first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from phasegraph.calibration import ListCalibrator
from phasegraph.evaluation.calibrated_pipeline import calibrated_pipeline
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.learned_weights import fit_weights
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.fusion.weighting import WEIGHTINGS
from phasegraph.ranking import Ranking

Rankings: TypeAlias = Mapping[str, Sequence[Ranking]]
Fit: TypeAlias = Callable[[Rankings, Sequence[Judgement]], FusionPipeline]
SHARES = (0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9)
CAPS = (20, 30)
FACTORS = (0.25, 0.5, 1.0)
CONSTANTS = (10.0, 60.0)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration to try, with its name; ``fit(rankings, judgements)`` returns its pipeline.

    `fitted` is True if the pipeline depends on these rankings and judgements.
    """

    name: str
    fit: Fit
    fitted: bool = False


def candidates(sources: Sequence[str], *, sizes: Mapping[str, int] | None = None) -> tuple[Candidate, ...]:
    """Return all configurations for these sources in a fixed order, with the default first.

    `sizes` gives the number of items in each source, as for :func:`calibrated_pipeline`. If configurations score
    equally, :func:`tune` chooses the first.

    >>> candidates(["vector", "graph"])[0].name
    'default'
    """
    names = sorted(sources)
    grid = [("equal", dict.fromkeys(names, 1.0)), *_weightings(names)]
    found = [_fixed("default", FusionPipeline())]
    found += [
        _fixed(f"background, {name} weighting", FusionPipeline(weighting=name))
        for name in sorted(WEIGHTINGS)
        if name != FusionPipeline().weighting
    ]
    for label, weights in grid:
        found += _of_weights(label, weights, names)
    found += _learned(names, grid, sizes)
    return tuple(found)


def _fixed(name: str, pipeline: FusionPipeline) -> Candidate:
    return Candidate(name, lambda rankings, judgements: pipeline)


def _weightings(names: Sequence[str]) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield pairs: a label, and a mapping of sources to weights with the sum 1.

    One source has a share from `SHARES`, and all other sources have equal weights.
    """
    if len(names) < 2:
        return
    for name in names[:1] if len(names) == 2 else names:
        for share in SHARES:
            rest = (1.0 - share) / (len(names) - 1)
            weights = {other: share if other == name else rest for other in names}
            if abs(share - 1.0 / len(names)) > 1e-9:
                yield f"{name} {share:g}", weights


def _of_weights(label: str, weights: Mapping[str, float], names: Sequence[str]) -> Iterator[Candidate]:
    for constant in CONSTANTS:
        pipeline = FusionPipeline.reciprocal_rank(weights, rank_constant=constant)
        yield _fixed(f"rrf {constant:g}, {label}", pipeline)
    for scale in ("min_max", "z_score"):
        pipeline = FusionPipeline(calibrator=ListCalibrator(scale), weights=weights)
        yield _fixed(f"linear over {scale}, {label}", pipeline)
    yield _fixed(f"linear over background, {label}", FusionPipeline(weights=weights))
    percentile = ListCalibrator("percentile")
    for cap in (None, *CAPS) if "graph" in names else (None,):
        caps = {} if cap is None else {"graph": cap}
        for factor in FACTORS:
            options = {"temperature_factor": factor}
            pipeline = FusionPipeline(
                calibrator=percentile, rule="boltzmann", rule_options=options, weights=weights, pool_caps=caps
            )
            suffix = "" if cap is None else f", graph capped at {cap}"
            yield _fixed(f"boltzmann {factor:g}, {label}{suffix}", pipeline)


def _learned(
    names: Sequence[str], grid: Sequence[tuple[str, Mapping[str, float]]], sizes: Mapping[str, int] | None
) -> Iterator[Candidate]:
    def reference(rankings: Rankings, judgements: Sequence[Judgement]) -> FusionPipeline:
        return calibrated_pipeline(rankings, sizes=sizes)

    yield Candidate("default, calibrated", reference, fitted=True)
    for label, weights in grid:

        def weighted(
            rankings: Rankings, judgements: Sequence[Judgement], weights: Mapping[str, float] = weights
        ) -> FusionPipeline:
            return replace(reference(rankings, judgements), weights=weights)

        yield Candidate(f"linear over reference, {label}", weighted, fitted=True)

    def learned(rankings: Rankings, judgements: Sequence[Judgement]) -> FusionPipeline:
        base = FusionPipeline()
        return replace(base, weights=fit_weights(base, rankings, judgements))

    def learned_reference(rankings: Rankings, judgements: Sequence[Judgement]) -> FusionPipeline:
        base = reference(rankings, judgements)
        return replace(base, weights=fit_weights(base, rankings, judgements))

    if len(names) > 1:
        yield Candidate("learned weights over background", learned, fitted=True)
        yield Candidate("learned weights over reference", learned_reference, fitted=True)
