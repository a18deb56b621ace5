"""The answer, with everything that led to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.confidence import ConfidenceEvidence
from phasegraph.errors import InvalidInputError
from phasegraph.priors import Superposition
from phasegraph.ranking import Candidates, SourceReport, by_fields
from phasegraph.selection import SelectionResult

_ARRAYS = (
    "scores", "fused", "contributions", "calibrated", "weights", "bonuses", "priors", "rows", "accepted",
)  # fmt: skip
Reason = Literal["", "nothing_found", "could_not_look", "all_rejected", "abstained"]


@dataclass(frozen=True, slots=True)
class SourceEvidence:
    """What one source says about one result.

    Parameters
    ----------
    source : str
    rank : float or None
        From 1, ties share their mean; None where the source did not return it.
    raw, score : float or None
        As the source gave it; with higher always better.
    calibrated : float
        On the common scale; what a missing candidate takes where the source lacks it.
    weight, contribution : float
        Weight used for this query; this source's part of the fused value.
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
    """Why one result stands where it stands: contributions and bonus add up to `fused`.

    Parameters
    ----------
    id : str
    position : int
        From 1.
    score, fused : float
        Published score in [0, 1]; the rule's value.
    bonus, prior : float
        Added to the contributions; multiplied with `fused` before ordering.
    sources : tuple of SourceEvidence
    energy, entropy : float or None
        Of the passage, as the quantum document computes them, where the pipeline has a
        :class:`~phasegraph.priors.SuperpositionPrior`; neither decides anything.
    set_entropy : float or None
        Of the selected set once it had joined, in nats, where the selection goes by ``legacy_entropy``.
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


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The k best candidates of one query, best first.

    Parameters
    ----------
    ids : tuple of str
        k ids.
    scores : (k,) array of float
        In [0, 1], the same for every k, comparable between answers of the same sources; not a probability.
    fused : (k,) array of float
        The rule's value, bonuses included; contributions and bonuses add up to it.
    contributions : (k, m) array of float
        Part of each source, columns in the order of ``candidates.sources``.
    calibrated : (k, m) array of float
        On the common scale, missing ones filled in.
    weights : (m,) array of float
        Used for this query; they sum to 1, or are 1 each under a rule that the literature does not divide.
    bonuses, priors : (k,) array of float
        Added to, and multiplied with, the fused value.
    rows : (k,) array of int
        Row of each result in `candidates`.
    candidates : Candidates
        The whole union, with source scores (NaN = not returned).
    accepted : (k,) array of bool
        Whether acceptance passed it (all true where none was asked for).
    reports : tuple of SourceReport
        One per source, in name order.
    agreement : mapping of (str, str) to float
        Share of the first source's top 10 in the second one's top 50.
    degraded : bool
        Some source could not look, or looked only in part.
    reason : {"", "nothing_found", "could_not_look", "all_rejected", "abstained"}
        Why there is no result, where there is none; ``abstained``: its confidence was too low.
    warnings : tuple of str
        What the caller should know.
    extras : mapping of str to object
        Where they ran: the outcome of ``acceptance`` and of ``selection``; under ``priors`` how many candidates held
        the fields that were read; under ``superposition`` that of the results, where a prior works it out; under
        ``stages`` what rewriting, routing, reranking and correction did, a report each.
    confidence_evidence : ConfidenceEvidence
        What `confidence` is made of, and why where there is none.
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
    confidence_evidence: ConfidenceEvidence = field(default_factory=ConfidenceEvidence)

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            getattr(self, name).setflags(write=False)
        object.__setattr__(self, "agreement", MappingProxyType(self.agreement))
        object.__setattr__(self, "extras", MappingProxyType(self.extras))

    __reduce__ = by_fields

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def confidence(self) -> float | None:
        """How far this corpus seems to hold an answer, in [0, 1]; None where ``confidence_evidence.reason`` says why.

        A probability only after calibrating with judged queries.
        """
        return self.confidence_evidence.value

    def evidence(self, identifier: str) -> Evidence:
        """Why one result stands where it stands.

        Parameters
        ----------
        identifier : str
            One of `ids`.

        Returns
        -------
        Evidence

        Raises
        ------
        InvalidInputError
            If it is not among the results.
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
        )

    def entropies(self, position: int) -> dict[str, float]:
        """``energy``, ``entropy`` and ``set_entropy`` of the result at `position` (from 0), as far as there are."""
        state, chosen = self.extras.get("superposition"), self.extras.get("selection")
        out: dict[str, float] = {}
        if isinstance(state, Superposition):
            out |= {"energy": float(state.energy[position]), "entropy": float(state.entropy[position])}
        if isinstance(chosen, SelectionResult) and chosen.entropies is not None:
            out["set_entropy"] = float(chosen.entropies[position])
        return out

    def _source_evidence(self, position: int, column: int) -> SourceEvidence:
        ranking = self.candidates.rankings[column]
        rank = raw = score = None
        hit = ranking.positions.get(self.ids[position])
        if hit is not None:
            score = float(ranking.scores[hit])
            ascending = ranking.scores[::-1]
            worse, no_better = ascending.searchsorted(score), ascending.searchsorted(score, side="right")
            rank = float(len(ranking) - no_better + (no_better - worse + 1) / 2)
            given = score if ranking.raw is None else float(ranking.raw[hit])
            raw = None if math.isnan(given) else given
        return SourceEvidence(
            ranking.source,
            rank,
            raw,
            score,
            float(self.calibrated[position, column]),
            float(self.weights[column]),
            float(self.contributions[position, column]),
            ranking.payloads.get(self.ids[position]),
        )
