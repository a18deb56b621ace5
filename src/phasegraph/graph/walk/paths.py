"""Why a passage was found: the path from a seed to it."""

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
from phasegraph.graph.walk.listed import (
    ListedGains,
)
from phasegraph.lexical.index import ListedTerms, QueryTerms
from phasegraph.pagerank import PageRankResult
from phasegraph.pagerank.push import ranges

MAX_STEPS = 6


@dataclass(frozen=True, slots=True)
class PathNode:
    """One node of a path: ``kind`` is "passage" or "entity", ``name`` its id or normalised name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class WalkPath:
    """Why a passage was found.

    `seeds` are where the walk restarted, with each one's share of the mass, greatest first. `path` leads from a seed to
    the passage: at every node by the edge that brought the most mass, weighed for the query as the walk weighed it,
    back to a seed that restarting brought more. It starts elsewhere only where no seed is within six edges.
    `words` are those of the query that the passage has: it may stand here for them or for its cosine, unreached by the
    walk, and is then its own path.
    """

    seeds: tuple[tuple[PathNode, float], ...]
    path: tuple[PathNode, ...]
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        return legible(" > ".join(f"[{step.name}]" if step.kind == "passage" else step.name for step in self.path))


@dataclass(frozen=True, eq=False)
class WalkPaths(Mapping[str, WalkPath]):
    """Paths by passage id, each worked out when it is asked for; a copy holds them all and not the graph."""

    graph: EntityGraph = field(repr=False)
    walked: PageRankResult = field(repr=False)
    seeding: Seeding = field(repr=False)
    node_weights: FloatArray | ListedGains | None = field(repr=False)
    ids: tuple[str, ...]
    follow_probability: float
    terms: QueryTerms | ListedTerms | None = field(default=None, repr=False)

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
        """Backwards from the goal, each time along the edge that brought most, to a seed that none brought more."""
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
        """Source, target and place of the edges that can have brought mass: the walk's own, not the whole graph's."""
        walk, nodes = self.graph.operator, np.sort(self.walked.nodes)
        counts = walk.out_degrees.take(nodes).astype(np.int64)
        edges = ranges(walk.indptr.take(nodes), counts)
        return np.repeat(nodes, counts), walk.indices.take(edges), edges

    def _steered(self, sources: Int32Array, target: int) -> FloatArray | float:
        """What the query's relevance does to the share of its mass that a source sends to one target.

        An edge weighs ``weight * node_weights[target]``, and a source's edges share its mass: towards one target, those
        lose whose other targets are more relevant.
        """
        if self.node_weights is None:
            return 1.0
        walk = self.graph.operator
        counts = walk.out_degrees.take(sources).astype(np.int64)
        edges = ranges(walk.indptr.take(sources), counts)
        values = walk.weights.take(edges) * self.node_weights.take(walk.indices.take(edges))
        sums = np.bincount(np.repeat(np.arange(len(sources)), counts), weights=values, minlength=len(sources))
        own = float(self.node_weights[target])
        return np.divide(own, sums * walk.inverse_out[sources], out=np.zeros(len(sources)), where=sums > 0)

    def _node(self, node: int) -> PathNode:
        count = len(self.graph.passages)
        if node < count:
            return PathNode("passage", self.graph.passages[node])
        return PathNode("entity", self.graph.entities[node - count])
