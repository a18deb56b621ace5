"""Arrays and texts of a base and of a log, combined into one sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phasegraph._support.products import times_vector
from phasegraph._support.typing import Int32Array


class StackedTexts(Sequence[str]):
    """Two sequences of texts as one sequence."""

    def __init__(self, first: Sequence[str], more: tuple[str, ...]) -> None:
        self._first, self._more = first, more

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return tuple(self[each] for each in range(*row.indices(len(self))))
        return self._first[row] if row < len(self._first) else self._more[row - len(self._first)]

    def __len__(self) -> int:
        return len(self._first) + len(self._more)


class StackedRows:
    """The rows of two arrays as one array."""

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
        """Multiply the rows with a vector."""
        return np.concatenate([times_vector(self._first, vector), times_vector(self._more, vector)])


class ComputedArray:
    """An array whose values are computed on demand for the requested positions."""

    def __init__(self, take: Callable[[Any], Any]) -> None:
        self.take = take

    def __getitem__(self, places: Any) -> Any:
        return self.take(np.asarray(places))


def patched(
    base: Any, slots: Int32Array, values: Any, moved: Callable[[Any], Any] = lambda places: places
) -> ComputedArray:
    """Return `base` with replaced values; a slot s > 0 selects `values[s - 1]`, 0 selects the base value at `moved`.

    `values[s - 1]` where slot s is not 0, else the base value at its `moved` row.
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
