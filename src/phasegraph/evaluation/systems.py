"""The systems of an experiment by name: each turns the legs' rankings of every query into ids in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from phasegraph.calibration import ListCalibrator
from phasegraph.candidates import Ranking
from phasegraph.evaluation.datasets import Dataset
from phasegraph.pipeline import FusionPipeline
from phasegraph.priors import Context

Batch: TypeAlias = Mapping[str, Sequence[Ranking]]
Answer: TypeAlias = Callable[[Dataset, Batch, int], "list[tuple[str, ...]]"]


@dataclass(frozen=True, slots=True)
class System:
    """One way to answer every query.

    Parameters
    ----------
    name : str
        Row of the table.
    legs : tuple of str
        The sources it fuses.
    answer : callable
        ``answer(dataset, rankings by leg, k) -> ids per query``.
    about : str
        One line.
    """

    name: str
    legs: tuple[str, ...]
    answer: Answer
    about: str = ""


def leg_system(leg: str, about: str = "") -> System:
    """One source alone, in its own order."""

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        return [tuple(ranking.ids[:k]) for ranking in batch[leg]]

    return System(leg, (leg,), answer, about)


def pipeline_system(name: str, pipeline: FusionPipeline, legs: Sequence[str], about: str = "") -> System:
    """A pipeline over some legs.

    Examples
    --------
    >>> pipeline_system("rrf", FusionPipeline.reciprocal_rank(), ["vector", "graph"]).legs
    ('vector', 'graph')
    """

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        return [
            tuple(pipeline.decide([batch[leg][row] for leg in legs], Context(query=query.text), k=k).ids)
            for row, query in enumerate(dataset.queries)
        ]

    return System(name, tuple(legs), answer, about)


TWO = ("vector", "graph")
THREE = ("vector", "graph", "bm25")
INFIMA: Mapping[str, float] = MappingProxyType({"vector": -1.0, "graph": 0.0, "bm25": 0.0})


def weighted_rrf(weights: Mapping[str, float]) -> FusionPipeline:
    """Reciprocal rank fusion with weights (the design record's: lexical and dense 1, graph .35)."""
    return FusionPipeline.reciprocal_rank(weights)


def convex(weights: Mapping[str, float]) -> FusionPipeline:
    """TM2C2: theoretical min-max (cosine from -1, BM25 and walk mass from 0), then a weighted sum."""
    own = {name: ListCalibrator("theoretical_min_max", {"infimum": INFIMA[name]}) for name in weights}
    return FusionPipeline(calibrator=ListCalibrator("min_max"), calibrators=own, rule="linear", weights=weights)


def min_max_sum() -> FusionPipeline:
    """Min-max of each list, added with equal weights."""
    return FusionPipeline(calibrator=ListCalibrator("min_max"), rule="comb_sum", weighting="equal")


def _own() -> dict[str, System]:
    paper, design = FusionPipeline.phasegraph, {"vector": 1.0, "graph": 0.35}
    rows = [
        leg_system("vector", "cosine alone"),
        leg_system("graph", "the walk alone"),
        leg_system("bm25", "BM25 alone"),
        leg_system("hipporag2", "HippoRAG 2's walk alone, without a model's filter"),
        leg_system("semflow", "SemFlowRAG's walk alone, without a model's filter"),
        pipeline_system("rrf", FusionPipeline.reciprocal_rank(), TWO, "equal weights, rank constant 60"),
        pipeline_system("weighted-rrf", weighted_rrf(design), TWO, "the design record's: graph .35"),
        pipeline_system("convex", convex({"vector": 0.7, "graph": 0.3}), TWO, "TM2C2, vector .7"),
        pipeline_system("convex-equal", convex({"vector": 0.5, "graph": 0.5}), TWO, "TM2C2, equal weights"),
        pipeline_system("min-max-sum", min_max_sum(), TWO, "min-max of each list, added"),
        pipeline_system("phasegraph", paper(), TWO, "the paper's: vector .7, graph capped at 30"),
        pipeline_system("phasegraph-2wiki", paper("2wiki"), TWO, "the paper's: vector .4, graph capped at 20"),
        pipeline_system("default", FusionPipeline(), TWO, "ours: nothing fitted"),
        pipeline_system("rrf-three", FusionPipeline.reciprocal_rank(), THREE, "equal weights, with BM25"),
        pipeline_system(
            "weighted-rrf-three", weighted_rrf({**design, "bm25": 1.0}), THREE, "the design record's, with BM25"
        ),
        pipeline_system(
            "convex-three", convex({"vector": 1.0, "graph": 1.0, "bm25": 1.0}), THREE, "TM2C2, equal, with BM25"
        ),
        pipeline_system("default-three", FusionPipeline(), THREE, "ours, with BM25"),
    ]
    return {system.name: system for system in rows}


OWN_SYSTEMS: Mapping[str, System] = MappingProxyType(_own())
