"""What does I/O around deciding: reranking, grading and correction."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple

from phasegraph._validation import KnownFields, check_choice, check_count, check_range, is_number
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.ranking import RERANK, Ranking
from phasegraph.retrieval.identity import is_text_id, text_id
from phasegraph.retrieval.reading import HitAccess
from phasegraph.retrieval.rewriting import Rewriter
from phasegraph.retrieval.routing import ChatRouter, Routing
from phasegraph.retrieval.steps import OverModel, Step, filled


class Passage(NamedTuple):
    """A candidate as a model reads it."""

    id: str
    text: str
    hit: Any


@dataclass(frozen=True, slots=True)
class Rerank(KnownFields):
    """A model that reads the best fused candidates beside the query; one call to it for each query.

    Parameters
    ----------
    model : object
        ``model(query, texts)`` gives a score per text, higher is better, plain or a coroutine function; or a
        ``BaseCrossEncoder`` or ``BaseDocumentCompressor`` of LangChain, a ``BaseNodePostprocessor`` of LlamaIndex.
    depth : int, default 30
        How many of the best fused candidates it reads, >= 1; what it did not read, or left out, follows in fused order.
    blend : float, default 1
        In [0, 1]: 1 is the model's order, 0 the fused one, as if there were no model; between them the calibrated
        values mix.
    of : {"passage", "path"}, default "passage"
        Read the passage, or, where a walk reached it over another passage, that one's text before its own: the last hop
        of a question reads as irrelevant without the bridge to it.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field is outside what is said above.

    Notes
    -----
    Its answer is a ranking named ``rerank`` in the result, its scores as `raw`; thresholds may name it. It has what
    is left of the call's time. Where it fails or is late, the order is the fused one, and its report says why.

    Examples
    --------
    >>> Rerank(lambda query, texts: [float(len(text)) for text in texts], blend=0.5).depth
    30
    """

    model: Any
    depth: int = 30
    blend: float = 1.0
    of: Literal["passage", "path"] = "passage"

    def __post_init__(self) -> None:
        check_count("depth", self.depth, minimum=1)
        check_range("blend", self.blend, 0.0, 1.0)
        check_choice("of", self.of, ("passage", "path"))

    @classmethod
    def given(cls, value: Any) -> Rerank:
        """A rerank, or a bare model as one."""
        return value if isinstance(value, Rerank) else Rerank(value)

    def texts(self, ids: Sequence[str], rankings: Sequence[Ranking], access: HitAccess) -> list[Passage]:
        """What the model reads of the candidates."""
        known = access.texts(ids, rankings)
        if self.of == "path":
            before = access.texts(bridges_to(ids, rankings, access.text), rankings)
            known = ["\n\n".join(filter(None, pair)) for pair in zip(before, known, strict=True)]
        return [
            Passage(one, text, next((r.payloads[one] for r in rankings if one in r.payloads), None))
            for one, text in zip(ids, known, strict=True)
        ]


def bridges_to(ids: Sequence[str], rankings: Sequence[Ranking], text: Callable[[Any], str]) -> list[str]:
    """Per id that of the passage over which a walk came to it, the last before it; empty where it came over none.

    By the `text` of a payload where need be: a path names its passages as its graph does, and hits without an id of
    their own may have been joined to another source's.
    """
    found = [_bridge_to(one, rankings) for one in ids]
    if not any(map(is_text_id, found)):
        return found
    held = {one: hit for ranking in rankings for one, hit in ranking.payloads.items() if not is_text_id(one)}
    by_text = {text_id(said): one for one, hit in held.items() if (said := text(hit))}
    return [by_text.get(one, one) for one in found]


def _bridge_to(identifier: str, rankings: Sequence[Ranking]) -> str:
    for ranking in rankings:
        evidence: Any = getattr(ranking.payloads, "evidence", ranking.payloads)
        path = getattr(evidence.get(identifier), "path", ())
        names = [getattr(node, "name", "") for node in path if getattr(node, "kind", "") == "passage"]
        if names:
            return names[-2] if len(names) > 1 else ""
    return ""


def read_ranking(passages: Sequence[Passage], answer: Any) -> Ranking:
    """What a reranker gave, a list of one number per passage, as a ranking of the passages.

    An empty ranking is one: a model may keep none.
    """
    if isinstance(answer, Ranking):
        found = answer
        if not len(found) and not found.dropped:
            return found
    else:
        values = answer.tolist() if hasattr(answer, "tolist") else answer
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
            raise InvalidTypeError(f"a reranker must give one score per text; got {type(answer).__name__}")
        scores = list(islice(values, len(passages) + 1))
        if len(scores) != len(passages):
            raise InvalidInputError(f"a reranker must give one score per text; got more or less than {len(passages)}")
        scores = [one[0] if isinstance(one, list | tuple) and len(one) == 1 else one for one in scores]
        if all(one is None for one in scores):
            raise InvalidInputError("a reranker must give scores; got None for every text")
        found = Ranking.from_hits(RERANK, [one.id for one in passages], scores)
    if not len(found):
        raise InvalidInputError("a reranker must give a usable score of at least one text; got none")
    return found


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
    """A grade in [1, 100] of a number, or of the first number in a text; 100 where a text has none.

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
    """Grade what was found, and ask once more with another query where it is poor (CRAG); up to two calls to a model.

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
        """What is to be done of an answer with this grade."""
        if grade < self.bands[1]:
            return "replaced"
        return "merged" if grade < self.bands[0] and self.between == "merge" else "kept"

    @staticmethod
    def graded(texts: Sequence[str]) -> list[str]:
        """What a model reads."""
        return [text[:_CHARACTERS] for text in texts[:_GRADED]]


class ChatGrade(OverModel):
    """A language model's verdict on passages; its prompt has ``{query}`` and ``{passages}``."""

    def __init__(self, model: Any, prompt: str = GRADE_PROMPT) -> None:
        super().__init__(model)
        self.prompt = prompt

    def __call__(self, query: str, texts: Sequence[str]) -> str:
        """What the model says."""
        return self.complete(self._asked(query, texts))

    async def _acall(self, query: str, texts: Sequence[str]) -> str:
        return await self.acomplete(self._asked(query, texts))

    def _asked(self, query: str, texts: Sequence[str]) -> str:
        listed = "\n\n".join(f"[{row}] {text}" for row, text in enumerate(texts, start=1))
        return filled(self.prompt, passages=listed, query=query)


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a retriever, settled: what they call, and how they are set."""

    route: Routing | None = None
    rerank: Rerank | None = None
    corrective: Corrective | None = None
    reranker: Step | None = None
    grader: Step | None = None
    rewriter: Step | None = None
    reads_hits: bool = False

    @classmethod
    def of(cls, route: Any, rerank: Any, corrective: Any, adapt: StageAdapter) -> Stages | None:
        """What the constructor was given, or an error that names the argument; None where that is nothing."""
        if route is None and rerank is None and corrective is None:
            return None
        ranks = None if rerank is None else Rerank.given(rerank)
        if not isinstance(corrective, Corrective | None):
            raise InvalidTypeError(f"corrective must be Corrective(...) or None; got {type(corrective).__name__}")
        model = None if ranks is None else adapt.reranker(ranks.model)
        grader = rewriter = None
        if corrective is not None:
            kept = "the answer is kept as it is"
            rewriter = Step("the rewriting of corrective", adapt.rewriter(corrective.rewrite), kept)
            if corrective.grade is not None:
                grader = Step("the grade of corrective", adapt.grader(corrective.grade), kept)
        return cls(
            None if route is None else Routing.of(adapt.router(route)),
            ranks,
            corrective,
            None if ranks is None else Step("rerank", model, "the order is the fused one"),
            grader,
            rewriter,
            getattr(model, "reads_hits", False) is True,
        )

    @property
    def steps(self) -> list[Step]:
        """All that may warn."""
        named = (None if self.route is None else self.route.step, self.reranker, self.grader, self.rewriter)
        return [one for one in named if one is not None]


class StageAdapter:
    """What a framework makes callable: here, nothing but what is so already. `names` are those of the sources."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self.names = names

    def is_model(self, given: Any) -> bool:
        """Whether it is a language model of the framework."""
        return False

    def text_model(self, given: Any) -> Any:
        """A language model as a function from prompt to text."""
        return given

    def other(self, given: Any, names: tuple[str, ...]) -> Any:
        """Anything else of the framework as a function of arguments of these names."""
        return given

    def reranker(self, given: Any) -> Any:
        """``rerank(query, texts)``, or with ``reads_hits`` ``rerank(query, passages)``."""
        return self.other(given, ("query", "texts"))

    def router(self, given: Any) -> Any:
        """``route(query)`` or ``route(query, ranking)``; a language model chooses among the names of the sources."""
        if self.is_model(given):
            given = ChatRouter(given, {name: name for name in self.names})
        return self._over(given, ("query",))

    def grader(self, given: Any) -> Any:
        """``grade(query, texts)``."""
        return self._over(ChatGrade(given) if self.is_model(given) else given, ("query", "texts"))

    def rewriter(self, given: Any) -> Any:
        """``rewrite(query)``; a language model is asked for a better query."""
        return self._over(Rewriter(given, (REWRITE_PROMPT,), "single") if self.is_model(given) else given, ("query",))

    def _over(self, given: Any, names: tuple[str, ...]) -> Any:
        if not isinstance(given, OverModel):
            return self.other(given, names)
        if not self.is_model(given.model) and not callable(given.model):
            raise InvalidTypeError(
                f"model must be a language model or a function from prompt to text; got {type(given.model).__name__}"
            )
        return given.over(self.text_model(given.model)) if self.is_model(given.model) else given
