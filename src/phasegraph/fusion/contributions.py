"""Divide the fused value of each candidate into the contributions of the sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.fusion import FusionRule

_SHAPLEY_SOURCES = 8


def contributions(
    rule: FusionRule,
    options: Mapping[str, object],
    values: FloatArray,
    weights: FloatArray,
    missing: FloatArray,
    rows: IntArray,
) -> FloatArray:
    """Return the (k, m) contributions of m sources to the fused values of the k candidates in `rows`.

    The contributions to a candidate add up to its fused value. `values`, of shape (n, m), are the calibrated values of
    all candidates, and `missing` are the sources' values for candidates that they did not return.

    Notes
    -----
    For an additive rule, the contribution is the source's own term. For other rules, it is the Shapley value of the
    source; the empty coalition is worth 0. With more than 8 sources, leave-one-out differences, scaled to the fused
    value, replace the Shapley values.
    """
    chosen = values[rows] if rule.row_wise else values
    pick = slice(None) if rule.row_wise else rows
    count = values.shape[1]
    if count == 1:
        return np.asarray(rule.function(chosen, weights=weights, missing=missing, **options)[pick, None])
    if rule.additive:
        parts = [
            rule.function(
                chosen[:, [c]],
                weights=weights[[c]],
                missing=missing[[c]],
                **{name: one[[c]] if isinstance(one, np.ndarray) else one for name, one in options.items()},
            )[pick]
            for c in range(count)
        ]
        return np.column_stack(parts)

    def worth(members: Sequence[int]) -> FloatArray:
        masked = np.full(chosen.shape, np.nan)
        masked[:, list(members)] = chosen[:, list(members)]
        return np.asarray(rule.function(masked, weights=weights, missing=missing, **options)[pick])

    return _shapley(worth, count) if count <= _SHAPLEY_SOURCES else _leave_one_out(worth, count)


def _shapley(worth: Callable[[Sequence[int]], FloatArray], count: int) -> FloatArray:
    value: dict[tuple[int, ...], FloatArray] = {}
    for size in range(1, count + 1):
        for members in combinations(range(count), size):
            value[members] = worth(members)
    full = value[tuple(range(count))]
    value[()] = np.zeros_like(full)
    factorial = [1.0]
    for number in range(1, count + 1):
        factorial.append(factorial[-1] * number)
    parts = np.zeros((len(full), count))
    for members, base in value.items():
        share = factorial[len(members)] * factorial[max(count - len(members) - 1, 0)] / factorial[count]
        for column in (c for c in range(count) if c not in members):
            joined = tuple(sorted((*members, column)))
            parts[:, column] += share * (value[joined] - base)
    return parts


def _leave_one_out(worth: Callable[[Sequence[int]], FloatArray], count: int) -> FloatArray:
    everyone = tuple(range(count))
    full = worth(everyone)
    drops = np.column_stack([full - worth(tuple(c for c in everyone if c != column)) for column in everyone])
    total = drops.sum(axis=1, keepdims=True)
    even = np.full(drops.shape, 1.0 / count)
    share = np.where(np.abs(total) > 1e-12, drops / np.where(total == 0, 1.0, total), even)
    return np.asarray(share * full[:, None])
