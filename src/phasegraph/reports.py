"""Report the outcome of each source for one query: success, failure, timeout or skip."""

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
    """The outcome of one source for one query.

    Parameters
    ----------
    source : str
        Name of the source.
    status : {"ok", "empty", "partial", "timeout", "error", "skipped"}
        ``empty``: the source found nothing. ``partial``: the answer is incomplete, for example because no hit was
        usable. ``timeout``: no answer came in time. ``error``: the source failed. ``skipped``: it was not searched.
    reason : str
        A line that explains the status; it never contains query text or secrets.
    error_class : str
        Class name of the source's error, or ``""``.
    milliseconds : float
        Wall time from the start of the call to the source's answer or failure.
    hits, dropped : int
        Number of hits, and number of removed hits: their score or id was unusable, or their passage was deleted.
    calibration : str
        ``exact``, ``fitted``, ``estimated`` or the name of a per-list calibrator; ``""`` if the ranking was not fused.
    missing : tuple of str
        Names of the sources whose rankings this source needs and did not receive in time.
    notes : tuple of str
        Decisions of the library that the caller should know, such as an inferred score direction or hashed ids.
    out_of_range_share : float
        Share of the scores outside the range of the reference sample that calibrates the source, in [0, 1]; 0 without
        a reference sample.
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
        """Create the report of a source from its ranking; `tier` becomes the value of the field `calibration`."""
        status, reason = found_in(ranking)
        hits, dropped = len(ranking.ids), ranking.dropped
        return cls(ranking.source, status, reason, "", 0.0, hits, dropped, tier, out_of_range_share=out_of_range_share)

    @property
    def answered(self) -> bool:
        """True if the source returned at least one usable hit."""
        return self.status in ("ok", "partial") and self.hits > 0

    def calibrated(self, tier: str, out_of_range_share: float = 0.0) -> SourceReport:
        """Return a copy of the report with the calibration `tier` and the given `out_of_range_share`."""
        return SourceReport(
            self.source, self.status, self.reason, self.error_class, self.milliseconds, self.hits, self.dropped, tier,
            self.missing, self.notes, out_of_range_share,
        )  # fmt: skip

    @property
    def drifted(self) -> bool:
        """True if more than half of the scores lie outside the range of the reference sample.

        The usual cause is a changed model or collection. Among n + 1 similar queries, at most two have scores beyond
        the scores of all other queries. After n calibration queries, the probability of a false alarm is therefore at
        most 2 / (n + 1).
        """
        return self.out_of_range_share > 0.5

    @property
    def degraded(self) -> bool:
        """True if the source failed, was skipped, or searched only in part."""
        return self.status in _DEGRADED


def found_in(ranking: Ranking) -> tuple[Status, str]:
    """Return a source's status and the reason for the status, both derived from the source's ranking.

    Parameters
    ----------
    ranking : Ranking
        The ranking that the source returned.

    Returns
    -------
    tuple of (str, str)
        The status is ``ok``, ``empty`` if the source found nothing, or ``partial`` if all its hits were unusable.
    """
    if len(ranking):
        return "ok", ranking.reason
    if ranking.dropped > ranking.deleted:
        return "partial", ranking.reason or f"none of its {ranking.dropped} hits had a usable score and id"
    return "empty", ranking.reason


def degradations(reports: Sequence[SourceReport]) -> dict[str, str]:
    """Return the reason for each degraded source by name.

    Parameters
    ----------
    reports : sequence of SourceReport
        The outcome of each source.

    Returns
    -------
    dict of str to str
        The reasons of the sources that failed, were skipped, searched only in part, or lacked a ranking that they need.
    """
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
    """Return a warning for each source with more than half of its scores outside the range of its calibration."""
    if not any(map(_OUTSIDE, reports)):
        return ()
    return tuple(
        f"{report.out_of_range_share:.0%} of the scores of {report.source!r} lie outside the range it was calibrated "
        "on: "
        "calibrate again if its model or its collection has changed"
        for report in reports
        if report.drifted
    )
