"""How far the sources of a query agree, and what a result says where they do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from phasegraph.ranking import Ranking

_TOP, _DEPTH = 10, 50


def agreement(rankings: Sequence[Ranking]) -> dict[tuple[str, str], float]:
    """For each ordered pair of sources: share of the first one's top 10 in the second one's top 50.

    Ranges over [0, 1].
    """
    out: dict[tuple[str, str], float] = {}
    for ranking in rankings:
        top = frozenset(ranking.ids[:_TOP])
        for other in rankings:
            if other is not ranking:
                out[(ranking.source, other.source)] = len(top.intersection(other.ids[:_DEPTH])) / len(top)
    return out


Agreement: TypeAlias = Mapping[tuple[str, str], float]


def disagreements(found: Agreement, floor: Agreement) -> tuple[str, ...]:
    """A line for every two sources that agree on nothing, or less than they did when they were calibrated.

    Where the floor of a pair is known, both directions must be at or below theirs, and one below; a pair whose floor
    is 0 agrees on nothing in ordinary queries, too.
    """
    if not floor and all(found.values()):
        return ()
    return tuple(
        line
        for (first, second), share in found.items()
        if first < second and (line := _disagreement((first, second), (share, found[(second, first)]), floor))
    )


def _disagreement(pair: tuple[str, str], shares: tuple[float, float], floor: Agreement) -> str:
    lowest = floor.get(pair, -1.0), floor.get(pair[::-1], -1.0)
    if min(lowest) < 0:
        if any(shares):
            return ""
        return f"sources {pair[0]!r} and {pair[1]!r} agree on nothing: no top-10 hit of either is in the other's top 50"
    if any(share > low for share, low in zip(shares, lowest, strict=True)) or shares == lowest:
        return ""
    return (
        f"sources {pair[0]!r} and {pair[1]!r} agree on less than in 95 % of the queries they were calibrated on: "
        f"{shares[0]:.0%} and {shares[1]:.0%} of a top 10 are in the other's top 50, usually at least "
        f"{lowest[0]:.0%} and {lowest[1]:.0%}"
    )
