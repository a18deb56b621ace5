"""Predicted answers of systems: read them for a data set, and score them by EM and F1."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from phasegraph._support.jsonl import lines_of, objects_of, text_field
from phasegraph._support.validation import file_error
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import Answers, Table, compare
from phasegraph.evaluation.measures import Measure

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


def read_predictions(path: str | Path) -> dict[str, dict[str, tuple[str, ...]]]:
    """Read predicted answers, by system and query id.

    A JSONL file has one object per line: ``query`` (or ``id``), ``answer`` (or ``prediction``), and optionally
    ``system`` (default: the file name without its suffix). The answer is a text, or a list of texts, best first. If the
    name ends in ``.json``, the file is one object of answers by query id. Raise InvalidInputError if the file is
    broken, or a system answers a query twice.
    """
    file = Path(path)
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for line, row in _predicted(file):
        query = text_field(file, line, row, "query" if "query" in row else "id")
        of_system = found.setdefault(text_field(file, line, row, "system", file.stem), {})
        if query in of_system:
            raise file_error(file, line, f"a system must answer a query once; {query!r} repeats")
        given = row.get("answer", row.get("prediction"))
        texts = [text for text in (given if isinstance(given, list) else [given]) if isinstance(text, str)]
        if len(texts) < (len(given) if isinstance(given, list) else 1):
            raise file_error(file, line, f"'answer' must be text or a list of texts; got {given!r}")
        of_system[query] = tuple(texts)
    if not found:
        raise file_error(file, None, "there must be at least one predicted answer; the file is empty")
    return found


def _predicted(file: Path) -> Iterable[tuple[int, Mapping[str, object]]]:
    if file.suffix != ".json":
        yield from objects_of(file)
        return
    try:
        state = json.loads("\n".join(text for _, text in lines_of(file)))
    except (ValueError, RecursionError) as error:
        raise file_error(file, None, f"the file must be one JSON object of answers by query id; {error}") from error
    if not isinstance(state, dict):
        raise file_error(
            file, None, f"the file must be one JSON object of answers by query id; got {type(state).__name__}"
        )
    yield from ((1, {"query": query, "answer": answer}) for query, answer in state.items())


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
