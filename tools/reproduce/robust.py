"""phasegraph's default without labels: its regret to its sources and RRF, and the harm that a wrong source does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from page import Page, share, table
from phasegraph.candidates import cap_ranking
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.measures import Measure, score_run
from phasegraph.evaluation.source_runs import ExperimentInput, SourceRun
from phasegraph.evaluation.systems import OWN_SYSTEMS, TWO, pipeline_system
from phasegraph.fusion.pipeline import FusionPipeline
from phasegraph.ranking import Ranking

LIMITS = (20, 50, 200)
GOALS = (Measure("Recall", 5), Measure("Recall", 10), Measure("LastHop", 10))
RIVALS = ("vector", "graph", "rrf")
SHIFTS = (1, 17, 101)
TEN = Measure("Recall", 10)
BAR, HARM_BAR = 0.005, 0.05
"""Half a point of regret; five points of harm by a wrong graph: what neither should exceed."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The results of phasegraph's default fusion on one data set with one list length.

    Parameters
    ----------
    dataset : str
    limit : int
    means : mapping of str to tuple of float
        For each system, the means of ``GOALS``, in [0, 1].
    wrong : float
        The Recall@10 of the default if the graph source returns the ranking of another query: the lowest value over
        the ``SHIFTS``, which assign other queries.
    """

    dataset: str
    limit: int
    means: Mapping[str, tuple[float, ...]]
    wrong: float

    @property
    def regret(self) -> tuple[float, ...]:
        """Return, for each measure of ``GOALS``, the best rival's mean minus the default's mean, as a share.

        It is negative if the default is best.
        """
        best = [max(self.means[name][place] for name in RIVALS) for place in range(len(GOALS))]
        return tuple(high - own for high, own in zip(best, self.means["default"], strict=True))

    @property
    def harm(self) -> float:
        """Return the Recall@10 of vectors alone minus the Recall@10 of the default with a wrong graph ranking."""
        return self.means["vector"][1] - self.wrong


def standings(
    dataset: Dataset,
    runs: Mapping[str, SourceRun],
    pipeline: FusionPipeline | None = None,
    limits: Sequence[int] = LIMITS,
) -> list[Standing]:
    """Measure a pipeline (by default phasegraph's default) and its rivals with several list lengths.

    Parameters
    ----------
    dataset : Dataset
    runs : mapping of str to SourceRun
        ``vector`` and ``graph``, with lists at least as long as the longest of `limits`.
    pipeline : FusionPipeline, optional
    limits : sequence of int

    Returns
    -------
    list of Standing
    """
    own = pipeline_system("default", FusionPipeline() if pipeline is None else pipeline, TWO)
    out = []
    for limit in limits:
        batch = {name: _cut(runs[name].rankings, limit) for name in TWO}
        systems = [*(OWN_SYSTEMS[name] for name in RIVALS), own]
        means = {system.name: _means(dataset, system.answer(dataset, batch, 10), GOALS) for system in systems}
        wrong = []
        for shift in SHIFTS:
            turned = {"vector": batch["vector"], "graph": _turned(batch["graph"], shift)}
            wrong.append(_means(dataset, own.answer(dataset, turned, 10), (TEN,))[0])
        out.append(Standing(dataset.name, limit, means, min(wrong)))
    return out


def _cut(rankings: Sequence[Ranking], limit: int) -> list[Ranking]:
    return [cap_ranking(ranking, limit, "list", frozenset()) for ranking in rankings]


def _turned(rankings: Sequence[Ranking], shift: int) -> list[Ranking]:
    """Give every query the ranking of the query `shift` places later; the last queries get the first rankings."""
    count = len(rankings)
    step = shift % count or 1
    return [rankings[(row + step) % count] for row in range(count)]


def _means(dataset: Dataset, found: Sequence[tuple[str, ...]], goals: Sequence[Measure]) -> tuple[float, ...]:
    by_query = {query.id: ids for query, ids in zip(dataset.queries, found, strict=True)}
    values = [score_run(by_query, dataset.judgements, goal, corpus=dataset.contents) for goal in goals]
    return tuple(float(np.nanmean(column)) if not np.isnan(column).all() else float("nan") for column in values)


def robust_input(dataset: Dataset) -> ExperimentInput:
    """Return the input for a search of a data set's sources with the longest lists that `robust-default` compares."""
    return ExperimentInput(dataset, min(max(LIMITS), len(dataset.passages)))


def within(points: float, bar: float = BAR) -> bool:
    """Return True if a regret or a harm, as a share, is at most `bar`; a rounding error (1e-9) is ignored."""
    return points <= bar + 1e-9


def judged(points: float, bar: float = BAR) -> str:
    """Return a regret or a harm (a share) in points as text, with "pass" if it is at most `bar`, otherwise "FAIL".

    Examples
    --------
    >>> judged(0.005), judged(0.0051), judged(float("nan"))
    ('+0.50 pass', '+0.51 FAIL', '–')
    """
    return "–" if points != points else f"{100 * points:+.2f} {'pass' if within(points, bar) else 'FAIL'}"


def _met(found: Sequence[Standing]) -> str:
    parts = []
    for what, bar, values in (
        ("regret", BAR, [value for one in found for value in one.regret if value == value]),
        ("harm of a wrong graph", HARM_BAR, [one.harm for one in found]),
    ):
        met = sum(within(value, bar) for value in values)
        parts.append(f"{met} of {len(values)} cells of {what} are within {100 * bar:g} points")
    return ", ".join(parts) + "."


def robust_page(found: Sequence[Standing]) -> Page:
    """Return the page `robust-default`: regret and harm by data set and list length, and the worst of each."""
    columns = ["data set", "lists of"]
    columns += [f"{goal}: best of three" for goal in GOALS[:1]] + ["default", "regret"]
    for goal in GOALS[1:]:
        columns += [f"{goal}: best of three", "default", "regret"]
    columns += ["Recall@10 with a wrong graph", "below vectors"]
    rows: list[list[object]] = []
    for one in found:
        cells: list[object] = [one.dataset, one.limit]
        for place in range(len(GOALS)):
            own = one.means["default"][place]
            cells += [share(own + one.regret[place]), share(own), judged(one.regret[place])]
        rows.append([*cells, share(one.wrong), judged(one.harm, HARM_BAR)])
    worst, which = max((value, place) for place, one in enumerate(found) for value in one.regret if value == value)
    harm, where = max((one.harm, place) for place, one in enumerate(found))
    at, hurt = found[which], found[where]
    return Page(
        "robust-default",
        "The default without labels",
        (
            "Regret is the best of vectors, graph and equal-weight RRF on the same lists, minus the default, in "
            "points. It is negative if the default is the best. With a wrong graph, every query gets the graph "
            f"ranking of another query (shifted by {', '.join(map(str, SHIFTS))} places; the worst result counts).",
            f"How many cells are within their limits: {_met(found)}",
            table(columns, rows),
            f"Largest regret: {100 * worst:+.1f} points, on {at.dataset} with lists of {at.limit}. Largest harm of a "
            f"wrong graph: {100 * harm:+.1f} points of Recall@10 below vectors alone, on {hurt.dataset} with lists of "
            f"{hurt.limit}.",
        ),
    )
