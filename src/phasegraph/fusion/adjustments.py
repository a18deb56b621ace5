"""Adjustments of the fused values: exact matches, the consensus bonus, priors and a reranker.

:mod:`phasegraph.fusion.decide` runs all adjustments through the interface :class:`Adjustment`. To add an adjustment,
write a class here and create it in :func:`adjustments_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from phasegraph._support.numbers import all_true
from phasegraph._support.typing import FloatArray, IntArray
from phasegraph._support.validation import check_range
from phasegraph.calibration import Calibrated, Calibrator, ListCalibrator
from phasegraph.candidates import Candidates, pool
from phasegraph.errors import InvalidInputError, warn
from phasegraph.fusion.context import Context
from phasegraph.fusion.exact_match import EXACT_MATCH, ExactMatchBonus
from phasegraph.fusion.fields import FieldReading
from phasegraph.fusion.settings import FusionSettings
from phasegraph.fusion.superposition import SuperpositionPrior
from phasegraph.ranking import RERANK, Ranking

RESERVED = frozenset({EXACT_MATCH, RERANK})
"""The names of rankings that adjustments create; no source may use these names."""


@dataclass(slots=True, eq=False)
class Adjusted:
    """The fused values of the n candidates of one query, with the adjustments so far.

    Parameters
    ----------
    candidates : Candidates
        The candidates. The reranker's ranking, if there is one, is the last source.
    calibrated : sequence of Calibrated
        The calibrated values of the m rankings that the rule fused.
    values : (n, m) array of float
        The calibrated values of these rankings by candidate.
    fused : (n,) array of float
        The output of the fusion rule.
    context : Context
        The additional data about the query and the candidates.
    readings : tuple of FieldReading
        The counts of candidates for each field that a prior read.
    bonuses, factors : (n,) array of float, optional
        The bonuses are added to the fused values; the factors are multiplied with them.
    extras : dict of str to callable
        Functions by name in ``Result.extras``; each makes its entry from the rows of the results.
    relevance : tuple of (n,) array and str, optional
        Relevances that a selection uses instead of the fused values, and the name of their origin.
    opinion : (n,) array of float, optional
        The reranker's values for all candidates, on the scale of the fused values.
    opinion_share : float
        Weight of the reranker's values in the total, in [0, 1].
    blended : (n,) array of float, optional
        The total of fused values, bonuses and the reranker's values.
    group_warning : str
        A warning if passages are grouped by a metadata key that no candidate has; else empty.
    """

    candidates: Candidates
    calibrated: Sequence[Calibrated]
    values: FloatArray
    fused: FloatArray
    context: Context
    readings: tuple[FieldReading, ...] = ()
    bonuses: FloatArray | None = None
    factors: FloatArray | None = None
    extras: dict[str, Callable[[IntArray], object]] = field(default_factory=dict)
    relevance: tuple[FloatArray, str] | None = None
    opinion: FloatArray | None = None
    opinion_share: float = 0.0
    blended: FloatArray | None = None
    group_warning: str = ""

    @property
    def total(self) -> FloatArray:
        """The (n,) fused values with bonuses and the reranker's values, but without factors."""
        if self.blended is not None:
            return self.blended
        return self.fused if self.bonuses is None else self.fused + self.bonuses

    @property
    def final(self) -> FloatArray:
        """The (n,) fused values with all adjustments: each total >= 0 times its factor, each total < 0 divided by it.

        A factor below 1 therefore never raises a value. A factor below 1e-9 counts as 1e-9.
        """
        total = self.total
        if self.factors is None:
            return total
        floor = np.maximum(self.factors, 1e-9)
        return np.where(total >= 0, total * floor, total / floor)

    def total_of(self, final: FloatArray) -> FloatArray:
        """Return the total to which the values `final` belong: the inverse of :attr:`final`."""
        if self.factors is None:
            return final
        floor = np.maximum(self.factors, 1e-9)
        return np.where(final >= 0, final / floor, final * floor)

    def add(self, bonuses: FloatArray) -> None:
        """Add a bonus per candidate to the fused values."""
        self.bonuses = bonuses if self.bonuses is None else self.bonuses + bonuses

    def multiply(self, factors: FloatArray) -> None:
        """Multiply the fused values by a factor per candidate."""
        self.factors = factors if self.factors is None else self.factors * factors

    def blend(self, opinion: FloatArray, share: float) -> None:
        """Replace the total by ``(1 - share) * total + share * opinion``; `opinion` are the reranker's values."""
        own = 1.0 - share
        self.blended = own * self.total + share * opinion
        self.opinion, self.opinion_share = opinion, share
        if self.bonuses is not None:
            self.bonuses = own * self.bonuses

    def lift(self, more: FloatArray) -> None:
        """Add a bonus per candidate to the total, after all other adjustments."""
        self.add(more)
        if self.blended is not None:
            self.blended = self.blended + more

    def with_opinion(
        self, weights: FloatArray, contributed: FloatArray, calibrated: FloatArray, rows: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Extend weights, contributions and calibrated values by the reranker, and return the three arrays.

        `rows` are the rows of the results. Without a reranker, the arrays are returned unchanged. Otherwise, each array
        gets a last column for the reranker. The weights and contributions of the sources are multiplied by 1 minus the
        reranker's weight.
        """
        if self.opinion is None:
            return weights, contributed, calibrated
        share, said = self.opinion_share, self.opinion[rows]
        return (
            np.append((1.0 - share) * weights, share),
            np.column_stack([(1.0 - share) * contributed, share * said]),
            np.column_stack([calibrated, said]),
        )


class Adjustment:
    """The base class of all changes of the fused values; a subclass overrides the steps that it needs.

    If the adjustment adds a ranking to the sources' rankings, `source` is the name of this ranking. `can_be_judged`
    says whether an acceptance threshold may apply to the ranking.
    """

    source = ""
    can_be_judged = False
    weight = 0.0

    def given(self) -> Ranking | None:
        """Return the adjustment's ranking if the rankings of an earlier result are fused again; otherwise None."""
        return None

    def rank(self, rankings: Sequence[Ranking], context: Context) -> tuple[Ranking, FieldReading] | None:
        """Return the adjustment's own ranking of the candidates, and the counts of candidates with the field it reads.

        The ranking is fused like the ranking of a source. Return None if the adjustment has no ranking.
        """
        return None

    def scale(self, candidates: Candidates, own: Calibrated, calibrator: Calibrator) -> Calibrated:
        """Return the calibrated values of the adjustment's ranking.

        `own` are the values that `calibrator` computed from the ranking alone. A subclass may change them.
        """
        return own

    def adjust(self, adjusted: Adjusted) -> None:
        """Change the fused values in `adjusted`."""


class ExactMatches(Adjustment):
    """An adjustment that fuses exact matches (:class:`ExactMatchBonus`) as one more source.

    `given` is the ranking of exact matches of an earlier result whose rankings are fused again; otherwise None.
    """

    source = EXACT_MATCH

    def __init__(self, bonus: ExactMatchBonus, given: Ranking | None) -> None:
        self._bonus, self._given = bonus, given
        self.weight = bonus.weight

    def given(self) -> Ranking | None:
        """Return the ranking of exact matches if the rankings of an earlier result are fused again; otherwise None."""
        return self._given

    def rank(self, rankings: Sequence[Ranking], context: Context) -> tuple[Ranking, FieldReading] | None:
        """Return the ranking of the candidates that contain a query term, and the counts of candidates with a text.

        Return None if there are no rankings, or the sources already include a ranking of exact matches.
        """
        if not rankings or any(ranking.source == EXACT_MATCH for ranking in rankings):
            return None
        return self._bonus.ranking(pool(rankings).ids, context)

    def scale(self, candidates: Candidates, own: Calibrated, calibrator: Calibrator) -> Calibrated:
        """Calibrate the number of matching terms over all candidates, not only over candidates that contain a term.

        A candidate that contains no term counts as 0. With these zeros, a normalization such as the z-score has a scale
        even if all other candidates match equally many terms. If `calibrator` is not a list normalization, or if its
        values are in [0, 1], the result is `own`, the calibrated values of the ranking alone.
        """
        ranking = candidates.rankings[candidates.sources.index(EXACT_MATCH)]
        others = len(candidates) - len(ranking)
        if not isinstance(calibrator, ListCalibrator) or calibrator.bounded or not others:
            return own
        counts = np.concatenate([ranking.scores, np.zeros(others)])
        whole = calibrator(Ranking(EXACT_MATCH, [f"{row:09}" for row in range(len(counts))], counts))
        return replace(own, values=whole.values[: len(ranking)], missing=float(whole.values[-1]))


class Consensus(Adjustment):
    """An adjustment that adds a bonus to each candidate that at least two sources returned.

    With `bounded`, `bonus` is a multiple of the largest fused value; otherwise, it has the unit of the fused values.
    """

    def __init__(self, bonus: float, bounded: bool) -> None:
        self._bonus, self._bounded = bonus, bounded

    def adjust(self, adjusted: Adjusted) -> None:
        """Add the bonus; warn if the bonus is larger than every fused value."""
        own = adjusted.candidates.without(RESERVED)
        if len(own.sources) < 2:
            return
        top = float(np.abs(adjusted.fused).max())
        size = self._bonus * top if self._bounded else self._bonus
        if size > top:
            warn(
                f"consensus_bonus {size:g} exceeds the largest fused value {top:g}, so every candidate that two "
                "sources returned ranks before all other candidates; choose a smaller bonus"
            )
        adjusted.add(np.where(own.returned >= 2, size, 0.0))


class PriorAdjustment(Adjustment):
    """An adjustment by a prior, whose values are multiplied with the fused values or, if additive, added to them."""

    def __init__(self, prior: Any) -> None:
        self._prior = prior

    def adjust(self, adjusted: Adjusted) -> None:
        """Multiply the fused values by the values of the prior or, for an additive prior, add these values."""
        prior, ids, context = self._prior, adjusted.candidates.ids, adjusted.context
        values, read = prior.weigh(ids, context) if hasattr(prior, "weigh") else (prior(ids, context), ())
        adjusted.readings += read
        (adjusted.add if prior.additive else adjusted.multiply)(values)


class SuperpositionAdjustment(Adjustment):
    """An adjustment by a :class:`SuperpositionPrior`, whose relevance a selection may use instead of fused values."""

    def __init__(self, prior: SuperpositionPrior) -> None:
        self._prior = prior

    def adjust(self, adjusted: Adjusted) -> None:
        """Multiply the fused values by the values of the prior; add its superposition to the extras of the result."""
        state, read = self._prior.state(adjusted.candidates.ids, adjusted.context)
        adjusted.readings += read
        adjusted.extras["superposition"] = state.of
        adjusted.relevance = state.relevance, "superposition"
        adjusted.multiply(self._prior.multipliers(state))


class Reranking(Adjustment):
    """An adjustment that takes the weighted mean of the fused values and a reranker's scores.

    `ranking` contains these scores. If `calibrator` is None, they get the mean and standard deviation of the fused
    values.
    """

    source = RERANK
    can_be_judged = True

    def __init__(self, ranking: Ranking, calibrator: Calibrator | None) -> None:
        self._ranking, self._calibrator = ranking, calibrator

    def adjust(self, adjusted: Adjusted) -> None:
        """Blend the reranker's scores with the fused values; do nothing if the reranker scored no candidate."""
        total, candidates = adjusted.total, adjusted.candidates
        row_of = {identifier: row for row, identifier in enumerate(candidates.ids)}
        known = self._ranking.without([one for one in self._ranking.ids if one not in row_of])
        if not len(known):
            return
        rows = np.array([row_of[one] for one in known.ids], dtype=np.intp)
        adjusted.candidates = Candidates(
            candidates.ids, (*candidates.sources, RERANK), (*candidates.rankings, known), (*candidates.positions, rows)
        )
        share = check_range("Context.blend", adjusted.context.blend, 0.0, 1.0)
        adjusted.blend(self._opinion(known, rows, total), share)

    def _opinion(self, known: Ranking, rows: Any, fused: FloatArray) -> FloatArray:
        """Return the reranker's scores of all candidates, converted to the scale of the `fused` values; shape (n,).

        Without a calibrator for the reranker, its scores get the mean and standard deviation of the fused values of the
        same candidates. Among equal scores, the fused value decides. Candidates without a score rank below all scored
        candidates, in the fused order. `known` is the reranker's ranking, and `rows` are the rows of its candidates.
        """
        scores, own = known.scores, fused[rows]
        values: FloatArray | None = None
        if self._calibrator is not None:
            with suppress(InvalidInputError):  # if the calibrator rejects the scores, use the mean and deviation below
                values = self._calibrator(known).values
        if values is None or not all_true(np.isfinite(values)):
            small = scores / (float(np.abs(scores).max()) or 1.0)
            spread = float(small.std())
            steps = (small - small.mean()) / spread if spread > 0 else np.zeros(len(small))
            values = own.mean() + (float(own.std()) or 1.0) * steps
        order = np.lexsort((-own, -scores))
        out = np.empty(len(fused))
        out[rows[order]] = _falling(values[order], list(zip(scores[order].tolist(), own[order].tolist(), strict=True)))
        rest = np.setdiff1d(np.arange(len(fused)), rows)
        if len(rest):
            rest = rest[np.argsort(-fused[rest], kind="stable")]
            below = np.nextafter(out[rows].min(), -np.inf) - (fused[rest[0]] - fused[rest])
            out[rest] = _falling(below, fused[rest].tolist())
        return out


def _falling(values: FloatArray, keys: Sequence[object]) -> FloatArray:
    """Lower `values` as little as necessary, so that no value is above the previous value.

    If the entries of `keys` for a value and the previous value differ, the value becomes less than the previous value.
    """
    out = values.copy()
    for row in range(1, len(out)):
        bound = out[row - 1] if keys[row] == keys[row - 1] else np.nextafter(out[row - 1], -np.inf)
        out[row] = min(out[row], bound)
    return out


def adjustments_of(pipeline: FusionSettings, reserved: Sequence[Ranking]) -> tuple[Adjustment, ...]:
    """Return the adjustments of one query in the order of their use.

    `reserved` are the rankings with names in :data:`RESERVED`, from a reranker or an earlier result.
    """
    if not (reserved or pipeline.priors or pipeline.consensus_bonus > 0):
        return ()
    given = {ranking.source: ranking for ranking in reserved}
    found: list[Adjustment] = []
    if pipeline.consensus_bonus > 0:
        found.append(Consensus(pipeline.consensus_bonus, pipeline.consensus_bounded))
    for prior in pipeline.priors:
        if isinstance(prior, SuperpositionPrior):
            found.append(SuperpositionAdjustment(prior))
        elif not isinstance(prior, ExactMatchBonus):
            found.append(PriorAdjustment(prior))
        elif prior.weight > 0:
            found.append(ExactMatches(prior, given.get(EXACT_MATCH)))
    if RERANK in given and given[RERANK].ids:
        found.append(Reranking(given[RERANK], pipeline.calibrators.get(RERANK)))
    unclaimed = given.keys() - {RERANK} - {one.source for one in found}
    if unclaimed:  # the rankings come from an earlier result of another pipeline
        raise InvalidInputError(
            f"the ranking {EXACT_MATCH!r} needs an ExactMatchBonus among the pipeline's priors; it has none"
        )
    return tuple(found)
