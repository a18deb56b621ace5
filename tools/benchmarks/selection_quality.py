"""Measure how selections change full support and redundancy at k = 5, compared with the plain order and with MMR.

python tools/benchmarks/selection_quality.py FOLDER… [--k 5] [--pool 50] [--sources vector,graph]

The relevance of a candidate is the default pipeline's fused value, divided by the highest fused value (``--published``:
the published score). The k passages are chosen from the first `pool` candidates. The output shows each setting on all
queries, and the best setting of each method on one half of the queries, tested on the other half.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from phasegraph import FusionPipeline
from phasegraph._support.typing import FloatArray
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.measures import full_support, recall
from phasegraph.evaluation.significance import bootstrap_intervals, mcnemar_exact, wins_and_losses
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.selection import SelectionPolicy, scaled_relevance, unit_rows, vendi_score

POLICIES: dict[str, list[SelectionPolicy]] = {
    "top": [SelectionPolicy("top")],
    "mmr": [SelectionPolicy("mmr", balance=balance) for balance in (0.95, 0.9, 0.7, 0.5)],
    "log_det": [SelectionPolicy(mu=mu) for mu in (0.05, 0.1, 0.25, 0.5, 2.0)],
    "von_neumann": [SelectionPolicy("von_neumann", penalty=penalty) for penalty in (0.01, 0.03, 0.1, 0.3)],
    "legacy_entropy": [SelectionPolicy("legacy_entropy")],
}
Pool = tuple[FloatArray, FloatArray, tuple[str, ...]]


def label(policy: SelectionPolicy) -> str:
    """Return a policy's method and its setting as text."""
    setting = {"mmr": f"balance {policy.balance:g}", "log_det": f"mu {policy.mu:g}"}
    return (
        f"{policy.method} {setting.get(policy.method, f'penalty {policy.penalty:g}')}"
        if policy.method != "top"
        else "top"
    )


def pools(data: Dataset, names: Sequence[str], size: int, published: bool) -> list[Pool]:
    """Return, for each query, the first `size` fused candidates: their relevance, embeddings and ids."""
    runs = search_sources(ExperimentInput(data), names)
    where = {passage.id: row for row, passage in enumerate(data.passages)}
    pipeline = replace(FusionPipeline(), k=size)
    out = []
    for row in range(len(data.queries)):
        result = pipeline.decide([runs[name].rankings[row] for name in names])
        rows = [where[identifier] for identifier in result.ids]
        relevance = result.scores if published else scaled_relevance(result.fused)
        out.append((relevance, data.passage_vectors[rows].astype(np.float64), tuple(result.ids)))
    return out


def measure(data: Dataset, found: list[Pool], policy: SelectionPolicy, k: int) -> FloatArray:
    """Return an (n, 4) array of a policy's selections of k passages, with a row for each query.

    The columns are: full support, recall, mean cosine of the chosen passages, and their effective number (Vendi score).
    """
    rows = []
    for (relevance, embeddings, ids), judgement in zip(found, data.judgements, strict=True):
        chosen = policy.select(relevance, embeddings, k).rows
        named = [ids[row] for row in chosen.tolist()]
        unit = unit_rows(embeddings[chosen])
        gram = unit @ unit.T
        pairs = max(len(chosen) * (len(chosen) - 1), 1)
        rows.append(
            [
                full_support(named, judgement, k),
                recall(named, judgement, k),
                (gram.sum() - np.trace(gram)) / pairs,
                vendi_score(unit),
            ]
        )
    return np.array(rows)


def main() -> None:
    """Print a table of all selections for each data set that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--pool", type=int, default=50)
    parser.add_argument("--sources", default="vector,graph")
    parser.add_argument("--published", action="store_true")
    given = parser.parse_args()
    for folder in given.folders:
        if not folder.exists():
            print(f"skipped: no {folder}")
            continue
        data = load_dataset(folder)
        report(data, pools(data, given.sources.split(","), given.pool, given.published), given.k, given.sources)


def report(data: Dataset, found: list[Pool], k: int, sources: str) -> None:
    """Print every setting on all queries, and each method's best setting on one half, tested on the other half."""
    print(f"\n{data.name}: {len(found)} queries, k = {k}, {sources}")
    print(f"{'':<24}{'FullSup':>8}{'minus top, 95 %':>26}{'W/L':>9}{'p':>7}{'Recall':>8}{'cosine':>8}{'Vendi':>7}")
    tables = {
        label(policy): (method, measure(data, found, policy, k))
        for method, policies in POLICIES.items()
        for policy in policies
    }
    base = tables["top"][1]
    for name, (_, table) in tables.items():
        line(name, table, base)
    half = np.random.default_rng(0).permutation(len(found))
    first, second = half[: len(half) // 2], half[len(half) // 2 :]
    print("  each method's best setting by FullSup on one half, read on the other:")
    for method in ("mmr", "log_det", "von_neumann"):
        own = {name: table for name, (kind, table) in tables.items() if kind == method}
        best = max(own, key=lambda name: float(own[name][first, 0].mean()))
        line(best, own[best][second], base[second])


def line(name: str, table: FloatArray, base: FloatArray) -> None:
    """Print one row of the table: means of `table`, and differences and tests against `base`, the plain order."""
    means = table.mean(axis=0)
    gap = table[:, :1] - base[:, :1]
    low, high = 100 * bootstrap_intervals(gap)[0]
    wins, losses = wins_and_losses(table[:, 0], base[:, 0])
    print(f"{name:<24}{100 * means[0]:>8.1f}{100 * gap.mean():>+9.1f} [{low:+6.1f}, {high:+6.1f}]", end="")
    score = f"{f'{wins}/{losses}':>9}{mcnemar_exact(wins, losses):>7.3f}"
    print(f"{score}{100 * means[1]:>8.1f}{means[2]:>8.3f}{means[3]:>7.2f}")


if __name__ == "__main__":
    main()
