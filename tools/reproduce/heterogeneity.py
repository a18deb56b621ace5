"""Figure 5 of "Beyond the Reranker": the effect of its methods, depending on how mixed the collection is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from claims import Verdict, judge, points
from page import Page, p_value, table
from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.significance import paired_bootstrap
from published import column_of, published_configurations

METHODS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "SSCC": ("full", "wo_sscc"),
        "HyDE": ("full", "wo_hyde"),
        "RAPTOR": ("full", "wo_raptor"),
        "SSCC against no correction": ("full", "wo_crag"),
        "reranker": ("full", "wo_rerank"),
    }
)
"""The configurations with and without each method; the first three are the paper's figure."""
FIGURE = ("SSCC", "HyDE", "RAPTOR")
PRINTED: Mapping[str, tuple[int, float, Mapping[str, tuple[float, float]]]] = MappingProxyType(
    {
        "MuSiQue": (200, 0.3925, {"SSCC": (0.3727, 0.350), "HyDE": (0.3386, 0.002), "RAPTOR": (0.3795, 0.349)}),
        "QASPER": (213, 0.2178, {"SSCC": (0.2210, 0.079), "HyDE": (0.2140, 0.716), "RAPTOR": (0.2250, 0.479)}),
    }
)
"""Per benchmark: queries, F1 of the whole pipeline; by method F1 without it and p. As the authors' logs print them."""
HETDOCQA = "HetDocQA"
_QUESTION = re.compile(r"-(?:factual|code|cross_document|multi_hop|thematic)-\d+$")
RESAMPLES = 10_000


def collection_of(query: str) -> str:
    """Return the collection that a published query id names.

    >>> collection_of("arxiv-2004.04906-multi_hop-0")
    'arxiv-2004.04906'
    """
    return _QUESTION.sub("", query)


def kinds_of(dataset: Dataset) -> dict[str, int]:
    """Return the number of modalities (code, PDF, prose, markdown, tables) in the documents of each collection."""
    found: dict[str, set[str]] = {}
    for passage in dataset.passages:
        found.setdefault(str(passage.extra.get("collection_id")), set()).add(str(passage.extra.get("modality")))
    return {name: len(kinds) for name, kinds in found.items()}


def effects_of(folder: Path) -> tuple[list[str], dict[str, FloatArray]]:
    """Return the ids of the published HetDocQA queries, and for each method the F1 that it adds to each query."""
    configurations, queries = published_configurations(folder)
    return queries, {
        name: column_of(configurations[whole], "f1", queries) - column_of(configurations[without], "f1", queries)
        for name, (whole, without) in METHODS.items()
    }


def slope_of(kinds: IntArray, effects: FloatArray) -> tuple[float, float, float]:
    """Return the slope of `effects` over `kinds` by least squares, with the ends of its 95 % bootstrap interval.

    For each query, `kinds` holds the number of modalities in its collection, and `effects` holds an added F1. The
    bootstrap resamples queries.
    """
    rows = np.random.default_rng(0).integers(0, len(kinds), (RESAMPLES, len(kinds)))
    x, y = kinds[rows] - kinds[rows].mean(axis=1, keepdims=True), effects[rows]
    varying = (x != 0).any(axis=1)
    slopes = (x * y).sum(axis=1)[varying] / (x * x).sum(axis=1)[varying]
    centred = kinds - kinds.mean()
    low, high = np.quantile(slopes, [0.025, 0.975])
    return float(centred @ effects / (centred @ centred)), float(low), float(high)


def heterogeneity_page(folder: Path, corpus: Dataset | None) -> Page:
    """Return the page `heterogeneity`: the F1 that methods add, on the three benchmarks of the paper's Figure 5.

    If `corpus` is given, the page also splits HetDocQA by the number of modalities in a question's collection.
    """
    queries, effects = effects_of(folder)
    parts = [
        "Figure 5 of the paper shows the F1 that SSCC, HyDE and RAPTOR add, from plain prose (MuSiQue, QASPER) to "
        "mixed collections (HetDocQA). For HetDocQA, the table is recomputed from the published values of each "
        f"test query, by a paired bootstrap with {RESAMPLES:,} resamples, seed 0. For the other two benchmarks, the "
        "table quotes the means and p of the authors' logs. Our data has no values per query for these benchmarks, "
        "so their intervals cannot be computed.",
        _benchmarks(effects),
    ]
    verdicts = [*_growth(effects)]
    if corpus is not None:
        known = kinds_of(corpus)
        absent = [query for query in queries if collection_of(query) not in known]
        if absent:
            raise InvalidInputError(f"{corpus.name} must hold every published collection; {absent[0]} has none")
        kinds = np.array([known[collection_of(query)] for query in queries])
        parts += [
            "The next table splits HetDocQA by the number of modalities (code, PDF, prose, markdown, tables) in "
            "the question's collection. It shows the added F1 with its 95 % interval. The last column is the "
            "change of the added F1 per additional modality (least squares, bootstrap over queries).",
            _within(kinds, effects),
        ]
        verdicts.append(
            judge(
                "The added F1 grows with the number of modalities in the collection (lower end of the interval of "
                "the slope, points of F1)",
                {name: 100 * slope_of(kinds, effects[name])[1] for name in METHODS},
                0.1,
                shown=points,
            )
        )
    return Page("heterogeneity", "Effects by heterogeneity of the collection", tuple(parts), tuple(verdicts))


def _benchmarks(effects: Mapping[str, FloatArray]) -> str:
    rows: list[list[object]] = []
    for name in FIGURE:
        for benchmark, (count, whole, methods) in PRINTED.items():
            without, p = methods[name]
            rows.append([name, benchmark, count, f"{whole - without:+.4f}", "–", p_value(p)])
        found = paired_bootstrap(effects[name])
        interval = f"[{found.low:+.4f}, {found.high:+.4f}]"
        rows.append([name, HETDOCQA, len(effects[name]), f"{found.mean:+.4f}", interval, p_value(found.p)])
    return table(["method", "benchmark", "queries", "F1 added", "95 % interval", "p"], rows)


def _within(kinds: IntArray, effects: Mapping[str, FloatArray]) -> str:
    levels = np.unique(kinds).tolist()
    columns = [f"{level} ({int((kinds == level).sum())} queries)" for level in levels]
    rows = []
    for name, values in effects.items():
        found = [paired_bootstrap(values[kinds == level]) for level in levels]
        slope, low, high = slope_of(kinds, values)
        cells = [f"{one.mean:+.4f} [{one.low:+.4f}, {one.high:+.4f}]" for one in found]
        rows.append([name, *cells, f"{slope:+.4f} [{low:+.4f}, {high:+.4f}]"])
    return table(["method", *columns, "per additional modality"], rows)


def _growth(effects: Mapping[str, FloatArray]) -> list[Verdict]:
    """Return the verdicts on the paper's claims that SSCC's gain grows by benchmark, and that SSCC beats its rivals."""
    added = {name: whole - methods["SSCC"][0] for name, (_, whole, methods) in PRINTED.items()}
    ours = float(effects["SSCC"].mean())
    return [
        judge(
            "SSCC's gain grows with the heterogeneity of the benchmark (points of F1 above the previous benchmark)",
            {
                "QASPER after MuSiQue": 100 * (added["QASPER"] - added["MuSiQue"]),
                "HetDocQA after QASPER": 100 * (ours - added["QASPER"]),
            },
            0.1,
            shown=points,
        ),
        judge(
            "On HetDocQA, SSCC has a higher F1 than the corrector that asks a language model (lower end of the "
            "interval, points of F1)",
            {"gain": 100 * paired_bootstrap(effects["SSCC"]).low},
            0.1,
            shown=points,
        ),
        judge(
            "On HetDocQA, SSCC has a higher F1 than no correction (lower end of the interval, points of F1)",
            {"gain": 100 * paired_bootstrap(effects["SSCC against no correction"]).low},
            0.1,
            shown=points,
        ),
    ]
