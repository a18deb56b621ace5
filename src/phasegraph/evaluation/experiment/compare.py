"""Scoring systems on the same judged queries, and comparing each with a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.experiment.running import Answers
from phasegraph.evaluation.experiment.table import Row, Table
from phasegraph.evaluation.judgements import Judgement
from phasegraph.evaluation.measures import DEFAULT_MEASURES, Measure, score_run
from phasegraph.evaluation.runs import check_judged
from phasegraph.evaluation.significance import bootstrap_intervals, holm, mcnemar_exact, wins_and_losses

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
