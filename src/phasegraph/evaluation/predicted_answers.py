"""Predicted answers of systems: read them for a data set, and score them by EM and F1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import Answers, Table, compare
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.runs import read_predictions

ANSWER_GOALS = (Measure("EM", 1), Measure("F1", 1))


def read_answers(files: Sequence[Path], *datasets: Dataset) -> dict[str, dict[str, tuple[str, ...]]]:
    """Read the predicted answers of all files; return them by system and query id.

    Answers to queries that were left out of a data set, because no passage covers their gold spans, are dropped. Raise
    InvalidInputError for a query outside the data sets, or a system in two files.
    """
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    known = {query.id for dataset in datasets for query in dataset.queries}
    dropped = {name for dataset in datasets for name in dataset.unjudged}
    for file in files:
        for system, answers in read_predictions(file).items():
            if system in found:
                raise InvalidInputError(
                    f"{file}: the answers of system {system!r} are also in another file; keep one of them"
                )
            unknown = next((query for query in answers if query not in known | dropped), None)
            if unknown is not None:
                raise InvalidInputError(f"{file}: query {unknown!r}, answered by {system!r}, is not in the data set")
            found[system] = {query: given for query, given in answers.items() if query in known}
    return found


def answer_table(said: Mapping[str, Mapping[str, tuple[str, ...]]], dataset: Dataset, baseline: str) -> Table:
    """Score predicted answers, given by system and query id, by EM and F1.

    If `baseline` has no answers, the first system is the baseline.
    """
    wanted = {query.id for query in dataset.queries}
    answers = [
        Answers(name, {query: given for query, given in of.items() if query in wanted}) for name, of in said.items()
    ]
    lost = [f"{one.name}: {len(wanted) - len(one.found)} queries without an answer score 0" for one in answers]
    return compare(
        answers,
        dataset.judgements,
        baseline=baseline if baseline in said else next(iter(said)),
        measures=ANSWER_GOALS,
        dataset=dataset.name,
        left_out=[line for line, one in zip(lost, answers, strict=True) if len(one.found) < len(wanted)],
        groups=dataset.groups,
    )
