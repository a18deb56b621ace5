"""Measures of one ranking against one judgement: ours of hops by function, any other by ir-measures.

Only the order of the ids counts. Where a run carries scores, the order is the library's one tie rule: score
descending, then id ascending. Other tools break ties in other ways (trec_eval: id descending), so anything
handed to them should carry :func:`surrogate_scores`, which are strictly decreasing.
"""

from __future__ import annotations

import inspect
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_count
from phasegraph.errors import InvalidInputError, needed
from phasegraph.evaluation.datasets import Judgement, check_ids

Score: TypeAlias = Callable[[Sequence[str], Judgement, int], "float | None"]


def _first(ids: Sequence[str], judgement: Judgement, k: int, what: str = "an id") -> Sequence[str]:
    """The first k of an answer, which must be text: a pair of id and score would be right for no question."""
    check_ids(f"question {judgement.query!r}", ids, what)
    return ids[:k]


def last_hop(ids: Sequence[str], judgement: Judgement, k: int) -> float | None:
    """1 if the last hop, which holds the answer, is among the first k, 0 if not; None where it is not known."""
    if not judgement.last_hop_known:
        return None
    return float(not set(_first(ids, judgement, k)).isdisjoint(judgement.hops[-1]))


def full_support(ids: Sequence[str], judgement: Judgement, k: int) -> float:
    """1 if every hop, all that the answer needs, is among the first k, 0 if not and for a query without any."""
    return float(recall(ids, judgement, k) == 1.0)


def recall(ids: Sequence[str], judgement: Judgement, k: int) -> float:
    """Share of the hops among the first k; in [0, 1]."""
    found = set(_first(ids, judgement, k))
    hits = sum(not found.isdisjoint(hop) for hop in judgement.hops)
    return hits / len(judgement.hops) if judgement.hops else 0.0


def ndcg(ids: Sequence[str], judgement: Judgement, k: int) -> float:
    """Discounted gain over the best there could be, gain linear (g, not 2^g - 1), discount log2(rank + 1).

    Without grades the first passage of each hop gains 1, and its alternatives nothing.

    References
    ----------
    Järvelin and Kekäläinen (2002), doi:10.1145/582415.582418.
    """
    first = _first(ids, judgement, k)
    if judgement.grades:
        gains = [max(judgement.grades.get(passage, 0.0), 0.0) for passage in first]
        ideal = sorted((grade for grade in judgement.grades.values() if grade > 0), reverse=True)[:k]
    else:
        gains, open_hops = [], list(judgement.hops)
        for passage in first:
            still_open = [hop for hop in open_hops if passage not in hop]
            gains.append(float(len(still_open) < len(open_hops)))
            open_hops = still_open
        ideal = [1.0] * min(k, len(judgement.hops))
    best = _discounted(ideal)
    return _discounted(gains) / best if best else 0.0


def reciprocal_rank(ids: Sequence[str], judgement: Judgement, k: int) -> float:
    """1 over the rank of the first relevant passage among the first k, 0 where there is none.

    Relevant is every passage of every hop; where there are grades, what has one above 0.
    """
    first, relevant = _first(ids, judgement, k), set(judgement.passages)
    if judgement.grades:
        relevant = {passage for passage, grade in judgement.grades.items() if grade > 0}
    return next((1.0 / rank for rank, passage in enumerate(first, start=1) if passage in relevant), 0.0)


def page_recall(ids: Sequence[str], judgement: Judgement, k: int) -> float | None:
    """Share of the pages that answer among those of the first k passages; None where no page is known."""
    found = _pages(ids, judgement, k)
    if not judgement.pages or not judgement.sources:
        return None
    return len(found.intersection(judgement.pages)) / len(judgement.pages)


def distinct_pages(ids: Sequence[str], judgement: Judgement, k: int) -> float | None:
    """How many pages the first k passages are from, a count from 0 to k; None where no passage has a page."""
    found = _pages(ids, judgement, k)
    return float(len(found)) if judgement.sources else None


def _pages(ids: Sequence[str], judgement: Judgement, k: int) -> set[str]:
    return {judgement.sources[passage] for passage in _first(ids, judgement, k) if passage in judgement.sources}


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1) if gain)


def plain_answer(text: str) -> str:
    """An answer as EM and F1 read it: lower case, without ASCII punctuation and a, an, the, single spaces.

    >>> plain_answer("The  Duke of Wellington's horse, an Arab.")
    'duke of wellingtons horse arab'
    """
    bare = text.lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def exact_match(answers: Sequence[str], judgement: Judgement, k: int = 1) -> float | None:
    """1 if one of the first k answers is a right one, None where no right answer is known.

    References
    ----------
    Rajpurkar et al. (2016), doi:10.18653/v1/D16-1264.
    """
    return _best_answer(answers, judgement, k, lambda given, right: float(given == right))


def token_f1(answers: Sequence[str], judgement: Judgement, k: int = 1) -> float | None:
    """Harmonic mean of the shares of words in common, the best of the first k answers and the right ones.

    An answer without a word is right (1) only where the right one has none either.

    References
    ----------
    Rajpurkar et al. (2016), doi:10.18653/v1/D16-1264.

    Examples
    --------
    >>> token_f1(["in Greece, 1824"], Judgement("q", (), answers=("the year 1824", "April 1824")))
    0.4
    """
    return _best_answer(answers, judgement, k, _shared_words)


def _best_answer(
    answers: Sequence[str], judgement: Judgement, k: int, score: Callable[[str, str], float]
) -> float | None:
    first = _first(answers, judgement, k, "an answer")
    if not judgement.answers:
        return None
    given = [plain_answer(text) for text in first]
    return max((score(one, plain_answer(right)) for one in given for right in judgement.answers), default=0.0)


def _shared_words(given: str, right: str) -> float:
    ours, theirs = given.split(), right.split()
    if not ours or not theirs:
        return float(ours == theirs)
    return 2.0 * (Counter(ours) & Counter(theirs)).total() / (len(ours) + len(theirs))


MEASURES: Mapping[str, Score] = MappingProxyType(
    {
        "LastHop": last_hop,
        "FullSup": full_support,
        "Recall": recall,
        "nDCG": ndcg,
        "MRR": reciprocal_rank,
        "PageRecall": page_recall,
        "Pages": distinct_pages,
    }
)
"""The measures of hops, which may have alternatives, and of pages: no qrels can say that. MRR is here to need no other
library.
"""
ANSWER_MEASURES: Mapping[str, Score] = MappingProxyType({"EM": exact_match, "F1": token_f1})
"""The measures of answers: they read texts in place of ids."""
_OWN: Mapping[str, Score] = MappingProxyType({**MEASURES, **ANSWER_MEASURES})
BINARY = frozenset({"LastHop", "FullSup", "EM", "Success"})
"""These are 0 or 1 for a query."""
COUNTS = frozenset({"Pages"})
"""These count; all others are shares in [0, 1]. A larger count is no better answer."""


@dataclass(frozen=True, slots=True, order=True)
class Measure:
    """A measure at a depth, such as ``LastHop@5``.

    Parameters
    ----------
    name : str
        A key of ``MEASURES`` or ``ANSWER_MEASURES``, or a measure of ir-measures (``Success``, ``P``, ``AP``,
        ...), for which every passage of every hop is relevant, or what has a grade above 0.
    k : int
        Depth, >= 1: how many of the first ids, or answers, count.

    Raises
    ------
    InvalidInputError
        For an unknown name or a depth below 1.
    MissingDependencyError
        For a measure that is not ours, if ir-measures is not installed.

    Examples
    --------
    >>> measure = Measure.parse("Recall@2")
    >>> measure(["a", "b", "c"], Judgement("q", (("b",), ("c",))))
    0.5
    """

    name: str
    k: int

    def __post_init__(self) -> None:
        check_count(f"the depth of {self.name}", self.k, minimum=1)
        if self.name not in _OWN:
            self._foreign()

    def __str__(self) -> str:
        return self.name if self.name in ANSWER_MEASURES and self.k == 1 else f"{self.name}@{self.k}"

    @property
    def unit(self) -> float:
        """What a value is multiplied with where it is shown: 100, for percentages, or 1 for a count."""
        return 1.0 if self.name in COUNTS else 100.0

    @property
    def about(self) -> str:
        """What it measures, in a line; empty for a measure of ir-measures."""
        return (inspect.getdoc(_OWN[self.name]) or "").partition("\n")[0] if self.name in _OWN else ""

    def __call__(self, ids: Sequence[str], judgement: Judgement) -> float | None:
        """The measure of one ranking, or None where the query is left out of it."""
        if self.name in _OWN:
            return _OWN[self.name](ids, judgement, self.k)
        return float(score_run({judgement.query: ids}, [judgement], self)[0])

    @classmethod
    def parse(cls, text: str) -> Measure:
        """``"LastHop@5"`` as a measure; ``"F1"`` and ``"EM"`` are those of the first answer."""
        if text in ANSWER_MEASURES:
            return cls(text, 1)
        parts = re.fullmatch(r"([A-Za-z]+)@([0-9]{1,9})", text)
        if parts is None:
            raise InvalidInputError(f"a measure must read NAME@DEPTH, such as LastHop@5; got {text!r}")
        return cls(parts[1], int(parts[2]))

    def _foreign(self) -> Any:
        """The measure as ir-measures knows it."""
        ours = ", ".join(_OWN)
        with needed(
            f"{self.name} is not one of our measures ({ours}); for those of ir-measures: pip install 'phasegraph[eval]'"
        ):
            import ir_measures
        try:
            return ir_measures.parse_measure(str(self))
        except (NameError, ValueError, AttributeError) as error:
            raise InvalidInputError(f"measure must be one of {ours} or of ir-measures; got {self.name!r}") from error


DEFAULT_MEASURES: tuple[Measure, ...] = tuple(
    Measure(name, k) for name in ("LastHop", "FullSup", "Recall") for k in (5, 10)
)
PAGE_MEASURES: tuple[Measure, ...] = tuple(Measure(name, k) for name in ("PageRecall", "Pages") for k in (5, 10))
"""For data whose questions name the pages that answer them."""


def score_run(found: Mapping[str, Sequence[str]], judgements: Sequence[Judgement], measure: Measure) -> FloatArray:
    """One measure for every judged query, in the order of `judgements`: (n,) in [0, 1], or of counts.

    `found` holds ids in order, by query id. A judged query that is missing counts as having found nothing: it scores 0
    and never leaves the mean. NaN only for a query that the measure leaves out (LastHop where it is not known).

    >>> judged = [Judgement("q1", (("a",),)), Judgement("q2", (("b",),))]
    >>> score_run({"q1": ["a"]}, judged, Measure("Recall", 5))
    array([1., 0.])
    """
    if measure.name not in _OWN:
        return _by_ir_measures(found, judgements, measure)
    scores = (measure(found.get(judgement.query, ()), judgement) for judgement in judgements)
    return np.array([np.nan if score is None else score for score in scores])


def _by_ir_measures(
    found: Mapping[str, Sequence[str]], judgements: Sequence[Judgement], measure: Measure
) -> FloatArray:
    """A measure of another library; queries of which it says nothing score 0."""
    from ir_measures import Qrel, ScoredDoc, iter_calc

    relevant = {judgement.query: _whole(judgement) for judgement in judgements}
    for query in relevant:
        check_ids(f"question {query!r}", found.get(query, ()))
    qrels = [Qrel(query, passage, grade) for query, of in relevant.items() for passage, grade in of.items()]
    run = [
        ScoredDoc(query, passage, score)
        for query in relevant
        for passage, score in zip(found.get(query, ()), surrogate_scores(len(found.get(query, ()))), strict=True)
    ]
    values = dict.fromkeys(relevant, 0.0)
    if qrels and run:
        values |= {one.query_id: float(one.value) for one in iter_calc([measure._foreign()], qrels, run)}
    return np.array([values[judgement.query] for judgement in judgements])


def _whole(judgement: Judgement) -> dict[str, int]:
    """Whole grades by passage, as other libraries want them; with fractions among them all that gains is relevant."""
    if not judgement.grades:
        return dict.fromkeys(judgement.passages, 1)
    whole = all(float(grade).is_integer() for grade in judgement.grades.values())
    return {passage: int(grade if whole else grade > 0) for passage, grade in judgement.grades.items()}


def surrogate_scores(count: int) -> FloatArray:
    """Strictly decreasing scores count, …, 1 for a ranking: no tool's tie rule can reorder it."""
    return np.arange(count, 0, -1, dtype=np.float64)
