"""Arrays and texts of a base graph and of a change log, combined without copying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phasegraph._support.products import times_vector
from phasegraph._support.typing import Int32Array


class StackedTexts(Sequence[str]):
    """A sequence that contains the texts of one sequence, then the texts of a tuple."""

    def __init__(self, first: Sequence[str], more: tuple[str, ...]) -> None:
        self._first, self._more, self._count = first, more, len(first)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return tuple(self[each] for each in range(*row.indices(len(self))))
        return self._first[row] if row < self._count else self._more[row - self._count]

    def __len__(self) -> int:
        return self._count + len(self._more)


class StackedRows:
    """A two-dimensional array that contains the rows of one array, then the rows of another array, without a copy."""

    def __init__(self, first: Any, more: Any) -> None:
        self._first, self._more = first, more
        self.shape, self.dtype = (len(first) + len(more), first.shape[1]), first.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> Any:
        wanted, count = np.asarray(rows), len(self._first)
        if not wanted.ndim:
            return self._first[wanted] if wanted < count else self._more[wanted - count]
        out = np.empty((len(wanted), self.shape[1]), dtype=self.dtype)
        old = wanted < count
        out[old], out[~old] = self._first[wanted[old]], self._more[wanted[~old] - count]
        return out

    def times(self, vector: Any) -> Any:
        """Compute the dot product of each row and a vector."""
        return np.concatenate([times_vector(self._first, vector), times_vector(self._more, vector)])


class ComputedArray:
    """An array that computes its values on demand: ``take(positions)`` returns the values at these positions."""

    def __init__(self, take: Callable[[Any], Any]) -> None:
        self.take = take

    def __getitem__(self, places: Any) -> Any:
        return self.take(np.asarray(places))


def patched(
    base: Any, slots: Int32Array, values: Any, moved: Callable[[Any], Any] = lambda places: places
) -> ComputedArray:
    """Return an array that computes its values on demand: the values of `base`, with some values replaced.

    The value at position p is ``values[slots[p] - 1]`` if ``slots[p]`` is positive, and otherwise ``base[moved(p)]``.
    The function `moved` converts positions in the result to positions in `base`.
    """

    def take(places: Any) -> Any:
        slot = slots.take(places)
        own = slot > 0
        if own.all():
            return values.take(slot - 1)
        out = base.take(np.where(own, 0, moved(places)))
        out[own] = values.take(slot[own] - 1)
        return out

    return ComputedArray(take)
