"""The union of the rankings, ranks with ties, and the one tie rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress, repeat
from operator import attrgetter

import numpy as np

from phasegraph._typing import FloatArray, IntArray
from phasegraph.candidates.numbers import all_true
from phasegraph.candidates.ranking import Ranking
from phasegraph.errors import InvalidInputError

_STRIDES = 64
_FEW = 32
_IDS, _SOURCE = attrgetter("ids"), attrgetter("source")
_ABSENT = repeat(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The union of several rankings of one query.

    Parameters
    ----------
    ids : tuple of str
        The n distinct ids. Their order is fixed by the content of the rankings, not by how they were given.
    sources : tuple of str
        The m source names, ascending.
    rankings : tuple of Ranking
        One per source, in the order of `sources`.
    positions : tuple of (n_j,) array of int
        For each ranking, the row in `ids` of each of its hits.
    """

    ids: tuple[str, ...]
    sources: tuple[str, ...]
    rankings: tuple[Ranking, ...]
    positions: tuple[IntArray, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def scores(self) -> FloatArray:
        """(n, m) array: each column in its source's own unit, higher is better, NaN = not returned."""
        return self.spread([ranking.scores for ranking in self.rankings])

    @property
    def returned(self) -> IntArray:
        """(n,) array of int: how many sources returned each candidate, 1 to m."""
        counts = np.zeros(len(self.ids), dtype=np.intp)
        for rows in self.positions:
            counts[rows] += 1
        return counts

    def spread(self, columns: Sequence[FloatArray], fill: Sequence[float] | None = None) -> FloatArray:
        """Per-hit values of each ranking laid out as an (n, m) array, NaN or `fill` where not returned."""
        out = np.empty((len(self.ids), len(self.sources)), order="F")
        for column, (rows, values) in enumerate(zip(self.positions, columns, strict=True)):
            target = out[:, column]
            target.fill(np.nan if fill is None else fill[column])
            target[rows] = values
        return out


def pool(rankings: Sequence[Ranking]) -> Candidates:
    """Union of the rankings by id.

    Parameters
    ----------
    rankings : sequence of Ranking
        At most one per source name; empty ones are left out.

    Returns
    -------
    Candidates
        Sources in name order; the same for any order of `rankings`.

    Raises
    ------
    InvalidInputError
        If two rankings carry the same source name.

    Examples
    --------
    >>> found = pool([Ranking("v", ["a", "b"], [0.9, 0.5]), Ranking("g", ["b"], [3.0])])
    >>> found.ids, found.sources
    (('a', 'b'), ('g', 'v'))
    >>> found.scores
    array([[nan, 0.9],
           [3. , 0.5]])
    """
    present = tuple(sorted(filter(_IDS, rankings), key=_SOURCE))
    names = tuple(map(_SOURCE, present))
    if len(set(names)) != len(names):
        raise InvalidInputError(f"rankings must come from sources with different names; got {names}")
    if not present:
        return Candidates((), (), (), ())
    lengths = list(map(len, map(_IDS, present)))
    column, *others = sorted(range(len(present)), key=lengths.__getitem__, reverse=True)
    largest, first = present[column], lengths[column]
    positions = [np.arange(first)] * len(present)
    added: list[str] = []  # the ids that the largest ranking lacks
    for column in others:
        ids = present[column].ids
        positions[column] = rows = np.fromiter(map(largest.row_of, ids, _ABSENT), np.intp, lengths[column])
        lacking = rows < 0
        fresh = compress(ids, lacking.tobytes())
        if added:
            row_of = {one: row for row, one in enumerate(added, first)}
            rows[lacking] = [row_of.setdefault(one, first + len(row_of)) for one in fresh]
            added = list(row_of)
        else:
            added = list(fresh)
            rows[lacking] = np.arange(first, first + len(added))
    for array in positions:
        array.setflags(write=False)
    return Candidates((*largest.ids, *added), names, present, tuple(positions))


def tied_ranks(values: FloatArray, /) -> FloatArray:
    """Ranks from 1, best (highest) first, ties sharing their mean rank.

    Parameters
    ----------
    values : (n,) array of float
        Higher is better; NaN = not returned, and stays NaN.

    Returns
    -------
    (n,) array of float
        In [1, n] or NaN.

    Examples
    --------
    >>> tied_ranks(np.array([0.2, 0.9, 0.2, np.nan]))
    array([2.5, 1. , 2.5, nan])
    """
    out = np.full(len(values), np.nan)
    present = np.flatnonzero(~np.isnan(values))
    if not len(present):
        return out
    order = present[np.argsort(-values[present], kind="stable")]
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    ends = np.r_[starts[1:], len(ordered)]
    out[order] = np.repeat((starts + 1 + ends) / 2.0, ends - starts)
    return out


def top_order(values: FloatArray, ids: Sequence[str], k: int | None = None) -> IntArray:
    """Rows of the first `k` by (value descending, id ascending): the tie rule of the whole library.

    Parameters
    ----------
    values : (n,) array of float
        Not NaN.
    ids : sequence of str
        The n ids.
    k : int, optional
        How many; default all.

    Returns
    -------
    (min(k, n),) array of int

    Examples
    --------
    >>> top_order(np.array([0.5, 0.9, 0.5]), ["b", "c", "a"], 2)
    array([1, 2])
    """
    count = len(values)
    wanted = count if k is None else min(k, count)
    if wanted <= 0:
        return np.empty(0, dtype=np.intp)
    bound = _bound(values, wanted) if wanted < count else None
    rows = np.arange(count) if bound is None else (values >= bound).nonzero()[0]
    kept = values if bound is None else values[rows]
    if wanted < len(rows) and len(rows) > _FEW:
        ordered = kept.copy()
        ordered.partition(len(rows) - wanted)
        inside = (kept >= ordered[len(rows) - wanted]).nonzero()[0]
        rows, kept = rows[inside], kept[inside]
    if len(rows) > _FEW:
        order = (-kept).argsort(kind="stable")
        rows, kept = rows[order], kept[order]
        if all_true(kept[1:] != kept[:-1]):
            return rows[:wanted]
    return _sorted(rows.tolist(), kept.tolist(), ids)[:wanted]


def _sorted(rows: list[int], values: list[float], ids: Sequence[str]) -> IntArray:
    """The rows by (value descending, id ascending)."""
    pairs = sorted([(-value, ids[row], row) for value, row in zip(values, rows, strict=True)])
    return np.array([row for _, _, row in pairs], dtype=np.intp)


def _bound(values: FloatArray, wanted: int) -> float | None:
    """A value that at least `wanted` of many values reach, close to their `wanted`-th largest; None for few values.

    The largest of every 64 are compared instead of all; they are taken in strides, because lists come ordered.
    """
    width = len(values) // _STRIDES
    if wanted > width:
        return None
    peaks = np.maximum.reduce(values[: width * _STRIDES].reshape(_STRIDES, width), axis=0)
    peaks.partition(width - wanted)
    return float(peaks[width - wanted])
