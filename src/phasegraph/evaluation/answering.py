"""Question answering over retrieved passages: a reader writes an answer, and a judge rates its support in the passages.

A chat model can be a reader or a judge. Pass it as a function from prompt to text; ``text_model(llm)`` in both
integrations makes such a function. Wrap the function in :meth:`~phasegraph.retrieval.ModelAnswers.around` to record its
replies in a file and to repeat the run offline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from phasegraph._support.prompts import check_prompt, filled
from phasegraph._support.validation import check_count, check_range, is_number
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.evaluation.datasets import Dataset
from phasegraph.evaluation.experiment import Answers
from phasegraph.lexical import TOKENIZERS
from phasegraph.retrieval.stages.models import OverModel

_WORDS = TOKENIZERS["english"]
_NAMES = re.compile(r"\d[\w.,-]*\w|\d|[^\W\d_a-z][\w'’-]*(?:\s+[^\W\d_a-z][\w'’-]*)*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
READ_PROMPT = (
    "Answer the question from the passages alone. Reply with the answer only, in as few words as possible, and with "
    "'unknown' where the passages do not say it.\n\nQuestion: {query}\n\n{passages}"
)
JUDGE_PROMPT = (
    "Do the passages bear the answer out? Rate from 0, they do not, to 100, every part of the answer follows from "
    "them. Reply with the number only.\n\nQuestion: {query}\nAnswer: {answer}\n\n{passages}"
)


@runtime_checkable
class AnswerReader(Protocol):
    """A callable that answers a question from passages: ``reader(question, passages) -> answer``."""

    def __call__(self, question: str, passages: Sequence[str], /) -> str:
        """Return the answer, as short as the correct answers of the data set."""
        ...


@runtime_checkable
class FaithfulnessJudge(Protocol):
    """A callable that rates how far passages support an answer: ``judge(question, answer, passages) -> share``."""

    def __call__(self, question: str, answer: str, passages: Sequence[str], /) -> float:
        """Return the support in [0, 1]; the judge does not see the correct answer."""
        ...


class ChatReader(OverModel):
    """A chat model as an :class:`AnswerReader`; its prompt contains ``{query}`` and ``{passages}``.

    Examples
    --------
    >>> ChatReader(lambda prompt: prompt.splitlines()[-1])("Who sang?", ["Bo sang."])
    '[1] Bo sang.'
    """

    def __init__(self, model: object, prompt: str = READ_PROMPT) -> None:
        super().__init__(model)
        check_prompt(prompt, ("query",), ("passages",))
        self.prompt = prompt

    def __call__(self, question: str, passages: Sequence[str]) -> str:
        """Return the model's reply without white space at its ends."""
        return self.complete(filled(self.prompt, query=question, passages=_listed(passages))).strip()


class ChatJudge(OverModel):
    """A chat model as a :class:`FaithfulnessJudge`; its prompt contains ``{answer}`` and ``{passages}``.

    A reply without a number raises InvalidInputError, because such a reply is not a rating.

    Examples
    --------
    >>> ChatJudge(lambda prompt: "about 80 of 100")("Who sang?", "Bo", ["Bo sang."])
    0.8
    """

    def __init__(self, model: object, prompt: str = JUDGE_PROMPT) -> None:
        super().__init__(model)
        check_prompt(prompt, ("answer",), ("passages",))
        self.prompt = prompt

    def __call__(self, question: str, answer: str, passages: Sequence[str]) -> float:
        """Return the first number of the reply divided by 100, clipped to [0, 1]."""
        reply = self.complete(filled(self.prompt, query=question, answer=answer, passages=_listed(passages)))
        found = _NUMBER.search(reply)
        if found is None:
            raise InvalidInputError(f"a judge must reply with a number from 0 to 100; got {reply!r:.80}")
        return min(max(float(found[0]) / 100, 0.0), 1.0)


def _listed(passages: Sequence[str]) -> str:
    return "\n\n".join(f"[{row}] {text}" for row, text in enumerate(passages, start=1))


def word_share(question: str, text: str) -> float:
    """Return the share of the question's distinct words that occur in the text, in [0, 1].

    >>> word_share("Who met Ada in Paris?", "Paris is large.")
    0.25
    """
    asked = set(_WORDS(question))
    return len(asked.intersection(_WORDS(text))) / len(asked) if asked else 0.0


def extract_answer(question: str, passages: Sequence[str]) -> str:
    """Return the name or number whose sentences in the first three passages share the most words with the question.

    Names and numbers in the question are left out. The result is empty if no other name or number is found.
    Use this :class:`AnswerReader` without a model to test the wiring or to replay a run. Its figures say nothing about
    a model.

    >>> extract_answer("Who sang with Ada?", ["Ada slept.", "Bo sang with Ada in Paris."])
    'Bo'
    """
    asked, found = set(_WORDS(question)), dict[str, float]()
    for sentence in (one for text in passages[:3] for one in _SENTENCE.split(text)):
        near = word_share(question, sentence)
        for name in dict.fromkeys(_NAMES.findall(sentence)):
            words = _WORDS(name)
            if words and not asked.intersection(words):
                found[name] = found.get(name, 0.0) + near
    return max(found, key=found.__getitem__, default="")


def extract_support(question: str, answer: str, passages: Sequence[str]) -> float:
    """Return the largest share of the question's words in a sentence that contains the answer; 0 if no sentence does.

    Use this :class:`FaithfulnessJudge` without a model to test the wiring or to replay a run. Its figures say nothing
    about a model.

    >>> extract_support("Who met Ada in Paris?", "Bo", ["Ada slept.", "Bo met Ada in Paris."])
    0.75
    """
    sentences = (one for text in passages for one in _SENTENCE.split(text))
    wanted = f" {' '.join(_WORDS(answer))} "
    return max((word_share(question, one) for one in sentences if wanted in f" {' '.join(_WORDS(one))} "), default=0.0)


def answer_questions(dataset: Dataset, found: Answers, reader: AnswerReader, *, depth: int = 5) -> Answers:
    """Let a reader answer each question from the first passages that a system found.

    Parameters
    ----------
    dataset : Dataset
        The questions and the texts of the passages.
    found : Answers
        Ids of passages by query id. If a question has no ids, the reader receives no passages.
    reader : AnswerReader
        The callable that writes an answer from a question and its passages.
    depth : int, default 5
        Number of passages per question that the reader receives; >= 1.

    Returns
    -------
    Answers
        One text per question, under the system's name; ``compare`` scores the texts by EM and F1.

    Raises
    ------
    InvalidInputError
        If an id is not the id of a passage; the message names the system and the question.
    InvalidTypeError
        If the reader returns something other than text.

    Examples
    --------
    >>> from phasegraph.evaluation.corpus_files import Passage
    >>> from phasegraph.evaluation.query_files import Query
    >>> from phasegraph.evaluation.judgements import Judgement
    >>> import numpy as np
    >>> data = Dataset(
    ...     "toy", (Passage("p", "Bo", "Bo sang in Paris."),),
    ...     (Query("q", "Where did Bo sing?", Judgement("q", (("p",),), answers=("Paris",))),),
    ...     np.ones((1, 1), np.float32), np.ones((1, 1), np.float32),
    ... )  # fmt: skip
    >>> answer_questions(data, Answers("vector", {"q": ("p",)}), extract_answer).found
    {'q': ('Paris',)}
    """
    check_count("depth", depth, minimum=1)
    answers: dict[str, tuple[str, ...]] = {}
    for query in dataset.queries:
        answer = reader(query.text, _read(dataset, found, query.id, depth))
        if not isinstance(answer, str):
            raise InvalidTypeError(
                f"a reader must return text; for question {query.id!r}, it returned {type(answer).__name__}"
            )
        answers[query.id] = (answer,)
    return Answers(found.name, answers)


def judge_answers(
    dataset: Dataset, found: Answers, answers: Answers, judge: FaithfulnessJudge, *, depth: int = 5
) -> Mapping[str, float]:
    """Return, by query id, how far the passages support each answer, in [0, 1]; an empty answer gets 0.

    `found` and `depth` are the arguments of :func:`answer_questions`, and `answers` is its result. The judge receives
    the same passages as the reader. Raise InvalidTypeError if the judge does not return a number, and InvalidInputError
    if the number is outside [0, 1].
    """
    check_count("depth", depth, minimum=1)
    marks: dict[str, float] = {}
    for query in dataset.queries:
        (answer,) = answers.found[query.id]
        mark = judge(query.text, answer, _read(dataset, found, query.id, depth)) if answer else 0.0
        if not is_number(mark):
            raise InvalidTypeError(
                f"a judge must return a number; for question {query.id!r}, it returned {type(mark).__name__}"
            )
        marks[query.id] = check_range(f"the judge's rating for question {query.id!r}", mark, 0, 1)
    return marks


def _read(dataset: Dataset, found: Answers, query: str, depth: int) -> list[str]:
    ids = found.found.get(query, ())[:depth]
    for one in ids:
        if one not in dataset.contents:
            raise InvalidInputError(
                f"{found.name}: question {query!r} has the id {one!r}, but {dataset.name} has no such passage: give "
                "ids of its passages"
            )
    return [dataset.contents[one] for one in ids]
