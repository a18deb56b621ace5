"""Recommend a retrieval method for a data set from its table of results.

The recommendation is the simplest method that no other method clearly beats. "Walk" means the graph walk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from phasegraph.evaluation.experiment import Table
from phasegraph.evaluation.measures import COUNTS, Measure
from phasegraph.evaluation.significance import bootstrap_intervals

FUSED_WORDS = ("rrf-words", "relative-words")
"""The systems that fuse vectors and BM25 without the graph walk."""
WITHOUT_WALK = ("vector", "bm25", *FUSED_WORDS)
FUSED_WALK = ("rrf", "min-max-sum", "rrf-three", "relative-three")
"""The systems that apply the frameworks' fusion rules to sources that include phasegraph's graph walk."""
SIMPLE = (
    *WITHOUT_WALK, *FUSED_WALK,
    "ensemble", "fusion-reciprocal", "fusion-relative", "fusion-distance",
    "ensemble-three", "fusion-reciprocal-three", "fusion-relative-three",
)  # fmt: skip
"""The single sources, the frameworks' fusion rules, and the frameworks' own classes, which break ties differently."""

LEAST_QUESTIONS = 40
"""Minimum number of questions for a recommendation."""

Choice: TypeAlias = Literal["vectors", "bm25", "words", "default", "fusion", "own", "plain", "undecided"]


@dataclass(frozen=True, slots=True)
class Gain:
    """The difference between two systems in one measure on the same queries.

    Parameters
    ----------
    system, over : str
        Names in the table: the gain is that of `system` over `over`.
    mean, low, high : float
        Mean difference and the ends of its 95 % interval (paired bootstrap), in [-1, 1].
    """

    system: str
    over: str
    mean: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """The difference and its interval in percentage points, such as ``+4.2 [+1.1, +7.3]``."""
        return f"{100 * self.mean:+.1f} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"

    def to_dict(self) -> dict[str, object]:
        """Return the gain as JSON types, in percentage points."""
        points = {"difference": 100 * self.mean, "low": 100 * self.low, "high": 100 * self.high}
        return {"system": self.system, "over": self.over, **points}


def gain_of(table: Table, system: str, over: str, measure: Measure) -> Gain:
    """Compute the gain of one system over another in one measure of a table.

    Examples
    --------
    >>> from phasegraph.evaluation.judgements import Judgement
    >>> from phasegraph.evaluation.experiment import Answers, compare
    >>> goal, judged = Measure("Recall", 5), [Judgement("q1", (("a",),)), Judgement("q2", (("b",),))]
    >>> found = [Answers("vector", {"q1": ("a",)}), Answers("default", {"q1": ("a",), "q2": ("b",)})]
    >>> gain_of(compare(found, judged, measures=[goal]), "default", "vector", goal).text
    '+50.0 [+0.0, +100.0]'
    """
    column = table.measures.index(measure)
    difference = table.values[system][:, [column]] - table.values[over][:, [column]]
    low, high = bootstrap_intervals(difference, groups=table.groups)[0].tolist()
    return Gain(system, over, table[system].means[measure] - table[over].means[measure], low, high)


def best_of(table: Table, names: Sequence[str], measure: Measure) -> str:
    """Return the name in `names` with the highest mean in the table; on a tie, the first name."""
    means = {row.name: row.means[measure] for row in table.rows}
    return max((name for name in names if name in means), key=means.__getitem__)


def best_simple(table: Table) -> dict[Measure, str]:
    """Return by measure the best simple system: vectors, BM25, or a framework's fusion of vectors, BM25 and the walk.

    The result is empty if a system without a walk is missing from the table, because the missing system might be the
    best. The best system is chosen on the queries on which it is measured. A comparison with the best simple system
    therefore favors the simple system. Measures that are counts have no best system.
    """
    if not _has(table, WITHOUT_WALK):
        return {}
    return {measure: best_of(table, SIMPLE, measure) for measure in table.tests if measure.name not in COUNTS}


def _has(table: Table, names: Sequence[str]) -> bool:
    return {row.name for row in table.rows}.issuperset(names)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The method to use on a data set.

    Parameters
    ----------
    choice : {"vectors", "bm25", "words", "default", "fusion", "own", "plain", "undecided"}
        The method. ``"vectors"`` and ``"bm25"``: this source alone. ``"words"``: vectors and BM25, fused.
        ``"fusion"``: a fixed fusion with the walk. ``"default"``: phasegraph's default pipeline. ``"undecided"``: there
        are fewer than `LEAST_QUESTIONS` questions. A comparison with a user's own retriever can also give ``"own"``
        (this retriever) or ``"plain"`` (a simple system).
    sentence : str
        A sentence that names the choice and the figures that decided it.
    """

    choice: Choice
    sentence: str


def recommend(
    words: Gain, bm25: Gain, over_bm25: Gain, default: Gain, fusion: Gain, ahead: Gain, measure: str = "Recall@5"
) -> Recommendation:
    """Choose the simplest method that no other method clearly beats: a gain is clear if its whole interval is above 0.

    Parameters
    ----------
    words : Gain
        The gain of the better fusion of vectors and BM25 over vectors.
    bm25 : Gain
        The gain of BM25 over vectors.
    over_bm25 : Gain
        The gain of the fusion of `words` over BM25. BM25 alone is simpler than the fusion: if BM25 clearly beats
        vectors, it is chosen unless the fusion clearly beats it.
    default : Gain
        The gain of the default over the best system without a walk.
    fusion : Gain
        The gain of the best fixed fusion with the walk over the best system without a walk.
    ahead : Gain
        The gain of that fixed fusion with the walk over the default.
    measure : str, default "Recall@5"
        The measure of the gains, for the sentence.

    Returns
    -------
    Recommendation
        The chosen method, and a sentence with the deciding figures.

    Examples
    --------
    >>> level, worse = Gain("relative-words", "vector", 0.0, -0.02, 0.02), Gain("bm25", "vector", -0.2, -0.3, -0.1)
    >>> behind, over = Gain("default", "vector", -0.04, -0.07, -0.01), Gain("relative-words", "bm25", 0.2, 0.1, 0.3)
    >>> recommend(level, worse, over, behind, Gain("rrf", "vector", 0.01, -0.01, 0.03), behind).choice
    'vectors'
    """
    points = f"points of {measure}"
    if default.low > 0 and ahead.low <= 0:
        gain = f"it gains {default.text} {points} over {default.over}, the best simple way without the walk"
        return Recommendation("default", f"use the default: {gain}")
    if fusion.low > 0:
        gain = f"it gains {fusion.text} {points} over {fusion.over}, the best simple way without the walk"
        return Recommendation(
            "fusion", f"use {fusion.system}, a fixed fusion with the walk: {gain}; the default gains {default.text}"
        )
    walk = f"the walk does not clearly help here (the default gains {default.text} over {default.over})"
    if bm25.low > 0 and over_bm25.low <= 0:
        gain = f"it gains {bm25.text} {points} over vectors"
        beaten = f"the fusion {over_bm25.system} does not clearly beat BM25 ({over_bm25.text})"
        return Recommendation("bm25", f"BM25 alone is enough: {gain}; {beaten}; {walk}")
    if words.low > 0:
        gain = f"{words.system} gains {words.text} {points} over vectors"
        return Recommendation("words", f"fuse vectors and BM25: {gain}; {walk}")
    gain = f"fusing them with BM25 ({words.system}) gains {words.text} {points}"
    return Recommendation("vectors", f"plain vectors are enough: {gain}; {walk}")


def _too_few(questions: int) -> str:
    return f"too few questions ({questions}): ask {LEAST_QUESTIONS} or more for a recommendation"


RECOMMENDED_BY = Measure("Recall", 5)
WEIGHED = (*WITHOUT_WALK, *FUSED_WALK, "default")
"""The names of the systems that a recommendation compares; the table must contain all of them."""


def recommendation_of(table: Table, measure: Measure = RECOMMENDED_BY) -> Recommendation | None:
    """Return the recommendation by one measure of a table; None if a compared system is missing from the table."""
    if measure not in table.tests or not _has(table, WEIGHED):
        return None
    if len(table.queries) < LEAST_QUESTIONS:
        return Recommendation("undecided", _too_few(len(table.queries)))
    words = gain_of(table, best_of(table, FUSED_WORDS, measure), "vector", measure)
    bm25, over_bm25 = gain_of(table, "bm25", "vector", measure), gain_of(table, words.system, "bm25", measure)
    plain, fused = best_of(table, WITHOUT_WALK, measure), best_of(table, FUSED_WALK, measure)
    default, fusion = gain_of(table, "default", plain, measure), gain_of(table, fused, plain, measure)
    ahead = gain_of(table, fused, "default", measure)
    return recommend(words, bm25, over_bm25, default, fusion, ahead, str(measure))


def recommend_beside(gain: Gain, plain: Gain, ahead: Gain, questions: int, measure: str = "Recall@5") -> Recommendation:
    """Choose between a user's own retriever, a simple system and the default; a clear gain has an interval above 0.

    The default is chosen if it clearly beats both the user's retriever and the best simple system. Otherwise, the
    simple system is chosen if it, or the default, clearly beats the user's retriever. Otherwise the user's retriever
    stays.

    Parameters
    ----------
    gain : Gain
        The gain of the default over the user's retriever.
    plain : Gain
        The gain of the best simple system, such as BM25, over the user's retriever.
    ahead : Gain
        The gain of the default over that simple system.
    questions : int
        Number of questions that were asked.
    measure : str, default "Recall@5"
        The measure of the gains, for the sentence.

    Returns
    -------
    Recommendation
        The chosen method, and a sentence with the deciding figures.

    Examples
    --------
    >>> level = Gain("phasegraph", "mine", 0.01, -0.03, 0.05)
    >>> found = recommend_beside(level, Gain("bm25", "mine", -0.1, -0.2, -0.02), level, 40)
    >>> found.choice, found.sentence[:26]
    ('own', "you don't need phasegraph:")
    """
    points, over = f"points of {measure}", f"{gain.text} points of {measure} over {gain.over}"
    if questions < LEAST_QUESTIONS:
        return Recommendation("undecided", f"{_too_few(questions)}. So far, {gain.system} gains {over}")
    if gain.low > 0 and ahead.low > 0:
        best = f"and {ahead.text} over {ahead.over}, the best of the plain ways"
        return Recommendation("default", f"use {gain.system}: it gains {over}, {best}")
    if plain.low > 0 or gain.low > 0:
        both = f"{gain.system} gains {gain.text} and {plain.system} {plain.text} {points} over {gain.over}"
        return Recommendation(
            "plain",
            f"you don't need {gain.system}: {plain.system} is enough. {both}; {gain.system} gains {ahead.text} over "
            f"{plain.system}",
        )
    if gain.high < 0:
        return Recommendation(
            "own", f"you don't need {gain.system}: {gain.over} finds more. {gain.system} gains {over}"
        )
    most = f"more than {100 * gain.high:.1f} points are unlikely"
    return Recommendation(
        "own", f"you don't need {gain.system}: it does not clearly beat {gain.over}. It gains {over}; {most}"
    )


def recommendation_beside(table: Table, ours: str, measure: Measure) -> Recommendation:
    """Return the recommendation for a table with a user's own retriever as baseline and simple systems as other rows.

    `ours` is the name of the row of phasegraph's default.
    """
    own, names = table.baseline, [row.name for row in table.rows]
    gain = gain_of(table, ours, own, measure)
    best = best_of(table, [name for name in names if name not in (own, ours)], measure)
    plain, ahead = gain_of(table, best, own, measure), gain_of(table, ours, best, measure)
    return recommend_beside(gain, plain, ahead, len(table.queries), str(measure))
