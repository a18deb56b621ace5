"""Judged scores, to which thresholds are fitted, and a test whether relevant hits have higher scores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import numpy as np

from phasegraph._support.typing import BoolArray, FloatArray, IntArray
from phasegraph._support.validation import check_choice, check_number
from phasegraph.errors import InsufficientDataError, InvalidInputError, InvalidTypeError
from phasegraph.ranking import Ranking


class Scored(Protocol):
    """Ids and their scores, of a Ranking (scores of a source) or a Result (final scores); higher scores are better."""

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the n hits."""

    @property
    def scores(self) -> FloatArray:
        """The scores of the n hits, as an (n,) array."""


@dataclass(frozen=True, slots=True, eq=False)
class JudgedScores:
    """The scores, relevance labels and queries of judged hits.

    Parameters
    ----------
    scores : (n,) array_like of float
        The score of each hit, finite; higher is better. All scores have the same unit.
    labels : (n,) array_like of {0, 1} or bool
        1 for a relevant hit, else 0.
    queries : (n,) sequence of hashable, optional
        The query of each hit. Default: each hit has its own query, which is only valid for a sample with a single hit
        per query.
    source : str
        Name of the source of the scores; empty if there is no single source.

    Attributes
    ----------
    groups : (n,) array of int
        The number of each hit's query, from 0 to `query_count` - 1, in order of first appearance.
    names : tuple
        The distinct queries; ``names[i]`` is the query with the number i.

    Raises
    ------
    InvalidInputError
        If lengths differ, a score is not finite or a label is not 0 or 1.
    InsufficientDataError
        If there is no hit, or all labels are equal.

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
                f"JudgedScores.scores and .labels must be flat arrays of equal length; got shapes {scores.shape} and "
                f"{labels.shape}"
            )
        if not len(scores):
            raise InsufficientDataError("JudgedScores.scores is empty: give at least one judged hit")
        if not np.isfinite(scores).all():
            raise InvalidInputError(
                f"JudgedScores.scores must be finite; got {scores[~np.isfinite(scores)][0]} at position "
                f"{int(np.argmin(np.isfinite(scores)))}"
            )
        if labels.dtype.kind not in "biuf" or not ((labels == 0) | (labels == 1)).all():
            raise InvalidInputError(
                "JudgedScores.labels must be 0 or 1; got "
                f"{next((one for one in labels.tolist() if one not in (0, 1)), labels.dtype)!r:.80}"
            )
        if labels.all() or not labels.any():
            kind = "relevant" if labels.all() else "not relevant"
            raise InsufficientDataError(
                f"fitting a threshold needs relevant and irrelevant hits; all {len(labels)} hits are {kind}: judge "
                "hits of both kinds"
            )
        queries = range(len(scores)) if self.queries is None else self.queries
        if len(queries) != len(scores):
            raise InvalidInputError(
                f"JudgedScores.queries must name one query per hit; got {len(queries)} for {len(scores)}"
            )
        rows, groups = number_queries(queries)
        flags = labels.astype(bool)
        for name, array in (("scores", scores), ("labels", flags), ("groups", groups)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "queries", None)
        object.__setattr__(self, "names", rows)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def query_count(self) -> int:
        """The number of different queries."""
        return len(self.names)

    @property
    def positives(self) -> int:
        """The number of relevant hits."""
        return int(self.labels.sum())

    def only(self, kept: BoolArray, /) -> JudgedScores:
        """Return the judged hits of some queries; `kept` is a (q,) mask of these queries, in the order of `names`."""
        rows = np.flatnonzero(kept[self.groups])
        part = JudgedScores(self.scores[rows], self.labels[rows], self.groups[rows], self.source)
        object.__setattr__(part, "names", tuple(self.names[row] for row in np.flatnonzero(kept).tolist()))
        return part

    def split(self, *, rng: int | np.random.Generator = 0) -> tuple[JudgedScores, JudgedScores]:
        """Split the judged hits into two parts, each with half of the queries; the queries are drawn randomly.

        No query is in both parts. `rng` is a seed or a generator.
        """
        if self.query_count < 2:
            raise InsufficientDataError(
                f"a split by query needs at least 2 judged queries; got {self.query_count}: judge more queries"
            )
        order = np.random.default_rng(rng).permutation(self.query_count)
        kept = np.zeros(self.query_count, dtype=bool)
        kept[order[: self.query_count // 2]] = True
        return self.only(kept), self.only(~kept)


def judge(answers: Mapping[str, Scored], relevant: Mapping[str, Collection[str]], /) -> JudgedScores:
    """Judge the hits of rankings or results by the ids of the relevant passages.

    Parameters
    ----------
    answers : mapping of str to Ranking or Result
        The rankings of a source, or the results of a pipeline, by query.
    relevant : mapping of str to collection of str, or to mapping of str to float
        The ids of all relevant passages by query, or their gains by id; ids with a gain of 0 or less are not relevant.
        Every query of `answers` must be a key; its ids may be empty.

    Returns
    -------
    JudgedScores
        The judged hits of all queries.

    Raises
    ------
    InvalidInputError
        If a query of `answers` is not in `relevant`, or a gain is not finite.
    InvalidTypeError
        If an answer is not a Ranking or Result, or the ids are not a collection of texts.
    InsufficientDataError
        If no hit is relevant, or all hits are relevant.

    Examples
    --------
    >>> from phasegraph.ranking import Ranking
    >>> judged = judge({"q": Ranking("v", ["a", "b"], [0.9, 0.5])}, {"q": {"b"}})
    >>> judged.scores, judged.labels
    (array([0.9, 0.5]), array([False,  True]))
    """
    gold = relevant_ids(relevant)
    missing = [query for query in answers if query not in gold]
    if missing:
        raise InvalidInputError(
            f"every query must be judged; `relevant` lacks {missing[0]!r}: add it, with an empty set if no passage is "
            "relevant"
        )
    for query, answer in answers.items():
        if not hasattr(answer, "ids") or not hasattr(answer, "scores"):
            raise InvalidTypeError(
                f"answers[{query!r}] must be a Ranking or a Result; got {type(answer).__name__}: give the ranking of "
                "one source, or the result of a pipeline"
            )
    scores = [np.asarray(answer.scores, dtype=np.float64) for answer in answers.values()]
    labels = [identifier in gold[query] for query, answer in answers.items() for identifier in answer.ids]
    queries = [query for query, answer in answers.items() for _ in answer.ids]
    names = {str(getattr(answer, "source", "")) for answer in answers.values()}
    return JudgedScores(
        np.concatenate(scores) if scores else np.empty(0),
        np.array(labels, dtype=bool),
        queries,
        source=names.pop() if len(names) == 1 else "",
    )


def number_queries(queries: Sequence[object] | IntArray, /) -> tuple[tuple[object, ...], IntArray]:
    """Return the distinct queries in order of first appearance and, for each entry, its query's position among them."""
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
        raise InvalidTypeError(f"queries must be hashable, for example ids; {error}") from error
    return tuple(rows), np.array(groups, dtype=np.intp)


def require_separate(first: JudgedScores, second: JudgedScores, /) -> None:
    """Raise InvalidInputError if `first` and `second` share a query, because a test on `second` would be biased."""
    shared = set(first.names) & set(second.names)
    if shared:
        example = sorted(map(repr, shared))[0]
        raise InvalidInputError(
            f"the two parts must not share a query; {len(shared)} are in both, for example {example}"
        )


def per_query(
    scores: FloatArray, groups: IntArray, count: int, labels: BoolArray | None = None
) -> dict[str, FloatArray]:
    """Return (count,) arrays by name: each query's best score, mean score and, with `labels`, share of relevant hits.

    `groups` contains the number of each hit's query, from 0 to `count` - 1.
    """
    sizes = np.maximum(np.bincount(groups, minlength=count), 1)
    tops = np.full(count, -np.inf)
    np.maximum.at(tops, groups, scores)
    columns = {"best score": tops, "mean score": np.bincount(groups, weights=scores, minlength=count) / sizes}
    if labels is not None:
        columns["prevalence"] = np.bincount(groups, weights=labels.astype(np.float64), minlength=count) / sizes
    return columns


LEVEL = 0.999
LEAST_QUERIES = 10
_LEAST_HITS = 20


class Correlation(NamedTuple):
    """Spearman's correlation of scores with relevance (`value`), and the number of queries (`queries`) behind it.

    `low` and `high` are the ends of its 99.9 % confidence interval.
    """

    value: float
    low: float
    high: float
    queries: int


def rank_correlation(judged: JudgedScores, /) -> Correlation | None:
    """Compute Spearman's correlation of scores with relevance within each query, averaged over queries.

    Hits are compared only within a query, because the level of the scores differs between queries. The confidence
    interval is Student's t interval over the correlations of the queries. Return None if fewer than 10 queries have
    relevant and irrelevant hits with different scores.

    If every query has a single hit, compute the correlation over all hits instead; return None for fewer than 20 hits.
    The interval is then Fisher's in the form of Bonett and Wright, Psychometrika 2000, doi:10.1007/BF02294183.

    Examples
    --------
    >>> judged = JudgedScores([0.9, 0.4, 0.1] * 10, [0, 0, 1] * 10, np.repeat(np.arange(10), 3))
    >>> round(rank_correlation(judged).value, 3)
    -0.866
    """
    if judged.query_count == len(judged):
        if len(judged) < _LEAST_HITS:
            return None
        whole = _spearman(judged.scores, judged.labels, np.zeros(len(judged), dtype=np.intp))
        return _over_hits(float(whole[0]), len(judged)) if len(whole) else None
    found = _spearman(judged.scores, judged.labels, judged.groups)
    return _over_queries(found) if len(found) >= LEAST_QUERIES else None


def check_orientation(judged: JudgedScores, /, source: str = "") -> None:
    """Raise an error if relevant hits have lower scores than other hits.

    Parameters
    ----------
    judged : JudgedScores
        The judged hits.
    source : str
        Name of the source for the message; default ``judged.source``.

    Raises
    ------
    InvalidInputError
        If the whole confidence interval of :func:`rank_correlation` is below 0. The scores are then probably distances.
        For a source whose scores do not depend on relevance, the probability of this error is 1 in 2,000.

    Examples
    --------
    >>> distances = JudgedScores([0.1, 0.4, 0.9] * 10, [1, 0, 0] * 10, np.repeat(np.arange(10), 3), source="vector")
    >>> check_orientation(distances)
    Traceback (most recent call last):
    phasegraph.errors.InvalidInputError: source 'vector' must score relevant passages higher than others; ...
    """
    found = rank_correlation(judged)
    if found is None or found.high >= 0:
        return
    name = source or judged.source
    raise InvalidInputError(
        f"{f'source {name!r}' if name else 'a source'} must score relevant passages higher than others; the rank "
        f"correlation of its scores with relevance is {found.value:.2f} ({LEVEL:.1%} interval {found.low:.2f} to "
        f"{found.high:.2f}, {found.queries} judged queries): if the scores are distances, set higher_is_better=False"
    )


def check_orientations(
    answers: Iterable[tuple[str, Sequence[Ranking]]], relevant: Mapping[str, Collection[str]], /
) -> None:
    """Check each source in the rankings of many queries with :func:`check_orientation`.

    Parameters
    ----------
    answers : iterable of (query, sequence of Ranking)
        The rankings of all sources for each query. Rankings without scores are ignored.
    relevant : mapping of str to collection of str
        The ids of the relevant passages by query. Queries that are not in the mapping are ignored.
    """
    gold = check_relevant(relevant)
    scores: dict[str, list[FloatArray]] = {}
    labels: dict[str, list[bool]] = {}
    queries: dict[str, list[int]] = {}
    for row, (query, rankings) in enumerate(answers):
        for ranking in rankings:
            if query in gold and len(ranking) and not ranking.rank_only:
                scores.setdefault(ranking.source, []).append(ranking.scores)
                labels.setdefault(ranking.source, []).extend(name in gold[query] for name in ranking.ids)
                queries.setdefault(ranking.source, []).extend([row] * len(ranking))
    for name in sorted(scores):
        if len(set(labels[name])) == 2:
            judged = JudgedScores(np.concatenate(scores[name]), np.array(labels[name]), np.array(queries[name]))
            check_orientation(judged, name)


def check_relevant(relevant: Mapping[str, Collection[str]], /) -> dict[str, frozenset[str]]:
    """Return the ids of the relevant passages by query; raise InvalidTypeError if the types are wrong."""
    if not isinstance(relevant, Mapping):
        raise InvalidTypeError(f"relevant must be a mapping of queries to ids; got {type(relevant).__name__}")
    for query, ids in relevant.items():
        if isinstance(ids, str) or not isinstance(ids, Collection) or not all(isinstance(one, str) for one in ids):
            raise InvalidTypeError(f"relevant[{query!r}] must be a collection of ids of passages; got {ids!r:.80}")
    return {query: frozenset(ids) for query, ids in relevant.items()}


def relevant_ids(relevant: Mapping[str, Collection[str]], /) -> dict[str, frozenset[str]]:
    """Return the ids of the relevant passages by query, as :func:`check_relevant`.

    If a query has gains by id, only the ids with a gain above 0 are relevant.

    >>> relevant_ids({"q": {"a": 2, "b": 0}})
    {'q': frozenset({'a'})}
    """
    known = check_relevant(relevant)
    for query, ids in relevant.items():
        if isinstance(ids, Mapping):
            gains = {one: check_number(f"relevant[{query!r}][{one!r}]", ids[one], minimum=None) for one in ids}
            known[query] = frozenset(one for one, gain in gains.items() if gain > 0)
    return known


def _spearman(scores: FloatArray, labels: BoolArray, groups: IntArray) -> FloatArray:
    """Return Spearman's correlation of scores with relevance within each query, as an array.

    The array has no entry for a query if its hits all have the same score, are all relevant, or are all irrelevant.
    """
    order = np.lexsort((scores, groups))
    ordered, group = scores[order], groups[order]
    begins = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]) | (group[1:] != group[:-1])))
    sizes = np.diff(np.append(begins, len(ordered)))
    rank = _centred(np.repeat(begins + (sizes - 1) / 2.0, sizes), group)
    label = _centred(labels[order].astype(np.float64), group)
    spread = np.bincount(group, rank * rank) * np.bincount(group, label * label)
    told = spread > 1e-12
    return np.asarray(np.bincount(group, rank * label)[told] / np.sqrt(spread[told]))


def _centred(values: FloatArray, group: IntArray) -> FloatArray:
    means = np.bincount(group, values) / np.maximum(np.bincount(group), 1)
    return np.asarray(values - means[group])


def _over_queries(found: FloatArray) -> Correlation:
    from scipy.special import stdtrit  # imported on first use, because this import takes as long as numpy's import

    mean = float(found.mean())
    count = len(found)
    width = float(stdtrit(count - 1, 0.5 + LEVEL / 2)) * float(found.std(ddof=1)) / np.sqrt(count)
    return Correlation(mean, max(mean - width, -1.0), min(mean + width, 1.0), count)


def _over_hits(value: float, count: int) -> Correlation:
    from scipy.special import ndtri

    width = float(ndtri(0.5 + LEVEL / 2)) * np.sqrt((1 + value * value / 2) / (count - 3))
    middle = np.arctanh(min(max(value, -1 + 1e-12), 1 - 1e-12))
    return Correlation(value, float(np.tanh(middle - width)), float(np.tanh(middle + width)), count)


Risk = Literal["wrong", "missed"]


def query_losses(judged: JudgedScores, thresholds: FloatArray, /, *, risk: Risk) -> FloatArray:
    """Compute the loss of each query at each threshold.

    Parameters
    ----------
    judged : JudgedScores
        The judged hits of q queries.
    thresholds : (t,) array of float
        Ascending thresholds; a hit is accepted if its score is at or above the threshold.
    risk : {"wrong", "missed"}
        The loss of a query. ``wrong``: the share of its accepted hits that are not relevant, NaN without an accepted
        hit. ``missed``: the share of its relevant hits that are not accepted, NaN without a relevant hit.

    Returns
    -------
    (q, t) array of float
        Losses in [0, 1] or NaN.
    """
    check_choice("risk", risk, ("wrong", "missed"))
    width = len(thresholds) + 1
    passed = np.searchsorted(thresholds, judged.scores, side="right")
    cells = judged.groups * width + passed
    total = judged.query_count * width
    relevant = _at_or_above(np.bincount(cells[judged.labels], minlength=total), width)
    if risk == "wrong":
        whole = _at_or_above(np.bincount(cells, minlength=total), width)[:, 1:].astype(np.float64)
    else:
        whole = np.repeat(relevant[:, :1], width - 1, axis=1).astype(np.float64)
    return np.asarray(np.where(whole > 0, (whole - relevant[:, 1:]) / np.maximum(whole, 1.0), np.nan))


def _at_or_above(cells: IntArray, width: int) -> IntArray:
    table = cells.reshape(-1, width)
    return np.ascontiguousarray(np.cumsum(table[:, ::-1], axis=1)[:, ::-1])
