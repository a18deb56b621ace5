"""Does this corpus hold an answer? One number per result, from what was found and the query's words in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._support.typing import FloatArray
from phasegraph._support.validation import check_choice, check_keys, check_number, check_range
from phasegraph.errors import InsufficientDataError, InvalidInputError, NotConvergedError
from phasegraph.fusion.weighting import VECTOR
from phasegraph.lexical import HitWords
from phasegraph.ranking import Ranking

COSINE_BAR, COSINE_WIDTH = 0.48, 0.03
BAR_LEVEL, WIDTH_SHARE = 0.05, 0.25
LEAST_QUERIES = 20
_WALK_WEIGHT, _NAMED_WEIGHT = 2.0, 0.3
_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Confidence:
    """A threshold on confidence, for ``accept=``: no result where the corpus may well hold no answer.

    Parameters
    ----------
    min : float
        In [0, 1]; a result whose ``Result.confidence`` is lower comes back empty, with the reason ``abstained``. The
        `min_keep` and `on_empty` of a policy change nothing about it.
    unknown : {"accept", "abstain"}, default "accept"
        What a result without a confidence means. Where it is accepted, the result warns.

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
        """Whether a result of this confidence is withheld."""
        return self.unknown == "abstain" if value is None else value < self.min

    def to_dict(self) -> dict[str, object]:
        """Plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, object], /) -> Confidence:
        """The value that :meth:`to_dict` wrote."""
        return cls(**check_keys("Confidence", data, cls.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class ConfidenceEvidence:
    """The parts of a confidence.

    Parameters
    ----------
    value : float or None
        In [0, 1]; None where there is nothing to judge by.
    top : float or None
        The best score of the source named ``vector``, higher is better.
    nearness : float or None
        In [0, 1]: how far `top` stands above the bar; None where it cannot be judged.
    covers : mapping of str to float
        Per source, the share in [0, 1] of the query's words, weighted by idf squared, that its first 5 hits have.
    named : float or None
        In [0, 1]: how far the query names what some passage is about; None without a walk that knows the words.
    probability : bool
        Whether `value` is one, fitted to judged queries.
    reason : str
        Why there is no confidence, or what it had to do without; empty where nothing is missing.
    """

    value: float | None = None
    top: float | None = None
    nearness: float | None = None
    covers: Mapping[str, float] | None = None
    named: float | None = None
    probability: bool = False
    reason: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return f"none: {self.reason}"
        said = [f"{self.value:.2f}" + (" (a probability)" if self.probability else "")]
        if self.top is not None and self.nearness is not None:
            said.append(f"best similarity {self.top:.3g} counts {self.nearness:.2f}")
        said += [f"{share:.0%} of the words in the first hits of {name}" for name, share in (self.covers or {}).items()]
        return ", ".join([*said, self.reason] if self.reason else said)


@dataclass(frozen=True, slots=True)
class ConfidenceModel:
    """The model that gives a result its confidence; ``calibrate`` fits it.

    Parameters
    ----------
    bar : float, optional
        The similarity that counts half. Default: .48, and only for cosines.
    width : float, default 0.03
        How quickly it counts more, in the unit of the similarity; > 0.
    slope, intercept : float, optional
        Of the probability, ``sigmoid(slope * logit(confidence) + intercept)``, slope > 0; both or neither.
    without : str
        What the confidences had to do without that the probability was fitted to.

    Notes
    -----
    Where the source named ``vector`` has the best score c, the confidence is ``sigmoid((c - bar) / width) * e`` with
    ``e = (q_v + 2 q_g + .3 a) / 3.3``: q is the share of the query's distinct words, weighted by idf squared, in the
    first 5 hits of the vectors (v) and of the walk (g), a how far the query names what passages are about. An unknown
    word counts as the rarest. Without vectors e is (2 q_g + .3 a) / 2.3. Without a walk that knows the words, e is
    (q + .3) / 1.3, q the mean over all sources, and idf is that of the hits at hand. Where the best score is no cosine
    and nothing was fitted, the confidence is e alone.

    Ours, found on open data, no published method; figures in ``docs/guide/thresholds.md``. The bar and the width are
    those of MiniLM's cosines: another model needs ``calibrate``. The probability is Platt's, over the logit.

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
            raise InvalidInputError("ConfidenceModel.slope and .intercept must both be given or neither")
        if self.slope is not None and self.intercept is not None:
            check_range("ConfidenceModel.slope", self.slope, ends="(]")
            check_number("ConfidenceModel.intercept", self.intercept, minimum=None)

    def judge(self, rankings: Sequence[Ranking], words: HitWords | None) -> ConfidenceEvidence:
        """The confidence of an answer made of these rankings.

        Parameters
        ----------
        rankings : sequence of Ranking
            Of the sources that found something.
        words : HitWords or None
            What the texts of their hits say about the query's words.

        Returns
        -------
        ConfidenceEvidence
            0 where nothing was found.
        """
        if not rankings:
            return ConfidenceEvidence(0.0, reason="no source found anything")
        vector = next((one for one in rankings if one.source == VECTOR), None)
        walk = next((one for one in rankings if one.words is not None), None)
        top = None if vector is None or vector.rank_only else float(vector.scores[0])
        near = None if vector is None or top is None else self._nearness(top, vector)
        known = {} if words is None else words.covers
        covers = {one.source: known[one.source] for one in rankings if one.source in known}
        if not covers:
            return ConfidenceEvidence(None, top, near, reason=_NOT_READ if words is None else _NO_WORDS)
        named = walk.words.named if walk is not None and walk.words is not None and walk.source in covers else None
        if walk is None or named is None:
            value = (sum(covers.values()) / len(covers) + _NAMED_WEIGHT) / (1.0 + _NAMED_WEIGHT)
        else:
            parts = [(_WALK_WEIGHT, covers[walk.source]), (_NAMED_WEIGHT, named)]
            parts += [(1.0, covers[VECTOR])] if VECTOR in covers else []
            value = sum(weight * share for weight, share in parts) / sum(weight for weight, _ in parts)
        without = _NO_WALK if named is None else ""
        if near is None:
            without = ", ".join(filter(None, [without, _NO_VECTOR if vector is None else _NO_COSINES]))
        else:
            value *= near
        if self.slope is None or without != self.without:
            return ConfidenceEvidence(value, top, near, covers, named, reason=without)
        return ConfidenceEvidence(float(self.probabilities([value])[0]), top, near, covers, named, True, without)

    def _nearness(self, top: float, vector: Ranking) -> float | None:
        """How far the best score stands above the bar; None where it is no cosine and nothing was fitted."""
        cosine = -1.0 <= top <= 1.0 + 1e-6 and vector.raw is not None and vector.raw[0] == top
        if self.bar is None and not cosine:
            return None
        return float(_sigmoid((top - (COSINE_BAR if self.bar is None else self.bar)) / self.width))

    def probabilities(self, values: ArrayLike) -> FloatArray:
        """(n,) probabilities of plain confidences."""
        if self.slope is None or self.intercept is None:
            raise InvalidInputError("probabilities need a slope and an intercept; calibrate with judged queries first")
        return _sigmoid(self.slope * _logit(values) + self.intercept)

    def to_dict(self) -> dict[str, object]:
        """Plain JSON types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, object], /) -> ConfidenceModel:
        """The value that :meth:`to_dict` wrote."""
        return cls(**check_keys("ConfidenceModel", data, cls.__dataclass_fields__))


_NOT_READ = "no source knows the words, and the hits were not read for them: explain and accept=Confidence(...) do"
_NO_WORDS = "the question has no words to look for, or no hit has a text to look for them in"
_NO_WALK = "without a walk that knows the words"
_NO_VECTOR = "without a source named 'vector'"
_NO_COSINES = "without the scores of 'vector', which are no cosines: calibrate first"


def fit_bar(model: ConfidenceModel, tops: Sequence[float]) -> ConfidenceModel:
    """The model with the bar and the width of a source of which the best scores of some questions are known.

    Parameters
    ----------
    model : ConfidenceModel
    tops : sequence of float
        Best score of each question, higher is better; no labels. The bar is their 5th percentile, the width a quarter
        of the way from there to the median. Fewer than 20, or all alike, leave the model as it is.

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
    """The model with the probability that the corpus holds an answer.

    Parameters
    ----------
    model : ConfidenceModel
        What judged the questions; it gives no probability yet.
    answerable, others : sequence of ConfidenceEvidence
        Of questions that the corpus answers, and of questions that it doesn't.

    Returns
    -------
    ConfidenceModel
        Its probabilities hold where the two kinds are as frequent as they are here.

    Raises
    ------
    InsufficientDataError
        If fewer than 20 of a kind have a confidence, or it does not tell them apart.
    NotConvergedError
        If the optimiser stops before its tolerance.

    Notes
    -----
    Questions whose confidence had to do without something that that of most had are left out. Targets are Platt's,
    (n + 1) / (n + 2) and 1 / (n + 2).

    Examples
    --------
    >>> good, poor = ([ConfidenceEvidence(low + i / 50, 0.6, 0.9) for i in range(25)] for low in (0.4, 0.1))
    >>> fitted = fit_probability(ConfidenceModel(), good, poor)
    >>> fitted.probabilities([0.4, 0.5, 0.6]).round(2)
    array([0.29, 0.53, 0.76])
    """
    from scipy.optimize import minimize  # imported late: it costs more than numpy itself

    known = [[one for one in kind if one.value is not None] for kind in (answerable, others)]
    usual = Counter(one.reason for kind in known for one in kind).most_common(1)
    without = usual[0][0] if usual else ""
    good, poor = ([one.value for one in kind if one.value is not None and one.reason == without] for kind in known)
    if min(len(good), len(poor)) < LEAST_QUERIES:
        raise InsufficientDataError(
            f"a probability needs at least {LEAST_QUERIES} questions with and without an answer that have a "
            f"confidence; got {len(good)} and {len(poor)}"
        )
    logits = _logit([*good, *poor])
    goal = np.repeat([(len(good) + 1) / (len(good) + 2), 1 / (len(poor) + 2)], [len(good), len(poor)])

    def loss(line: FloatArray) -> tuple[float, FloatArray]:
        found = line[0] * logits + line[1]
        off = _sigmoid(found) - goal
        return float(np.mean(np.logaddexp(0.0, found) - goal * found)), np.array([np.mean(off * logits), off.mean()])

    fit = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=[(0.0, None), (None, None)])
    if not fit.success:
        raise NotConvergedError(f"fitting the probability did not converge: {fit.message}")
    if not fit.x[0] > 0:
        raise InsufficientDataError("the confidence does not tell questions with an answer from those without one")
    return replace(model, slope=float(fit.x[0]), intercept=float(fit.x[1]), without=without)


def _sigmoid(values: ArrayLike) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(values, -500.0, 500.0))))


def _logit(values: ArrayLike) -> FloatArray:
    inside = np.clip(np.asarray(values, dtype=np.float64), _LEAST, 1.0 - _LEAST)
    return np.asarray(np.log(inside / (1.0 - inside)))
