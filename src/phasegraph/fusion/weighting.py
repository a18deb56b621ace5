"""How much each source counts where the caller gave no weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, combinations
from operator import attrgetter, mul
from types import MappingProxyType

import numpy as np

from phasegraph._support.numbers import moderate
from phasegraph._support.typing import FloatArray
from phasegraph.ranking import Ranking

VECTOR, GRAPH = "vector", "graph"
DEPTH, PERSISTENCE = 20, 0.8
_NOTHING = 1e-300
DOUBT = (0.2, 0.4)
SHARP_WEIGHT = 0.1
DIFFUSE, DIFFUSE_WEIGHT = (13.0, 16.0), 0.9
DIFFUSE_OF_MANY, DIFFUSE_WEIGHT_OF_MANY = (10.0, 13.0), 0.95
FIXED_VECTOR_WEIGHT = 0.25
AGREEMENT_BY_WORDS = _LEAST_BY_WORDS, _FULL_BY_WORDS = (0.175, 0.425)
WITNESS_PREFERS, WITNESS_BELIEVED = (0.6, 1.0), (0.4, 0.6)
_RARE = 0.02
MOST_BY_WORDS = 0.95
_SOURCE = attrgetter("source")
_FALLING = tuple(accumulate([1.0] + [PERSISTENCE] * (DEPTH - 1), mul))
_FALLING_SUMS = tuple(accumulate(_FALLING))


def equal_weights(rankings: Sequence[Ranking], /, witness: Sequence[str] = ()) -> FloatArray:
    """Weight 1 for every source."""
    return np.ones(len(rankings))


def role_weights(rankings: Sequence[Ranking], /, witness: Sequence[str] = ()) -> FloatArray:
    """Vector .25 and graph .75 where a source named ``graph`` declares its background; otherwise all equal."""
    if _walk_of(rankings) is None:
        return equal_weights(rankings)
    own = {VECTOR: FIXED_VECTOR_WEIGHT, GRAPH: 1.0 - FIXED_VECTOR_WEIGHT}
    return np.array([own.get(ranking.source, 0.5) for ranking in rankings])


def adaptive_weights(rankings: Sequence[Ranking], /, witness: Sequence[str] = ()) -> FloatArray:
    """Weights that follow, per query, how far the sources agree and how sharply the walk points.

    Parameters
    ----------
    rankings : sequence of Ranking
        One per source that answered.
    witness : sequence of str, optional
        Ids of hits in an order that no source made, best first: by the query's words in their texts (``HitWords``).

    Returns
    -------
    (m,) array of float
        >= 0, summing to 1. All equal unless a source named ``graph`` knows the query's words, or states its background
        beside one named ``vector``.

    Notes
    -----
    Where the walk knows the query's words (``Ranking.words``), its weight a is .95 times the greatest agreement it has
    with another source or with the witness: rank-biased overlap (p = .8) over the first 20 hits, mapped from [.175,
    .425] to [0, 1]. The others share the rest equally. The witness speaks for the walk only as far as it does not agree
    more with another source: not at all where the walk has .4 of the two overlaps, fully from .6 on. From there the
    witness speaks for the walk even where the overlap is small. A walk that went wrong, or that of another question,
    finds agreement nowhere and weighs nothing.

    For other walks: the *support* of two sources is their rank-biased overlap (p = .8) over the first 20 hits, mapped
    from [.2, .4] to [0, 1]. The walk's *effective number* is the exponential of the entropy of the shares of its 20
    largest scores. A sharp walk (13 or fewer) leaves the vectors a weight of .1, a diffuse one (16 or more) .9; where
    there are further sources the bounds are 10 and 13, and the weight of each of them rises to .95. The walk keeps its
    share as far as some source supports it, so that a walk which went wrong hands its weight to the others; vectors are
    doubted only where two others agree without them.

    It looks at the first 20 hits of each list and nothing else, so it is the same for lists of 20 and of 200. A
    change within them moves the weights of all candidates; a hit raised there may for that reason fall.

    Ours, found on open data, no published method; what failed is in ``docs/research/robust-default.md``.

    References
    ----------
    .. [1] Webber, Moffat, Zobel, "A similarity measure for indefinite rankings", ACM TOIS 2010,
       doi:10.1145/1852102.1852106

    Examples
    --------
    >>> from phasegraph import Background
    >>> ids = [f"p{i}" for i in range(20)]
    >>> walk = Ranking("graph", ids, 0.5 ** np.arange(20), background=Background(-9.0, 1.0, "log", 1e-4))
    >>> adaptive_weights([walk, Ranking("vector", ids, np.arange(20.0, 0, -1))]).round(3)
    array([0.9, 0.1])
    >>> adaptive_weights([walk, Ranking("vector", [f"q{i}" for i in range(20)], np.arange(20.0, 0, -1))]).round(3)
    array([0., 1.])
    """
    knowing = _walk_by_words(rankings)
    if knowing is not None:
        return _weights_by_words(rankings, knowing, witness)
    walk = _walk_of(rankings)
    if walk is None:
        return np.array([1.0 / max(len(rankings), 1)] * len(rankings))
    names = list(map(_SOURCE, rankings))
    graph, vector, count = names.index(GRAPH), names.index(VECTOR), len(names)
    if count == 2:
        best, elsewhere = [support(rankings[0].ids, rankings[1].ids)] * 2, 0.0
        bounds, ceiling = DIFFUSE, DIFFUSE_WEIGHT
    else:
        pairs = {
            (one, other): support(rankings[one].ids, rankings[other].ids)
            for one, other in combinations(range(count), 2)
        }
        best = [max(share for pair, share in pairs.items() if place in pair) for place in range(count)]
        elsewhere = max(share for pair, share in pairs.items() if vector not in pair)
        bounds, ceiling = DIFFUSE_OF_MANY, DIFFUSE_WEIGHT_OF_MANY
    own = SHARP_WEIGHT + _ramp(effective_number(walk), *bounds) * (ceiling - SHARP_WEIGHT)
    share = best[graph] * (1.0 - own) / (1.0 - own + own * (count - 1))
    trust = [1.0] * count
    trust[vector] = 1.0 - (1.0 - best[vector]) * elsewhere
    trust[graph] = 0.0
    total = float(np.add.reduce(trust))
    weights = [one * (1.0 - share) / total for one in trust]
    weights[graph] = share
    return np.array(weights)


def _walk_by_words(rankings: Sequence[Ranking]) -> int | None:
    """Place of a source named graph that knows the query's words, beside others."""
    if len(rankings) < 2:
        return None
    return next((at for at, one in enumerate(rankings) if one.source == GRAPH and one.words is not None), None)


def _weights_by_words(rankings: Sequence[Ranking], graph: int, witness: Sequence[str]) -> FloatArray:
    lists = [*(one.ids for one in rankings), witness]
    count = len(rankings)
    overlaps = np.zeros((count + 1, count + 1))
    for one, other in combinations(range(count + 1), 2):
        overlaps[one, other] = overlaps[other, one] = overlap(lists[one], lists[other])
    agrees = np.clip((overlaps - _LEAST_BY_WORDS) / (_FULL_BY_WORDS - _LEAST_BY_WORDS), 0.0, 1.0)
    np.fill_diagonal(agrees, 0.0)
    mine, theirs = float(overlaps[graph, count]), float(np.delete(overlaps[:count, count], graph).max())
    taken = mine / (mine + theirs + _RARE)
    witnessed = max(float(agrees[graph, count]), _ramp(taken, *WITNESS_PREFERS)) * _ramp(taken, *WITNESS_BELIEVED)
    agrees[graph, count] = agrees[count, graph] = witnessed
    share = MOST_BY_WORDS * float(agrees[graph].max())
    weights = np.full(count, (1.0 - share) / (count - 1))
    weights[graph] = share
    return weights


def support(one: Sequence[str], other: Sequence[str], /, bounds: tuple[float, float] = DOUBT) -> float:
    """Rank-biased overlap of the first 20 of two lists of ids, mapped from `bounds` to [0, 1]; symmetric."""
    return _ramp(overlap(one, other), *bounds)


def overlap(one: Sequence[str], other: Sequence[str], /) -> float:
    """Rank-biased overlap (p = .8) of the first 20 of two lists of ids, in [0, 1]; symmetric.

    Parameters
    ----------
    one, other : sequence of str
        Ids, best first.

    Returns
    -------
    float

    Examples
    --------
    >>> overlap(["a", "b"], ["a", "b"]), round(overlap(["a", "b"], ["b", "a"]), 3), overlap(["a"], [])
    (1.0, 0.444, 0.0)
    """
    deepest = min(len(one), len(other), DEPTH)
    if not deepest or frozenset(one[:deepest]).isdisjoint(other[:deepest]):
        return 0.0
    place_of = dict(zip(other[:deepest], range(deepest), strict=True))
    joins = [0] * deepest  # how many ids have come in both lists at this depth, but not at the one before
    for row, identifier in enumerate(one[:deepest]):
        place = place_of.get(identifier)
        if place is not None:
            joins[row if row > place else place] += 1
    shared, total = 0, 0.0
    for depth, joined in enumerate(joins, start=1):
        shared += joined
        total += _FALLING[depth - 1] * shared / depth
    return float(total / _FALLING_SUMS[deepest - 1])


def effective_number(walk: Ranking, /) -> float:
    """Exponential of the entropy of the shares of the 20 largest masses: 1 (one passage) to 20 (flat)."""
    masses = walk.scores[:DEPTH]
    if walk.background is not None and walk.background.transform == "identity":
        moved = moderate(np.append(masses, walk.background.location))
        masses = moved[:-1] - moved[-1]
    positive = masses if len(masses) and masses[-1] > 0 else masses[masses > 0]
    if not len(positive):
        return float(DEPTH)
    if not 1e-100 < positive[0] < 1e100:  # they fall: the first is the largest
        positive = moderate(positive)
    shares = positive / float(np.add.reduce(positive))
    if shares[-1] < _NOTHING:  # so little that its logarithm says nothing, or is not there
        shares = shares[shares >= _NOTHING]
    return math.exp(-float(np.add.reduce(shares * np.log(shares))))


def _walk_of(rankings: Sequence[Ranking]) -> Ranking | None:
    """The source named graph, where it states its background and there is one named vector."""
    walk, vectors = None, False
    for ranking in rankings:
        if ranking.source == GRAPH and ranking.background is not None and not ranking.rank_only:
            walk = ranking
        vectors = vectors or ranking.source == VECTOR
    return walk if vectors else None


def _ramp(value: float, low: float, high: float) -> float:
    return min(max((value - low) / (high - low), 0.0), 1.0)


WEIGHTINGS: Mapping[str, Callable[[Sequence[Ranking], Sequence[str]], FloatArray]] = MappingProxyType(
    {"adaptive": adaptive_weights, "equal": equal_weights, "roles": role_weights}
)
