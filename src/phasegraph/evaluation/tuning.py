"""Fitting a pipeline to a user's own data: calibrators from unlabelled queries, the rest from judged ones.

:func:`calibrated_pipeline` needs no labels. :func:`tune` searches rules, calibrations, weights, caps and temperatures
on one part of the judged queries and confirms on the other; a gain that the second part does not confirm is not
called one, and nothing is changed for it.
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
from phasegraph.evaluation.datasets import Judgement, split_by_id
from phasegraph.evaluation.measures import Measure, score_run
from phasegraph.evaluation.significance import bootstrap_intervals, sign_flip
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
    """A pipeline with a reference calibrator for every source that does not state its own background.

    `rankings` are, per source, its answers to the same unlabelled queries; `sizes` say how many items a source holds,
    default what its rankings state, else 1,000,000. Calibrators that the pipeline already had for other sources stay;
    its `min_agreement` and the bar of its `confidence` are those of these queries. InsufficientDataError if a source
    answered fewer than 20 of them, or always with the same score.

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
        Its calibrators are used; its own rule and weights are not.
    rankings : mapping of str to sequence of Ranking
        Per source its answers, one per judgement.
    judgements : sequence of Judgement
    ridge : float, default 1e-3
        Penalty on the squared weights, per candidate; > 0.

    Returns
    -------
    dict of str to float
        By source, >= 0, adding up to 1.

    Raises
    ------
    InsufficientDataError
        If fewer than 20 relevant candidates were found, or no source tells relevant from irrelevant.
    InvalidInputError
        If a source's scores fall where relevance rises; the message names it.
    NotConvergedError
        If the optimiser stops before its tolerance.

    Notes
    -----
    Logistic regression of relevance on the sources' calibrated values, with weights bounded below by 0: the fused
    value never falls when a source's score rises. The intercept is fitted and dropped, since it changes no order.

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
    """Refuse a source whose scores fall where relevance rises; InvalidInputError names it."""
    answers = [(one.query, [rankings[name][row] for name in sorted(rankings)]) for row, one in enumerate(judgements)]
    check_orientations(answers, {one.query: one.passages for one in judgements})


def fit_weights(
    pipeline: FusionPipeline,
    rankings: Mapping[str, Sequence[Ranking]],
    judgements: Sequence[Judgement],
    ridge: float = RIDGE,
) -> dict[str, float]:
    """As :func:`learn_weights`, without checking the orientation of the sources."""
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
        raise InsufficientDataError("no source tells relevant from irrelevant here; all learned weights are 0")
    return dict(zip(names, (weights / total).tolist(), strict=True))


def _columns(values: FloatArray, sources: Sequence[str], names: Sequence[str]) -> FloatArray:
    """`values` in the order of all sources; one that found nothing gets its row's lowest value."""
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
        raise NotConvergedError(f"fitting the weights did not converge: {found.message}")
    return np.asarray(found.x[:-1] / scale, dtype=np.float64)


Rankings: TypeAlias = Mapping[str, Sequence[Ranking]]
Fit: TypeAlias = Callable[[Rankings, Sequence[Judgement]], FusionPipeline]
SHARES = (0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9)
CAPS = (20, 30)
FACTORS = (0.25, 0.5, 1.0)
CONSTANTS = (10.0, 60.0)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One configuration to try: ``fit(rankings, judgements)`` makes the pipeline from a training part.

    `fitted` says whether the pipeline depends on that part; if not, it is the same for every part.
    """

    name: str
    fit: Fit
    fitted: bool = False


def candidates(sources: Sequence[str], *, sizes: Mapping[str, int] | None = None) -> tuple[Candidate, ...]:
    """All configurations for these sources, the default first, then in a fixed order; of equals the first is kept.

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
    """One source against the rest, who share what is left."""
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
        Judged queries in each part.
    tuning_groups, confirmation_groups : int
        Groups they fall into, such as collections; as many as there are queries where none were given.
    shared_groups : int
        Groups that stand in both parts: 0, unless the rows of the confirmation were given.
    tuning_default, tuning_chosen : float
        Means on the tuning part, in [0, 1]; the chosen one's is out of fold, and still favoured by having been
        chosen as the best of `tried`.
    confirmation_default, confirmation_chosen : float
        Means on the part never looked at.
    difference, low, high : float
        Gain there with its 95 % bootstrap interval.
    p : float
        Two-sided sign-flip p-value of that gain; interval and p take whole groups.
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
        """Rows in five parts, whole groups in each."""
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
        return score_run(found, self.judgements, measure)


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
    """Tune a pipeline on judged queries, and say whether the gain is real.

    Parameters
    ----------
    rankings : mapping of str to sequence of Ranking
        Per source its answers, one per judged query.
    judgements : sequence of Judgement
        Ids differ.
    texts : sequence of str or Context
        The queries' texts; or contexts, which may say what the texts of the hits do.
    measure : Measure, optional
        What to maximise; default Recall@5.
    groups : sequence of str, optional
        The group of each query, such as its collection: a group stands whole in one part and in one fold. Default:
        each query is its own.
    confirmation : array of int, optional
        Rows kept for the confirmation, such as a split's; default those of about half the groups, by the MD5 of
        their names.
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
        If lengths differ, an id repeats, a row of `confirmation` is none, or `space` is empty or begins with one that
        must be fitted; if a source's scores fall where relevance rises on the tuning part.

    Warns
    -----
    PhasegraphWarning
        If `confirmation` leaves a group in both parts: a gain that it confirms may be that of known passages.

    Notes
    -----
    Every configuration is scored on the tuning part, those with fitted numbers out of fold (five folds: fitted on
    four, scored on the fifth). The best is refitted on the whole tuning part and meets the other part once.
    """
    goal = Measure("Recall", 5) if measure is None else measure
    if not rankings:
        raise InvalidInputError("rankings must hold at least one source; got none")
    ids = [judgement.query for judgement in judgements]
    keys = ids if groups is None else list(groups)
    given = {**{f"rankings[{name!r}]": lists for name, lists in rankings.items()}, "texts": texts, "groups": keys}
    for name, lists in given.items():
        if len(lists) != len(judgements):
            raise InvalidInputError(f"{name} must hold one per judged query ({len(judgements)}); got {len(lists)}")
    if len(set(ids)) != len(ids):
        raise InvalidInputError("the ids of the judged queries must differ; one repeats")
    whole = _Part(rankings, tuple(judgements), tuple(texts), tuple(keys))
    scored = {row for row, judgement in enumerate(judgements) if goal((), judgement) is not None}
    held = set((split_by_id(keys, "confirm") if confirmation is None else np.asarray(confirmation)).tolist())
    if not held <= set(range(len(ids))):
        raise InvalidInputError(f"confirmation must hold rows of the {len(ids)} judged queries; got {sorted(held)[-1]}")
    tuning, confirming = whole.rows(sorted(scored - held)), whole.rows(sorted(scored & held))
    shared = sorted(set(tuning.groups) & set(confirming.groups))
    if shared:
        warn(
            f"{len(shared)} groups stand in both parts ({', '.join(shared[:3])}{', …' * (len(shared) > 3)}): what is "
            "confirmed there may be a gain on passages known from tuning",
            stacklevel=2,
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
        raise InvalidInputError("space must begin with the default, a configuration that needs no fitting")
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


@dataclass(frozen=True, slots=True)
class ConfidenceTuning:
    """How confidence was fitted to judged queries, and how it did on others.

    The model is fitted on the tuning part, without a probability where that could not be fitted; the figures are of so
    many judged queries of the other that have a confidence. `auc` is the chance, in [0, 1], that one of them has a
    higher confidence with its passages than another without its own; `ece` (10 bins of equally many) and `brier` are
    errors of the probabilities.
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
    """Fit a pipeline's confidence on one part of the judged queries, and score it on the other.

    ``words(query, rankings)`` is what :func:`phasegraph.lexical.read_hits` says. Rows of the `confirmation` are
    scored, the others fitted to; default about half, by the MD5 of the id. A query without an answer is one whose
    relevant passages are taken out of the lists. None where no query of the other part has a confidence.
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
    """Mean of a configuration on queries it was not fitted on; NaN where it could not be fitted."""
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
