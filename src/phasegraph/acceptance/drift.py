"""Do new queries still look like the judged ones? The whole promise rests on it.

Scores are compared by each query's best and mean hit, one value a query, because hits of one query move
together; prevalence by each query's share of relevant hits, which needs labels of some new queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_flat, check_range
from phasegraph.acceptance.judged import number_queries, per_query
from phasegraph.acceptance.thresholds import Threshold
from phasegraph.errors import DegradedError, InsufficientDataError, InvalidInputError, warn

_LEAST = 8


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Outcome of comparing new queries with the judged ones.

    Parameters
    ----------
    drifted : bool
        Whether a p-value fell below `level` divided by the number of tests.
    level : float
        Chance of calling drift where there is none; in (0, 1).
    queries : int
        New queries looked at.
    p_values : dict of str to float
        Of ``best score``, ``mean score`` and, with labels, ``prevalence``.
    statistics : dict of str to float
        Largest gap between the two distributions (Kolmogorov–Smirnov), in [0, 1].
    sentence : str
        What was found.
    """

    drifted: bool
    level: float
    queries: int
    p_values: dict[str, float]
    statistics: dict[str, float]
    sentence: str


def check_drift(
    threshold: Threshold,
    scores: Sequence[float] | FloatArray,
    queries: Sequence[object],
    /,
    *,
    labels: Sequence[int] | None = None,
    level: float = 0.01,
) -> DriftReport:
    """Compare new queries with those a threshold was fitted on.

    Parameters
    ----------
    threshold : Threshold
        A fitted one.
    scores : (n,) array_like of float
        Of new hits, in the same unit; finite.
    queries : (n,) sequence of hashable
        The query of each hit.
    labels : (n,) sequence of {0, 1}, optional
        Without them a change of prevalence cannot be seen, and it moves precision most.
    level : float, default 0.01
        Chance of a false alarm, in (0, 1), shared among the tests.

    Returns
    -------
    DriftReport

    Raises
    ------
    InsufficientDataError
        If there are fewer than 8 new queries.
    InvalidInputError
        If `threshold` keeps no reference or the arrays do not fit together.

    References
    ----------
    .. [1] Smirnov, 1948, doi:10.1214/aoms/1177730256
    """
    check_range("level", level, 0, 1, ends="()")
    if threshold.reference is None:
        raise InvalidInputError("check_drift needs a fitted threshold; this one keeps no judged queries")
    values = check_flat("scores", scores)
    if len(queries) != len(values):
        raise InvalidInputError(f"scores must have one query each; got {len(values)} for {len(queries)}")
    flags = None if labels is None else np.asarray(labels)
    if flags is not None and (flags.shape != values.shape or not np.isin(flags, (0, 1)).all()):
        raise InvalidInputError("labels must hold one 0 or 1 per score; got something else")
    names, groups = number_queries(queries)
    count = len(names)
    if count < _LEAST:
        raise InsufficientDataError(f"a drift test needs at least {_LEAST} new queries; got {count}")
    columns = per_query(values, groups, count, flags)
    reference = threshold.reference
    known = {"best score": reference.tops, "mean score": reference.means, "prevalence": reference.prevalence}
    compared = {name: _two_sample(np.array(known[name]), column) for name, column in columns.items()}
    p_values = {name: found[1] for name, found in compared.items()}
    worst = min(p_values, key=lambda name: p_values[name])
    drifted = p_values[worst] < level / len(p_values)
    found = "has drifted" if drifted else "shows no drift"
    return DriftReport(
        drifted,
        level,
        count,
        p_values,
        {name: result[0] for name, result in compared.items()},
        f"{worst} {found} on {count} new queries against {len(reference.tops)} judged ones "
        f"(gap {compared[worst][0]:.3f}, p = {p_values[worst]:.2g})",
    )


def revoke_on_drift(
    threshold: Threshold,
    scores: Sequence[float] | FloatArray,
    queries: Sequence[object],
    /,
    *,
    labels: Sequence[int] | None = None,
    level: float = 0.01,
    strict: bool = False,
) -> Threshold:
    """The threshold, its promise withdrawn with a warning if new queries look different.

    Parameters
    ----------
    threshold, scores, queries, labels, level
        As for :func:`check_drift`.
    strict : bool, default False
        Raise instead of warn.

    Returns
    -------
    Threshold
        The same one, or a revoked copy.

    Raises
    ------
    DegradedError
        If it would have been revoked and `strict` is set.

    Warns
    -----
    PhasegraphWarning
        If it was revoked.
    """
    report = check_drift(threshold, scores, queries, labels=labels, level=level)
    if not report.drifted:
        return threshold
    message = f"threshold {threshold.method} revoked: {report.sentence}"
    if strict:
        raise DegradedError(message)
    warn(message, stacklevel=2)
    return threshold.revoke(report.sentence)


def _two_sample(first: FloatArray, second: FloatArray) -> tuple[float, float]:
    """Largest gap between two distributions, and its p-value in the limit of many queries (ties make it larger)."""
    from scipy.special import kolmogorov

    points = np.concatenate([first, second])
    shares = [np.searchsorted(np.sort(part), points, side="right") / len(part) for part in (first, second)]
    gap = float(np.abs(shares[0] - shares[1]).max())
    return gap, float(kolmogorov(gap * np.sqrt(len(first) * len(second) / len(points))))
