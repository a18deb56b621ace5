"""What changes the fused values beside the sources: exact matches, consensus, priors, a reranker.

Deciding runs them in this order and knows none of them by name. To add one, write a class here, and name it in
:func:`adjustments_of`.
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
"""Names of rankings that adjustments add to those of the sources."""


@dataclass(slots=True, eq=False)
class Adjusted:
    """The fused values of the n candidates of one query, and what the adjustments have made of them so far.

    Parameters
    ----------
    candidates : Candidates
        Adjustments may add their own ranking as a last column.
    calibrated : sequence of Calibrated
        Of the rankings that the rule fused.
    values : (n, m) array of float
        Calibrated values of those rankings.
    fused : (n,) array of float
        The values of the rule.
    context : Context
    readings : tuple of FieldReading
        How many candidates held each field that was read.
    bonuses, factors : (n,) array of float, optional
        Added to, and multiplied with, the fused values.
    extras : dict of str to callable
        Entries of ``Result.extras`` by name, each made from the rows of the answer.
    relevance : tuple of (n,) array and str, optional
        Relevance for a selection in place of the fused values, and its name.
    opinion : (n,) array of float, optional
        Values of the ranking in the last column of `candidates`, on the scale of the fused values.
    opinion_share : float
        Share of the opinion in the total, in [0, 1].
    blended : (n,) array of float, optional
        Fused values, bonuses and opinion in one.
    warnings : tuple of str
        What the caller should know.
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
    warnings: tuple[str, ...] = ()

    @property
    def total(self) -> FloatArray:
        """(n,) fused values with bonuses and opinion, without factors."""
        if self.blended is not None:
            return self.blended
        return self.fused if self.bonuses is None else self.fused + self.bonuses

    def add(self, bonuses: FloatArray) -> None:
        """Add to the fused values."""
        self.bonuses = bonuses if self.bonuses is None else self.bonuses + bonuses

    def multiply(self, factors: FloatArray) -> None:
        """Multiply the fused values."""
        self.factors = factors if self.factors is None else self.factors * factors

    def blend(self, opinion: FloatArray, share: float) -> None:
        """Blend an opinion with the fused values and the bonuses."""
        own = 1.0 - share
        self.blended = own * self.total + share * opinion
        self.opinion, self.opinion_share = opinion, share
        if self.bonuses is not None:
            self.bonuses = own * self.bonuses

    def lift(self, more: FloatArray) -> None:
        """Add to the total, after all other adjustments."""
        self.add(more)
        if self.blended is not None:
            self.blended = self.blended + more

    def with_opinion(
        self, weights: FloatArray, contributed: FloatArray, calibrated: FloatArray, rows: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights, contributions and calibrated values of the answer, with a column for an opinion."""
        if self.opinion is None:
            return weights, contributed, calibrated
        share, said = self.opinion_share, self.opinion[rows]
        return (
            np.append((1.0 - share) * weights, share),
            np.column_stack([(1.0 - share) * contributed, share * said]),
            np.column_stack([calibrated, said]),
        )


class Adjustment:
    """A change of the fused values. This class changes nothing; each kind of adjustment overrides its own step.

    `source` names the ranking that it adds to those of the sources, if it adds any. `can_be_judged` says whether an
    acceptance threshold may name that ranking.
    """

    source = ""
    can_be_judged = False
    weight = 0.0

    def given(self) -> Ranking | None:
        """Its own ranking, where a result is replayed and the rule fuses that ranking with the others."""
        return None

    def rank(self, rankings: Sequence[Ranking], context: Context) -> tuple[Ranking, FieldReading] | None:
        """Rank the candidates of the sources, where the rule fuses that ranking with the others."""
        return None

    def scale(self, candidates: Candidates, own: Calibrated, calibrator: Calibrator) -> Calibrated:
        """Calibrate its own ranking, now that the candidates are known; `own` is as for any source."""
        return own

    def adjust(self, adjusted: Adjusted) -> None:
        """Change the fused values."""


class ExactMatches(Adjustment):
    """Fuse exact matches as one more source."""

    source = EXACT_MATCH

    def __init__(self, bonus: ExactMatchBonus, given: Ranking | None) -> None:
        self._bonus, self._given = bonus, given
        self.weight = bonus.weight

    def given(self) -> Ranking | None:
        """The exact matches of a result that is replayed."""
        return self._given

    def rank(self, rankings: Sequence[Ranking], context: Context) -> tuple[Ranking, FieldReading] | None:
        """The candidates that hold a term of the query, and how many had a text."""
        if not rankings or any(ranking.source == EXACT_MATCH for ranking in rankings):
            return None
        return self._bonus.ranking(pool(rankings).ids, context)

    def scale(self, candidates: Candidates, own: Calibrated, calibrator: Calibrator) -> Calibrated:
        """Put the terms of every candidate on the scale of a list normalisation, which a constant list has none of.

        A candidate that is not returned holds no term, which is known, and so it is part of the list.
        """
        ranking = candidates.rankings[candidates.sources.index(EXACT_MATCH)]
        others = len(candidates) - len(ranking)
        if not isinstance(calibrator, ListCalibrator) or calibrator.bounded or not others:
            return own
        counts = np.concatenate([ranking.scores, np.zeros(others)])
        whole = calibrator(Ranking(EXACT_MATCH, [f"{row:09}" for row in range(len(counts))], counts))
        return replace(own, values=whole.values[: len(ranking)], missing=float(whole.values[-1]))


class Consensus(Adjustment):
    """Add a bonus to the candidates that at least two sources returned."""

    def __init__(self, bonus: float, bounded: bool) -> None:
        self._bonus, self._bounded = bonus, bounded

    def adjust(self, adjusted: Adjusted) -> None:
        """Add the bonus; a warning says where it outweighs every fused value."""
        own = adjusted.candidates.without(RESERVED)
        if len(own.sources) < 2:
            return
        top = float(np.abs(adjusted.fused).max())
        size = self._bonus * top if self._bounded else self._bonus
        if size > top:
            warn(
                f"consensus_bonus {size:g} exceeds the largest fused value {top:g}: every candidate that two "
                "sources returned comes before every other",
                stacklevel=6,
            )
        adjusted.add(np.where(own.returned >= 2, size, 0.0))


class PriorAdjustment(Adjustment):
    """Multiply the fused values with a prior, or add it."""

    def __init__(self, prior: Any) -> None:
        self._prior = prior

    def adjust(self, adjusted: Adjusted) -> None:
        """Apply the prior."""
        prior, ids, context = self._prior, adjusted.candidates.ids, adjusted.context
        if isinstance(prior, SuperpositionPrior):
            state, read = prior.state(ids, context)
            values = prior.multipliers(state)
            adjusted.extras["superposition"] = state.of
            adjusted.relevance = state.relevance, "superposition"
        elif hasattr(prior, "weigh"):
            values, read = prior.weigh(ids, context)
        else:
            values, read = prior(ids, context), ()
        adjusted.readings += read
        (adjusted.add if prior.additive else adjusted.multiply)(values)


class Reranking(Adjustment):
    """Blend the ranking of a reranker, on the scale of the fused values, with these."""

    source = RERANK
    can_be_judged = True

    def __init__(self, ranking: Ranking, calibrator: Calibrator | None) -> None:
        self._ranking, self._calibrator = ranking, calibrator

    def adjust(self, adjusted: Adjusted) -> None:
        """Blend the reranker's opinion with the fused values; nothing if it judged no candidate."""
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
        """(n,) values of all candidates on the scale of the `fused` values.

        Without a calibrator of its own its scores take mean and deviation of the fused values of what it judged, which
        its list is no tail of a collection for. Of equal scores the fused value decides; what it did not judge stands
        below, in the fused order.
        """
        scores, own = known.scores, fused[rows]
        values: FloatArray | None = None
        if self._calibrator is not None:
            with suppress(InvalidInputError):  # scores that it cannot take are read by their own list
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
    """`values`, each below the one before where its key is another, if only by one bit."""
    out = values.copy()
    for row in range(1, len(out)):
        bound = out[row - 1] if keys[row] == keys[row - 1] else np.nextafter(out[row - 1], -np.inf)
        out[row] = min(out[row], bound)
    return out


def adjustments_of(pipeline: FusionSettings, reserved: Sequence[Ranking]) -> tuple[Adjustment, ...]:
    """The adjustments of one query, in their order; `reserved` are the given rankings under names of adjustments."""
    if not (reserved or pipeline.priors or pipeline.consensus_bonus > 0):
        return ()
    given = {ranking.source: ranking for ranking in reserved}
    found: list[Adjustment] = []
    if pipeline.consensus_bonus > 0:
        found.append(Consensus(pipeline.consensus_bonus, pipeline.consensus_bounded))
    for prior in pipeline.priors:
        if not isinstance(prior, ExactMatchBonus):
            found.append(PriorAdjustment(prior))
        elif prior.weight > 0:
            found.append(ExactMatches(prior, given.get(EXACT_MATCH)))
    if RERANK in given and given[RERANK].ids:
        found.append(Reranking(given[RERANK], pipeline.calibrators.get(RERANK)))
    unclaimed = given.keys() - {RERANK} - {one.source for one in found}
    if unclaimed:  # of a result that is replayed
        raise InvalidInputError(f"a ranking named {EXACT_MATCH!r} is ExactMatchBonus's, which is no prior here")
    return tuple(found)
