"""Search by words in a collection whose passages were added and removed since it was indexed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from phasegraph._support.recent import Recent
from phasegraph._support.typing import BoolArray, IntArray
from phasegraph.lexical.index import (
    HEAVIEST,
    MOST_ENTRIES,
    ChangedTerms,
    LexicalIndex,
    ListedTerms,
    foremost_of,
)
from phasegraph.lexical.tokenizers import tokenizer_of, tokens_of


class ChangedWords:
    """A BM25 index of a collection to which passages were added, and from which passages were removed.

    `old` is the original index. `new` is an index of the added passages, whose rows follow the rows of `old`. `left` is
    an index of the removed passages, and `gone` contains their rows in `old`, in ascending order.

    >>> old, new = LexicalIndex.of(["Ada met Bo.", "Bo sang."]), LexicalIndex.of(["Cy sang."])
    >>> words = ChangedWords(old, new, LexicalIndex.of(["Bo sang."]), np.array([1]))
    >>> terms, again = words.look_up_listed("Who sang?", 9), LexicalIndex.of(["Ada met Bo.", "Cy sang."])
    >>> terms.found.tolist(), bool(terms.best == again.look_up("Who sang?").scores[1])
    ([2], True)
    """

    def __init__(self, old: LexicalIndex, new: LexicalIndex, left: LexicalIndex, gone: IntArray) -> None:
        self.tokenizer, self._left, self._gone = old.tokenizer, left, gone
        self.count = len(old.lengths) - len(gone) + len(new.lengths)
        words = sum(sign * int(one.lengths.sum()) for sign, one in ((1, old), (-1, left), (1, new)))
        self._parts, self._recent = (replace(old), replace(new)), Recent()
        for one in self._parts:
            vars(one)["_mean_length"] = max(words / self.count, 1e-9)

    def look_up_listed(self, query: str, most: int) -> ChangedTerms:
        """Return the query's words and the rows of at most `most` passages, which are probably the best by BM25.

        :meth:`LexicalIndex.look_up_listed` describes the method, with one difference for a frequent word. The 500
        passages with the highest weight come from each of the two indexes. Removed passages are left out, and the 500
        passages with the highest weight among the remaining passages are read.
        """
        found: ChangedTerms = self._recent.get((most, query), lambda: self._look_up_listed(query, most))
        return found

    def terms(self, query: str) -> ChangedTerms:
        """Return the query's words and their statistics, without searching for passages."""
        found: ChangedTerms = self._recent.get(query, lambda: self._terms(query))
        return found

    def lengths_of(self, rows: IntArray) -> IntArray:
        """Return the number of words in each of the passages `rows`."""
        old, new = (one.lengths for one in self._parts)
        later = rows >= len(old)
        found = np.empty(len(rows), dtype=np.int64)
        found[~later], found[later] = old[rows[~later]], new[rows[later] - len(old)]
        return found

    def _terms(self, query: str) -> ChangedTerms:
        asked = Counter(tokens_of(tokenizer_of(self.tokenizer), query))
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
        return ChangedTerms(old, new, often=tuple(often[word] for word in found))

    def _look_up_listed(self, query: str, most: int) -> ChangedTerms:
        terms = self.terms(query)
        parts: list[IntArray] = []
        count = 0
        for place in np.argsort(terms.often, kind="stable").tolist():
            both = terms.old.entries[place], terms.new.entries[place]
            if count + terms.often[place] <= MOST_ENTRIES:
                parts.append(self._rows(*(one.rows[each] for one, each in zip(self._parts, both, strict=True))))
            elif count < most:
                parts.append(self._heaviest(*both))
            else:
                break
            count += len(parts[-1])
        found, best = foremost_of(terms, parts, most)
        return replace(terms, found=found, best=best)

    def _rows(self, old: Any, new: Any) -> IntArray:
        """Return the rows of passages of the changed collection, without removed passages.

        `old` are rows in the original index, and `new` are rows in the index of added passages.
        """
        return np.concatenate([old[self._stay(old)], new.astype(np.int64) + len(self._parts[0].lengths)])

    def _stay(self, rows: Any) -> BoolArray:
        if not len(self._gone):
            return np.ones(len(rows), dtype=np.bool_)
        there: BoolArray = self._gone[np.minimum(np.searchsorted(self._gone, rows), len(self._gone) - 1)] != rows
        return there

    def _heaviest(self, *entries: slice) -> IntArray:
        """Return the rows of the 500 passages in which a frequent word has the highest weight, ascending.

        `entries` are the slices of the word's entries in the original index and in the index of added passages.
        """
        heavy = [one._heaviest(entry) for one, entry in zip(self._parts, entries, strict=True)]
        weights = []
        for one, entry, rows in zip(self._parts, entries, heavy, strict=True):
            counts = one.counts[entry.start + np.searchsorted(one.rows[entry], rows)]
            weights.append(counts / (counts + one._norms_of(rows)))
        found, weighed = self._rows(*heavy), np.concatenate([weights[0][self._stay(heavy[0])], weights[1]])
        return np.sort(found[np.lexsort((found, -weighed))[:HEAVIEST]])
