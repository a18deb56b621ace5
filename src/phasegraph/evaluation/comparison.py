"""Compare a user's own retriever with other retrieval methods on the same files, question by question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phasegraph.errors import AllSourcesFailed, InvalidInputError
from phasegraph.evaluation.corpus_files import Passage
from phasegraph.evaluation.experiment import Answers, Table, compare
from phasegraph.evaluation.measures import Measure
from phasegraph.evaluation.passage_matching import PassageMatcher
from phasegraph.evaluation.query_files import Query, groups_of
from phasegraph.evaluation.retriever_runs import ask_of, ids_by_text, run_retriever
from phasegraph.evaluation.significance import wins_and_losses

DEPTH = 10
"""Number of hits requested from a retriever that accepts a number of hits."""
BEST = 5
"""Number of passages, from the top of each answer, that are compared."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A question for which only one of two methods returns a judged passage among its first k hits.

    Parameters
    ----------
    query : Query
        The judged question.
    passage : str
        The judged passage.
    rank, own_rank : int or None
        Rank of the passage in phasegraph's answer and in the answer of the user's retriever, from 1; None if it is
        absent.
    """

    query: Query
    passage: str
    rank: int | None
    own_rank: int | None

    @property
    def won(self) -> bool:
        """True if the passage has a better rank in phasegraph's answer than in the answer of the user's retriever."""
        return _place(self.rank) < _place(self.own_rank)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """The results of several retrieval methods for the same judged questions.

    Parameters
    ----------
    table : Table
        The figures of all methods; the user's retriever is the baseline and the first row.
    measure : Measure
        The measure that decides the winner of a question: Recall at 5, or at the length of the longest answer of the
        user's retriever if that is shorter.
    queries : tuple of Query
        The judged questions.
    notes : tuple of str
        Remarks needed to read the figures.
    """

    table: Table
    measure: Measure
    queries: tuple[Query, ...]
    notes: tuple[str, ...]

    def pairs(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Return ``pairs[one][other]``: the numbers of questions that method `one` wins and loses against `other`."""
        column = self.table.measures.index(self.measure)
        values = {name: of[:, column] for name, of in self.table.values.items()}
        return {
            one: {other: wins_and_losses(values[one], values[other]) for other in values if other != one}
            for one in values
        }

    def flips(self, ours: str, count: int = 3) -> list[Flip]:
        """Return the questions with the largest differences in rank, largest first, won and lost questions in turn.

        If `count` is at least 2 and a question is lost, the result contains a lost question.

        Parameters
        ----------
        ours : str
            Name of the method that is compared with the user's retriever.
        count : int, default 3
            Maximum number of questions to return.

        Returns
        -------
        list of Flip
            The questions, each with the judged passage and its two ranks.
        """
        found, own = self.table.found[ours], self.table.found[self.table.baseline]
        won: list[Flip] = []
        lost: list[Flip] = []
        for query in self.queries:
            flips = _flips_of(query, found.get(query.id, ()), own.get(query.id, ()), self.measure.k)
            better, worse = [flip for flip in flips if flip.won], [flip for flip in flips if not flip.won]
            if len(better) > len(worse):
                won.append(max(better, key=_change))
            elif len(worse) > len(better):
                lost.append(max(worse, key=_change))
        won.sort(key=_change, reverse=True)
        lost.sort(key=_change, reverse=True)
        turns = [flip for pair in zip(won, lost, strict=False) for flip in pair]
        return [*turns, *won[len(lost) :], *lost[len(won) :]][:count]


_BEYOND = 1000
"""The rank with which a passage counts that an answer does not contain."""


def _place(rank: int | None) -> int:
    return _BEYOND if rank is None else rank


def _change(flip: Flip) -> int:
    return abs(_place(flip.rank) - _place(flip.own_rank))


def _flips_of(query: Query, found: Sequence[str], own: Sequence[str], k: int) -> list[Flip]:
    """Return a :class:`Flip` for each hop of `query` that only one of two answers contains in its first k hits.

    `found` is phasegraph's answer, and `own` is the answer of the user's retriever.
    """
    flips = []
    for hop in query.judgement.hops:
        rank, own_rank = _rank(found, hop), _rank(own, hop)
        if (_place(rank) <= k) != (_place(own_rank) <= k):
            ids, at = (found, rank) if rank is not None else (own, own_rank)
            flips.append(Flip(query, hop[0] if at is None else ids[at - 1], rank, own_rank))
    return flips


def _rank(ids: Sequence[str], hop: Sequence[str]) -> int | None:
    """Return the rank, from 1, of the first id that satisfies `hop`; None if no id does."""
    return next((rank for rank, one in enumerate(ids, 1) if one in hop), None)


def compare_own(
    name: str,
    retriever: object,
    queries: Sequence[Query],
    passages: Sequence[Passage],
    ways: Mapping[str, Mapping[str, tuple[str, ...]]],
    *,
    progress: Callable[[Iterable[Any], str], Iterable[Any]] | None = None,
) -> Comparison:
    """Run a user's own retriever on judged questions, and compare its answers with those of other methods.

    Parameters
    ----------
    name : str
        Name of the user's retriever in the table.
    retriever : object
        As in :func:`phasegraph.evaluation.evaluate`.
    queries : sequence of Query
        Questions judged by the ids of `passages`.
    passages : sequence of Passage
        The passages of the files that the retriever also searches. The retriever may split the files differently.
    ways : mapping of str to mapping of str to tuple of str
        Ids found, by name of each other method and by question id.
    progress : callable, optional
        Wraps the questions to show progress: ``progress(iterable, label)``.

    Returns
    -------
    Comparison
        The table of all methods, with the questions and notes.

    Raises
    ------
    InvalidInputError
        If the retriever returns no hits, or no hit matches a passage.
    AllSourcesFailed
        If the retriever fails on every question.

    Examples
    --------
    >>> from phasegraph.evaluation.judgements import Judgement
    >>> passages = [Passage("a", "", "Ada met Bo."), Passage("b", "", "Bo met Cy.")]
    >>> asked = [Query("q", "Whom did Ada meet?", Judgement("q", (("a",),)))]
    >>> found = compare_own("mine", lambda question: ["b"], asked, passages, {"bm25": {"q": ("a", "b")}})
    >>> str(found.measure), found.pairs()["bm25"]["mine"]
    ('Recall@1', (1, 0))
    """
    matcher = PassageMatcher(passages)
    asked = queries if progress is None else progress(queries, name)
    run = run_retriever(ask_of(retriever, DEPTH), asked, ids_by_text(passages), None, matcher)
    if len(run.errors) == len(queries):
        raise AllSourcesFailed({name: next(iter(run.errors.values()))})
    returned = [one for ids in run.found.values() for one in ids]
    _check_returned(name, returned, queries, matcher)
    measure = Measure("Recall", min(BEST, matcher.longest))
    table = compare(
        [Answers(name, run.found, run.milliseconds), *(Answers(way, found) for way, found in ways.items())],
        [query.judgement for query in queries],
        baseline=name,
        measures=[measure, Measure("MRR", measure.k)],
        dataset="",
        groups=groups_of(queries),
        corpus={*(passage.id for passage in passages), *returned},
    )
    notes = [*table.notes, *run.failures(name)]
    if measure.k < BEST:
        notes.append(
            f"{name} returns at most {measure.k} hits, so only the first {measure.k} passages of each method count"
        )
    return Comparison(table, measure, tuple(queries), tuple(notes))


def _check_returned(name: str, returned: Sequence[str], queries: Sequence[Query], matcher: PassageMatcher) -> None:
    """Raise InvalidInputError if the retriever `name` returned no hits, or only hits of other files."""
    if not returned:
        raise InvalidInputError(
            f"{name} returned no hits for any of the {len(queries)} questions; check that its index is not empty"
        )
    judged = frozenset(one for query in queries for one in query.judgement.passages)
    if judged.isdisjoint(returned) and not matcher.of_these_files():
        raise InvalidInputError(
            f"{name} returned {len(returned)} hits, but no hit has an id or a text of these files; the first hit is "
            f"{matcher.hits[0].id!r:.60}. Pass the files that the retriever searches"
        )
