"""Match the hits of a user's retriever to the passages of the same files, which it may have split differently."""

from __future__ import annotations

from collections.abc import Sequence

from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.query_files import Query
from phasegraph.evaluation.retriever_runs import Hit
from phasegraph.lexical.tokenizers import split

_SHINGLE, _SHARE = 4, 0.5


class PassageMatcher:
    """A matcher from the hits of a retriever to the passages of the same files, which may be chunked differently.

    A hit matches a passage if they share at least half of the four-word sequences of the shorter text. A hit whose id
    is a passage id matches that passage if the hit has no text, or its text matches. `hits` contains the hits of all
    calls, and `longest` is the number of hits in the longest answer.

    Parameters
    ----------
    passages : sequence of Passage
        All passages of the files.

    Examples
    --------
    >>> from phasegraph.evaluation.judgements import Judgement
    >>> passage = Passage("a.md#1", "Ada", "Ada met Bo in the old garden. Then they sang until the night.")
    >>> matcher = PassageMatcher([passage])
    >>> query = Query("q", "Whom did Ada meet?", Judgement("q", (("a.md#1",),)))
    >>> matcher(query, [Hit("chunk-7", text="Ada met Bo in the old garden."), Hit("chunk-8", text="Cy slept.")])
    ['a.md#1', 'chunk-8']
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._texts = {passage.id: passage.text or passage.title for passage in passages}
        self._known: dict[str, frozenset[tuple[str, ...]]] = {}
        self.hits, self.longest = list[Hit](), 0

    def __call__(self, query: Query, hits: Sequence[Hit]) -> list[str]:
        """Return the ids of the passages that the hits match, in the order of the hits.

        A hit that matches no judged passage keeps its own id.
        """
        self.hits += hits
        self.longest = max(self.longest, len(hits))
        ids: list[str] = []
        for hit in hits:
            if hit.id in self._texts and (hit.text in ("", hit.id) or self._agrees(hit, hit.id)):
                ids.append(hit.id)
                continue
            judged = [name for name in sorted(query.judgement.passages) if self._agrees(hit, name)]
            ids += judged or [f"other:{hit.id}" if hit.id in self._texts else hit.id]
        return ids

    def of_these_files(self) -> bool:
        """Return True if at least one hit of the previous calls matches a passage of the files."""
        return any(
            hit.id in self._texts if hit.text in ("", hit.id) else any(self._agrees(hit, name) for name in self._texts)
            for hit in self.hits
        )

    def _agrees(self, hit: Hit, name: str) -> bool:
        own, passage = _shingles(hit.text), self._known.get(name)
        if passage is None:
            passage = self._known[name] = _shingles(self._texts[name])
        return bool(own and passage) and len(own & passage) >= _SHARE * min(len(own), len(passage))


def _shingles(text: str) -> frozenset[tuple[str, ...]]:
    """Return the four-word sequences of a text; a text of one to three words is a single sequence."""
    words = split(text, False)
    starts = range(max(len(words) - _SHINGLE + 1, 1))
    return frozenset(tuple(words[start : start + _SHINGLE]) for start in starts if words)
