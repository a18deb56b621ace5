"""What the texts of the hits say about the query's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from phasegraph._support.typing import FloatArray
from phasegraph.lexical.index import K1, B, LexicalIndex
from phasegraph.lexical.tokenizers import tokenizer_of, tokens_of
from phasegraph.ranking import Ranking

WITNESS_DEPTH, COVER_DEPTH = 20, 5


@dataclass(frozen=True, slots=True)
class HitWords:
    """What the texts of the hits say about the query's words.

    `order` holds the ids of at most 20 of them, by BM25 among themselves; none where no source states the query's
    words. `covers` is, per source, the share in [0, 1] of the query's words, weighted by idf squared, that its first 5
    hits have; none where the query has no words, or the hits no text.
    """

    order: tuple[str, ...] = ()
    covers: Mapping[str, float] = field(default_factory=dict)


def read_hits(query: str, rankings: Sequence[Ranking], text: Callable[[str], str]) -> HitWords:
    """Read the first 20 hits of every ranking for the query's words; ``text(id)`` of a hit, "" where it has none.

    Words are split, and weighted in `covers`, as the source does that states :class:`~phasegraph.ranking.QueryWords`.
    Where none does, they are English, and their idf is that of these texts. The order is a third opinion on which
    source is right: it is made of texts alone, whoever found them. Ours, no published method.

    >>> from phasegraph.ranking import QueryWords
    >>> texts = {"a": "Bo sang.", "b": "Ada met Bo."}
    >>> rankings = [Ranking("graph", list(texts), [2.0, 1.0], words=QueryWords({"ada": 1.0, "met": 2.0}))]
    >>> read_hits("Who met Ada?", rankings, texts.__getitem__)
    HitWords(order=('b',), covers={'graph': 1.0})
    """
    known = next((one.words for one in rankings if one.words is not None), None)
    tokenize = tokenizer_of("english" if known is None else known.tokenizer)
    asked = Counter(tokens_of(tokenize, query))
    ids = _foremost(rankings)
    words = [tokens_of(tokenize, text(identifier)) for identifier in ids]
    place = {word: column for column, word in enumerate(asked)}
    times = np.zeros((len(ids), len(asked)))
    for row, found in enumerate(words):
        for word in found:
            if word in place:
                times[row, place[word]] += 1
    lengths = np.array([len(found) for found in words], dtype=np.float64)
    return _hit_words(asked, rankings, None if known is None else known.idf, ids, times, lengths)


def counted_hits(query: str, rankings: Sequence[Ranking], index: LexicalIndex, rows: Mapping[str, int]) -> HitWords:
    """What :func:`read_hits` says of passages, in `rows` of an index that has counted their words: no text is read.

    >>> index = LexicalIndex.of(["Bo sang.", "Ada met Bo."])
    >>> counted_hits("Who met Ada?", [Ranking("graph", ["a", "b"], [2.0, 1.0])], index, {"a": 0, "b": 1}).order
    ('b',)
    """
    terms, ids = index._asked(query), _foremost(rankings)
    at = np.array([rows[identifier] for identifier in ids], dtype=np.int64)
    order = at.argsort()
    times = np.zeros((len(ids), len(terms.all_idf)))
    columns = [column for column, word in enumerate(terms.all_idf) if word in terms.words]
    times[order[:, None], columns] = terms.counts_of(at[order])
    asked = Counter(dict.fromkeys(terms.all_idf, 1) | dict(zip(terms.words, map(int, terms.times), strict=True)))
    return _hit_words(asked, rankings, terms.all_idf, ids, times, index.lengths[at].astype(np.float64))


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
    """The same of (n, t) counts of the words that are asked for, and of how many words each hit has."""
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
    if known is None:
        return HitWords((), covers)
    idf = np.where(frequency > 0, idf, 0.0)
    norms = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1e-9))
    weights = idf * np.array(list(asked.values()), float)
    scores = (times / (times + norms[:, None] + (norms[:, None] == 0)) * weights).sum(axis=1)
    order = np.argsort(-scores, kind="stable")
    return HitWords(tuple(ids[row] for row in order.tolist() if scores[row] > 0)[:WITNESS_DEPTH], covers)
