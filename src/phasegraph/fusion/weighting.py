"""How much each source counts where the caller gave no weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from phasegraph._typing import FloatArray
from phasegraph.candidates import Ranking

VECTOR_WEIGHT = 0.25


def equal_weights(rankings: Sequence[Ranking], /) -> FloatArray:
    """The same weight for every source: (m,) ones."""
    return np.ones(len(rankings))


def role_weights(rankings: Sequence[Ranking], /) -> FloatArray:
    """Vector .25 and graph .75 where a source named ``graph`` states its background; otherwise all equal.

    Parameters
    ----------
    rankings : sequence of Ranking
        One per source that answered.

    Returns
    -------
    (m,) array of float
        Positive.

    Examples
    --------
    >>> from phasegraph import Background
    >>> stated = Ranking("graph", ["a"], [0.5], background=Background(-9.0, 1.0, "log", 1e-4))
    >>> role_weights([stated, Ranking("vector", ["a"], [0.5])])
    array([0.75, 0.25])
    """
    names = [ranking.source for ranking in rankings]
    stated = any(r.source == "graph" and r.background is not None and not r.rank_only for r in rankings)
    if not stated or "vector" not in names:
        return equal_weights(rankings)
    own = {"vector": VECTOR_WEIGHT, "graph": 1.0 - VECTOR_WEIGHT}
    return np.array([own.get(name, 0.5) for name in names])


WEIGHTINGS: Mapping[str, Callable[[Sequence[Ranking]], FloatArray]] = MappingProxyType(
    {"equal": equal_weights, "roles": role_weights}
)
