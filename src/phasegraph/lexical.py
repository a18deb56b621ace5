"""The words of a query: split, counted over a collection (BM25), and looked for in the texts of hits."""

from __future__ import annotations

import itertools
import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from phasegraph._packed import NameRows, merged_names
from phasegraph._shared import lazy_property
from phasegraph._text import composed
from phasegraph._typing import BoolArray, FloatArray, Int32Array, IntArray
from phasegraph.errors import InvalidInputError, InvalidTypeError
from phasegraph.ranking import Ranking, by_fields

K1, B = 1.5, 0.75
WITNESS_DEPTH, COVER_DEPTH = 20, 5
_COUNTED = 1_000_000
"""About how many words are counted at once."""
_MOST_ENTRIES, _HEAVIEST, _MOST_WEIGHED = 2048, 500, 1000
"""Entries that a look-up reads at most, passages kept of a frequent word, and words of which they are kept."""
CJK = "\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORDS = re.compile(r"\w\w+")
_WORDS_OR_RUNS = re.compile(rf"[{CJK}]+|[^\W{CJK}]{{2,}}")
_RUN = re.compile(rf"[{CJK}]")
_ENGLISH = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
_GERMAN = """
aber alle als also am an auch auf aus bei beim bin bis bist da damit das dass dein dem den denn der des die dies diese
diesem diesen dieser dieses doch dort du durch ein eine einem einen einer eines er es für hat hatte hatten habe haben
ich ihm ihn ihr ihre im in ins ist ja kann kein keine man mein mit nach nicht noch nun nur ob oder ohne sehr sein seine
sich sie sind so über um und uns unter vom von vor war waren was wenn wer werden wie wir wird wo wurde wurden zu zum zur
"""

Tokenize: TypeAlias = Callable[[str], Sequence[str]]


def split(text: str) -> list[str]:
    """Words of two or more letters or digits in lower case; Chinese and Japanese as pairs of characters.

    >>> split("Who met Ada-2? 東京都"), split("C")
    (['who', 'met', 'ada', '東京', '京都'], [])
    """
    low = text.lower()
    if low.isascii():
        return _WORDS.findall(low)
    low = composed(low)
    if not _RUN.search(low):
        marked = _with_marks()
        return (marked if marked.search(low) else _WORDS).findall(low)
    out: list[str] = []
    for found in _WORDS_OR_RUNS.findall(low):
        if len(found) > 1 and _RUN.match(found):
            out += [found[place : place + 2] for place in range(len(found) - 1)]
        else:
            out.append(found)
    return out


@cache
def _with_marks() -> re.Pattern[str]:
    """Words whose letters may carry marks that stand behind them, as in Hindi."""
    marks = [chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)) in ("Mn", "Mc")]
    inside = f"[\\w{re.escape(''.join(marks))}]"
    return re.compile(rf"\w{inside}+")


@dataclass(frozen=True, slots=True)
class _Without:
    """Words that are not among some."""

    stop: frozenset[str]

    def __call__(self, text: str) -> list[str]:
        return [word for word in split(text) if word not in self.stop]


TOKENIZERS: Mapping[str, Tokenize] = MappingProxyType(
    {"english": _Without(frozenset(_ENGLISH.split())), "german": _Without(frozenset(_GERMAN.split())), "plain": split}
)
"""Words by name: without English (Lucene's) or German stop words, or all of them; see :func:`split`."""
Tokenizer: TypeAlias = str | Tokenize


def tokenizer_of(given: Tokenizer) -> Tokenize:
    """The function for a name of ``TOKENIZERS``, or the callable that was given."""
    if callable(given):
        return given
    if not isinstance(given, str) or given not in TOKENIZERS:
        raise InvalidInputError(f"tokenizer must be a function or one of {', '.join(TOKENIZERS)}; got {given!r:.80}")
    return TOKENIZERS[given]


def _tokens(tokenize: Tokenize, text: str) -> Sequence[str]:
    found = tokenize(text)
    try:
        words = found if isinstance(found, list) else list(found)
        "".join(words)
    except TypeError as error:
        raise InvalidTypeError(f"tokenizer must give a list of words; got {found!r:.80}") from error
    if isinstance(found, str):
        raise InvalidTypeError(f"tokenizer must give a list of words; got {found!r:.80}")
    return words


@dataclass(frozen=True, eq=False)
class LexicalIndex:
    """Which passage has which word how often; made by :meth:`of`.

    Parameters
    ----------
    vocabulary : tuple of str
        The V words, ascending.
    starts : (V + 1,) array of int64
        Where each word's entries start.
    rows, counts : (n,) array of int32
        A word's passages, ascending, and how often each has it.
    lengths : (P,) array of int32
        Words in each passage, repeated ones too.
    tokenizer : str or callable
        A name of ``TOKENIZERS``, or ``tokenizer(text) -> list of str``.

    Notes
    -----
    Scores are BM25 with Lucene's idf, ``log(1 + (P - df + .5) / (df + .5))``, k1 = 1.5 and b = .75. Integer counts are
    kept and everything else follows from them, so that an updated index equals a new one to the bit.

    References
    ----------
    .. [1] Robertson, Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009,
       doi:10.1561/1500000019

    Examples
    --------
    >>> index = LexicalIndex.of(["Ada met Bo.", "Bo sang, Bo danced."])
    >>> index.vocabulary, index.counts.tolist()
    (('ada', 'bo', 'danced', 'met', 'sang'), [1, 1, 2, 1, 1, 1])
    >>> index.look_up("Who is Bo?").scores.round(3)
    array([0.078, 0.1  ])
    """

    vocabulary: Sequence[str]
    starts: IntArray
    rows: Int32Array
    counts: Int32Array
    lengths: Int32Array
    tokenizer: Tokenizer = "english"

    __reduce__ = by_fields

    @classmethod
    def of(cls, texts: Iterable[str], tokenizer: Tokenizer = "english") -> LexicalIndex:
        """Count the words of each text."""
        listed = list(texts)
        lengths = np.zeros(len(listed), dtype=np.int32)
        place, (terms, rows, counts) = _counted(dict(enumerate(listed)), tokenizer, lengths)
        vocabulary = tuple(sorted(place))
        rank = np.empty(len(place), dtype=np.int64)
        rank[[*map(place.__getitem__, vocabulary)]] = np.arange(len(place))
        terms = rank[terms]
        order = np.argsort(terms * len(listed) + rows)  # of which none is twice there
        starts = np.concatenate([[0], np.cumsum(np.bincount(terms, minlength=len(place)))])
        return cls(vocabulary, starts, rows[order], counts[order], lengths, tokenizer)

    def replaced(self, kept: IntArray, texts: Mapping[int, str]) -> LexicalIndex:
        """The index of other passages: `kept` says which row of this one each of them was, or -1 for one of `texts`.

        >>> index = LexicalIndex.of(["Ada met Bo.", "Bo sang."]).replaced(np.array([1, -1]), {1: "Cy sang."})
        >>> index.vocabulary, index.rows.tolist()
        (('bo', 'cy', 'sang'), [0, 1, 0, 1])
        """
        stay = kept >= 0
        moved = np.full(len(self.lengths), -1, dtype=np.int32)
        moved[kept[stay]] = np.flatnonzero(stay)
        lengths = np.zeros(len(kept), dtype=np.int32)
        lengths[stay] = self.lengths[kept[stay]]
        new, own = _counted(texts, self.tokenizer, lengths)
        rows, counts, sizes = self.rows, self.counts, np.diff(self.starts)
        if not np.array_equal(moved, np.arange(len(moved))):
            rows = moved[rows]
            left = rows >= 0
            if not left.all():
                rows, counts = rows[left], counts[left]
                sizes = np.diff(np.concatenate([[0], np.cumsum(left)])[self.starts])
            if (np.diff(kept[stay]) < 0).any():
                resorted = np.lexsort((rows, np.repeat(np.arange(len(sizes)), sizes)))
                rows, counts = rows[resorted], counts[resorted]
        vocabulary, again = merged_names(self.vocabulary, sizes > 0, new)
        at = NameRows(vocabulary)
        terms = np.array([at[word] for word in new], dtype=np.int64)[own[0]]
        order = np.lexsort((own[1], terms))
        terms, more, times = terms[order], own[1][order], own[2][order]
        before = np.zeros(len(vocabulary) + 1, dtype=np.int64)
        before[again[again >= 0] + 1] = sizes[again >= 0]
        np.cumsum(before, out=before)
        places = before[terms + 1]  # new passages mostly come last
        if len(rows) and len(more) and int(more.min()) <= int(rows.max()):
            inside = zip(before[terms].tolist(), places.tolist(), more.tolist(), strict=True)
            places = np.array([first + np.searchsorted(rows[first:last], np.int32(row)) for first, last, row in inside])
        starts = before + np.concatenate([[0], np.cumsum(np.bincount(terms, minlength=len(vocabulary)))])
        parts = _spliced(rows, places, more), _spliced(counts, places, times)
        return LexicalIndex(vocabulary, starts, *parts, lengths, self.tokenizer)

    def look_up(self, query: str) -> QueryTerms:
        """The query's words in this collection."""
        asked = Counter(_tokens(tokenizer_of(self.tokenizer), query))
        found = {word: term for word in asked if (term := self._places.get(word)) is not None}
        size = len(self.lengths)
        entries = [slice(self.starts[term], self.starts[term + 1]) for term in found.values()]
        frequency = np.array([one.stop - one.start for one in entries], dtype=np.float64)
        idf = np.log1p((size - frequency + 0.5) / (frequency + 0.5))
        scores = np.zeros(size)
        rows = tuple(self.rows[one] for one in entries)
        for word, weight, where, entry in zip(found, idf.tolist(), rows, entries, strict=True):
            counts = self.counts[entry]
            scores[where] += asked[word] * weight * (counts / (counts + self._norms[where]))
        unseen = float(np.log1p((size + 0.5) / 0.5))
        known = dict(zip(found, idf.tolist(), strict=True))
        return QueryTerms(scores, tuple(found), idf, rows, {word: known.get(word, unseen) for word in asked})

    def look_up_listed(self, query: str, most: int) -> ListedTerms:
        """The query's words, and the passages that BM25 has foremost, found in the entries of its rarer words.

        At most `most` passages. Every entry is read of the rarest words, up to 2,048 in all; of a word beyond that only
        the passages in which it weighs most, where the rarer ones have too few. What is found is scored by all words.
        """
        asked = Counter(_tokens(tokenizer_of(self.tokenizer), query))
        found = {word: term for word in asked if (term := self._places.get(word)) is not None}
        size = len(self.lengths)
        entries = tuple(slice(int(self.starts[term]), int(self.starts[term + 1])) for term in found.values())
        frequency = np.array([one.stop - one.start for one in entries], dtype=np.float64)
        idf = np.log1p((size - frequency + 0.5) / (frequency + 0.5))
        unseen = float(np.log1p((size + 0.5) / 0.5))
        known = dict(zip(found, idf.tolist(), strict=True))
        terms = ListedTerms(
            self, entries, np.array([asked[word] for word in found], dtype=np.float64), tuple(found), idf,
            {word: known.get(word, unseen) for word in asked},
        )  # fmt: skip
        parts: list[Int32Array] = []
        count = 0
        for place in np.argsort(frequency, kind="stable").tolist():
            entry = entries[place]
            if count + entry.stop - entry.start <= _MOST_ENTRIES:
                parts.append(self.rows[entry])
            elif count < most:
                parts.append(self._heaviest(entry))
            else:
                break
            count += len(parts[-1])
        rows = np.unique(np.concatenate(parts)).astype(np.int64) if parts else np.empty(0, dtype=np.int64)
        scores = terms.scores_of(rows)
        if len(rows) > most:
            kept = np.sort(np.argpartition(-scores, most)[:most])
            rows, scores = rows[kept], scores[kept]
        return replace(terms, found=rows, best=float(scores.max(initial=0.0)))

    def _heaviest(self, entry: slice) -> Int32Array:
        """The passages of a frequent word in which it weighs most; worked out once."""
        kept = self._weighed.get(entry.start)
        if kept is None:
            rows, counts = self.rows[entry], self.counts[entry]
            weights = counts / (counts + self._norms_of(rows))
            first = np.lexsort((rows, -weights))[:_HEAVIEST]
            if len(self._weighed) >= _MOST_WEIGHED:
                self._weighed.clear()
            kept = self._weighed[entry.start] = np.sort(rows[first])
        return kept

    @lazy_property
    def _weighed(self) -> dict[int, Int32Array]:
        return {}

    def passages_with(self, words: Iterable[str]) -> Int32Array:
        """Rows of the passages that have all of these words, ascending.

        >>> LexicalIndex.of(["Ada met Bo.", "Bo sang."]).passages_with(["bo", "sang"])
        array([1], dtype=int32)
        """
        rows: Int32Array | None = None
        for word in words:
            term = self._places.get(word)
            entries = self.rows[:0] if term is None else self.rows[self.starts[term] : self.starts[term + 1]]
            rows = entries if rows is None else np.intersect1d(rows, entries, assume_unique=True)
        return np.empty(0, dtype=np.int32) if rows is None else rows

    @lazy_property
    def _places(self) -> NameRows:
        return NameRows(self.vocabulary)

    @lazy_property
    def _mean_length(self) -> float:
        return max(float(self.lengths.mean()), 1e-9) if len(self.lengths) else 1.0

    @lazy_property
    def _norms(self) -> FloatArray:
        return np.asarray(K1 * (1 - B + B * self.lengths / self._mean_length))

    def _norms_of(self, rows: Any) -> FloatArray:
        return np.asarray(K1 * (1 - B + B * self.lengths[rows] / self._mean_length))


def _counted(
    texts: Mapping[int, str], tokenizer: Tokenizer, lengths: Int32Array
) -> tuple[dict[str, int], tuple[IntArray, Int32Array, Int32Array]]:
    """The words of the texts, and of each entry its word's place among them, its row and its count.

    Writes the texts' `lengths`.
    """
    tokenize = tokenizer_of(tokenizer)
    place = defaultdict[str, int](itertools.count().__next__)
    parts: list[tuple[IntArray, Int32Array, Int32Array]] = []
    rows, sizes, words = array("q"), array("q"), array("q")

    def count() -> None:
        keys, counts = np.unique(np.repeat(rows, sizes) << 32 | np.asarray(words), return_counts=True)
        parts.append((keys & 0xFFFFFFFF, (keys >> 32).astype(np.int32), counts.astype(np.int32)))
        rows[:], sizes[:], words[:] = array("q"), array("q"), array("q")

    for row, text in texts.items():
        found = _tokens(tokenize, text)
        lengths[row] = len(found)
        rows.append(row)
        sizes.append(len(found))
        words.extend(map(place.__getitem__, found))
        if len(words) >= _COUNTED:
            count()
    count()
    terms, at, counts = (np.concatenate(one) for one in zip(*parts, strict=True))
    return dict(place), (terms, at, counts)


def _spliced(values: Int32Array, places: IntArray, new: Int32Array) -> Int32Array:
    """The values with new ones before these places, which ascend."""
    out = np.empty(len(values) + len(new), dtype=np.int32)
    out[places + np.arange(len(new))] = new
    at = 0
    for count, place in enumerate([*places.tolist(), len(values)]):
        if place > at:
            out[at + count : place + count] = values[at:place]
            at = place
    return out


@dataclass(frozen=True, slots=True, eq=False)
class QueryTerms:
    """The words of one query in a collection of P passages.

    Parameters
    ----------
    scores : (P,) array of float
        BM25.
    words : tuple of str
        Those t that the collection has, in the query's order.
    idf : (t,) array of float
    rows : tuple of array of int32
        Of each, the passages that have it, ascending.
    all_idf : mapping of str to float
        idf of every word of the query; for one that no passage has, ``log(1 + (P + .5) / .5)``.
    """

    scores: FloatArray
    words: tuple[str, ...]
    idf: FloatArray
    rows: tuple[Int32Array, ...]
    all_idf: Mapping[str, float]

    @property
    def shares(self) -> FloatArray:
        """(t,) shares of the words in their idf."""
        return self.idf / self.idf.sum() if len(self.idf) else self.idf

    def held_by(self, passages: IntArray) -> BoolArray:
        """(n, t) which of the passages has which of the words."""
        held = np.zeros((len(passages), len(self.words)), dtype=np.bool_)
        for column, rows in enumerate(self.rows):
            place = np.minimum(np.searchsorted(rows, passages), len(rows) - 1)
            held[:, column] = rows[place] == passages
        return held


@dataclass(frozen=True, slots=True, eq=False)
class ListedTerms:
    """The words of one query in a collection too large to score as a whole.

    Parameters
    ----------
    index : LexicalIndex
    entries : tuple of slice
        Of each of the t words that the collection has, its entries in the index.
    times : (t,) array of float
        How often the query has each.
    words, idf, all_idf
        As of :class:`QueryTerms`.
    found : (n,) array of int
        Rows of the passages that BM25 has foremost, ascending.
    best : float
        The highest of their scores.
    """

    index: LexicalIndex
    entries: tuple[slice, ...]
    times: FloatArray
    words: tuple[str, ...]
    idf: FloatArray
    all_idf: Mapping[str, float]
    found: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    best: float = 0.0

    def scores_of(self, passages: IntArray) -> FloatArray:
        """(n,) BM25 of these passages, as :meth:`LexicalIndex.look_up` gives it."""
        scores = np.zeros(len(passages))
        norms = self.index._norms_of(passages)
        for weight, times, place, there in self._looked_up(passages):
            counts = self.index.counts[place]
            scores[there] += times * weight * (counts / (counts + norms[there]))
        return scores

    def held_by(self, passages: IntArray) -> BoolArray:
        """(n, t) which of the passages has which of the words."""
        held = np.zeros((len(passages), len(self.words)), dtype=np.bool_)
        for column, (_, _, _, there) in enumerate(self._looked_up(passages)):
            held[there, column] = True
        return held

    def _looked_up(self, passages: IntArray) -> Iterator[tuple[float, float, IntArray, IntArray]]:
        """Per word its idf, its times, its entries of these passages, and which of them have it."""
        order = np.argsort(passages, kind="stable")
        sought = passages[order].astype(self.index.rows.dtype)  # of another type, the entries would all be converted
        for entry, times, weight in zip(self.entries, self.times.tolist(), self.idf.tolist(), strict=True):
            rows = self.index.rows[entry]
            if len(rows) < len(sought):
                there = np.minimum(np.searchsorted(sought, rows), len(sought) - 1)
                same = sought[there] == rows
                yield weight, times, entry.start + np.flatnonzero(same), order[there[same]]
            else:
                place = np.minimum(np.searchsorted(rows, sought), len(rows) - 1)
                same = rows[place] == sought
                yield weight, times, entry.start + place[same], order[same]


def cover(values: FloatArray, held: BoolArray, shares: FloatArray, weight: float, count: int) -> tuple[IntArray, Any]:
    """Pick `count` greedily by value plus `weight` times the share of words that no pick before has.

    Returns places in the order of picking and what each pick was worth. The worth falls along the picks, and nobody
    left out has more than the last of them: the gain of a place only shrinks.

    >>> held = np.array([[True, False], [True, False], [False, True]])
    >>> cover(np.array([0.9, 0.8, 0.1]), held, np.array([0.4, 0.6]), 2.0, 3)[0].tolist()
    [0, 2, 1]
    """
    left, uncovered = values.astype(np.float64), shares.astype(np.float64)
    picked: list[int] = []
    worth: list[float] = []
    for _ in range(min(count, len(values))):
        total = left + weight * np.where(held, uncovered, 0.0).sum(axis=1)  # a product would not let equal rows tie
        place = int(np.argmax(total))
        picked.append(place)
        worth.append(float(total[place]))
        left[place] = -np.inf
        uncovered[held[place]] = 0.0
    return np.array(picked, dtype=np.intp), np.array(worth)


@dataclass(frozen=True, slots=True)
class HitWords:
    """What the texts of the hits say about the query's words.

    Parameters
    ----------
    order : tuple of str
        Ids of at most 20 of them, by BM25 among themselves; none where no source states the query's words.
    covers : mapping of str to float
        Per source, the share in [0, 1] of the query's words, weighted by idf squared, that its first 5 hits have. None
        where the query has no words, or the hits no text.
    """

    order: tuple[str, ...] = ()
    covers: Mapping[str, float] = field(default_factory=dict)


def read_hits(query: str, rankings: Sequence[Ranking], text: Callable[[str], str]) -> HitWords:
    """Read the first 20 hits of every ranking for the query's words.

    Words are split, and weighted in `covers`, as the source does that states :class:`~phasegraph.ranking.QueryWords`.
    Where none does, they are English, and their idf is that of these texts.

    Parameters
    ----------
    query : str
    rankings : sequence of Ranking
    text : callable
        ``text(id)`` of a hit, "" where it has none.

    Notes
    -----
    The order is a third opinion on which source is right: it is made of texts alone, whoever found them. idf and
    lengths are those of these texts. Ours, no published method.

    Examples
    --------
    >>> from phasegraph.ranking import QueryWords
    >>> texts = {"a": "Bo sang.", "b": "Ada met Bo."}
    >>> rankings = [Ranking("graph", list(texts), [2.0, 1.0], words=QueryWords({"ada": 1.0, "met": 2.0}))]
    >>> read_hits("Who met Ada?", rankings, texts.__getitem__)
    HitWords(order=('b',), covers={'graph': 1.0})
    """
    known = next((one.words for one in rankings if one.words is not None), None)
    tokenize = tokenizer_of("english" if known is None else known.tokenizer)
    asked = Counter(_tokens(tokenize, query))
    ids = sorted({identifier for one in rankings for identifier in one.ids[:WITNESS_DEPTH]})
    words = {identifier: _tokens(tokenize, text(identifier)) for identifier in ids}
    if not asked or not any(words.values()):
        return HitWords()
    place = {word: column for column, word in enumerate(asked)}
    times = np.zeros((len(ids), len(asked)))
    for row, found in enumerate(words.values()):
        for word in found:
            if word in place:
                times[row, place[word]] += 1
    frequency = (times > 0).sum(axis=0)
    idf = np.log1p((len(ids) - frequency + 0.5) / (frequency + 0.5))
    rarity = dict(zip(asked, idf.tolist(), strict=True)) if known is None else known.idf
    total = sum(weight * weight for weight in rarity.values())
    covers = {}
    for one in rankings:
        there = {word for identifier in one.ids[:COVER_DEPTH] for word in words[identifier]}
        have = sum(weight * weight for word, weight in rarity.items() if word in there)
        covers[one.source] = have / total if total else 0.0
    if known is None:
        return HitWords((), covers)
    idf = np.where(frequency > 0, idf, 0.0)
    lengths = np.array([len(found) for found in words.values()], dtype=np.float64)
    norms = K1 * (1 - B + B * lengths / max(float(lengths.mean()), 1e-9))
    weights = idf * np.array(list(asked.values()), float)
    scores = (times / (times + norms[:, None] + (norms[:, None] == 0)) * weights).sum(axis=1)
    order = np.argsort(-scores, kind="stable")
    return HitWords(tuple(ids[row] for row in order.tolist() if scores[row] > 0)[:WITNESS_DEPTH], covers)


def places_of(text: str, words: Iterable[str]) -> list[tuple[int, int]]:
    """Where a text has these words, as (start, end), ascending; whatever their case, and not inside longer words.

    >>> places_of("Ada met Bo, and BO sang of Boston.", ["bo", "met"])
    [(4, 7), (8, 10), (16, 18)]
    """
    held = np.zeros(len(text) + 2, dtype=np.int8)
    for word in words:
        whole = re.escape(word) if _RUN.search(word) else rf"(?<!\w){re.escape(word)}(?!\w)"
        for found in re.finditer(whole, text, re.IGNORECASE):
            held[found.start() + 1 : found.end() + 1] = 1
    edges = np.flatnonzero(np.diff(held)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
