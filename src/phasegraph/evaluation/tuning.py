"""Choose a pipeline by judged queries: try configurations on one part of the queries, and test the best on the other.

If the other part does not confirm the gain, the result is the default pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.errors import InsufficientDataError, InvalidInputError, warn
from phasegraph.evaluation.configurations import Candidate, Rankings, candidates
from phasegraph.evaluation.judgements import Judgement, check_known
from phasegraph.evaluation.learned_weights import require_orientation
from phasegraph.evaluation.measures import Measure, values_of
from phasegraph.evaluation.significance import bootstrap_intervals, sign_flip
from phasegraph.evaluation.splits import split_by_id
from phasegraph.fusion.context import Context
from phasegraph.fusion.pipeline import FusionPipeline

MINIMUM_PER_PART = 30
FOLDS = 5
LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of tuning on judged queries, and the test of its gain on other queries.

    Parameters
    ----------
    pipeline : FusionPipeline
        The pipeline to use: `chosen` if its gain is confirmed, else the default.
    chosen : FusionPipeline
        The best configuration of the tuning part, refitted on the whole part.
    default_name, chosen_name : str
        Names of the default configuration and of the chosen configuration.
    measure : str
        The measure that was maximized.
    tried : int
        Number of configurations that were scored.
    unfitted : int
        Number of further configurations that could not be fitted, because there were too few queries.
    tuning_queries, confirmation_queries : int
        Number of judged queries in each part.
    tuning_groups, confirmation_groups : int
        Number of groups in each part, such as collections; without groups, the number of queries.
    shared_groups : int
        Number of groups in both parts; 0 unless the caller chose the confirmation rows.
    tuning_default, tuning_chosen : float
        Means of the measure for the default and for the chosen configuration on the tuning part, in [0, 1]. The second
        mean is out of fold, but biased upward, because it is the best of `tried` configurations.
    confirmation_default, confirmation_chosen : float
        Means of the measure for both configurations on the confirmation part, which is not used for tuning.
    difference, low, high : float
        Gain on the confirmation part with its 95 % bootstrap interval.
    p : float
        Two-sided sign-flip p-value of that gain. The interval and the p-value resample whole groups.
    confirmed : bool
        True if the gain is positive and p <= 0.05.
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
    tuning_groups: int
    confirmation_groups: int
    shared_groups: int
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
        """A sentence that says whether the gain over the default is confirmed, with its figures."""
        gain = f"{100 * self.difference:+.1f} points of {self.measure} (p {self.p:.3g})"
        if self.chosen_name == self.default_name:
            return f"none of {self.tried} configurations beat the default on the tuning part; the default stays"
        if self.confirmed:
            return f"confirmed: {gain} on {self.confirmation_queries} queries not used for tuning"
        return f"not confirmed: {gain} on {self.confirmation_queries} queries not used for tuning; the default stays"

    def to_dict(self) -> dict[str, object]:
        """Return the result as JSON types, including the pipelines."""
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
    texts: tuple[str | Context, ...]
    groups: tuple[str, ...]

    def rows(self, rows: Sequence[int]) -> _Part:
        return _Part(
            {name: [lists[row] for row in rows] for name, lists in self.rankings.items()},
            tuple(self.judgements[row] for row in rows),
            tuple(self.texts[row] for row in rows),
            tuple(self.groups[row] for row in rows),
        )

    def folds(self, rng: int) -> list[IntArray]:
        """Divide the queries randomly into five folds; return the rows of each fold.

        All queries of a group are in the same fold. `rng` is the seed.
        """
        places = {group: place for place, group in enumerate(dict.fromkeys(self.groups))}
        of = np.array([places[group] for group in self.groups], dtype=np.intp)
        parts = np.array_split(np.random.default_rng(rng).permutation(len(places)), FOLDS)
        return [np.flatnonzero(np.isin(of, part)) for part in parts]

    def scores(self, pipeline: FusionPipeline, measure: Measure) -> FloatArray:
        names = sorted(self.rankings)
        found = {
            judgement.query: pipeline.decide(
                [self.rankings[name][row] for name in names],
                _context(text),
                k=measure.k,
            ).ids
            for row, (judgement, text) in enumerate(zip(self.judgements, self.texts, strict=True))
        }
        return values_of(found, self.judgements, measure)


def _context(given: str | Context) -> Context:
    return given if isinstance(given, Context) else Context(query=given)


def tune(
    rankings: Rankings,
    judgements: Sequence[Judgement],
    texts: Sequence[str | Context],
    *,
    measure: Measure | None = None,
    groups: Sequence[str] | None = None,
    confirmation: Sequence[int] | IntArray | None = None,
    space: Sequence[Candidate] | None = None,
    sizes: Mapping[str, int] | None = None,
    progress: Callable[[Sequence[Candidate], str], Iterable[Candidate]] | None = None,
    rng: int = 0,
) -> Tuning:
    """Tune a pipeline on one part of the judged queries, and test the gain on the other part.

    Parameters
    ----------
    rankings : mapping of str to sequence of Ranking
        Rankings by source, one per judged query.
    judgements : sequence of Judgement
        Judgements with distinct query ids.
    texts : sequence of str or Context
        The query texts, or contexts, which may also provide the query's words in the hits.
    measure : Measure, optional
        The measure to maximize; default Recall@5.
    groups : sequence of str, optional
        The group of each query, such as its collection. All queries of a group are in the same part and fold. Default:
        each query is its own group.
    confirmation : array of int, optional
        Rows of the confirmation part, such as the rows of a split. Default: the rows of about half the groups, chosen
        by the MD5 of their names.
    space : sequence of Candidate, optional
        The configurations to try. The first is the default for the comparison, and must need no fitting. Default:
        :func:`candidates`.
    sizes : mapping of str to int, optional
        Number of items in each source.
    progress : callable, optional
        ``progress(candidates, label)`` wraps the candidates to show progress.
    rng : int, default 0
        Seed of the folds and the bootstrap.

    Returns
    -------
    Tuning
        The pipeline to use, with the figures of both parts.

    Raises
    ------
    InsufficientDataError
        If a part has fewer than 30 queries that the measure scores; the message states the required number.
    InvalidInputError
        If lengths differ, an id repeats, or a row of `confirmation` does not exist. If `space` is empty, or its first
        configuration needs fitting. If no id of the rankings is judged for any query. If a source gives relevant
        candidates lower scores than irrelevant candidates on the tuning part.

    Warns
    -----
    PhasegraphWarning
        If a group is in both parts: a confirmed gain may then come from passages already used for tuning.

    Notes
    -----
    Every configuration is scored on the tuning part. A configuration with fitted parameters is scored out of fold: it
    is fitted on four of five folds and scored on the fifth. The best configuration is refitted on the whole tuning part
    and scored once on the confirmation part.
    """
    goal = Measure("Recall", 5) if measure is None else measure
    tuning, confirming = _two_parts(_judged_part(rankings, judgements, texts, groups), confirmation, goal)
    shared = _check_parts(tuning, confirming)
    require_orientation(tuning.rankings, tuning.judgements)
    tried = _with_default_first(candidates(sorted(rankings), sizes=sizes) if space is None else space)
    folds = tuning.folds(rng)
    shown = tried if progress is None else progress(tried, "configurations")
    means = np.array([_out_of_fold(one, tuning, folds, goal) for one in shown])
    best, unfitted = int(np.nanargmax(means)), int(np.isnan(means).sum())
    default, chosen = (one.fit(tuning.rankings, tuning.judgements) for one in (tried[0], tried[best]))
    before, after = confirming.scores(default, goal), confirming.scores(chosen, goal)
    gain = float((after - before).mean())
    low, high = bootstrap_intervals((after - before)[:, None], groups=confirming.groups, rng=rng)[0].tolist()
    p = sign_flip(after - before, groups=confirming.groups, rng=rng)
    confirmed = gain > 0 and p <= LEVEL
    return Tuning(
        pipeline=chosen if confirmed else default,
        chosen=chosen,
        default_name=tried[0].name,
        chosen_name=tried[best].name,
        measure=str(goal),
        tried=len(tried) - unfitted,
        unfitted=unfitted,
        tuning_queries=len(tuning.judgements),
        confirmation_queries=len(confirming.judgements),
        tuning_groups=len(set(tuning.groups)),
        confirmation_groups=len(set(confirming.groups)),
        shared_groups=len(shared),
        tuning_default=float(tuning.scores(default, goal).mean()),
        tuning_chosen=float(means[best]),
        confirmation_default=float(before.mean()),
        confirmation_chosen=float(after.mean()),
        difference=gain,
        low=low,
        high=high,
        p=p,
        confirmed=confirmed,
    )


def _judged_part(
    rankings: Rankings, judgements: Sequence[Judgement], texts: Sequence[str | Context], groups: Sequence[str] | None
) -> _Part:
    """Return all judged queries with their rankings, texts and groups; raise InvalidInputError if these do not fit."""
    if not rankings:
        raise InvalidInputError("rankings must contain at least one source; got an empty mapping")
    ids = [judgement.query for judgement in judgements]
    keys = ids if groups is None else list(groups)
    given = {**{f"rankings[{name!r}]": lists for name, lists in rankings.items()}, "texts": texts, "groups": keys}
    for name, lists in given.items():
        if len(lists) != len(judgements):
            raise InvalidInputError(
                f"{name} must have one entry per judged query ({len(judgements)}); got {len(lists)}"
            )
    if len(set(ids)) != len(ids):
        raise InvalidInputError(
            f"the ids of the judged queries must be unique; {next(one for one in ids if ids.count(one) > 1)!r} repeats"
        )
    listed = {query: [one for of in rankings.values() for one in of[row].ids] for row, query in enumerate(ids)}
    check_known(listed, judgements, None, "rankings")
    return _Part(rankings, tuple(judgements), tuple(texts), tuple(keys))


def _two_parts(whole: _Part, confirmation: Sequence[int] | IntArray | None, goal: Measure) -> tuple[_Part, _Part]:
    """Return the tuning part and the confirmation part of the queries that the measure `goal` scores.

    Raises InvalidInputError if `confirmation` contains a number that is not the row of a judged query.
    """
    scored = {row for row, judgement in enumerate(whole.judgements) if goal((), judgement) is not None}
    held = set((split_by_id(whole.groups, "confirm") if confirmation is None else np.asarray(confirmation)).tolist())
    every = set(range(len(whole.judgements)))
    if not held <= every:
        raise InvalidInputError(
            f"confirmation must contain rows of the {len(every)} judged queries; got {sorted(held - every)[0]} (rows "
            "count from 0)"
        )
    return whole.rows(sorted(scored - held)), whole.rows(sorted(scored & held))


def _check_parts(tuning: _Part, confirming: _Part) -> list[str]:
    """Return the groups that are in both parts, and warn of them; raise InsufficientDataError for a small part."""
    shared = sorted(set(tuning.groups) & set(confirming.groups))
    if shared:
        warn(
            f"{len(shared)} groups are in both parts ({', '.join(shared[:3])}{', …' * (len(shared) > 3)}): a confirmed "
            "gain may come from passages already used for tuning"
        )
    for name, part in (("tuning", tuning), ("confirmation", confirming)):
        if len(part.judgements) < MINIMUM_PER_PART:
            raise InsufficientDataError(
                f"tuning needs at least {MINIMUM_PER_PART} judged queries in each part (about "
                f"{2 * MINIMUM_PER_PART} in all); the {name} part has {len(part.judgements)}"
            )
    return shared


def _with_default_first(space: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the configurations; raise InvalidInputError if there is none, or if the first needs fitting."""
    tried = tuple(space)
    if not tried or tried[0].fitted:
        raise InvalidInputError(
            "space must start with a default configuration that needs no fitting; got "
            + (f"{tried[0].name!r}, which needs fitting" if tried else "an empty space")
        )
    return tried


def _out_of_fold(candidate: Candidate, part: _Part, folds: Sequence[IntArray], measure: Measure) -> float:
    """Return a configuration's mean of `measure` over all queries of `part`.

    A configuration with fitted parameters is scored on each fold after a fit to the other folds. Return NaN if a fit
    has too few queries.
    """
    if not candidate.fitted:
        return float(part.scores(candidate.fit(part.rankings, part.judgements), measure).mean())
    out = np.zeros(len(part.judgements))
    for fold in folds:
        train = part.rows(np.setdiff1d(np.arange(len(out)), fold).tolist())
        try:
            pipeline = candidate.fit(train.rankings, train.judgements)
        except InsufficientDataError:
            return float("nan")
        out[fold] = part.rows(fold.tolist()).scores(pipeline, measure)
    return float(out.mean())
