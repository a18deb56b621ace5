"""The block of provenance that travels with a returned passage, as plain JSON types."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Protocol

import numpy as np

from phasegraph.ranking import Ranking, SourceReport, cap_ranking
from phasegraph.result import Result
from phasegraph.sources.gatherer import cut_note

_DEEPEST = 16


def plain(value: object, /) -> object:
    """`value` in JSON types: None, bool, int, float, str, list, dict.

    Parameters
    ----------
    value : object
        Numpy values become native ones, NaN and infinity None, sets sorted lists, dates ISO text; an object that
        JSON has no word for becomes its type's name, a cycle or a nesting beyond 16 levels ``"…"``.

    Returns
    -------
    object
        Something that ``json.dumps(..., allow_nan=False)`` takes. `value` is not changed.

    Examples
    --------
    >>> plain({"score": np.float32(0.5), "tags": {"b", "a"}, "bad": float("nan")})
    {'score': 0.5, 'tags': ['a', 'b'], 'bad': None}
    """
    return _plain(value, 0, ())


def _plain(value: object, depth: int, above: tuple[int, ...]) -> object:
    if value is None or isinstance(value, bool | str):
        return _text(value) if isinstance(value, str) else value
    if isinstance(value, np.generic):
        return _plain(value.item(), depth, above) if not isinstance(value, np.void) else "void"
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | Decimal):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if depth >= _DEEPEST or id(value) in above:
        return "…"
    inside = (*above, id(value))
    if isinstance(value, np.ndarray):
        return _plain(value.tolist(), depth, inside)
    if isinstance(value, Mapping):
        return {_text(str(key)): _plain(item, depth + 1, inside) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, depth + 1, inside) for item in value), key=repr)
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1, inside) for item in value]
    return type(value).__name__


def _text(value: str) -> str:
    """The text itself, lone surrogates replaced: they cannot be written as UTF-8."""
    return str(value) if value.isascii() else value.encode("utf-8", "replace").decode()


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
    columns = zip(
        result.candidates.rankings,
        result.weights.tolist(),
        result.calibrated.T.tolist(),
        result.contributions.T.tolist(),
        strict=True,
    )
    parts = zip(*[_parts(result.ids, *column) for column in columns], strict=True)
    names, degraded = result.candidates.sources, result.degraded
    heads = zip(
        result.ids, result.scores.tolist(), result.fused.tolist(), result.bonuses.tolist(), result.priors.tolist(),
        parts, strict=True,
    )  # fmt: skip
    return [
        {
            "id": identifier,
            "position": position,
            "score": score,
            "fused": fused,
            "bonus": bonus,
            "prior": prior,
            "degraded": degraded,
            "sources": dict(zip(names, sources, strict=True)),
        }
        for position, (identifier, score, fused, bonus, prior, sources) in enumerate(heads, start=1)
    ]


def _parts(
    ids: Sequence[str], ranking: Ranking, weight: float, calibrated: list[float], contributed: list[float]
) -> list[dict[str, float | None]]:
    """What one source says of each result."""
    scores = ranking.scores.item
    raw = scores if ranking.raw is None else ranking.raw.item
    last = len(ranking) - 1
    out: list[dict[str, float | None]] = []
    for hit, value, part in zip(map(ranking.row_of, ids), calibrated, contributed, strict=True):
        rank = given = None
        if hit is not None:
            rank = hit + 1.0
            if not ranking.rank_only:
                score, given = scores(hit), raw(hit)
                if (hit and scores(hit - 1) == score) or (hit < last and scores(hit + 1) == score):
                    rank = _shared_rank(ranking, score)
                if given != given:
                    given = None
        out.append({"rank": rank, "raw": given, "calibrated": value, "weight": weight, "contribution": part})
    return out


def _shared_rank(ranking: Ranking, score: float) -> float:
    """Rank from 1, the mean of all hits with this score."""
    rising = -ranking.scores
    return float(rising.searchsorted(-score, "left") + rising.searchsorted(-score, "right") + 1) / 2.0


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
        report.dropped, report.calibration, report.missing, (*report.notes, *notes),
        report.out_of_range_share,
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
