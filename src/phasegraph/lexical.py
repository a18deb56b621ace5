"""The words of a query: split, counted over a collection (BM25), and looked for in the texts of hits."""

from __future__ import annotations

import itertools
import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

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
_FEW = 16
"""One in so many passages are few: their words are counted for each query anew."""
_MOST_KEPT = 4000
"""Words of which it is kept where they stand among the same passages."""
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
WordIn: TypeAlias = tuple[IntArray, FloatArray]
"""Places of the passages that have a word among some, and what share of its weight it has in each."""


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

    The V words of the `vocabulary` ascend; the entries of each start at one of (V + 1,) `starts`: its passages
    (`rows`, ascending) and how often each has it (`counts`). `lengths` are the (P,) words in each passage, repeated
    ones too.

    Scores are BM25 [1]_ with Lucene's idf, ``log(1 + (P - df + .5) / (df + .5))``, k1 = 1.5 and b = .75. Integer
    counts are kept and everything else follows from them, so that an updated index equals a new one to the bit.

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
        terms = self._asked(query)
        scores, adds = np.zeros(len(self.lengths)), []
        rows = tuple(self.rows[one] for one in terms.entries)
        for times, weight, where, entry in zip(terms.times, terms.idf, rows, terms.entries, strict=True):
            counts = self.counts[entry]
            adds.append(times * weight * (counts / (counts + self._norms[where])))
            scores[where] += adds[-1]
        return QueryTerms(scores, terms.words, terms.idf, rows, terms.all_idf, tuple(adds))

    def look_up_listed(self, query: str, most: int) -> ListedTerms:
        """The query's words, and the passages that BM25 has foremost, found in the entries of its rarer words.

        At most `most` passages. Every entry is read of the rarest words, up to 2,048 in all; of a word beyond that only
        the passages in which it weighs most, where the rarer ones have too few. What is found is scored by all words.
        """
        terms = self._asked(query)
        entries, frequency = terms.entries, [one.stop - one.start for one in terms.entries]
        parts: list[Int32Array] = []
        count = 0
        for place in sorted(range(len(entries)), key=frequency.__getitem__):
            entry = entries[place]
            if count + entry.stop - entry.start <= _MOST_ENTRIES:
                parts.append(self.rows[entry])
            elif count < most:
                parts.append(self._heaviest(entry))
            else:
                break
            count += len(parts[-1])
        return _foremost_of(terms, parts, most)

    def _asked(self, query: str) -> ListedTerms:
        """The query's words, and no passages."""
        asked = Counter(_tokens(tokenizer_of(self.tokenizer), query))
        found = {word: term for word in asked if (term := self._places.get(word)) is not None}
        size = len(self.lengths)
        entries = tuple(slice(int(self.starts[term]), int(self.starts[term + 1])) for term in found.values())
        frequency = np.array([one.stop - one.start for one in entries], dtype=np.float64)
        idf = np.log1p((size - frequency + 0.5) / (frequency + 0.5))
        unseen = float(np.log1p((size + 0.5) / 0.5))
        known = dict(zip(found, idf.tolist(), strict=True))
        return ListedTerms(
            self, entries, np.array([asked[word] for word in found], dtype=np.float64), tuple(found), idf,
            {word: known.get(word, unseen) for word in asked},
        )  # fmt: skip

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

    def part(self, rows: IntArray) -> LexicalIndex:
        """The index of some of the passages, which ascend, as of :meth:`replaced`; of few, nothing is counted yet."""
        few = len(rows) * _FEW <= len(self.lengths)
        return LexicalPart(self, rows) if few else self.replaced(rows, {})

    @property
    def files(self) -> list[Any]:
        """The arrays that may lie in files."""
        return [self.starts, self.rows, self.counts, self.lengths]

    def passages_with(self, words: Iterable[str]) -> Int32Array:
        """Rows of the passages that have all of these words, ascending.

        >>> LexicalIndex.of(["Ada met Bo.", "Bo sang."]).passages_with(["bo", "sang"])
        array([1], dtype=int32)
        """
        found = [self._entry(word) for word in words]
        held = sorted((self.rows[one] for one in found), key=len)
        if not held or not len(held[0]):
            return np.empty(0, dtype=np.int32)
        rows = held[0]
        for more in held[1:]:
            rows = rows[more[np.minimum(np.searchsorted(more, rows), len(more) - 1)] == rows]
        return rows

    def _entry(self, word: str) -> slice:
        """The entries of a word; none for one that there is not."""
        term = self._places.get(word)
        return slice(-1, -1) if term is None else slice(int(self.starts[term]), int(self.starts[term + 1]))

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


class LexicalPart(LexicalIndex):
    """Some of an index's passages: a query reads the entries of its own words, and all are counted where asked for.

    >>> some = LexicalPart(LexicalIndex.of(["Ada met Bo.", "Cy sang.", "Bo sang."]), np.array([0, 2]))
    >>> some.look_up("Who is Bo?").scores.round(3), some.vocabulary
    (array([0.067, 0.08 ]), ('ada', 'bo', 'met', 'sang'))
    """

    def __init__(self, whole: LexicalIndex, rows: IntArray) -> None:
        put = object.__setattr__
        put(self, "whole", whole)
        put(self, "kept", rows.astype(np.int32))
        put(self, "lengths", whole.lengths[rows])
        put(self, "tokenizer", whole.tokenizer)

    whole: LexicalIndex
    kept: Int32Array

    def __reduce__(self) -> tuple[Any, ...]:
        return self._counted_anew.__reduce__()

    @lazy_property
    def _counted_anew(self) -> LexicalIndex:
        return self.whole.replaced(self.kept.astype(np.int64), {})

    @property
    def vocabulary(self) -> Sequence[str]:
        """As of :class:`LexicalIndex`, and so of the next three."""
        return self._counted_anew.vocabulary

    @property
    def starts(self) -> IntArray:
        """(V + 1,) array of int64."""
        return self._counted_anew.starts

    @property
    def rows(self) -> Int32Array:
        """(n,) array of int32."""
        return self._counted_anew.rows

    @property
    def counts(self) -> Int32Array:
        """(n,) array of int32."""
        return self._counted_anew.counts

    @property
    def files(self) -> list[Any]:
        """Those of the whole."""
        return self.whole.files

    def look_up(self, query: str) -> QueryTerms:
        """As of :class:`LexicalIndex`."""
        return self._of(_tokens(tokenizer_of(self.tokenizer), query)).look_up(query)

    def _asked(self, query: str) -> ListedTerms:
        return self._of(_tokens(tokenizer_of(self.tokenizer), query))._asked(query)

    def look_up_listed(self, query: str, most: int) -> ListedTerms:
        """As of :class:`LexicalIndex`."""
        return self._of(_tokens(tokenizer_of(self.tokenizer), query)).look_up_listed(query, most)

    def passages_with(self, words: Iterable[str]) -> Int32Array:
        """As of :class:`LexicalIndex`."""
        listed = list(words)
        return self._of(listed).passages_with(listed)

    def _of(self, words: Iterable[str]) -> LexicalIndex:
        """The part of these words alone."""
        found: dict[str, tuple[Int32Array, Int32Array]] = {}
        for word in sorted(set(words)):
            term = self.whole._places.get(word)
            if term is not None:
                entry = slice(int(self.whole.starts[term]), int(self.whole.starts[term + 1]))
                there, place = common(self.kept, self.whole.rows[entry])
                if len(there):
                    found[word] = there.astype(np.int32), self.whole.counts[entry][place]
        none = np.empty(0, dtype=np.int32)
        rows, counts = map(np.concatenate, zip((none, none), *found.values(), strict=True))
        starts = np.cumsum([0, *(len(one) for one, _ in found.values())], dtype=np.int64)
        made = LexicalIndex(tuple(found), starts, rows, counts, self.lengths, self.tokenizer)
        vars(made).update(_mean_length=self._mean_length, _norms=self._norms)
        return made


def common(some: Any, others: Any) -> tuple[IntArray, IntArray]:
    """Places in two ascending arrays of the values that both have.

    >>> common(np.array([1, 4, 6]), np.array([4, 5, 6, 7]))
    (array([1, 2]), array([0, 2]))
    """
    if len(others) < len(some):
        there, place = common(others, some)
        return place, there
    if not len(some):
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    place = np.minimum(others.searchsorted(some), len(others) - 1)
    there = (others[place] == some).nonzero()[0]
    return there, place[there]


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
    """The words of one query in a collection of P passages, and their (P,) BM25 `scores`.

    `words` are those t that the collection has, in the query's order, with their (t,) `idf`; of each the passages that
    have it (`rows`, ascending) and what it `adds` to their scores. `all_idf` is of every word of the query; for one
    that no passage has, ``log(1 + (P + .5) / .5)``.
    """

    scores: FloatArray
    words: tuple[str, ...]
    idf: FloatArray
    rows: tuple[Int32Array, ...]
    all_idf: Mapping[str, float]
    adds: tuple[FloatArray, ...]

    @property
    def shares(self) -> FloatArray:
        """(t,) shares of the words in their idf."""
        return self.idf / self.idf.sum() if len(self.idf) else self.idf

    def scores_without(self, words: Collection[str]) -> FloatArray:
        """(P,) BM25 of the query's other words."""
        scores = np.zeros(len(self.scores))
        for word, rows, added in zip(self.words, self.rows, self.adds, strict=True):
            if word not in words:
                scores[rows] += added
        return scores

    def held_by(self, passages: IntArray) -> BoolArray:
        """(n, t) which of the passages has which of the words."""
        held = np.zeros((len(passages), len(self.words)), dtype=np.bool_)
        for column, rows in enumerate(self.rows):
            place = np.minimum(np.searchsorted(rows, passages), len(rows) - 1)
            held[:, column] = rows[place] == passages
        return held


@dataclass(frozen=True, slots=True, eq=False)
class ListedTerms:
    """The words of one query in a collection too large to score as a whole; otherwise as of :class:`QueryTerms`.

    Of each of the t words that the collection has, its `entries` in the index, and how often the query has it
    (`times`). `found` are rows of the passages that BM25 has foremost, ascending, and `best` the highest of their
    scores.
    """

    index: LexicalIndex
    entries: tuple[slice, ...]
    times: FloatArray
    words: tuple[str, ...]
    idf: FloatArray
    all_idf: Mapping[str, float]
    found: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    best: float = 0.0

    def without(self, words: Collection[str]) -> ListedTerms:
        """The query's other words, and the same passages."""
        kept = [place for place, word in enumerate(self.words) if word not in words]
        return replace(
            self, entries=tuple(self.entries[place] for place in kept), times=self.times[kept],
            words=tuple(self.words[place] for place in kept), idf=self.idf[kept],
        )  # fmt: skip

    def scores_of(self, passages: IntArray) -> FloatArray:
        """(n,) BM25 of these passages, as :meth:`LexicalIndex.look_up` gives it."""
        return self.read(passages)[0]

    def held_by(self, passages: IntArray) -> BoolArray:
        """(n, t) which of the passages has which of the words."""
        return self.read(passages)[1]

    def read(self, passages: IntArray, kept: dict[int, WordIn] | None = None) -> tuple[FloatArray, BoolArray]:
        """Both of these passages; `kept` takes what is read, for when the same are asked about again."""
        scores, held = np.zeros(len(passages)), np.zeros((len(passages), len(self.words)), dtype=np.bool_)
        order = passages.argsort(kind="stable")
        sought = passages[order].astype(self.index.rows.dtype)  # of another type, the entries would all be converted
        norms: FloatArray | None = None
        for column, (entry, times, weight) in enumerate(
            zip(self.entries, self.times.tolist(), self.idf.tolist(), strict=True)
        ):
            found = None if kept is None else kept.get(entry.start)
            if found is None:
                norms = self.index._norms_of(sought) if norms is None else norms
                there, counts = self._looked_up(entry, sought)
                found = order[there], counts / (counts + norms[there])
                if kept is not None:
                    if len(kept) >= _MOST_KEPT:
                        kept.clear()
                    kept[entry.start] = found
            there, share = found
            scores[there] += times * weight * share
            held[there, column] = True
        return scores, held

    def counts_of(self, passages: IntArray) -> FloatArray:
        """(n, t) how often these passages, which ascend, have each of the words."""
        found = np.zeros((len(passages), len(self.words)))
        sought = passages.astype(self.index.rows.dtype)
        for column, entry in enumerate(self.entries):
            there, counts = self._looked_up(entry, sought)
            found[there, column] = counts
        return found

    def _looked_up(self, entry: slice, sought: Int32Array) -> tuple[IntArray, Int32Array]:
        """Which of the passages, which ascend, have a word, and how often."""
        there, place = common(sought, self.index.rows[entry])
        return there, self.index.counts[entry][place]


class ChangedWords:
    """The words of a collection from which passages left, and to which others came, as lists are made of them.

    The rows of the `new` ones stand behind those of the `old`; those that `left` are gone from the ascending rows
    `gone`.

    >>> old, new = LexicalIndex.of(["Ada met Bo.", "Bo sang."]), LexicalIndex.of(["Cy sang."])
    >>> words = ChangedWords(old, new, LexicalIndex.of(["Bo sang."]), np.array([1]))
    >>> terms, again = words.look_up_listed("Who sang?", 9), LexicalIndex.of(["Ada met Bo.", "Cy sang."])
    >>> terms.found.tolist(), terms.best == again.look_up("Who sang?").scores[1]
    ([2], np.True_)
    """

    def __init__(self, old: LexicalIndex, new: LexicalIndex, left: LexicalIndex, gone: IntArray) -> None:
        self.tokenizer, self._left, self._gone = old.tokenizer, left, gone
        self.count = len(old.lengths) - len(gone) + len(new.lengths)
        words = sum(sign * int(one.lengths.sum()) for sign, one in ((1, old), (-1, left), (1, new)))
        self._parts = replace(old), replace(new)
        for one in self._parts:
            vars(one)["_mean_length"] = max(words / self.count, 1e-9)

    def look_up_listed(self, query: str, most: int) -> ChangedTerms:
        """As of :class:`LexicalIndex`; of a frequent word, passages that left may take places of its foremost."""
        asked = Counter(_tokens(tokenizer_of(self.tokenizer), query))
        entries = {word: tuple(one._entry(word) for one in (*self._parts, self._left)) for word in asked}
        sizes = {word: [one.stop - one.start for one in each] for word, each in entries.items()}
        often = {word: old + new - left for word, (old, new, left) in sizes.items()}
        found = tuple(word for word in asked if often[word] > 0)
        frequency = np.array([often[word] for word in found], dtype=np.float64)
        idf = np.log1p((self.count - frequency + 0.5) / (frequency + 0.5))
        unseen = float(np.log1p((self.count + 0.5) / 0.5))
        known = dict(zip(found, idf.tolist(), strict=True))
        all_idf = {word: known.get(word, unseen) for word in asked}
        times = np.array([asked[word] for word in found], dtype=np.float64)
        old, new = (
            ListedTerms(one, tuple(entries[word][place] for word in found), times, found, idf, all_idf)
            for place, one in enumerate(self._parts)
        )
        terms = ChangedTerms(old, new)
        parts: list[IntArray] = []
        count = 0
        for place in np.argsort(frequency, kind="stable").tolist():
            both = old.entries[place], new.entries[place]
            if count + often[found[place]] <= _MOST_ENTRIES:
                parts.append(self._rows(*(one.rows[each] for one, each in zip(self._parts, both, strict=True))))
            elif count < most:
                parts.append(self._heaviest(*both))
            else:
                break
            count += len(parts[-1])
        return _foremost_of(terms, parts, most)

    def _rows(self, old: Any, new: Any) -> IntArray:
        """Rows of both, without those that left."""
        return np.concatenate([old[self._stay(old)], new.astype(np.int64) + len(self._parts[0].lengths)])

    def _stay(self, rows: Any) -> BoolArray:
        if not len(self._gone):
            return np.ones(len(rows), dtype=np.bool_)
        there: BoolArray = self._gone[np.minimum(np.searchsorted(self._gone, rows), len(self._gone) - 1)] != rows
        return there

    def _heaviest(self, *entries: slice) -> IntArray:
        """Those of both in which a frequent word weighs most."""
        heavy = [one._heaviest(entry) for one, entry in zip(self._parts, entries, strict=True)]
        weights = []
        for one, entry, rows in zip(self._parts, entries, heavy, strict=True):
            counts = one.counts[entry.start + np.searchsorted(one.rows[entry], rows)]
            weights.append(counts / (counts + one._norms_of(rows)))
        found, weighed = self._rows(*heavy), np.concatenate([weights[0][self._stay(heavy[0])], weights[1]])
        return np.sort(found[np.lexsort((found, -weighed))[:_HEAVIEST]])


@dataclass(frozen=True, slots=True, eq=False)
class ChangedTerms:
    """The words of one query in such a collection: as :class:`ListedTerms`, of the rows of both."""

    old: ListedTerms
    new: ListedTerms
    found: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    best: float = 0.0

    @property
    def words(self) -> tuple[str, ...]:
        """Those that the collection has."""
        return self.old.words

    @property
    def idf(self) -> FloatArray:
        """(t,) array of float."""
        return self.old.idf

    @property
    def all_idf(self) -> Mapping[str, float]:
        """Of every word of the query."""
        return self.old.all_idf

    def without(self, words: Collection[str]) -> ChangedTerms:
        """The query's other words, and the same passages."""
        return replace(self, old=self.old.without(words), new=self.new.without(words))

    def scores_of(self, passages: IntArray) -> FloatArray:
        """(n,) BM25 of these passages."""
        return self.read(passages)[0]

    def held_by(self, passages: IntArray) -> BoolArray:
        """(n, t) which of the passages has which of the words."""
        return self.read(passages)[1]

    def read(self, passages: IntArray, kept: dict[int, WordIn] | None = None) -> tuple[FloatArray, BoolArray]:
        """Both of these passages; `kept` is as of :class:`ListedTerms`, for those of the collection."""
        scores, held = np.zeros(len(passages)), np.zeros((len(passages), len(self.words)), dtype=np.bool_)
        for terms, there, rows in self._divided(passages):
            scores[there], held[there] = terms.read(rows, kept if terms is self.old else None)
        return scores, held

    def _divided(self, passages: IntArray) -> Iterator[tuple[ListedTerms, IntArray, IntArray]]:
        count = len(self.old.index.lengths)
        later = passages >= count
        for terms, there, first in ((self.old, np.flatnonzero(~later), 0), (self.new, np.flatnonzero(later), count)):
            if len(there):
                yield terms, there, passages[there] - first


Listed = TypeVar("Listed", ListedTerms, ChangedTerms)


def _foremost_of(terms: Listed, parts: Sequence[Any], most: int) -> Listed:
    """The terms with those passages of some parts that BM25 has foremost."""
    rows = np.unique(np.concatenate(parts)).astype(np.int64) if parts else np.empty(0, dtype=np.int64)
    scores = terms.scores_of(rows)
    if len(rows) > most:
        kept = np.sort(np.argpartition(-scores, most)[:most])
        rows, scores = rows[kept], scores[kept]
    return replace(terms, found=rows, best=float(scores.max(initial=0.0)))


def cover(values: FloatArray, held: BoolArray, shares: FloatArray, weight: float, count: int) -> tuple[IntArray, Any]:
    """Pick `count` greedily by value plus `weight` times the share of words that no pick before has.

    Returns places in the order of picking and what each pick was worth. The worth falls along the picks, and nobody
    left out has more than the last of them: the gain of a place only shrinks.

    >>> held = np.array([[True, False], [True, False], [False, True]])
    >>> cover(np.array([0.9, 0.8, 0.1]), held, np.array([0.4, 0.6]), 2.0, 3)[0].tolist()
    [0, 2, 1]
    """
    left, gains = values.astype(np.float64), np.where(held, shares, 0.0)
    picked: list[int] = []
    worth: list[float] = []
    count = min(count, len(values))
    while len(picked) < count and gains.any():
        total = left + weight * gains.sum(axis=1)  # a product would not let equal rows tie
        place = int(total.argmax())
        picked.append(place)
        worth.append(float(total[place]))
        left[place] = -np.inf
        gains[:, held[place]] = 0.0
    rest = (-left).argsort(kind="stable")[: count - len(picked)]  # no word is left to be had
    return np.array([*picked, *rest.tolist()], dtype=np.intp), np.array([*worth, *left[rest].tolist()])


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
    asked = Counter(_tokens(tokenize, query))
    ids = _foremost(rankings)
    words = [_tokens(tokenize, text(identifier)) for identifier in ids]
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
