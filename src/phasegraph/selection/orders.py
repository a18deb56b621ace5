"""Selections that are no set function: plain order, maximal marginal relevance, the literal entropy penalty."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phasegraph._typing import BoolArray, FloatArray
from phasegraph.selection.greedy import Picked


def pick_each(
    count: int,
    k: int,
    score: Callable[[list[int]], FloatArray],
    /,
    *,
    costs: FloatArray | None = None,
    budget: float | None = None,
) -> Picked:
    """Pick the row of highest current score, `k` times or until nothing fits; of equals the lowest row."""
    left = np.inf if budget is None else budget
    rows: list[int] = []
    values: list[float] = []
    open_: BoolArray = np.ones(count, dtype=bool)
    while len(rows) < min(k, count):
        if costs is not None:
            open_ &= costs <= left
        if not open_.any():
            break
        current = np.where(open_, score(rows), -np.inf)
        best = float(current.max())
        row = int(np.argmax(current >= best - 1e-12 * max(1.0, abs(best))))
        rows.append(row)
        values.append(float(current[row]))
        open_[row] = False
        left -= 0.0 if costs is None else float(costs[row])
    return Picked(tuple(rows), tuple(values))


def constant(relevance: FloatArray) -> Callable[[list[int]], FloatArray]:
    """Score that does not look at what was picked: plain order."""
    return lambda _: relevance


def marginal_relevance(relevance: FloatArray, unit: FloatArray, balance: float) -> Callable[[list[int]], FloatArray]:
    """Score of maximal marginal relevance: ``balance * r - (1 - balance) * highest similarity to the picked``."""
    nearest = np.full(len(relevance), -np.inf)

    def score(rows: list[int]) -> FloatArray:
        if not rows:
            return balance * relevance
        np.maximum(nearest, unit @ unit[rows[-1]], out=nearest)
        return balance * relevance - (1 - balance) * nearest

    return score


def legacy_entropy(relevance: FloatArray, penalty: float) -> Callable[[list[int]], FloatArray]:
    """Score ``P - penalty * H``, H the entropy of the relevances of the set with the candidate in it, normalised.

    Notes
    -----
    As the quantum document writes it. It contradicts itself: the penalty does not look at content at all, and
    the entropy of normalised relevances *falls* when a passage of low relevance joins, so a large penalty
    prefers the least relevant passage, where the document promises diversity (see the golden numbers in the
    tests). Use the log-determinant instead.
    """

    def score(rows: list[int]) -> FloatArray:
        table = np.empty((len(relevance), len(rows) + 1))
        table[:, :-1] = relevance[rows]
        table[:, -1] = relevance
        total = table.sum(axis=1, keepdims=True)
        shares = np.divide(table, total, out=np.zeros_like(table), where=total > 0)
        logs = np.log(np.where(shares > 0, shares, 1.0))
        return np.asarray(relevance + penalty * (shares * logs).sum(axis=1))

    return score
