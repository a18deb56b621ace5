"""A query together with the data for its search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phasegraph.graph.walk.fact_filter import KeptFacts
from phasegraph.ranking import Ranking


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A query together with the data for its search.

    Parameters
    ----------
    query : str
        The query.
    ranking : Ranking, optional
        The dense ranking of an upstream source.
    vector : (d,) array_like of float, optional
        The query's embedding.
    limit : int, optional
        Maximum number of hits; None means all.
    kept : KeptFacts, optional
        The facts that the fact filter accepted; None without facts, vector or filter.
    """

    query: str
    ranking: Ranking | None
    vector: Any
    limit: int | None
    kept: KeptFacts | None = None
