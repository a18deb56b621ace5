"""Does a source's score rise with relevance? A distance that is read as a similarity is found here, before it is used.

Only judged hits can tell: without labels nothing is said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from phasegraph._typing import BoolArray, FloatArray, IntArray
from phasegraph.acceptance.judged import JudgedScores
from phasegraph.candidates import Ranking
from phasegraph.errors import InvalidInputError, InvalidTypeError

LEVEL = 0.999
LEAST_QUERIES = 10
_LEAST_HITS = 20


@dataclass(frozen=True, slots=True)
class Correlation:
    """Spearman's correlation of scores with relevance.

    Parameters
    ----------
    value : float
        In [-1, 1].
    low, high : float
        Its 99.9 % confidence interval.
    queries : int
        Queries that it comes from.
    """

    value: float
    low: float
    high: float
    queries: int


def rank_correlation(judged: JudgedScores, /) -> Correlation | None:
    """Spearman's correlation of scores with relevance inside a query, averaged over queries.

    Parameters
    ----------
    judged : JudgedScores

    Returns
    -------
    Correlation or None
        None where too little is judged to tell: fewer than 10 queries with relevant and irrelevant hits of different
        scores.

    Notes
    -----
    Queries differ in how high they score, so hits are compared with those of their own query only, and the query is
    the unit of the interval (Student's t over the queries' correlations). Where every query has a single hit, the
    correlation is that over all hits, with Fisher's interval in Bonett and Wright's form; from 20 hits on.

    References
    ----------
    .. [1] Bonett and Wright, "Sample size requirements for estimating Pearson, Kendall and Spearman correlations",
       Psychometrika 2000, doi:10.1007/BF02294183

    Examples
    --------
    >>> judged = JudgedScores([0.9, 0.4, 0.1] * 10, [0, 0, 1] * 10, np.repeat(np.arange(10), 3))
    >>> found = rank_correlation(judged)
    >>> round(found.value, 3), found.queries
    (-0.866, 10)
    """
    if judged.query_count == len(judged):
        if len(judged) < _LEAST_HITS:
            return None
        whole = _spearman(judged.scores, judged.labels, np.zeros(len(judged), dtype=np.intp))
        return _over_hits(float(whole[0]), len(judged)) if len(whole) else None
    found = _spearman(judged.scores, judged.labels, judged.groups)
    return _over_queries(found) if len(found) >= LEAST_QUERIES else None


def check_orientation(judged: JudgedScores, /, source: str = "") -> None:
    """Refuse scores that fall where relevance rises.

    Parameters
    ----------
    judged : JudgedScores
    source : str
        Its name, for the message; default the one that `judged` knows.

    Raises
    ------
    InvalidInputError
        If :func:`rank_correlation` is below 0 with its whole interval: the source's scores are distances, or it is
        read the wrong way round. One source in two thousand that knows nothing of relevance is refused, too.

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
        f"{found.high:.2f}, {found.queries} judged queries): say higher_is_better=False if they are distances"
    )


def check_orientations(
    answers: Iterable[tuple[str, Sequence[Ranking]]], relevant: Mapping[str, Collection[str]], /
) -> None:
    """Refuse rankings of which a source's scores fall where relevance rises; see :func:`check_orientation`.

    Parameters
    ----------
    answers : iterable of (query, sequence of Ranking)
        Of any number of sources. Ranks without scores are passed over.
    relevant : mapping of str to collection of str
        By query, the ids of its relevant passages; queries that it lacks are not judged.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        Naming the source; or if `relevant` is no such mapping.
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
    """Ids of relevant passages by query, or InvalidTypeError that says what is wrong."""
    if not isinstance(relevant, Mapping):
        raise InvalidTypeError(f"relevant must map queries to ids of passages; got {type(relevant).__name__}")
    for query, ids in relevant.items():
        if isinstance(ids, str) or not isinstance(ids, Collection) or not all(isinstance(one, str) for one in ids):
            raise InvalidTypeError(f"relevant[{query!r}] must be a collection of ids of passages; got {ids!r:.80}")
    return {query: frozenset(ids) for query, ids in relevant.items()}


def _spearman(scores: FloatArray, labels: BoolArray, groups: IntArray) -> FloatArray:
    """Spearman's correlation inside each group that has both labels and more than one score."""
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
    from scipy.special import stdtrit  # imported late: it costs as much as numpy itself

    mean = float(found.mean())
    count = len(found)
    width = float(stdtrit(count - 1, 0.5 + LEVEL / 2)) * float(found.std(ddof=1)) / np.sqrt(count)
    return Correlation(mean, max(mean - width, -1.0), min(mean + width, 1.0), count)


def _over_hits(value: float, count: int) -> Correlation:
    from scipy.special import ndtri

    width = float(ndtri(0.5 + LEVEL / 2)) * np.sqrt((1 + value * value / 2) / (count - 3))
    middle = np.arctanh(min(max(value, -1 + 1e-12), 1 - 1e-12))
    return Correlation(value, float(np.tanh(middle - width)), float(np.tanh(middle + width)), count)
