"""The acceptance policy, which gives each candidate of an answer a verdict: accept, ambiguous or reject."""

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
    """A statement that says whether the guarantee of a threshold is valid for an answer.

    Parameters
    ----------
    name : str
        The threshold: the name of its source, ``common`` or ``final``.
    promise : str
        The guarantee, as a sentence.
    valid : bool
        Whether the guarantee is valid for this answer.
    reason : str
        The reason for an invalid guarantee; empty if it is valid.
    """

    name: str
    promise: str
    valid: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class AcceptanceOutcome:
    """The verdicts of an acceptance policy for the candidates of an answer.

    Parameters
    ----------
    verdicts : (n,) array of int8
        The verdict for each candidate: 1 accept, 0 ambiguous, -1 reject.
    reason : str
        ``accepted``, ``no_thresholds``, ``no_candidates``, ``all_below_threshold`` or ``low_confidence``.
        ``kept_best``: `min_keep` or ``on_empty="best"`` accepted candidates below a threshold. ``callback``: the
        function `on_empty` chose the accepted candidates. ``callback_failed: `` with a class of error: `on_empty`
        raised this error, and no candidate is accepted.
    certificates : tuple of Certificate
        A certificate for each threshold that was applied and has a guarantee.
    error : str
        The class of the error that `on_empty`, a function of the policy, raised; empty if it raised no error.
    """

    verdicts: Verdicts
    reason: str
    certificates: tuple[Certificate, ...] = ()
    error: str = ""

    @property
    def accepted(self) -> BoolArray:
        """The (n,) mask of the accepted candidates."""
        return np.asarray(self.verdicts == ACCEPT)

    @property
    def failed(self) -> bool:
        """True if `on_empty`, a function of the policy, raised an error."""
        return bool(self.error)

    @property
    def abstained(self) -> bool:
        """True if the answer has candidates and no candidate is accepted."""
        return self.reason in ("all_below_threshold", "low_confidence") or self.failed


def _certificate(
    name: str, threshold: Threshold, answered: Sequence[str], *, overruled: bool, narrowed: bool, exact: bool
) -> Certificate:
    """Return a certificate that states whether the guarantee of `threshold` is valid for an answer.

    `answered` are the sources that answered. `overruled` says whether a candidate below the threshold was accepted.
    `narrowed` says whether another threshold removed a candidate that this threshold accepts. With `exact`, the answer
    must have exactly the sources of the fit; otherwise, further sources are allowed.
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
        reason = "a candidate below the threshold was accepted"
    elif narrowed:
        reason = "another threshold removed a candidate that this threshold accepts"
    return Certificate(name, threshold.promise, not reason, reason)


OnEmpty: TypeAlias = Literal["abstain", "best"] | Callable[[Candidates, FloatArray], Sequence[str]]


@dataclass(frozen=True, slots=True)
class AcceptancePolicy:
    """The thresholds for the candidates of an answer, and the behavior if no candidate is accepted.

    Parameters
    ----------
    thresholds : mapping of str to Threshold or float
        Thresholds on the source's own scores by source name; the name ``rerank`` is for a reranker's scores. If a
        source returns distances, a number (or a threshold that was not fitted) is the highest accepted distance. With a
        `lower` bound, distances up to `lower` are accepted, and distances up to `value` are ambiguous.
    final : Threshold or float, optional
        Threshold on the final score of a candidate (``Result.scores``), in [0, 1].
    common : Threshold or float, optional
        Threshold on calibrated values for all sources. The best value of the sources that returned a candidate counts.
    min_keep : int, default 0
        Minimum number of accepted candidates, best first, regardless of the thresholds; at most all candidates.
    on_empty : {"abstain", "best"} or callable, default "abstain"
        The candidates to accept if no candidate passes the thresholds. ``abstain``: no candidate. ``best``: the best
        candidate. A function: the ids that ``on_empty(candidates, scores)`` returns. If the function raises an error,
        no candidate is accepted, and the result warns.
    unknown_source : {"accept", "reject"}, default "accept"
        The verdict of a source that `thresholds` does not name; not used if `thresholds` is empty.
    confidence : Confidence, optional
        Threshold on the confidence that the corpus contains an answer. Below it, all candidates are rejected, and
        `min_keep` and `on_empty` do not apply.
    verdict : {"any", "all", "last_stage"}, default "any"
        The combination of the verdicts of the sources that returned a candidate. ``any``: the best verdict. ``all``:
        the lowest verdict. ``last_stage``: the verdict of the reranker if it scored the candidate, else the best
        verdict.

    Notes
    -----
    A verdict is 1 (accept), 0 (ambiguous) or -1 (reject). A candidate gets the lowest of three verdicts: by the
    thresholds of its sources, by `common`, and by `final`. A higher threshold therefore never accepts more candidates.
    By default, a candidate is accepted if a source without a threshold returned it, as in the public code of "Beyond
    the Reranker". This code has the rule ``verdict="last_stage"``, with a threshold for ``rerank`` and for each source.

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
            raise InvalidInputError(
                f"final must be in [0, 1], the range of the scores of an answer; got {final.value!r}"
            )
        check_count("min_keep", self.min_keep)
        if not callable(self.on_empty):
            check_choice("on_empty, if it is not callable,", self.on_empty, ("abstain", "best"))
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
        """Give each candidate of an answer a verdict, and check which guarantees are valid for the answer.

        Parameters
        ----------
        candidates : Candidates
            The n candidates of m sources.
        calibrated : (n, m) array of float
            Calibrated values; values for candidates that a source did not return are ignored.
        scores : (n,) array of float
            Final scores of the candidates (``Result.scores``), in [0, 1].
        answered : tuple of str
            Names of the sources with at least one hit.
        confidence : float, optional
            The confidence of the answer, if it is known.
        fused : tuple of str, optional
            Names of all fused sources, including exact matches, which are not a source of `candidates`; default
            `answered`.

        Returns
        -------
        AcceptanceOutcome
            The verdicts, the reason and the certificates.
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
            filled, reason, error = verdicts, "low_confidence" if count else "no_candidates", ""
        else:
            filled, reason, error = self._fill(candidates, scores, verdicts)
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
        return AcceptanceOutcome(filled, reason, tuple(certificates), error)

    def threshold_of(self, ranking: Ranking, /) -> Threshold | None:
        """Return the threshold for the scores of a ranking, or None if the source has no threshold.

        If the scores are negated distances, and the threshold was not fitted to scores, return the mirrored threshold.
        """
        threshold = self._named.get(ranking.source)
        if threshold is None or not self._on_distances(ranking):
            return threshold
        return threshold.mirrored

    def note_on(self, ranking: Ranking, /) -> str:
        """Return a note for the source's report if the source's threshold is interpreted as a distance; else ""."""
        if not self._on_distances(ranking):
            return ""
        return f"the threshold is a distance: hits are accepted up to {self._named[ranking.source].floor:g}"

    def _on_distances(self, ranking: Ranking) -> bool:
        """Return True if the source returns distances and its threshold is finite and was not fitted to scores."""
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

    def _fill(self, candidates: Candidates, scores: FloatArray, verdicts: Verdicts) -> tuple[Verdicts, str, str]:
        """Apply `min_keep` and `on_empty` to a copy of `verdicts`.

        Return the copy, and the fields `reason` and `error` of the outcome.
        """
        out = verdicts.copy()
        if not len(out):
            return out, "no_candidates", ""
        kept = int((out == ACCEPT).sum())
        given = bool(self.thresholds) or self.final is not None or self.common is not None
        plain = "accepted" if given else "no_thresholds"
        wanted = max(self.min_keep, 1 if self.on_empty == "best" and not kept else 0)
        if kept < wanted:
            order = top_order(scores, candidates.ids)
            out[order[out[order] != ACCEPT][: wanted - kept]] = ACCEPT
            return out, "kept_best", ""
        if kept or not callable(self.on_empty):
            return out, plain if kept else "all_below_threshold", ""
        try:
            named = self.on_empty(candidates, scores)
        except (MemoryError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - treated like "abstain", and the result warns
            raised = type(error).__name__
            return out, f"callback_failed: {raised}", raised
        rows = _rows_of(candidates, named)
        out[rows] = ACCEPT
        return out, "callback" if len(rows) else "all_below_threshold", ""

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
        """Return the policy in plain JSON types; raise InvalidInputError if `on_empty` is a function."""
        if callable(self.on_empty):
            raise InvalidInputError("on_empty is a function, which cannot be stored; use 'abstain' or 'best'")
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
        """Create the policy from the output of :meth:`to_dict`."""
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
    """Return the verdict of `threshold` for each value, or the verdict `otherwise` for all values if it is None."""
    if threshold is None:
        return np.full(len(values), otherwise, dtype=np.int8)
    band = np.where(values >= threshold.floor, AMBIGUOUS, REJECT)
    return np.where(values >= threshold.value, ACCEPT, band).astype(np.int8)


def _rows_of(candidates: Candidates, ids: Sequence[str]) -> IntArray:
    where = {name: row for row, name in enumerate(candidates.ids)}
    chosen = list(check_rows("the output of on_empty", ids))
    for name in chosen:
        if name not in where:
            raise InvalidInputError(f"on_empty must return ids of the candidates; got {name!r}")
    return np.array([where[name] for name in chosen], dtype=np.intp)
