"""Search for the query's words in the texts of hits, the passages that the sources returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph.lexical.changes import ChangedWords
from phasegraph.lexical.index import K1, B, LexicalIndex
from phasegraph.lexical.tokenizers import tokenizer_of, tokens_of
from phasegraph.ranking import Ranking

WITNESS_DEPTH, COVER_DEPTH = 20, 5


@dataclass(frozen=True, slots=True)
class HitWords:
    """The result of a comparison of the query's words with the texts of the hits.

    `order` contains the ids of at most 20 hits, ordered by BM25 over the hits' texts. `order` is empty if no source
    states :class:`~phasegraph.ranking.QueryWords`. `covers` contains, for each source, the share of the query's words
    that its first 5 hits contain, in [0, 1]. The words are weighted by their squared inverse document frequency (idf).
    `covers` is empty if the query has no words or no hit has a text. `together` is the best BM25 score of a hit,
    divided by the largest idf of a query word. A hit with the rarest word alone has a value of at most 1, and each
    further query word raises the value.
    """

    order: tuple[str, ...] = ()
    covers: Mapping[str, float] = field(default_factory=dict)
    together: float = 0.0


@dataclass(frozen=True, slots=True)
class CountedTexts:
    """An index with the word counts of hits' texts, so that these texts need not be read and counted again.

    Parameters
    ----------
    index : LexicalIndex or ChangedWords
        The index of the texts.
    row_of : callable
        A function ``row_of(id)`` that returns the row of a hit in the index; negative if the index lacks its text.
    """

    index: LexicalIndex | ChangedWords
    row_of: Callable[[str], int]


def read_hits(
    query: str, rankings: Sequence[Ranking], text: Callable[[str], str], counted: CountedTexts | None = None
) -> HitWords:
    """Compare the query's words with the texts of the first 20 hits of every ranking; see :class:`HitWords`.

    ``text(id)`` returns the text of a hit, or "". If a source states :class:`~phasegraph.ranking.QueryWords`, their
    tokenizer splits the texts, and their idf weights the words in `HitWords.covers`. Otherwise, the tokenizer is
    ``english``, and the idf comes from these texts. `counted` contains the word counts of some texts. If `counted` uses
    the same tokenizer, these texts are not read, and the result is the same, to the bit.

    `HitWords.order` does not depend on the sources' scores, so the pipeline uses it to weight the sources. The authors
    of phasegraph developed the method; it is not published.

    >>> from phasegraph.ranking import QueryWords
    >>> texts = {"a": "Bo sang.", "b": "Ada met Bo."}
    >>> rankings = [Ranking("graph", list(texts), [2.0, 1.0], words=QueryWords({"ada": 1.0, "met": 2.0}))]
    >>> found = read_hits("Who met Ada?", rankings, texts.__getitem__)
    >>> found.order, found.covers, round(found.together, 3)
    (('b',), {'graph': 1.0}, 0.55)
    """
    known = next((one.words for one in rankings if one.words is not None), None)
    tokenizer = "english" if known is None else known.tokenizer
    tokenize, ids = tokenizer_of(tokenizer), _foremost(rankings)
    asked = Counter(tokens_of(tokenize, query))
    place = {word: column for column, word in enumerate(asked)}
    times, lengths = np.zeros((len(ids), len(asked))), np.zeros(len(ids))
    rows = np.full(len(ids), -1, dtype=np.int64)
    if counted is not None and counted.index.tokenizer == tokenizer:
        rows[:] = [counted.row_of(identifier) for identifier in ids]
        at = np.flatnonzero(rows >= 0)
        at = at[rows[at].argsort()]
        terms = counted.index.terms(query)
        times[at[:, None], [place[word] for word in terms.words]] = terms.counts_of(rows[at])
        lengths[at] = counted.index.lengths_of(rows[at])
    for row in np.flatnonzero(rows < 0).tolist():
        found = tokens_of(tokenize, text(ids[row]))
        lengths[row] = len(found)
        for word in found:
            if word in place:
                times[row, place[word]] += 1
    return _hit_words(asked, rankings, None if known is None else known.idf, ids, times, lengths)


def _foremost(rankings: Sequence[Ranking]) -> list[str]:
    return sorted({identifier for one in rankings for identifier in one.ids[:WITNESS_DEPTH]})


def _hit_words(
    asked: Counter[str],
    rankings: Sequence[Ranking],
    known: Mapping[str, float] | None,
    ids: Sequence[str],
    times: FloatArray,
    lengths: FloatArray,
) -> HitWords:
    """Compute the result of :func:`read_hits` from word counts.

    `asked` contains the t query words, and `ids` the n hits. `times`, of shape (n, t), is the number of occurrences of
    each query word in each hit. `lengths`, of shape (n,), is the number of words in each hit. `known` is the idf that a
    source states; None computes the idf from the hits.
    """
    if not asked or not lengths.any():
        return HitWords()
    held = times > 0
    frequency = held.sum(axis=0)
    idf = np.log1p((len(ids) - frequency + 0.5) / (frequency + 0.5))
    rarity = dict(zip(asked, idf.tolist(), strict=True)) if known is None else known
    squares = [weight * weight for weight in rarity.values()]
    total, row_of = sum(squares), {identifier: row for row, identifier in enumerate(ids)}
    columns = {word: column for column, word in enumerate(asked)}
    covers = {}
    for one in rankings:
        there = np.asarray(held[[row_of[identifier] for identifier in one.ids[:COVER_DEPTH]]].any(axis=0))
        have = sum(
            square for word, square in zip(rarity, squares, strict=True) if word in columns and there[columns[word]]
        )
        covers[one.source] = have / total if total else 0.0
    norms = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1e-9))
    saturated = times / (times + norms[:, None] + (norms[:, None] == 0))
    rarities = np.array([rarity.get(word, 0.0) for word in asked])
    together = float((saturated @ rarities).max() / max(float(rarities.max()), 1e-9))
    if known is None:
        return HitWords((), covers, together)
    weights = np.where(frequency > 0, idf, 0.0) * np.array(list(asked.values()), float)
    scores = (saturated * weights).sum(axis=1)
    order = np.argsort(-scores, kind="stable")
    return HitWords(tuple(ids[row] for row in order.tolist() if scores[row] > 0)[:WITNESS_DEPTH], covers, together)
