"""Grade an answer, and rewrite the query if the grade is poor."""

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
    """Read a grade in [1, 100] from a number or from the first number of a text; a text without a number gives 100.

    >>> read_grade("Score: 37 of 100"), read_grade(-3), read_grade("excellent")
    (37.0, 1.0, 100.0)
    """
    if isinstance(answer, str):
        found = _NUMBER.search(answer)
        value = UNREADABLE if found is None else float(found.group())
    elif is_number(answer):
        value = float(answer)
    else:
        raise InvalidTypeError(f"a grade must be a number, or text with one; got {type(answer).__name__}")
    if math.isnan(value):
        raise InvalidInputError("a grade must be a number; got NaN")
    return min(max(value, 1.0), 100.0)


@dataclass(frozen=True, slots=True)
class Corrective(KnownFields):
    """Grade the answer, and search again with a rewritten query if the grade is poor (CRAG); at most two model calls.

    Parameters
    ----------
    grade : callable or None
        ``grade(query, texts)`` of the three best passages, 500 characters each, gives a number in [1, 100] or a text
        with one; plain or a coroutine function, or a language model of the framework. The first number counts, a text
        without one is 100. None: only where nothing was accepted is the query rewritten (SSCC's correction).
    rewrite : callable
        ``rewrite(query)`` gives the text to ask; or a language model.
    bands : (float, float), default (60, 25)
        From the first on the answer is kept. Below the second, and where nothing was accepted, the query is rewritten
        and its answer replaces the first one.
    between : {"keep", "merge"}, default "keep"
        Between the two: keep the answer, as the code that the numbers come from does; or rewrite, and decide over the
        hits of both, as CRAG does.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside what is said above.

    Notes
    -----
    The second answer is not reranked, as in the public code. Where a step fails, is late, or the second answer is
    empty, the first answer stays, and the stage's report says why.

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
            raise InvalidInputError(f"bands must fall, within [1, 100]; got {pair!r}")
        check_choice("between", self.between, ("keep", "merge"))

    def action(self, grade: float) -> Literal["kept", "merged", "replaced"]:
        """Return the action for an answer with this grade: keep, merge or replace."""
        if grade < self.bands[1]:
            return "replaced"
        return "merged" if grade < self.bands[0] and self.between == "merge" else "kept"

    @staticmethod
    def graded(texts: Sequence[str]) -> list[str]:
        """Return the texts that the grading model reads."""
        return [text[:_CHARACTERS] for text in texts[:_GRADED]]


class ChatGrade(OverModel):
    """Asks a language model to grade passages; the prompt contains ``{query}`` and ``{passages}``."""

    def __init__(self, model: Any, prompt: str = GRADE_PROMPT) -> None:
        super().__init__(model)
        self.prompt = prompt

    def __call__(self, query: str, texts: Sequence[str]) -> str:
        """Return the model's answer."""
        return self.complete(self._asked(query, texts))

    async def _acall(self, query: str, texts: Sequence[str]) -> str:
        return await self.acomplete(self._asked(query, texts))

    def _asked(self, query: str, texts: Sequence[str]) -> str:
        listed = "\n\n".join(f"[{row}] {text}" for row, text in enumerate(texts, start=1))
        return filled(self.prompt, passages=listed, query=query)
