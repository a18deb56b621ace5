"""Measure whether a system's confidence separates answerable from off-topic and unanswerable questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._support.typing import FloatArray
from phasegraph.acceptance import JudgedScores
from phasegraph.acceptance.fitting import area_under_curve
from phasegraph.errors import InsufficientDataError, InvalidInputError, MissingDependencyError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.source_runs import ExperimentInput, SourceRun, search_sources
from phasegraph.evaluation.splits import split_by_id
from phasegraph.evaluation.systems import System


@dataclass(frozen=True, slots=True, eq=False)
class Abstention:
    """The separation of answerable questions from other questions by each system's confidence.

    `asked` describes the other questions. `auc`, by system, is the probability that an answerable question has a higher
    confidence than another question; a tie counts half. `intact` is the same probability, over only the answerable
    questions that kept all of their relevant passages; it is empty if no passages were deleted. `left_out` has one line
    per system without confidence.
    """

    asked: str
    auc: Mapping[str, float]
    intact: Mapping[str, float]
    left_out: tuple[str, ...]

    def of(self, system: str) -> dict[str, float | None]:
        """Return the values of `auc` and `intact` for one system in percent, by field name, for JSON.

        A value is None if the system has no figure. The entry for `intact` is left out if no passages were deleted.
        """
        kinds = {"abstain_auc": self.auc, **({"abstain_auc_intact": self.intact} if self.intact else {})}
        return {name: 100 * found[system] if system in found else None for name, found in kinds.items()}


def abstain_auc(answerable: ArrayLike, others: ArrayLike) -> float:
    """Return the probability that a question of `answerable` has a higher confidence than a question of `others`.

    Both arguments are arrays of confidences. A tie counts half.

    >>> abstain_auc([0.9, 0.5], [0.5, 0.1])
    0.875
    """
    scores = np.concatenate([np.asarray(answerable, dtype=np.float64), np.asarray(others, dtype=np.float64)])
    labels = np.arange(len(scores)) < len(np.asarray(answerable))
    return area_under_curve(JudgedScores(scores, labels))


def calibration_errors(probabilities: FloatArray, answerable: ArrayLike, bins: int = 10) -> tuple[float, float]:
    """Return the expected calibration error of n probabilities over bins of equal size, and their Brier score.

    `answerable` is True for each question that the corpus answers. The best value of each of the two errors is 0.

    >>> calibration_errors(np.array([0.0, 0.0, 1.0, 0.5]), [False, False, True, True], bins=2)
    (0.125, 0.0625)
    """
    happened = np.asarray(answerable, dtype=np.float64)
    order = np.argsort(probabilities, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    off = [len(part) * abs(float(probabilities[part].mean() - happened[part].mean())) for part in parts]
    return sum(off) / len(happened), float(np.mean((probabilities - happened) ** 2))


def ask_off_topic(inputs: ExperimentInput, systems: Sequence[System], other: Dataset) -> Abstention:
    """Ask the corpus of `inputs` its own questions and the questions of `other`, and compare the confidences.

    Raise InvalidInputError if both data sets contain the same question, or their embeddings have different widths.
    """
    own = inputs.dataset
    if own.query_vectors.shape[1] != other.query_vectors.shape[1]:
        raise InvalidInputError(
            f"off-topic questions must have embeddings of the same model as the corpus; {other.name} has "
            f"{other.query_vectors.shape[1]} dimensions, {own.name} has {own.query_vectors.shape[1]}"
        )
    shared = {query.text for query in own.queries} & {query.text for query in other.queries}
    if shared:
        raise InvalidInputError(
            f"off-topic questions must not occur in {own.name}; {len(shared)} questions of {other.name} do, such as "
            f"{min(shared)!r:.80}"
        )
    both = replace(
        own,
        queries=(*own.queries, *other.queries),
        query_vectors=np.concatenate([own.query_vectors, other.query_vectors]),
    )
    found, left_out = _confidences(replace(inputs, dataset=both), systems)
    here = len(own.queries)
    auc = {name: abstain_auc(values[:here], values[here:]) for name, values in found.items()}
    return Abstention(f"{len(other.queries)} questions of {other.name}", auc, {}, left_out)


def ask_unanswerable(inputs: ExperimentInput, systems: Sequence[System]) -> Abstention:
    """Delete the judged passages of half of the questions, then ask all questions; repeat with the other half.

    :func:`~phasegraph.evaluation.splits.split_by_id` makes the halves, and each figure is the mean of both rounds.
    Raise InsufficientDataError if a half has no question. Also raise it if the deletion for one half removes a judged
    passage of every question of the other half.
    """
    data = inputs.dataset
    ids = [query.id for query in data.queries]
    auc: dict[str, list[float]] = {}
    intact: dict[str, list[float]] = {}
    left_out: tuple[str, ...] = ()
    halves = [split_by_id(ids, "tune"), split_by_id(ids, "confirm")]
    for lost, kept in (halves, halves[::-1]):
        gone = frozenset().union(*(data.queries[row].judgement.passages for row in lost.tolist()))
        whole = [row for row in kept.tolist() if not data.queries[row].judgement.passages & gone]
        if not len(lost) or not whole:
            raise InsufficientDataError(
                f"{data.name} has too few questions: if the judged passages of half of the questions are deleted, all "
                "other questions lose a judged passage, too. Judge more questions"
            )
        found, left_out = _confidences(replace(inputs, dataset=without(data, gone), graph=None), systems)
        for name, values in found.items():
            auc.setdefault(name, []).append(abstain_auc(values[kept], values[lost]))
            intact.setdefault(name, []).append(abstain_auc(values[whole], values[lost]))
    both, clean = ({name: float(np.mean(values)) for name, values in found.items()} for found in (auc, intact))
    return Abstention("the questions of a half whose passages are gone", both, clean, left_out)


def without(dataset: Dataset, passages: frozenset[str]) -> Dataset:
    """Return a copy of a data set without the passages with the ids `passages`; the questions stay the same."""
    rows = [row for row, passage in enumerate(dataset.passages) if passage.id not in passages]
    triples = dataset.triples
    return replace(
        dataset,
        passages=tuple(dataset.passages[row] for row in rows),
        passage_vectors=dataset.passage_vectors[rows],
        triples=None if triples is None else {name: held for name, held in triples.items() if name not in passages},
        path=None,  # the files beside the corpus describe all passages
    )


def _confidences(
    inputs: ExperimentInput, systems: Sequence[System]
) -> tuple[Mapping[str, FloatArray], tuple[str, ...]]:
    """Return each system's confidence in every question, by system name, and a line per system without confidence."""
    known: dict[str, SourceRun] = {}
    found: dict[str, FloatArray] = {}
    left_out: list[str] = []
    for system in systems:
        try:
            if system.confidence is None:
                raise InsufficientDataError("the system gives its answers no score")
            known.update(search_sources(inputs, [one for one in system.sources if one not in known], known))
            batch = {source: known[source].rankings for source in system.sources}
            values = system.confidence(inputs.dataset, batch)
            lacking = sum(value is None for value in values)
            if lacking:
                raise InsufficientDataError(
                    f"every question needs a confidence; the system gives none for {lacking} of {len(values)} questions"
                )
        except (MissingDependencyError, InsufficientDataError) as error:
            left_out.append(f"abstain_auc of {system.name}: {error}")
            continue
        found[system.name] = np.array(values, dtype=np.float64)
    return MappingProxyType(found), tuple(left_out)
