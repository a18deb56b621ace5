"""The block of provenance that travels with every returned passage, as plain JSON types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from phasegraph.candidates import Ranking, SourceReport
from phasegraph.pipeline import Result
from phasegraph.pipeline.parts import cap_ranking

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
    blocks: list[dict[str, object]] = []
    heads = zip(
        result.ids, result.scores.tolist(), result.fused.tolist(), result.bonuses.tolist(), result.priors.tolist(),
        strict=True,
    )  # fmt: skip
    for row, (identifier, score, fused, bonus, prior) in enumerate(heads):
        sources = {
            name: {
                "rank": columns[c][0][row],
                "raw": columns[c][1][row],
                "calibrated": calibrated[row][c],
                "weight": weights[c],
                "contribution": parts[row][c],
            }
            for c, name in enumerate(names)
        }
        blocks.append(
            {
                "id": identifier,
                "position": row + 1,
                "score": score,
                "fused": fused,
                "bonus": bonus,
                "prior": prior,
                "degraded": result.degraded,
                "sources": sources,
            }
        )
    return blocks


def _column(result: Result, column: int) -> Column:
    """Rank and raw score of each result in one source."""
    ranking = result.candidates.rankings[column]
    hit_of = np.full(len(result.candidates), -1, dtype=np.intp)
    hit_of[result.candidates.positions[column]] = np.arange(len(ranking))
    hits = hit_of[result.rows]
    rising = -ranking.scores
    values = rising[hits]
    ranks = (rising.searchsorted(values, "left") + rising.searchsorted(values, "right") + 1) / 2.0
    raw = ranking.scores if ranking.raw is None else ranking.raw
    found = hits.tolist()
    return (
        [rank if hit >= 0 else None for hit, rank in zip(found, ranks.tolist(), strict=True)],
        [value if hit >= 0 and value == value else None for hit, value in zip(found, raw[hits].tolist(), strict=True)],
    )


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
    out = []
    for report in reports:
        own = tuple(note for note in notes.get(report.source, ()) if note)
        out.append(replace(report, notes=(*report.notes, *own)) if own else report)
    return tuple(out)


def contradicts(ranking: Ranking, ids: Sequence[str]) -> bool:
    """Whether the order in which hits came differs from the order of their scores, ties apart."""
    place = {identifier: row for row, identifier in enumerate(reversed(ids))}
    at = np.array([-place[identifier] for identifier in ranking.ids])
    scores = ranking.scores
    return bool(((at[1:] < at[:-1]) & (scores[1:] < scores[:-1])).any())


def limited(ranking: Ranking, limit: int | None) -> Ranking:
    """The ranking's best `limit` hits; all of them where it is None."""
    return ranking if limit is None else cap_ranking(ranking, limit, "list", frozenset())
