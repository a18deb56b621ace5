"""A walk that computes a passage's relevance only when much of the walk's mass is about to flow to the passage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from phasegraph._support.ordering import distinct
from phasegraph._support.typing import FloatArray, IntArray
from phasegraph.graph.walk.row_lookups import found_at
from phasegraph.pagerank import WalkOperator
from phasegraph.pagerank.push import RelevanceTransitions, ranges

Rounds: TypeAlias = Callable[..., tuple[int, int, int, int]]
MUCH = 1e-3
"""Share of the walk's total mass above which a flow into a passage makes the walk compute the passage's relevance."""


@dataclass(frozen=True, slots=True, eq=False)
class ListedGains:
    """The gains of all nodes after a walk, looked up by node like an array.

    The gain of a node is the factor by which the walk multiplies the weights of edges into the node. `values` are the
    gains of the passages in the ascending `rows`. All other passages have the gain `rest`, and entities have the gain
    1.
    """

    rows: IntArray
    values: FloatArray
    rest: float
    passages: int

    def take(self, nodes: Any) -> FloatArray:
        """Return the gain of each node in `nodes`: the factor for the weights of edges into this node."""
        return found_at(self.rows, self.values, nodes, np.where(nodes < self.passages, self.rest, 1.0))

    def __getitem__(self, node: int) -> float:
        return float(self.take(np.array([node]))[0])


class ListedTransitions(RelevanceTransitions):
    """Transitions that compute the gain of a passage only when it may receive more mass than `MUCH`.

    The gain of a passage is the factor by which the weights of all edges into the passage are multiplied. The function
    ``gains(rows)`` computes the gains of passages. A passage has the gain `rest` until its own gain is computed.
    `weights` is a scratch array of shape (P,); it must be all zeros, and :meth:`end` resets it to zeros.
    """

    def __init__(
        self, graph: WalkOperator, weights: FloatArray, gains: Callable[[IntArray], FloatArray], rest: float
    ) -> None:
        super().__init__(graph, weights)
        self.stepwise = True
        self._gains, self.rest, self._count = gains, rest, len(weights)
        self._known: list[IntArray] = []
        self._found = np.zeros(int(1 / MUCH) + 2, dtype=np.int32)  # at most 1 / MUCH nodes can get more than MUCH

    @property
    def size(self) -> int:
        """The number of nodes."""
        return self.graph.size

    def know(self, rows: IntArray, gains: FloatArray) -> None:
        """Set the gain of each passage in `rows`: the factor for the weights of edges into this passage."""
        self.node_weights[rows] = gains
        self._known.append(rows)

    def before(self, nodes: IntArray, amounts: FloatArray) -> None:
        """Compute the gains (factors for edge weights) of the passages that may receive more mass than `MUCH` next.

        In the next round, `nodes` send `amounts` of mass along their out-edges.
        """
        heavy = amounts > MUCH
        if not heavy.any():
            self.stepwise = False
            return
        walk, nodes, amounts = self.graph, nodes[heavy], amounts[heavy]
        counts = walk.out_degrees.take(nodes).astype(np.int64)
        edges = ranges(walk.indptr.take(nodes), counts)
        flows = np.repeat(amounts * walk.inverse_out.take(nodes), counts) * walk.weights.take(edges)
        targets = walk.indices.take(edges[flows > MUCH])
        targets = targets[targets < self._count]
        self._look_at(targets[self.node_weights[targets] == 0])

    def resumes(self) -> bool:
        """Compute the gains of the passages for which the compiled rounds paused; return True if they paused."""
        count = max(int(self._found[-1]), 0)
        self._look_at(self._found[:count])
        return count > 0

    def _look_at(self, targets: Any) -> None:
        if len(targets):
            rows = distinct(targets).astype(np.int64)
            self.know(rows, self._gains(rows))

    def weights_of(self, nodes: IntArray) -> FloatArray:
        """Return the gain of each node in `nodes`; a passage without a computed gain has the gain `rest`."""
        gains = super().weights_of(nodes)
        return np.where(gains > 0, gains, self.rest)

    def sweep(self, amounts: FloatArray) -> FloatArray:
        """Return the mass that arrives at each node when every node sends its amount; see :meth:`Transitions.sweep`."""
        return RelevanceTransitions(self.graph, self.weights_of(np.arange(self.size))).sweep(amounts)

    def compiled(self) -> Rounds:
        """Return the compiled function that pushes mass along the edges, round by round."""
        graph: Any = self.graph
        if not isinstance(graph, WalkOperator):  # the edges of a graph with a log
            return cast("Rounds", graph.rounds(self.node_weights, self.rest, MUCH, self._found))
        return self._rounds(self.rest, MUCH, self._found)

    def end(self) -> ListedGains:
        """Return the gains that were set or computed during the walk, and reset the scratch array to zeros."""
        rows = distinct(np.concatenate(self._known)) if self._known else np.empty(0, dtype=np.int64)
        found = ListedGains(rows, self.node_weights[rows], self.rest, self._count)
        self.node_weights[rows] = 0.0
        return found
