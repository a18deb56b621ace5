"""Measures of one ranking against one judgement; each is a function of the ids in order.

Only the order of the ids counts. Where a run carries scores, the order is the library's one tie rule: score
descending, then id ascending. Other tools break ties in other ways (trec_eval: id descending), so anything
handed to them should carry :func:`surrogate_scores`, which are strictly decreasing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from phasegraph._typing import BoolArray, FloatArray
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Judgement

Score: TypeAlias = Callable[[Sequence[str], Judgement, int], "float | None"]


def last_hop(ids: Sequence[str], judgement: Judgement, k: int) -> float | None:
    """1 if the last hop is among the first k, 0 if not, None where the last hop is not known."""
    if not judgement.last_hop_known:
        return None
    found = ids[:k]
    return float(any(passage in found for passage in judgement.hops[-1]))


def full_support(ids: Sequence[str], judgement: Judgement, k: int) -> float:
    """1 if every hop is among the first k (0 for a query without any)."""
    return float(bool(judgement.hops) and _hops_found(ids, judgement, k) == len(judgement.hops))


def recall(ids: Sequence[str], judgement: Judgement, k: int) -> float:
    """Share of the hops among the first k; in [0, 1]."""
    return _hops_found(ids, judgement, k) / len(judgement.hops) if judgement.hops else 0.0


def success(ids: Sequence[str], judgement: Judgement, k: int) -> float:
    """1 if any hop is among the first k."""
    return float(_hops_found(ids, judgement, k) > 0)


def reciprocal_rank(ids: Sequence[str], judgement: Judgement, k: int) -> float:
    """One over the rank (from 1) of the first passage of any hop within the first k; 0 if there is none."""
    gold = judgement.passages
    for rank, passage in enumerate(ids[:k], start=1):
        if passage in gold:
            return 1.0 / rank
    return 0.0


def ndcg(ids: Sequence[str], judgement: Judgement, k: int) -> float:
    """Discounted gain over the best there could be, gain linear (g, not 2^g - 1), discount log2(rank + 1).

    References
    ----------
    Järvelin and Kekäläinen (2002), doi:10.1145/582415.582418.
    """
    if judgement.grades:
        gains = [max(judgement.grades.get(passage, 0.0), 0.0) for passage in ids[:k]]
        ideal = sorted((grade for grade in judgement.grades.values() if grade > 0), reverse=True)[:k]
    else:
        gains = _first_gains(ids[:k], judgement)
        ideal = [1.0] * min(k, len(judgement.hops))
    best = _discounted(ideal)
    return _discounted(gains) / best if best else 0.0


def _hops_found(ids: Sequence[str], judgement: Judgement, k: int) -> int:
    found = set(ids[:k])
    return sum(1 for hop in judgement.hops if not found.isdisjoint(hop))


def _first_gains(ids: Sequence[str], judgement: Judgement) -> list[float]:
    """1 where a passage satisfies a hop that none before it did."""
    open_hops = list(judgement.hops)
    gains = []
    for passage in ids:
        still_open = [hop for hop in open_hops if passage not in hop]
        gains.append(float(len(still_open) < len(open_hops)))
        open_hops = still_open
    return gains


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1) if gain)


MEASURES: Mapping[str, Score] = MappingProxyType(
    {
        "LastHop": last_hop,
        "FullSup": full_support,
        "Recall": recall,
        "nDCG": ndcg,
        "Success": success,
        "MRR": reciprocal_rank,
    }
)


@dataclass(frozen=True, slots=True, order=True)
class Measure:
    """A measure at a depth, such as ``LastHop@5``.

    Parameters
    ----------
    name : str
        A key of ``MEASURES``.
    k : int
        Depth, >= 1: how many of the first ids count.

    Raises
    ------
    InvalidInputError
        For an unknown name or a depth below 1.

    Examples
    --------
    >>> measure = Measure.parse("Recall@2")
    >>> measure(["a", "b", "c"], Judgement("q", (("b",), ("c",))))
    0.5
    """

    name: str
    k: int

    def __post_init__(self) -> None:
        if self.name not in MEASURES:
            raise InvalidInputError(f"measure must be one of {', '.join(MEASURES)}; got {self.name!r}")
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise InvalidInputError(f"the depth of {self.name} must be a whole number >= 1; got {self.k!r}")

    def __str__(self) -> str:
        return f"{self.name}@{self.k}"

    def __call__(self, ids: Sequence[str], judgement: Judgement) -> float | None:
        """The measure of one ranking, or None where the query is left out of it."""
        return MEASURES[self.name](ids, judgement, self.k)

    @classmethod
    def parse(cls, text: str) -> Measure:
        """``"LastHop@5"`` as a measure."""
        parts = re.fullmatch(r"([A-Za-z]+)@([0-9]{1,9})", text)
        if parts is None:
            raise InvalidInputError(f"a measure must read NAME@DEPTH, such as LastHop@5; got {text!r}")
        return cls(parts[1], int(parts[2]))


DEFAULT_MEASURES: tuple[Measure, ...] = tuple(
    Measure(name, k) for name in ("LastHop", "FullSup", "Recall") for k in (5, 10)
)


def score_run(found: Mapping[str, Sequence[str]], judgements: Sequence[Judgement], measure: Measure) -> FloatArray:
    """One measure for every judged query, in the order of `judgements`.

    Parameters
    ----------
    found : mapping of str to sequence of str
        Ids in order, by query id. A judged query that is missing counts as having found nothing: it
        scores 0 and never leaves the mean.
    judgements : sequence of Judgement
    measure : Measure

    Returns
    -------
    (n,) array of float
        In [0, 1]; NaN only for a query that the measure leaves out (LastHop where it is not known).

    Examples
    --------
    >>> judged = [Judgement("q1", (("a",),)), Judgement("q2", (("b",),))]
    >>> score_run({"q1": ["a"]}, judged, Measure("Recall", 5))
    array([1., 0.])
    """
    values = np.empty(len(judgements))
    for row, judgement in enumerate(judgements):
        value = measure(found.get(judgement.query, ()), judgement)
        values[row] = np.nan if value is None else value
    return values


def surrogate_scores(count: int) -> FloatArray:
    """Strictly decreasing scores count, …, 1 for a ranking: no tool's tie rule can reorder it."""
    return np.arange(count, 0, -1, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class CoverageRisk:
    """Coverage and risk of accepting everything at or above each threshold.

    Parameters
    ----------
    thresholds : (t,) array of float
        The distinct scores, descending.
    coverage : (t,) array of float
        Share accepted, in (0, 1], rising.
    risk : (t,) array of float
        Share of the accepted that are wrong, in [0, 1].
    """

    thresholds: FloatArray
    coverage: FloatArray
    risk: FloatArray

    def at(self, threshold: float) -> tuple[float, float]:
        """Coverage and risk at a threshold; where nothing is accepted, 0 and NaN (no risk is defined)."""
        accepted = int((self.thresholds >= threshold).sum())
        if not accepted:
            return 0.0, float("nan")
        return float(self.coverage[accepted - 1]), float(self.risk[accepted - 1])


def _truths(correct: Sequence[object]) -> BoolArray:
    """True or false, or 1 or 0, and nothing else."""
    labels = list(correct)
    bad = next((i for i, one in enumerate(labels) if not isinstance(one, int | np.bool_ | np.number)), None)
    if bad is None:
        bad = next((i for i, one in enumerate(labels) if one not in (0, 1)), None)
    if bad is not None:
        raise InvalidInputError(f"correct must hold true or false (or 1 or 0); item {bad} is {labels[bad]!r}")
    return np.array(labels, dtype=bool)


def coverage_risk(scores: Sequence[float] | FloatArray, correct: Sequence[object]) -> CoverageRisk:
    """How much is accepted, and how much of that is wrong, at every threshold.

    Parameters
    ----------
    scores : (n,) array_like of float
        Finite; higher is more confident.
    correct : (n,) array_like of bool
        Whether each item is right.

    Returns
    -------
    CoverageRisk

    Raises
    ------
    InvalidInputError
        If the lengths differ, there is nothing, a score is not finite, or a label is neither true nor false.

    Examples
    --------
    >>> coverage_risk([0.9, 0.8, 0.1], [True, False, False]).at(0.5)
    (0.6666666666666666, 0.5)
    """
    values = np.array(scores, dtype=np.float64)
    right = _truths(correct)
    if values.ndim != 1 or not len(values) or values.shape != right.shape or not np.isfinite(values).all():
        raise InvalidInputError(
            f"scores must be finite, at least one, one per label; got {values.shape} and {right.shape}"
        )
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    last = np.flatnonzero(np.r_[ordered[1:] != ordered[:-1], True])
    accepted = last + 1.0
    wrong = np.cumsum(~right[order])[last]
    return CoverageRisk(ordered[last], accepted / len(values), wrong / accepted)


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a document, with a grade where it is a gold span.

    Parameters
    ----------
    document : str
        Id of the document.
    start, end : int
        ``0 <= start < end``.
    grade : float, default 1.0
        Positive and finite.
    """

    document: str
    start: int
    end: int
    grade: float = 1.0

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise InvalidInputError(f"the {name} of a span must be a whole number; got {value!r}")
        if isinstance(self.grade, bool) or not isinstance(self.grade, int | float | np.number):
            raise InvalidInputError(f"the grade of a span must be a number; got {self.grade!r}")
        if not 0 <= self.start < self.end:
            raise InvalidInputError(f"a span must have 0 <= start < end; got [{self.start}, {self.end})")
        if not 0 < self.grade < np.inf:
            raise InvalidInputError(f"the grade of a span must be positive and finite; got {self.grade!r}")


def covers(passage: Span, gold: Span, *, share: float = 0.5) -> bool:
    """Whether a passage holds at least `share` of a gold span, relative to the span, not to the passage.

    Parameters
    ----------
    passage, gold : Span
    share : float, default 0.5
        In (0, 1].

    Returns
    -------
    bool

    Examples
    --------
    >>> covers(Span("d", 0, 100), Span("d", 90, 110)), covers(Span("d", 0, 100), Span("d", 91, 110))
    (True, False)
    """
    if passage.document != gold.document:
        return False
    overlap = min(passage.end, gold.end) - max(passage.start, gold.start)
    return overlap >= share * (gold.end - gold.start)


def judgement_from_spans(
    query: str, gold: Sequence[Span], passages: Mapping[str, Span], *, share: float = 0.5
) -> Judgement | None:
    """The judgement of one query whose gold is given as spans.

    Parameters
    ----------
    query : str
        Id of the query.
    gold : sequence of Span
        Each is a hop, satisfied by any passage that covers it.
    passages : mapping of str to Span
        Where each passage stands, by passage id.
    share : float, default 0.5
        How much of a span a passage must hold; in (0, 1].

    Returns
    -------
    Judgement or None
        Grades are the largest grade of the spans a passage covers; the last hop is not known. None if
        no passage covers any span: such a query cannot be scored on this cut, and the caller must count it.

    Raises
    ------
    InvalidInputError
        If `share` is outside (0, 1].

    Examples
    --------
    >>> cut = {"p1": Span("d", 0, 50), "p2": Span("d", 50, 100)}
    >>> judgement_from_spans("q", [Span("d", 40, 70)], cut).hops
    (('p2',),)
    """
    if not 0 < share <= 1:
        raise InvalidInputError(f"share must be in (0, 1]; got {share!r}")
    hops: list[tuple[str, ...]] = []
    grades: dict[str, float] = {}
    for span in gold:
        holders = tuple(_holders(span, passages.items(), share))
        if holders:
            hops.append(holders)
        for passage in holders:
            grades[passage] = max(grades.get(passage, 0.0), span.grade)
    if not hops:
        return None
    return Judgement(query, tuple(hops), last_hop_known=False, grades=grades)


def _holders(span: Span, passages: Iterable[tuple[str, Span]], share: float) -> list[str]:
    return sorted(name for name, passage in passages if covers(passage, span, share=share))
