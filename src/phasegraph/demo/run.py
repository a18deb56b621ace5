"""Run the demo: both frameworks over all questions, then every system over the lists they retrieved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from phasegraph.demo.bundled import load_bundled
from phasegraph.demo.frameworks import LIMIT, Side, langchain_side, llamaindex_side
from phasegraph.errors import DegradedError, PhasegraphError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import OWN_SYSTEMS, Answers, Table, compare
from phasegraph.evaluation.peers import PEERS
from phasegraph.pipeline import FusionPipeline
from phasegraph.ranking import Ranking
from phasegraph.result import Result

K = 10
SYSTEMS = ("vector", "graph", "rrf", "ensemble", "fusion-reciprocal", "fusion-relative", "phasegraph", "default")
T = TypeVar("T")
Progress = Callable[[Iterable[T], str], Iterable[T]]


class FrameworksDisagree(PhasegraphError, RuntimeError):  # noqa: N818 - it says what happened
    """A framework returned other ids than the core decides from the same lists."""


@dataclass(frozen=True, slots=True, eq=False)
class Demonstration:
    """What the demo found.

    Parameters
    ----------
    dataset : Dataset
    table : Table
        Every system over the same lists of 50, against vectors alone.
    results : tuple of Result
        The default's answer to each question.
    rankings : mapping of str to tuple of Ranking
        The lists, as LangChain's and our own retriever returned them.
    chosen : int or None
        Row of the question to explain: the first whose last hop vectors miss and the default finds, if there is one.
    seconds : float
    """

    dataset: Dataset
    table: Table
    results: tuple[Result, ...]
    rankings: dict[str, tuple[Ranking, ...]]
    chosen: int | None
    seconds: float


def run_demo(folder: Path | None = None, progress: Progress[int] | None = None) -> Demonstration:
    """Answer every bundled question in both frameworks and compare the systems.

    Parameters
    ----------
    folder : Path, optional
        A folder of the data format in place of the bundled one.
    progress : callable, optional
        ``progress(iterable, label)``.

    Returns
    -------
    Demonstration

    Raises
    ------
    FrameworksDisagree
        If a framework's ids are not those that the core decides from the same lists.
    MissingDependencyError
        If LangChain or LlamaIndex is not installed.
    DegradedError
        If a source failed on every question.
    """
    started = perf_counter()
    dataset, graph = load_bundled(folder)
    sides = [langchain_side(dataset, graph), llamaindex_side(dataset, graph)]
    answered = [_ask_all(side, dataset, progress) for side in sides]
    for row, pair in enumerate(zip(*answered, strict=True)):
        if pair[0].ids != pair[1].ids:
            raise FrameworksDisagree(
                f"question {dataset.queries[row].id}: LangChain gives {pair[0].ids}, LlamaIndex {pair[1].ids}"
            )
    results = answered[0]
    rankings = {name: tuple(_ranking(result, name) for result in results) for name in ("vector", "graph")}
    table = _compare(dataset, rankings)
    chosen = _telling_question(table)
    return Demonstration(dataset, table, results, rankings, chosen, perf_counter() - started)


def ask(question: str, folder: Path | None = None) -> tuple[Dataset, Result]:
    """Answer a typed question from the bundled passages.

    Parameters
    ----------
    question : str
        Not blank. One that is not among the bundled ones needs the ``[minilm]`` extra.
    folder : Path, optional
        As in :func:`run_demo`.

    Returns
    -------
    (Dataset, Result)

    Raises
    ------
    MissingDependencyError
        If the embedding model is needed and not installed.
    """
    from phasegraph._validation import check_query
    from phasegraph.demo.bundled import question_embedder

    dataset, graph = load_bundled(folder)
    question_embedder(dataset)(check_query(question))  # fails early, and says what to install
    return dataset, langchain_side(dataset, graph).ask(question)[1]


def _ask_all(side: Side, dataset: Dataset, progress: Progress[int] | None) -> tuple[Result, ...]:
    """Every question through the framework; its ids must be those the core decides from the same lists."""
    rows: Iterable[int] = range(len(dataset.queries))
    found = []
    for row in rows if progress is None else progress(rows, side.name):
        query = dataset.queries[row].text
        returned, result = side.ask(query)
        decided = FusionPipeline().decide(result.candidates.rankings).ids
        if not decided == returned == result.ids:
            raise FrameworksDisagree(f"question {query!r}: {side.name} gives {returned}, the core {decided}")
        found.append(result)
    check_sources(side.name, found)
    return tuple(found)


def check_sources(side: str, results: Sequence[Result]) -> None:
    """Raise where a source gave no answer to any question: the other alone would be shown as the fusion of both."""
    for reports in zip(*(result.reports for result in results), strict=True):
        if all(report.degraded and not report.answered for report in reports):
            raise DegradedError(
                f"source {reports[0].source!r} of {side} must answer; it failed on all {len(reports)} questions: "
                f"{reports[0].status} ({reports[0].reason})"
            )


def _ranking(result: Result, name: str) -> Ranking:
    column = result.candidates.sources.index(name) if name in result.candidates.sources else -1
    return Ranking(name, [], []) if column < 0 else result.candidates.rankings[column]  # type: ignore[arg-type]


def _compare(dataset: Dataset, rankings: dict[str, tuple[Ranking, ...]]) -> Table:
    systems = {**OWN_SYSTEMS, **PEERS}
    keys = [query.id for query in dataset.queries]
    answers = []
    for name in SYSTEMS:
        system = systems[name]
        started = perf_counter()
        found = system.answer(dataset, {leg: rankings[leg] for leg in system.legs}, K)
        each = 1000 * (perf_counter() - started) / len(keys)
        answers.append(Answers(name, dict(zip(keys, found, strict=True)), each))
    return compare(answers, dataset.judgements, baseline="vector", dataset=dataset.name, limit=LIMIT)


def _telling_question(table: Table) -> int | None:
    column = [str(measure) for measure in table.measures].index("LastHop@5")
    ours, theirs = table.values["default"][:, column], table.values["vector"][:, column]
    telling: Sequence[int] = [row for row in range(len(ours)) if ours[row] > theirs[row]]
    return telling[0] if telling else None
