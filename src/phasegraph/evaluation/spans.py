"""Relevance that does not depend on how documents were cut into passages: gold spans of characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from phasegraph.errors import InvalidInputError
from phasegraph.evaluation.judgements import Judgement


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a document, with a grade where it is a gold span.

    Parameters
    ----------
    document : str
        Id of the document.
    start, end : int
        ``0 <= start < end``.
    grade : float, default 1.0
        Positive and finite.
    """

    document: str
    start: int
    end: int
    grade: float = 1.0

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise InvalidInputError(f"the {name} of a span must be a whole number; got {value!r}")
        if isinstance(self.grade, bool) or not isinstance(self.grade, int | float | np.number):
            raise InvalidInputError(f"the grade of a span must be a number; got {self.grade!r}")
        if not 0 <= self.start < self.end:
            raise InvalidInputError(f"a span must have 0 <= start < end; got [{self.start}, {self.end})")
        if not 0 < self.grade < np.inf:
            raise InvalidInputError(f"the grade of a span must be positive and finite; got {self.grade!r}")


def covers(passage: Span, gold: Span, *, share: float = 0.5) -> bool:
    """Whether a passage holds at least `share` of a gold span, relative to the span, not to the passage.

    Parameters
    ----------
    passage, gold : Span
    share : float, default 0.5
        In (0, 1].

    Returns
    -------
    bool

    Examples
    --------
    >>> covers(Span("d", 0, 100), Span("d", 90, 110)), covers(Span("d", 0, 100), Span("d", 91, 110))
    (True, False)
    """
    if passage.document != gold.document:
        return False
    overlap = min(passage.end, gold.end) - max(passage.start, gold.start)
    return overlap >= share * (gold.end - gold.start)


def judgement_from_spans(
    query: str, gold: Sequence[Span], passages: Mapping[str, Span], *, share: float = 0.5
) -> Judgement | None:
    """The judgement of one query whose gold is given as spans.

    Parameters
    ----------
    query : str
        Id of the query.
    gold : sequence of Span
        Each is a hop, satisfied by any passage that covers it.
    passages : mapping of str to Span
        Where each passage stands, by passage id.
    share : float, default 0.5
        How much of a span a passage must hold; in (0, 1].

    Returns
    -------
    Judgement or None
        Grades are the largest grade of the spans a passage covers; the last hop is not known. None if
        no passage covers any span: such a query cannot be scored on this cut, and the caller must count it.

    Raises
    ------
    InvalidInputError
        If `share` is outside (0, 1].

    Examples
    --------
    >>> cut = {"p1": Span("d", 0, 50), "p2": Span("d", 50, 100)}
    >>> judgement_from_spans("q", [Span("d", 40, 70)], cut).hops
    (('p2',),)
    """
    if not 0 < share <= 1:
        raise InvalidInputError(f"share must be in (0, 1]; got {share!r}")
    hops: list[tuple[str, ...]] = []
    grades: dict[str, float] = {}
    for span in gold:
        holders = tuple(_holders(span, passages.items(), share))
        if holders:
            hops.append(holders)
        for passage in holders:
            grades[passage] = max(grades.get(passage, 0.0), span.grade)
    if not hops:
        return None
    return Judgement(query, tuple(hops), last_hop_known=False, grades=grades)


def _holders(span: Span, passages: Iterable[tuple[str, Span]], share: float) -> list[str]:
    return sorted(name for name, passage in passages if covers(passage, span, share=share))
