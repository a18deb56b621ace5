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
        ``model(query, texts)`` returns one score per text, higher is better. It is a function, a coroutine function, a
        ``BaseCrossEncoder`` or ``BaseDocumentCompressor`` of LangChain, or a ``BaseNodePostprocessor`` of LlamaIndex.
    depth : int, default 30
        Number of best fused candidates that the model reads, >= 1. The other candidates follow in fused order.
    blend : float, default 1
        The weight of the model, in [0, 1]. With 1, the model's scores determine the order; with 0, the fused values
        determine it. Between these values, the calibrated scores of the model and of the fusion are averaged with this
        weight.
    of : {"passage", "path"}, default "passage"
        The text that the model reads. ``passage``: the passage. ``path``: if a graph walk reached the passage through
        another passage, the text of that passage, and then the passage. In a multi-hop question, the last passage often
        looks irrelevant without the passage before it.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If a field has an invalid value or type.

    Notes
    -----
    The result contains the model's answer as a ranking named ``rerank``, with the model's scores as `raw`. Thresholds
    of `accept` may use this name. The model may use the remaining time of the call. If it fails or is late, the fused
    order is used, and the report says why.

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
        """Return the argument if it is a :class:`Rerank`; otherwise wrap the model in a :class:`Rerank`."""
        return value if isinstance(value, Rerank) else Rerank(value)

    def texts(self, ids: Sequence[str], rankings: Sequence[Ranking], access: HitAccess) -> list[Passage]:
        """Return the candidates as passages with the texts that the model reads."""
        known = access.texts(ids, rankings)
        if self.of == "path":
            before = access.texts(bridges_to(ids, rankings, access.text), rankings)
            known = ["\n\n".join(filter(None, pair)) for pair in zip(before, known, strict=True)]
        return [
            Passage(one, text, next((r.payloads[one] for r in rankings if one in r.payloads), None))
            for one, text in zip(ids, known, strict=True)
        ]


def bridges_to(ids: Sequence[str], rankings: Sequence[Ranking], text: Callable[[Any], str]) -> list[str]:
    """Return, for each passage in `ids`, the id of the passage before it on the path of a graph walk; "" if none.

    The paths are in the evidence of `rankings`, and contain the graph's ids. If the graph made an id from a text,
    another source may use its own id for the passage. The function then returns this other id, which it finds by the
    text; ``text(payload)`` reads the text.
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
    kept: Any, read: Callable[[Any], tuple[str | None, Any]], *, model: str, hits: str, identified_by: str
) -> Ranking:
    """Convert the answer of a framework's reranker, which consists of hits, to a ranking.

    If the scores of the hits fall along the list, the ranking has these scores; otherwise it has only their order.
    ``read(hit)`` returns the id and the score of a hit; the id is None if the hit was not in the model's input.
    `model`, `hits` and `identified_by` are words for the error messages; `identified_by` names the part of a hit that
    identifies it.
    """
    if isinstance(kept, str | bytes | Mapping) or not isinstance(kept, Sequence):
        raise InvalidTypeError(f"a {model} must return {hits}; got {type(kept).__name__}")
    scores: dict[str, Any] = {}
    for identifier, score in map(read, kept):
        if identifier is not None:
            scores.setdefault(identifier, score)
    if kept and not scores:
        raise InvalidInputError(
            f"a {model} must return {hits} from its input, with unchanged "
            f"{identified_by}; it returned only other {hits}"
        )
    given = list(scores.values())
    falling = all(map(is_number, given)) and given == sorted(given, reverse=True)
    return Ranking.from_hits(RERANK, list(scores), given if falling else None)


def read_ranking(passages: Sequence[Passage], answer: Any) -> Ranking:
    """Convert a reranker's answer to a ranking of the passages.

    The answer is a list with one number per passage, or a ranking. An empty ranking is valid, because a model may
    reject all passages.
    """
    if isinstance(answer, Ranking):
        found = answer
        if not len(found) and not found.dropped:
            return found
    else:
        values = answer.tolist() if hasattr(answer, "tolist") else answer
        if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
            raise InvalidTypeError(f"a reranker must return one score per text; got {type(answer).__name__}")
        scores = list(islice(values, len(passages) + 1))
        if len(scores) != len(passages):
            raise InvalidInputError(
                f"a reranker must return one score per text, {len(passages)} in all; got "
                f"{len(scores) if len(scores) < len(passages) else 'more'}"
            )
        scores = [one[0] if isinstance(one, list | tuple) and len(one) == 1 else one for one in scores]
        if all(one is None for one in scores):
            raise InvalidInputError("a reranker must return scores; got None for every text")
        found = Ranking.from_hits(RERANK, [one.id for one in passages], scores)
    if not len(found):
        raise InvalidInputError("a reranker must return a finite score for at least one text; got no finite score")
    return found
