"""Systems x queries x measures in one table, with a baseline, intervals, wins and losses and corrected p."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.calibration import ListCalibrator
from phasegraph.errors import InsufficientDataError, InvalidInputError, MissingDependencyError
from phasegraph.evaluation.datasets import Dataset, Judgement
from phasegraph.evaluation.measures import DEFAULT_MEASURES, Measure, score_run
from phasegraph.evaluation.runs import check_judged, write_text
from phasegraph.evaluation.significance import bootstrap_intervals, holm, mcnemar_exact, wins_and_losses
from phasegraph.evaluation.source_runs import ExperimentInput, SourceRun, search_sources
from phasegraph.pipeline import FusionPipeline
from phasegraph.priors import Context
from phasegraph.ranking import Ranking

Batch: TypeAlias = Mapping[str, Sequence[Ranking]]
Answer: TypeAlias = Callable[[Dataset, Batch, int], "list[tuple[str, ...]]"]


@dataclass(frozen=True, slots=True)
class System:
    """One way to answer every query.

    Parameters
    ----------
    name : str
        Row of the table.
    sources : tuple of str
        The sources it fuses.
    answer : callable
        ``answer(dataset, rankings by source, k) -> ids per query``.
    about : str
        One line.
    """

    name: str
    sources: tuple[str, ...]
    answer: Answer
    about: str = ""


def source_system(source: str, about: str = "") -> System:
    """One source alone, in its own order."""

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        return [tuple(ranking.ids[:k]) for ranking in batch[source]]

    return System(source, (source,), answer, about)


def pipeline_system(name: str, pipeline: FusionPipeline, sources: Sequence[str], about: str = "") -> System:
    """A pipeline over some sources.

    Examples
    --------
    >>> pipeline_system("rrf", FusionPipeline.reciprocal_rank(), ["vector", "graph"]).sources
    ('vector', 'graph')
    """

    def answer(dataset: Dataset, batch: Batch, k: int) -> list[tuple[str, ...]]:
        return [
            tuple(pipeline.decide([batch[source][row] for source in sources], Context(query=query.text), k=k).ids)
            for row, query in enumerate(dataset.queries)
        ]

    return System(name, tuple(sources), answer, about)


TWO = ("vector", "graph")
THREE = ("vector", "graph", "bm25")
INFIMA: Mapping[str, float] = MappingProxyType({"vector": -1.0, "graph": 0.0, "bm25": 0.0})


def weighted_rrf(weights: Mapping[str, float]) -> FusionPipeline:
    """Reciprocal rank fusion with weights (the design record's: lexical and dense 1, graph .35)."""
    return FusionPipeline.reciprocal_rank(weights)


def convex(weights: Mapping[str, float]) -> FusionPipeline:
    """TM2C2: theoretical min-max (cosine from -1, BM25 and walk mass from 0), then a weighted sum."""
    own = {name: ListCalibrator("theoretical_min_max", {"infimum": INFIMA[name]}) for name in weights}
    return FusionPipeline(calibrator=ListCalibrator("min_max"), calibrators=own, rule="linear", weights=weights)


def min_max_sum() -> FusionPipeline:
    """Min-max of each list, added with equal weights."""
    return FusionPipeline(calibrator=ListCalibrator("min_max"), rule="comb_sum", weighting="equal")


def _own() -> dict[str, System]:
    paper, design = FusionPipeline.phasegraph, {"vector": 1.0, "graph": 0.35}
    rows = [
        source_system("vector", "cosine alone"),
        source_system("graph", "the walk alone"),
        source_system("bm25", "BM25 alone"),
        source_system("hipporag2", "HippoRAG 2's walk alone, without a model's filter"),
        source_system("semflow", "SemFlowRAG's walk alone, without a model's filter"),
        pipeline_system("rrf", FusionPipeline.reciprocal_rank(), TWO, "equal weights, rank constant 60"),
        pipeline_system("weighted-rrf", weighted_rrf(design), TWO, "the design record's: graph .35"),
        pipeline_system("convex", convex({"vector": 0.7, "graph": 0.3}), TWO, "TM2C2, vector .7"),
        pipeline_system("convex-equal", convex({"vector": 0.5, "graph": 0.5}), TWO, "TM2C2, equal weights"),
        pipeline_system("min-max-sum", min_max_sum(), TWO, "min-max of each list, added"),
        pipeline_system("phasegraph", paper(), TWO, "the paper's: vector .7, graph capped at 30"),
        pipeline_system("phasegraph-2wiki", paper("2wiki"), TWO, "the paper's: vector .4, graph capped at 20"),
        pipeline_system("default", FusionPipeline(), TWO, "ours: nothing fitted"),
        pipeline_system("rrf-three", FusionPipeline.reciprocal_rank(), THREE, "equal weights, with BM25"),
        pipeline_system(
            "weighted-rrf-three", weighted_rrf({**design, "bm25": 1.0}), THREE, "the design record's, with BM25"
        ),
        pipeline_system(
            "convex-three", convex({"vector": 1.0, "graph": 1.0, "bm25": 1.0}), THREE, "TM2C2, equal, with BM25"
        ),
        pipeline_system("default-three", FusionPipeline(), THREE, "ours, with BM25"),
    ]
    return {system.name: system for system in rows}


OWN_SYSTEMS: Mapping[str, System] = MappingProxyType(_own())


@dataclass(frozen=True, slots=True)
class Answers:
    """What one system found, and how long it took.

    Parameters
    ----------
    name : str
    found : mapping of str to tuple of str
        Ids in order, by query id.
    milliseconds : float or None
        Mean wall time of a query: the searches of its sources and the fusing; None where it was not measured.
    """

    name: str
    found: Mapping[str, tuple[str, ...]]
    milliseconds: float | None = None


def run_systems(
    inputs: ExperimentInput, systems: Sequence[System], k: int, runs: Mapping[str, SourceRun] | None = None
) -> tuple[list[Answers], tuple[str, ...]]:
    """Answer every query of a data set with every system, from the same lists.

    Parameters
    ----------
    inputs : ExperimentInput
        The data set, the list length and the graph.
    systems : sequence of System
        Names differ.
    k : int
        Ids kept per query.
    runs : mapping of str to SourceRun, optional
        Rankings already searched; what is lacking is searched.

    Returns
    -------
    list of Answers, tuple of str
        Those that ran, and a line for each that could not: a package is missing, or the data set lacks what a
        source walks on or a system is fitted on.

    Raises
    ------
    InvalidInputError
        If there is no system, or two have the same name.
    """
    names = [system.name for system in systems]
    if not names or len(set(names)) != len(names):
        raise InvalidInputError(f"systems must be at least one, with different names; got {names}")
    known = dict(runs or {})
    answers: list[Answers] = []
    left_out: list[str] = []
    for system in systems:
        try:
            known.update(search_sources(inputs, [source for source in system.sources if source not in known], known))
        except (MissingDependencyError, InsufficientDataError) as error:
            left_out.append(f"{system.name}: {error}")
            continue
        started = perf_counter()
        try:
            found = system.answer(inputs.dataset, {source: known[source].rankings for source in system.sources}, k)
        except (MissingDependencyError, InsufficientDataError) as error:
            left_out.append(f"{system.name}: {error}")
            continue
        per_query = 1000 * (perf_counter() - started) / len(inputs.dataset.queries)
        per_query += sum(known[source].milliseconds for source in system.sources)
        keys = [query.id for query in inputs.dataset.queries]
        answers.append(Answers(system.name, MappingProxyType(dict(zip(keys, found, strict=True))), per_query))
    return answers, tuple(left_out)


@dataclass(frozen=True, slots=True)
class Row:
    """One system in the table.

    Parameters
    ----------
    name : str
    means : mapping of Measure to float
        In [0, 1]; NaN for a measure that leaves out every query.
    intervals : mapping of Measure to (float, float)
        Bootstrap interval of each mean.
    differences : mapping of Measure to (float, float, float)
        Mean difference to the baseline with its paired interval.
    wins, losses : mapping of Measure to int
        Queries better and worse than the baseline.
    p, p_holm : mapping of Measure to float
        Exact McNemar on the hits-or-misses measures, as it is and corrected over the whole table.
    milliseconds : float or None
        Per query.
    """

    name: str
    means: Mapping[Measure, float]
    intervals: Mapping[Measure, tuple[float, float]]
    differences: Mapping[Measure, tuple[float, float, float]]
    wins: Mapping[Measure, int]
    losses: Mapping[Measure, int]
    p: Mapping[Measure, float]
    p_holm: Mapping[Measure, float]
    milliseconds: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The outcome of an experiment, per system and per query.

    Parameters
    ----------
    dataset : str
    queries : tuple of str
        Ids, in order.
    measures : tuple of Measure
    baseline : str
        Name of the system the others are compared with.
    rows : tuple of Row
    values : mapping of str to (n, c) array of float
        Per system, query and measure; NaN where the measure leaves the query out.
    found : mapping of str to mapping of str to tuple of str
        Ids by system and query, to the depth of the deepest measure.
    limit : int or None
        Length of the lists that were fused.
    left_out : tuple of str
        Systems that could not run, each with its reason.
    """

    dataset: str
    queries: tuple[str, ...]
    measures: tuple[Measure, ...]
    baseline: str
    rows: tuple[Row, ...]
    values: Mapping[str, FloatArray] = field(repr=False)
    found: Mapping[str, Mapping[str, tuple[str, ...]]] = field(repr=False)
    limit: int | None = None
    left_out: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise InvalidInputError(f"a system must be one of {[row.name for row in self.rows]}; got {name!r}")

    def to_dict(self) -> dict[str, object]:
        """The table as JSON types: percentages from 0 to 100, null where a measure leaves out every query.

        Per system: each measure; wins, losses, exact McNemar p and Holm-corrected p of LastHop at each depth;
        milliseconds per query; intervals of each measure and of its difference to the baseline.
        """
        return {
            "dataset": self.dataset,
            "queries": len(self.queries),
            "limit": self.limit,
            "baseline": self.baseline,
            "left_out": list(self.left_out),
            "systems": {row.name: _row_to_dict(row) for row in self.rows},
        }

    def write_rows(self, path: str | Path) -> None:
        """Write one JSON line per system and query: ids and every measure, so that anyone can recompute."""
        lines = [
            json.dumps(self._line(row.name, place, query), ensure_ascii=False) + "\n"
            for row in self.rows
            for place, query in enumerate(self.queries)
        ]
        write_text(path, "".join(lines))

    def _line(self, system: str, place: int, query: str) -> dict[str, object]:
        values = self.values[system][place].tolist()
        scores = {str(measure): None if np.isnan(v) else v for measure, v in zip(self.measures, values, strict=True)}
        return {"system": system, "query": query, "ids": list(self.found[system].get(query, ())), **scores}


def _percent(value: float) -> float | None:
    return None if np.isnan(value) else 100 * value


def _row_to_dict(row: Row) -> dict[str, object]:
    out: dict[str, object] = {str(measure): _percent(mean) for measure, mean in row.means.items()}
    for measure in row.means:
        if measure.name == "LastHop":
            out[f"wins@{measure.k}"] = row.wins[measure]
            out[f"losses@{measure.k}"] = row.losses[measure]
            out[f"p@{measure.k}"] = row.p[measure]
            out[f"p_holm@{measure.k}"] = row.p_holm[measure]
    out["ms_per_query"] = row.milliseconds
    out["intervals"] = {str(m): [_percent(low), _percent(high)] for m, (low, high) in row.intervals.items()}
    out["differences"] = {str(m): [_percent(value) for value in three] for m, three in row.differences.items()}
    return out


BINARY = frozenset({"LastHop", "FullSup"})
Tests = Mapping[tuple[str, Measure], float]


@dataclass(frozen=True, slots=True, eq=False)
class _Scored:
    """Every value of the experiment: per system an (n, c) array over queries and measures."""

    names: tuple[str, ...]
    measures: tuple[Measure, ...]
    values: Mapping[str, FloatArray]
    baseline: str

    def differences(self, name: str) -> FloatArray:
        return self.values[name] - self.values[self.baseline]

    def intervals(self, resamples: int, rng: int) -> FloatArray:
        """(2, systems, measures, 2): ends for the means, then for the differences."""
        columns = [self.values[name] for name in self.names] + [self.differences(name) for name in self.names]
        bounds = bootstrap_intervals(np.hstack(columns), resamples=resamples, rng=rng)
        return bounds.reshape(2, len(self.names), len(self.measures), 2)

    def against(self, name: str, column: int) -> tuple[int, int]:
        return wins_and_losses(self.values[name][:, column], self.values[self.baseline][:, column])

    def p_values(self) -> tuple[Tests, Tests]:
        """Exact McNemar per system and hits-or-misses measure, and the same corrected over the table."""
        tested = [(column, measure) for column, measure in enumerate(self.measures) if measure.name in BINARY]
        p = {(name, m): mcnemar_exact(*self.against(name, c)) for name in self.names for c, m in tested}
        family = [key for key in p if key[0] != self.baseline]
        corrected = holm([p[key] for key in family]).tolist()
        return p, dict.fromkeys(p, 1.0) | dict(zip(family, corrected, strict=True))

    def row(self, place: int, intervals: FloatArray, p: Tests, corrected: Tests, milliseconds: float | None) -> Row:
        name = self.names[place]
        columns = list(enumerate(self.measures))
        own, paired = intervals[0, place].tolist(), intervals[1, place].tolist()
        deltas = self.differences(name)
        pairs = {measure: self.against(name, column) for column, measure in columns}
        return Row(
            name,
            {measure: _mean(self.values[name][:, column]) for column, measure in columns},
            {measure: (own[column][0], own[column][1]) for column, measure in columns},
            {m: (_mean(deltas[:, column]), paired[column][0], paired[column][1]) for column, m in columns},
            {measure: pair[0] for measure, pair in pairs.items()},
            {measure: pair[1] for measure, pair in pairs.items()},
            {measure: p[name, measure] for measure in self.measures if (name, measure) in p},
            {measure: corrected[name, measure] for measure in self.measures if (name, measure) in p},
            milliseconds,
        )


def compare(
    answers: Sequence[Answers],
    judgements: Sequence[Judgement],
    *,
    baseline: str = "vector",
    measures: Sequence[Measure] = DEFAULT_MEASURES,
    dataset: str = "",
    limit: int | None = None,
    left_out: Sequence[str] = (),
    resamples: int = 10_000,
    rng: int = 0,
) -> Table:
    """Score and compare systems on the same judged queries.

    Parameters
    ----------
    answers : sequence of Answers
        At least one, names differ, the baseline among them. A judged query that a system did not answer
        counts as nothing found.
    judgements : sequence of Judgement
        At least one.
    baseline : str, default "vector"
    measures : sequence of Measure
    dataset : str
    limit : int, optional
    left_out : sequence of str
    resamples : int, default 10000
        Of the bootstrap.
    rng : int, default 0
        Seed of the bootstrap; everything else is exact.

    Returns
    -------
    Table

    Raises
    ------
    InvalidInputError
        If a parameter breaks what is said above, or a run answers a query that nobody judged.

    Notes
    -----
    p is the two-sided exact McNemar test, for LastHop and FullSup. ``p_holm`` corrects it for every such test of
    the table: all systems but the baseline, all depths.
    """
    names = [one.name for one in answers]
    if not names or len(set(names)) != len(names):
        raise InvalidInputError(f"systems must be at least one, with different names; got {names}")
    if baseline not in names:
        raise InvalidInputError(f"the baseline must be one of the systems {names}; got {baseline!r}")
    if not judgements or not measures:
        raise InvalidInputError("there must be at least one judged query and one measure")
    for one in answers:
        check_judged(one.found, judgements, one.name)
    values = {
        one.name: np.column_stack([score_run(one.found, judgements, measure) for measure in measures])
        for one in answers
    }
    scored = _Scored(tuple(names), tuple(measures), values, baseline)
    intervals = scored.intervals(resamples, rng)
    p, corrected = scored.p_values()
    rows = [scored.row(place, intervals, p, corrected, one.milliseconds) for place, one in enumerate(answers)]
    return Table(
        dataset,
        tuple(judgement.query for judgement in judgements),
        tuple(measures),
        baseline,
        tuple(rows),
        MappingProxyType(values),
        MappingProxyType({one.name: one.found for one in answers}),
        limit,
        tuple(left_out),
    )


def _mean(column: FloatArray) -> float:
    scored = column[~np.isnan(column)]
    return float(scored.mean()) if len(scored) else float("nan")
