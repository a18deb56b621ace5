"""The union of the rankings, ranks with ties, and the one tie rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from phasegraph._typing import FloatArray, IntArray
from phasegraph.candidates.numbers import all_true
from phasegraph.candidates.ranking import Ranking
from phasegraph.errors import InvalidInputError

_STRIDES = 64


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
            out[:, column] = np.nan if fill is None else fill[column]
            out[rows, column] = values
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
    present = sorted((ranking for ranking in rankings if len(ranking)), key=lambda ranking: ranking.source)
    names = tuple([ranking.source for ranking in present])
    if len(set(names)) != len(names):
        raise InvalidInputError(f"rankings must come from sources with different names; got {names}")
    if not present:
        return Candidates((), (), (), ())
    largest, *others = sorted(range(len(present)), key=lambda column: (-len(present[column]), names[column]))
    rows_of: dict[int, IntArray] = {largest: np.arange(len(present[largest]))}
    row_of, first = present[largest].row_of, len(present[largest])
    added: dict[str, int] = {}  # the ids that the largest ranking lacks
    for column in others:
        ids = present[column].ids
        pairs = zip(ids, map(row_of, ids), strict=True)
        rows = [added.setdefault(one, first + len(added)) if row is None else row for one, row in pairs]
        rows_of[column] = np.array(rows, dtype=np.intp)
    for array in rows_of.values():
        array.setflags(write=False)
    positions = tuple([rows_of[column] for column in range(len(present))])
    return Candidates((*present[largest].ids, *added), names, tuple(present), positions)


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
    rows = np.arange(count)
    kept = values
    if wanted < count:
        bound = _bound(values, wanted)
        if bound is not None:
            rows = (values >= bound).nonzero()[0]
            kept = values[rows]
        if len(rows) > wanted:
            ordered = kept.copy()
            ordered.partition(len(rows) - wanted)
            inside = (kept >= ordered[len(rows) - wanted]).nonzero()[0]
            rows, kept = rows[inside], kept[inside]
    order = (-kept).argsort(kind="stable")
    rows, kept = rows[order], kept[order]
    if not all_true(kept[1:] != kept[:-1]):
        rows = np.array(sorted(rows.tolist(), key=lambda row: (-values[row], ids[row])), dtype=np.intp)
    return rows[:wanted]


def _bound(values: FloatArray, wanted: int) -> float | None:
    """A value that at least `wanted` of many values reach, close to their `wanted`-th largest; None for few values.

    The largest of every 64 are compared instead of all; they are taken in strides, because lists come ordered.
    """
    width = len(values) // _STRIDES
    if wanted > width:
        return None
    peaks = values[: width * _STRIDES].reshape(_STRIDES, width).max(axis=0)
    peaks.partition(width - wanted)
    return float(peaks[width - wanted])
