"""Labelled tuning: choose by cross-validation inside one part, confirm once on the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from phasegraph._typing import FloatArray, IntArray
from phasegraph.errors import InsufficientDataError, InvalidInputError
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.measures import Measure, score_run
from phasegraph.evaluation.parts import split_by_id
from phasegraph.evaluation.significance import paired_bootstrap, sign_flip
from phasegraph.pipeline import FusionPipeline
from phasegraph.priors import Context
from phasegraph.tuning.learned import require_orientation
from phasegraph.tuning.space import Candidate, Rankings, candidates

MINIMUM_PER_PART = 30
FOLDS = 5
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Tuning:
    """What labelled tuning found, and whether it held.

    Parameters
    ----------
    pipeline : FusionPipeline
        The one to use: the chosen one where its gain was confirmed, the default where it was not.
    chosen : FusionPipeline
        The best of the tuning part, refitted on all of it.
    default_name, chosen_name : str
    measure : str
        What was maximised.
    tried : int
        Number of configurations scored.
    unfitted : int
        Number of further configurations that could not be fitted on so few queries.
    tuning_queries, confirmation_queries : int
        Judged queries in each part, disjoint by the MD5 of their ids.
    tuning_default, tuning_chosen : float
        Means on the tuning part, in [0, 1]; the chosen one's is out of fold, and still favoured by having been
        chosen as the best of `tried`.
    confirmation_default, confirmation_chosen : float
        Means on the part never looked at.
    difference, low, high : float
        Gain there with its 95 % bootstrap interval.
    p : float
        Two-sided sign-flip p-value of that gain.
    confirmed : bool
        Whether the gain is positive and p <= .05.
    """

    pipeline: FusionPipeline = field(repr=False)
    chosen: FusionPipeline = field(repr=False)
    default_name: str
    chosen_name: str
    measure: str
    tried: int
    unfitted: int
    tuning_queries: int
    confirmation_queries: int
    tuning_default: float
    tuning_chosen: float
    confirmation_default: float
    confirmation_chosen: float
    difference: float
    low: float
    high: float
    p: float
    confirmed: bool

    @property
    def verdict(self) -> str:
        """One sentence that says what to believe."""
        gain = f"{100 * self.difference:+.1f} points of {self.measure} (p {self.p:.3g})"
        if self.chosen_name == self.default_name:
            return f"nothing of {self.tried} configurations beat the default on the tuning part; it stays"
        if self.confirmed:
            return f"confirmed: {gain} on {self.confirmation_queries} queries never looked at"
        return f"not confirmed: {gain} on {self.confirmation_queries} queries never looked at; the default stays"

    def to_dict(self) -> dict[str, object]:
        """JSON-ready report, pipelines included."""
        state: dict[str, object] = {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("pipeline", "chosen")
        }
        return state | {
            "verdict": self.verdict,
            "pipeline": self.pipeline.to_dict(),
            "chosen": self.chosen.to_dict(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    rankings: Rankings
    judgements: tuple[Judgement, ...]
    texts: tuple[str, ...]

    def rows(self, rows: IntArray) -> _Part:
        wanted = rows.tolist()
        return _Part(
            {name: [lists[row] for row in wanted] for name, lists in self.rankings.items()},
            tuple(self.judgements[row] for row in wanted),
            tuple(self.texts[row] for row in wanted),
        )

    def scores(self, pipeline: FusionPipeline, measure: Measure) -> FloatArray:
        names = sorted(self.rankings)
        found = {
            judgement.query: pipeline.decide(
                [self.rankings[name][row] for name in names], Context(query=text), k=measure.k
            ).ids
            for row, (judgement, text) in enumerate(zip(self.judgements, self.texts, strict=True))
        }
        return score_run(found, self.judgements, measure)


def tune(
    rankings: Rankings,
    judgements: Sequence[Judgement],
    texts: Sequence[str],
    *,
    measure: Measure | None = None,
    space: Sequence[Candidate] | None = None,
    sizes: Mapping[str, int] | None = None,
    progress: Callable[[Sequence[Candidate], str], Iterable[Candidate]] | None = None,
    rng: int = 0,
) -> Tuning:
    """Tune a pipeline on judged queries, and say whether the gain is real.

    Parameters
    ----------
    rankings : mapping of str to sequence of Ranking
        Per source its answers, one per judged query.
    judgements : sequence of Judgement
        Ids differ. About half of them (by MD5 of the id) are kept for the confirmation.
    texts : sequence of str
        The queries' texts.
    measure : Measure, optional
        What to maximise; default Recall@5.
    space : sequence of Candidate, optional
        What to try; the first is the default that all are compared with, and needs no fitting. Default
        :func:`candidates`.
    sizes : mapping of str to int, optional
        How many items a source holds.
    progress : callable, optional
        Wraps the candidates to show how far it is.
    rng : int, default 0
        Seed of the folds and the bootstrap.

    Returns
    -------
    Tuning

    Raises
    ------
    InsufficientDataError
        If a part has fewer than 30 queries that the measure scores; the message says how many are needed.
    InvalidInputError
        If lengths differ, an id repeats, or `space` is empty or begins with one that must be fitted; if a source's
        scores fall where relevance rises on the tuning part.

    Notes
    -----
    Every configuration is scored on the tuning part, those with fitted numbers out of fold (five folds: fitted on
    four, scored on the fifth). The best is refitted on the whole tuning part and meets the other part once.
    """
    goal = Measure("Recall", 5) if measure is None else measure
    _check(rankings, judgements, texts)
    whole = _Part(rankings, tuple(judgements), tuple(texts))
    ids = [judgement.query for judgement in judgements]
    tuning, confirmation = (whole.rows(_scored(whole, split_by_id(ids, part), goal)) for part in ("tune", "confirm"))
    for name, part in (("tuning", tuning), ("confirmation", confirmation)):
        if len(part.judgements) < MINIMUM_PER_PART:
            raise InsufficientDataError(
                f"tuning needs at least {MINIMUM_PER_PART} judged queries in each part (about "
                f"{2 * MINIMUM_PER_PART} in all); the {name} part has {len(part.judgements)}"
            )
    require_orientation(tuning.rankings, tuning.judgements)
    tried = tuple(candidates(sorted(rankings), sizes=sizes) if space is None else space)
    if not tried or tried[0].fitted:
        raise InvalidInputError("space must begin with the default, a configuration that needs no fitting")
    folds = np.array_split(np.random.default_rng(rng).permutation(len(tuning.judgements)), FOLDS)
    shown = tried if progress is None else progress(tried, "configurations")
    means = np.array([_out_of_fold(one, tuning, folds, goal) for one in shown])
    best = int(np.nanargmax(means))
    counted = len(tried), int(np.isnan(means).sum())
    return _confirm((tried[0], tried[best]), tuning, confirmation, goal, float(means[best]), counted, rng)


def _check(rankings: Rankings, judgements: Sequence[Judgement], texts: Sequence[str]) -> None:
    if not rankings:
        raise InvalidInputError("rankings must hold at least one source; got none")
    for name, lists in rankings.items():
        if len(lists) != len(judgements):
            raise InvalidInputError(
                f"rankings[{name!r}] must hold one ranking per judged query ({len(judgements)}); got {len(lists)}"
            )
    if len(texts) != len(judgements):
        raise InvalidInputError(f"texts must hold one per judged query ({len(judgements)}); got {len(texts)}")
    if len({judgement.query for judgement in judgements}) != len(judgements):
        raise InvalidInputError("every judged query must stand once; an id repeats")


def _scored(whole: _Part, rows: IntArray, measure: Measure) -> IntArray:
    """The rows that the measure does not leave out."""
    keep = [row for row in rows.tolist() if measure((), whole.judgements[row]) is not None]
    return np.array(keep, dtype=np.intp)


def _out_of_fold(candidate: Candidate, part: _Part, folds: Sequence[IntArray], measure: Measure) -> float:
    """Mean of a configuration on queries it was not fitted on; NaN where it could not be fitted."""
    if not candidate.fitted:
        return float(part.scores(candidate.fit(part.rankings, part.judgements), measure).mean())
    out = np.zeros(len(part.judgements))
    for fold in folds:
        train = part.rows(np.setdiff1d(np.arange(len(out)), fold))
        try:
            pipeline = candidate.fit(train.rankings, train.judgements)
        except InsufficientDataError:
            return float("nan")
        out[fold] = part.rows(fold).scores(pipeline, measure)
    return float(out.mean())


def _confirm(
    pair: tuple[Candidate, Candidate],
    tuning: _Part,
    confirmation: _Part,
    measure: Measure,
    mean: float,
    counted: tuple[int, int],
    rng: int,
) -> Tuning:
    first, best = pair
    default = first.fit(tuning.rankings, tuning.judgements)
    chosen = best.fit(tuning.rankings, tuning.judgements)
    before, after = confirmation.scores(default, measure), confirmation.scores(chosen, measure)
    gain = paired_bootstrap(after - before, rng=rng)
    p = sign_flip(after - before, rng=rng)
    confirmed = gain.mean > 0 and p <= LEVEL
    return Tuning(
        pipeline=chosen if confirmed else default,
        chosen=chosen,
        default_name=first.name,
        chosen_name=best.name,
        measure=str(measure),
        tried=counted[0] - counted[1],
        unfitted=counted[1],
        tuning_queries=len(tuning.judgements),
        confirmation_queries=len(confirmation.judgements),
        tuning_default=float(tuning.scores(default, measure).mean()),
        tuning_chosen=mean,
        confirmation_default=float(before.mean()),
        confirmation_chosen=float(after.mean()),
        difference=gain.mean,
        low=gain.low,
        high=gain.high,
        p=p,
        confirmed=confirmed,
    )
