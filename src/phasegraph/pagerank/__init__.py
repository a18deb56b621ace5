"""Personalized PageRank: the share of time that a walk with restarts at the seeds spends at each node.

The function :func:`personalized_pagerank` walks a prepared graph, a :class:`WalkOperator`. There are three methods.
``power`` is the reference, in float64 and with a bound on the L1 error. ``chebyshev`` needs a third of its steps, but
an undirected graph. ``push`` reads only edges near the seeds, so its cost hardly depends on the size of the graph. The
methods work for any kind of node.
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
