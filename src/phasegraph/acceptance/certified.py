"""Thresholds with a promise about queries nobody has judged.

For n judged queries drawn like the future ones, the chosen threshold's risk is at most `alpha` with
probability at least 1 - `delta` over the draw of the judged queries. The unit is the query: losses are
averaged inside a query first, so hits that succeed and fail together are not counted as many experiments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.acceptance.bounds import betting, check_level, hoeffding_bentkus, queries_needed
from phasegraph.acceptance.fitting import reference_of
from phasegraph.acceptance.judged import JudgedScores, require_separate
from phasegraph.acceptance.losses import Risk, query_losses
from phasegraph.acceptance.orientation import check_orientation
from phasegraph.acceptance.thresholds import Threshold
from phasegraph.errors import InsufficientDataError, InvalidInputError

Bound = Literal["betting", "hoeffding-bentkus"]
_BOUNDS: Mapping[str, Callable[[FloatArray, float], FloatArray]] = {
    "betting": betting,
    "hoeffding-bentkus": hoeffding_bentkus,
}
_MAX_THRESHOLDS = 100
_PROMISES = {
    "wrong": (
        "Among queries for which something is accepted, the expected share of accepted hits that are not "
        "relevant is at most {alpha:g}"
    ),
    "missed": (
        "Among queries for which something relevant is returned, the expected share of it that is not accepted "
        "is at most {alpha:g}"
    ),
}


@dataclass(frozen=True, slots=True)
class _Choice:
    """A certified value, or none and the observed risk of the most promising one with its share of queries."""

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
    """Threshold whose risk is at most `alpha` with probability at least 1 - `delta`, or an error.

    Parameters
    ----------
    judged : JudgedScores
        Hits of n queries that are independent and drawn like the future ones.
    risk : {"wrong", "missed"}, default "wrong"
        ``wrong``: expected share of a query's accepted hits that are not relevant, over the queries for which
        something is accepted. ``missed``: expected share of a query's relevant returned hits that are not
        accepted, over the queries that have any.
    alpha : float
        Highest risk, in (0, 1).
    delta : float, default 0.05
        Probability, over the draw of the judged queries, that the risk is higher; in (0, 1).
    ordering : JudgedScores, optional
        Hits of other queries on which the thresholds are put in order; default: half of the queries of
        `judged`, drawn by `rng`. Not used for ``missed``, whose risk only grows with the threshold.
    bound : {"hoeffding-bentkus", "betting"}, default "hoeffding-bentkus"
        How a p-value is computed from the queries' losses; the second is tighter where losses are fractions
        that vary little (``missed``), the first where they are nearly 0 or 1 (``wrong`` with few accepted).
    sources : tuple of str
        Sources whose answers the scores were made of, for the certificate.
    rng : int or numpy.random.Generator, default 0
        Draws the halves.

    Returns
    -------
    Threshold
        The lowest certified one for ``wrong`` (it accepts most), the highest for ``missed``.

    Raises
    ------
    InsufficientDataError
        If nothing can be certified; the message says how many queries it would take. Nothing is chosen then.
    InvalidInputError
        If a level is outside (0, 1), a name is unknown or `ordering` shares a query with `judged`; if relevant hits
        score lower than the others (:func:`check_orientation`).

    Notes
    -----
    Learn then test [1]_ with a fixed sequence: the thresholds (at most 100, midway between scores of the
    ordering part) are sorted by their p-value on the ordering part and tested in that order on the other
    part, each at `delta`, up to the first that fails. Precision is not monotone in the threshold, so a scan
    without this order would break the promise. Where a query accepts nothing it does not count for ``wrong``;
    counting it as a success would only make the promise easier.

    References
    ----------
    .. [1] Angelopoulos et al., Learn then test, arXiv:2110.01052.
    .. [2] Bates et al., Distribution-free, risk-controlling prediction sets, arXiv:2101.02703.
    """
    _check_names(risk, bound)
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
    return Threshold(
        choice.value,
        method=f"certified-{risk}/{bound}",
        level=alpha,
        confidence=1 - delta,
        queries=judged.query_count,
        hits=len(judged),
        promise=f"{sentence}, with probability at least {1 - delta:g} over the draw of the judged queries.",
        sources=sources,
        statistics={"observed_risk": choice.risk, "share_of_queries": choice.share},
        reference=reference_of(judged),
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
    """One certified threshold a source, all of them holding together with probability at least 1 - `delta`.

    Parameters
    ----------
    judged : mapping of str to JudgedScores
        By source name.
    risk : {"wrong", "missed"}, default "wrong"
        As in :func:`certify_threshold`.
    alpha : float
        Highest risk of each source, in (0, 1).
    delta : float, default 0.05
        Probability that any of the risks is higher, in (0, 1); each source gets its share of it.
    bound : {"hoeffding-bentkus", "betting"}, default "hoeffding-bentkus"
        As in :func:`certify_threshold`.
    rng : int, default 0
        Draws the halves.

    Returns
    -------
    dict of str to Threshold
        By source name, ascending.

    Raises
    ------
    InsufficientDataError
        If one of them cannot be certified; the message names the source.

    Notes
    -----
    Certified at `delta` each, three sources fail together up to 14 % of the time. Certifying the final set once is
    cheaper where the whole set is judged.
    """
    out = {}
    for name in sorted(judged):
        check_orientation(judged[name], name)
        try:
            out[name] = certify_threshold(
                judged[name],
                risk=risk,
                alpha=alpha,
                delta=delta / len(judged),
                bound=bound,
                sources=(name,),
                rng=rng,
            )
        except InsufficientDataError as error:
            raise InsufficientDataError(f"source {name!r}: {error}") from error
    return out


def candidate_thresholds(judged: JudgedScores, /, *, most: int = _MAX_THRESHOLDS) -> FloatArray:
    """At most `most` ascending thresholds midway between the distinct scores, spread evenly over the hits."""
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
    """Highest threshold below which every one is certified; valid without a split as the risk is monotone."""
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


def _check_names(risk: str, bound: str) -> None:
    if risk not in _PROMISES:
        raise InvalidInputError(f"risk must be 'wrong' or 'missed'; got {risk!r}")
    if bound not in _BOUNDS:
        raise InvalidInputError(f"bound must be one of {sorted(_BOUNDS)}; got {bound!r}")


def _require_enough(judged: JudgedScores, alpha: float, delta: float, halves: int) -> None:
    check_level("alpha", alpha)
    check_level("delta", delta)
    least = halves * queries_needed(alpha, delta)
    if judged.query_count < least:
        raise InsufficientDataError(
            f"certifying a risk of at most {alpha:g} with probability {1 - delta:g} needs at least {least} "
            f"judged queries, even if none errs; got {judged.query_count}"
        )


def _shortfall(choice: _Choice, judged: JudgedScores, alpha: float, delta: float, halves: int) -> str:
    start = f"no threshold has a risk that is certified to be at most {alpha:g}"
    if not choice.share or choice.risk >= alpha:
        return (
            f"{start}: the most promising one errs at {choice.risk:.3f} on {judged.query_count} judged "
            f"queries, so more labels are unlikely to help; a higher alpha or better scores would"
        )
    needed = math.ceil(halves * queries_needed(alpha, delta, risk=choice.risk) / choice.share)
    return (
        f"{start} with probability {1 - delta:g}: with the observed risk of {choice.risk:.3f} it would need "
        f"about {max(needed, judged.query_count + 1)} judged queries; got {judged.query_count}"
    )
