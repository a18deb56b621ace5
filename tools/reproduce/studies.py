"""The studies: the pipelines that each study compares, and its question."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from phasegraph._support.ordering import top_order
from phasegraph._support.typing import IntArray
from phasegraph.calibration import Calibrator, ListCalibrator, fit_reference_ecdf
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.measures import Measure, last_hop
from phasegraph.evaluation.splits import split_by_id
from phasegraph.evaluation.systems import OWN_SYSTEMS, THREE, TWO, Answer, Batch, System, pipeline_system
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking

Rankings = Mapping[str, Sequence[Ranking]]
NDCG, MRR = Measure("nDCG", 10), Measure("MRR", 10)
REPORTED_DIPS = ((NDCG, 0.018), (MRR, 0.025))
"""How far the design record's fusion falls on exact matches, as the record reports."""
MEASURES = (Measure("LastHop", 5), Measure("LastHop", 10), Measure("Recall", 5))
PAPER = {"musique": (0.7, 30), "2wiki": (0.4, 20)}
DESIGN = {"vector": 1.0, "bm25": 1.0, "graph": 0.35}
CONSTANTS = (1, 10, 30, 60, 100)
RARE = 3
"""A word is rare that stands in so many passages or fewer."""


def halves(dataset: Dataset) -> dict[str, IntArray]:
    """Split the queries into halves by the MD5 of their ids; return the rows of each half (`tune` and `confirm`)."""
    ids = [query.id for query in dataset.queries]
    return {"tune": split_by_id(ids, "tune"), "confirm": split_by_id(ids, "confirm")}


@dataclass(frozen=True, slots=True)
class Study:
    """A comparison of systems on all data sets, which makes one page.

    Parameters
    ----------
    name, title, question : str
    systems : callable
        ``systems(dataset name, rankings of the other part) -> list of System``. Values are fitted on these rankings,
        without labels.
    baseline : str
        The system with which wins, losses and p-values compare.
    limit : int
        Number of hits of every source.
    graph_limit : int, optional
        Number of hits of the graph, if it differs from `limit`.
    sources : tuple of str
        The sources that the study fuses.
    split : callable
        ``split(dataset) -> rows of the queries by part``, with two parts.
    measures : tuple of Measure
        The columns; LastHop@10 is always one of them.
    differences : tuple of Measure
        A second table has the differences to the baseline in these measures, with paired 95 % bootstrap intervals.
    """

    name: str
    title: str
    question: str
    systems: Callable[[str, Rankings], list[System]]
    baseline: str = "vector"
    limit: int = 200
    graph_limit: int | None = None
    sources: tuple[str, ...] = TWO
    split: Callable[[Dataset], Mapping[str, IntArray]] = halves
    measures: tuple[Measure, ...] = MEASURES
    differences: tuple[Measure, ...] = ()


def configuration(dataset: str) -> tuple[float, int]:
    """Return the paper's vector weight and graph cap for a data set; the values of MuSiQue if the paper gives none."""
    return next((found for name, found in PAPER.items() if dataset.startswith(name)), PAPER["musique"])


def _reference(rankings: Rankings) -> dict[str, Calibrator]:
    return {name: fit_reference_ecdf([one.scores for one in rankings[name]]) for name in TWO}


def _pipeline(
    dataset: str, calibrator: str, rule: str, cap: int | None = None, *, weight: float | None = None, **options: object
) -> FusionPipeline:
    weight = configuration(dataset)[0] if weight is None else weight
    return FusionPipeline(
        calibrator=ListCalibrator(calibrator),
        rule=rule,
        rule_options=options,
        weights={"vector": weight, "graph": 1 - weight},
        pool_caps={} if cap is None else {"graph": cap},
    )


def _own(*names: str) -> list[System]:
    return [OWN_SYSTEMS[name] for name in names]


def table_one(dataset: str, other: Rankings) -> list[System]:
    """Return the systems of the study `table-1`: single sources, RRF, the paper's configurations and the default."""
    found = _own("vector", "graph", "rrf", "paper", "paper-2wiki", "default")
    uncapped = _pipeline(dataset, "percentile", "boltzmann", weight=0.3)
    return [*found, pipeline_system("paper, vector .3, no cap", uncapped, TWO)]


def against_rrf(dataset: str, other: Rankings) -> list[System]:
    """Return the systems of the study `against-rrf`, which the paper does not compare with RRF."""
    return _own("rrf", "vector", "paper", "paper-2wiki", "default")


def calibrations(dataset: str, other: Rankings) -> list[System]:
    """Return vectors, RRF, and systems with four calibrations, each fused by the linear and the Boltzmann rule.

    They have the paper's weight and cap. The reference ECDF is fitted on `other`, the rankings of the other part.
    """
    _, cap = configuration(dataset)
    reference = _reference(other)
    found = _own("vector", "rrf")
    for rule in ("linear", "boltzmann"):
        for label, name in (("own-list percentile", "percentile"), ("min-max", "min_max"), ("raw/max", "max")):
            found.append(pipeline_system(f"{label}, {rule}", _pipeline(dataset, name, rule, cap), TWO))
        fitted = replace(_pipeline(dataset, "percentile", rule, cap), calibrators=reference)
        found.append(pipeline_system(f"reference ECDF, {rule}", fitted, TWO))
    paper = pipeline_system("", _pipeline(dataset, "percentile", "boltzmann", cap), TWO)
    found.append(System("own-list percentile, boltzmann, scores bent by exp(5s)", TWO, _bent(paper)))
    return found


def _bent(system: System) -> Answer:
    """Return a function that answers as `system` does, but from scores that are transformed by exp(5s).

    The answers of a system that uses only ranks do not change.
    """

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        bent = {
            name: [Ranking(name, one.ids, np.exp(5 * (one.scores - one.scores.max(initial=0)))) for one in lists]
            for name, lists in batch.items()
        }
        return system.answer(dataset, bent, k)

    return answer


def temperatures(dataset: str, other: Rankings) -> list[System]:
    """Return vectors, and systems with the Boltzmann rule at the automatic temperature and at fixed temperatures."""
    _, cap = configuration(dataset)
    found = _own("vector")
    auto = _pipeline(dataset, "percentile", "boltzmann", cap)
    found.append(pipeline_system("automatic (half the mean energy)", auto, TWO))
    for fixed in (0.1, 0.25, 0.5, 1.0, 2.0):
        pipeline = _pipeline(dataset, "percentile", "boltzmann", cap, temperature=fixed)
        found.append(pipeline_system(f"fixed {fixed:g}", pipeline, TWO))
    return found


def caps(dataset: str, other: Rankings) -> list[System]:
    """Return vectors, and systems with a cap on the graph list.

    A cap cuts the list, or limits the number of passages that the vectors did not return.
    """
    found = _own("vector")
    for cap in (None, 10, 20, 30, 50, 100):
        pipeline = _pipeline(dataset, "percentile", "boltzmann", cap)
        label = "no cap" if cap is None else f"list cut at {cap}"
        found.append(pipeline_system(label, pipeline, TWO))
        if cap is not None:
            only = replace(pipeline, pool_cap_mode="unique_only")
            found.append(pipeline_system(f"at most {cap} that vectors lack", only, TWO))
    return found


def explosion(dataset: str, other: Rankings) -> list[System]:
    """Return systems that fuse the whole graph list of thousands of hits, and systems that limit its effect."""
    found = _own("vector", "graph", "rrf")
    slice_ = _pipeline("", "percentile", "boltzmann", weight=0.3)
    found.append(pipeline_system("paper's rule, vector .3, no cap", slice_, TWO))
    plain = _pipeline(dataset, "percentile", "boltzmann")
    found.append(pipeline_system("paper's rule, whole graph list", plain, TWO))
    capped = _pipeline(dataset, "percentile", "boltzmann", 30)
    found.append(pipeline_system("paper's rule, graph list cut at 30", capped, TWO))
    sized = _pipeline(dataset, "percentile", "boltzmann", None, norm="max")
    found.append(pipeline_system("paper's rule divided by its maximum", sized, TWO))
    found.append(pipeline_system("linear over percentiles", _pipeline(dataset, "percentile", "linear"), TWO))
    return [*found, OWN_SYSTEMS["default"]]


def convex_or_rrf(dataset: str, other: Rankings) -> list[System]:
    """Return systems with reciprocal rank fusion and with convex combination, of two sources and of three."""
    found = _own("rrf", "weighted-rrf", "vector", "graph", "bm25")
    for share in (0.8, 0.7, 0.5, 0.3):
        pipeline = FusionPipeline.convex({"vector": share, "graph": 1 - share})
        found.append(pipeline_system(f"convex, vector {share:g}", pipeline, TWO))
    found += _own("rrf-three", "weighted-rrf-three")
    for share in (0.2, 1 / 3, 0.6):
        rest = (1 - share) / 2
        pipeline = FusionPipeline.convex({"vector": rest, "graph": share, "bm25": rest})
        found.append(pipeline_system(f"convex of three, graph {share:.2g}", pipeline, THREE))
        ranked = FusionPipeline.reciprocal_rank({"vector": rest, "graph": share, "bm25": rest})
        found.append(pipeline_system(f"weighted rrf of three, graph {share:.2g}", ranked, THREE))
    return [*found, *_own("default", "default-three")]


def rank_constants(dataset: str, other: Rankings) -> list[System]:
    """Return the system with only the vector source, and systems that fuse sources by reciprocal rank.

    Each of several rank constants has a system of two sources (vector, graph) with equal weights. It also has a system
    of three sources (vector, graph, BM25) with the weights of the design record, the project's first document. The
    arguments have no effect.
    """
    found = _own("vector")
    for constant in CONSTANTS:
        equal = FusionPipeline.reciprocal_rank(rank_constant=constant)
        found.append(pipeline_system(f"rrf, constant {constant}", equal, TWO))
    for constant in CONSTANTS:
        design = FusionPipeline.reciprocal_rank(DESIGN, rank_constant=constant)
        found.append(pipeline_system(f"design record, constant {constant}", design, THREE))
    return found


def hard_slice(dataset: Dataset) -> dict[str, IntArray]:
    """Return the rows of hard queries (the vectors' first ten hits do not contain the last hop), and of the others.

    Reconstructed: the paper says how many queries are hard, and how many of them each system answers, but not which.
    """
    ids = [passage.id for passage in dataset.passages]
    hard = np.zeros(len(dataset.queries), dtype=bool)
    for row, query in enumerate(dataset.queries):
        best = top_order((dataset.passage_vectors @ dataset.query_vectors[row]).astype(np.float64), ids, 10)
        hard[row] = last_hop([ids[place] for place in best.tolist()], query.judgement, 10) == 0.0
    return {"hard": np.flatnonzero(hard), "rest": np.flatnonzero(~hard)}


def exact_matches(dataset: Dataset) -> list[list[str]]:
    """Return, for each query, the ids of the passages that match it exactly.

    Such a passage contains a phrase that the query quotes, or a word of the query, and at most ``RARE`` passages
    contain it. A word has at least four letters, in upper or lower case.
    """
    texts = {passage.id: passage.content.casefold() for passage in dataset.passages}
    holders: dict[str, list[str]] = {}
    for name, text in texts.items():
        for word in set(re.findall(r"\w{4,}", text)):
            holders.setdefault(word, []).append(name)
    found = []
    for query in dataset.queries:
        asked = query.text.casefold()
        rare = [holders.get(word, []) for word in re.findall(r"\w{4,}", asked)]
        quoted = [[n for n, text in texts.items() if phrase in text] for phrase in re.findall(r'"([^"]+)"', asked)]
        found.append(sorted({name for held in (*rare, *quoted) if len(held) <= RARE for name in held}))
    return found


def by_exact_match(dataset: Dataset) -> dict[str, IntArray]:
    """Return the rows of the queries that have an exact match (see :func:`exact_matches`), and of the others."""
    matched = np.array([bool(held) for held in exact_matches(dataset)], dtype=bool)
    return {"exact": np.flatnonzero(matched), "rest": np.flatnonzero(~matched)}


def exact_bonus(dataset: str, other: Rankings) -> list[System]:
    """Return baselines, and the design record's fusion with exact matches as a further source, at several weights."""
    found = [*_own("vector", "bm25", "convex-three"), replace(OWN_SYSTEMS["weighted-rrf-three"], name="design record")]
    for weight in (0.35, 1.0, 2.0):
        pipeline = FusionPipeline.reciprocal_rank({**DESIGN, "exact": weight})
        found.append(System(f"with exact matches, weight {weight:g}", THREE, _with_exact(pipeline)))
    return found


def _with_exact(pipeline: FusionPipeline) -> Answer:
    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        return [
            tuple(
                pipeline.decide(
                    [*(batch[name][row] for name in THREE), Ranking("exact", held, np.ones(len(held)))], k=k
                ).ids
            )
            for row, held in enumerate(exact_matches(dataset))
        ]

    return answer


WHOLE = 1_000_000
STUDIES: tuple[Study, ...] = (
    Study(
        "table-1",
        "Vectors, RRF and the paper's fusion",
        "This page repeats Table 1 of the paper on our data and with our graph source. The table compares each "
        "system's LastHop with that of the vectors.",
        table_one,
        limit=50,
    ),
    Study(
        "against-rrf",
        "The paper's fusion against RRF",
        "The paper compares its systems only with vectors. Here, the baseline is reciprocal rank fusion (RRF).",
        against_rrf,
        baseline="rrf",
        limit=50,
    ),
    Study(
        "table-2-calibration",
        "Calibrations and rules",
        "This page repeats Table 2 of the paper. It compares four calibrations: percentiles within the returned "
        "list, min-max, raw/max, and percentiles of a reference sample (reference ECDF). Each calibration is fused "
        "by a weighted sum and by the Boltzmann rule, with the paper's weight and cap for the data set.",
        calibrations,
    ),
    Study(
        "table-2-temperature",
        "Temperatures",
        "This page compares the automatic temperature of the Boltzmann rule with fixed temperatures.",
        temperatures,
    ),
    Study(
        "pool-caps",
        "Pool caps",
        "This page shows the effect of the length of the graph list under the paper's "
        "rule. A cap cuts the list, or limits the number of passages that the vectors "
        "did not return.",
        caps,
    ),
    Study(
        "pool-explosion",
        "The pool explosion, and its cure",
        "Section 7.2 of the paper says that a graph without a limit returns thousands of passages. Here, the "
        "vectors return 50 hits, and the graph returns all passages that its walk reached.",
        explosion,
        limit=50,
        graph_limit=WHOLE,
    ),
    Study(
        "rrf-or-convex",
        "RRF or convex combination, two sources and three",
        "The design record, a document with which this project began, chose weighted RRF. The study that it cites "
        "prefers a convex combination. The baseline is RRF of two sources with equal weights.",
        convex_or_rrf,
        baseline="rrf",
        limit=50,
        sources=THREE,
    ),
    Study(
        "rank-constant",
        "The rank constant",
        "The design record says that the constant of reciprocal rank fusion hardly matters between 10 and 100. The "
        "table tests two sources with equal weights, and three sources with the record's weights (vectors and BM25 "
        "1, graph .35).",
        rank_constants,
        limit=50,
        sources=THREE,
    ),
    Study(
        "exact-match",
        "Exact matches",
        "The design record adds a bonus for exact matches, as one more ranked source. The table splits the queries "
        "into those with and without an exact match. A query has an exact match if a passage contains a phrase "
        f"that the query quotes, or a word of the query that at most {RARE} passages contain. Nothing is fitted. "
        f"The record reports a loss on queries with an exact match, of {REPORTED_DIPS[0][1]} in nDCG and "
        f"{REPORTED_DIPS[1][1]} in MRR. It does not say against which system, so the page compares with BM25 alone "
        "and with a convex combination.",
        exact_bonus,
        baseline="design record",
        limit=50,
        sources=THREE,
        split=by_exact_match,
        measures=(*MEASURES, NDCG, MRR),
        differences=(MEASURES[1], MEASURES[2], NDCG, MRR),
    ),
)
