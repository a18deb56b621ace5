"""Which passage has which word how often, and the BM25 scores of a query's words."""

from __future__ import annotations

import itertools
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from phasegraph._support.frozen import by_fields
from phasegraph._support.packed import NameRows, merged_names
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import BoolArray, FloatArray, Int32Array, IntArray
from phasegraph.lexical.tokenizers import Tokenizer, tokenizer_of, tokens_of

K1, B = 1.5, 0.75
_COUNTED = 1_000_000
"""About how many words are counted at once."""
MOST_ENTRIES, HEAVIEST, _MOST_WEIGHED = 2048, 500, 1000
"""Entries that a look-up reads at most, passages kept of a frequent word, and words of which they are kept."""
_FEW = 16
"""One in so many passages are few: their words are counted for each query anew."""
_MOST_KEPT = 4000
"""Words of which it is kept where they stand among the same passages."""
WordIn: TypeAlias = tuple[IntArray, FloatArray]
"""Places of the passages that have a word among some, and what share of its weight it has in each."""


@dataclass(frozen=True, eq=False)
class LexicalIndex:
    """Which passage has which word how often; made by :meth:`of`.

    The V words of the `vocabulary` ascend; the entries of each start at one of (V + 1,) `starts`: its passages
    (`rows`, ascending) and how often each has it (`counts`). `lengths` are the (P,) words in each passage, repeated
    ones and the parts of identifiers too.

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
            if count + entry.stop - entry.start <= MOST_ENTRIES:
                parts.append(self.rows[entry])
            elif count < most:
                parts.append(self._heaviest(entry))
            else:
                break
            count += len(parts[-1])
        return foremost_of(terms, parts, most)

    def _asked(self, query: str) -> ListedTerms:
        """The query's words, and no passages."""
        asked = Counter(tokens_of(tokenizer_of(self.tokenizer), query))
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
            first = np.lexsort((rows, -weights))[:HEAVIEST]
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
        return self._of(tokens_of(tokenizer_of(self.tokenizer), query)).look_up(query)

    def _asked(self, query: str) -> ListedTerms:
        return self._of(tokens_of(tokenizer_of(self.tokenizer), query))._asked(query)

    def look_up_listed(self, query: str, most: int) -> ListedTerms:
        """As of :class:`LexicalIndex`."""
        return self._of(tokens_of(tokenizer_of(self.tokenizer), query)).look_up_listed(query, most)

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
        found = tokens_of(tokenize, text)
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


def foremost_of(terms: Listed, parts: Sequence[Any], most: int) -> Listed:
    """The terms with those passages of some parts that BM25 has foremost."""
    rows = np.unique(np.concatenate(parts)).astype(np.int64) if parts else np.empty(0, dtype=np.int64)
    scores = terms.scores_of(rows)
    if len(rows) > most:
        kept = np.sort(np.argpartition(-scores, most)[:most])
        rows, scores = rows[kept], scores[kept]
    return replace(terms, found=rows, best=float(scores.max(initial=0.0)))
