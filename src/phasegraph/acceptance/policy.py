"""Which candidates an answer may use: three-valued verdicts, what an empty set means, which promises hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from phasegraph._support.frozen import by_fields
from phasegraph._support.ordering import top_order
from phasegraph._support.typing import BoolArray, FloatArray, IntArray
from phasegraph._support.validation import check_choice, check_count, check_keys, check_mapping, check_rows
from phasegraph.acceptance.confidence import Confidence
from phasegraph.acceptance.thresholds import GIVEN, Threshold
from phasegraph.candidates import Candidates
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.ranking import RERANK, Ranking

Verdicts: TypeAlias = NDArray[np.int8]
ACCEPT, AMBIGUOUS, REJECT = 1, 0, -1


@dataclass(frozen=True, slots=True)
class Certificate:
    """Whether one threshold's promise holds for one answer.

    Parameters
    ----------
    name : str
        A source, ``common`` or ``final``.
    promise : str
        The sentence.
    valid : bool
        Whether it holds for this answer.
    reason : str
        Why not; empty where it does.
    """

    name: str
    promise: str
    valid: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class AcceptanceOutcome:
    """Verdicts for one answer.

    Parameters
    ----------
    verdicts : (n,) array of int8
        1 accept, 0 ambiguous, -1 reject; one per candidate.
    reason : str
        ``accepted``, ``no_thresholds``, ``no_candidates``, ``all_below_threshold``, ``kept_best`` (`min_keep`
        or ``on_empty="best"`` overruled the thresholds), ``callback``, ``low_confidence``, or ``callback_failed: `` and
        what `on_empty` raised: nothing is accepted then.
    certificates : tuple of Certificate
        One per threshold that promises something and was used.
    """

    verdicts: Verdicts
    reason: str
    certificates: tuple[Certificate, ...] = ()

    @property
    def accepted(self) -> BoolArray:
        """(n,) array of bool."""
        return np.asarray(self.verdicts == ACCEPT)

    @property
    def failed(self) -> bool:
        """Whether `on_empty` raised."""
        return self.reason.startswith("callback_failed")

    @property
    def abstained(self) -> bool:
        """Whether there were candidates and none was accepted."""
        return self.reason in ("all_below_threshold", "low_confidence") or self.failed


def _certificate(
    name: str, threshold: Threshold, answered: Sequence[str], *, overruled: bool, narrowed: bool, exact: bool
) -> Certificate:
    """Whether `threshold`'s promise holds for an answer of the sources `answered`.

    It was `overruled` where something below it was kept all the same, and `narrowed` where another threshold removed
    something that it accepts; `exact` means that the sources must be the same, not only include those it was fitted
    with.
    """
    absent = sorted(set(threshold.sources) - set(answered))
    extra = sorted(set(answered) - set(threshold.sources)) if exact and threshold.sources else []
    reason = ""
    if threshold.revoked:
        reason = f"revoked: {threshold.revoked}"
    elif absent:
        reason = f"fitted with {', '.join(absent)}, which did not answer"
    elif extra:
        reason = f"fitted without {', '.join(extra)}, which answered"
    elif overruled:
        reason = "something below the threshold was kept"
    elif narrowed:
        reason = "another threshold removed part of what it accepts"
    return Certificate(name, threshold.promise, not reason, reason)


OnEmpty: TypeAlias = Literal["abstain", "best"] | Callable[[Candidates, FloatArray], Sequence[str]]


@dataclass(frozen=True, slots=True)
class AcceptancePolicy:
    """Thresholds per source, over calibrated values, for the final score and the confidence, and what no hit means.

    Parameters
    ----------
    thresholds : mapping of str to Threshold or float
        By source, on its own scores; under ``rerank`` on a reranker's. A candidate has the `verdict` of the sources
        that returned it. On a source
        that gives distances a number, and a threshold that was not fitted, is the highest distance that is accepted;
        of one with a `lower` bound distances up to that are accepted, and those up to its value ambiguous.
    final : Threshold or float, optional
        On the published score, in [0, 1].
    common : Threshold or float, optional
        On calibrated values, one for all sources; the best value among the sources that returned it counts.
    min_keep : int, default 0
        Accept at least this many (or all there are), best first, whatever the thresholds say.
    on_empty : {"abstain", "best"} or callable, default "abstain"
        Where nothing is accepted: nothing, the best one, or the ids that ``on_empty(candidates, scores)``
        returns; nothing, with a warning in the result, where it raises.
    unknown_source : {"accept", "reject"}, default "accept"
        Verdict of a source that `thresholds` does not name, where it names any.
    confidence : Confidence, optional
        Reject everything where it is too doubtful that the corpus holds an answer; neither `min_keep` nor `on_empty`
        applies then.
    verdict : {"any", "all", "last_stage"}, default "any"
        Of the sources that returned a candidate, the best verdict counts, or the lowest; or that of the last stage that
        scored it: the reranker's where it did, else the best.

    Notes
    -----
    The verdict of a candidate is the lowest of the three (per source, common, final), so that raising any
    threshold only removes. Being returned by a source without a threshold accepts by default: the public
    SSCC code's "any other source, minus infinity". Its rule, a threshold by the stage that a score comes from, is
    ``verdict="last_stage"`` with a threshold under ``rerank`` and one per source.

    Examples
    --------
    >>> from phasegraph.candidates import pool
    >>> from phasegraph.ranking import Ranking
    >>> found = pool([Ranking("v", ["a", "b"], [0.9, 0.5]), Ranking("g", ["b"], [3.0])])
    >>> policy = AcceptancePolicy({"v": 0.8, "g": 4.0})
    >>> policy.decide(found, found.scores, np.array([0.4, 0.6]), ("g", "v")).verdicts
    array([ 1, -1], dtype=int8)
    """

    thresholds: Mapping[str, Threshold | float] = field(default_factory=dict, hash=False)
    final: Threshold | float | None = None
    common: Threshold | float | None = None
    min_keep: int = 0
    on_empty: OnEmpty = "abstain"
    unknown_source: Literal["accept", "reject"] = "accept"
    confidence: Confidence | None = None
    verdict: Literal["any", "all", "last_stage"] = "any"

    def __post_init__(self) -> None:
        put = object.__setattr__
        named = check_mapping("thresholds", self.thresholds)
        put(self, "thresholds", MappingProxyType({name: _threshold(given) for name, given in named.items()}))
        for name in ("final", "common"):
            if getattr(self, name) is not None:
                put(self, name, _threshold(getattr(self, name)))
        final = self._final
        if final is not None and not (final.floor >= 0 and final.value <= 1):
            raise InvalidInputError(f"final must be in [0, 1], like the scores; got {final.value!r}")
        check_count("min_keep", self.min_keep)
        if not callable(self.on_empty):
            check_choice("on_empty, where it is not callable,", self.on_empty, ("abstain", "best"))
        check_choice("unknown_source", self.unknown_source, ("accept", "reject"))
        check_choice("verdict", self.verdict, ("any", "all", "last_stage"))
        if not isinstance(self.confidence, Confidence | None):
            raise InvalidTypeError(f"confidence must be a Confidence or None; got {self.confidence!r:.80}")

    __reduce__ = by_fields

    def decide(
        self,
        candidates: Candidates,
        calibrated: FloatArray,
        scores: FloatArray,
        answered: tuple[str, ...],
        confidence: float | None = None,
        *,
        fused: tuple[str, ...] | None = None,
    ) -> AcceptanceOutcome:
        """Verdicts for one answer.

        Parameters
        ----------
        candidates : Candidates
            n candidates of m sources.
        calibrated : (n, m) array of float
            Calibrated values; read only where the source returned the candidate.
        scores : (n,) array of float
            Published scores in [0, 1].
        answered : tuple of str
            Sources that answered; an empty source counts as one that did not.
        confidence : float, optional
            Of the whole answer, where it is known.
        fused : tuple of str, optional
            Sources that `scores` are made of, where there are more: exact matches are no source of `candidates`.

        Returns
        -------
        AcceptanceOutcome
        """
        count, width = len(candidates), len(candidates.sources)
        if calibrated.shape != (count, width) or scores.shape != (count,):
            raise InvalidInputError(
                f"calibrated and scores must have shapes {(count, width)} and {(count,)}; got "
                f"{calibrated.shape} and {scores.shape}"
            )
        raw = candidates.scores
        by_source = self._by_source(candidates, raw)
        by_common = self._by_common(calibrated, ~np.isnan(raw))
        by_final = _compare(scores, self._final)
        verdicts = np.minimum(np.minimum(by_source, by_common), by_final)
        if self.confidence is not None and self.confidence.holds_back(confidence):
            verdicts = np.full(count, REJECT, dtype=np.int8)
            filled, reason = verdicts, "low_confidence" if count else "no_candidates"
        else:
            filled, reason = self._fill(candidates, scores, verdicts)
        overruled = bool((filled != verdicts).any())
        certificates = [
            _certificate(name, threshold, answered, overruled=overruled, narrowed=False, exact=False)
            for name, threshold in self._named.items()
            if name in answered and threshold.promises
        ]
        of_all = answered if fused is None else fused
        for name, whole, own, by in (
            ("common", self._common, by_common, answered), ("final", self._final, by_final, of_all),
        ):  # fmt: skip
            if whole is not None and whole.promises:
                cut = bool(((own == ACCEPT) & (verdicts != ACCEPT)).any())
                certificates.append(_certificate(name, whole, by, overruled=overruled, narrowed=cut, exact=True))
        filled.setflags(write=False)
        return AcceptanceOutcome(filled, reason, tuple(certificates))

    def threshold_of(self, ranking: Ranking, /) -> Threshold | None:
        """The threshold of a ranking's source as it reads its scores, mirrored where they are negated distances."""
        threshold = self._named.get(ranking.source)
        if threshold is None or not self._on_distances(ranking):
            return threshold
        return threshold.mirrored

    def note_on(self, ranking: Ranking, /) -> str:
        """What a report should say of how the threshold of this source was read; empty where nothing."""
        if not self._on_distances(ranking):
            return ""
        return f"its threshold is a distance: accepted at most {self._named[ranking.source].floor:g}"

    def _on_distances(self, ranking: Ranking) -> bool:
        """Whether the source's threshold is a distance: its direction is known, and it was not fitted to scores."""
        threshold = self._named.get(ranking.source)
        if threshold is None or not ranking.distances or threshold.method != GIVEN:
            return False
        return math.isfinite(threshold.floor)

    def _by_source(self, candidates: Candidates, raw: FloatArray) -> Verdicts:
        if not self.thresholds:
            return np.full(len(candidates), ACCEPT, dtype=np.int8)
        worst = self.verdict == "all"
        best = np.full(len(candidates), ACCEPT if worst else REJECT, dtype=np.int8)
        unknown = ACCEPT if self.unknown_source == "accept" else REJECT
        joined, last = np.minimum if worst else np.maximum, None
        for column, ranking in enumerate(candidates.rankings):
            returned = ~np.isnan(raw[:, column])
            found = _compare(raw[:, column], self.threshold_of(ranking), otherwise=unknown)
            if self.verdict == "last_stage" and ranking.source == RERANK:
                last = returned, found
            else:
                best = np.where(returned, joined(best, found), best).astype(np.int8)
        return best if last is None else np.where(*last, best).astype(np.int8)

    def _by_common(self, calibrated: FloatArray, returned: BoolArray) -> Verdicts:
        if not calibrated.size:
            return np.full(len(calibrated), ACCEPT, dtype=np.int8)
        best = np.where(returned & ~np.isnan(calibrated), calibrated, -np.inf).max(axis=1)
        return _compare(best, self._common)

    def _fill(self, candidates: Candidates, scores: FloatArray, verdicts: Verdicts) -> tuple[Verdicts, str]:
        """Apply `min_keep` and `on_empty` to a copy of `verdicts`."""
        out = verdicts.copy()
        if not len(out):
            return out, "no_candidates"
        kept = int((out == ACCEPT).sum())
        given = bool(self.thresholds) or self.final is not None or self.common is not None
        plain = "accepted" if given else "no_thresholds"
        wanted = max(self.min_keep, 1 if self.on_empty == "best" and not kept else 0)
        if kept < wanted:
            order = top_order(scores, candidates.ids)
            out[order[out[order] != ACCEPT][: wanted - kept]] = ACCEPT
            return out, "kept_best"
        if kept or not callable(self.on_empty):
            return out, plain if kept else "all_below_threshold"
        try:
            named = self.on_empty(candidates, scores)
        except (MemoryError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - the answer is that of "abstain", and says so
            return out, f"callback_failed: {type(error).__name__}"
        rows = _rows_of(candidates, named)
        out[rows] = ACCEPT
        return out, "callback" if len(rows) else "all_below_threshold"

    @property
    def _named(self) -> Mapping[str, Threshold]:
        return cast("Mapping[str, Threshold]", self.thresholds)

    @property
    def _final(self) -> Threshold | None:
        return cast("Threshold | None", self.final)

    @property
    def _common(self) -> Threshold | None:
        return cast("Threshold | None", self.common)

    def to_dict(self) -> dict[str, object]:
        """Plain JSON types; an `on_empty` that is callable cannot be stored."""
        if callable(self.on_empty):
            raise InvalidInputError("an on_empty callable cannot be stored; store 'abstain' or 'best'")
        return {
            "thresholds": {name: threshold.to_dict() for name, threshold in self._named.items()},
            "final": None if self._final is None else self._final.to_dict(),
            "common": None if self._common is None else self._common.to_dict(),
            "min_keep": self.min_keep,
            "on_empty": self.on_empty,
            "unknown_source": self.unknown_source,
            "confidence": None if self.confidence is None else self.confidence.to_dict(),
            "verdict": self.verdict,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object], /) -> AcceptancePolicy:
        """The value that :meth:`to_dict` wrote."""
        values = check_keys("AcceptancePolicy", data, cls.__dataclass_fields__)
        named = check_mapping("AcceptancePolicy.thresholds", values.get("thresholds", {}))
        values["thresholds"] = {name: Threshold.from_dict(found) for name, found in named.items()}
        for name in ("final", "common"):
            if values.get(name) is not None:
                values[name] = Threshold.from_dict(values[name])
        if values.get("confidence") is not None:
            values["confidence"] = Confidence.from_dict(values["confidence"])
        return cls(**values)


def _threshold(given: Threshold | float) -> Threshold:
    return given if isinstance(given, Threshold) else Threshold(given)


def _compare(values: FloatArray, threshold: Threshold | None, *, otherwise: int = ACCEPT) -> Verdicts:
    """Verdict of each value; `otherwise` where there is no threshold."""
    if threshold is None:
        return np.full(len(values), otherwise, dtype=np.int8)
    band = np.where(values >= threshold.floor, AMBIGUOUS, REJECT)
    return np.where(values >= threshold.value, ACCEPT, band).astype(np.int8)


def _rows_of(candidates: Candidates, ids: Sequence[str]) -> IntArray:
    where = {name: row for row, name in enumerate(candidates.ids)}
    chosen = list(check_rows("what on_empty returns", ids))
    for name in chosen:
        if name not in where:
            raise InvalidInputError(f"on_empty must return ids of the candidates; got {name!r}")
    return np.array([where[name] for name in chosen], dtype=np.intp)
