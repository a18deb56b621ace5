"""An inverted index of the words of a collection, and BM25 scores for a query's words."""

from __future__ import annotations

import itertools
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from phasegraph._support.frozen import by_fields
from phasegraph._support.ordering import distinct
from phasegraph._support.packed import NameRows, merged_names
from phasegraph._support.recent import Recent
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import BoolArray, FloatArray, Int32Array, IntArray
from phasegraph.lexical.tokenizers import Tokenizer, tokenizer_of, tokens_of

K1, B = 1.5, 0.75
_COUNTED = 1_000_000
"""Approximate number of words read before they are replaced by their counts, which limits memory during indexing."""
MOST_ENTRIES, HEAVIEST, _MOST_WEIGHED = 2048, 500, 1000
"""Limits of :meth:`LexicalIndex.look_up_listed`.

The first constant is the maximum number of index entries that a query reads completely. For a word with more entries,
only the passages with its highest weights are read: the second constant is the number of these passages. The third
constant is the maximum number of words for which these passages are cached.
"""
_FEW = 16
"""No index is built for a part with at most 1/16 of the passages; the words of each query are counted on demand."""
_MOST_SCORED = 100_000
"""Maximum size of a collection, in passages, for which the BM25 scores of the last queries are cached."""
_MOST_KEPT = 4000
"""Maximum number of words in a cache of :meth:`ListedTerms.read`."""
_NOWHERE: IntArray = np.empty(0, dtype=np.intp)
WordIn: TypeAlias = tuple[IntArray, FloatArray]
"""For a word, the positions in a list of passages that contain it, and its term frequency factor in each, in (0, 1)."""


@dataclass(frozen=True, eq=False)
class LexicalIndex:
    """An inverted index with the number of occurrences of each word in each passage; create it with :meth:`of`.

    The `vocabulary` has V words in ascending order. The entries of word v are at the positions from ``starts[v]`` up
    to, but not including, ``starts[v + 1]``. Each entry stands for a passage that contains the word. `rows` has the row
    of the passage (ascending for each word), and `counts` has the number of occurrences of the word in the passage.
    `lengths` is the number of words in each of the P passages, with repetitions and with the parts of identifiers.

    Scores are BM25 [1]_ with Lucene's inverse document frequency (idf), ``log(1 + (P - df + .5) / (df + .5))``, with
    k1 = 1.5 and b = 0.75; df is the number of passages with the word. The index stores only integer counts, so an
    updated index is identical, to the bit, to a new index.

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
        """Create an index of texts; the row of a passage is the position of its text."""
        listed = list(texts)
        lengths = np.zeros(len(listed), dtype=np.int32)
        place, (terms, rows, counts) = _counted(dict(enumerate(listed)), tokenizer, lengths)
        vocabulary = tuple(sorted(place))
        rank = np.empty(len(place), dtype=np.int64)
        rank[[*map(place.__getitem__, vocabulary)]] = np.arange(len(place))
        terms = rank[terms]
        order = np.argsort(terms * len(listed) + rows)  # no pair of word and row occurs twice
        starts = np.concatenate([[0], np.cumsum(np.bincount(terms, minlength=len(place)))])
        return cls(vocabulary, starts, rows[order], counts[order], lengths, tokenizer)

    def replaced(self, kept: IntArray, texts: Mapping[int, str]) -> LexicalIndex:
        """Return an index of another list of passages, and reuse the counts of passages that are in both.

        `kept` has an entry per passage of the new index: the passage's row in this index, or -1 for a new text. `texts`
        maps the new row of each new text to the text.

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
        places = before[terms + 1]  # usually, new passages have the highest rows
        if len(rows) and len(more) and int(more.min()) <= int(rows.max()):
            inside = zip(before[terms].tolist(), places.tolist(), more.tolist(), strict=True)
            places = np.array([first + np.searchsorted(rows[first:last], np.int32(row)) for first, last, row in inside])
        starts = before + np.concatenate([[0], np.cumsum(np.bincount(terms, minlength=len(vocabulary)))])
        parts = _spliced(rows, places, more), _spliced(counts, places, times)
        return LexicalIndex(vocabulary, starts, *parts, lengths, self.tokenizer)

    def look_up(self, query: str) -> QueryTerms:
        """Return the query's words and the BM25 scores of all passages.

        The results of the last queries are cached, because several sources look up the same query.
        """
        if len(self.lengths) > _MOST_SCORED:
            return self._look_up(query)
        found: QueryTerms = self._recent.get(("all", query), lambda: self._look_up(query))
        return found

    def _look_up(self, query: str) -> QueryTerms:
        terms, none = self.terms(query), np.empty(0, dtype=np.int32)
        rows = np.concatenate([none, *(self.rows[one] for one in terms.entries)])
        counts = np.concatenate([none, *(self.counts[one] for one in terms.entries)])
        sizes = np.array([one.stop - one.start for one in terms.entries], dtype=np.int64)
        adds = np.repeat(terms.times * terms.idf, sizes) * (counts / (counts + self._norms[rows]))
        # this sum adds the words of a passage in the query's order
        scores: FloatArray = np.bincount(rows, adds, len(self.lengths)).astype(np.float64)
        scores.flags.writeable = False
        return QueryTerms(scores, terms.words, terms.idf, terms.all_idf, sizes, rows, adds)

    def look_up_listed(self, query: str, most: int) -> ListedTerms:
        """Return the query's words and the rows of at most `most` passages, probably the best passages by BM25.

        The words are read from the rarest to the most frequent. All entries of a word are read as long as at most 2,048
        entries are read in total. Entries of more frequent words are read only until `most` passages are found. Of such
        a word, only the 500 passages in which it has the highest weight are read. All passages that were found are then
        scored by all words.
        """
        found, best = self._recent.get((most, query), lambda: self._foremost(query, most))
        return replace(self.terms(query), found=found, best=best)

    def _foremost(self, query: str, most: int) -> tuple[IntArray, float]:
        """Return the ascending rows of at most `most` passages, probably the best by BM25, and the best score."""
        terms = self.terms(query)
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

    def lengths_of(self, rows: IntArray) -> Int32Array:
        """Return the number of words in each of the passages `rows`."""
        return self.lengths[rows]

    def terms(self, query: str) -> ListedTerms:
        """Return the query's words and their statistics, without searching for passages."""
        return ListedTerms(self, *self._recent.get(query, lambda: self._terms(query)))

    def _terms(self, query: str) -> tuple[Any, ...]:
        """Return the fields of :class:`ListedTerms` for the query's words, except the field `index`.

        The result is cached without the field `index`, because the cache would otherwise keep the index in memory.
        """
        asked = Counter(tokens_of(tokenizer_of(self.tokenizer), query))
        places = {word: self._places.begun(word) for word in asked}
        found = {word: row for word, (row, _, whole) in places.items() if whole}
        size = len(self.lengths)
        entries = tuple(slice(int(self.starts[term]), int(self.starts[term + 1])) for term in found.values())
        frequency = np.array([one.stop - one.start for one in entries], dtype=np.float64)
        idf = np.log1p((size - frequency + 0.5) / (frequency + 0.5))
        unseen = float(np.log1p((size + 0.5) / 0.5))
        known = dict(zip(found, idf.tolist(), strict=True))
        times = np.array([asked[word] for word in found], dtype=np.float64)
        return entries, times, tuple(found), idf, {word: known.get(word, unseen) for word in asked}

    @lazy_property
    def _recent(self) -> Recent:
        return Recent()

    def _heaviest(self, entry: slice) -> Int32Array:
        """Return the rows of the 500 passages in which a frequent word has the highest weight, ascending.

        `entry` is the slice of the word's entries. The result is cached.
        """
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
        """Return an index of only the passages in the ascending `rows`.

        If the rows are a small part of the collection, words are counted only when they are searched.
        """
        few = len(rows) * _FEW <= len(self.lengths)
        return LexicalPart(self, rows) if few else self.replaced(rows, {})

    @property
    def files(self) -> list[Any]:
        """The arrays of the index, which may be mapped from files."""
        return [self.starts, self.rows, self.counts, self.lengths]

    def passages_with(self, words: Iterable[str]) -> Int32Array:
        """Return the rows of the passages that contain all given words, ascending.

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
        """Return the slice of a word's entries; an empty slice for an unknown word."""
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
    """An index of some passages of a larger index, which reads only the entries of a query's words.

    `whole` is the larger index. `kept` contains the rows in `whole` of the part's passages, in ascending order. In the
    part, passages are numbered from 0. The vocabulary, and the entries of all words, are computed when they are first
    read, from all words of the part's passages.

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
        """The words that occur in the part's passages, in ascending order."""
        return self._counted_anew.vocabulary

    @property
    def starts(self) -> IntArray:
        """The position of the first entry of each of the V words, then the number of entries; int64, shape (V + 1,)."""
        return self._counted_anew.starts

    @property
    def rows(self) -> Int32Array:
        """For each entry (a word with a passage that contains the word), the row of the passage; an int32 array."""
        return self._counted_anew.rows

    @property
    def counts(self) -> Int32Array:
        """For each entry (a word with a passage that contains the word), the word's number of occurrences; int32."""
        return self._counted_anew.counts

    @property
    def files(self) -> list[Any]:
        """The arrays of the whole index, which may be mapped from files."""
        return self.whole.files

    def look_up(self, query: str) -> QueryTerms:
        """Return the query's words and the BM25 scores of all passages of the part."""
        return self._for(query).look_up(query)

    def terms(self, query: str) -> ListedTerms:
        """Return the query's words and their statistics, without searching for passages."""
        return self._for(query).terms(query)

    def look_up_listed(self, query: str, most: int) -> ListedTerms:
        """Return the query's words and at most `most` passages, as :meth:`LexicalIndex.look_up_listed` does."""
        return self._for(query).look_up_listed(query, most)

    def passages_with(self, words: Iterable[str]) -> Int32Array:
        """Return the rows of the passages that contain all given words, ascending."""
        listed = list(words)
        return self._of(listed).passages_with(listed)

    def _for(self, query: str) -> LexicalIndex:
        """Return an index of the part's passages with only the query's words; the last results are cached."""
        made: LexicalIndex = self._recent.get(query, lambda: self._of(tokens_of(tokenizer_of(self.tokenizer), query)))
        return made

    def _of(self, words: Iterable[str]) -> LexicalIndex:
        """Return an index of the part's passages that contains only the given words."""
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
    """Return the positions, in each of two ascending arrays of distinct values, of the values that are in both.

    >>> common(np.array([1, 4, 6]), np.array([4, 5, 6, 7]))
    (array([1, 2]), array([0, 2]))
    """
    if len(others) < len(some):
        there, place = common(others, some)
        return place, there
    if not len(some):
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    place = others.searchsorted(some)
    there = (others.take(place, mode="clip") == some).nonzero()[0]
    return there, place[there]


def _counted(
    texts: Mapping[int, str], tokenizer: Tokenizer, lengths: Int32Array
) -> tuple[dict[str, int], tuple[IntArray, Int32Array, Int32Array]]:
    """Count the words of texts, and write the number of words of each text into `lengths`.

    `texts` contains the texts by row. Returns a mapping of words to numbers, and three arrays with an entry for each
    word of each text. The arrays are the number of the word, the row of the text, and the number of occurrences.
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
    """Return the array `values` with the values `new` inserted before the ascending positions `places`."""
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
    """The words of a query in a collection of P passages, and the (P,) BM25 `scores` of the passages.

    `words` are the t query words that occur in the collection, in the query's order; `idf` is the (t,) inverse document
    frequency. `all_idf` contains the idf of every query word; it is ``log(1 + (P + .5) / .5)`` for a word that does not
    occur. `sizes` are the numbers of passages that contain each word. For each word in turn, `rows` contains the
    ascending rows of these passages, and `adds` the part of their scores that comes from this word.
    """

    scores: FloatArray
    words: tuple[str, ...]
    idf: FloatArray
    all_idf: Mapping[str, float]
    sizes: IntArray
    rows: Int32Array
    adds: FloatArray

    @property
    def shares(self) -> FloatArray:
        """The idf of each word in `words`, as a share of the sum of all idf, an array of shape (t,)."""
        return self.idf / self.idf.sum() if len(self.idf) else self.idf

    def scores_without(self, words: Collection[str]) -> FloatArray:
        """Return the BM25 scores of all passages for the query without the given `words`, an array of shape (P,)."""
        kept = np.repeat(np.array([word not in words for word in self.words], dtype=np.bool_), self.sizes)
        return np.bincount(self.rows[kept], self.adds[kept], len(self.scores)).astype(np.float64)

    def held_by(self, passages: IntArray) -> BoolArray:
        """Return an (n, t) array of bool that says, for each of n passages, which of the t `words` it contains."""
        first = np.arange(len(self.words)) * len(self.scores)  # entries and passages by numbers that ascend
        entries, sought = np.repeat(first, self.sizes) + self.rows, first + passages[:, None]
        held: BoolArray = np.append(entries, -1)[entries.searchsorted(sought)] == sought
        return held


class _Occurrences(NamedTuple):
    """The passages, in a list of passages, that contain words.

    `sizes` has the number of passages with each word. For each word in turn, `there` contains the positions of these
    passages in the list, and `shares` the word's term frequency factor in each, in (0, 1).
    """

    sizes: list[int]
    there: IntArray
    shares: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ListedTerms:
    """The words of a query in a collection that is too large to score every passage.

    `words`, `idf` and `all_idf` are as in :class:`QueryTerms`. For each word, `entries` is the slice of its entries in
    the index, and `times` the number of its occurrences in the query. `found` are the rows of the best passages by
    BM25, ascending, and `best` is the highest BM25 score.
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
        """Return a copy without the given `words`; the passages in `found` stay the same."""
        kept = [place for place, word in enumerate(self.words) if word not in words]
        return replace(
            self, entries=tuple(self.entries[place] for place in kept), times=self.times[kept],
            words=tuple(self.words[place] for place in kept), idf=self.idf[kept],
        )  # fmt: skip

    def scores_of(self, passages: IntArray) -> FloatArray:
        """Return the BM25 scores of the passages with the ascending rows `passages`, an array of shape (n,).

        The scores equal the scores of these passages in :meth:`LexicalIndex.look_up`.
        """
        return self._sums(len(passages), self._occurrences(passages, self.entries))

    def held_by(self, passages: IntArray) -> BoolArray:
        """Return an (n, t) array of bool that says which of the t `words` are in each passage; the rows must ascend."""
        return self.read(passages)[1]

    def read(self, passages: IntArray, kept: dict[str, WordIn] | None = None) -> tuple[FloatArray, BoolArray]:
        """Return two arrays for n passages: the results of :meth:`scores_of` and of :meth:`held_by`.

        The rows `passages` must ascend. `kept` is a cache by word for repeated calls with the same passages.
        """
        found = self._occurrences(passages, self.entries) if kept is None else self._cached(passages, kept)
        held = np.zeros((len(passages), len(self.words)), dtype=np.bool_)
        held[found.there, np.repeat(np.arange(len(found.sizes)), found.sizes)] = True
        return self._sums(len(passages), found), held

    def counts_of(self, passages: IntArray) -> FloatArray:
        """Return the (n, t) number of occurrences of each word in each passage; the rows `passages` must ascend."""
        found = np.zeros((len(passages), len(self.words)))
        sizes, there, counts = self._counts(passages.astype(self.index.rows.dtype), self.entries)
        found[there, np.repeat(np.arange(len(sizes)), sizes)] = counts
        return found

    def _sums(self, count: int, found: _Occurrences) -> FloatArray:
        """Return the BM25 scores of `count` passages; the words of a passage are added in the query's order."""
        adds = np.repeat(self.times * self.idf, found.sizes) * found.shares
        return np.bincount(found.there, adds, count).astype(np.float64, copy=False)

    def _cached(self, passages: IntArray, kept: dict[str, WordIn]) -> _Occurrences:
        """Return the occurrences of the words in `passages`; read only the words that are not in the cache `kept`."""
        known = [kept.get(word) for word in self.words]
        new = [column for column, one in enumerate(known) if one is None]
        if new:
            read = self._occurrences(passages, [self.entries[column] for column in new])
            if len(kept) + len(new) > _MOST_KEPT:
                kept.clear()
            first = 0
            for column, size in zip(new, read.sizes, strict=True):
                part = slice(first, first := first + size)
                known[column] = kept[self.words[column]] = read.there[part], read.shares[part]
            if len(new) == len(known):
                return read
        parts = [one for one in known if one is not None]
        there, shares = map(np.concatenate, zip(*parts, strict=True)) if parts else (_NOWHERE, np.empty(0))
        return _Occurrences([len(one) for one, _ in parts], there, shares)

    def _occurrences(self, passages: IntArray, entries: Sequence[slice]) -> _Occurrences:
        """Find the words with the given entries in the passages with the ascending rows `passages`."""
        sought = passages.astype(self.index.rows.dtype)  # avoids a conversion of all entries
        sizes, there, counts = self._counts(sought, entries)
        return _Occurrences(sizes, there, counts / (counts + self.index._norms_of(sought)[there]))

    def _counts(self, sought: Int32Array, entries: Sequence[slice]) -> tuple[list[int], IntArray, Int32Array]:
        """Find the passages that contain words, among the ascending rows `sought`.

        `entries` are the slices of the words' entries. Returns the number of passages with each word. For each word in
        turn, also returns the positions in `sought` of these passages, and the number of occurrences in each.
        """
        found = [common(sought, self.index.rows[entry]) for entry in entries]
        if not found:
            return [], _NOWHERE, _NOWHERE.astype(np.int32)
        there, places = map(np.concatenate, zip(*found, strict=True))
        sizes = [len(one) for one, _ in found]
        places += np.repeat([entry.start for entry in entries], sizes)
        return sizes, there, self.index.counts[places]


@dataclass(frozen=True, slots=True, eq=False)
class ChangedTerms:
    """The words of a query in a collection that changed since it was indexed.

    The class has the methods of :class:`ListedTerms`. `old` are the terms of the original index, and `new` the terms of
    an index of the added passages. Rows of added passages follow the rows of the original index. `often` is the
    number of passages with each word. `found` and `best` are as in :class:`ListedTerms`.
    """

    old: ListedTerms
    new: ListedTerms
    found: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    best: float = 0.0
    often: tuple[int, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The query words that occur in the collection."""
        return self.old.words

    @property
    def idf(self) -> FloatArray:
        """The inverse document frequency (idf) of each word in `words`, an array of shape (t,)."""
        return self.old.idf

    @property
    def all_idf(self) -> Mapping[str, float]:
        """The idf of each query word, including words that do not occur in the collection."""
        return self.old.all_idf

    def without(self, words: Collection[str]) -> ChangedTerms:
        """Return a copy without the given `words`; the passages in `found` stay the same."""
        return replace(self, old=self.old.without(words), new=self.new.without(words))

    def scores_of(self, passages: IntArray) -> FloatArray:
        """Return the BM25 scores of the passages with the ascending rows `passages`, an array of shape (n,)."""
        scores = np.zeros(len(passages))
        for terms, there, rows in self._divided(passages):
            scores[there] = terms.scores_of(rows)
        return scores

    def held_by(self, passages: IntArray) -> BoolArray:
        """Return an (n, t) array of bool that says which of the t `words` are in each passage; the rows must ascend."""
        return self.read(passages)[1]

    def read(self, passages: IntArray, kept: dict[str, WordIn] | None = None) -> tuple[FloatArray, BoolArray]:
        """Return two arrays for the ascending rows `passages`: the results of :meth:`scores_of` and :meth:`held_by`.

        `kept` is a cache by word for the passages of the original index; see :meth:`ListedTerms.read`.
        """
        scores, held = np.zeros(len(passages)), np.zeros((len(passages), len(self.words)), dtype=np.bool_)
        for terms, there, rows in self._divided(passages):
            scores[there], held[there] = terms.read(rows, kept if terms is self.old else None)
        return scores, held

    def counts_of(self, passages: IntArray) -> FloatArray:
        """Return the (n, t) number of occurrences of each word in each passage; the rows `passages` must ascend."""
        found = np.zeros((len(passages), len(self.words)))
        for terms, there, rows in self._divided(passages):
            found[there] = terms.counts_of(rows)
        return found

    def _divided(self, passages: IntArray) -> Iterator[tuple[ListedTerms, IntArray, IntArray]]:
        count = len(self.old.index.lengths)
        later = passages >= count
        for terms, there, first in ((self.old, np.flatnonzero(~later), 0), (self.new, np.flatnonzero(later), count)):
            if len(there):
                yield terms, there, passages[there] - first


def foremost_of(terms: ListedTerms | ChangedTerms, parts: Sequence[Any], most: int) -> tuple[IntArray, float]:
    """Return the ascending rows of the best passages by BM25 among the rows in `parts`, and the best score.

    At most `most` rows are returned.
    """
    rows = distinct(np.concatenate(parts)).astype(np.int64) if parts else np.empty(0, dtype=np.int64)
    scores = terms.scores_of(rows)
    if len(rows) > most:
        kept = np.sort(np.argpartition(-scores, most)[:most])
        rows, scores = rows[kept], scores[kept]
    return rows, float(scores.max(initial=0.0))
