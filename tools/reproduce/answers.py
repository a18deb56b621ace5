"""A study of question answering: how well a reader answers hard questions from the passages of each system."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from claims import judge, points
from page import Page, interval, p_value, share, table
from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.answering import (
    AnswerReader,
    ChatJudge,
    ChatReader,
    FaithfulnessJudge,
    answer_questions,
    extract_answer,
    extract_support,
    judge_answers,
)
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import Answers, Table, compare
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.source_runs import ExperimentInput
from phasegraph.evaluation.system_runs import run_systems
from phasegraph.evaluation.systems import NAMED_SYSTEMS, OWN_SYSTEMS
from phasegraph.retrieval import ModelAnswers
from studies import hard_slice

EM, F1 = Measure("EM", 1), Measure("F1", 1)
PAPER, GOLD = "paper-hard-slice", "the right passages"
LIMIT, DEPTH = 50, 5
STAND_IN = (
    "a stand-in that extracts a name or a number without a model, so the figures say nothing about a language model"
)


def answers_page(
    datasets: Mapping[str, Dataset],
    judged: Sequence[Dataset],
    say: Callable[[str], object],
    *,
    reader: AnswerReader = extract_answer,
    faithful: FaithfulnessJudge = extract_support,
    read_by: str = STAND_IN,
) -> Page | None:
    """Return the page `hard-slice-answers`: how well `reader` answers hard questions from each system's passages.

    The page is about the data sets that have hard questions with right answers. Return None if there is no such data
    set.
    """
    found: dict[str, tuple[Table, Mapping[str, float]]] = {}
    for name, dataset in datasets.items():
        rows = [row for row in hard_slice(dataset)["hard"].tolist() if dataset.judgements[row].answers]
        if rows:
            say(f"{name}: {len(rows)} hard questions, read by {read_by.partition(',')[0]}")
            found[name] = answered(dataset.subset(rows), reader, faithful)
    if not found:
        say("left out: answers to hard questions (no question with a right answer whose last hop the vectors lack)")
        return None
    figures = {name: {**of.to_dict(), "faithfulness": dict(marks)} for name, (of, marks) in found.items()}
    return replace(page_of(found, read_by), figures=figures)


def answered(dataset: Dataset, reader: AnswerReader, faithful: FaithfulnessJudge) -> tuple[Table, dict[str, float]]:
    """Return EM and F1 of the answers that `reader` gives from each system's passages, and their faithfulness.

    The faithfulness is, by system, the mean mark that the judge `faithful` gives these answers.
    """
    systems = [OWN_SYSTEMS["vector"], OWN_SYSTEMS["graph"], NAMED_SYSTEMS[PAPER], OWN_SYSTEMS["default"]]
    runs, _ = run_systems(ExperimentInput(dataset, LIMIT), systems, DEPTH)
    right = {one.query: tuple(hop[0] for hop in one.hops) for one in dataset.judgements}
    runs.append(Answers(GOLD, right))
    read = [answer_questions(dataset, run, reader, depth=DEPTH) for run in runs]
    marks: dict[str, float] = {}
    for run, answers in zip(runs, read, strict=True):
        given = judge_answers(dataset, run, answers, faithful, depth=DEPTH)
        marks[run.name] = float(np.mean(list(given.values())))
    return compare(read, dataset.judgements, measures=(EM, F1), dataset=dataset.name, limit=LIMIT), marks


def page_of(found: Mapping[str, tuple[Table, Mapping[str, float]]], read_by: str) -> Page:
    """Return the page `hard-slice-answers`: a table for each data set in `found`, and conclusions from the tables."""
    parts = [
        "The paper has a language model answer its hard questions from the passages of each system. Here, a "
        "question is hard if the vectors' first ten hits do not contain its last hop; this definition is "
        f"reconstructed. Each system's first {DEPTH} passages are read by {read_by}. *{GOLD}* are the passages of "
        "all hops, an upper bound for the reader. Differences, W/L and p are against vectors: F1 has a paired 95 % "
        "bootstrap interval, and W/L has the exact McNemar p of exact match (EM). Faithfulness is the mean mark of "
        "a judge. Without a model, the mark is the share of the question's words in the sentence with the answer. "
        "`--only hard-slice-answers --model MODULE:FUNCTION --answers FILE` uses a model, and `--offline` repeats "
        "its stored answers.",
    ]
    for name, (of, marks) in found.items():
        parts.append(f"**{name}** ({len(of.queries)} hard questions, lists of {LIMIT})")
        rows = [
            [
                row.name, share(row.means[EM]), share(row.means[F1]), interval(row.differences[F1]),
                f"{row.wins[EM]}/{row.losses[EM]}", p_value(row.p[EM]), share(marks[row.name]),
            ]
            for row in of.rows
        ]  # fmt: skip
        parts.append(table(["passages of", "EM", "F1", "F1 difference", "W/L", "p", "faithfulness"], rows))

    def gains(system: str, other: str) -> dict[str, float]:
        return {name: 100 * (of[system].means[F1] - of[other].means[F1]) for name, (of, _) in found.items()}

    chance = {name: of["default"].p[EM] for name, (of, _) in found.items()}
    verdicts = (
        judge(
            "The reader has a higher F1 with the default's passages than with the vectors' passages",
            gains("default", "vector"),
            0.1,
            shown=points,
        ),
        judge("This difference is significant (p of EM)", chance, high=0.05),
        judge(
            "The reader has a higher F1 with the default's passages than with the passages of the paper's setting "
            "for hard queries",
            gains("default", PAPER),
            0.1,
            shown=points,
        ),
        judge(
            "The right passages support the answers more than the vectors' passages do (points of faithfulness)",
            {name: 100 * (marks[GOLD] - marks["vector"]) for name, (_, marks) in found.items()},
            0.1,
            shown=points,
        ),
        judge(
            "The reader can answer from the right passages; otherwise, its figures say nothing about the passages (F1)",
            {name: 100 * of[GOLD].means[F1] for name, (of, _) in found.items()},
            20,
            shown=points,
        ),
    )
    return Page("hard-slice-answers", "Answers to the hard questions", tuple(parts), verdicts)


def page_with_model(model: str, file: Path, *, offline: bool) -> Callable[..., Page | None]:
    """Return :func:`answers_page` with a chat model as the reader and the judge.

    `model` is ``module:function``; the function maps a prompt to a text. The model's answers are stored in `file`; with
    `offline`, only these stored answers are used.
    """
    module, _, name = model.partition(":")
    function = None
    if not offline:
        sys.path.insert(0, str(Path.cwd()))
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise InvalidInputError(f"--model must be MODULE:FUNCTION, from prompt to text; got {model!r}") from error
    kept = ModelAnswers(file, offline=offline).around(function, model)
    return partial(answers_page, reader=ChatReader(kept), faithful=ChatJudge(kept), read_by=f"{model}, a chat model")
