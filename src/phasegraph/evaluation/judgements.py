"""Judgements of queries: relevant passages by hop, grades, answers and pages; and checks of returned ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from phasegraph._support.validation import check_count, check_ids, check_range, check_text
from phasegraph.errors import InvalidInputError, InvalidTypeError

_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Judgement:
    """The relevant passages, answers and pages of one query.

    Parameters
    ----------
    query : str
        Id of the query.
    hops : tuple of tuple of str
        For each hop (a step of the question), the ids of the passages that satisfy it; usually a single id.
    last_hop_known : bool, default True
        True if the last element of `hops` is the last hop of the question; otherwise LastHop leaves the query out.
    grades : mapping of str to float, optional
        Gain per id for nDCG. Default: gain 1 for the first retrieved passage of each hop.
    answers : tuple of str
        The correct answers, for EM and F1; both measures leave out a query without answers.
    pages : tuple of str
        The pages that answer the query, for PageRecall, which leaves out a query without pages.
    sources : mapping of str to str
        The page of every corpus passage, by passage id; all queries of a data set share this mapping.
    """

    query: str
    hops: tuple[tuple[str, ...], ...]
    last_hop_known: bool = True
    grades: Mapping[str, float] = field(default_factory=lambda: _EMPTY)
    answers: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=lambda: _EMPTY, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_text("a question's id", self.query)
        for hop in self.hops:
            if isinstance(hop, str):
                raise InvalidTypeError(
                    f"the judgement of {self.query!r}: a hop must be a tuple of ids; got {hop!r}; pass (({hop!r},),) "
                    "for one hop"
                )
            check_ids(f"the judgement of {self.query!r}", hop)
        check_ids(f"the grades of {self.query!r}", self.grades)
        check_ids(f"the answers of {self.query!r}", self.answers, "an answer")
        check_ids(f"the pages of {self.query!r}", self.pages, "a page")

    @property
    def passages(self) -> frozenset[str]:
        """The ids of all passages of all hops."""
        return frozenset(passage for hop in self.hops for passage in hop)


def ids_by_page(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the ids of each page's passages; `sources` is the page of each passage by id.

    >>> ids_by_page({"a1": "a", "b1": "b", "a2": "a"})
    {'a': ['a1', 'a2'], 'b': ['b1']}
    """
    found: dict[str, list[str]] = {}
    for name, page in sources.items():
        found.setdefault(page, []).append(name)
    return found


@dataclass(frozen=True, slots=True)
class Span:
    """The characters [start, end) of a document, with 0 <= start < end.

    A span is the place of a passage, or a *gold span*, which answers a query and has a grade > 0.
    """

    document: str
    start: int
    end: int
    grade: float = 1.0

    def __post_init__(self) -> None:
        check_count("the start of a span", self.start)
        check_count("the end of a span", self.end, minimum=self.start + 1)
        check_range("the grade of a span", self.grade, ends="(]")

    def holds(self, gold: Span, share: float = 0.5) -> bool:
        """Return True if this span, the place of a passage, covers at least the fraction `share` of a gold span.

        Examples
        --------
        >>> passage = Span("d", 0, 100)
        >>> passage.holds(Span("d", 90, 110)), passage.holds(Span("d", 91, 110))
        (True, False)
        """
        overlap = min(self.end, gold.end) - max(self.start, gold.start)
        return self.document == gold.document and overlap >= share * (gold.end - gold.start)


def judgement_from_spans(
    query: str, gold: Sequence[Span], passages: Mapping[str, Span], *, share: float = 0.5
) -> Judgement | None:
    """Judge the passages of a query by its gold spans; `passages` gives the span of each passage by id.

    Each gold span is a hop. A passage satisfies the hop if it covers at least the fraction `share`, in (0, 1], of the
    span. The grade of a passage is the largest grade of the spans that it covers. The last hop is unknown. Return None
    if no passage covers any span. The query then cannot be scored on these passages, and the caller must count the
    query as left out.

    >>> cut = {"p1": Span("d", 0, 50), "p2": Span("d", 50, 100)}
    >>> judgement_from_spans("q", [Span("d", 40, 70)], cut).hops
    (('p2',),)
    """
    check_range("share", share, 0, 1, ends="(]")
    hops: list[tuple[str, ...]] = []
    grades: dict[str, float] = {}
    for span in gold:
        holders = tuple(sorted(name for name, passage in passages.items() if passage.holds(span, share)))
        hops += [holders] * bool(holders)
        grades |= {passage: max(grades.get(passage, 0.0), span.grade) for passage in holders}
    return Judgement(query, tuple(hops), last_hop_known=False, grades=grades) if hops else None


def check_judged(found: Mapping[str, Sequence[str]], judgements: Sequence[Judgement], name: str) -> None:
    """Raise InvalidInputError if a run answers a query without a judgement, because the mean would ignore it.

    An id that is not text raises InvalidTypeError.
    """
    judged = {judgement.query for judgement in judgements}
    extra = next((query for query in found if query not in judged), None)
    if extra is not None:
        raise InvalidInputError(
            f"run {name!r} answers query {extra!r}, which has no judgement; remove the query or judge it"
        )
    for query, ids in found.items():
        check_ids(f"{name}, question {query!r}", ids)


def check_known(
    found: Mapping[str, Sequence[str]],
    judgements: Sequence[Judgement],
    corpus: Collection[str] | None = (),
    name: str = "the run",
) -> None:
    """Raise InvalidInputError if no returned id is known, because the run would get a misleading row of zeros.

    An id is known if it is judged for some question, or is in `corpus`, the ids of the passages. If `corpus` is empty,
    the message suggests passing a corpus; if it is None, the message does not.
    """
    known = {passage for one in judgements for passage in (*one.passages, *one.grades, *one.sources)}.union(
        corpus or ()
    )
    returned = dict.fromkeys(passage for ids in found.values() for passage in ids)
    if returned and known.isdisjoint(returned):
        where = "in the corpus or judged for any question" if corpus else "judged for any question"
        advice = "; if the ids are correct but not relevant, pass the ids of all passages as corpus="
        raise InvalidInputError(
            f"none of the {len(returned)} ids of {name} is {where}; a returned id is {next(iter(returned))!r:.60}, "
            f"a known id is {min(known, default='nothing')!r:.60}. Return the ids that the judgements use (id_key= "
            f"of evaluate, --id-key on the command line){'' if corpus or corpus is None else advice}"
        )
