"""Conformal control of the miss rate: a promise on average over calibration sets, for few labels.

Cheaper than a certificate (no `delta`: it holds on average over the draw of the judged queries, not with
high probability for the one that was drawn), which is why it works with far fewer labels.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from phasegraph.acceptance.bounds import check_level
from phasegraph.acceptance.certified import candidate_thresholds
from phasegraph.acceptance.fitting import reference_of
from phasegraph.acceptance.judged import JudgedScores
from phasegraph.acceptance.losses import query_losses
from phasegraph.acceptance.orientation import check_orientation
from phasegraph.acceptance.thresholds import NO_PROMISE, Threshold
from phasegraph.errors import InsufficientDataError, InvalidInputError

_PROMISE = {
    "query": (
        "On average over judged samples, the expected share of a query's relevant returned hits that is not "
        "accepted is at most {rate:g}."
    ),
    "passage": (
        "On average over judged samples, a new relevant hit that is exchangeable with the judged relevant hits "
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
    """Highest threshold with the expected miss rate under control.

    Parameters
    ----------
    judged : JudgedScores
        In the source's own unit.
    miss_rate : float
        Highest expected share missed, in (0, 1).
    unit : {"query", "passage"}, default "query"
        ``query``: conformal risk control [1]_ of the share missed per query, valid for queries drawn like the
        future ones. ``passage``: split conformal prediction over relevant hits, value = the k-th smallest
        score of a relevant hit with k = floor(miss_rate * (n + 1)); valid only where relevant hits are
        exchangeable, which hits of one query are not with hits of another.
    sources : tuple of str
        Sources whose answers the scores were made of.

    Returns
    -------
    Threshold

    Raises
    ------
    InsufficientDataError
        If n is too small for `miss_rate`; the message says how many it takes.
    InvalidInputError
        If `miss_rate` is outside (0, 1) or `unit` is unknown; if relevant hits score lower than the others
        (:func:`check_orientation`).

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
    check_level("miss_rate", miss_rate)
    if unit not in _PROMISE:
        raise InvalidInputError(f"unit must be 'query' or 'passage'; got {unit!r}")
    check_orientation(judged)
    value = _by_passage(judged, miss_rate) if unit == "passage" else _by_query(judged, miss_rate)
    return Threshold(
        value,
        method=f"conformal-{unit}",
        level=miss_rate,
        queries=judged.query_count,
        hits=len(judged),
        promise=_PROMISE[unit].format(rate=miss_rate, kept=1 - miss_rate),
        sources=sources,
        statistics={
            "positives": judged.positives,
            "observed_recall": float((judged.scores[judged.labels] >= value).mean()),
            "observed_rejection": float((judged.scores[~judged.labels] < value).mean()),
        },
        reference=reference_of(judged),
    )


def three_way(floor: Threshold, accept: Threshold, /) -> Threshold:
    """One threshold with an ambiguous band: below `floor` rejected, from `accept` on accepted.

    Parameters
    ----------
    floor : Threshold
        Keeps what is relevant (a recall target, or control of the miss rate).
    accept : Threshold
        Keeps out what is not (a precision target, or a certificate).

    Returns
    -------
    Threshold
        With what either promises, and no promise where neither does; without a band where `floor` is not below
        `accept`.

    Examples
    --------
    >>> from phasegraph.acceptance.thresholds import Threshold
    >>> band = three_way(Threshold(0.2), Threshold(0.6))
    >>> band.floor, band.value, band.certified
    (0.2, 0.6, False)
    """
    sources = tuple(sorted({*floor.sources, *accept.sources}))
    return Threshold(
        accept.value,
        lower=floor.value if floor.value < accept.value else None,
        method=f"three-way({floor.method}, {accept.method})",
        level=accept.level,
        confidence=accept.confidence,
        queries=min(floor.queries, accept.queries),
        hits=min(floor.hits, accept.hits),
        promise=_both(accept, floor),
        sources=sources,
        statistics={
            **{f"floor_{name}": number for name, number in floor.statistics.items()},
            **{f"accept_{name}": number for name, number in accept.statistics.items()},
        },
        reference=accept.reference,
        revoked=accept.revoked or floor.revoked,
    )


def _both(accept: Threshold, floor: Threshold) -> str:
    """The promises of the parts that make one."""
    parts = (("Accepted", accept), ("Not rejected", floor))
    return " ".join(f"{what}: {one.promise}" for what, one in parts if one.promises) or NO_PROMISE


def _by_passage(judged: JudgedScores, miss_rate: float) -> float:
    relevant = np.sort(judged.scores[judged.labels])
    rank = math.floor(miss_rate * (len(relevant) + 1) + 1e-9)
    if rank == 0:
        needed = math.ceil(1 / miss_rate - 1e-9) - 1
        raise InsufficientDataError(
            f"a miss rate of {miss_rate:g} needs at least {needed} relevant judged hits; got {len(relevant)}"
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
            f"a miss rate of {miss_rate:g} needs at least {needed} judged queries with something relevant; got {count}"
        )
    last = int(np.argmin(safe)) - 1 if not safe.all() else len(safe) - 1
    return float(thresholds[last])
