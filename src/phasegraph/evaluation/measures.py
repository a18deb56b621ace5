"""Retrieval measures for one ranking and one judgement.

This module computes the measures of hops, pages and answers; the package ir-measures computes all other measures.

Only the order of the ids counts. If a run carries scores, its ids are ordered by descending score, then by ascending
id. Other tools break ties in other ways (trec_eval: descending id). Rankings passed to such a tool should therefore
carry :func:`surrogate_scores`, which are strictly decreasing.
"""

from __future__ import annotations

import inspect
import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_count, check_ids
from phasegraph.errors import InvalidInputError, needed
from phasegraph.evaluation.judgements import Judgement, check_known

Score: TypeAlias = Callable[[Sequence[str], Judgement, int], "float | None"]


def _first(ids: Sequence[str], judgement: Judgement, k: int, what: str = "an id") -> Sequence[str]:
    """Return the first k ids of a ranking; raise InvalidTypeError if an id is not text, such as an (id, score) pair."""
    check_ids(f"question {judgement.query!r}", ids, what)
    return ids[:k]


def last_hop(ids: Sequence[str], judgement: Judgement, k: int) -> float | None:
    """Return 1 if a passage of the last hop is among the first k, else 0; None if the last hop is not known."""
    if not judgement.last_hop_known:
        return None
    return float(not set(_first(ids, judgement, k)).isdisjoint(judgement.hops[-1]))


def full_support(ids: Sequence[str], judgement: Judgement, k: int) -> float:
    """Return 1 if every hop has a passage among the first k, else 0; also 0 for a query without hops."""
    return float(recall(ids, judgement, k) == 1.0)


def recall(ids: Sequence[str], judgement: Judgement, k: int) -> float:
    """Return the share of the hops that have a passage among the first k, in [0, 1]."""
    found = set(_first(ids, judgement, k))
    hits = sum(not found.isdisjoint(hop) for hop in judgement.hops)
    return hits / len(judgement.hops) if judgement.hops else 0.0


def ndcg(ids: Sequence[str], judgement: Judgement, k: int) -> float:
    """Return the discounted gain divided by the best possible discounted gain, in [0, 1].

    The discount is log2(rank + 1). The gain of a passage is its grade g, not 2^g - 1. Without grades, the first
    retrieved passage of each hop has gain 1, and the hop's other passages have gain 0.

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
    """Return 1 / rank of the first relevant passage among the first k; 0 if none of the first k is relevant.

    With grades, a passage is relevant if its grade is above 0. Without grades, every passage of every hop is relevant.
    """
    first, relevant = _first(ids, judgement, k), set(judgement.passages)
    if judgement.grades:
        relevant = {passage for passage, grade in judgement.grades.items() if grade > 0}
    return next((1.0 / rank for rank, passage in enumerate(first, start=1) if passage in relevant), 0.0)


def page_recall(ids: Sequence[str], judgement: Judgement, k: int) -> float | None:
    """Return the share of the answering pages with a passage among the first k; None if no answering page is known."""
    found = _pages(ids, judgement, k)
    if not judgement.pages or not judgement.sources:
        return None
    return len(found.intersection(judgement.pages)) / len(judgement.pages)


def distinct_pages(ids: Sequence[str], judgement: Judgement, k: int) -> float | None:
    """Return the number of distinct pages among the first k passages, in [0, k]; None if no passage names a page."""
    found = _pages(ids, judgement, k)
    return float(len(found)) if judgement.sources else None


def _pages(ids: Sequence[str], judgement: Judgement, k: int) -> set[str]:
    return {judgement.sources[passage] for passage in _first(ids, judgement, k) if passage in judgement.sources}


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, start=1) if gain)


def plain_answer(text: str) -> str:
    """Normalize an answer for EM and F1: lower case, no ASCII punctuation, no "a", "an" or "the", single spaces.

    >>> plain_answer("The  Duke of Wellington's horse, an Arab.")
    'duke of wellingtons horse arab'
    """
    bare = text.lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def exact_match(answers: Sequence[str], judgement: Judgement, k: int = 1) -> float | None:
    """Return 1 if one of the first k answers equals a correct answer, else 0; None if no correct answer is known.

    References
    ----------
    Rajpurkar et al. (2016), doi:10.18653/v1/D16-1264.
    """
    return _best_answer(answers, judgement, k, lambda given, right: float(given == right))


def token_f1(answers: Sequence[str], judgement: Judgement, k: int = 1) -> float | None:
    """Return the best F1 of one of the first k answers and a correct answer; None if no correct answer is known.

    F1 is the harmonic mean of word precision and word recall. An answer without words scores 1 only if the correct
    answer has no words either.

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
"""The measures of hops and pages, which qrels cannot express because a hop may have alternative passages.

MRR is included because it then needs no other library.
"""
ANSWER_MEASURES: Mapping[str, Score] = MappingProxyType({"EM": exact_match, "F1": token_f1})
"""The measures of answers: their functions receive answer texts instead of passage ids."""
_OWN: Mapping[str, Score] = MappingProxyType({**MEASURES, **ANSWER_MEASURES})
BINARY = frozenset({"LastHop", "FullSup", "EM", "Success"})
"""The names of the measures whose value for a query is 0 or 1."""
COUNTS = frozenset({"Pages"})
"""The names of the measures that are counts; all other measures are shares in [0, 1]. A larger count is not a better
result.
"""


@dataclass(frozen=True, slots=True, order=True)
class Measure:
    """A measure at a depth, such as ``LastHop@5``.

    Parameters
    ----------
    name : str
        A key of ``MEASURES`` or ``ANSWER_MEASURES``, or the name of a measure of ir-measures (``Success``, ``P``,
        ``AP``, ...). For ir-measures, a passage is relevant if its grade is above 0; without grades, every passage of
        every hop is relevant.
    k : int
        Depth, >= 1: the number of ids, or of answers, from the top that count.

    Raises
    ------
    InvalidInputError
        For an unknown name or a depth below 1.
    MissingDependencyError
        If ir-measures must compute the measure and is not installed.

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
        """The factor by which a value is multiplied for display: 100 (percentages), or 1 for a count."""
        return 1.0 if self.name in COUNTS else 100.0

    @property
    def about(self) -> str:
        """The description of the measure in one line; empty for a measure of ir-measures."""
        return (inspect.getdoc(_OWN[self.name]) or "").partition("\n")[0] if self.name in _OWN else ""

    def __call__(self, ids: Sequence[str], judgement: Judgement) -> float | None:
        """Return the value of the measure for one ranking, or None if the measure leaves the query out."""
        if self.name in _OWN:
            return _OWN[self.name](ids, judgement, self.k)
        return float(values_of({judgement.query: ids}, [judgement], self)[0])

    @classmethod
    def parse(cls, text: str) -> Measure:
        """Parse a text such as ``"LastHop@5"``; ``"F1"`` and ``"EM"`` have depth 1 (the first answer)."""
        if text in ANSWER_MEASURES:
            return cls(text, 1)
        parts = re.fullmatch(r"([A-Za-z]+)@([0-9]{1,9})", text)
        if parts is None:
            raise InvalidInputError(f"a measure must have the form NAME@DEPTH, such as LastHop@5; got {text!r}")
        return cls(parts[1], int(parts[2]))

    def _foreign(self) -> Any:
        """Return the ir-measures object of this measure."""
        ours = ", ".join(_OWN)
        with needed(
            f"{self.name} is no built-in measure ({ours}); for a measure of ir-measures: pip install 'phasegraph[eval]'"
        ):
            import ir_measures
        try:
            # The text parser of ir-measures uses parts of `ast` that Python 3.14 removed, so look the name up directly.
            return ir_measures.measures.registry[self.name] @ self.k
        except (KeyError, ValueError, AttributeError, TypeError) as error:
            raise InvalidInputError(
                f"measure must be one of {ours}, or a measure of ir-measures; got {self.name!r}"
            ) from error


DEFAULT_MEASURES: tuple[Measure, ...] = tuple(
    Measure(name, k) for name in ("LastHop", "FullSup", "Recall") for k in (5, 10)
)
PAGE_MEASURES: tuple[Measure, ...] = tuple(Measure(name, k) for name in ("PageRecall", "Pages") for k in (5, 10))
"""The additional measures for data sets whose queries name the pages that answer them."""


def score_run(
    found: Mapping[str, Sequence[str]],
    judgements: Sequence[Judgement],
    measure: Measure,
    *,
    corpus: Collection[str] = (),
) -> FloatArray:
    """Compute one measure for every judged query.

    Parameters
    ----------
    found : mapping of str to sequence of str
        Ids, best first, by query id. A judged query without an entry counts as an empty ranking: its score is 0, and it
        stays in the mean.
    judgements : sequence of Judgement
        The judgements of the n queries.
    measure : Measure
        The measure to compute, at a depth.
    corpus : collection of str, optional
        Ids of the corpus passages. If ids were found, at least one found id must be in `corpus` or be judged for some
        query.

    Returns
    -------
    (n,) array of float
        Values in the order of `judgements`, in [0, 1] or counts. NaN only for a query that the measure leaves out, such
        as LastHop with an unknown last hop.

    Raises
    ------
    InvalidInputError
        If ids were found, but no found id is in the judgements or in the corpus.

    Examples
    --------
    >>> judged = [Judgement("q1", (("a",),)), Judgement("q2", (("b",),))]
    >>> score_run({"q1": ["a"]}, judged, Measure("Recall", 5))
    array([1., 0.])
    """
    values = values_of(found, judgements, measure)
    if measure.name not in ANSWER_MEASURES:
        check_known(found, judgements, corpus)
    return values


def values_of(found: Mapping[str, Sequence[str]], judgements: Sequence[Judgement], measure: Measure) -> FloatArray:
    """Compute one measure per judged query as :func:`score_run` does, without checking that the ids are known."""
    if measure.name not in _OWN:
        return _by_ir_measures(found, judgements, measure)
    scores = (measure(found.get(judgement.query, ()), judgement) for judgement in judgements)
    return np.array([np.nan if score is None else score for score in scores])


def _by_ir_measures(
    found: Mapping[str, Sequence[str]], judgements: Sequence[Judgement], measure: Measure
) -> FloatArray:
    """Compute a measure with ir-measures; a query for which ir-measures returns no value scores 0."""
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
    """Return integer grades by passage id, which ir-measures requires.

    If a grade is a fraction, each grade above 0 becomes 1.
    """
    if not judgement.grades:
        return dict.fromkeys(judgement.passages, 1)
    whole = all(float(grade).is_integer() for grade in judgement.grades.values())
    return {passage: int(grade if whole else grade > 0) for passage, grade in judgement.grades.items()}


def surrogate_scores(count: int) -> FloatArray:
    """Return the scores `count`, `count` - 1, …, 1; with them, no tool's rule for ties can reorder a ranking."""
    return np.arange(count, 0, -1, dtype=np.float64)
