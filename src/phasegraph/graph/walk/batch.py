"""Run several searches in step, so that a step finds its data in the processor's cache."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TypeAlias

from phasegraph.ranking import Ranking

Steps: TypeAlias = Generator[None, None, Ranking]
"""A search that pauses between its steps, and returns a ranking."""


def in_step(searches: Iterable[Steps]) -> list[Ranking]:
    """Run a step of every search before the next step of any search; return the rankings in the searches' order."""
    running = dict(enumerate(searches))
    found: dict[int, Ranking] = {}
    while running:
        for place, search in list(running.items()):
            try:
                next(search)
            except StopIteration as ended:
                found[place] = ended.value
                del running[place]
    return [found[place] for place in sorted(found)]
