"""Judged scores: what every threshold is fitted on, grouped by query so that the query is the unit of evidence.

Hits of one query share its difficulty, so treating them as independent overstates what was learnt. Everything
here keeps the query a hit belongs to, and splits by query only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from phasegraph._typing import BoolArray, FloatArray, IntArray
from phasegraph.errors import InsufficientDataError, InvalidInputError, InvalidTypeError


class Scored(Protocol):
    """Ids with a score each: a Ranking (one source's scores) or a Result (published scores)."""

    @property
    def ids(self) -> Sequence[str]:
        """(n,) ids."""

    @property
    def scores(self) -> FloatArray:
        """(n,) scores, higher is better."""


@dataclass(frozen=True, slots=True, eq=False)
class JudgedScores:
    """Scores of hits that someone has judged, with the query each hit belongs to.

    Parameters
    ----------
    scores : (n,) array_like of float
        Finite, higher is better, in any one unit.
    labels : (n,) array_like of {0, 1} or bool
        1 where the passage is relevant.
    queries : (n,) sequence of hashable, optional
        The query of each hit; default: every hit is a query of its own, which is only true of a sample that
        was drawn one hit per query.
    source : str
        Name of the source that gave the scores, where it is one.

    Attributes
    ----------
    groups : (n,) array of int
        The row of each hit's query, 0 to `query_count` - 1, in order of first appearance.

    Raises
    ------
    InvalidInputError
        If lengths differ, a score is not finite or a label is not 0 or 1.
    InsufficientDataError
        If there is no hit, or the labels are all 0 or all 1.

    Examples
    --------
    >>> judged = JudgedScores([0.9, 0.4, 0.7], [1, 0, 1], ["a", "a", "b"])
    >>> judged.query_count, judged.positives
    (2, 2)
    """

    scores: FloatArray
    labels: BoolArray
    queries: Sequence[object] | IntArray | None = None
    source: str = ""
    groups: IntArray = field(init=False, repr=False)
    names: tuple[object, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            scores = np.array(self.scores, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidTypeError(f"JudgedScores.scores must be a flat array of numbers; {error}") from error
        labels = np.asarray(self.labels)
        if scores.ndim != 1 or labels.shape != scores.shape:
            raise InvalidInputError(
                f"JudgedScores needs one label per score, both flat; got {scores.shape} and {labels.shape}"
            )
        if not len(scores):
            raise InsufficientDataError("JudgedScores needs at least one judged hit; got none")
        if not np.isfinite(scores).all():
            raise InvalidInputError("JudgedScores.scores must be finite; got NaN or infinity")
        _check_labels(labels)
        queries = range(len(scores)) if self.queries is None else self.queries
        if len(queries) != len(scores):
            raise InvalidInputError(
                f"JudgedScores.queries must name one query per hit; got {len(queries)} for {len(scores)}"
            )
        rows, groups = number_queries(queries)
        flags = labels.astype(bool)
        for array in (scores, flags, groups):
            array.setflags(write=False)
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "labels", flags)
        object.__setattr__(self, "queries", None)
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "names", rows)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def query_count(self) -> int:
        """Number of different queries."""
        return len(self.names)

    @property
    def positives(self) -> int:
        """Number of relevant hits."""
        return int(self.labels.sum())

    def only(self, kept: BoolArray, /) -> JudgedScores:
        """The hits of some of the queries.

        Parameters
        ----------
        kept : (q,) array of bool
            One flag per query, in the order of `names`.

        Returns
        -------
        JudgedScores

        Raises
        ------
        InsufficientDataError
            If no hit is left, or labels of one kind only.
        """
        rows = np.flatnonzero(kept[self.groups])
        renumbered = np.cumsum(kept) - 1
        arrays = {
            "scores": self.scores[rows],
            "labels": self.labels[rows],
            "groups": np.asarray(renumbered[self.groups[rows]]),
        }
        if not len(rows):
            raise InsufficientDataError("JudgedScores needs at least one judged hit; got none")
        _check_labels(arrays["labels"])
        part = object.__new__(JudgedScores)
        for name, array in arrays.items():
            array.setflags(write=False)
            object.__setattr__(part, name, array)
        object.__setattr__(part, "queries", None)
        object.__setattr__(part, "source", self.source)
        object.__setattr__(part, "names", tuple(self.names[row] for row in np.flatnonzero(kept).tolist()))
        return part

    def split(self, *, rng: int | np.random.Generator = 0) -> tuple[JudgedScores, JudgedScores]:
        """Two halves of the queries; no query is in both.

        Parameters
        ----------
        rng : int or numpy.random.Generator, default 0
            Draws the halves.

        Returns
        -------
        (JudgedScores, JudgedScores)

        Raises
        ------
        InsufficientDataError
            If there is one query only, or a half holds labels of one kind only.
        """
        if self.query_count < 2:
            raise InsufficientDataError(f"a split by query needs 2 queries; got {self.query_count}")
        order = np.random.default_rng(rng).permutation(self.query_count)
        kept = np.zeros(self.query_count, dtype=bool)
        kept[order[: self.query_count // 2]] = True
        return self.only(kept), self.only(~kept)


def _check_labels(labels: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    if labels.dtype.kind not in "biuf" or not ((labels == 0) | (labels == 1)).all():
        raise InvalidInputError("JudgedScores.labels must be 0 or 1; got something else")
    if labels.all() or not labels.any():
        kind = "relevant" if labels.all() else "not relevant"
        raise InsufficientDataError(
            f"a threshold needs relevant and irrelevant hits to tell apart; all {len(labels)} are {kind}"
        )


def judge(answers: Mapping[str, Scored], relevant: Mapping[str, Collection[str]], /) -> JudgedScores:
    """Judged scores of one source's rankings, or of whole results, of queries whose relevant passages are known.

    Parameters
    ----------
    answers : mapping of str to Ranking or Result
        By query; an empty one adds no hit.
    relevant : mapping of str to collection of str
        By query, the ids of all its relevant passages; may be empty, but every query must be in it.

    Returns
    -------
    JudgedScores

    Raises
    ------
    InvalidInputError
        If a query has no judgement.
    InsufficientDataError
        If no hit is relevant, or every hit is.

    Examples
    --------
    >>> from phasegraph.candidates import Ranking
    >>> judged = judge({"q": Ranking("v", ["a", "b"], [0.9, 0.5])}, {"q": {"b"}})
    >>> judged.scores, judged.labels
    (array([0.9, 0.5]), array([False,  True]))
    """
    missing = [query for query in answers if query not in relevant]
    if missing:
        raise InvalidInputError(f"every query must be judged; {missing[0]!r} is not")
    scores = [np.asarray(answer.scores, dtype=np.float64) for answer in answers.values()]
    labels = [identifier in relevant[query] for query, answer in answers.items() for identifier in answer.ids]
    queries = [query for query, answer in answers.items() for _ in answer.ids]
    names = {str(getattr(answer, "source", "")) for answer in answers.values()}
    return JudgedScores(
        np.concatenate(scores) if scores else np.empty(0),
        np.array(labels, dtype=bool),
        queries,
        source=names.pop() if len(names) == 1 else "",
    )


def number_queries(queries: Sequence[object] | IntArray, /) -> tuple[tuple[object, ...], IntArray]:
    """Distinct queries in order of first appearance, and the row of each entry among them.

    Raises
    ------
    InvalidTypeError
        If a query cannot be a key.
    """
    if isinstance(queries, np.ndarray) and queries.ndim == 1 and queries.dtype.kind in "iu":
        values, first, inverse = np.unique(queries, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty(len(order), dtype=np.intp)
        place[order] = np.arange(len(order))
        return tuple(values[order].tolist()), place[inverse]
    rows: dict[object, int] = {}
    try:
        groups = [rows.setdefault(name, len(rows)) for name in queries]
    except TypeError as error:
        raise InvalidTypeError("queries must be hashable, such as their ids; got one that is not") from error
    return tuple(rows), np.array(groups, dtype=np.intp)


def require_separate(first: JudgedScores, second: JudgedScores, /) -> None:
    """Refuse two parts that share a query.

    Raises
    ------
    InvalidInputError
        If a query has hits in both, because the second part would then confirm what it has already seen.
    """
    shared = set(first.names) & set(second.names)
    if shared:
        example = sorted(map(repr, shared))[0]
        raise InvalidInputError(
            f"the two parts must not share a query; {len(shared)} are in both, for example {example}"
        )
