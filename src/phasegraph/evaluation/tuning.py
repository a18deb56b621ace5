"""Fit a pipeline to a user's own data: calibrators to unlabeled queries, all other parameters to judged queries.

:func:`calibrated_pipeline` needs no labels. :func:`tune` tries rules, calibrations, weights, pool caps and temperatures
on one part of the judged queries, and tests the best configuration on the other part. If the other part does not
confirm the gain, the result is the default pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.acceptance.confidence import ConfidenceModel
from phasegraph.acceptance.judged import check_orientations
from phasegraph.calibration import ListCalibrator
from phasegraph.errors import InsufficientDataError, InvalidInputError, NotConvergedError, warn
from phasegraph.evaluation.abstention import abstain_auc, calibration_errors
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.measures import Measure, values_of
from phasegraph.evaluation.runs import check_known
from phasegraph.evaluation.significance import bootstrap_intervals, sign_flip
from phasegraph.evaluation.splits import split_by_id
from phasegraph.fusion.context import Context
from phasegraph.fusion.fitting import fit_confidence, fit_min_agreement
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.fusion.weighting import WEIGHTINGS
from phasegraph.lexical import HitWords
from phasegraph.ranking import Ranking
from phasegraph.retrieval.fitting import fit_calibrators

MINIMUM_QUERIES = 20


def calibrated_pipeline(
    rankings: Mapping[str, Sequence[Ranking]],
    pipeline: FusionPipeline | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
) -> FusionPipeline:
    """Fit a reference calibrator for every source that does not state its own background, and return the pipeline.

    `rankings` are, by source, the answers to the same unlabeled queries. `pipeline` is the pipeline to fit; None means
    the default pipeline. `sizes` gives the number of items in each source; default: the size that the rankings of the
    source state, else 1,000,000. The pipeline keeps its calibrators of other sources. Its `min_agreement` and its
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
    base = FusionPipeline() if pipeline is None else pipeline
    fitted = fit_calibrators([one for name in sorted(rankings) for one in rankings[name]], sizes)
    answers = list(zip(*(rankings[name] for name in sorted(rankings)), strict=False))
    calibrators = {**base.calibrators, **fitted}
    judged = fit_confidence([("", lists) for lists in answers], base)
    return replace(base, calibrators=calibrators, min_agreement=fit_min_agreement(answers, base), confidence=judged)


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
    whole = _judged_part(rankings, judgements, texts, groups)
    tuning, confirming = _two_parts(whole, confirmation, goal)
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
    require_orientation(tuning.rankings, tuning.judgements)
    tried = tuple(candidates(sorted(rankings), sizes=sizes) if space is None else space)
    if not tried or tried[0].fitted:
        raise InvalidInputError(
            "space must start with a default configuration that needs no fitting; got "
            + (f"{tried[0].name!r}, which needs fitting" if tried else "an empty space")
        )
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
    rankings: Rankings,
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
