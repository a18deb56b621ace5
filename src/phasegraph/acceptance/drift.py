"""Detection of drift: a difference between the score distributions of new queries and of judged queries.

The guarantee of a threshold assumes that the scores of new queries and of judged queries have the same distribution.
The tests compare the best score and the mean score of each query, because the scores of a query's hits are not
independent. With labels for new queries, a test also compares the share of relevant hits per query (the prevalence).
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
    """The outcome of a comparison of new queries with judged queries.

    Parameters
    ----------
    drifted : bool
        Whether a p-value is below `level` divided by the number of tests.
    level : float
        Probability of a false alarm of all tests together, in (0, 1).
    queries : int
        Number of new queries.
    p_values : dict of str to float
        The p-values of the tests ``best score``, ``mean score`` and, with labels, ``prevalence``.
    statistics : dict of str to float
        The Kolmogorov–Smirnov statistic of each test, in [0, 1]: the largest difference between the two distribution
        functions.
    sentence : str
        The outcome as a sentence.
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
    """Test whether new queries differ from the judged queries of a threshold.

    Parameters
    ----------
    threshold : Threshold
        A fitted threshold.
    scores : (n,) array_like of float
        The scores of new hits, finite and in the unit of the threshold.
    queries : (n,) sequence of hashable
        The query of each hit.
    labels : (n,) sequence of {0, 1}, optional
        1 for each relevant hit, else 0. Without labels, a change of prevalence is not detected, although it affects
        precision most.
    level : float, default 0.01
        Probability of a false alarm of all tests together, in (0, 1).

    Returns
    -------
    DriftReport
        The outcome of the tests.

    Raises
    ------
    InsufficientDataError
        If there are fewer than 8 new queries.
    InvalidInputError
        If `threshold` has no reference, or the arrays have different lengths.

    References
    ----------
    .. [1] Smirnov, 1948, doi:10.1214/aoms/1177730256
    """
    check_range("level", level, 0, 1, ends="()")
    if threshold.reference is None:
        raise InvalidInputError(
            "check_drift needs a threshold that was fitted to judged hits; the given threshold was not: fit it with a "
            "function such as certify_threshold"
        )
    values = check_flat("scores", scores)
    if len(queries) != len(values):
        raise InvalidInputError(
            f"queries must name one query for each score; got {len(values)} scores and {len(queries)} queries"
        )
    flags = None if labels is None else np.asarray(labels)
    if flags is not None and (flags.shape != values.shape or not np.isin(flags, (0, 1)).all()):
        raise InvalidInputError(
            f"labels must contain 0 or 1 for each of {len(values)} scores; got shape {flags.shape}: "
            f"{flags.tolist()!r:.80}"
        )
    names, groups = number_queries(queries)
    count = len(names)
    if count < _LEAST:
        raise InsufficientDataError(
            f"a drift test needs at least {_LEAST} new queries; got {count}: collect more queries"
        )
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
        f"{worst} {found} on {count} new queries against {len(reference.tops)} judged queries "
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
    """Withdraw the guarantee of a threshold, with a warning, if new queries differ from the judged queries.

    Parameters
    ----------
    threshold, scores, queries, labels, level
        As for :func:`check_drift`.
    strict : bool, default False
        Whether to raise an error instead of a warning.

    Returns
    -------
    Threshold
        The given threshold, or a copy whose guarantee is withdrawn.

    Raises
    ------
    DegradedError
        If the new queries differ and `strict` is True.

    Warns
    -----
    PhasegraphWarning
        If the guarantee is withdrawn.
    """
    report = check_drift(threshold, scores, queries, labels=labels, level=level)
    if not report.drifted:
        return threshold
    message = f"threshold {threshold.method} revoked: {report.sentence}"
    if strict:
        raise DegradedError(message)
    warn(message)
    return threshold.revoke(report.sentence)


def _two_sample(first: FloatArray, second: FloatArray) -> tuple[float, float]:
    """Return the Kolmogorov–Smirnov statistic of two samples and its asymptotic p-value.

    If the samples contain equal values, the p-value can be too large, but not too small.
    """
    from scipy.special import kolmogorov

    points = np.concatenate([first, second])
    shares = [np.searchsorted(np.sort(part), points, side="right") / len(part) for part in (first, second)]
    gap = float(np.abs(shares[0] - shares[1]).max())
    return gap, float(kolmogorov(gap * np.sqrt(len(first) * len(second) / len(points))))
