"""The entropy router of "Beyond the Reranker": its thresholds ("gates"), fitted on other queries than the judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from claims import Verdict, judge, plain, points
from page import Page, number, p_value, share, table
from phasegraph._support.typing import BoolArray, FloatArray, IntArray
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.measures import Measure, score_run
from phasegraph.evaluation.significance import paired_bootstrap
from phasegraph.evaluation.source_runs import ExperimentInput, search_sources
from phasegraph.evaluation.splits import split_by_id
from phasegraph.evaluation.system_runs import run_systems
from phasegraph.evaluation.systems import OWN_SYSTEMS
from phasegraph.retrieval.stages.routing import fit_entropy_gates, is_multi_hop, neighbour_entropy
from published import read_json

NDCG, NEIGHBOURS = Measure("nDCG", 10), 20
STRATEGIES = ("semantic", "dphf", "stepback")
PLAIN, WALK = "rrf-words", "default"
"""The fusion without a walk, and the one with it."""
OWN = ("vector", PLAIN, WALK)
"""Systems of ours in the place of the paper's strategies, which need a language model."""
PUBLISHED_GATES = (1.8, 2.6)
FIXED = "the best single strategy of the fitting part"
FITTED = ("fitted gates, raw distances", "fitted gates, normalised")
GATED = ("published gates, raw distances", "published gates, normalised")
ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class Choices:
    """The data of a routing experiment: the value of each strategy, and the entropies, for each of n queries.

    Parameters
    ----------
    names : tuple of str
        The names of the three strategies: single, fusion, step-back.
    rewards : (n, 3) array of float
        The nDCG@10 of each query with each strategy.
    entropies : mapping of bool to (n,) array of float
        The entropy of each query's nearest-neighbor distances, without (False) and with (True) normalization.
    parts : sequence of (fitting rows, judged rows)
        For each part, the queries on which gates are fitted, and the queries on which these gates are judged.
    """

    names: tuple[str, ...]
    rewards: FloatArray
    entropies: Mapping[bool, FloatArray]
    parts: Sequence[tuple[IntArray, IntArray]]

    @property
    def best(self) -> IntArray:
        """Return an (n,) array with the best strategy of each query; the first of equally good strategies."""
        return np.asarray(self.rewards.argmax(axis=1), dtype=np.intp)

    @property
    def judged(self) -> IntArray:
        """Return the rows of the judged queries of all parts."""
        return np.concatenate([rows for _, rows in self.parts])

    def reached(self, routes: IntArray) -> FloatArray:
        """Return the nDCG@10 of each judged query with the strategy that `routes` assigns to it."""
        return np.asarray(self.rewards[self.judged, routes], dtype=np.float64)


def published_choices(folder: Path) -> Choices:
    """Return the data of the 200 published MuSiQue queries, split into two halves by the MD5 of their ids.

    Each half is judged with the router's thresholds ("gates") that are fitted on the other half.
    """
    state: dict[str, dict[str, object]] = read_json(folder / "routing_musique.json")  # type: ignore[assignment]
    ids = list(state["knn_distances"])
    rewards: dict[str, dict[str, float]] = state["per_strategy_ndcg"]  # type: ignore[assignment]
    halves = [split_by_id(ids, part) for part in ("tune", "confirm")]
    return Choices(
        STRATEGIES,
        np.array([[rewards[name][query] for name in STRATEGIES] for query in ids]),
        _entropies([state["knn_distances"][query] for query in ids]),
        [(halves[1], halves[0]), (halves[0], halves[1])],
    )


def own_choices(dataset: Dataset) -> Choices:
    """Return the data of a data set with a calibration split; three of our systems replace the strategies.

    The router's thresholds ("gates") are fitted on this split and judged on the other queries.
    """
    inputs = ExperimentInput(dataset)
    runs = search_sources(inputs, ("vector", "graph", "bm25"))
    answers, _ = run_systems(inputs, [OWN_SYSTEMS[name] for name in OWN], 10, runs)
    rewards = np.column_stack(
        [score_run(one.found, dataset.judgements, NDCG, corpus=dataset.contents) for one in answers]
    )
    distances = [2 - 2 * one.scores[:NEIGHBOURS] for one in runs["vector"].rankings]
    fits = np.array([query.extra.get("split") == "calibration" for query in dataset.queries])
    return Choices(OWN, rewards, _entropies(distances), [(np.flatnonzero(fits), np.flatnonzero(~fits))])


def _entropies(distances: Sequence[object]) -> dict[bool, FloatArray]:
    return {
        normalise: np.array([neighbour_entropy(one, normalise=normalise) for one in distances])  # type: ignore[arg-type]
        for normalise in (False, True)
    }


def routes_of(choices: Choices) -> dict[str, IntArray]:
    """Return, for each way of routing, the index of the strategy that it assigns to every judged query."""
    found: dict[str, list[IntArray]] = {}

    def add(way: str, routes: IntArray) -> None:
        found.setdefault(way, []).append(routes)

    for fitting, judged in choices.parts:
        for place, name in enumerate(choices.names):
            add(f"always {name}", np.full(len(judged), place))
        add(FIXED, np.full(len(judged), int(choices.rewards[fitting].mean(axis=0).argmax())))
        for normalise, published, fitted in zip((False, True), GATED, FITTED, strict=True):
            entropies = choices.entropies[normalise]
            low, high, _ = fit_entropy_gates(entropies[fitting], choices.best[fitting])
            add(published, np.digitize(entropies[judged], PUBLISHED_GATES))
            add(fitted, np.digitize(entropies[judged], (low, high)))
        add(ORACLE, choices.best[judged])
    return {way: np.concatenate(parts) for way, parts in found.items()}


def routing_page(folder: Path, datasets: Sequence[Dataset]) -> Page:
    """Return the page `routing`, about the entropy router and its multi-hop flag.

    It uses the published queries in `folder`, and the sets of `datasets` that have a calibration split.
    """
    published = published_choices(folder)
    sets = {"MuSiQue, published queries": published}
    sets |= {
        f"{one.name}, our systems": own_choices(one)
        for one in datasets
        if any(query.extra.get("split") == "calibration" for query in one.queries)
    }
    routes = {name: routes_of(one) for name, one in sets.items()}
    parts = [
        "The entropy router (EGR) compares the entropy of a query's nearest neighbors with two gates. Below the "
        "first gate, it searches the vectors only. Below the second gate, it fuses the sources. Above both gates, "
        "it uses step-back rewriting. The gates are fitted as in the paper's code: of all pairs among 40 values, "
        "the fit takes the pair that agrees most often with the oracle. The oracle knows the best strategy of each "
        "query. For the published queries, gates are fitted on each half and judged on the other half. For a data "
        "set with a calibration split, gates are fitted on this split and judged on the other queries. Differences "
        f"are from {FIXED}, with paired 95 % bootstrap intervals."
    ]
    for name, choices in sets.items():
        ties = int((np.sort(choices.rewards, axis=1)[:, -2] == choices.rewards.max(axis=1)).sum())
        parts += [
            f"**{name}** ({len(choices.judged)} queries judged; for {ties} of {len(choices.rewards)} the two best "
            "strategies reach the same nDCG@10, and the oracle takes the first)",
            _table(choices, routes[name]),
        ]
    verdicts = _verdicts(sets, routes)
    if datasets:
        flagged = [flag_effect(one) for one in datasets]
        parts += [
            "A question has the multi-hop flag if it contains two different capitalized words, or a cue word. The "
            "next table shows the share of questions with the flag, with its Wilson 95 % interval. In the paper's "
            "code, the flag matters only for questions that go to step-back. For these questions, it adds passages "
            "along edges of entailment, but the paper's benchmark graphs contain no such edges.",
            _flags(datasets),
            "The next table shows what the flag is worth, on all questions and without fitting. Our walk replaces "
            f"the passages that the flag adds. A gain is the nDCG@10 of {WALK} minus that of {PLAIN} in points, "
            f"with its paired 95 % bootstrap interval. *By the flag* sends questions with the flag to {WALK} and "
            f"other questions to {PLAIN}; the column shows its difference from sending all questions to {WALK}. The "
            "last column counts the questions for which EGR would read the flag. These are the questions that the "
            "published gates on normalized distances send to step-back.",
            _effects(flagged),
        ]
        verdicts += _flag_verdicts(flagged)
    return Page("routing", "The entropy router, with fitted gates", tuple(parts), tuple(verdicts))


@dataclass(frozen=True, slots=True)
class FlagEffect:
    """The effect of the multi-hop flag of the paper's entropy router (EGR) on one data set.

    Parameters
    ----------
    name : str
        The name of the data set.
    flags : (n,) array of bool
        The flag of each question.
    gains : (n,) array of float
        For each question, the nDCG@10 of the system with a walk minus the nDCG@10 of the system without it.
    reached : int
        The number of questions for which the router reads the flag: the published gates send them to step-back.
    """

    name: str
    flags: BoolArray
    gains: FloatArray
    reached: int

    def split(self) -> tuple[FloatArray, FloatArray]:
        """Return the gains of the questions with the flag, and the gains of the others."""
        return self.gains[self.flags], self.gains[~self.flags]

    def by_flag(self) -> FloatArray:
        """Return, for each question, the change of nDCG@10 if the system walks only for questions with the flag.

        The comparison is with a walk for every question: minus the gain for a question without the flag, and otherwise
        0.
        """
        return np.where(self.flags, 0.0, -self.gains)


def flag_effect(dataset: Dataset) -> FlagEffect:
    """Measure the system with a walk and the system without it on a data set; return the effect of the flag."""
    inputs = ExperimentInput(dataset)
    runs = search_sources(inputs, ("vector", "graph", "bm25"))
    answers, _ = run_systems(inputs, [OWN_SYSTEMS[PLAIN], OWN_SYSTEMS[WALK]], 10, runs)
    plain, walk = (score_run(one.found, dataset.judgements, NDCG, corpus=dataset.contents) for one in answers)
    flags = np.array([is_multi_hop(query.text) for query in dataset.queries])
    entropies = [neighbour_entropy(2 - 2 * one.scores[:NEIGHBOURS]) for one in runs["vector"].rankings]
    return FlagEffect(dataset.name, flags, walk - plain, int((np.array(entropies) >= PUBLISHED_GATES[1]).sum()))


def _effects(found: Sequence[FlagEffect]) -> str:
    rows = []
    for one in found:
        cells = [_change(part) for part in one.split()]
        rows.append([one.name, int(one.flags.sum()), *cells, _change(one.by_flag()), one.reached])
    columns = ["data set", "with the flag", "gain with the flag", "gain without", "by the flag", "reached by the gates"]
    return table(columns, rows)


def _change(values: FloatArray) -> str:
    """Return the mean of `values` in points with its 95 % interval, as text; a dash for fewer than two values."""
    if len(values) < 2:
        return "–"
    found = paired_bootstrap(values)
    return f"{100 * found.mean:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"


def _flag_verdicts(found: Sequence[FlagEffect]) -> list[Verdict]:
    """Return the verdicts on whether the multi-hop flag identifies questions that gain from a walk.

    Only data sets with at least twenty questions of each kind count.
    """
    parts = {one.name: one.split() for one in found}
    apart = {
        name: 100 * float(flagged.mean() - others.mean()) if min(len(flagged), len(others)) >= 20 else float("nan")
        for name, (flagged, others) in parts.items()
    }
    return [
        judge(
            f"The gain of {WALK} over {PLAIN} is larger on questions with the multi-hop flag than on other "
            "questions (points of nDCG@10)",
            apart,
            0.1,
            shown=points,
        ),
        judge(
            f"Routing by the flag has a higher nDCG@10 than {WALK} for all questions (lower end of the 95 % "
            "interval, points of nDCG@10)",
            {one.name: 100 * paired_bootstrap(one.by_flag()).low for one in found if not one.flags.all()},
            0.1,
            shown=points,
        ),
    ]


def _table(choices: Choices, routes: Mapping[str, IntArray]) -> str:
    fixed, best = choices.reached(routes[FIXED]), choices.best[choices.judged]
    rows = []
    for way, chosen in routes.items():
        values = choices.reached(chosen)
        found = paired_bootstrap(values - fixed)
        counts = " / ".join(str(int((chosen == place).sum())) for place in range(len(choices.names)))
        change = f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
        rows.append(
            [way, number(values.mean()), change, p_value(found.p), share(float((chosen == best).mean())), counts]
        )
    columns = ["routing", "nDCG@10", "difference [95 %]", "p", "as the oracle, %", " / ".join(choices.names)]
    return table(columns, rows)


def _flags(datasets: Sequence[Dataset]) -> str:
    rows = []
    for dataset in datasets:
        by_type = any("split" in query.extra for query in dataset.queries)
        kinds = [str(query.extra.get("type", "")) if by_type else "all" for query in dataset.queries]
        for kind in sorted(set(kinds)):
            flags = [is_multi_hop(one.text) for one, of in zip(dataset.queries, kinds, strict=True) if of == kind]
            low, high = binomtest(sum(flags), len(flags)).proportion_ci(method="wilson")
            rows.append(
                [dataset.name, kind, len(flags), share(sum(flags) / len(flags)), f"{share(low)} to {share(high)}"]
            )
    return table(["data set", "type", "questions", "flagged, %", "95 % interval"], rows)


def _verdicts(sets: Mapping[str, Choices], routes: Mapping[str, Mapping[str, IntArray]]) -> list[Verdict]:
    """Return the verdicts on whether routing beats a single strategy, and fitted gates beat published gates."""

    def gain(name: str, way: str, other: str) -> FloatArray:
        return sets[name].reached(routes[name][way]) - sets[name].reached(routes[name][other])

    def agreed(name: str, way: str) -> float:
        return float((routes[name][way] == sets[name].best[sets[name].judged]).mean())

    kinds = {name: float(len(set(found[GATED[0]].tolist()))) for name, found in routes.items()}
    return [
        judge(
            "The published gates on raw distances send every query to the same strategy (number of strategies)",
            kinds,
            1,
            1,
            plain,
        ),
        *(
            judge(
                f"Routing by {way} has a higher nDCG@10 than {FIXED} (lower end of the 95 % interval, points of "
                "nDCG@10)",
                {name: 100 * paired_bootstrap(gain(name, way, FIXED)).low for name in sets},
                0.1,
                shown=points,
            )
            for way in FITTED
        ),
        judge(
            "On normalized distances, fitted gates agree with the oracle more often than published gates (points)",
            {name: 100 * (agreed(name, FITTED[1]) - agreed(name, GATED[1])) for name in sets},
            0.1,
            shown=points,
        ),
        judge(
            "On normalized distances, fitted gates have a higher nDCG@10 than published gates (points of nDCG@10)",
            {name: 100 * float(gain(name, FITTED[1], GATED[1]).mean()) for name in sets},
            0.1,
            shown=points,
        ),
    ]
