"""Choose passages that have different words of a question: the seeds of a walk, and the first of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from phasegraph._support.ordering import top_order
from phasegraph._support.typing import BoolArray, FloatArray, IntArray
from phasegraph.graph.walk.settings import WordSettings

_OF_CLAUSE = 3
"""Passages that a clause brings in by itself."""


class Terms(Protocol):
    """The words of a query as :class:`~phasegraph.lexical.QueryTerms` has them, of all passages or of some."""

    @property
    def scores(self) -> FloatArray:
        """(n,) BM25."""
        ...

    @property
    def words(self) -> tuple[str, ...]:
        """Those that the collection has."""
        ...

    @property
    def idf(self) -> FloatArray:
        """(t,) of these."""
        ...

    @property
    def all_idf(self) -> Mapping[str, float]:
        """Of every word of the query."""
        ...

    @property
    def shares(self) -> FloatArray:
        """(t,) shares of the words in their idf."""
        ...

    def held_by(self, passages: IntArray, /) -> BoolArray:
        """(n, t) which of the passages has which of the words."""
        ...


@dataclass(frozen=True, slots=True)
class LocalIds(Sequence[str]):
    """The ids of some passages, looked up one by one."""

    passages: Sequence[str]
    rows: IntArray

    def __getitem__(self, place: Any) -> Any:
        return self.passages[int(self.rows[place])]

    def __len__(self) -> int:
        return len(self.rows)


def cover(values: FloatArray, worths: FloatArray, count: int) -> tuple[IntArray, Any]:
    """Pick `count` greedily by value, and by what each pick adds to the picks before it.

    `worths` (n, j) say what each place is worth for each of j aspects, such as the words of a query. An aspect adds
    what the place is worth for it beyond the best pick so far. Returns places in the order of picking, and what each
    pick was worth. The worth falls along the picks, and nothing left out is worth more than the last pick: what a place
    adds only shrinks.

    >>> worths = 2 * np.array([[0.4, 0.0], [0.4, 0.0], [0.0, 0.6]])
    >>> cover(np.array([0.9, 0.8, 0.1]), worths, 3)[0].tolist()
    [0, 2, 1]
    """
    left, gains = values.astype(np.float64), np.maximum(worths, 0.0)
    picked: list[int] = []
    worth: list[float] = []
    count = min(count, len(values))
    while len(picked) < count and gains.any():
        total = left + gains.sum(axis=1)  # a product would not let equal rows tie
        place = int(total.argmax())
        picked.append(place)
        worth.append(float(total[place]))
        left[place] = -np.inf
        gains = np.maximum(gains - gains[place], 0.0)
    rest = (-left).argsort(kind="stable")[: count - len(picked)]  # nothing is left to add
    return np.array([*picked, *rest.tolist()], dtype=np.intp), np.array([*worth, *left[rest].tolist()])


def seeds_by_words(
    relevance: FloatArray, terms: Terms, ids: Sequence[str], count: int, sharpness: float, settings: WordSettings
) -> tuple[IntArray, FloatArray]:
    """Rows and masses, which sum to 1, of at most `count` relevant passages that have different words of the query."""
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
    """The first `limit` of these rows with scores that fall, rearranged to answer the whole question early.

    Of the best passages, and of the three best for each clause, those come first that add words of the question, or
    answer clauses, which the passages before them do not. `parts` (c, n) are the worths of passages for clauses.
    """
    wanted = None if limit is None else max(limit, settings.cover_pool)
    seen = rows
    if wanted is not None and wanted < len(rows):
        rows = rows[scores[rows] >= np.partition(scores[rows], len(rows) - wanted)[len(rows) - wanted]]
    order = rows[top_order(scores[rows], LocalIds(ids, rows), wanted)]
    head = order[: settings.cover_pool]
    if parts is not None:
        foremost = [seen[top_order(part[seen], LocalIds(ids, seen), _OF_CLAUSE)] for part in parts]
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
