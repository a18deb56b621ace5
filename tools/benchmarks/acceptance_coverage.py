"""Measure whether acceptance methods keep their promises, on simulated calibrations and on published scores.

python tools/benchmarks/acceptance_coverage.py [--published FOLDER] [--calibrations 2000]

FOLDER contains ``sscc.json``, the scores and labels published with "Beyond the Reranker" (arXiv listing; code
qarkapp/sscc-rag-paper): for each of two sources, 399 queries with 30 hits each, in consecutive blocks. Without FOLDER,
the program prints only the simulated part.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.acceptance import (
    JudgedScores,
    certify_threshold,
    conformal_threshold,
    fit_global_threshold,
    fit_grid,
    fit_threshold,
)
from phasegraph.acceptance.fitting import area_under_curve
from phasegraph.acceptance.judged import query_losses
from phasegraph.errors import InsufficientDataError

ALPHA, DELTA, ALLOWED, BLOCK = 0.2, 0.05, 131, 30
GRID = np.linspace(-2.0, 5.0, 281)
Values = Mapping[str, float]


def draw(rng: np.random.Generator, queries: int, clustered: bool, hits: int = 5) -> JudgedScores:
    """Draw five hits for each query (or `hits`), with scores and labels.

    The share of relevant hits is one half for every query or, if `clustered`, drawn for each query from Beta(.6, .6).
    """
    share = rng.beta(0.6, 0.6, size=(queries, 1)) if clustered else 0.5
    labels = rng.random((queries, hits)) < share
    scores = rng.normal(size=(queries, hits)) + 2.0 * labels
    return JudgedScores(scores.ravel(), labels.ravel(), np.repeat(np.arange(queries), hits))


def simulate(calibrations: int) -> None:
    """Print, for each method over simulated calibrations, how often its promise is broken, and how often it abstains.

    Also print the mean risk on the true distribution.
    """
    methods: dict[str, tuple[str, Callable[[JudgedScores], float]]] = {
        "certified, Hoeffding-Bentkus": ("wrong", lambda j: certify_threshold(j, alpha=ALPHA).value),
        "certified, betting": ("wrong", lambda j: certify_threshold(j, alpha=ALPHA, bound="betting").value),
        "lowest with observed precision .8": (
            "wrong",
            lambda j: fit_threshold(j, objective="precision", target=1 - ALPHA).value,
        ),
        "certified missed, Hoeffding-Bentkus": (
            "missed",
            lambda j: certify_threshold(j, risk="missed", alpha=ALPHA).value,
        ),
        "certified missed, betting": (
            "missed",
            lambda j: certify_threshold(j, risk="missed", alpha=ALPHA, bound="betting").value,
        ),
        "conformal (a promise on average)": ("missed", lambda j: conformal_threshold(j, miss_rate=ALPHA).value),
    }
    print(f"{calibrations} calibrations, 100 queries of 5 hits, risk at most {ALPHA}, confidence {1 - DELTA}")
    print(f"{'hits':<12}{'method':<38}{'violations':>11}{'abstained':>10}{'mean risk':>10}")
    for clustered in (False, True):
        big = draw(np.random.default_rng(99), 60_000, clustered)
        truth = {risk: np.nanmean(query_losses(big, GRID, risk=risk), axis=0) for risk in ("wrong", "missed")}
        for name, (risk, method) in methods.items():
            risks = _realised(method, truth[risk], clustered, calibrations)
            broken = int((risks > ALPHA).sum())
            kind = "clustered" if clustered else "independent"
            abstained = calibrations - len(risks)
            print(f"{kind:<12}{name:<38}{broken:>11}{abstained:>10}{risks.mean() if len(risks) else np.nan:>10.3f}")
    print(f"bar for the certified ones: at most {ALLOWED} violations in 2,000")


def _realised(
    method: Callable[[JudgedScores], float], truth: FloatArray, clustered: bool, calibrations: int
) -> FloatArray:
    rng = np.random.default_rng(1)
    risks = []
    for _ in range(calibrations):
        try:
            risks.append(float(np.interp(method(draw(rng, 100, clustered)), GRID, truth)))
        except InsufficientDataError:
            continue
    return np.array(risks)


def read(folder: Path) -> dict[str, JudgedScores]:
    """Read the published scores and labels of each source; each block of 30 consecutive hits belongs to one query."""
    with (folder / "sscc.json").open() as file:
        content = json.load(file)
    out = {}
    for name in ("bi", "cross"):
        pairs = np.array(content[name], dtype=np.float64)
        out[name] = JudgedScores(pairs[:, 0], pairs[:, 1].astype(int), np.arange(len(pairs)) // BLOCK)
    return out


def whole_sample(sources: Mapping[str, JudgedScores]) -> None:
    """Print a table with one row for each source, whose thresholds are fitted to all hits of the source.

    Conformal thresholds of each source follow.
    """
    print(f"\n{'source':<7}{'hits':>6}{'rel':>5}{'AUC':>9}{'grid-100 (BA)':>22}{'exact (BA)':>22}{'F1 (F1)':>22}")
    for name, judged in sources.items():
        grid, exact = fit_grid(judged), fit_threshold(judged, midway=False)
        best = fit_threshold(judged, objective="f1", midway=False)
        cells = [
            f"{one.value:.6f} ({one.statistics[key]:.6f})"
            for one, key in ((grid, "balanced_accuracy"), (exact, "balanced_accuracy"), (best, "f1"))
        ]
        print(f"{name:<7}{len(judged):>6}{judged.positives:>5}{area_under_curve(judged):>9.6f}", end="")
        print("".join(f"{cell:>22}" for cell in cells))
    print("conformal by passage:", end=" ")
    for name, judged in sources.items():
        for rate in (0.05, 0.1):
            found = conformal_threshold(judged, miss_rate=rate, unit="passage")
            print(f"{name} {rate}: {found.value:.6f} (TNR {found.statistics['observed_rejection']:.4f})", end="  ")
    print()


def one_raw(judged: Mapping[str, JudgedScores], fit: Callable[[JudgedScores], object]) -> Values:
    """Fit one threshold to the raw scores of all sources together, and return it as the threshold of each source."""
    scores = np.concatenate([one.scores for one in judged.values()])
    labels = np.concatenate([one.labels for one in judged.values()])
    value = float(fit(JudgedScores(scores, labels)).value)  # type: ignore[attr-defined]
    return dict.fromkeys(judged, value)


FITS: dict[str, Callable[[Mapping[str, JudgedScores]], Values]] = {
    "per source, grid-100": lambda j: {name: fit_grid(one).value for name, one in j.items()},
    "per source, exact midway": lambda j: {name: fit_threshold(one).value for name, one in j.items()},
    "pooled ECDF + one level, grid-100": lambda j: {
        name: one.value for name, one in fit_global_threshold(j, fit=fit_grid).items()
    },
    "pooled ECDF + one level, exact": lambda j: {name: one.value for name, one in fit_global_threshold(j).items()},
    "one raw threshold, grid-100": lambda j: one_raw(j, fit_grid),
    "public code's defaults (.5, 0)": lambda j: {"bi": 0.5, "cross": 0.0},
    "certified missed <= .2": lambda j: {
        name: certify_threshold(one, risk="missed", alpha=0.2, bound="betting").value for name, one in j.items()
    },
    "conformal missed <= .2": lambda j: {
        name: conformal_threshold(one, miss_rate=0.2).value for name, one in j.items()
    },
}


def cross_validated(sources: Mapping[str, JudgedScores]) -> None:
    """Print balanced accuracy, coverage and observed miss rate for each way to set thresholds.

    They are cross-validated over five folds of queries.
    """
    count = next(iter(sources.values())).query_count
    folds = np.array_split(np.random.default_rng(0).permutation(count), 5)
    print(f"\n{'five folds by query':<36}{'BA bi':>8}{'BA cross':>9}{'mean':>8}{'kept':>7}{'missed bi, cross':>18}")
    for name, fit in FITS.items():
        rows = np.array([_fold(sources, fold, fit, count) for fold in folds]).mean(axis=0)
        bi, cross, kept, missed_bi, missed_cross = rows
        print(f"{name:<36}{bi:>8.4f}{cross:>9.4f}{(bi + cross) / 2:>8.4f}", end="")
        print(f"{kept:>7.3f}{missed_bi:>11.3f}{missed_cross:>7.3f}")


def _fold(
    sources: Mapping[str, JudgedScores],
    fold: IntArray,
    fit: Callable[[Mapping[str, JudgedScores]], Values],
    count: int,
) -> list[float]:
    held = np.zeros(count, dtype=bool)
    held[fold] = True
    values = fit({name: one.only(~held) for name, one in sources.items()})
    tests = {name: one.only(held) for name, one in sources.items()}
    accuracy, kept, missed = [], [], []
    for name, one in tests.items():
        accepted = one.scores >= values[name]
        accuracy.append((accepted[one.labels].mean() + (~accepted[~one.labels]).mean()) / 2)
        kept.append(accepted.mean())
        missed.append(float(np.nanmean(query_losses(one, np.array([values[name]]), risk="missed"))))
    return [*accuracy, float(np.mean(kept)), *missed]


def certified(sources: Mapping[str, JudgedScores], splits: int = 200) -> None:
    """Print how often a threshold can be certified on a random half of the queries, and its risk on the other half."""
    print(f"\n{splits} half-splits by query: certified on one half, read on the other")
    print(f"{'source':<7}{'risk':<8}{'alpha':>6}{'given':>7}{'mean risk':>11}{'over alpha':>11}", end="")
    print(f"{'kept':>7}{'answered':>10}")
    for name, judged in sources.items():
        for risk, alpha in (("missed", 0.1), ("missed", 0.2), ("wrong", 0.3), ("wrong", 0.5)):
            rng = np.random.default_rng(0)
            rows = []
            for _ in range(splits):
                first, second = judged.split(rng=rng)
                try:
                    value = certify_threshold(first, risk=risk, alpha=alpha, rng=rng).value  # type: ignore[arg-type]
                except InsufficientDataError:
                    continue
                losses = query_losses(second, np.array([value]), risk=risk)[:, 0]  # type: ignore[arg-type]
                counted = losses[~np.isnan(losses)]
                answered = len(np.unique(second.groups[second.scores >= value])) / second.query_count
                rows.append([counted.mean() if len(counted) else 0.0, (second.scores >= value).mean(), answered])
            if not rows:
                print(f"{name:<7}{risk:<8}{alpha:>6}{0:>7}   nothing certified")
                continue
            table = np.array(rows)
            over = float((table[:, 0] > alpha).mean())
            print(f"{name:<7}{risk:<8}{alpha:>6}{len(rows):>7}{table[:, 0].mean():>11.3f}{over:>11.3f}", end="")
            print(f"{table[:, 1].mean():>7.3f}{table[:, 2].mean():>10.3f}")


def main() -> None:
    """Print all tables; the tables of published scores only if their folder is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published", type=Path, default=Path("data/published"))
    parser.add_argument("--calibrations", type=int, default=2000)
    given = parser.parse_args()
    if given.calibrations:
        simulate(given.calibrations)
    if not (given.published / "sscc.json").exists():
        print(f"skipped: no sscc.json in {given.published}")
        return
    sources = read(given.published)
    whole_sample(sources)
    cross_validated(sources)
    certified(sources)


if __name__ == "__main__":
    main()
