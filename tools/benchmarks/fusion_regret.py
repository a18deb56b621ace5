"""Measure the cost of the default's weights: its regret, and the harm that a wrong source does.

The regret is the best mean among the rivals minus the mean of the default. The rivals are vector, graph, bm25, RRF, and
min-max sums of two and of three sources. The harm is the mean of the best remaining source minus the mean of the
default, if one source returns the ranking of another question, or the walk starts from another question's seeds.
The measures are Recall@5 and Recall@10, in points.

Run: python tools/benchmarks/fusion_regret.py DIR [DIR ...] [--limits 20,50,200] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from phasegraph import FusionPipeline, Ranking
from phasegraph.evaluation.datasets import Dataset, load_dataset
from phasegraph.evaluation.measures import Measure, score_run
from phasegraph.evaluation.source_runs import ExperimentInput, graph_of, search_sources
from phasegraph.evaluation.systems import THREE, TWO, pipeline_system
from phasegraph.graph import GraphSource

GOALS = (Measure.parse("Recall@5"), Measure.parse("Recall@10"))
SHIFTS = (1, 17, 101)
Lists = Mapping[str, Sequence[Ranking]]


@dataclass(frozen=True, eq=False)
class Astray(GraphSource):
    """A graph source whose walk starts from the seeds in `handed`, if there are any, and otherwise from its own."""

    seeds: list = field(default_factory=list)
    handed: list = field(default_factory=list)

    def _with_facts(self, seeding, vector, kept=None):
        self.seeds.append(seeding)
        return self.handed.pop(0) if self.handed else seeding


def searched(dataset: Dataset, limit: int) -> tuple[dict[str, tuple[Ranking, ...]], list[tuple[Ranking, ...]]]:
    """Return the lists of the three sources, and for each shift the lists of a walk from another question's seeds.

    With a shift of n, the seeds are those of the question n positions later.
    """
    inputs = ExperimentInput(dataset, limit, graph=graph_of(dataset))
    runs = {name: run.rankings for name, run in search_sources(inputs, ("vector", "bm25")).items()}
    vectors = {query.text: vector for query, vector in zip(dataset.queries, dataset.query_vectors, strict=True)}
    walk = Astray(inputs.graph, embedder=vectors.__getitem__)

    def walked() -> tuple[Ranking, ...]:
        rows = enumerate(dataset.queries)
        return tuple(walk.search(query.text, limit, {"vector": runs["vector"][row]}) for row, query in rows)

    runs["graph"] = walked()
    own, astray = list(walk.seeds), []
    for shift in SHIFTS:
        walk.handed.extend(own[shift % len(own) :] + own[: shift % len(own)])
        astray.append(walked())
    return runs, astray


def cut(lists: Lists, limit: int) -> dict[str, list[Ranking]]:
    """Return the first `limit` hits of every list."""
    return {
        name: [replace(one, ids=one.ids[:limit], scores=one.scores[:limit], raw=one.raw[:limit]) for one in rankings]
        for name, rankings in lists.items()
    }


def means(dataset: Dataset, lists: Lists, names: Sequence[str], pipeline: FusionPipeline | None) -> np.ndarray:
    """Return the mean of each measure in percent, for one source or for a pipeline over some sources."""
    if pipeline is None:
        found = [one.ids[:10] for one in lists[names[0]]]
    else:
        found = pipeline_system("one", pipeline, names).answer(dataset, lists, 10)
    run = {query.id: tuple(ids) for query, ids in zip(dataset.queries, found, strict=True)}
    return np.array(
        [100 * float(np.nanmean(score_run(run, dataset.judgements, goal, corpus=dataset.contents))) for goal in GOALS]
    )


def rolled(rankings: Sequence[Ranking], shift: int) -> list[Ranking]:
    """Give every question the ranking of the question that is `shift` positions later."""
    shift %= len(rankings)
    return [*rankings[shift:], *rankings[:shift]]


def measure(folder: Path, limits: Sequence[int], default: FusionPipeline) -> dict[str, object]:
    """Measure the regret of `default` and the worst harm on one data set, for each list length in `limits`."""
    dataset = load_dataset(folder)
    whole, astray = searched(dataset, max(limits))
    out: dict[str, object] = {}
    for limit in limits:
        lists = cut(whole, limit)
        alone = {name: means(dataset, lists, [name], None) for name in THREE}
        rivals = dict(alone)
        for label, names in (("two", TWO), ("three", THREE)):
            rivals[f"rrf-{label}"] = means(dataset, lists, names, FusionPipeline.reciprocal_rank())
            rivals[f"min-max-sum-{label}"] = means(dataset, lists, names, FusionPipeline.named("min-max-sum"))
        best = np.max(list(rivals.values()), axis=0)
        found: dict[str, object] = {"alone": {name: value.tolist() for name, value in alone.items()}}
        for label, names in (("two", TWO), ("three", THREE)):
            own = means(dataset, lists, names, default)
            harm: dict[str, list[float]] = {}
            for wrong in (*names, "seeds"):
                left = [alone[name] for name in names if name != ("graph" if wrong == "seeds" else wrong)]
                losses = []
                for shift, other in zip(SHIFTS, astray, strict=True):
                    source = "graph" if wrong == "seeds" else wrong
                    replaced = cut({source: other}, limit)[source] if wrong == "seeds" else rolled(lists[wrong], shift)
                    losses.append(np.max(left, axis=0) - means(dataset, {**lists, source: replaced}, names, default))
                harm[wrong] = np.max(losses, axis=0).tolist()
            found[label] = {"default": own.tolist(), "regret": (best - own).tolist(), "harm": harm}
        out[str(limit)] = found
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--limits", default="20,50,200")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    limits = [int(one) for one in asked.limits.split(",")]
    found = {folder.name: measure(folder, limits, FusionPipeline()) for folder in asked.folders}
    for name, by_limit in found.items():
        for limit, one in by_limit.items():
            for label in ("two", "three"):
                part = one[label]
                harm = "  ".join(f"{wrong} {max(values):.1f}" for wrong, values in part["harm"].items())
                own, lost = ("/".join(f"{value:.2f}" for value in part[key]) for key in ("default", "regret"))
                print(f"{name:15} {limit:>4} {label:5}  default {own}  regret {lost}  harm {harm}")
    for label in ("two", "three"):
        parts = [one[label] for by_limit in found.values() for one in by_limit.values()]
        worst = max(value for part in parts for value in part["regret"])
        harm = max(value for part in parts for values in part["harm"].values() for value in values)
        print(f"worst of {label}: regret {worst:.2f}, harm {harm:.1f}")
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
