"""The row ``calibrated``: our default, fitted on unlabelled queries that are not those it is scored on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from phasegraph.candidates import Ranking
from phasegraph.cli.output import progress
from phasegraph.errors import InsufficientDataError
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.legs import Bench, search_legs
from phasegraph.evaluation.parts import check_disjoint, split_by_id
from phasegraph.evaluation.systems import TWO, Answer, Batch, System, pipeline_system
from phasegraph.pipeline import FusionPipeline
from phasegraph.tuning import calibrated_pipeline


def calibrated(folder: Path, dataset: Dataset, limit: int) -> System:
    """The system fitted on a folder's queries, whose labels are not looked at.

    Where the folder is the very one that is evaluated, each half of the queries (by the MD5 of their ids) is
    answered by a pipeline fitted on the other half. Too few queries leave the row out, with the reason.
    """
    if dataset.path is not None and folder.resolve() == dataset.path.resolve():
        return System("calibrated", TWO, _crosswise, "default, each half fitted on the other")
    other = load_dataset(folder)
    check_disjoint(other, dataset)
    legs = search_legs(Bench(other, limit, progress=progress), TWO)
    rankings = {name: leg.rankings for name, leg in legs.items()}
    try:
        fitted = _fitted(rankings, other, "the queries")
    except InsufficientDataError as error:
        return System("calibrated", TWO, _refusing(error), f"default, not fitted on {other.name}")
    return pipeline_system("calibrated", fitted, TWO, f"default, fitted on {other.name}")


def _crosswise(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
    ids = [query.id for query in dataset.queries]
    halves = [split_by_id(ids, "tune").tolist(), split_by_id(ids, "confirm").tolist()]
    out: list[tuple[str, ...]] = [()] * len(ids)
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
    """What a system that could not be fitted answers, so that its row is left out and says why."""

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        raise reason

    return answer


def _rows(batch: Batch, rows: Sequence[int]) -> Mapping[str, Sequence[Ranking]]:
    return {name: [batch[name][row] for row in rows] for name in TWO}
