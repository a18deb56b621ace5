"""Conclusions: a sentence together with the figures that decide whether it holds, and the bounds of these figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from phasegraph.evaluation.experiment import Table
from phasegraph.evaluation.measures import Measure

Shown = Callable[[float], str]
Tables = Mapping[str, Mapping[str, Table]]
"""By data set and part."""
RECALL, LAST = Measure("Recall", 5), Measure("LastHop", 10)


def points(value: float) -> str:
    """Return a difference in points as text, with its sign and one decimal."""
    return f"{value:+.1f}"


def plain(value: float) -> str:
    """Return a number as text, with three significant digits."""
    return f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on a sentence of a page: whether the sentence holds.

    Parameters
    ----------
    holds : bool or None
        None if there is no figure that decides the sentence.
    text : str
        The verdict, the sentence, the figures and their bounds.
    """

    holds: bool | None
    text: str


def judge(
    says: str, figures: Mapping[str, float], low: float = -inf, high: float = inf, shown: Shown = plain
) -> Verdict:
    """Return the verdict on a sentence: it holds if all `figures` except NaN are within the bounds, bounds included.

    Examples
    --------
    >>> judge("The rules agree to a point", {"one": 0.4, "two": -0.2}, -1, 1, points).text
    '**Holds.** The rules agree to a point (one +0.4, two -0.2; must be -1.0 to +1.0).'
    >>> judge("The rules agree to a point", {"one": 0.4, "two": 3}, -1, 1, points).text
    '**Refused on two.** The rules agree to a point (one +0.4, two +3.0; must be -1.0 to +1.0).'
    """
    known = {where: figure for where, figure in figures.items() if figure == figure}
    if not known:
        return Verdict(None, f"**Not decided.** {says} (no figures).")
    failing = [where for where, figure in known.items() if not low <= figure <= high]
    found = ", ".join(f"{where} {shown(figure)}" for where, figure in known.items())
    if low == high:
        asked = shown(low)
    elif low == -inf:
        asked = f"at most {shown(high)}"
    else:
        asked = f"at least {shown(low)}" if high == inf else f"{shown(low)} to {shown(high)}"
    start = "Holds" if not failing else "Refused" if len(failing) == len(known) else f"Refused on {', '.join(failing)}"
    return Verdict(not failing, f"**{start}.** {says} ({found}; must be {asked}).")


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence about a study, which is decided by one figure of each of the study's tables.

    Parameters
    ----------
    says : str
        The sentence.
    figure : callable
        ``figure(table) -> float``; NaN if the table does not contain the figure.
    low, high : float
        The sentence holds if the figure is within these bounds, bounds included.
    only : str, default ""
        The sentence is about data sets whose name starts with this text.
    part : str, optional
        The sentence is about this part of the queries.
    shown : callable
        Converts a figure to text.
    """

    says: str
    figure: Callable[[Table], float]
    low: float = -inf
    high: float = inf
    only: str = ""
    part: str | None = None
    shown: Shown = points

    def verdict(self, tables: Tables) -> Verdict:
        """Return the verdict on the sentence, from the figures of all data sets and parts that it is about."""
        figures = {
            f"{name} {part}": self.figure(one)
            for name, both in tables.items()
            if name.startswith(self.only)
            for part, one in both.items()
            if self.part in (None, part)
        }
        return judge(self.says, figures, self.low, self.high, self.shown)


def mean(table: Table, system: str, measure: Measure = RECALL) -> float:
    """Return a system's mean of `measure` over the queries of `table`, in points (0 to 100)."""
    return 100 * table[system].means[measure]


def gap(system: str, other: str, measure: Measure = RECALL) -> Callable[[Table], float]:
    """Return a function that maps a table to the mean of `system` minus the mean of `other`, in points."""
    return lambda table: mean(table, system, measure) - mean(table, other, measure)


def highest(*gaps: Callable[[Table], float]) -> Callable[[Table], float]:
    """Return a function that applies each of `gaps` to a table, and returns the largest result."""
    return lambda table: max(one(table) for one in gaps)


def lowest(*gaps: Callable[[Table], float]) -> Callable[[Table], float]:
    """Return a function that applies each of `gaps` to a table, and returns the smallest result."""
    return lambda table: min(one(table) for one in gaps)


def spread(*systems: str) -> Callable[[Table], float]:
    """Return a function that maps a table to the best minus the worst Recall@5 of `systems`, in points."""
    return lambda table: max(mean(table, one) for one in systems) - min(mean(table, one) for one in systems)


def p_of(system: str, measure: Measure = LAST, *, corrected: bool = False) -> Callable[[Table], float]:
    """Return a function that maps a table to a system's exact McNemar p-value against the table's baseline.

    If `corrected`, the p-value is corrected by Holm's method over all systems of the table.
    """
    return lambda table: (table[system].p_holm if corrected else table[system].p)[measure]


def changed(system: str, measure: Measure = LAST) -> Callable[[Table], float]:
    """Return a function that maps a table to the number of queries that a system wins or loses against the baseline."""
    return lambda table: table[system].wins[measure] + table[system].losses[measure]


def beyond(system: str, measure: Measure, said: float) -> Callable[[Table], float]:
    """Return a function that maps a table to the distance of a published difference from our interval, in points.

    `said` is the published difference between `system` and the baseline, as a share. The distance is 0 if the
    difference lies in our interval.
    """

    def outside(table: Table) -> float:
        _, low, high = table[system].differences[measure]
        return 100 * max(low - said, said - high, 0.0)

    return outside


def differing(system: str, other: str) -> Callable[[Table], float]:
    """Return a function that maps a table to the number of queries for which two systems return different ids.

    Equal ids in another order also count.
    """
    return lambda table: sum(ids != table.found[other][query] for query, ids in table.found[system].items())
