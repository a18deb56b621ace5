"""Explain why a passage was found: the path from a seed to the passage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np

from phasegraph._support.shared import lazy_property
from phasegraph._support.text import legible
from phasegraph._support.typing import FloatArray, Int32Array, IntArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.graph.walk.linking import Seeding
from phasegraph.graph.walk.listed_walk import ListedGains
from phasegraph.lexical.index import ChangedTerms, ListedTerms, QueryTerms
from phasegraph.pagerank import PageRankResult
from phasegraph.pagerank.push import out_edges

MAX_STEPS = 6
"""Maximum number of edges in a path."""


@dataclass(frozen=True, slots=True)
class PathNode:
    """A node of a path: `kind` is "passage" or "entity", and `name` is the passage id or the normalized entity name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class WalkPath:
    """The path from a seed to a passage, with the walk's seeds and the query words in the passage.

    `seeds` are the seeds with their shares of the restart mass, greatest share first. `path` leads from a seed to the
    passage. It is built backwards: each step follows the edge that brought the most mass to the current node. It stops
    at a seed whose restart mass exceeds the mass of every incoming edge. If no seed is within six edges, the path
    starts at another node. `words` are the query words in the passage. If the walk did not reach the passage, the path
    contains only the passage itself.
    """

    seeds: tuple[tuple[PathNode, float], ...]
    path: tuple[PathNode, ...]
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return legible(" > ".join(f"[{step.name}]" if step.kind == "passage" else step.name for step in self.path))


@dataclass(frozen=True, eq=False)
class WalkPaths(Mapping[str, WalkPath]):
    """A mapping of passage ids to paths; each path is computed on demand, and a pickle contains paths but no graph."""

    graph: EntityGraph = field(repr=False)
    walked: PageRankResult = field(repr=False)
    seeding: Seeding = field(repr=False)
    node_weights: FloatArray | ListedGains | None = field(repr=False)
    ids: tuple[str, ...]
    follow_probability: float
    terms: QueryTerms | ListedTerms | ChangedTerms | None = field(default=None, repr=False)

    def __getitem__(self, passage_id: str) -> WalkPath:
        if passage_id not in self:
            raise KeyError(passage_id)
        self.graph.check_files()
        row = self.graph.passage_rows[passage_id]
        words: tuple[str, ...] = ()
        if self.terms is not None:
            words = tuple(compress(self.terms.words, self.terms.held_by(np.array([row]))[0].tolist()))
        return WalkPath(self._seeds(), self._path(row), words)

    def __contains__(self, passage_id: object) -> bool:
        return passage_id in self._known

    @lazy_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def _seeds(self) -> tuple[tuple[PathNode, float], ...]:
        nodes, masses = self.seeding.nodes, self.seeding.masses
        shares = masses / float(masses.sum())
        order = np.lexsort((nodes, -shares))
        return tuple((self._node(int(nodes[place])), float(shares[place])) for place in order)

    def _path(self, goal: int) -> tuple[PathNode, ...]:
        """Return the path from a seed to the node `goal`, built backwards along the edges with the most mass."""
        masses = self.seeding.masses * ((1 - self.follow_probability) / float(self.seeding.masses.sum()))
        restarted = dict(zip(self.seeding.nodes.tolist(), masses.tolist(), strict=True))
        mass, path, walk = self.walked.mass, [goal], self.graph.operator
        while len(path) <= MAX_STEPS:
            here = path[-1]
            owners, targets, edges = self._out_edges
            leading = np.flatnonzero(targets == here)
            sources = owners[leading]
            shares = walk.weights.take(edges[leading]).astype(np.float64) * walk.inverse_out.take(sources)
            flows = self.follow_probability * mass[sources] * shares * self._steered(sources, here)
            flows[np.isin(sources, path)] = 0.0
            if not len(flows) or flows.max() <= restarted.get(here, 0.0):
                break
            path.append(int(sources[int(flows.argmax())]))
        starts = [place for place, node in enumerate(path) if node in restarted]
        path = path[: starts[-1] + 1] if starts else path
        return tuple(self._node(node) for node in reversed(path))

    @lazy_property
    def _out_edges(self) -> tuple[Int32Array, Int32Array, IntArray]:
        """The edges that leave the nodes reached by the walk, as three arrays with an entry per edge.

        The arrays contain the source node, the target node, and the position of the edge among all edges of the graph.
        """
        walk, nodes = self.graph.operator, np.sort(self.walked.nodes)
        owners, edges = out_edges(walk, nodes)
        return nodes[owners], walk.indices.take(edges), edges

    def _steered(self, sources: Int32Array, target: int) -> FloatArray | float:
        """Return the factor by which node weights change the share of mass that each source sends to a target.

        The factor is 1 if the walk had no node weights.

        The weight of an edge is ``weight * node_weights[target]``, and a source divides its mass in proportion to these
        weights. A source sends less mass to this target if its other targets are more relevant.
        """
        if self.node_weights is None:
            return 1.0
        walk = self.graph.operator
        owners, edges = out_edges(walk, sources)
        values = walk.weights.take(edges) * self.node_weights.take(walk.indices.take(edges))
        sums = np.bincount(owners, weights=values, minlength=len(sources))
        own = float(self.node_weights[target])
        return np.divide(own, sums * walk.inverse_out[sources], out=np.zeros(len(sources)), where=sums > 0)

    def _node(self, node: int) -> PathNode:
        count = len(self.graph.passages)
        if node < count:
            return PathNode("passage", self.graph.passages[node])
        return PathNode("entity", self.graph.entities[node - count])
