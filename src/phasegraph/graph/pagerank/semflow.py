"""The semantic flow: a directed walk from abstract to specific entities, weighted by the query.

References
----------
SemFlowRAG. arXiv:2606.28447
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from phasegraph._typing import FloatArray, IntArray
from phasegraph.errors import InvalidInputError
from phasegraph.graph.abstractness import best_of, finite_vector, members_of, truncated_min_max
from phasegraph.graph.pagerank.flowrows import FlowArrays, FlowRows, flow_arrays
from phasegraph.graph.pagerank.kernels import Kernel
from phasegraph.graph.pagerank.operator import WalkOperator
from phasegraph.graph.pagerank.parameters import SEMFLOW_PARAMETERS, FlowParameters
from phasegraph.graph.pagerank.reset import Reset, as_seeds
from phasegraph.graph.pagerank.result import PageRankResult
from phasegraph.graph.pagerank.solve import personalized_pagerank, push_settings, run_push
from phasegraph.graph.pagerank.workspace import PushWorkspace, WorkspacePool


@dataclass(frozen=True, eq=False)
class SemanticFlow:
    """An entity-passage graph prepared for walks whose edge weights depend on the query.

    Nodes are the entities, 0 to E - 1, then the passages. A link from u to v weighs
    ``max(floor, relevance[v] - penalty * |abstractness[v] - abstractness[u]|)``, divided by the sum over the
    links of u that go the same way: downhill (`abstractness` the same or lower) or uphill. The downhill links
    share `down_share` of the entity's semantic mass, the uphill ones the rest, whichever there are; a passage
    edge weighs 1 in both directions. Made by :meth:`from_links`.

    Parameters
    ----------
    arrays : FlowArrays
        The prepared edges.
    members : (E, P) CSR matrix
        The passages of each entity.
    parameters : FlowParameters
        As given.
    """

    arrays: FlowArrays
    members: Any
    parameters: FlowParameters

    @classmethod
    def from_links(
        cls, links: Any, mentions: Any, abstractness: ArrayLike, parameters: FlowParameters | None = None
    ) -> SemanticFlow:
        """Prepare a graph.

        Parameters
        ----------
        links : (E, E) sparse matrix
            Non-zero from u to v where the two entities are linked; both directions. Weights and self links do
            not matter.
        mentions : (P, E) sparse matrix
            Non-zero where the passage mentions the entity.
        abstractness : (E,) array of float
            In [0, 1], as :func:`~phasegraph.graph.abstractness.truncated_min_max` makes it.
        parameters : FlowParameters, optional
            Default ``SEMFLOW_PARAMETERS["paper"]``.

        Returns
        -------
        SemanticFlow

        Raises
        ------
        InvalidTypeError, InvalidInputError
            If the shapes do not fit, or an abstractness is not finite.
        """
        chosen = SEMFLOW_PARAMETERS["paper"] if parameters is None else parameters
        heights = finite_vector(abstractness, "abstractness")
        members = members_of(mentions, mentions.shape[0] if hasattr(mentions, "shape") else 0)
        if members.shape[0] != len(heights):
            raise InvalidInputError(
                f"mentions must have one column per entity ({len(heights)}); got {members.shape[0]}"
            )
        return cls(flow_arrays(links, members, heights, chosen), members, chosen)

    @property
    def size(self) -> int:
        """How many nodes there are, entities and passages."""
        return len(self.arrays.costs)

    @cached_property
    def pool(self) -> WorkspacePool:
        """Scratch memory for walks over this graph."""
        return WorkspacePool(self.size)

    @cached_property
    def _entries(self) -> IntArray:
        """The entity of each mention."""
        entries: IntArray = np.repeat(np.arange(self.members.shape[0]), np.diff(self.members.indptr))
        return entries

    def relevance(self, passage_scores: ArrayLike) -> FloatArray:
        """How relevant each entity is to a query.

        Parameters
        ----------
        passage_scores : (P,) array of float
            Similarity of each passage to the query, finite.

        Returns
        -------
        (E,) array of float
            In [0, 1]: the best score of a passage that mentions the entity (0 without one), truncated
            min-max over the entities.
        """
        scores = finite_vector(passage_scores, "passage_scores")
        if len(scores) != self.members.shape[1]:
            raise InvalidInputError(
                f"passage_scores must have one value per passage ({self.members.shape[1]}); got {len(scores)}"
            )
        return truncated_min_max(best_of(self.members, scores, self._entries))

    def transition(self, relevance: ArrayLike) -> Any:
        """The whole (n, n) matrix of step probabilities for one query, entry (u, v) for u > v, as CSR."""
        return self._rows(relevance).matrix()

    def walk(
        self,
        relevance: ArrayLike,
        reset: Reset,
        *,
        follow_probability: float | None = None,
        tolerance: float | None = None,
        method: Literal["push", "power"] = "push",
        workspace: PushWorkspace | None = None,
        kernel: Kernel = "auto",
        polish: int = 0,
        max_iterations: int | None = None,
    ) -> PageRankResult:
        """Walk with the weights of one query.

        Parameters
        ----------
        relevance : (E,) array of float
            Of each entity to the query, in [0, 1]; see :meth:`relevance`.
        reset : (n,) array of float, or a pair (nodes, weights)
            Over entities and passages.
        follow_probability : float, optional
            Default: that of the parameters.
        method : {"push", "power"}
            "push" works out the weights of the nodes it pushes and of no others; "power" is the reference:
            all weights, then the iteration.
        tolerance, workspace, kernel, polish, max_iterations
            As for :func:`~phasegraph.graph.pagerank.personalized_pagerank`.

        Returns
        -------
        PageRankResult

        Raises
        ------
        InvalidTypeError, InvalidInputError, NotConvergedError
            As there.
        """
        follow = self.parameters.follow_probability if follow_probability is None else follow_probability
        rows = self._rows(relevance)
        if method == "power":
            graph = WalkOperator.from_adjacency(rows.matrix())
            return personalized_pagerank(
                graph, reset, follow_probability=follow, tolerance=tolerance, max_iterations=max_iterations
            )
        if method != "push":
            raise InvalidInputError(f'method must be "push" or "power" for a semantic flow; got {method!r}')
        settings = push_settings(follow, tolerance, polish, max_iterations, kernel)
        return run_push(rows, self.pool, as_seeds(reset, self.size), settings, workspace)

    def _rows(self, relevance: ArrayLike) -> FlowRows:
        given = finite_vector(relevance, "relevance")
        if len(given) != self.members.shape[0]:
            raise InvalidInputError(
                f"relevance must have one value per entity ({self.members.shape[0]}); got {len(given)}"
            )
        return FlowRows(self.arrays, given, self.parameters.floor)
