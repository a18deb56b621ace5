"""Find the vectors of an in-memory store that can be among the nearest to a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._support.ordering import possibly_best
from phasegraph._support.products import times_vector
from phasegraph._support.typing import BoolArray, Float32Array, IntArray


class Nearest:
    """The vectors of an in-memory store, as a matrix of unit vectors that is rebuilt if any vector object changes.

    >>> Nearest().rows([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 0.1], 2)
    array([0, 2])
    """

    __slots__ = ("_held", "_unit")

    def __init__(self) -> None:
        self._held: Sequence[object] = ()
        self._unit: Float32Array | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Nearest, ()

    def hold(self, vectors: Iterable[Sequence[float]]) -> Sequence[object]:
        """Return the vectors as a list, and rebuild the matrix if any vector is not the same object as before."""
        listed = list(vectors)
        if len(listed) != len(self._held) or not all(map(is_, listed, self._held)):
            self._held, self._unit = listed, _unit(listed)
        return listed

    def rows(
        self, vectors: Iterable[Sequence[float]], query: ArrayLike, count: int, allowed: BoolArray | None = None
    ) -> IntArray | None:
        """Return the row numbers of vectors whose cosine with the query may be among the `count` highest.

        The numbers ascend, and include a margin for ties and rounding. The mask `allowed` gives the rows to consider;
        None considers all rows. Return None if the vectors have different dimensions, a zero norm or non-finite values.
        """
        listed = self.hold(vectors)
        asked = _unit([query])
        if self._unit is None or asked is None or asked.shape[1] != self._unit.shape[1]:
            return None
        cosines = times_vector(self._unit, asked[0])
        chosen = np.arange(len(listed)) if allowed is None else np.flatnonzero(allowed)
        return np.asarray(chosen[possibly_best(cosines[chosen], count, asked.shape[1])])


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
