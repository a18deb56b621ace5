"""Choose passages that together contain many words of a question: as seeds of a walk, or as an answer's first hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from phasegraph._support.ordering import top_order
from phasegraph._support.packed import texts_at
from phasegraph._support.typing import BoolArray, FloatArray, Int32Array, IntArray
from phasegraph.graph.walk.settings import WordSettings

_OF_CLAUSE = 3
"""Number of best passages per clause that are candidates for the first positions."""


class Terms(Protocol):
    """The interface of objects that look up a query's words in n passages.

    :class:`~phasegraph.graph.walk.listed_relevance.LocalTerms` looks up words in some passages, and
    :class:`~phasegraph.lexical.QueryTerms` in all passages.
    """

    @property
    def scores(self) -> FloatArray:
        """The BM25 scores of the n passages, an array of shape (n,)."""
        ...

    @property
    def words(self) -> tuple[str, ...]:
        """The t query words that occur in the collection."""
        ...

    @property
    def idf(self) -> FloatArray:
        """The inverse document frequency (idf) of each word in `words`, an array of shape (t,)."""
        ...

    @property
    def all_idf(self) -> Mapping[str, float]:
        """The idf of each query word, including words that do not occur in the collection."""
        ...

    @property
    def shares(self) -> FloatArray:
        """The idf of each word in `words`, as a share of the sum of all idf, an array of shape (t,)."""
        ...

    def held_by(self, passages: IntArray, /) -> BoolArray:
        """Return a boolean array of shape (m, t): True if passage ``passages[i]`` contains the word ``words[j]``."""
        ...


@dataclass(frozen=True, slots=True)
class LocalIds(Sequence[str]):
    """A sequence of the ids of the passages in `rows`; each id is looked up when it is read."""

    passages: Sequence[str]
    rows: IntArray | Int32Array

    def __getitem__(self, place: Any) -> Any:
        return self.passages[int(self.rows[place])]

    def texts_at(self, places: IntArray) -> list[str]:
        """Return the ids of the passages at the given positions of `rows`."""
        return texts_at(self.passages, self.rows[places])

    def __len__(self) -> int:
        return len(self.rows)


def cover(values: FloatArray, worths: FloatArray, count: int) -> tuple[IntArray, Any]:
    """Greedily pick `count` of n positions that have a high value and cover aspects that earlier picks do not cover.

    `values` has shape (n,). `worths` has shape (n, j): the worth of each position for j aspects, such as the words of a
    query. Each pick has the greatest sum of value and added worth. The added worth of a position for an aspect is the
    amount by which its worth exceeds the worth of the best earlier pick. Returns the positions in the order of picking,
    and the sum of each pick. The sums descend, and no remaining position has a greater sum than the last pick.

    >>> worths = 2 * np.array([[0.4, 0.0], [0.4, 0.0], [0.0, 0.6]])
    >>> cover(np.array([0.9, 0.8, 0.1]), worths, 3)[0].tolist()
    [0, 2, 1]
    """
    left, gains = values.astype(np.float64), np.maximum(worths, 0.0)
    picked: list[int] = []
    worth: list[float] = []
    count = min(count, len(values))
    while len(picked) < count and gains.any():
        total = left + np.add.reduce(gains, axis=1)  # not a matrix product, which can give equal rows different sums
        place = int(total.argmax())
        picked.append(place)
        worth.append(float(total[place]))
        left[place] = -np.inf
        gains -= gains[place].copy()
        np.maximum(gains, 0.0, out=gains)
    rest = (-left).argsort(kind="stable")[: count - len(picked)]  # no position adds worth: sort by value
    return np.array([*picked, *rest.tolist()], dtype=np.intp), np.array([*worth, *left[rest].tolist()])


def seeds_by_words(
    relevance: FloatArray, terms: Terms, ids: Sequence[str], count: int, sharpness: float, settings: WordSettings
) -> tuple[IntArray, FloatArray]:
    """Choose as seeds at most `count` relevant passages that together contain many query words.

    `relevance`, of shape (n,), is the relevance of the passages `ids`. Passages are chosen one after another. The worth
    of a passage is its relevance, plus a bonus for query words that no earlier chosen passage contains. Returns the
    positions of the chosen passages, and their masses, which sum to 1. A mass is proportional to the worth, raised to
    the power `sharpness`.
    """
    best = top_order(relevance, ids, settings.seed_pool)
    best = best[relevance[best] > 0]
    worths = np.where(terms.held_by(best), settings.seed_cover * terms.shares, 0.0)
    places, worth = cover(relevance[best], worths, count)
    masses = (worth / worth[0]) ** sharpness if len(worth) else worth
    return best[places], masses / masses.sum() if len(masses) else masses


def covering(
    scores: FloatArray,
    rows: IntArray,
    ids: Sequence[str],
    terms: Terms,
    limit: int | None,
    settings: WordSettings,
    parts: FloatArray | None = None,
) -> tuple[IntArray, FloatArray]:
    """Move up passages that answer parts of the question that no earlier passage answers.

    `rows` are the positions of the passages to rank; `scores`, `ids` and `terms` describe all n passages. Candidates
    are the best passages, and the three best passages for each clause. A candidate moves up if it contains question
    words that no earlier passage contains, or answers a clause that no earlier passage answers. `parts`, of shape (c,
    n), is the worth of each passage for each clause; None without clauses. Returns the first `limit` positions (None:
    all) and their new scores, in descending order of these scores.
    """
    wanted = None if limit is None else max(limit, settings.cover_pool)
    order = rows[top_order(scores[rows], LocalIds(ids, rows), wanted)]
    head = order[: settings.cover_pool]
    if parts is not None:
        foremost = [rows[top_order(part[rows], LocalIds(ids, rows), _OF_CLAUSE)] for part in parts]
        more = np.setdiff1d(np.concatenate(foremost), head)
        head = np.concatenate([head, more[top_order(scores[more], LocalIds(ids, more), None)]])
        later = order[settings.cover_pool :]
        order = np.concatenate([head, later[~np.isin(later, more)]])
    worths = np.where(terms.held_by(head), settings.cover * terms.shares, 0.0)
    if parts is not None:
        worths = np.hstack([worths, parts[:, head].T])
    places, worth = cover(scores[head], worths, settings.cover_picks)
    rest: BoolArray = np.ones(len(order), dtype=np.bool_)
    rest[places] = False
    left = order[rest]
    if parts is not None:
        left = left[top_order(scores[left], LocalIds(ids, left), None)]
    order, values = np.concatenate([head[places], left]), np.concatenate([worth, scores[left]])
    return order[:limit], values[:limit]
