"""The output of the command ``phasegraph evaluate``: printed tables, and the object for ``--json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from phasegraph._support.text import counted
from phasegraph.apps.cli.output import percent, show_table, write_json
from phasegraph.evaluation.ablation import Ablation
from phasegraph.evaluation.abstention import Abstention
from phasegraph.evaluation.experiment import Table
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.predicted_answers import ANSWER_GOALS
from phasegraph.evaluation.protocol import Protocol, Verdict, verdicts
from phasegraph.evaluation.recommendation import RECOMMENDED_BY, SIMPLE, WEIGHED, Recommendation, best_simple, gain_of
from phasegraph.evaluation.significance import p_text

OURS = ("default", "default-three")
"""The names of the rows that tables print in bold."""
WIDEST = 8


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table as text: title, columns, rows and notes."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """The output of ``phasegraph evaluate``: `state`, the object for ``--json``, and `sheets`, the printed tables."""

    state: dict[str, object]
    sheets: list[Sheet]

    def add(self, key: str, part: tuple[object, Sheet]) -> None:
        """Add a part of the output: its value under `key` in the JSON object, and its printed table."""
        self.state[key] = part[0]
        self.sheets.append(part[1])

    def add_abstention(self, found: Abstention, table: Table) -> None:
        """Add how well each system's confidence separates questions with and without an answer, as rows of `table`."""
        self.state["systems"] = {row.name: {**row.to_dict(), **found.of(row.name)} for row in table.rows}
        self.add("abstain", (found.asked, abstention_sheet(found, table)))

    def show(self, advice: Recommendation | None, table: Table, json_to: str | None) -> Console:
        """Write the JSON to `json_to`, print the tables and the recommendation `advice`, and return the console.

        If `advice` is None, print which rows of `table` the recommendation needs.
        """
        if advice is not None:
            said = {"choice": advice.choice, "measure": str(RECOMMENDED_BY), "sentence": advice.sentence}
            self.state["recommendation"] = said
        to = write_json(self.state, json_to)
        for sheet in self.sheets:
            show_sheet(to, sheet, OURS)
        missing = [name for name in WEIGHED if not any(row.name == name for row in table.rows)]
        to.print(
            f"recommendation: {advice.sentence}"
            if advice is not None
            else f"no recommendation: it needs the rows {', '.join(missing)}"
        )
        return to


def show_sheet(to: Console, sheet: Sheet, marked: Collection[str] = ()) -> None:
    """Print a sheet and its notes; the rows named in `marked` are bold."""
    show_table(to, sheet.title, sheet.columns, sheet.rows, marked)
    for line in sheet.notes:
        to.print(line)


def main_sheet(table: Table, printed: Collection[Measure], within: str | None, doubts: Sequence[str] = ()) -> Sheet:
    """Format the table of all systems for the measures in `printed`, with its notes and the lines of `doubts`.

    `within` is the field whose value restricts the search of a query, or None.
    """
    columns, cells = as_text(table, printed)
    notes = [*(f"left out: {line}" for line in table.left_out), *table.notes]
    if within is not None:
        notes.append(f"each query is answered only from the passages with its own {within}")
    if len(table.rows) > 1:
        notes.append(
            f"in brackets and under W/L: p of the paired test against {table.baseline}, with Holm's correction"
        )
    return Sheet(title_of(table), columns, cells, [*notes, *doubts])


def as_text(table: Table, printed: Collection[Measure] | None = None) -> tuple[list[str], list[list[str]]]:
    """Format the table's columns and rows for the measures in `printed` (default all).

    Recall comes first, because a narrow terminal hides the last columns. The last row is best-simple.
    """
    kept = [measure for measure in table.tests if printed is None or measure in printed]
    kept.sort(key=lambda measure: measure.name != RECOMMENDED_BY.name)
    hops = [measure for measure in kept if measure.name == "LastHop"]
    columns = ["system", *(f"{measure}" if measure in hops else f"{measure} (p)" for measure in kept)]
    for measure in hops:
        columns += [f"W/L@{measure.k}", f"p@{measure.k} (Holm)"]
    rows = []
    for row in table.rows:
        own = row.name == table.baseline
        cells = [row.name]
        for measure in kept:
            tested = "" if own or measure in hops else f" ({p_text(row.p_holm[measure])})"
            cells.append(f"{shown(measure, row.means[measure])}{tested}")
        for measure in hops:
            cells += ["", ""] if own else [f"{row.wins[measure]}/{row.losses[measure]}", p_text(row.p_holm[measure])]
        rows.append([*cells, "" if row.milliseconds is None else f"{row.milliseconds:.1f}"])
    simple = best_simple(table)
    if simple:
        best = [shown(measure, table[simple[measure]].means[measure]) if measure in simple else "" for measure in kept]
        rows.append(["best-simple", *best, *[""] * (len(columns) - len(best))])
    return [*columns, "ms"], rows


def shown(measure: Measure, value: float) -> str:
    """Format a value of a measure: a percentage, or a count."""
    return f"{measure.unit * value:.1f}"


def title_of(table: Table) -> str:
    """Return the title of a table: data set, number of queries, length of the rankings, baseline."""
    queries = counted(len(table.queries), "query", "queries")
    return f"{table.dataset}: {queries}, lists of {table.limit}, against {table.baseline}"


def against_simple(
    table: Table, simple: Mapping[Measure, str], printed: Collection[Measure]
) -> tuple[dict[str, object], Sheet]:
    """Compare the default with the best simple system of each measure, whose name `simple` gives by measure.

    Return a mapping for JSON with all measures, and a printable table of the measures in `printed`. If the default is
    not in `table`, both contain only the best simple systems.
    """
    names = {row.name for row in table.rows}
    found: dict[str, object] = {}
    rows = []
    for measure, best in simple.items():
        mean = table[best].means[measure]
        gain = gain_of(table, "default", best, measure) if "default" in names else None
        found[str(measure)] = {
            "system": best,
            "mean": measure.unit * mean,
            "default": None if gain is None else gain.to_dict(),
        }
        if measure in printed:
            own = ["–", "–"] if gain is None else [shown(measure, table["default"].means[measure]), gain.text]
            rows.append([str(measure), best, shown(measure, mean), *own])
    state: dict[str, object] = {"of": [name for name in SIMPLE if name in names], "measures": found}
    columns = ["measure", "best simple way", "its mean", "default", "difference [95 %]"]
    note = "the best simple way is chosen on these queries, so the difference favors it over the default"
    return state, Sheet("default against the best simple way of each measure", columns, rows, [note])


def protocol_part(
    tested: Table, signs: Table, goal: str, protocol: Protocol, parts: tuple[str, str]
) -> tuple[dict[str, object], Sheet]:
    """Apply a protocol to the differences from the baseline in the measure `goal`.

    `tested` and `signs` are the tables of two parts of the queries, which `parts` names. A difference in `tested`
    counts as reliable only if it has the same sign in `signs`. Return the verdicts as a mapping for JSON, and as a
    printable table.
    """
    measure = Measure.parse(goal)
    found = verdicts(tested, signs, measure, protocol)
    state: dict[str, object] = {
        "name": protocol.name,
        "measure": goal,
        "tested": parts[0],
        "signs_from": parts[1],
        "queries": [len(tested.queries), len(signs.queries)],
        "baseline": tested.baseline,
        "level": protocol.level,
        "resamples": protocol.resamples,
        "systems": {name: one.to_dict() for name, one in found.items()},
    }
    columns = ["system", goal, "difference [95 %]", "p", "p (Holm)", "p of collections", f"on {parts[1]}", "reliable"]
    rows = [_verdict_row(name, one, tested[name].means[measure]) for name, one in found.items()]
    title = (
        f"{protocol.name}: {goal} on {parts[0]} ({counted(len(tested.queries), 'query', 'queries')}) "
        f"against {tested.baseline}, signs from {parts[1]} ({len(signs.queries)})"
    )
    rule = (
        f"reliable: paired bootstrap, Holm over the {len(found)} systems rejects at {protocol.level:g}, and the "
        f"difference on {parts[1]} has the same sign; p of collections is not used by the rule"
    )
    return state, Sheet(title, columns, rows, [rule])


def _verdict_row(name: str, one: Verdict, mean: float) -> list[str]:
    found = one.difference
    change = f"{100 * found.mean:+.1f} [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    of_groups = "–" if one.p_groups is None else p_text(one.p_groups)
    said = "yes" if one.reliable else "no"
    return [
        name,
        percent(mean),
        change,
        p_text(found.p),
        p_text(one.p_holm),
        of_groups,
        f"{100 * one.other:+.1f}",
        said,
    ]


def answer_sheet(table: Table) -> Sheet:
    """Format the table of EM and F1 of predicted answers."""
    rows = []
    for row in table.rows:
        cells = [row.name]
        for measure in ANSWER_GOALS:
            p = row.p_holm[measure]
            cells += [percent(row.means[measure]), "" if row.name == table.baseline or p != p else p_text(p)]
        rows.append(cells)
    title = f"answers: {counted(len(table.queries), 'query', 'queries')}, against {table.baseline}"
    return Sheet(title, ["system", "EM", "p (Holm)", "F1", "p (Holm)"], rows, [*table.left_out, *table.notes])


def abstention_sheet(found: Abstention, table: Table) -> Sheet:
    """Format a table: how well each system's confidence separates questions with and without an answer."""
    rows = [
        [row.name, *("–" if one is None else f"{one:.1f}" for one in found.of(row.name).values())] for row in table.rows
    ]
    lines = [f"left out: {line}" for line in found.left_out]
    return Sheet(f"AUC of confidence against {found.asked}", ["system", *found.of(table.baseline)], rows, lines)


def ablation_sheet(table: Ablation) -> Sheet:
    """Format the table of a pipeline with all stages, and without each stage."""
    measures = list(table.rows[0].means)
    columns = ["stages"]
    for measure in measures:
        columns += [measure, "difference [95 %]", "p", "p (Holm)"]
    rows = []
    for row in table.rows:
        cells = [row.name]
        for measure in measures:
            cells.append(percent(row.means[measure]))
            if measure in row.differences:
                mean, low, high = (100 * one for one in row.differences[measure])
                cells += [f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]", p_text(row.p[measure]), p_text(row.p_holm[measure])]
            else:
                cells += ["", "", ""]
        rows.append(cells)
    return Sheet(
        f"{table.name}: {counted(table.queries, 'query', 'queries')}, all stages on, then each stage off",
        columns,
        rows,
        table.notes,
    )


def means_by(table: Table, labels: Sequence[str], field: str, measure: Measure) -> tuple[dict[str, object], Sheet]:
    """Compute the means for each value in `labels`, the values of the field `field`, and the mean of these means.

    Return a mapping for JSON with all measures, and a printable table of `measure` alone.
    """
    found, counts = table.means_by(labels), Counter(labels)
    names = [row.name for row in table.rows]
    macro = {
        name: {str(goal): _mean([of[name][str(goal)] for of in found.values()]) for goal in table.measures}
        for name in names
    }
    rows = [
        [label, *("–" if mean is None else f"{mean:.1f}" for mean in (of[name][str(measure)] for name in names))]
        for label, of in [
            *((f"{label} ({counts[label]})", of) for label, of in found.items()),
            ("mean of these", macro),
        ]
    ]
    columns = [field, *names]
    if len(found) <= WIDEST:
        columns, *rows = [list(cells) for cells in zip(columns, *rows, strict=True)]
        columns[0] = "system"
    state: dict[str, object] = {"field": field, "queries": dict(counts), "means": found, "macro": macro}
    return state, Sheet(f"{measure} by {field} (queries)", columns, rows)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
