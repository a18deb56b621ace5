"""Measure the agreement between the sources of a query, and warn about low agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from phasegraph.ranking import Ranking

_TOP, _DEPTH = 10, 50


def agreement(rankings: Sequence[Ranking]) -> dict[tuple[str, str], float]:
    """Return, for each ordered pair of sources, the share of the first source's top 10 in the second source's top 50.

    Each share is in [0, 1].
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
    """Return a warning for every two sources with unusually low agreement.

    `found` contains the agreement of each ordered pair of sources. `floor` contains the lowest usual agreement of a
    pair, from calibration. If two sources have floors, the agreement is low if it is at or below the floor in both
    directions, and below the floor in at least one direction. If two sources have no floors, the agreement is low if it
    is 0 in both directions.
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
        return f"sources {pair[0]!r} and {pair[1]!r} agree on nothing: no hit of either top 10 is in the other top 50"
    if any(share > low for share, low in zip(shares, lowest, strict=True)) or shares == lowest:
        return ""
    return (
        f"sources {pair[0]!r} and {pair[1]!r} agree less than in 95 % of their calibration queries: "
        f"{shares[0]:.0%} and {shares[1]:.0%} of a top 10 are in the other source's top 50, usually at least "
        f"{lowest[0]:.0%} and {lowest[1]:.0%}"
    )
