"""The block of provenance that travels with every returned passage, as plain JSON types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.candidates import Ranking, SourceReport
from phasegraph.pipeline import Result
from phasegraph.pipeline.parts import cap_ranking
from phasegraph.sources.slot import cut_note

_SHORT = 512
Column: TypeAlias = tuple[list[float | None], list[float | None]]


def provenance(result: Result) -> list[dict[str, object]]:
    """For each result, in order, why it stands where it stands.

    Parameters
    ----------
    result : Result

    Returns
    -------
    list of dict
        Keys ``id``, ``position`` (from 1), ``score`` (in [0, 1]), ``fused``, ``bonus``, ``prior``, ``degraded`` and
        ``sources``: per source name ``rank`` (from 1, ties share their mean), ``raw`` (as the source gave it),
        ``calibrated``, ``weight`` and ``contribution``. ``rank`` and ``raw`` are None where the source did not return
        it. Contributions and bonus add up to ``fused``. Native numbers only.

    Notes
    -----
    The same numbers as :meth:`Result.evidence`, for all results at once.

    Examples
    --------
    >>> from phasegraph import FusionPipeline
    >>> block = provenance(FusionPipeline().decide([Ranking("v", ["a", "b"], [0.9, 0.4])]))[0]
    >>> block["id"], block["sources"]["v"]["rank"], block["sources"]["v"]["raw"]
    ('a', 1.0, 0.9)
    """
    names = result.candidates.sources
    weights = result.weights.tolist()
    columns = [_column(result, column) for column in range(len(names))]
    calibrated, parts = result.calibrated.tolist(), result.contributions.tolist()
    heads = zip(
        result.ids, result.scores.tolist(), result.fused.tolist(), result.bonuses.tolist(), result.priors.tolist(),
        strict=True,
    )  # fmt: skip
    return [
        {
            "id": identifier,
            "position": row + 1,
            "score": score,
            "fused": fused,
            "bonus": bonus,
            "prior": prior,
            "degraded": result.degraded,
            "sources": {
                name: {
                    "rank": columns[c][0][row],
                    "raw": columns[c][1][row],
                    "calibrated": calibrated[row][c],
                    "weight": weights[c],
                    "contribution": parts[row][c],
                }
                for c, name in enumerate(names)
            },
        }
        for row, (identifier, score, fused, bonus, prior) in enumerate(heads)
    ]


def _column(result: Result, column: int) -> Column:
    """Rank and raw score of each result in one source."""
    ranking = result.candidates.rankings[column]
    scores = _indexable(ranking.scores)
    raw = scores if ranking.raw is None else _indexable(ranking.raw)
    ranks: list[float | None] = []
    given: list[float | None] = []
    for hit in map(ranking.row_of, result.ids):
        if hit is None:
            ranks.append(None)
            given.append(None)
            continue
        if ranking.rank_only:
            ranks.append(hit + 1.0)
            given.append(None)
            continue
        value = float(raw[hit])
        ranks.append(_rank(ranking, scores, hit))
        given.append(value if value == value else None)
    return ranks, given


def _indexable(values: FloatArray) -> list[float] | FloatArray:
    """What single values are read from fastest: a list where it is short."""
    found: list[float] | FloatArray = values.tolist() if len(values) <= _SHORT else values
    return found


def _rank(ranking: Ranking, scores: list[float] | FloatArray, hit: int) -> float:
    """Rank from 1 of a hit among scores in falling order; ties share their mean rank."""
    value = scores[hit]
    if (hit == 0 or scores[hit - 1] != value) and (hit + 1 == len(scores) or scores[hit + 1] != value):
        return hit + 1.0
    rising = -ranking.scores
    return float(rising.searchsorted(-value, "left") + rising.searchsorted(-value, "right") + 1) / 2.0


class Kept(Protocol):
    """Whose text a result was given, and which sources hold another under the same id."""

    @property
    def source(self) -> str:
        """Whose text it is."""
        ...

    @property
    def others(self) -> Sequence[str]:
        """Which sources hold another."""
        ...


def with_text_warnings(result: Result, winners: Sequence[Kept]) -> Result:
    """The result, with a warning for each id under which sources returned different texts."""
    found = [
        f"id {identifier!r} has another text in {', '.join(winner.others)} than in {winner.source}, which was kept"
        for identifier, winner in zip(result.ids, winners, strict=True)
        if winner.others
    ]
    return replace(result, warnings=(*result.warnings, *found)) if found else result


def with_notes(reports: Sequence[SourceReport], notes: Mapping[str, Sequence[str]]) -> tuple[SourceReport, ...]:
    """The reports, with what the adapters noted about their sources.

    Parameters
    ----------
    reports : sequence of SourceReport
    notes : mapping of str to sequence of str
        By source name; blank ones are left out.

    Returns
    -------
    tuple of SourceReport
    """
    return tuple([_noted(report, [note for note in notes.get(report.source, ()) if note]) for report in reports])


def _noted(report: SourceReport, notes: Sequence[str]) -> SourceReport:
    if not notes:
        return report
    return SourceReport(
        report.source, report.status, report.reason, report.error_class, report.milliseconds, report.hits,
        report.dropped, report.calibration, report.without, (*report.notes, *notes),
        report.outside,
    )  # fmt: skip


def contradicts(ranking: Ranking, ids: Sequence[str]) -> bool:
    """Whether the order in which hits came differs from the order of their scores, ties apart."""
    place = {identifier: row for row, identifier in enumerate(reversed(ids))}
    at = np.array([-place[identifier] for identifier in ranking.ids])
    scores = ranking.scores
    return bool(((at[1:] < at[:-1]) & (scores[1:] < scores[:-1])).any())


def limited(ranking: Ranking, limit: int | None, notes: list[str]) -> Ranking:
    """The ranking's best `limit` hits, which is noted; all of them where it is None."""
    if limit is None or len(ranking) <= limit:
        return ranking
    notes.append(cut_note(len(ranking), limit))
    return cap_ranking(ranking, limit, "list", frozenset())
