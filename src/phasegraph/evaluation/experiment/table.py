"""The outcome of an experiment, as a table and per query."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.writing import write_text


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
