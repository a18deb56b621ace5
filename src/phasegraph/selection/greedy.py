"""The lazy greedy choice, and the two set functions it is run on.

A set function is submodular when a passage adds less the more has been picked. A gain computed earlier is then
an upper bound of the gain now, so most passages never need looking at again: only the front of the queue is
refreshed, in blocks, until its best beats the bound of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from phasegraph._typing import FloatArray, IntArray
from phasegraph.selection.similarity import redundancy

_BLOCK = 48
_TIE = 1e-12


class SetFunction(Protocol):
    """A submodular function of a set of rows, known by its marginal gains."""

    def first_gains(self) -> FloatArray:
        """(n,) array: gain of each row alone."""

    def gains(self, rows: IntArray, /) -> FloatArray:
        """Gain of each of `rows` on top of what was picked."""

    def pick(self, row: int, /) -> None:
        """Add `row` to the set."""


@dataclass(frozen=True, slots=True)
class Picked:
    """Rows in the order they were picked, with the gain of each."""

    rows: tuple[int, ...]
    gains: tuple[float, ...]

    @property
    def value(self) -> float:
        """Sum of the gains: the set function's value."""
        return float(sum(self.gains))


def lazy_greedy(
    function: SetFunction,
    k: int,
    /,
    *,
    costs: FloatArray | None = None,
    budget: float | None = None,
    per_cost: bool = False,
    allow_loss: bool = False,
) -> Picked:
    """Pick the row of highest gain until `k` are picked, nothing fits, or every gain is negative.

    Parameters
    ----------
    function : SetFunction
        Nothing picked yet.
    k : int
        Most rows to pick.
    costs : (n,) array of float, optional
        Positive.
    budget : float, optional
        Highest sum of costs; rows that no longer fit are passed over.
    per_cost : bool, default False
        Pick by gain divided by cost.
    allow_loss : bool, default False
        Go on where every gain is negative.

    Returns
    -------
    Picked
        Among gains that differ by less than 1e-12 the lowest row.
    """
    bounds = function.first_gains()
    scale = costs if per_cost and costs is not None else np.ones(len(bounds))
    left = np.inf if budget is None else budget
    rows: list[int] = []
    gains: list[float] = []
    open_ = np.ones(len(bounds), dtype=bool)
    fresh = True
    while len(rows) < min(k, len(bounds)):
        if costs is not None:
            open_ &= costs <= left
        queue = np.flatnonzero(open_)
        if not len(queue):
            break
        row = _front(function, bounds, scale, queue, fresh)
        if bounds[row] < 0 and not allow_loss:
            break
        function.pick(row)
        rows.append(row)
        gains.append(float(bounds[row]))
        open_[row] = False
        fresh = False
        left -= 0.0 if costs is None else float(costs[row])
    return Picked(tuple(rows), tuple(gains))


def _front(function: SetFunction, bounds: FloatArray, scale: FloatArray, queue: IntArray, fresh: bool) -> int:
    """Row of the highest current gain among `queue`; refreshes `bounds` in place as far as needed."""
    ranked = queue[np.argsort(-bounds[queue] / scale[queue], kind="stable")]
    done, block = 0, _BLOCK
    while True:
        part = ranked[done : done + block]
        if not fresh:
            bounds[part] = function.gains(part)
        done += len(part)
        block *= 4
        seen = ranked[:done]
        values = bounds[seen] / scale[seen]
        best = float(values.max())
        margin = _TIE * max(1.0, abs(best))
        rest = bounds[ranked[done]] / scale[ranked[done]] if done < len(ranked) else -np.inf
        if best - margin > rest:
            return int(seen[values >= best - margin].min())


class LogDet:
    """Relevance plus ``mu / 2 * ln det(I + theta K)``, its gains by an incremental Cholesky factor.

    Parameters
    ----------
    relevance : (n,) array of float
        >= 0.
    unit : (n, d) array of float
        Rows of length 1.
    mu, theta : float
        >= 0.
    """

    def __init__(self, relevance: FloatArray, unit: FloatArray, *, mu: float, theta: float) -> None:
        self._relevance = relevance
        self._unit = unit
        self._mu = mu
        self._theta = theta
        self._picked: list[int] = []
        self._pivots: list[float] = []
        self._factor = np.zeros((0, len(relevance)))
        self._similar: dict[int, FloatArray] = {}
        self._variance = np.full(len(relevance), 1.0 + theta)
        self._stage = np.zeros(len(relevance), dtype=np.intp)

    def first_gains(self) -> FloatArray:
        """(n,) array: relevance plus a constant."""
        return np.asarray(self._relevance + self._mu / 2 * np.log1p(self._theta))

    def gains(self, rows: IntArray, /) -> FloatArray:
        """Relevance plus half of mu times the log of what the picked leave unexplained."""
        if self._mu > 0:
            for step in range(int(self._stage[rows].min()), len(self._picked)):
                self._advance(rows[self._stage[rows] == step], step)
        spread = np.log(np.maximum(self._variance[rows], 1.0))
        return np.asarray(self._relevance[rows] + self._mu / 2 * spread)

    def pick(self, row: int, /) -> None:
        """Bring the row's factor up to date and make it the next pivot."""
        self.gains(np.array([row]))
        self._pivots.append(float(np.sqrt(self._variance[row])))
        self._picked.append(row)
        if len(self._factor) < len(self._picked):
            more = np.zeros((max(8, len(self._factor)), self._factor.shape[1]))
            self._factor = np.concatenate([self._factor, more])

    def _advance(self, rows: IntArray, step: int) -> None:
        """Column `step` of the factor for `rows`, all of which stand at it."""
        pivot = self._picked[step]
        if 4 * len(rows) > len(self._unit):  # one pass over everything is cheaper than a copy of so much
            self._similar.setdefault(step, self._unit @ self._unit[pivot])
        whole = self._similar.get(step)
        similar = self._unit[rows] @ self._unit[pivot] if whole is None else whole[rows]
        explained = self._factor[:step, pivot] @ self._factor[:step, rows]
        column = self._theta * similar - explained
        column /= self._pivots[step]
        self._factor[step, rows] = column
        self._variance[rows] -= column**2
        self._stage[rows] = step + 1


class VonNeumannPenalty:
    """Relevance minus ``penalty * tr(K ln K)``: submodular, not monotone.

    Parameters
    ----------
    relevance : (n,) array of float
        Finite.
    unit : (n, d) array of float
        Rows of length 1.
    penalty : float
        >= 0.
    """

    def __init__(self, relevance: FloatArray, unit: FloatArray, *, penalty: float) -> None:
        self._relevance = relevance
        self._unit = unit
        self._penalty = penalty
        self._picked: list[int] = []
        self._redundancy = 0.0

    def first_gains(self) -> FloatArray:
        """(n,) array: relevance; one passage alone is not redundant."""
        return self._relevance.copy()

    def gains(self, rows: IntArray, /) -> FloatArray:
        """Relevance minus what each row adds to the redundancy."""
        size = len(self._picked)
        chosen = self._unit[self._picked]
        grams = np.empty((len(rows), size + 1, size + 1))
        grams[:, :size, :size] = chosen @ chosen.T
        cross = self._unit[rows] @ chosen.T
        grams[:, size, :size] = cross
        grams[:, :size, size] = cross
        grams[:, np.arange(size + 1), np.arange(size + 1)] = 1.0
        values = np.maximum(np.linalg.eigvalsh(grams), 0.0)
        logs = np.log(np.where(values > 0, values, 1.0))
        added = (values * logs).sum(axis=1) - self._redundancy
        return np.asarray(self._relevance[rows] - self._penalty * added)

    def pick(self, row: int, /) -> None:
        """Add the row and measure the redundancy of the set anew."""
        self._picked.append(row)
        self._redundancy = redundancy(self._unit[self._picked])
