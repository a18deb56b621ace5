"""Personalised PageRank: where a walk that restarts at the seeds spends its time.

One function, :func:`personalized_pagerank`, over one prepared graph, :class:`WalkOperator`. The reference is
``power`` (float64, an L1 error bound); ``chebyshev`` needs a third of its steps where the graph is
undirected; ``push`` reads only the edges near the seeds, so that its cost hardly depends on the size of the
graph. Nothing here knows what a node stands for.
"""

from phasegraph.pagerank.operator import WalkOperator
from phasegraph.pagerank.push import PageRankResult
from phasegraph.pagerank.solve import (
    personalized_pagerank,
    personalized_pagerank_batch,
)

__all__ = [
    "PageRankResult",
    "WalkOperator",
    "personalized_pagerank",
    "personalized_pagerank_batch",
]
