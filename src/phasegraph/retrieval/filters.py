"""Drop hits that do not match a filter, and say so in the source's report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from phasegraph.ranking import Ranking
from phasegraph.retrieval.payloads import Payloads


def note_dropped(dropped: int, count: int, notes: list[str]) -> None:
    """Add a note if `dropped` of `count` hits do not match the filter."""
    if dropped:
        notes.append(f"{dropped} of {count} hits dropped: they do not match the filter")


def within_filter(ranking: Ranking, passes: Callable[[Any], bool], notes: list[str]) -> Ranking:
    """Drop hits for which ``HitFields.resolve`` returned no passage, or a passage that does not match the filter.

    ``passes(passage)`` returns True if a passage matches the filter. `notes` receives the number of dropped hits.
    """
    payloads = ranking.payloads
    gone = [one for one in ranking.ids if (held := payloads.get(one)) is None or not passes(held)]
    if not gone:
        return ranking
    said = (
        f"{len(gone)} of {len(ranking)} hits dropped: the passages that resolve returned do not match the filter, or "
        "lack the metadata that the filter reads"
    )
    notes.append(said)
    kept = ranking.without(frozenset(gone))
    held = Payloads(kept.ids, [payloads[one] for one in kept.ids], getattr(payloads, "evidence", payloads))
    return replace(kept, payloads=held, reason=kept.reason if len(kept) else said)
