"""Combine the notes on each source from several steps of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from phasegraph.reports import SourceReport


def joined_notes(one: Mapping[str, Sequence[str]], other: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the notes of two steps by source name; for each source, the notes of the first step come first."""
    return {name: [*one.get(name, ()), *other.get(name, ())] for name in sorted({*one, *other})}


def with_notes(
    reports: Sequence[SourceReport], notes: Mapping[str, Sequence[str]], first: Mapping[str, str] = MappingProxyType({})
) -> tuple[SourceReport, ...]:
    """Add notes to the reports of sources.

    `notes` maps a source name to its notes, which are added at the end of its report's notes. `first` maps a source
    name to a note that is added at the beginning.
    """
    return tuple([_noted(one, first.get(one.source, ""), notes.get(one.source, ())) for one in reports])


def _noted(report: SourceReport, first: str, notes: Sequence[str]) -> SourceReport:
    if not first and not any(notes):
        return report
    return replace(report, notes=tuple(filter(None, (first, *report.notes, *notes))))
