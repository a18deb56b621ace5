"""Rerank the best fused candidates with a model that reads them together with the query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from phasegraph._support.validation import KnownFields, check_choice, check_count, check_range
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.ranking import RERANK, Ranking
from phasegraph.retrieval.access import HitAccess
from phasegraph.retrieval.identity import is_text_id, text_id
from phasegraph.retrieval.reading import is_number
from phasegraph.retrieval.stages.models import Passage


@dataclass(frozen=True, slots=True)
class Rerank(KnownFields):
    """A stage that reranks the best fused candidates with a model; one model call per query.

    Parameters
    ----------
    model : object
        ``model(query, texts)`` gives a score per text, higher is better, plain or a coroutine function; or a
        ``BaseCrossEncoder`` or ``BaseDocumentCompressor`` of LangChain, a ``BaseNodePostprocessor`` of LlamaIndex.
    depth : int, default 30
        Number of best fused candidates that the model reads, >= 1. The other candidates follow in fused order.
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
        """Return a :class:`Rerank` for the argument, which is a :class:`Rerank` or a model."""
        return value if isinstance(value, Rerank) else Rerank(value)

    def texts(self, ids: Sequence[str], rankings: Sequence[Ranking], access: HitAccess) -> list[Passage]:
        """Return the texts of the candidates for the model."""
        known = access.texts(ids, rankings)
        if self.of == "path":
            before = access.texts(bridges_to(ids, rankings, access.text), rankings)
            known = ["\n\n".join(filter(None, pair)) for pair in zip(before, known, strict=True)]
        return [
            Passage(one, text, next((r.payloads[one] for r in rankings if one in r.payloads), None))
            for one, text in zip(ids, known, strict=True)
        ]


def bridges_to(ids: Sequence[str], rankings: Sequence[Ranking], text: Callable[[Any], str]) -> list[str]:
    """Return, for each id, the last passage on the walk's path before it; empty if the path has no other passage.

    A path uses the graph's ids. Hits without an own id may have the id of another source, so they are found by the
    `text` of a payload.
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


def read_kept(
    kept: Any, read: Callable[[Any], tuple[str | None, Any]], *, model: str, hits: str, told_by: str
) -> Ranking:
    """Convert the hits that a framework's model kept to a ranking, by falling scores, else in their order.

    ``read(hit)`` returns the id and the score of a hit; the id is None if the hit was not in the model's input.
    `told_by` names the identifying field in an error message.
    """
    if isinstance(kept, str | bytes | Mapping) or not isinstance(kept, Sequence):
        raise InvalidTypeError(f"a {model} must give {hits}; got {type(kept).__name__}")
    scores: dict[str, Any] = {}
    for identifier, score in map(read, kept):
        if identifier is not None:
            scores.setdefault(identifier, score)
    if kept and not scores:
        raise InvalidInputError(f"a {model} must return {hits} of its input, {told_by}; it returned others")
    given = list(scores.values())
    falling = all(map(is_number, given)) and given == sorted(given, reverse=True)
    return Ranking.from_hits(RERANK, list(scores), given if falling else None)


def read_ranking(passages: Sequence[Passage], answer: Any) -> Ranking:
    """Convert a reranker's answer, a list with one number per passage, to a ranking of the passages.

    An empty ranking is valid, because a model may reject all passages.
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
