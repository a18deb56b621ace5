"""The systems that an experiment compares: single sources, and pipelines that fuse several sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from phasegraph.evaluation.datasets import Dataset
from phasegraph.fusion.pipeline import PIPELINE_NAMES, FusionPipeline
from phasegraph.ranking import Ranking
from phasegraph.result import Result

Batch: TypeAlias = Mapping[str, Sequence[Ranking]]
Answer: TypeAlias = Callable[[Dataset, Batch, int], "list[tuple[str, ...]]"]
Confidences: TypeAlias = Callable[[Dataset, Batch], "Sequence[float | None]"]


@dataclass(frozen=True, slots=True)
class System:
    """A method that answers every query of a data set.

    Parameters
    ----------
    name : str
        Name of the row in the table.
    sources : tuple of str
        Names of the sources whose rankings the system fuses.
    answer : callable
        ``answer(dataset, rankings by source, k) -> ids per query``.
    about : str
        Description in one line.
    confidence : callable, optional
        ``confidence(dataset, rankings by source)`` returns, for each query, the system's confidence that the corpus
        contains an answer, in any unit. For most systems, it is the score of the best hit, or 0 without hits.
    """

    name: str
    sources: tuple[str, ...]
    answer: Answer
    about: str = ""
    confidence: Confidences | None = None


def source_system(source: str, about: str = "") -> System:
    """Return a system that answers with the ranking of one source."""

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        return [tuple(ranking.ids[:k]) for ranking in batch[source]]

    def confidence(dataset: Dataset, batch: Batch) -> list[float | None]:
        return [float(ranking.scores[0]) if len(ranking) else 0.0 for ranking in batch[source]]

    return System(source, (source,), answer, about, confidence)


def pipeline_system(
    name: str, pipeline: FusionPipeline, sources: Sequence[str], about: str = "", *, ours: bool = False
) -> System:
    """Return a system that fuses some sources with a pipeline.

    If `ours` is true, the system's confidence in a query is the field `confidence` of the pipeline's result. Otherwise,
    it is the best score of the result.

    Examples
    --------
    >>> pipeline_system("rrf", FusionPipeline.reciprocal_rank(), ["vector", "graph"]).sources
    ('vector', 'graph')
    """

    def decided(dataset: Dataset, batch: Batch, k: int) -> Iterator[Result]:
        for row in range(len(dataset.queries)):
            found = zip(sources, [batch[source][row] for source in sources], strict=True)
            rankings = [one if one.source == source else replace(one, source=source) for source, one in found]
            yield pipeline.decide(rankings, dataset.context(row, rankings), k=k)

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        return [tuple(one.ids) for one in decided(dataset, batch, k)]

    def confidence(dataset: Dataset, batch: Batch) -> list[float | None]:
        results = decided(dataset, batch, 1)
        return [one.confidence if ours else float(one.scores[0]) if len(one) else 0.0 for one in results]

    return System(name, tuple(sources), answer, about, confidence)


TWO = ("vector", "graph")
THREE = ("vector", "graph", "bm25")
WORDS = ("vector", "bm25")


def _own() -> dict[str, System]:
    alone = {
        "vector": "only the cosine similarity of the embeddings",
        "graph": "only our walk",
        "bm25": "only BM25",
        "hipporag2": "only HippoRAG 2's walk, without its filter by a language model",
        "semflow": "only SemFlowRAG's walk, without its filter by a language model",
    }
    rrf, paper, design = FusionPipeline.reciprocal_rank, FusionPipeline.paper, {"vector": 1.0, "graph": 0.35}
    relative = FusionPipeline.named("comb_sum")
    of_words = {
        "rrf-words": (rrf(), "RRF of vectors and BM25, without a walk: the usual setup of EnsembleRetriever"),
        "relative-words": (
            relative,
            "min-max-sum of vectors and BM25, without a walk: QueryFusionRetriever, relative_score",
        ),
    }
    of_two = {
        "rrf": (rrf(), "RRF: equal weights, rank constant 60"),
        "weighted-rrf": (rrf(design), "RRF with weights: vector 1, graph 0.35"),
        "convex": (
            FusionPipeline.convex({"vector": 0.7, "graph": 0.3}),
            "sum of scores scaled from 0 to the best score; vector weighs 0.7 (TM2C2)",
        ),
        "convex-equal": (FusionPipeline.convex({"vector": 0.5, "graph": 0.5}), "convex with equal weights"),
        "min-max-sum": (relative, "sum of scores scaled from each list's lowest to its highest score"),
        "paper": (paper(), "the paper's percentile ranks: vector weighs 0.7, graph capped at 30 hits"),
        "paper-2wiki": (
            paper("2wiki"),
            "the paper's percentile ranks for 2Wiki: vector weighs 0.4, graph capped at 20 hits",
        ),
        "default": (FusionPipeline(), "our default: calibrated scores, weights by agreement, no fitted parameter"),
    }
    of_three = {
        "rrf-three": (rrf(), "rrf with BM25"),
        "relative-three": (relative, "min-max-sum with BM25"),
        "weighted-rrf-three": (rrf({**design, "bm25": 1.0}), "weighted-rrf with BM25, weight 1"),
        "convex-three": (FusionPipeline.convex({"vector": 1.0, "graph": 1.0, "bm25": 1.0}), "convex-equal with BM25"),
        "default-three": (FusionPipeline(), "default with BM25"),
    }
    systems = {name: source_system(name, about) for name, about in alone.items()}
    for sources, pipelines in ((WORDS, of_words), (TWO, of_two), (THREE, of_three)):
        systems |= {
            name: pipeline_system(name, one, sources, about, ours=name in ("default", "default-three"))
            for name, (one, about) in pipelines.items()
        }
    return systems


OWN_SYSTEMS: Mapping[str, System] = MappingProxyType(_own())


def _named() -> dict[str, System]:
    """Return, by name, a system for each preset and each fusion rule that is not in ``OWN_SYSTEMS``.

    A system fuses the sources ``vector`` and ``graph``; the system ``adr`` also fuses ``bm25``.
    """
    others = [name for name in PIPELINE_NAMES if name not in (*OWN_SYSTEMS, "adr")]
    systems = {
        name: pipeline_system(name, FusionPipeline.named(name), TWO, "the preset or rule of this name")
        for name in others
    }
    adr = FusionPipeline.adr({"vector": 1.0, "graph": 0.35, "bm25": 1.0})
    return {**systems, "adr": pipeline_system("adr", adr, THREE, "the preset of the design record, with exact matches")}


NAMED_SYSTEMS: Mapping[str, System] = MappingProxyType(_named())
