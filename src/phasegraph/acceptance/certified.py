"""Thresholds with a guarantee for new queries: certified thresholds and conformal thresholds.

Each function that fits a threshold raises an error if relevant hits have lower scores than other hits; see
:func:`phasegraph.acceptance.judged.check_orientation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_choice, check_range
from phasegraph.acceptance.fitting import fitted
from phasegraph.acceptance.judged import JudgedScores, Risk, check_orientation, query_losses, require_separate
from phasegraph.acceptance.thresholds import NO_PROMISE, Threshold
from phasegraph.errors import InsufficientDataError, InvalidInputError

_BETS = np.array([0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95])


def hoeffding_bentkus(losses: FloatArray, level: float, /) -> FloatArray:
    """Compute p-values of the hypothesis "mean loss above `level`" by inequalities of Hoeffding and Bentkus.

    Parameters
    ----------
    losses : (n, t) array of float
        The loss of n queries at t thresholds, in [0, 1]; NaN if the query does not count at the threshold.
    level : float
        The mean loss to test against, in (0, 1).

    Returns
    -------
    (t,) array of float
        The smaller p-value of the two inequalities at each threshold, in [0, 1]; 1 if no query counts.

    References
    ----------
    .. [1] Bates et al., Distribution-free, risk-controlling prediction sets, arXiv:2101.02703, section 3.1.

    Examples
    --------
    >>> hoeffding_bentkus(np.zeros((14, 1)), 0.2).round(4)
    array([0.044])
    """
    from scipy.special import bdtr

    _check_level("level", level)
    counted = ~np.isnan(losses)
    count = counted.sum(axis=0)
    total = np.where(counted, losses, 0.0).sum(axis=0)
    mean = total / np.maximum(count, 1)
    hoeffding = np.exp(-count * _divergence(np.minimum(mean, level), level))
    successes = np.minimum(np.ceil(total - 1e-9), np.maximum(count, 1))
    bentkus = math.e * np.asarray(bdtr(np.maximum(successes, 0), np.maximum(count, 1), level))
    values = np.minimum(np.minimum(hoeffding, bentkus), 1.0)
    return np.where((count == 0) | (mean >= level), 1.0, values)


def betting(losses: FloatArray, level: float, /) -> FloatArray:
    """Compute p-values of the hypothesis "mean loss above `level`" from the average of seven fixed bets.

    Parameters
    ----------
    losses, level
        As for :func:`hoeffding_bentkus`.

    Returns
    -------
    (t,) array of float
        The p-value at each threshold, in [0, 1]; 1 if no query counts.

    Notes
    -----
    A bet b turns each loss x into the factor ``1 + b (level - x) / (1 - level)``. Under the hypothesis, the mean of
    this factor is at most 1. By Markov's inequality, the reciprocal of the average of the products is therefore a
    p-value. The bets of [1]_ adapt to the previous losses, so their result depends on the order of the queries. Fixed
    bets do not depend on the order and are only slightly weaker. If losses vary little, the p-values are much smaller
    than the p-values of :func:`hoeffding_bentkus`. If each loss is 0 or 1, the p-values are slightly larger.

    References
    ----------
    .. [1] Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, arXiv:2010.09686.
    """
    _check_level("level", level)
    gains = np.where(np.isnan(losses), 0.0, (level - losses) / (1 - level))
    wealth = np.stack([np.log1p(bet * gains).sum(axis=0) for bet in _BETS])
    best = wealth.max(axis=0)
    average = best + np.log(np.exp(wealth - best).mean(axis=0))
    return np.asarray(np.exp(np.minimum(-average, 0.0)))


def queries_needed(level: float, delta: float, /, *, risk: float = 0.0) -> int:
    """Return the number of judged queries that Hoeffding's inequality needs to certify a mean loss up to `level`.

    Parameters
    ----------
    level : float
        The bound to certify, in (0, 1).
    delta : float
        Probability that the certificate is wrong, in (0, 1).
    risk : float, default 0
        Mean loss of the judged queries, in [0, level). With fewer queries than the result for 0, no threshold can be
        certified.

    Returns
    -------
    int
        Number of queries, >= 1.

    Raises
    ------
    InvalidInputError
        If `risk` is not below `level`; no number of queries is then enough.

    Examples
    --------
    >>> [queries_needed(level, 0.05) for level in (0.2, 0.1, 0.05, 0.01)]
    [14, 29, 59, 299]
    """
    _check_level("level", level)
    _check_level("delta", delta)
    if not 0 <= risk < level:
        raise InvalidInputError(f"risk must be in [0, {level!r}); got {risk!r}")
    divergence = float(_divergence(np.array([risk]), level)[0])
    return max(1, math.ceil(math.log(1 / delta) / divergence - 1e-9))


def _check_level(name: str, value: float) -> None:
    check_range(name, value, 0, 1, ends="()")


def _divergence(mean: FloatArray, level: float) -> FloatArray:
    """Compute the Kullback–Leibler divergence, in nats, of Bernoulli(m) from Bernoulli(`level`), for m in `mean`."""
    rest = 1 - mean
    first = np.where(mean > 0, mean * np.log(np.where(mean > 0, mean, 1.0) / level), 0.0)
    second = np.where(rest > 0, rest * np.log(np.where(rest > 0, rest, 1.0) / (1 - level)), 0.0)
    return np.asarray(first + second)


Bound = Literal["betting", "hoeffding-bentkus"]
_BOUNDS: Mapping[str, Callable[[FloatArray, float], FloatArray]] = {
    "betting": betting,
    "hoeffding-bentkus": hoeffding_bentkus,
}
_MAX_THRESHOLDS = 100
_PROMISES = {
    "wrong": (
        "Among queries with at least one accepted hit, the expected share of accepted hits that are not relevant is "
        "at most {alpha:g}"
    ),
    "missed": (
        "Among queries with at least one relevant returned hit, the expected share of relevant returned hits that are "
        "not accepted is at most {alpha:g}"
    ),
}


@dataclass(frozen=True, slots=True)
class _Choice:
    """A certified threshold, its observed risk, and the share of queries that count for the risk.

    If no threshold is certified, `value` is None, and the other fields describe the most promising threshold.
    """

    value: float | None
    risk: float
    share: float


def certify_threshold(
    judged: JudgedScores,
    /,
    *,
    risk: Risk = "wrong",
    alpha: float,
    delta: float = 0.05,
    ordering: JudgedScores | None = None,
    bound: Bound = "hoeffding-bentkus",
    sources: tuple[str, ...] = (),
    rng: int | np.random.Generator = 0,
) -> Threshold:
    """Fit a threshold whose risk is at most `alpha` with probability at least 1 - `delta`, or raise an error.

    Parameters
    ----------
    judged : JudgedScores
        Judged hits of queries that are independent and have the same distribution as future queries.
    risk : {"wrong", "missed"}, default "wrong"
        The risk to bound. ``wrong``: the expected share of a query's accepted hits that are not relevant, among queries
        with an accepted hit. ``missed``: the expected share of a query's relevant returned hits that are not accepted,
        among queries with a relevant returned hit.
    alpha : float
        Highest risk, in (0, 1).
    delta : float, default 0.05
        Probability, over random samples of judged queries, that the risk is above `alpha`; in (0, 1).
    ordering : JudgedScores, optional
        Judged hits of other queries, which set the order in which thresholds are tested. Default: half of the queries
        of `judged`, drawn by `rng`. Not used for ``missed``, because this risk never falls when the threshold rises.
    bound : {"hoeffding-bentkus", "betting"}, default "hoeffding-bentkus"
        The method that computes p-values from the losses of the queries. ``betting`` is stronger if losses are
        fractions that vary little (``missed``). ``hoeffding-bentkus`` is stronger if losses are near 0 or 1 (``wrong``
        with few accepted hits).
    sources : tuple of str
        Names of the sources of the scores, for the certificate.
    rng : int or numpy.random.Generator, default 0
        Seed or generator that draws the half of the queries for `ordering`.

    Returns
    -------
    Threshold
        For ``wrong``, the lowest certified threshold, which accepts most hits. For ``missed``, the highest certified
        threshold.

    Raises
    ------
    InsufficientDataError
        If no threshold can be certified; the message estimates the necessary number of queries.
    InvalidInputError
        If `ordering` shares a query with `judged`.

    Notes
    -----
    The method for ``wrong`` is learn then test [1]_ with a fixed sequence. At most 100 thresholds, midway between
    scores, are sorted by their p-values on the ordering part. They are tested in this order on the other part, each at
    level `delta`, until a test fails. Without this order, the guarantee would not hold, because precision is not
    monotone in the threshold. A query without accepted hits does not count for ``wrong``; to count it as a success
    would weaken the guarantee.

    References
    ----------
    .. [1] Angelopoulos et al., Learn then test, arXiv:2110.01052.
    .. [2] Bates et al., Distribution-free, risk-controlling prediction sets, arXiv:2101.02703.
    """
    check_choice("risk", risk, _PROMISES)
    check_choice("bound", bound, _BOUNDS)
    if ordering is not None:
        require_separate(ordering, judged)
    halves = 2 if risk == "wrong" and ordering is None else 1
    _require_enough(judged, alpha, delta, halves)
    check_orientation(judged)
    if risk == "missed":
        choice = _highest_safe(judged, alpha, delta, _BOUNDS[bound])
    else:
        order, test = judged.split(rng=rng) if ordering is None else (ordering, judged)
        choice = _fixed_sequence(order, test, alpha, delta, _BOUNDS[bound])
    if choice.value is None:
        raise InsufficientDataError(_shortfall(choice, judged, alpha, delta, halves))
    sentence = _PROMISES[risk].format(alpha=alpha)
    return fitted(
        judged,
        choice.value,
        method=f"certified-{risk}/{bound}",
        level=alpha,
        confidence=1 - delta,
        promise=f"{sentence}, with probability at least {1 - delta:g} over the draw of the judged queries.",
        sources=sources,
        statistics={"observed_risk": choice.risk, "share_of_queries": choice.share},
    )


def certify_sources(
    judged: Mapping[str, JudgedScores],
    /,
    *,
    risk: Risk = "wrong",
    alpha: float,
    delta: float = 0.05,
    bound: Bound = "hoeffding-bentkus",
    rng: int = 0,
) -> dict[str, Threshold]:
    """Fit a certified threshold per source; all guarantees together hold with probability at least 1 - `delta`.

    Parameters
    ----------
    judged : mapping of str to JudgedScores
        Judged hits by source name.
    risk, bound, rng
        As for :func:`certify_threshold`.
    alpha : float
        Highest risk of each source, in (0, 1).
    delta : float, default 0.05
        Probability that the risk of at least one source is above `alpha`, in (0, 1). Each threshold is certified with
        `delta` divided by the number of sources.

    Returns
    -------
    dict of str to Threshold
        Thresholds by source name, in ascending order of the names.

    Raises
    ------
    InsufficientDataError
        If a threshold cannot be certified; the message names the source.

    Notes
    -----
    If three thresholds were each certified with `delta` 0.05, at least one guarantee could fail with probability 14 %.
    If the results of the whole pipeline are judged, a single threshold for ``Result.scores`` needs fewer queries.
    """
    out = {}
    for name in sorted(judged):
        check_orientation(judged[name], name)
        try:
            share = delta / len(judged)
            out[name] = certify_threshold(
                judged[name], risk=risk, alpha=alpha, delta=share, bound=bound, sources=(name,), rng=rng
            )
        except InsufficientDataError as error:
            raise InsufficientDataError(f"source {name!r}: {error}") from error
    return out


def candidate_thresholds(judged: JudgedScores, /, *, most: int = _MAX_THRESHOLDS) -> FloatArray:
    """Return at most `most` ascending thresholds for a fit, at evenly spaced quantiles of the judged scores.

    A threshold is midway between a score and the next lower score. The lowest threshold is the lowest score.
    """
    ordered = np.sort(judged.scores)
    places = np.ceil(np.linspace(0, 1, most) * len(ordered) - 1e-9).astype(np.intp) - 1
    picked = np.unique(ordered[np.maximum(places, 0)])
    below = np.searchsorted(ordered, picked, side="left") - 1
    lows = ordered[np.maximum(below, 0)]
    middle = lows / 2 + picked / 2
    return np.where((below < 0) | (middle <= lows), picked, middle)


def _fixed_sequence(
    order: JudgedScores,
    test: JudgedScores,
    alpha: float,
    delta: float,
    bound: Callable[[FloatArray, float], FloatArray],
) -> _Choice:
    thresholds = candidate_thresholds(order)
    expected = bound(query_losses(order, thresholds, risk="wrong"), alpha)
    sequence = np.lexsort((-thresholds, expected))
    losses = query_losses(test, thresholds, risk="wrong")
    values = bound(losses, alpha)
    failed = values[sequence] > delta
    passed = sequence[: int(np.argmax(failed)) if failed.any() else len(sequence)]
    row = int(sequence[0]) if not len(passed) else int(passed.min())
    return _described(losses[:, row], float(thresholds[row]) if len(passed) else None)


def _highest_safe(
    judged: JudgedScores, alpha: float, delta: float, bound: Callable[[FloatArray, float], FloatArray]
) -> _Choice:
    """Choose the highest candidate threshold that is certified together with every lower candidate threshold.

    If the lowest candidate is not certified, no threshold is chosen. The risk is ``missed``, which never falls when the
    threshold rises. The test therefore needs no other judged queries to order the thresholds. ``bound(losses, level)``
    computes the p-values; :func:`certify_threshold` describes `alpha` and `delta`.
    """
    thresholds = candidate_thresholds(judged)
    losses = query_losses(judged, thresholds, risk="missed")
    failed = bound(losses, alpha) > delta
    safe = int(np.argmax(failed)) if failed.any() else len(thresholds)
    if safe == 0:
        return _described(losses[:, 0], None)
    return _described(losses[:, safe - 1], float(thresholds[safe - 1]))


def _described(losses: FloatArray, value: float | None) -> _Choice:
    counted = losses[~np.isnan(losses)]
    share = len(counted) / len(losses)
    return _Choice(value, float(counted.mean()) if len(counted) else math.nan, share)


def _require_enough(judged: JudgedScores, alpha: float, delta: float, halves: int) -> None:
    _check_level("alpha", alpha)
    _check_level("delta", delta)
    least = halves * queries_needed(alpha, delta)
    if judged.query_count < least:
        raise InsufficientDataError(
            f"certifying a risk of at most {alpha:g} with probability {1 - delta:g} needs at least {least} "
            f"judged queries, even with an observed risk of 0; got {judged.query_count}: judge more queries, or raise "
            "alpha or delta"
        )


def _shortfall(choice: _Choice, judged: JudgedScores, alpha: float, delta: float, halves: int) -> str:
    start = f"no threshold has a risk that is certified to be at most {alpha:g}"
    if not choice.share or choice.risk >= alpha:
        return (
            f"{start}: the most promising threshold has a risk of {choice.risk:.3f} on {judged.query_count} judged "
            f"queries, so more judged queries are unlikely to help; raise alpha or improve the scores"
        )
    needed = math.ceil(halves * queries_needed(alpha, delta, risk=choice.risk) / choice.share)
    return (
        f"{start} with probability {1 - delta:g}: with the observed risk of {choice.risk:.3f} it would need "
        f"about {max(needed, judged.query_count + 1)} judged queries; got {judged.query_count}"
    )


_PROMISE = {
    "query": (
        "On average over samples of judged queries, the expected share of a query's relevant returned hits that are "
        "not accepted is at most {rate:g}."
    ),
    "passage": (
        "On average over samples of judged hits, a new relevant hit that is exchangeable with the judged relevant hits "
        "is accepted with probability at least {kept:g}."
    ),
}


def conformal_threshold(
    judged: JudgedScores,
    /,
    *,
    miss_rate: float,
    unit: Literal["query", "passage"] = "query",
    sources: tuple[str, ...] = (),
) -> Threshold:
    """Fit the highest threshold whose expected share of missed relevant hits is at most `miss_rate`.

    Parameters
    ----------
    judged : JudgedScores
        Judged hits, with scores in the source's own unit.
    miss_rate : float
        Highest expected share of relevant hits that are not accepted, in (0, 1).
    unit : {"query", "passage"}, default "query"
        ``query``: conformal risk control [1]_ of the missed share per query. The judged queries must have the same
        distribution as future queries. ``passage``: split conformal prediction over n relevant hits. The threshold is
        the k-th smallest score of a relevant hit, with k = floor(miss_rate * (n + 1)). All relevant hits must then be
        exchangeable, which hits of different queries usually are not.
    sources : tuple of str
        Names of the sources of the scores.

    Returns
    -------
    Threshold
        The threshold with its guarantee.

    Raises
    ------
    InsufficientDataError
        If the sample is too small for `miss_rate`; the message states the necessary number.

    References
    ----------
    .. [1] Angelopoulos et al., Conformal risk control, arXiv:2208.02814.

    Examples
    --------
    >>> scores = [0.1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 1.0]
    >>> judged = JudgedScores(scores, [0] + [1] * 9)
    >>> conformal_threshold(judged, miss_rate=0.2, unit="passage").value
    0.3
    """
    _check_level("miss_rate", miss_rate)
    check_choice("unit", unit, _PROMISE)
    check_orientation(judged)
    value = _by_passage(judged, miss_rate) if unit == "passage" else _by_query(judged, miss_rate)
    return fitted(
        judged,
        value,
        method=f"conformal-{unit}",
        level=miss_rate,
        promise=_PROMISE[unit].format(rate=miss_rate, kept=1 - miss_rate),
        sources=sources,
        statistics={
            "positives": judged.positives,
            "observed_recall": float((judged.scores[judged.labels] >= value).mean()),
            "observed_rejection": float((judged.scores[~judged.labels] < value).mean()),
        },
    )


def three_way(floor: Threshold | float, accept: Threshold | float, /) -> Threshold:
    """Combine two thresholds: reject hits below `floor`, accept hits at or above `accept`; other hits are ambiguous.

    Parameters
    ----------
    floor : Threshold or float
        The lower threshold, usually fitted for a recall target or a miss rate.
    accept : Threshold or float
        The upper threshold, usually fitted for a precision target or certified.

    Returns
    -------
    Threshold
        A threshold with the guarantees of both thresholds. If `floor` is not below `accept`, no hit is ambiguous.

    Examples
    --------
    >>> from phasegraph.acceptance.thresholds import Threshold
    >>> band = three_way(Threshold(0.2), Threshold(0.6))
    >>> band.floor, band.value, band.certified
    (0.2, 0.6, False)
    """
    floor, accept = (one if isinstance(one, Threshold) else Threshold(one) for one in (floor, accept))
    parts = (("Accepted", accept), ("Not rejected", floor))
    promises = [f"{what}: {one.promise}" for what, one in parts if one.promises]
    return Threshold(
        accept.value,
        lower=floor.value if floor.value < accept.value else None,
        method=f"three-way({floor.method}, {accept.method})",
        level=accept.level,
        confidence=accept.confidence,
        queries=min(floor.queries, accept.queries),
        hits=min(floor.hits, accept.hits),
        promise=" ".join(promises) or NO_PROMISE,
        sources=tuple({*floor.sources, *accept.sources}),
        statistics={
            **{f"floor_{name}": number for name, number in floor.statistics.items()},
            **{f"accept_{name}": number for name, number in accept.statistics.items()},
        },
        reference=accept.reference,
        revoked=accept.revoked or floor.revoked,
    )


def _by_passage(judged: JudgedScores, miss_rate: float) -> float:
    relevant = np.sort(judged.scores[judged.labels])
    rank = math.floor(miss_rate * (len(relevant) + 1) + 1e-9)
    if rank == 0:
        needed = math.ceil(1 / miss_rate - 1e-9) - 1
        raise InsufficientDataError(
            f"a miss rate of {miss_rate:g} needs at least {needed} relevant judged hits; got {len(relevant)}: judge "
            "more hits, or raise miss_rate"
        )
    return float(relevant[rank - 1])


def _by_query(judged: JudgedScores, miss_rate: float) -> float:
    thresholds = candidate_thresholds(judged, most=len(judged) + 1)
    losses = query_losses(judged, thresholds, risk="missed")
    count = int((~np.isnan(losses[:, 0])).sum())
    inflated = (np.nansum(losses, axis=0) + 1) / (count + 1)
    safe = inflated <= miss_rate + 1e-12
    if not safe[0]:
        needed = math.ceil(1 / miss_rate - 1e-9) - 1
        raise InsufficientDataError(
            f"a miss rate of {miss_rate:g} needs at least {needed} judged queries with a relevant hit; got {count}: "
            "judge more queries, or raise miss_rate"
        )
    last = int(np.argmin(safe)) - 1 if not safe.all() else len(safe) - 1
    return float(thresholds[last])
