"""The confidence that the corpus contains an answer, from the scores of the hits and the query's words in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_choice, check_keys, check_number, check_range, check_text
from phasegraph.errors import InsufficientDataError, InvalidInputError, NotConvergedError
from phasegraph.fusion.weighting import VECTOR
from phasegraph.lexical import HitWords
from phasegraph.ranking import Ranking

COSINE_BAR, COSINE_WIDTH = 0.48, 0.03
BAR_LEVEL, WIDTH_SHARE = 0.05, 0.25
LEAST_QUERIES = 20
TOGETHER_HALF = 0.6
"""The value of t at which the factor ``t / (t + .6)`` is 1/2; see the notes of :class:`ConfidenceModel`."""
_WALK_WEIGHT, _NAMED_WEIGHT = 2.0, 0.3
_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Confidence:
    """A threshold on the confidence of an answer, for the argument ``accept`` of a retriever.

    Parameters
    ----------
    min : float
        Lowest accepted ``Result.confidence``, in [0, 1]. An answer with a lower confidence is empty, with the reason
        ``abstained``. The settings `min_keep` and `on_empty` of a policy do not fill this empty answer.
    unknown : {"accept", "abstain"}, default "accept"
        Whether to accept an answer without a confidence; the result then contains a warning.

    Examples
    --------
    >>> Confidence(min=0.2)
    Confidence(min=0.2, unknown='accept')
    """

    min: float
    unknown: Literal["accept", "abstain"] = "accept"

    def __post_init__(self) -> None:
        check_range("Confidence.min", self.min, 0, 1)
        check_choice("Confidence.unknown", self.unknown, ("accept", "abstain"))

    def holds_back(self, value: float | None) -> bool:
        """Return True if an answer with the confidence `value` must be empty; None stands for an unknown confidence."""
        return self.unknown == "abstain" if value is None else value < self.min

    def to_dict(self) -> dict[str, object]:
        """Return the threshold in plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, object], /) -> Confidence:
        """Create the threshold from the output of :meth:`to_dict`."""
        return cls(**check_keys("Confidence", data, cls.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class ConfidenceEvidence:
    """A confidence and its components.

    Parameters
    ----------
    value : float or None
        The confidence, in [0, 1]; None if the data is not sufficient.
    top : float or None
        The best score of the source ``vector``; higher is better.
    nearness : float or None
        A factor in [0, 1] that increases with `top`, and is 1/2 at the model's `bar`. None if `top` is not a cosine and
        the model is not fitted.
    covers : mapping of str to float
        For each source, the share in [0, 1] of the query's words that its first 5 hits contain. Words are weighted by
        their squared inverse document frequency (idf).
    named : float or None
        The degree, in [0, 1], to which the query names the subject of a passage; None without a graph walk that has
        word statistics.
    probability : bool
        Whether `value` is a probability, fitted to judged queries.
    reason : str
        The reason for a missing confidence, or the data that the confidence lacks; empty if it lacks no data.
    together : float or None
        A factor in [0, 1) that replaces a missing `nearness`. It increases with the best word score of a hit.
    without : str
        The codes of the data that the confidence lacks, as in :class:`ConfidenceModel`; ``no_hits`` without any hit.

    Examples
    --------
    >>> print(ConfidenceEvidence(0.62, top=0.51, nearness=0.73, covers={"graph": 0.9, "vector": 0.6}, named=0.5))
    0.62 (0 to 1; high if it is likely that the corpus contains an answer)
    top: 0.51 (best score of 'vector'; high if its passage resembles the question)
    nearness: 0.73 (top on a scale from 0 to 1; 0.5 is the bar of the confidence model)
    covers: 90% in graph, 60% in vector (share of the question's words in the first hits; rare words count more)
    named: 0.50 (0 to 1; high if the question names the subject of a passage)
    """

    value: float | None = None
    top: float | None = None
    nearness: float | None = None
    covers: Mapping[str, float] | None = None
    named: float | None = None
    probability: bool = False
    reason: str = ""
    together: float | None = None
    without: str = ""

    @property
    def summary(self) -> str:
        """The confidence and what it lacks, in one line."""
        if self.value is None:
            return f"none: {self.reason}"
        scale = "the probability" if self.probability else "0 to 1; high if it is likely"
        said = f"{self.value:.2f} ({scale} that the corpus contains an answer)"
        return f"{said}, {self.reason}" if self.reason else said

    def __str__(self) -> str:
        lines = [self.summary]
        if self.top is not None:
            lines.append(f"top: {self.top:.3g} (best score of {VECTOR!r}; high if its passage resembles the question)")
        if self.nearness is not None:
            meaning = "top on a scale from 0 to 1; 0.5 is the bar of the confidence model"
            lines.append(f"nearness: {self.nearness:.2f} ({meaning})")
        if self.together is not None:
            lines.append(
                f"together: {self.together:.2f} (0 to 1; high if one hit contains many rare words of the question)"
            )
        if self.covers:
            shares = ", ".join(f"{share:.0%} in {name}" for name, share in self.covers.items())
            meaning = "share of the question's words in the first hits; rare words count more"
            lines.append(f"covers: {shares} ({meaning})")
        if self.named is not None:
            lines.append(f"named: {self.named:.2f} (0 to 1; high if the question names the subject of a passage)")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ConfidenceModel:
    """The model that computes the confidence of a result; ``calibrate`` fits it.

    Parameters
    ----------
    bar : float, optional
        The similarity at which the factor for similarity is 1/2. Default: 0.48, which applies only to cosines.
    width : float, default 0.03
        The scale on which this factor increases, in the unit of the similarity, > 0.
    slope, intercept : float, optional
        The parameters of the probability ``sigmoid(slope * logit(confidence) + intercept)``, slope > 0. Give both
        parameters or neither.
    without : str
        The data that was missing for the confidences to which the probability was fitted: the codes ``no_walk``,
        ``no_vector`` and ``no_cosines``, joined by commas. A confidence that lacks other data does not become a
        probability. The text of ``ConfidenceEvidence.reason`` for these codes is also accepted, as older files store.

    Notes
    -----
    Let c be the best score of the source ``vector``. The confidence is ``sigmoid((c - bar) / width) * e`` with ``e =
    (q_v + 2 q_g + .3 a) / 3.3``. Here, q_v is the share of the query's distinct words that the first 5 hits of the
    vector source contain, weighted by squared idf; q_g is the same share for the first 5 hits of the graph walk. An
    unknown word counts as the rarest word. The variable a is the degree to which the query names the subject of a
    passage. Without the vector source, e is ``(2 q_g + .3 a) / 2.3``. Without a graph walk that has word statistics, e
    is ``(q + .3) / 1.3``. Here, q is the mean share over all sources, and the idf comes from the hits.

    Without a similarity, words replace it, and the confidence is ``t / (t + .6) * e``. Here, t is the best BM25 score
    of a hit, divided by the largest idf of a query word. This factor is always below 1, because a hit that contains the
    words need not contain an answer. The similarity is missing without the source ``vector``, or if its best score is
    not a cosine and the model is not fitted.

    The authors of phasegraph developed this method on open data; ``docs/guide/thresholds.md`` contains the
    measurements. The default `bar` and `width` fit cosines of the model MiniLM; for another model, use ``calibrate``.
    The probability follows Platt [1]_, applied to the logit of the confidence.

    References
    ----------
    .. [1] Platt, "Probabilistic outputs for support vector machines", Advances in large margin classifiers, 1999

    Examples
    --------
    >>> from phasegraph.ranking import QueryWords
    >>> walk = Ranking("graph", ["a"], [2.0], words=QueryWords({"ada": 3.0}, named=1.0))
    >>> both = [walk, Ranking("vector", ["a"], [0.54])]
    >>> ConfidenceModel().judge(both, HitWords(covers={"graph": 1.0, "vector": 1.0})).value.__round__(3)
    0.881
    >>> ConfidenceModel().judge(both[1:], None).value is None
    True
    """

    bar: float | None = None
    width: float = COSINE_WIDTH
    slope: float | None = None
    intercept: float | None = None
    without: str = ""

    def __post_init__(self) -> None:
        if self.bar is not None:
            check_number("ConfidenceModel.bar", self.bar, minimum=None)
        check_range("ConfidenceModel.width", self.width, ends="(]")
        if (self.slope is None) != (self.intercept is None):
            raise InvalidInputError(
                "give both ConfidenceModel.slope and .intercept, or neither; got the values "
                f"{self.slope!r} and {self.intercept!r}"
            )
        if self.slope is not None and self.intercept is not None:
            check_range("ConfidenceModel.slope", self.slope, ends="(]")
            check_number("ConfidenceModel.intercept", self.intercept, minimum=None)
        without = check_text("ConfidenceModel.without", self.without)
        for text, code in _OLD_TEXTS.items():
            without = without.replace(text, code)
        without = without.replace(", ", ",")
        if not {*without.split(",")} <= {"", *_TEXTS}:
            raise InvalidInputError(
                f"ConfidenceModel.without must be empty or one or more of {', '.join(_TEXTS)}; got {self.without!r}"
            )
        object.__setattr__(self, "without", without)

    def judge(self, rankings: Sequence[Ranking], words: HitWords | None) -> ConfidenceEvidence:
        """Compute the confidence of an answer from the rankings of its sources.

        Parameters
        ----------
        rankings : sequence of Ranking
            The rankings with at least one hit.
        words : HitWords or None
            The query's words in the texts of the hits; see :func:`phasegraph.lexical.read_hits`.

        Returns
        -------
        ConfidenceEvidence
            The confidence with its components; the confidence is 0 without rankings.
        """
        if not rankings:
            return ConfidenceEvidence(0.0, reason="no source found anything", without=_NO_HITS)
        vector = next((one for one in rankings if one.source == VECTOR), None)
        walk = next((one for one in rankings if one.words is not None), None)
        top = None if vector is None or vector.rank_only else float(vector.scores[0])
        near = None if vector is None or top is None else self._nearness(top, vector)
        known = words or HitWords()
        covers = {one.source: known.covers[one.source] for one in rankings if one.source in known.covers}
        if not covers:
            return ConfidenceEvidence(None, top, near, reason=_NOT_READ if words is None else _NO_WORDS)
        named = walk.words.named if walk is not None and walk.words is not None and walk.source in covers else None
        if walk is None or named is None:
            value = (sum(covers.values()) / len(covers) + _NAMED_WEIGHT) / (1.0 + _NAMED_WEIGHT)
        else:
            parts = [(_WALK_WEIGHT, covers[walk.source]), (_NAMED_WEIGHT, named)]
            parts += [(1.0, covers[VECTOR])] if VECTOR in covers else []
            value = sum(weight * share for weight, share in parts) / sum(weight for weight, _ in parts)
        missing = ["no_walk"] if named is None else []
        together = None
        if near is None:
            missing.append("no_vector" if vector is None else "no_cosines")
            value *= (together := known.together / (known.together + TOGETHER_HALF))
        else:
            value *= near
        without, reason = ",".join(missing), ", ".join(map(_TEXTS.__getitem__, missing))
        fitted = self.slope is not None and without == self.without
        value = float(self.probabilities([value])[0]) if fitted else value
        return ConfidenceEvidence(value, top, near, covers, named, fitted, reason, together, without)

    def _nearness(self, top: float, vector: Ranking) -> float | None:
        """Convert `top`, the best score of the ranking `vector`, to a factor of the confidence, in [0, 1].

        Return None if `top` is not a cosine and the model has no fitted `bar`.
        """
        cosine = -1.0 <= top <= 1.0 + 1e-6 and vector.raw is not None and vector.raw[0] == top
        if self.bar is None and not cosine:
            return None
        return float(_sigmoid((top - (COSINE_BAR if self.bar is None else self.bar)) / self.width))

    def probabilities(self, values: ArrayLike) -> FloatArray:
        """Convert n confidences to (n,) probabilities that the corpus contains an answer.

        Raise InvalidInputError if the model has no `slope` and `intercept`.
        """
        if self.slope is None or self.intercept is None:
            raise InvalidInputError(
                "a ConfidenceModel without slope and intercept has no probabilities: calibrate with judged queries "
                "first"
            )
        return _sigmoid(self.slope * _logit(values) + self.intercept)

    def to_dict(self) -> dict[str, object]:
        """Return the model in plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, object], /) -> ConfidenceModel:
        """Create the model from the output of :meth:`to_dict`."""
        return cls(**check_keys("ConfidenceModel", data, cls.__dataclass_fields__))


_NOT_READ = (
    "no source knows the words, and the texts of the hits were not read; use explain() or accept=Confidence(...)"
)
_NO_HITS = "no_hits"
"""The code in ``ConfidenceEvidence.without`` if no source has a hit; no fit uses such an answer."""
_NO_WORDS = "the question has no words to search for, or no hit has a text"
_TEXTS = {
    "no_walk": "without a walk that knows the words",
    "no_vector": "without vectors (no source is named 'vector')",
    "no_cosines": "without the scores of 'vector', which are no cosines: calibrate first",
}
"""The text for each code in ``ConfidenceEvidence.without``."""
_OLD_TEXTS = {
    "without a walk that knows the words": "no_walk",
    "without vectors (no source is named 'vector')": "no_vector",
    "without the scores of 'vector', which are no cosines: calibrate first": "no_cosines",
}
"""The texts that older files of ``ConfidenceModel`` store instead of codes; do not change these texts."""


def fit_bar(model: ConfidenceModel, tops: Sequence[float]) -> ConfidenceModel:
    """Return a copy of the model with `bar` and `width` fitted to the best scores of questions without judgements.

    Parameters
    ----------
    model : ConfidenceModel
        The model to change.
    tops : sequence of float
        The best score of the source ``vector`` for each question; higher is better. The bar is the 5th percentile, and
        the width is a quarter of the distance from the bar to the median. With fewer than 20 scores, or with a width of
        0, the model is unchanged.

    Examples
    --------
    >>> fit_bar(ConfidenceModel(), [0.5 + i / 100 for i in range(21)])
    ConfidenceModel(bar=0.51, width=0.0225, slope=None, intercept=None, without='')
    """
    if len(tops) < LEAST_QUERIES:
        return model
    bar, middle = (round(float(np.quantile(tops, level)), 9) for level in (BAR_LEVEL, 0.5))
    width = round(WIDTH_SHARE * (middle - bar), 9)
    return replace(model, bar=bar, width=width, slope=None, intercept=None, without="") if width > 0 else model


def fit_probability(
    model: ConfidenceModel, answerable: Sequence[ConfidenceEvidence], others: Sequence[ConfidenceEvidence]
) -> ConfidenceModel:
    """Return a copy of the model with fitted `slope` and `intercept`; the confidences of the copy are probabilities.

    Parameters
    ----------
    model : ConfidenceModel
        The model that computed the confidences, without a probability.
    answerable, others : sequence of ConfidenceEvidence
        The confidences of questions that the corpus answers, and of questions that it does not answer.

    Returns
    -------
    ConfidenceModel
        The fitted model. Its probabilities assume that the two kinds of questions are as frequent as in this sample.

    Raises
    ------
    InsufficientDataError
        If fewer than 20 questions of a kind have a confidence, or the confidence does not separate the two kinds.
    NotConvergedError
        If the optimizer stops before it reaches its tolerance.

    Notes
    -----
    The fit uses only confidences that lack the same data, the most frequent value of `without`; it ignores all other
    questions. The fit uses Platt's targets: (n + 1) / (n + 2) for n questions with an answer, and 1 / (n + 2)
    for n questions without an answer.

    Examples
    --------
    >>> good, poor = ([ConfidenceEvidence(low + i / 50, 0.6, 0.9) for i in range(25)] for low in (0.4, 0.1))
    >>> fitted = fit_probability(ConfidenceModel(), good, poor)
    >>> fitted.probabilities([0.4, 0.5, 0.6]).round(2)
    array([0.29, 0.53, 0.76])
    """
    from scipy.optimize import minimize  # imported on first use, because this import takes longer than numpy's import

    known = [
        [one for one in kind if one.value is not None and one.without != _NO_HITS] for kind in (answerable, others)
    ]
    usual = Counter(one.without for kind in known for one in kind).most_common(1)
    without = usual[0][0] if usual else ""
    good, poor = ([one.value for one in kind if one.value is not None and one.without == without] for kind in known)
    if min(len(good), len(poor)) < LEAST_QUERIES:
        raise InsufficientDataError(
            f"a probability needs at least {LEAST_QUERIES} questions with an answer and {LEAST_QUERIES} questions "
            f"without an answer, each with a confidence; got {len(good)} and {len(poor)}"
        )
    logits = _logit([*good, *poor])
    goal = np.repeat([(len(good) + 1) / (len(good) + 2), 1 / (len(poor) + 2)], [len(good), len(poor)])

    def loss(line: FloatArray) -> tuple[float, FloatArray]:
        found = line[0] * logits + line[1]
        off = _sigmoid(found) - goal
        return float(np.mean(np.logaddexp(0.0, found) - goal * found)), np.array([np.mean(off * logits), off.mean()])

    fit = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=[(0.0, None), (None, None)])
    if not fit.success:
        raise NotConvergedError(f"fitting the probability did not converge: {fit.message}. Judge more questions")
    if not fit.x[0] > 0:
        raise InsufficientDataError(
            "the confidence of questions with an answer is not higher than the confidence "
            "of questions without an answer: check the judgements and the sources"
        )
    return replace(model, slope=float(fit.x[0]), intercept=float(fit.x[1]), without=without)


def _sigmoid(values: ArrayLike) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(values, -500.0, 500.0))))


def _logit(values: ArrayLike) -> FloatArray:
    inside = np.clip(np.asarray(values, dtype=np.float64), _LEAST, 1.0 - _LEAST)
    return np.asarray(np.log(inside / (1.0 - inside)))
