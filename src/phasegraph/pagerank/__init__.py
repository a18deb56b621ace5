"""Personalized PageRank: the share of time that a random walk with restarts at the seeds spends at each node.

:func:`personalized_pagerank` computes it for a prepared graph, a :class:`WalkOperator`, by one of three methods.
``power`` is the reference method, in float64 and with a bound on the L1 error. ``chebyshev`` needs a third of the steps
of ``power``, but works only on undirected graphs. ``push`` reads only edges near the seeds, so its cost hardly depends
on the size of the graph.
"""

from phasegraph.pagerank.operator import WalkOperator
from phasegraph.pagerank.push import PageRankResult
from phasegraph.pagerank.solve import personalized_pagerank

__all__ = [
    "PageRankResult",
    "WalkOperator",
    "personalized_pagerank",
]
