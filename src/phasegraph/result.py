"""The answer to a query, with the scores, weights and reports that explain it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from phasegraph._support.frozen import by_fields, read_only
from phasegraph._support.text import legible
from phasegraph._support.typing import FloatArray
from phasegraph.acceptance.confidence import ConfidenceEvidence
from phasegraph.acceptance.policy import ACCEPT, AMBIGUOUS, REJECT, AcceptanceOutcome
from phasegraph.candidates import Candidates
from phasegraph.errors import InvalidInputError
from phasegraph.fusion.superposition import Superposition
from phasegraph.ranking import Ranking, standing
from phasegraph.reports import SourceReport
from phasegraph.selection import SelectionResult
from phasegraph.sentences import ReadPassage, label_of, line_of, ordinal, path_labels, way_of

Reason = Literal["", "nothing_found", "could_not_look", "all_rejected", "abstained"]
PRINTED = 3
"""Maximum number of results that ``print(result)`` lists."""
WHY_EMPTY: Mapping[str, str] = MappingProxyType(
    {
        "nothing_found": "every source searched and found nothing",
        "could_not_look": "a source failed, and the other sources found nothing",
        "all_rejected": "acceptance rejected every candidate",
        "abstained": "the confidence is too low",
    }
)
_VERDICTS = {ACCEPT: "accepted", AMBIGUOUS: "ambiguous", REJECT: "rejected"}


@dataclass(frozen=True, slots=True)
class SourceEvidence:
    """The rank, score and contribution of one source for one result.

    Parameters
    ----------
    source : str
        Name of the source.
    rank : float or None
        Rank from 1; tied hits share their mean rank. None if the source did not return the result.
    raw, score : float or None
        The source's own score, and the same score with a sign such that higher is better. Both are None if the source
        did not return the result; `raw` is also None if the source gave no score.
    calibrated : float
        The value on the common scale. If the source did not return the result, the value for missing candidates.
    weight, contribution : float
        The source's weight for this query, and the source's part of the fused value.
    payload : object
        The source's own document, node or path, or None.
    """

    source: str
    rank: float | None
    raw: float | None
    score: float | None
    calibrated: float
    weight: float
    contribution: float
    payload: object = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence for the position of a result; the contributions of the sources and the bonus add up to `fused`.

    Parameters
    ----------
    id : str
        Id of the result.
    position : int
        Position in the answer, from 1.
    score, fused : float
        The final score in [0, 1], and the value of the fusion rule.
    bonus, prior : float
        The bonus is added to the contributions; the prior is multiplied with `fused` before ordering.
    sources : tuple of SourceEvidence
        The evidence of each source.
    energy, entropy : float or None
        The energy and entropy of the passage as :class:`~phasegraph.fusion.superposition.Superposition` defines them,
        if the pipeline has a :class:`~phasegraph.fusion.superposition.SuperpositionPrior`. Neither value affects the
        answer.
    set_entropy : float or None
        With the selection ``legacy_entropy``, the entropy of the selected set after this result joined, in nats.
    headline : callable, optional
        ``headline()`` returns the first line of ``print(evidence)``: the passage, its rank in each source, and the
        path to it.
    """

    id: str
    position: int
    score: float
    fused: float
    bonus: float
    prior: float
    sources: tuple[SourceEvidence, ...]
    energy: float | None = None
    entropy: float | None = None
    set_entropy: float | None = None
    headline: Callable[[], str] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        ranks = {one.source: one.rank for one in self.sources}
        parts = [f"{one.source} {one.contribution:+.3f}" for one in self.sources]
        parts += [f"bonus {self.bonus:+.3f}"] if self.bonus else []
        prior = f", times a prior of {self.prior:.3g}" if self.prior != 1.0 else ""
        lines = [
            line_of(self.position, self.id, ranks, ()) if self.headline is None else self.headline(),
            f"score {self.score:.3f}, from {self.fused:.3f} = {' '.join(parts)}{prior}",
        ]
        for one in self.sources:
            given = "not returned" if one.rank is None else f"{ordinal(one.rank)}, score {_short(one.raw)}"
            lines.append(f"{one.source}: {given}, calibrated {one.calibrated:.3f}, weight {one.weight:.2f}")
        return "\n".join(map(legible, lines))


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The k best candidates of one query, best first.

    Parameters
    ----------
    ids : tuple of str
        The ids of the k results, best first.
    scores : (k,) array of float
        The final scores, in [0, 1]. A score does not depend on k and is comparable between answers of the same
        sources. It is not a probability.
    fused : (k,) array of float
        The values of the fusion rule plus the bonuses. The contributions and bonuses of a result add up to its value.
    contributions : (k, m) array of float
        The part of each source in the fused value; columns in the order of ``candidates.sources``.
    calibrated : (k, m) array of float
        The values on the common scale. If a source did not return a result, the value for missing candidates.
    weights : (m,) array of float
        The source weights for this query. They sum to 1; under a rule that adds its terms without dividing
        (``FusionRule.sums``), equal weights are 1 each.
    bonuses, priors : (k,) array of float
        The bonus is part of the fused value; the prior is multiplied with the fused value before ordering.
    rows : (k,) array of int
        Row of each result in `candidates`.
    candidates : Candidates
        All candidates of the query, with source scores (NaN = not returned).
    accepted : (k,) array of bool
        Whether the acceptance policy accepts the result; all True without a policy.
    reports : tuple of SourceReport
        One per source, in name order.
    agreement : mapping of (str, str) to float
        For an ordered pair of sources, the share of the first source's top 10 in the second source's top 50.
    degraded : bool
        Whether a source failed, was skipped, or searched only in part.
    reason : {"", "nothing_found", "could_not_look", "all_rejected", "abstained"}
        The reason for an answer without results, else ``""``. ``could_not_look``: a source failed, and the other
        sources found nothing. ``abstained``: the confidence was too low.
    warnings : tuple of str
        Messages about problems that the caller should know.
    extras : mapping of str to object
        Reports of optional steps that ran. ``acceptance`` and ``selection``: their outcomes. ``priors``: the number of
        candidates that had the fields that a prior reads. ``superposition``: the quantities of a
        :class:`~phasegraph.fusion.superposition.SuperpositionPrior` for the results. ``groups``: the passages of each
        document, with `group_by`. ``stages``: a report each for query rewriting, routing, reranking and correction.
    judge : callable
        ``judge()`` computes `confidence_evidence`.

    Attributes
    ----------
    confidence_evidence : ConfidenceEvidence
        The components of `confidence`, or the reason for a missing confidence; computed at each access.
    """

    ids: tuple[str, ...]
    scores: FloatArray
    fused: FloatArray
    contributions: FloatArray
    calibrated: FloatArray
    weights: FloatArray
    bonuses: FloatArray
    priors: FloatArray
    rows: np.ndarray[tuple[int], np.dtype[np.intp]] = field(repr=False)
    candidates: Candidates = field(repr=False)
    accepted: np.ndarray[tuple[int], np.dtype[np.bool_]]
    reports: tuple[SourceReport, ...] = ()
    agreement: Mapping[tuple[str, str], float] = field(default_factory=dict)
    degraded: bool = False
    reason: Reason = ""
    warnings: tuple[str, ...] = ()
    extras: Mapping[str, object] = field(default_factory=dict, repr=False)
    judge: Callable[[], ConfidenceEvidence] = field(default=ConfidenceEvidence, repr=False)
    _repeated: list[Collection[str]] = field(default_factory=list, init=False, repr=False)

    __post_init__ = read_only  # type: ignore[misc]  # a function that several dataclasses share
    __reduce__ = by_fields

    def __len__(self) -> int:
        return len(self.ids)

    def __str__(self) -> str:
        confidence = self.confidence_evidence
        sure = "unknown" if confidence.value is None else f"{confidence.value:.2f}"
        if self.ids:
            first = f"; the first {PRINTED}:" if len(self) > PRINTED else ":"
            head = f"{len(self)} of {len(self.candidates)} candidates, confidence {sure}{first}"
        else:
            head = f"no results: {WHY_EMPTY.get(self.reason, 'k is 0')}; confidence {sure}"
        shown = self.ids[:PRINTED]
        lines = [head, *self._headlines(range(len(shown)), self._repeated_labels(shown))]
        return "\n".join([*lines, *(legible(f"warning: {line}") for line in self.warnings)])

    def _repeated_labels(self, ids: Iterable[str]) -> Collection[str]:
        """Return the labels that several of the results `ids` have, such as the title of their document."""
        read = _reader(self.candidates.rankings)
        counts = Counter(label_of(name, *read(name)) for name in ids)
        return {label for label, count in counts.items() if count > 1}

    def _headlines(self, positions: Iterable[int], repeated: Collection[str]) -> list[str]:
        """Return a line about the result at each position (from 0): label, ranks and path.

        The id follows a label in `repeated`.
        """
        rankings, lines = self.candidates.rankings, []
        read = _reader(rankings)
        for position in positions:
            name = self.ids[position]
            label = label_of(name, *read(name))
            ranks = {one.source: standing(one, name)[0] for one in rankings}
            walk = next(filter(None, (_walk(one, name) for one in rankings)), None)
            way = [] if walk is None else way_of(walk["path"], path_labels(walk["path"], read))
            lines.append(line_of(position + 1, f"{label} ({name})" if label in repeated else label, ranks, way))
        return lines

    def _headline(self, position: int) -> str:
        if not self._repeated:  # computed once, so that printing all evidence takes linear time
            self._repeated.append(self._repeated_labels(self.ids))
        return self._headlines([position], self._repeated[0])[0]

    @property
    def confidence_evidence(self) -> ConfidenceEvidence:
        """The components of `confidence`, and the reason if there is no confidence."""
        return self.judge()

    @property
    def confidence(self) -> float | None:
        """The confidence that the corpus contains an answer, in [0, 1].

        It is a probability only after calibration with judged queries. If it is None, ``confidence_evidence.reason``
        states the reason.
        """
        return self.confidence_evidence.value

    def evidence(self, identifier: str) -> Evidence:
        """Explain the position of one result.

        Parameters
        ----------
        identifier : str
            An id in `ids`.

        Returns
        -------
        Evidence
            The scores, ranks and contributions of the result.

        Raises
        ------
        InvalidInputError
            If `identifier` is not among the results.
        """
        if identifier not in self.ids:
            raise InvalidInputError(f"evidence needs an id among the {len(self.ids)} results; got {identifier!r}")
        position = self.ids.index(identifier)
        found = self.candidates
        sources = tuple(self._source_evidence(position, column) for column in range(len(found.sources)))
        return Evidence(
            identifier,
            position + 1,
            float(self.scores[position]),
            float(self.fused[position]),
            float(self.bonuses[position]),
            float(self.priors[position]),
            sources,
            **self.entropies(position),
            headline=partial(self._headline, position),
        )

    def entropies(self, position: int) -> dict[str, float]:
        """Return ``energy``, ``entropy`` and ``set_entropy`` of the result at `position` (from 0), if available."""
        state, chosen = self.extras.get("superposition"), self.extras.get("selection")
        out: dict[str, float] = {}
        if isinstance(state, Superposition):
            out |= {"energy": float(state.energy[position]), "entropy": float(state.entropy[position])}
        if isinstance(chosen, SelectionResult) and chosen.entropies is not None:
            out["set_entropy"] = float(chosen.entropies[position])
        return out

    def _source_evidence(self, position: int, column: int) -> SourceEvidence:
        ranking = self.candidates.rankings[column]
        return SourceEvidence(
            ranking.source,
            *standing(ranking, self.ids[position]),
            float(self.calibrated[position, column]),
            float(self.weights[column]),
            float(self.contributions[position, column]),
            ranking.payloads.get(self.ids[position]),
        )

    def _repr_html_(self) -> str:
        from phasegraph._support.markup import answer_html

        return answer_html(view_of(self))


@dataclass(frozen=True, slots=True, eq=False)
class Inspection:
    """An answer with all candidates, for display; a notebook shows it as a page.

    Parameters
    ----------
    question : str
        The question that was asked.
    result : Result
        The answer.
    everything : Result
        All candidates, fused by the same pipeline without acceptance and selection.
    """

    question: str
    result: Result
    everything: Result = field(repr=False)

    def view(self) -> dict[str, Any]:
        """Return the answer in JSON types; see :func:`view_of`."""
        return view_of(self.result, self.question, everything=self.everything)

    def _repr_html_(self) -> str:
        from phasegraph._support.markup import answer_html

        return answer_html(self.view())


def view_of(
    result: Result,
    question: str = "",
    *,
    everything: Result | None = None,
    rankings: Sequence[Ranking] = (),
    read: ReadPassage | None = None,
) -> dict[str, Any]:
    """Convert an answer to JSON types for display.

    Parameters
    ----------
    result : Result
        The answer.
    question : str, optional
        The question that was asked.
    everything : Result, optional
        The answer of the same pipeline with all candidates as results. Without it, only the rows of the results have
        calibrated values and contributions.
    rankings : sequence of Ranking, optional
        The rankings to show; by default, the fused rankings.
    read : callable, optional
        ``read(id)`` returns the title and the text of a passage; by default, they come from the payloads.

    Returns
    -------
    dict
        ``question``, ``reason``, ``degraded``, ``confidence`` and ``warnings`` describe the answer. ``why_empty`` says
        in words why there are no results, and ``confidence_said`` explains the confidence. ``agreement`` is a list of
        [source, other source, share]. ``sources`` is a list with each source's report, weight (None if the source was
        not fused) and ``ids``. ``rows`` has an entry per candidate, results first, then by fused value: ``id``,
        ``position`` (from 1, or None), ``verdict``, ``score``, ``fused``, ``bonus``, ``prior``, ``walk``, and
        ``sources`` with the candidate's rank, scores and contribution by source. ``verdict`` is "accepted",
        "ambiguous", "rejected" or "not fused". ``walk`` has the path, the seeds and the matched words of a graph walk.
        ``passages`` contains the title and text by id, also for the passages on a walk's path. Unknown values are None.

    Examples
    --------
    >>> from phasegraph import FusionPipeline
    >>> view = view_of(FusionPipeline().decide([Ranking("v", ["a", "b"], [0.9, 0.4])], k=1))
    >>> [(row["id"], row["position"], row["sources"]["v"]["rank"]) for row in view["rows"]]
    [('a', 1, 1.0), ('b', None, 2.0)]
    """
    shown = sorted(rankings or result.candidates.rankings, key=lambda one: one.source)
    outcome, verdicts = result.extras.get("acceptance"), dict.fromkeys(result.candidates.ids, "accepted")
    if isinstance(outcome, AcceptanceOutcome):
        verdicts = {
            name: _VERDICTS[verdict]
            for name, verdict in zip(result.candidates.ids, outcome.verdicts.tolist(), strict=True)
        }
    whole = result if everything is None else everything
    known = {name: whole.evidence(name) for name in whole.ids} | {name: result.evidence(name) for name in result.ids}
    ids = dict.fromkeys([*result.ids, *whole.ids, *(name for one in shown for name in one.ids)])
    weights = dict(zip(result.candidates.sources, result.weights.tolist(), strict=True))
    listed = {one.source: list(one.ids) for one in shown}
    rows = [_row(name, result, known.get(name), shown, verdicts.get(name, "not fused")) for name in ids]
    steps = [name for row in rows if row["walk"] for kind, name in row["walk"]["path"] if kind == "passage"]
    held = {name: (read or _reader(shown))(name) for name in dict.fromkeys([*ids, *steps])}
    return {
        "question": question,
        "reason": result.reason,
        "why_empty": WHY_EMPTY.get(result.reason, "k is 0" if result.candidates.ids else ""),
        "degraded": result.degraded,
        "confidence": result.confidence,
        "confidence_said": str(result.confidence_evidence),
        "warnings": list(result.warnings),
        "agreement": [[first, second, share] for (first, second), share in result.agreement.items()],
        "sources": [
            {
                "name": one.source, "status": one.status, "reason": one.reason, "hits": one.hits,
                "dropped": one.dropped, "milliseconds": one.milliseconds, "calibration": one.calibration,
                "notes": list(one.notes), "weight": weights.get(one.source), "ids": listed.get(one.source, []),
            }
            for one in result.reports
        ],
        "rows": rows,
        "passages": {name: {"title": title, "text": text} for name, (title, text) in held.items()},
    }  # fmt: skip


def _row(
    name: str, result: Result, evidence: Evidence | None, rankings: Sequence[Ranking], verdict: str
) -> dict[str, Any]:
    fused = {} if evidence is None else {one.source: one for one in evidence.sources}
    sources: dict[str, Any] = {
        one.source: {"calibrated": _finite(one.calibrated), "contribution": _finite(one.contribution)}
        for one in fused.values()
    }
    for ranking in rankings:
        unknown = {"calibrated": None, "contribution": None}
        found = dict(zip(("rank", "raw", "score"), standing(ranking, name), strict=True))
        if ranking.source in fused or found["rank"] is not None:
            sources[ranking.source] = sources.get(ranking.source, unknown) | found
    for one in fused.values():  # exact matches are fused as a source but are not among the shown rankings
        sources[one.source] = {"rank": one.rank, "raw": one.raw, "score": one.score} | sources[one.source]
    return {
        "id": name,
        "position": result.ids.index(name) + 1 if name in result.ids else None,
        "verdict": verdict,
        "score": None if evidence is None else _finite(evidence.score),
        "fused": None if evidence is None else _finite(evidence.fused),
        "bonus": 0.0 if evidence is None else _finite(evidence.bonus),
        "prior": 1.0 if evidence is None else _finite(evidence.prior),
        "walk": next(filter(None, (_walk(one, name) for one in rankings)), None),
        "sources": sources,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _short(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def _walk(ranking: Ranking, name: str) -> dict[str, Any] | None:
    """Return how a graph walk reached the passage `name`: ``source``, ``path``, ``seeds`` and matched ``words``.

    Return None if the ranking is not from a graph walk, or does not contain the passage.
    """
    evidence = getattr(ranking.payloads, "evidence", ranking.payloads)
    found = evidence.get(name) if isinstance(evidence, Mapping) else None
    path, seeds = getattr(found, "path", None), getattr(found, "seeds", ())
    if not isinstance(path, tuple) or not all(hasattr(one, "kind") and hasattr(one, "name") for one in path):
        return None
    return {
        "source": ranking.source,
        "path": [[one.kind, one.name] for one in path],
        "seeds": [[one.kind, one.name, share] for one, share in seeds],
        "words": list(getattr(found, "words", ())),
    }


def _reader(rankings: Sequence[Ranking]) -> ReadPassage:
    """Return a function that reads the title and text of a passage from the payloads of the rankings."""

    def read(name: str) -> tuple[str, str]:
        title = ""
        for held in (one.payloads[name] for one in rankings if name in one.payloads):
            metadata = getattr(held, "metadata", None)
            told = metadata.get("title") if isinstance(metadata, Mapping) else None
            title = title or str(told or getattr(held, "title", None) or "")
            try:
                text = getattr(held, "page_content", None) or getattr(held, "text", None)
            except Exception:  # noqa: BLE001 - another library's document whose text cannot be read
                continue
            if isinstance(text, str) and text:
                return title, text
        return title, ""

    return read
