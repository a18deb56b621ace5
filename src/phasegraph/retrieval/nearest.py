"""Which vectors of a store in memory can be the nearest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._support.typing import BoolArray, Float32Array, IntArray

_ROUNDING = 2.4e-7


class Nearest:
    """The vectors of a store as one matrix of unit length, made anew when any of them is another object.

    >>> Nearest().rows([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 0.1], 2)
    array([0, 2])
    """

    __slots__ = ("_held", "_unit")

    def __init__(self) -> None:
        self._held: Sequence[object] = ()
        self._unit: Float32Array | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Nearest, ()

    def rows(
        self, vectors: Iterable[Sequence[float]], query: ArrayLike, count: int, allowed: BoolArray | None = None
    ) -> IntArray | None:
        """Rows whose cosine with the query may be among the `count` highest, ties and rounding included; ascending.

        Among the `allowed` rows, if they are given. None where it cannot be said: vectors of unequal lengths, of
        length 0 or not finite.
        """
        listed = list(vectors)
        if len(listed) != len(self._held) or not all(map(is_, listed, self._held)):
            self._held, self._unit = listed, _unit(listed)
        asked = _unit([query])
        if self._unit is None or asked is None or asked.shape[1] != self._unit.shape[1]:
            return None
        cosines = self._unit @ asked[0]
        chosen = np.arange(len(listed)) if allowed is None else np.flatnonzero(allowed)
        if len(chosen) <= count:
            return chosen
        among = cosines[chosen]
        lowest = np.partition(among, len(among) - count)[len(among) - count]
        return np.asarray(chosen[among >= lowest - _ROUNDING * (asked.shape[1] + 10)])


def _unit(vectors: Sequence[ArrayLike]) -> Float32Array | None:
    try:
        rows = np.array(vectors, dtype=np.float32)
    except (ValueError, TypeError):
        return None
    if rows.ndim != 2:
        return None
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    if not len(rows) or not (np.isfinite(lengths).all() and lengths.min() > 1e-15):
        return None
    rows /= lengths[:, None].astype(np.float32)
    return rows
