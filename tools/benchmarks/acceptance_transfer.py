"""Fit thresholds on one split and test them on another: one per source, one on raw scores, one on calibrated values.

python tools/benchmarks/acceptance_transfer.py FOLDER [--fit calibration] [--read dev] [--limit 50]

FOLDER is a data set whose queries have a ``split``. Its embeddings are the vector source, and phasegraph's walk is the
graph source. The hits of both lists are judged: a hit is relevant if it is one of the query's gold passages.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from phasegraph import FusionPipeline, Ranking
from phasegraph._support.typing import FloatArray
from phasegraph.acceptance import (
    JudgedScores,
    certify_threshold,
    check_drift,
    conformal_threshold,
    fit_global_threshold,
    fit_grid,
    fit_threshold,
    judge,
)
from phasegraph.acceptance.judged import query_losses
from phasegraph.errors import InsufficientDataError
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources

Judged = Mapping[str, JudgedScores]
Values = Mapping[str, float]
SOURCES = ("graph", "vector")
RESAMPLES = 4000


def judged_hits(data: Dataset, rankings: Mapping[str, tuple[Ranking, ...]], rows: list[int], scale: str) -> Judged:
    """Return the judged hits of the queries in `rows`, by source, with raw scores or calibrated values.

    `scale` names the calibration; a calibrated value compares a score with the background of its own source.
    """
    calibrator = FusionPipeline().calibrator
    relevant = gold_of(data)
    out = {}
    for name, found in rankings.items():
        answers = {}
        for row in rows:
            ranking = found[row]
            if scale == "background":
                ranking = Ranking(name, ranking.ids, calibrator(ranking).values)
            answers[data.queries[row].id] = ranking
        out[name] = judge(answers, relevant)
    return out


def gold_of(data: Dataset) -> dict[str, set[str]]:
    """Return the ids of the gold passages of every query, by query id."""
    return {query.id: {identifier for hop in query.judgement.hops for identifier in hop} for query in data.queries}


def one_for_all(judged: Judged) -> Values:
    """Fit one threshold to the scores of all sources together, and return it as the threshold of each source."""
    scores = np.concatenate([one.scores for one in judged.values()])
    labels = np.concatenate([one.labels for one in judged.values()])
    return dict.fromkeys(judged, fit_threshold(JudgedScores(scores, labels)).value)


FITS: dict[str, tuple[str, Callable[[Judged], Values]]] = {
    "per source, exact": ("raw", lambda j: {name: fit_threshold(one).value for name, one in j.items()}),
    "per source, grid-100": ("raw", lambda j: {name: fit_grid(one).value for name, one in j.items()}),
    "pooled ECDF + one level": ("raw", lambda j: {name: one.value for name, one in fit_global_threshold(j).items()}),
    "background-calibrated + one threshold": ("background", one_for_all),
    "one raw threshold": ("raw", one_for_all),
}


def counts(judged: JudgedScores, value: float) -> FloatArray:
    """Return a (q, 4) array that counts each query's hits, if hits with a score of at least `value` are accepted.

    The columns are: accepted relevant, all relevant, rejected irrelevant, all irrelevant.
    """
    accepted = judged.scores >= value
    parts = (accepted & judged.labels, judged.labels, ~accepted & ~judged.labels, ~judged.labels)
    columns = [np.bincount(judged.groups, weights=part, minlength=judged.query_count) for part in parts]
    return np.column_stack(columns)


def accuracies(tables: Mapping[str, FloatArray], drawn: FloatArray) -> FloatArray:
    """Return a (b, 2) array: the balanced accuracy of each source for each of b resamples of the queries.

    `tables` has the counts by source, and `drawn` says how often each resample contains each query.
    """
    out = []
    for name in SOURCES:
        sums = drawn @ tables[name]
        out.append((sums[:, 0] / sums[:, 1] + sums[:, 2] / sums[:, 3]) / 2)
    return np.column_stack(out)


def compare(data: Dataset, rankings: Mapping[str, tuple[Ranking, ...]], fit: list[int], read: list[int]) -> None:
    """Print the balanced accuracy of each way to fit thresholds, on the queries in `read`.

    The table has 95 % intervals over these queries, also of the difference to the first row.
    """
    count = len(read)
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(float)
    drawn = np.vstack([np.ones(count), drawn])
    print(f"fitted on {len(fit)} queries, read on {count}; BA = balanced accuracy over hits, mean of both sources")
    print(f"{'':<40}{'BA graph':>9}{'vector':>8}{'mean':>8}{'95 %':>18}{'minus the first':>26}{'kept':>7}")
    base = None
    for label, (scale, method) in FITS.items():
        values = method(judged_hits(data, rankings, fit, scale))
        test = judged_hits(data, rankings, read, scale)
        rows = accuracies({name: counts(test[name], values[name]) for name in SOURCES}, drawn)
        mean = rows.mean(axis=1)
        base = mean if base is None else base
        low, high = np.quantile(mean[1:], [0.025, 0.975])
        gap = np.quantile((mean - base)[1:], [0.025, 0.975])
        kept = np.mean([(test[name].scores >= values[name]).mean() for name in SOURCES])
        print(f"{label:<40}{rows[0, 0]:>9.4f}{rows[0, 1]:>8.4f}{mean[0]:>8.4f}   [{low:.4f}, {high:.4f}]", end="")
        print(f"{mean[0] - base[0]:>+9.4f} [{gap[0]:+.4f}, {gap[1]:+.4f}]{kept:>6.3f}")


def promises(judged: Judged, test: Judged) -> None:
    """Print what each method promises for each source, and the risk on the tested queries."""
    print(f"\n{'source':<8}{'promise':<34}{'threshold':>11}{'realised':>10}{'kept':>7}")
    methods: dict[str, tuple[str, Callable[[JudgedScores], float]]] = {
        "missed <= .1, certified at .95": ("missed", lambda j: certify_threshold(j, risk="missed", alpha=0.1).value),
        "missed <= .2, certified at .95": ("missed", lambda j: certify_threshold(j, risk="missed", alpha=0.2).value),
        "missed <= .2 on average": ("missed", lambda j: conformal_threshold(j, miss_rate=0.2).value),
        "wrong <= .5, certified at .95": ("wrong", lambda j: certify_threshold(j, alpha=0.5).value),
        "wrong <= .7, certified at .95": ("wrong", lambda j: certify_threshold(j, alpha=0.7).value),
    }
    for name in judged:
        for label, (risk, method) in methods.items():
            try:
                value = method(judged[name])
            except InsufficientDataError as error:
                print(f"{name:<8}{label:<34}  abstains: {error}")
                continue
            losses = query_losses(test[name], np.array([value]), risk=risk)  # type: ignore[arg-type]
            kept = (test[name].scores >= value).mean()
            print(f"{name:<8}{label:<34}{value:>11.5f}{np.nanmean(losses):>10.3f}{kept:>7.3f}")


def drift(judged: Judged, test: Judged) -> None:
    """Print, for each source, whether the scores of tested queries differ from those on which thresholds are fitted."""
    print("\ndo the queries read look like those fitted on?")
    for name, one in test.items():
        names = [one.names[group] for group in one.groups]
        report = check_drift(fit_threshold(judged[name]), one.scores, names, labels=one.labels.astype(int))
        gaps = ", ".join(f"{key} p = {value:.2g}" for key, value in report.p_values.items())
        print(f"{name:<8}{'drifted' if report.drifted else 'no drift seen':<16}{gaps}")


def fused_hits(data: Dataset, rankings: Mapping[str, tuple[Ranking, ...]], rows: list[int]) -> JudgedScores:
    """Return the 50 best hits of the default pipeline for the queries in `rows`, judged, with published scores."""
    pipeline = replace(FusionPipeline(), k=50)
    answers = {data.queries[row].id: pipeline.decide([found[row] for found in rankings.values()]) for row in rows}
    return judge(answers, gold_of(data))


def main() -> None:
    """Fit thresholds on one split of a data set, test them on another, and print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fit", default="calibration")
    parser.add_argument("--read", default="dev")
    parser.add_argument("--limit", type=int, default=50)
    given = parser.parse_args()
    if not given.folder.exists():
        print(f"skipped: no {given.folder}")
        return
    data = load_dataset(given.folder)
    parts = {
        split: [row for row, query in enumerate(data.queries) if query.extra.get("split") == split]
        for split in (given.fit, given.read)
    }
    runs = search_sources(ExperimentInput(data, limit=given.limit), SOURCES)
    rankings = {name: runs[name].rankings for name in SOURCES}
    compare(data, rankings, parts[given.fit], parts[given.read])
    fitted = {
        **judged_hits(data, rankings, parts[given.fit], "raw"),
        "fused": fused_hits(data, rankings, parts[given.fit]),
    }
    tested = {
        **judged_hits(data, rankings, parts[given.read], "raw"),
        "fused": fused_hits(data, rankings, parts[given.read]),
    }
    promises(fitted, tested)
    drift(fitted, tested)


if __name__ == "__main__":
    main()
