"""A model that reads the best fused candidates beside the query."""

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
from phasegraph.retrieval.stages.models import Passage


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
