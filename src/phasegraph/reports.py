"""What each source did for one query, and which sources could not look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, TypeAlias

from phasegraph.ranking import Ranking

Status: TypeAlias = Literal["ok", "empty", "partial", "timeout", "error", "skipped"]

_DEGRADED = frozenset({"partial", "timeout", "error", "skipped"})

_STATUS, _WITHOUT = attrgetter("status"), attrgetter("missing")


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What one source did for one query.

    Parameters
    ----------
    source : str
        Name of the source.
    status : {"ok", "empty", "partial", "timeout", "error", "skipped"}
        ``empty`` found nothing, ``error``/``timeout``/``skipped`` could not look, ``partial`` looked in part.
    reason : str
        One line; never holds query text or secrets.
    error_class : str
        Class name of what was raised, or ``""``.
    milliseconds : float
        Wall time from the call to the settlement of the source.
    hits, dropped : int
        Hits kept; hits removed because their score or id was unusable.
    calibration : str
        ``exact``, ``fitted``, ``estimated`` or the name of a per-list calibrator; ``""`` where nothing was fused.
    missing : tuple of str
        Sources whose ranking was asked for and had not arrived.
    notes : tuple of str
        Anything handled that the caller should know (direction inferred, ids hashed, order contradicted…).
    out_of_range_share : float
        Share of its scores that lie beyond the reference sample they were calibrated by, in [0, 1]; 0 where there is
        none.
    """

    source: str
    status: Status
    reason: str = ""
    error_class: str = ""
    milliseconds: float = 0.0
    hits: int = 0
    dropped: int = 0
    calibration: str = ""
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    out_of_range_share: float = 0.0

    @classmethod
    def of(cls, ranking: Ranking, tier: str = "", out_of_range_share: float = 0.0) -> SourceReport:
        """The report of a ranking that came without one, calibrated by `tier`."""
        status, reason = found_in(ranking)
        hits, dropped = len(ranking.ids), ranking.dropped
        return cls(ranking.source, status, reason, "", 0.0, hits, dropped, tier, out_of_range_share=out_of_range_share)

    @property
    def answered(self) -> bool:
        """Whether the source contributed a ranking with at least one hit."""
        return self.status in ("ok", "partial") and self.hits > 0

    def calibrated(self, tier: str, out_of_range_share: float = 0.0) -> SourceReport:
        """The same report, of a source calibrated by `tier`, with that share of its scores beyond the sample."""
        return SourceReport(
            self.source, self.status, self.reason, self.error_class, self.milliseconds, self.hits, self.dropped, tier,
            self.missing, self.notes, out_of_range_share,
        )  # fmt: skip

    @property
    def drifted(self) -> bool:
        """Whether most of its scores lie beyond the reference sample: a changed model or collection does that.

        Of n + 1 queries alike at most two have any score above or below those of all others, so that after n
        calibration queries a false alarm has a chance of at most 2 / (n + 1).
        """
        return self.out_of_range_share > 0.5

    @property
    def degraded(self) -> bool:
        """Whether the source could not look, or looked only in part."""
        return self.status in _DEGRADED


def found_in(ranking: Ranking) -> tuple[Status, str]:
    """Status of a source that returned this ranking, and why: ``partial`` where none of its hits was usable."""
    if len(ranking):
        return "ok", ranking.reason
    if ranking.dropped:
        return "partial", ranking.reason or f"none of its {ranking.dropped} hits had a usable score and id"
    return "empty", ranking.reason


def degradations(reports: Sequence[SourceReport]) -> dict[str, str]:
    """Per degraded source, in name order, why: its own failure, or a ranking it needed that came too late."""
    if _DEGRADED.isdisjoint(map(_STATUS, reports)) and not any(map(_WITHOUT, reports)):
        return {}
    status = {report.source: report.status for report in reports}
    found: dict[str, str] = {}
    for report in reports:
        missed = [need for need in report.missing if status.get(need, "empty") != "empty"]
        if report.degraded:
            found[report.source] = f"{report.status} ({report.reason})" if report.reason else report.status
        elif missed:
            found[report.source] = f"ran without {', '.join(missed)}"
    return found


_OUTSIDE = attrgetter("out_of_range_share")


def drifts(reports: Sequence[SourceReport]) -> tuple[str, ...]:
    """A line for every source most of whose scores lie beyond what it was calibrated by."""
    if not any(map(_OUTSIDE, reports)):
        return ()
    return tuple(
        f"{report.out_of_range_share:.0%} of the scores of {report.source!r} lie outside the range it was calibrated "
        "on: "
        "calibrate again if its model or its collection has changed"
        for report in reports
        if report.drifted
    )
