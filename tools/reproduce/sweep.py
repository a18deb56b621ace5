"""Try 667 configurations of the paper's rules: how good is the best on queries that were not used to choose it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from claims import LAST, RECALL, Verdict, judge, points
from page import Page, interval, p_value, share, table
from phasegraph._support.typing import IntArray
from phasegraph.calibration import ListCalibrator
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import Table, compare
from phasegraph.evaluation.measures import score_run
from phasegraph.evaluation.source_runs import ExperimentInput, SourceRun, search_sources
from phasegraph.evaluation.system_runs import run_systems
from phasegraph.evaluation.systems import OWN_SYSTEMS, TWO, pipeline_system
from phasegraph.fusion.pipeline import FusionPipeline
from studies import PAPER as PAPERS
from studies import halves, hard_slice

WEIGHTS = tuple(round(0.15 + 0.025 * step, 3) for step in range(29))
"""Of the vectors; the graph has the rest."""
RULES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "boltzmann": ("boltzmann", {}),
    **{f"boltzmann, temperature {heat:g}": ("boltzmann", {"temperature": heat}) for heat in (0.1, 0.25, 1.0, 2.0)},
    "boltzmann over its maximum": ("boltzmann", {"norm": "max"}),
    "log-linear": ("log_linear", {}),
    **{f"power mean {power:g}": ("power_mean", {"exponent": power}) for power in (0.25, 0.5, 0.75)},
    **{f"tsallis {q:g}": ("tsallis", {"q": {"graph": q}}) for q in (1.2, 1.5, 1.8)},
    "gumbel copula": ("gumbel_copula", {}),
    "gumbel copula, theta 2": ("gumbel_copula", {"theta": 2.0}),
    "interference": ("interference", {}),
    "normal scores": ("normal_scores", {}),
    "wasserstein temperature": ("wasserstein_temperature", {}),
    "plackett-luce": ("plackett_luce", {}),
    "linear over percentiles": ("linear", {}),
    "linear over min-max": ("linear", {}),
    **{f"rrf, constant {rank:g}": ("rrf", {"rank_constant": rank}) for rank in (10.0, 60.0)},
}
CALIBRATORS = {"wasserstein temperature": "raw", "linear over min-max": "min_max"}
"""Of rules that do not read percentiles; what reads the order alone reads that of percentiles."""
LIMIT, PAPER = 50, "the paper's, vector 0.3"
BEST = "best of all"


def configurations() -> dict[str, FusionPipeline]:
    """Return a pipeline for every fusion rule at every weight of the vectors, by name."""
    return {
        f"{name}, vector {weight:g}": FusionPipeline(
            calibrator=ListCalibrator(CALIBRATORS.get(name, "percentile")),
            rule=rule,
            rule_options=options,
            weights={"vector": weight, "graph": 1 - weight},
        )
        for name, (rule, options) in RULES.items()
        for weight in WEIGHTS
    }


@dataclass(frozen=True, slots=True)
class Sweep:
    """The results of trying configurations of fusion on one data set.

    Parameters
    ----------
    wins : mapping of str to int
        Number of last hops found on the tuning half of the hard queries, by configuration.
    chosen : mapping of str to str
        The best configuration of each rule, and the best of all under ``BEST``.
    tuned : int
        Number of queries that determined the choice.
    hard, whole : Table
        The chosen configurations, the paper's and the default, on the confirming half of the queries: on the hard
        queries of this half, and on all of them.
    """

    wins: Mapping[str, int]
    chosen: Mapping[str, str]
    tuned: int
    hard: Table
    whole: Table

    def of(self, name: str) -> int:
        """Return the number of last hops that the chosen configuration of the rule `name` found on the tuning half."""
        return self.wins[self.chosen[name]]


def sweep(dataset: Dataset, pipelines: Mapping[str, FusionPipeline]) -> Sweep:
    """Try every configuration on one half of the hard queries, and the best of each rule on the other half.

    Return the results of both. The best configuration finds most last hops among the first ten. Of equally good
    configurations, the one with the higher Recall@5 is chosen, and then the one that was tried first.
    """
    runs = search_sources(ExperimentInput(dataset, LIMIT), TWO)
    both, hard = halves(dataset), hard_slice(dataset)["hard"]
    rows = np.intersect1d(both["tune"], hard)
    tune, lists = dataset.subset(rows), [[run.rankings[row] for run in runs.values()] for row in rows.tolist()]
    reached: dict[str, tuple[float, float]] = {}
    for name, pipeline in pipelines.items():
        decided = (pipeline.decide(rankings, k=LAST.k).ids for rankings in lists)
        found = {query.id: ids for query, ids in zip(tune.queries, decided, strict=True)}
        last, recall = (
            score_run(found, tune.judgements, measure, corpus=dataset.contents) for measure in (LAST, RECALL)
        )
        reached[name] = float(last.sum()), float(recall.sum())
    of_rule: dict[str, list[str]] = {}
    for name in reached:
        of_rule.setdefault(name.rpartition(", vector ")[0], []).append(name)
    chosen = {rule: max(names, key=reached.__getitem__) for rule, names in of_rule.items()}
    chosen[BEST] = max(chosen.values(), key=reached.__getitem__)
    systems = [
        OWN_SYSTEMS["default"],
        OWN_SYSTEMS["vector"],
        pipeline_system(PAPER, FusionPipeline.paper("hard-slice"), TWO),
    ]
    systems += [pipeline_system(rule, pipelines[name], TWO) for rule, name in chosen.items()]

    def compared(rows: IntArray) -> Table:
        part = dataset.subset(rows)
        own = {n: SourceRun(n, tuple(run.rankings[row] for row in rows.tolist()), 0.0) for n, run in runs.items()}
        answers, _ = run_systems(ExperimentInput(part, LIMIT), systems, LAST.k, own)
        answers = [replace(one, milliseconds=None) for one in answers]
        return compare(
            answers,
            part.judgements,
            baseline=PAPER,
            measures=(LAST, RECALL),
            dataset=dataset.name,
            limit=LIMIT,
            corpus=dataset.contents,
        )

    return Sweep(
        {name: int(last) for name, (last, _) in reached.items()},
        chosen,
        len(rows),
        compared(np.intersect1d(both["confirm"], hard)),
        compared(both["confirm"]),
    )


def sweep_page(datasets: Mapping[str, Dataset], judged: Sequence[Dataset], say: Callable[[str], object]) -> Page | None:
    """Return the page `rules-sweep`, over the data sets for which the paper has a setting; None if there is none."""
    pipelines, found = configurations(), dict[str, Sweep]()
    for name in sorted(PAPERS.keys() & datasets.keys()):
        say(f"{name}: {len(pipelines)} configurations")
        found[name] = sweep(datasets[name], pipelines)
    if not found:
        say(f"left out: the sweep (no {', no '.join(PAPERS)})")
        return None
    figures = {
        name: {"wins": dict(one.wins), "tuned": one.tuned, "hard": one.hard.to_dict(), "all": one.whole.to_dict()}
        for name, one in found.items()
    }
    return replace(page_of(found), figures=figures)


def page_of(found: Mapping[str, Sweep]) -> Page:
    """Return the page `rules-sweep`: a table for each data set in `found`, and the conclusions from the tables."""
    parts = [
        "The paper tries 667 configurations of its rules on its 66 hard queries. It reports 26 wins for its rule, "
        "log-linear, power mean and Tsallis, 25 for copula and Plackett-Luce, and 23 for RRF. The paper does not "
        f"list the configurations. The table uses {len(RULES)} rules at {len(WEIGHTS)} weights of the vectors from "
        f"{WEIGHTS[0]:g} to {WEIGHTS[-1]:g}, lists of {LIMIT}, and no cap. The configurations are reconstructed. So "
        "are the hard queries: the queries whose last hop is not among the vectors' first ten hits. One half of "
        "the hard queries chooses a weight for each rule, and the best configuration of all. The other half tests "
        "the choice. W/L, p and the differences compare LastHop@10 with the paper's setting for hard queries, with "
        f"paired 95 % bootstrap intervals ({PAPER}, no cap)."
    ]
    for name, one in found.items():
        wins = np.array(list(one.wins.values()))
        parts.append(
            f"**{name}** ({one.tuned} hard queries choose, {len(one.hard.queries)} hard queries test; "
            f"{len(one.whole.queries)} confirm queries in all). Number of last hops that the {len(wins)} "
            f"configurations find on the half that chooses: lowest {wins.min()}, median {np.median(wins):g}, "
            f"highest {wins.max()}, reached by {int((wins == wins.max()).sum())}."
        )
        columns = [
            "rule",
            "chosen",
            "found",
            "hard: LastHop@10",
            "difference",
            "W/L",
            "p",
            "all: LastHop@10",
            "Recall@5",
        ]
        rows = []
        for row in one.hard.rows:
            of_all = one.whole[row.name]
            chose = row.name in one.chosen
            rows.append(
                [
                    row.name,
                    one.chosen[row.name]
                    if row.name == BEST
                    else one.chosen[row.name].rpartition(" ")[2]
                    if chose
                    else "",
                    f"{one.of(row.name)}/{one.tuned}" if chose else "",
                    share(row.means[LAST]),
                    interval(row.differences[LAST]),
                    f"{row.wins[LAST]}/{row.losses[LAST]}",
                    p_value(row.p[LAST]),
                    share(of_all.means[LAST]),
                    share(of_all.means[RECALL]),
                ]
            )
        parts.append(table(columns, rows))
    return Page("rules-sweep", "A sweep of 667 configurations", tuple(parts), tuple(_verdicts(found)))


def _verdicts(found: Mapping[str, Sweep]) -> list[Verdict]:
    def gains(table: Table, other: str) -> float:
        return 100 * (table[BEST].means[LAST] - table[other].means[LAST])

    rules = {name: [100 * one.of(rule) / one.tuned for rule in RULES] for name, one in found.items()}
    return [
        judge(
            "With the chosen weights, the rules differ by at most three of 66 wins, as in the paper (points of "
            "LastHop@10 on the half that chose)",
            {name: max(of) - min(of) for name, of in rules.items()},
            high=100 * 3 / 66,
            shown=points,
        ),
        judge(
            "On the other half, the best configuration is at most two points worse than on the half that chose it "
            "(points of LastHop@10)",
            {name: 100 * (one.hard[BEST].means[LAST] - one.of(BEST) / one.tuned) for name, one in found.items()},
            -2,
            shown=points,
        ),
        judge(
            "On the other half, the best configuration finds more last hops than the paper's setting",
            {name: gains(one.hard, PAPER) for name, one in found.items()},
            0.1,
            shown=points,
        ),
        judge(
            "This difference is significant (p)",
            {name: one.hard[BEST].p[LAST] for name, one in found.items()},
            high=0.05,
        ),
        judge(
            "On the other half, the best configuration finds more last hops than the default, for which nothing "
            "was chosen",
            {name: gains(one.hard, "default") for name, one in found.items()},
            0.1,
            shown=points,
        ),
        judge(
            "On all confirm queries, the best configuration has at least the default's LastHop@10",
            {name: gains(one.whole, "default") for name, one in found.items()},
            0,
            shown=points,
        ),
    ]
