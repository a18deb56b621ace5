"""The system ``calibrated``: the default pipeline, fitted to queries without their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from phasegraph.errors import InsufficientDataError
from phasegraph.evaluation.calibrated_pipeline import calibrated_pipeline
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.evaluation.splits import check_disjoint, split_rows
from phasegraph.evaluation.systems import TWO, Answer, Batch, Confidences, System, pipeline_system
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking


def calibrated_system(
    folder: Path,
    dataset: Dataset,
    fetch_k: int,
    progress: Callable[[Iterable[int], str], Iterable[int]] | None = None,
) -> System:
    """Return the system ``calibrated``: the default pipeline, fitted on a folder's queries without their labels.

    If this folder is the evaluated folder, a pipeline fitted on one half of the queries answers the other half
    (:func:`~phasegraph.evaluation.splits.split_rows`). If the queries are too few, the row is left out, and a note
    gives the reason. `fetch_k` and `progress` are those of :class:`~phasegraph.evaluation.source_runs.ExperimentInput`.
    """
    if dataset.path is not None and folder.resolve() == dataset.path.resolve():
        return System(
            "calibrated",
            TWO,
            _crosswise,
            "default, with each half of the queries answered by a pipeline fitted on the other half",
            _half_fitted(dataset),
        )
    other = load_dataset(folder)
    check_disjoint(other, dataset)
    runs = search_sources(ExperimentInput(other, fetch_k, progress=progress), TWO)
    rankings = {name: run.rankings for name, run in runs.items()}
    try:
        fitted = _fitted(rankings, other, "the queries")
    except InsufficientDataError as error:
        return System("calibrated", TWO, _refusing(error), f"default, not fitted on {other.name}")
    return pipeline_system("calibrated", fitted, TWO, f"default, fitted on {other.name}", ours=True)


def _half_fitted(dataset: Dataset) -> Confidences:
    """Return a function that computes, for each question that it is asked, the confidence of the answer.

    The function uses a pipeline that is fitted on half of the questions of `dataset`, without labels.
    """

    def confidence(asked: Dataset, batch: Batch) -> Sequence[float | None]:
        half = dataset.subset(split_rows(dataset)[0])
        found = search_sources(ExperimentInput(half), ("vector",))["vector"].rankings
        fitted = _fitted({"vector": found}, half, "half of the queries")
        judge = pipeline_system("calibrated", replace(FusionPipeline(), confidence=fitted.confidence), TWO, ours=True)
        return judge.confidence(asked, batch) if judge.confidence is not None else ()

    return confidence


def _crosswise(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
    halves = [rows.tolist() for rows in split_rows(dataset)[:2]]
    out: list[tuple[str, ...]] = [()] * len(dataset.queries)
    for own, other in (halves, halves[::-1]):
        fitted = _fitted(_rows(batch, other), dataset, "half of the queries")
        system = pipeline_system("calibrated", fitted, TWO)
        for row, found in zip(own, system.answer(dataset.subset(own), _rows(batch, own), k), strict=True):
            out[row] = found
    return out


def _fitted(rankings: Mapping[str, Sequence[Ranking]], dataset: Dataset, what: str) -> FusionPipeline:
    try:
        return calibrated_pipeline(rankings, sizes=dict.fromkeys(rankings, len(dataset.passages)))
    except InsufficientDataError as error:
        raise InsufficientDataError(f"{what} of {dataset.name}: {error}") from error


def _refusing(reason: InsufficientDataError) -> Answer:
    """Return an answer function that raises `reason`; the table then leaves out the system, and gives this reason."""

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        raise reason

    return answer


def _rows(batch: Batch, rows: Sequence[int]) -> Mapping[str, Sequence[Ranking]]:
    return {name: [batch[name][row] for row in rows] for name in TWO}
