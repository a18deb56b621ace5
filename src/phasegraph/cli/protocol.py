"""What ``phasegraph evaluate`` adds to its table: a benchmark's protocol, predicted answers, means by a field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from phasegraph.cli.output import percent
from phasegraph.errors import InvalidInputError, MissingDependencyError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import Answers, Table, compare
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.protocol import PROTOCOLS, Protocol, Verdict, verdicts
from phasegraph.evaluation.runs import read_predictions
from phasegraph.evaluation.significance import p_text


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table as text: a line above it, columns, rows, and lines below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()


def protocol_of(name: str | None, dev_set: Path | None) -> Protocol | None:
    """The protocol asked for by name."""
    if name is not None and name not in PROTOCOLS:
        raise typer.BadParameter(f"the protocol must be among {', '.join(PROTOCOLS)}; got {name!r}")
    if name is None and dev_set is not None:
        raise typer.BadParameter("--dev-set needs a --protocol")
    return None if name is None else PROTOCOLS[name]


def protocol_measures(protocol: Protocol) -> tuple[list[Measure], list[str]]:
    """The measures of a protocol, and a line for each whose library is not installed."""
    found, lacking = [], []
    for text in protocol.measures:
        try:
            found.append(Measure.parse(text))
        except MissingDependencyError as error:
            lacking.append(f"{text}: {error}")
    return found, lacking


def judge(
    tested: Table, signs: Table, goal: str, protocol: Protocol, parts: tuple[str, str]
) -> tuple[dict[str, object], Sheet]:
    """The verdicts on one measure, as JSON types and as text."""
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
        f"{protocol.name}: {goal} on {parts[0]} ({len(tested.queries)} queries) against {tested.baseline}, "
        f"signs from {parts[1]} ({len(signs.queries)})"
    )
    rule = (
        f"reliable: paired bootstrap, Holm over the {len(found)} systems rejects at {protocol.level:g}, and the "
        f"difference on {parts[1]} has the same sign; p of collections is no part of the rule"
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


ANSWER_GOALS = (Measure("EM", 1), Measure("F1", 1))


def predicted(files: Sequence[Path], *datasets: Dataset) -> dict[str, dict[str, tuple[str, ...]]]:
    """The answers of all files by system, those of queries that no passage answers left out."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    known = {query.id for dataset in datasets for query in dataset.queries}
    dropped = {name for dataset in datasets for name in dataset.unjudged}
    for file in files:
        for system, answers in read_predictions(file).items():
            if system in found:
                raise InvalidInputError(f"{file}: the answers of system {system!r} are in another file already")
            unknown = next((query for query in answers if query not in known | dropped), None)
            if unknown is not None:
                raise InvalidInputError(f"{file}: query {unknown!r}, answered by {system!r}, is not in the data set")
            found[system] = {query: given for query, given in answers.items() if query in known}
    return found


def answer_table(said: Mapping[str, Mapping[str, tuple[str, ...]]], dataset: Dataset, baseline: str) -> Table:
    """EM and F1 of predicted answers; the first system is the baseline where the table's own gives no answers."""
    wanted = {query.id for query in dataset.queries}
    answers = [
        Answers(name, {query: given for query, given in of.items() if query in wanted}) for name, of in said.items()
    ]
    lost = [f"{one.name}: {len(wanted) - len(one.found)} queries without an answer count 0" for one in answers]
    return compare(
        answers,
        dataset.judgements,
        baseline=baseline if baseline in said else next(iter(said)),
        measures=ANSWER_GOALS,
        dataset=dataset.name,
        left_out=[line for line, one in zip(lost, answers, strict=True) if len(one.found) < len(wanted)],
        groups=dataset.groups,
    )


def answer_sheet(table: Table) -> Sheet:
    """EM and F1 as text."""
    rows = []
    for row in table.rows:
        cells = [row.name]
        for measure in ANSWER_GOALS:
            p = row.p_holm[measure]
            cells += [percent(row.means[measure]), "" if row.name == table.baseline or p != p else p_text(p)]
        rows.append(cells)
    title = f"answers: {len(table.queries)} queries, against {table.baseline}"
    return Sheet(title, ["system", "EM", "p (Holm)", "F1", "p (Holm)"], rows, [*table.left_out, *table.notes])


def labels_of(dataset: Dataset, field: str) -> list[str]:
    """The value of a field for every query, ``–`` where it has none."""
    if not any(field in query.extra for query in dataset.queries):
        known = sorted({name for query in dataset.queries for name in query.extra})
        raise InvalidInputError(
            f"--by: no query of {dataset.name} has the field {field!r}; they have {', '.join(known)}"
        )
    values = [query.extra.get(field, "–") for query in dataset.queries]
    return [" + ".join(map(str, value)) if isinstance(value, list) else str(value) for value in values]


WIDEST = 8


def means_by(table: Table, labels: Sequence[str], field: str, measure: Measure) -> tuple[dict[str, object], Sheet]:
    """Every system by the value of a field, and the mean of those means: all measures as JSON types, one as text."""
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
