"""Compute the weights of the sources for a query, if the pipeline has no fixed weights."""

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
_DEPTH, _PERSISTENCE = 20, 0.8
"""Number of first hits that affect the weights; the parameter p of rank-biased overlap."""
_NOTHING = 1e-300
"""Share of a score below which the effective number ignores the hit, because the share's logarithm may be infinite."""
_SUPPORTED = (0.2, 0.4)
"""Overlaps of two sources that are mapped to the supports 0 and 1."""
_SHARP_WEIGHT = 0.1
"""Weight of ``vector`` if the walk has full support and a low effective number."""
_DIFFUSE, _DIFFUSE_WEIGHT = (13.0, 16.0), 0.9
"""Effective numbers between which the weight of ``vector`` rises; its weight from the second number on."""
_DIFFUSE_OF_MANY, _DIFFUSE_WEIGHT_OF_MANY = (10.0, 13.0), 0.95
"""The same numbers with more than two sources."""
_FIXED_VECTOR_WEIGHT = 0.25
"""Weight of ``vector`` in :func:`role_weights`; the weight of ``graph`` is 1 minus this number."""
_LEAST_BY_WORDS, _FULL_BY_WORDS = 0.175, 0.425
"""Overlaps that are mapped to the agreements 0 and 1, for a walk with word statistics."""
_WITNESS_PREFERS = (0.6, 1.0)
"""Shares s (see :func:`adaptive_weights`) mapped to 0 and 1; the result is the least agreement with the witness."""
_WITNESS_BELIEVED = (0.4, 0.6)
"""Shares s mapped to 0 and 1; the result is the factor for the walk's agreement with the witness."""
_RARE = 0.02
"""Overlap that is added to the denominator of s, so that s is small if no source overlaps much with the witness."""
_MOST_BY_WORDS = 0.95
"""Weight of a walk with word statistics at an agreement of 1."""
_SOURCE = attrgetter("source")
_FALLING = tuple(accumulate([1.0] + [_PERSISTENCE] * (_DEPTH - 1), mul))
_FALLING_SUMS = tuple(accumulate(_FALLING))


def equal_weights(rankings: Sequence[Ranking], /, witness: Sequence[str] = ()) -> FloatArray:
    """Return the weight 1 for every source, as an (m,) array."""
    return np.ones(len(rankings))


def role_weights(rankings: Sequence[Ranking], /, witness: Sequence[str] = ()) -> FloatArray:
    """Return fixed weights by the names of the sources, or equal weights.

    Parameters
    ----------
    rankings : sequence of Ranking
        The ranking of each source that answered.
    witness : sequence of str, optional
        Ignored, because the weights are fixed.

    Returns
    -------
    (m,) array of float
        Weight 0.25 for ``vector``, 0.75 for ``graph`` and 0.5 for each other source. All weights are equal unless the
        source ``graph`` states its background and a source ``vector`` answered too.
    """
    if _walk_of(rankings) is None:
        return equal_weights(rankings)
    own = {VECTOR: _FIXED_VECTOR_WEIGHT, GRAPH: 1.0 - _FIXED_VECTOR_WEIGHT}
    return np.array([own.get(ranking.source, 0.5) for ranking in rankings])


def adaptive_weights(rankings: Sequence[Ranking], /, witness: Sequence[str] = ()) -> FloatArray:
    """Compute weights for a query from the agreement of its sources and the concentration of the graph walk.

    Parameters
    ----------
    rankings : sequence of Ranking
        The ranking of each source that answered.
    witness : sequence of str, optional
        Ids of hits, ordered by the query's words in their texts, best first (see
        :class:`~phasegraph.lexical.HitWords`). This order affects the weights but is never fused.

    Returns
    -------
    (m,) array of float
        Weights >= 0 with sum 1. All weights are equal unless the source ``graph`` has word statistics
        (``Ranking.words``), or has a background while a source ``vector`` answered too.

    Notes
    -----
    *A walk with word statistics.* The weight of the walk is 0.95 times its greatest agreement with another source or
    with the witness. The other sources share the rest equally. Agreement is the rank-biased overlap (p = 0.8) of the
    first 20 hits, mapped from [0.175, 0.425] to [0, 1]. The walk's agreement with the witness is then corrected in two
    steps. Let s be the walk's overlap with the witness, divided by the sum of this overlap, the witness's largest
    overlap with another source, and 0.02. First, an agreement below (s - 0.6) / 0.4 is raised to this number. Second,
    the agreement is multiplied by a factor: 0 up to s = 0.4, 1 from s = 0.6 on, and linear between the two. A walk that
    agrees with no other ranking gets the weight 0.

    *Other walks.* The *support* of two sources is the rank-biased overlap (p = 0.8) of their first 20 hits, mapped from
    [0.2, 0.4] to [0, 1]. The *effective number* of the walk is the exponential of the entropy of the shares of its 20
    largest scores. With two sources and full support, ``vector`` gets the weight 0.1 up to the effective number 13, 0.9
    from 16 on, and a linear interpolation between the two. With more sources, the bounds are 10 and 13, and 0.95
    replaces 0.9. The walk's weight is multiplied by its best support, so a walk without support passes its weight to
    the other sources. The weight of ``vector`` falls only if ``vector`` lacks full support, and two other sources
    support each other.

    Only the first 20 hits of each ranking affect the weights, so rankings of 20 and of 200 hits get the same weights. A
    change among these hits changes the weights for all candidates. A hit with a raised score may therefore fall.

    The authors of phasegraph developed this method on open data. ``docs/research/robust-default.md`` describes the
    method and the alternatives that failed.

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
        bounds, ceiling = _DIFFUSE, _DIFFUSE_WEIGHT
    else:
        pairs = {
            (one, other): support(rankings[one].ids, rankings[other].ids)
            for one, other in combinations(range(count), 2)
        }
        best = [max(share for pair, share in pairs.items() if place in pair) for place in range(count)]
        elsewhere = max(share for pair, share in pairs.items() if vector not in pair)
        bounds, ceiling = _DIFFUSE_OF_MANY, _DIFFUSE_WEIGHT_OF_MANY
    own = _SHARP_WEIGHT + _ramp(effective_number(walk), *bounds) * (ceiling - _SHARP_WEIGHT)
    share = best[graph] * (1.0 - own) / (1.0 - own + own * (count - 1))
    trust = [1.0] * count
    trust[vector] = 1.0 - (1.0 - best[vector]) * elsewhere
    trust[graph] = 0.0
    total = float(np.add.reduce(trust))
    weights = [one * (1.0 - share) / total for one in trust]
    weights[graph] = share
    return np.array(weights)


def _walk_by_words(rankings: Sequence[Ranking]) -> int | None:
    """Return the position of the ranking of ``graph``, if it has word statistics and is not alone; else None."""
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
    witnessed = max(float(agrees[graph, count]), _ramp(taken, *_WITNESS_PREFERS)) * _ramp(taken, *_WITNESS_BELIEVED)
    agrees[graph, count] = agrees[count, graph] = witnessed
    share = _MOST_BY_WORDS * float(agrees[graph].max())
    weights = np.full(count, (1.0 - share) / (count - 1))
    weights[graph] = share
    return weights


def support(one: Sequence[str], other: Sequence[str], /) -> float:
    """Compute the rank-biased overlap of the first 20 ids of two rankings, mapped from [0.2, 0.4] to [0, 1]."""
    return _ramp(overlap(one, other), *_SUPPORTED)


def overlap(one: Sequence[str], other: Sequence[str], /) -> float:
    """Compute the rank-biased overlap (p = 0.8) of the first 20 ids of two rankings.

    Parameters
    ----------
    one, other : sequence of str
        The ids of each ranking, best first; the order of the two rankings does not matter.

    Returns
    -------
    float
        The overlap in [0, 1].

    Examples
    --------
    >>> overlap(["a", "b"], ["a", "b"]), round(overlap(["a", "b"], ["b", "a"]), 3), overlap(["a"], [])
    (1.0, 0.444, 0.0)
    """
    deepest = min(len(one), len(other), _DEPTH)
    if not deepest or frozenset(one[:deepest]).isdisjoint(other[:deepest]):
        return 0.0
    place_of = dict(zip(other[:deepest], range(deepest), strict=True))
    joins = [0] * deepest  # number of ids that are in both rankings at this depth, but not at the previous depth
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
    """Compute the effective number of passages among the 20 best hits of a graph walk.

    Parameters
    ----------
    walk : Ranking
        The ranking of the walk.

    Returns
    -------
    float
        The exponential of the entropy of the shares of these hits in the sum of their scores. It is 1 if a single
        passage has the whole sum, and 20 if all scores are equal.
    """
    masses = walk.scores[:_DEPTH]
    if walk.background is not None and walk.background.transform == "identity":
        moved = moderate(np.append(masses, walk.background.location))
        masses = moved[:-1] - moved[-1]
    positive = masses if len(masses) and masses[-1] > 0 else masses[masses > 0]
    if not len(positive):
        return float(_DEPTH)
    if not 1e-100 < positive[0] < 1e100:  # the scores are in descending order
        positive = moderate(positive)
    shares = positive / float(np.add.reduce(positive))
    if shares[-1] < _NOTHING:  # negligible shares, whose logarithm may be infinite
        shares = shares[shares >= _NOTHING]
    return math.exp(-float(np.add.reduce(shares * np.log(shares))))


def _walk_of(rankings: Sequence[Ranking]) -> Ranking | None:
    """Return the ranking of ``graph`` if it has a background and a source ``vector`` answered, else None."""
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
