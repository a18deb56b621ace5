"""What a call comes to: its rankings and reports, or the error it deserves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from phasegraph.candidates import Ranking, SourceReport, degradations
from phasegraph.errors import AllSourcesFailed, DegradedError
from phasegraph.sources.call import Call


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the sources answered to one query; everything in name order.

    Parameters
    ----------
    rankings : tuple of Ranking
        Of the sources that returned at least one hit.
    reports : tuple of SourceReport
        One per source asked.
    causes : mapping of str to BaseException
        What the sources that failed raised: a ``TimeoutError`` for a missed deadline, a
        :class:`~phasegraph.errors.PhasegraphError` for one that was not asked.
    """

    rankings: tuple[Ranking, ...]
    reports: tuple[SourceReport, ...]
    causes: Mapping[str, BaseException] = field(default_factory=dict, repr=False)

    @property
    def degraded(self) -> bool:
        """Whether a source could not look, looked only in part, or ran without a ranking that came late."""
        return bool(degradations(self.reports))


def conclude(call: Call, *, raise_if_none: bool, strict: bool) -> Gathered:
    """The outcome of a call that has finished.

    Raises
    ------
    AllSourcesFailed
        If every source failed and `raise_if_none`.
    DegradedError
        If `strict` and anything was degraded.
    """
    causes = {slot.name: slot.error for slot in call.slots if slot.error is not None}
    reports = tuple([slot.report() for slot in call.slots])
    rankings = tuple([slot.ranking for slot in call.slots if slot.ranking is not None and slot.hits])
    fatal = call.fatal
    call.forget()
    if fatal is not None:
        try:
            raise fatal
        finally:
            del fatal
    if len(causes) == len(reports) and raise_if_none:
        raise AllSourcesFailed(causes)
    if strict:
        found = degradations(reports)
        if found:
            listed = "; ".join(f"{name}: {why}" for name, why in found.items())
            raise DegradedError(f"strict=True wants every source to answer in full; got {listed}")
    return Gathered(rankings, reports, MappingProxyType(causes))
