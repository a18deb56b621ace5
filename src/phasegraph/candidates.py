"""The union of several rankings of one query.

:func:`pool` joins rankings by id into :class:`Candidates`. A score that a source did not return is NaN and never zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from operator import attrgetter
from typing import Literal

import numpy as np

from phasegraph._support.shared import kept_while_short
from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.errors import InvalidInputError
from phasegraph.ranking import Ranking

_IDS, _SOURCE = attrgetter("ids"), attrgetter("source")

_ABSENT = repeat(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The union of several rankings of one query.

    Parameters
    ----------
    ids : tuple of str
        The n distinct ids. Their order depends on the contents of the rankings, not on the order of the rankings.
    sources : tuple of str
        The m source names, ascending.
    rankings : tuple of Ranking
        One per source, in the order of `sources`.
    positions : tuple of (n_j,) array of int
        For each ranking, an array with the row in `ids` of each of its n_j hits.
    """

    ids: tuple[str, ...]
    sources: tuple[str, ...]
    rankings: tuple[Ranking, ...]
    positions: tuple[IntArray, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def scores(self) -> FloatArray:
        """The scores, an array of shape (n, m) with a column per source.

        Each column is in its source's own unit, and a higher score is better. NaN means that the source did not return
        the candidate.
        """
        return self.spread([ranking.scores for ranking in self.rankings])

    @property
    def returned(self) -> IntArray:
        """The number of sources that returned each candidate, (n,) array of int from 1 to m."""
        counts = np.zeros(len(self.ids), dtype=np.intp)
        for rows in self.positions:
            counts[rows] += 1
        return counts

    def ranking_of(self, source: str) -> Ranking:
        """Return the ranking of a source."""
        return self.rankings[self.sources.index(source)]

    def without(self, sources: frozenset[str]) -> Candidates:
        """Return the candidates without the rankings of some sources."""
        if sources.isdisjoint(self.sources):
            return self
        keep = [column for column, name in enumerate(self.sources) if name not in sources]
        return Candidates(
            self.ids,
            tuple(self.sources[column] for column in keep),
            tuple(self.rankings[column] for column in keep),
            tuple(self.positions[column] for column in keep),
        )

    def spread(self, columns: Sequence[FloatArray], fill: Sequence[float] | None = None) -> FloatArray:
        """Arrange values of hits in an (n, m) array with a row per candidate and a column per source.

        `columns` contains an array per ranking, with the values of its hits. A candidate that a source did not return
        gets the source's value in `fill`, or NaN without `fill`.
        """
        out = np.empty((len(self.ids), len(self.sources)), order="F")
        for column, (rows, values) in enumerate(zip(self.positions, columns, strict=True)):
            target, lacking = out[:, column], np.nan if fill is None else fill[column]
            count = len(values)
            if rows is _first_rows(count):
                target[:count] = values
                target[count:] = lacking
            else:
                target.fill(lacking)
                target[rows] = values
        return out


def pool(rankings: Sequence[Ranking]) -> Candidates:
    """Combine rankings into candidates by id.

    Parameters
    ----------
    rankings : sequence of Ranking
        At most one per source name; empty rankings are ignored.

    Returns
    -------
    Candidates
        The candidates; their sources are in name order. The order of `rankings` does not matter.

    Raises
    ------
    InvalidInputError
        If two rankings have the same source name.

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
    positions = [_first_rows(first)] * len(present)
    added: list[str] = []  # the ids that the largest ranking lacks
    for column in others:
        ids = present[column].ids
        positions[column] = rows = np.fromiter(map(largest.row_of, ids, _ABSENT), np.intp, lengths[column])
        lacking = rows < 0
        fresh = [ids[row] for row in lacking.nonzero()[0].tolist()]
        if added:
            row_of = {one: row for row, one in enumerate(added, first)}
            rows[lacking] = [row_of.setdefault(one, first + len(row_of)) for one in fresh]
            added = list(row_of)
        else:
            added = list(fresh)
            rows[lacking] = np.arange(first, first + len(added))
    for array in positions:
        array.setflags(write=False)
    return Candidates(tuple(largest.ids) + tuple(added), names, present, tuple(positions))


@kept_while_short
def _first_rows(count: int) -> IntArray:
    """Return the row numbers 0 to `count` - 1 as a read-only array."""
    rows = np.arange(count)
    rows.setflags(write=False)
    return rows


PoolCapMode = Literal["list", "unique_only"]


def cap_ranking(ranking: Ranking, cap: int, mode: PoolCapMode, elsewhere: frozenset[str]) -> Ranking:
    """Cut a ranking to a maximum number of hits.

    Parameters
    ----------
    ranking : Ranking
        The ranking to cut.
    cap : int
        Maximum number of counted hits.
    mode : {"list", "unique_only"}
        ``list`` counts all hits; ``unique_only`` counts only hits whose ids are not in `elsewhere`.
    elsewhere : frozenset of str
        Ids that other sources returned.

    Returns
    -------
    Ranking
        The `cap` best counted hits and all hits that do not count.
    """
    if mode == "list":
        rows = list(range(min(cap, len(ranking))))
    else:
        rows, alone = [], 0
        for row, identifier in enumerate(ranking.ids):
            if identifier in elsewhere:
                rows.append(row)
            elif alone < cap:
                rows.append(row)
                alone += 1
    if len(rows) == len(ranking):
        return ranking
    raw = None if ranking.raw is None else ranking.raw[rows]
    return replace(ranking, ids=[ranking.ids[row] for row in rows], scores=ranking.scores[rows], raw=raw)


def apply_caps(rankings: Sequence[Ranking], caps: Mapping[str, int], mode: PoolCapMode) -> list[Ranking]:
    """Cut the ranking of every source that has a cap, and remove empty rankings.

    Parameters
    ----------
    rankings : sequence of Ranking
        The rankings of all sources.
    caps : mapping of str to int
        Maximum number of hits by source name.
    mode : {"list", "unique_only"}
        The hits that count; see :func:`cap_ranking`.

    Returns
    -------
    list of Ranking
        The rankings in the given order.
    """
    capped = []
    for ranking in rankings:
        cap = caps.get(ranking.source)
        if cap is not None:
            others = frozenset(i for other in rankings if other is not ranking for i in other.ids)
            ranking = cap_ranking(ranking, cap, mode, others if mode == "unique_only" else frozenset())
        if len(ranking):
            capped.append(ranking)
    return capped
