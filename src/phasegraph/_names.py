"""Names in ascending order: found by bisection, and merged with new ones without sorting all again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress

import numpy as np

from phasegraph._packed import PackedTexts, place_of
from phasegraph._typing import BoolArray, IntArray


class NameRows(Mapping[str, int]):
    """The row of each of some names, which ascend.

    >>> dict(NameRows(("ada", "bo")))
    {'ada': 0, 'bo': 1}
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def __getitem__(self, name: str) -> int:
        row = place_of(self.names, name)
        if row == len(self.names) or self.names[row] != name:
            raise KeyError(name)
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def merged_names(old: Sequence[str], alive: BoolArray, new: Iterable[str]) -> tuple[Sequence[str], IntArray]:
    """The old names that are alive and the new ones, ascending, and the new row of each old one (-1: it is gone).

    >>> merged_names(("ada", "bo", "dee"), np.array([True, False, True]), ["cy", "ada"])
    (('ada', 'cy', 'dee'), array([ 0, -1,  2]))
    """
    fresh, revived = [], alive.copy()
    for name in new:
        row = place_of(old, name)
        if row < len(old) and old[row] == name:
            revived[row] = True
        else:
            fresh.append((row, name))
    fresh.sort()
    names: Sequence[str]
    if isinstance(old, PackedTexts):
        names = old.edited(revived, fresh) if fresh or not revived.all() else old
    else:
        kept = old if revived.all() else tuple(compress(old, revived.tolist()))
        names = tuple(sorted([*kept, *(name for _, name in fresh)])) if fresh else kept
    before = np.searchsorted([row for row, _ in fresh], np.arange(len(old)), side="right")
    return names, np.where(revived, np.cumsum(revived) - 1 + before, -1)
