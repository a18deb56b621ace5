"""Personalised PageRank: where a walk that restarts at the seeds spends its time.

One function, :func:`personalized_pagerank`, over one prepared graph, :class:`WalkOperator`. The reference is
``power`` (float64, an L1 error bound); ``chebyshev`` needs a third of its steps where the graph is
undirected; ``push`` reads only the edges near the seeds, so that its cost hardly depends on the size of the
graph. :class:`SemanticFlow` is the directed walk whose edge weights depend on the query.
"""

from phasegraph.graph.pagerank.operator import WalkOperator
from phasegraph.graph.pagerank.push import PageRankResult
from phasegraph.graph.pagerank.solve import (
    personalized_pagerank,
    personalized_pagerank_batch,
)

__all__ = [
    "PageRankResult",
    "WalkOperator",
    "personalized_pagerank",
    "personalized_pagerank_batch",
]
