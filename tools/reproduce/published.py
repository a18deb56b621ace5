"""Published results, computed again: fitted acceptance thresholds, and tests of the ablation with corrections."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from scipy.stats import false_discovery_control

from claims import Verdict, judge, points
from page import Page, number, p_value, table
from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.acceptance import JudgedScores, fit_global_threshold, fit_grid, fit_threshold
from phasegraph.acceptance.fitting import area_under_curve
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.significance import BootstrapResult, holm, paired_bootstrap

PER_QUERY, FOLDS = 30, 5
DEFAULTS: Mapping[str, float] = MappingProxyType({"bi": 0.5, "cross": 0.0})
Taus = Mapping[str, float]
ABLATIONS: Mapping[str, str] = MappingProxyType(
    {
        "wo_rerank": "rerank",
        "wo_hyde": "HyDE",
        "wo_raptor": "RAPTOR",
        "wo_sscc": "SSCC",
        "wo_cross_doc": "cross-doc",
        "wo_graph": "graph",
        "wo_crag": "CRAG",
        "wo_dphf": "DPHF",
    }
)


def read_json(path: Path) -> dict[str, object]:
    """Read a JSON object from a file; raise InvalidInputError if the file does not contain one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path}: must be a JSON file; {error}") from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"{path}: must hold one JSON object; got {type(found).__name__}")
    return found


def judged_sources(path: Path) -> dict[str, JudgedScores]:
    """Return the published scores and labels of each source; each block of thirty hits belongs to one query."""
    found = {}
    for name, pairs in read_json(path).items():
        array = np.array(pairs, dtype=np.float64)
        queries = np.arange(len(array)) // PER_QUERY
        found[name] = JudgedScores(array[:, 0], array[:, 1].astype(bool), queries)
    return found


def balanced_accuracy(judged: JudgedScores, tau: float) -> float:
    """Return the balanced accuracy of accepting hits with ``score >= tau``.

    It is the mean of the true positive rate and the true negative rate.
    """
    accepted = judged.scores >= tau
    return float((accepted[judged.labels].mean() + (~accepted[~judged.labels]).mean()) / 2)


def _raw_global(judged: Mapping[str, JudgedScores]) -> Taus:
    scores = np.concatenate([judged[name].scores for name in sorted(judged)])
    labels = np.concatenate([judged[name].labels for name in sorted(judged)])
    return dict.fromkeys(judged, fit_grid(JudgedScores(scores, labels)).value)


PER_SOURCE = ("per source, 100-point grid", "per source, exact and midway")
ECDF, RAW = "one level on each source's own ECDF", "one raw threshold for all"
POLICIES: Mapping[str, Callable[[Mapping[str, JudgedScores]], Taus]] = MappingProxyType(
    {
        PER_SOURCE[0]: lambda judged: {n: fit_grid(one).value for n, one in judged.items()},
        PER_SOURCE[1]: lambda judged: {n: fit_threshold(one).value for n, one in judged.items()},
        ECDF: lambda judged: {n: one.value for n, one in fit_global_threshold(judged, fit=fit_grid).items()},
        RAW: _raw_global,
        "the code's defaults (bi .5, cross 0)": lambda judged: DEFAULTS,
    }
)


def cross_validated(judged: Mapping[str, JudgedScores]) -> dict[str, float]:
    """Return, for each way to set thresholds, the balanced accuracy on queries that were not used for fitting.

    It is the mean over sources and five folds of queries.
    """
    queries = next(iter(judged.values())).query_count
    folds = np.array_split(np.random.default_rng(0).permutation(queries), FOLDS)
    out = {}
    for name, policy in POLICIES.items():
        found = []
        for fold in folds:
            taus = policy({source: _part(one, fold, keep=False) for source, one in judged.items()})
            tested = {source: _part(one, fold, keep=True) for source, one in judged.items()}
            found.append(np.mean([balanced_accuracy(tested[source], taus[source]) for source in judged]))
        out[name] = float(np.mean(found))
    return out


def _part(judged: JudgedScores, fold: IntArray, *, keep: bool) -> JudgedScores:
    return judged.only(np.isin(np.arange(judged.query_count), fold) == keep)


def _fitted_row(name: str, judged: JudgedScores) -> list[object]:
    grid, exact = fit_grid(judged).value, fit_threshold(judged, midway=False).value
    f1 = fit_threshold(judged, objective="f1", midway=False)
    return [
        name,
        len(judged),
        judged.positives,
        number(area_under_curve(judged), 6),
        f"{number(grid, 6)} ({number(balanced_accuracy(judged, grid), 6)})",
        f"{number(exact, 6)} ({number(balanced_accuracy(judged, exact), 6)})",
        f"{number(f1.value, 6)} ({number(f1.statistics['f1'], 6)})",
        f"{DEFAULTS[name]:g} ({number(balanced_accuracy(judged, DEFAULTS[name]))})",
    ]


def thresholds_page(folder: Path) -> Page:
    """Return the page `acceptance-thresholds` on published scores: fitted thresholds and areas under the curve.

    It also compares ways to set thresholds, by their cross-validated balanced accuracies.
    """
    judged = judged_sources(folder / "sscc.json")
    columns = ["source", "pairs", "relevant", "AUC", "grid-100 (BA)", "exact Youden (BA)", "best F1 (F1)"]
    columns.append("default (BA)")
    rows = [_fitted_row(name, one) for name, one in judged.items()]
    validated = cross_validated(judged)
    return Page(
        "acceptance-thresholds",
        "Acceptance thresholds, refitted from the released scores",
        (
            f"Scores and labels of {max(one.query_count for one in judged.values())} calibration and development "
            f"queries, {PER_QUERY} hits each, as released with the paper 'Beyond the Reranker'. BA is the balanced "
            "accuracy: the mean of the true positive rate and the true negative rate. The defaults are the "
            "thresholds in the released code. No script of the released code calls its function for calibration.",
            table(columns, rows),
            "Five-fold cross-validation by query, mean over both sources:",
            table(["thresholds", "balanced accuracy"], [[n, number(v)] for n, v in validated.items()]),
        ),
        (*_defaults(judged), *_policies(validated)),
    )


def _defaults(judged: Mapping[str, JudgedScores]) -> list[Verdict]:
    """Return the verdicts on the acceptance thresholds that the released code sets by default."""
    below = {name: float(one.scores.min()) - DEFAULTS[name] for name, one in judged.items()}
    rejected = {name: float((one.scores < DEFAULTS[name]).mean()) for name, one in judged.items()}
    lost = {
        name: 100 * (balanced_accuracy(one, fit_grid(one).value) - balanced_accuracy(one, DEFAULTS[name]))
        for name, one in judged.items()
    }
    return [
        judge("The default threshold is below every released score (lowest score minus default)", below, 0),
        judge("The default threshold rejects no hit (share of rejected hits)", rejected, 0, 0),
        judge(
            "The default threshold has at least two points less balanced accuracy than the fitted threshold",
            lost,
            2,
            shown=points,
        ),
    ]


def _policies(validated: Mapping[str, float]) -> list[Verdict]:
    """Return the verdicts on what one level, or one raw threshold, for all sources costs in balanced accuracy."""
    best = max(validated[name] for name in PER_SOURCE)
    cost = {name: 100 * (best - value) for name, value in validated.items() if name not in PER_SOURCE}
    return [
        judge(
            "One percentile for all sources, on each source's own reference ECDF, is at most half a point below "
            "one threshold per source; the paper leaves this simpler way open",
            {"below": cost[ECDF]},
            high=0.5,
            shown=points,
        ),
        judge(
            "One raw threshold for all sources is at most half a point below one threshold per source",
            {"below": cost[RAW]},
            high=0.5,
            shown=points,
        ),
    ]


@dataclass(frozen=True, slots=True)
class Ablation:
    """One removed part of the published system: the means without it, and tests of the change of F1 by the removal.

    `holm` and `bh` are the p-value of the paired bootstrap, corrected over all removed parts by two methods.
    """

    removed: str
    ndcg: float
    f1: float
    difference: BootstrapResult
    changed: int
    changed_ndcg: int
    holm: float = 1.0
    bh: float = 1.0


def ablations(folder: Path) -> list[Ablation]:
    """Return a row for each part that the published ablation removes; p-values are corrected over all eight rows."""
    configs, keys = published_configurations(folder)
    full, ranked = (column_of(configs["full"], name, keys) for name in ("f1", "ndcg"))
    rows = []
    for config, removed in ABLATIONS.items():
        f1 = column_of(configs[config], "f1", keys)
        ndcg = column_of(configs[config], "ndcg", keys)
        difference = paired_bootstrap(f1 - full, rng=0)
        counts = int((f1 != full).sum()), int((ndcg != ranked).sum())
        rows.append(Ablation(removed, float(ndcg.mean()), float(f1.mean()), difference, *counts))
    p = [row.difference.p for row in rows]
    corrected = zip(rows, holm(p).tolist(), false_discovery_control(p).tolist(), strict=True)
    return [replace(row, holm=by_holm, bh=by_bh) for row, by_holm, by_bh in corrected]


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise InvalidInputError(f"a published result must be a JSON object; got {type(value).__name__}")
    return value


def _texts(value: object) -> list[str]:
    if not isinstance(value, list):
        raise InvalidInputError(f"the published query ids must be a list; got {type(value).__name__}")
    return [str(item) for item in value]


def published_configurations(folder: Path) -> tuple[dict[str, object], list[str]]:
    """Return the published results on HetDocQA's test split by configuration, and the ids of the queries."""
    state = read_json(folder / "hetdocqa_test_perquery.json")
    return _mapping(state["configs"]), _texts(state["qids"])


def column_of(config: object, name: str, keys: list[str]) -> FloatArray:
    """Return the values of one measure in a published configuration, in the order of the query ids `keys`."""
    values = _mapping(_mapping(config)[name])
    return np.array([values[key] for key in keys], dtype=np.float64)


def ablation_page(folder: Path) -> Page:
    """Return the page `ablation`: the published ablation, tested again, with corrected p-values."""
    rows = ablations(folder)
    figures = {
        row.removed: {
            "nDCG@10": row.ndcg,
            "F1": row.f1,
            "difference": [row.difference.mean, row.difference.low, row.difference.high],
            "p": row.difference.p,
            "p_holm": row.holm,
            "changed": row.changed,
        }
        for row in rows
    }
    text = []
    for row in rows:
        found = row.difference
        change = f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
        cells = [
            row.removed,
            number(row.ndcg),
            number(row.f1),
            change,
            p_value(found.p),
            p_value(row.holm),
            row.changed,
        ]
        text.append(cells)
    rejected = ", ".join(row.removed for row in rows if row.holm <= 0.05)
    agree = all((row.holm <= 0.05) == (row.bh <= 0.05) for row in rows)
    by_name = {row.removed: row for row in rows}
    return Page(
        "ablation",
        "The published ablation, tested again",
        (
            "The table uses the released values per query of the HetDocQA test split. A difference is the system "
            "without the named part minus the full system. The intervals are a paired bootstrap with 10,000 "
            "resamples and seed 0. Holm's correction covers the eight rows.",
            table(["removed", "nDCG@10", "F1", "F1 difference [95 %]", "p", "Holm p", "queries changed"], text),
            f"Holm rejects {rejected or 'none'}; Benjamini-Hochberg {'agrees' if agree else 'does not agree'}. In "
            "the row SSCC, a corrector that asks a language model replaces SSCC. In the row CRAG, there is no "
            "correction.",
        ),
        _corrections(by_name["CRAG"], by_name["SSCC"], by_name["DPHF"]),
        figures,
    )


def _corrections(none: Ablation, other: Ablation, dphf: Ablation) -> tuple[Verdict, ...]:
    """Return the verdicts on SSCC, the published corrector, against no correction and another corrector.

    The arguments are rows of the published ablation. The last verdict is on the row DPHF.
    """
    return (
        judge(
            "The published corrector has a higher F1 than no correction (p; "
            f"{-none.difference.mean:+.4f} on average, {none.changed} queries changed)",
            {"no correction": none.difference.p},
            high=0.05,
        ),
        judge(
            "The published corrector changes the nDCG of at least one query (number of queries)",
            {"no correction": none.changed_ndcg},
            1,
        ),
        judge(
            "The corrector's apparent gain comes from its rival, the corrector that asks a language model: this "
            "rival is further below the full system than no correction is (F1)",
            {"difference": none.difference.mean - other.difference.mean},
            1e-12,
        ),
        judge(
            "The row DPHF differs from the full system (number of queries)",
            {"F1": dphf.changed, "nDCG": dphf.changed_ndcg},
            1,
        ),
    )
