"""Grade an answer, and search again with a rewritten query if the grade is poor."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from phasegraph._support.prompts import filled
from phasegraph._support.validation import KnownFields, check_choice, is_number
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.retrieval.stages.models import OverModel

_NUMBER = re.compile(r"(?:(?<!\w)[-+])?\d+(?:\.\d+)?")

_GRADED, _CHARACTERS = 3, 500

UNREADABLE = 100.0

GRADE_PROMPT = (
    "Rate from 1 to 100 how well these passages answer the question: 1 not at all, 100 completely. Reply with the "
    "number only.\n\nQuestion: {query}\n\n{passages}"
)

REWRITE_PROMPT = (
    "Rewrite the question so that a search finds what answers it. Reply with the new question only.\n\n"
    "Question: {query}"
)


def read_grade(answer: Any) -> float:
    """Read a grade from a number, or from the first number in a text; a text without a number gives 100.

    Values outside [1, 100] become 1 or 100.

    >>> read_grade("Score: 37 of 100"), read_grade(-3), read_grade("excellent")
    (37.0, 1.0, 100.0)
    """
    if isinstance(answer, str):
        found = _NUMBER.search(answer)
        value = UNREADABLE if found is None else float(found.group())
    elif is_number(answer):
        value = float(answer)
    else:
        raise InvalidTypeError(f"a grade must be a number, or a text with a number; got {type(answer).__name__}")
    if math.isnan(value):
        raise InvalidInputError("a grade must be a number; got NaN")
    return min(max(value, 1.0), 100.0)


@dataclass(frozen=True, slots=True)
class Corrective(KnownFields):
    """Grade the answer, and search again with a rewritten query if the grade is poor (CRAG); at most two model calls.

    Parameters
    ----------
    grade : callable or None
        ``grade(query, texts)`` returns a grade in [1, 100], as a number or as a text that contains a number. It is a
        function, a coroutine function, or a language model of the framework. It reads the first 500 characters of each
        of the three best passages. The first number in a text counts; a text without a number counts as 100. With None,
        the query is rewritten only if no passage was accepted (as in the SSCC method of "Beyond the Reranker").
    rewrite : callable
        A function ``rewrite(query)`` that returns the text of the second search, or a language model of the framework.
    bands : (float, float), default (60, 25)
        The thresholds for the grade. If the grade is at least the first number, the answer is returned. If the grade is
        below the second number, or no passage was accepted, the answer to the rewritten query replaces the first
        answer.
    between : {"keep", "merge"}, default "keep"
        The action for a grade between the thresholds. ``keep``: return the first answer, as in the public code of
        "Beyond the Reranker", from which the default thresholds come. ``merge``: search with a rewritten query, and
        fuse the hits of both searches, as in CRAG [1]_.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field has an invalid value or type.

    Notes
    -----
    The second answer is not reranked, as in the code of "Beyond the Reranker". If a step fails or is late, or the
    second answer is empty, the first answer is returned, and the stage's report says why.

    References
    ----------
    .. [1] Yan, Gu, Zhu, Ling, "Corrective Retrieval Augmented Generation", arXiv:2401.15884

    Examples
    --------
    >>> Corrective(lambda query, texts: 80, rewrite=str.upper).bands
    (60, 25)
    """

    grade: Any
    rewrite: Any
    bands: tuple[float, float] = (60, 25)
    between: Literal["keep", "merge"] = "keep"

    def __post_init__(self) -> None:
        pair = self.bands
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(map(is_number, pair)):
            raise InvalidTypeError(f"bands must be two numbers; got {pair!r:.80}")
        if not 100 >= pair[0] >= pair[1] >= 1:
            raise InvalidInputError(f"bands must be in [1, 100], the higher number first; got {pair!r}")
        check_choice("between", self.between, ("keep", "merge"))

    def action(self, grade: float) -> Literal["kept", "merged", "replaced"]:
        """Return the action for an answer with this grade: ``kept``, ``merged`` or ``replaced``."""
        if grade < self.bands[1]:
            return "replaced"
        return "merged" if grade < self.bands[0] and self.between == "merge" else "kept"

    @staticmethod
    def graded(texts: Sequence[str]) -> list[str]:
        """Return what the grading model reads: the first 500 characters of each of the first three `texts`."""
        return [text[:_CHARACTERS] for text in texts[:_GRADED]]


class ChatGrade(OverModel):
    """A function that asks a language model to grade passages; `prompt` contains ``{query}`` and ``{passages}``."""

    def __init__(self, model: Any, prompt: str = GRADE_PROMPT) -> None:
        super().__init__(model)
        self.prompt = prompt

    def __call__(self, query: str, texts: Sequence[str]) -> str:
        """Return the model's answer, a text with a grade."""
        return self.complete(self._asked(query, texts))

    async def _acall(self, query: str, texts: Sequence[str]) -> str:
        return await self.acomplete(self._asked(query, texts))

    def _asked(self, query: str, texts: Sequence[str]) -> str:
        listed = "\n\n".join(f"[{row}] {text}" for row, text in enumerate(texts, start=1))
        return filled(self.prompt, passages=listed, query=query)
