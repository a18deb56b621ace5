"""How much each source counts where the caller gave no weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, combinations
from operator import attrgetter, mul
from types import MappingProxyType

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.ranking import Ranking

VECTOR, GRAPH = "vector", "graph"
DEPTH, PERSISTENCE = 20, 0.8
DOUBT = (0.2, 0.4)
SHARP_WEIGHT = 0.1
DIFFUSE, DIFFUSE_WEIGHT = (13.0, 16.0), 0.9
DIFFUSE_OF_MANY, DIFFUSE_WEIGHT_OF_MANY = (10.0, 13.0), 0.95
FIXED_VECTOR_WEIGHT = 0.25
_SOURCE = attrgetter("source")
_FALLING = tuple(accumulate([1.0] + [PERSISTENCE] * (DEPTH - 1), mul))
_FALLING_SUMS = tuple(accumulate(_FALLING))


def equal_weights(rankings: Sequence[Ranking], /) -> FloatArray:
    """Weight 1 for every source."""
    return np.ones(len(rankings))


def role_weights(rankings: Sequence[Ranking], /) -> FloatArray:
    """Vector .25 and graph .75 where a source named ``graph`` declares its background; otherwise all equal."""
    if _walk_of(rankings) is None:
        return equal_weights(rankings)
    own = {VECTOR: FIXED_VECTOR_WEIGHT, GRAPH: 1.0 - FIXED_VECTOR_WEIGHT}
    return np.array([own.get(ranking.source, 0.5) for ranking in rankings])


def adaptive_weights(rankings: Sequence[Ranking], /) -> FloatArray:
    """Weights that follow, per query, how far the sources agree and how sharply the walk points.

    Parameters
    ----------
    rankings : sequence of Ranking
        One per source that answered.

    Returns
    -------
    (m,) array of float
        >= 0, summing to 1. All equal unless there is a source named ``vector`` and one named ``graph`` that states
        its background.

    Notes
    -----
    The *support* of two sources is their rank-biased overlap (p = .8) over the first 20 hits, mapped from [.2, .4]
    to [0, 1]. The walk's *effective number* is the exponential of the entropy of the shares of its 20 largest
    scores. A sharp walk (13 or fewer) leaves the vectors a weight of .1, a diffuse one (16 or more) .9; where there
    are further sources the bounds are 10 and 13, and the weight of each of them rises to .95. The walk keeps its
    share as far as some source supports it, so that a walk which went wrong hands its weight to the others; vectors
    are doubted only where two others agree without them.

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
    walk = _walk_of(rankings)
    if walk is None:
        return np.array([1.0 / max(len(rankings), 1)] * len(rankings))
    names = list(map(_SOURCE, rankings))
    graph, vector, count = names.index(GRAPH), names.index(VECTOR), len(names)
    if count == 2:
        best, elsewhere = [support(*rankings)] * 2, 0.0
        bounds, ceiling = DIFFUSE, DIFFUSE_WEIGHT
    else:
        pairs = {(one, other): support(rankings[one], rankings[other]) for one, other in combinations(range(count), 2)}
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


def support(one: Ranking, other: Ranking, /) -> float:
    """Rank-biased overlap of the first 20 hits of two rankings, mapped from [.2, .4] to [0, 1]; symmetric."""
    deepest = min(len(one), len(other), DEPTH)
    if not deepest:
        return 0.0
    place_of = dict(zip(other.ids[:deepest], range(deepest), strict=True))
    joins = [0] * deepest  # how many ids have come in both lists at this depth, but not at the one before
    for row, identifier in enumerate(one.ids[:deepest]):
        place = place_of.get(identifier)
        if place is not None:
            joins[row if row > place else place] += 1
    shared, total = 0, 0.0
    for depth, joined in enumerate(joins, start=1):
        shared += joined
        total += _FALLING[depth - 1] * shared / depth
    return _ramp(total / _FALLING_SUMS[deepest - 1], *DOUBT)


def effective_number(walk: Ranking, /) -> float:
    """Exponential of the entropy of the shares of the 20 largest masses: 1 (one passage) to 20 (flat)."""
    masses = walk.scores[:DEPTH]
    if walk.background is not None and walk.background.transform == "identity":
        masses = masses - walk.background.location
    positive = masses if len(masses) and masses[-1] > 0 else masses[masses > 0]
    if not len(positive):
        return float(DEPTH)
    shares = positive / float(np.add.reduce(positive))
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


WEIGHTINGS: Mapping[str, Callable[[Sequence[Ranking]], FloatArray]] = MappingProxyType(
    {"adaptive": adaptive_weights, "equal": equal_weights, "roles": role_weights}
)
