"""Compare all fusion rules on the same two lists with equal weights: does the rule matter after calibration?

python tools/benchmarks/rules_quality.py FOLDER… [--sources vector,graph] [--limit 50] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from phasegraph import FusionPipeline, ListCalibrator
from phasegraph.calibration import Calibrator
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.measures import full_support, last_hop, recall
from phasegraph.evaluation.source_runs import ExperimentInput, SourceRun, search_sources
from phasegraph.fusion import FUSION_RULES, FusionRule

GOALS = ("Recall@5", "FullSup@5", "LastHop@10")


def calibrator(rule: FusionRule) -> Calibrator:
    """Return the calibrator that a fusion rule requires.

    If the rule accepts any common scale, this is the default's calibrator.
    """
    if rule.expects == "calibrated" and rule.calibrator != "min_max":
        return FusionPipeline().calibrator
    return ListCalibrator(rule.calibrator)


def measures(data: Dataset, ranked: list[tuple[str, ...]]) -> tuple[float, float, float]:
    """Return Recall@5, full support at 5 and LastHop@10 of the ranked ids of every query, in percent."""
    pairs = list(zip(ranked, data.judgements, strict=True))
    last = [found for ids, judgement in pairs if (found := last_hop(ids, judgement, 10)) is not None]
    return (
        100 * float(np.mean([recall(ids, judgement, 5) for ids, judgement in pairs])),
        100 * float(np.mean([full_support(ids, judgement, 5) for ids, judgement in pairs])),
        100 * float(np.mean(last)) if last else float("nan"),
    )


def fused(runs: list[SourceRun], rule: str) -> list[tuple[str, ...]]:
    """Fuse every query with the rule `rule`, and return the first ten ids of each."""
    pipeline = FusionPipeline(calibrator=calibrator(FUSION_RULES[rule]), rule=rule, weighting="equal")
    return [
        tuple(pipeline.decide(list(lists), k=10).ids) for lists in zip(*(run.rankings for run in runs), strict=True)
    ]


def main() -> None:
    """Print a table of all fusion rules for each data set that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--sources", default="vector,graph")
    parser.add_argument("--limit", type=int, default=50)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    kept: dict[str, dict[str, dict[str, float]]] = {}
    for folder in given.folders:
        if not folder.exists():
            print(f"skipped: no {folder}")
            continue
        data = load_dataset(folder)
        found = search_sources(ExperimentInput(data, limit=given.limit), given.sources.split(","))
        runs = [found[name] for name in given.sources.split(",")]
        print(f"\n{data.name}: {len(data.queries)} queries, lists of {given.limit}, equal weights")
        print(f"{'':<26}{GOALS[0]:>9}{GOALS[1]:>10}{GOALS[2]:>11}")
        rows = {run.name: [tuple(ranking.ids) for ranking in run.rankings] for run in runs}
        rows |= {rule: fused(runs, rule) for rule in FUSION_RULES}
        for name, ranked in rows.items():
            found = measures(data, ranked)
            kept.setdefault(data.name, {})[name] = dict(zip(GOALS, found, strict=True))
            print(f"{name:<26}" + "{:>9.1f}{:>10.1f}{:>11.1f}".format(*found), flush=True)
    if given.json:
        given.json.write_text(json.dumps(kept, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
