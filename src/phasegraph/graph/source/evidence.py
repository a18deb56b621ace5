"""How a walk reached a passage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from phasegraph._typing import FloatArray, Int32Array
from phasegraph.graph.entity_graph import EntityGraph
from phasegraph.graph.linking.seeds import Seeding
from phasegraph.graph.pagerank import PageRankResult
from phasegraph.graph.pagerank.rows import ranges

MAX_STEPS = 6


@dataclass(frozen=True, slots=True)
class Step:
    """One node of a path: ``kind`` is "passage" or "entity", ``name`` its id or normalised name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Trail:
    """Why a passage was found.

    Parameters
    ----------
    seeds : tuple of (Step, float)
        Where the walk restarted, with each seed's share of the mass, greatest first.
    path : tuple of Step
        From a seed to the passage: at every node the edge that brought the most mass, weighed for the query as the
        walk weighed it. Starts elsewhere only
        where no seed is within six edges.
    """

    seeds: tuple[tuple[Step, float], ...]
    path: tuple[Step, ...]

    def __str__(self) -> str:
        return " > ".join(f"[{step.name}]" if step.kind == "passage" else step.name for step in self.path)


@dataclass(frozen=True, eq=False)
class Trails(Mapping[str, Trail]):
    """Trails by passage id, each worked out when it is asked for."""

    graph: EntityGraph = field(repr=False)
    walked: PageRankResult = field(repr=False)
    seeding: Seeding = field(repr=False)
    gains: FloatArray | None = field(repr=False)
    ids: tuple[str, ...]

    def __getitem__(self, passage_id: str) -> Trail:
        if passage_id not in self.ids:
            raise KeyError(passage_id)
        return Trail(self._seeds(), self._path(self.graph.passage_rows[passage_id]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def _seeds(self) -> tuple[tuple[Step, float], ...]:
        total = float(self.seeding.masses.sum())
        pairs = zip(self.seeding.nodes.tolist(), (self.seeding.masses / total).tolist(), strict=True)
        return tuple((step_of(self.graph, node), share) for node, share in sorted(pairs, key=lambda p: (-p[1], p[0])))

    def _path(self, goal: int) -> tuple[Step, ...]:
        """Backwards from the goal, each time along the edge that brought most."""
        seeds = set(self.seeding.nodes.tolist())
        mass, path = self.walked.mass, [goal]
        pull = self.graph.operator.pull()
        while path[-1] not in seeds and len(path) <= MAX_STEPS:
            here = path[-1]
            edges = slice(pull.indptr[here], pull.indptr[here + 1])
            sources = pull.indices[edges]
            flows = mass[sources] * pull.data[edges] * self._steered(sources)
            flows[np.isin(sources, path)] = 0.0
            if not len(flows) or flows.max() <= 0:
                break
            path.append(int(sources[int(flows.argmax())]))
        return tuple(step_of(self.graph, node) for node in reversed(path))

    def _steered(self, sources: Int32Array) -> FloatArray | float:
        """What the query's relevance does to the share of a source's mass that one target gets, up to a factor.

        An edge weighs ``weight * gains[target]``, and a source's edges share its mass: towards one target, those
        lose whose other targets are more relevant.
        """
        if self.gains is None:
            return 1.0
        walk = self.graph.operator
        counts = walk.out_degrees.take(sources).astype(np.int64)
        edges = ranges(walk.indptr.take(sources), counts)
        values = walk.weights.take(edges) * self.gains.take(walk.indices.take(edges))
        sums = np.bincount(np.repeat(np.arange(len(sources)), counts), weights=values, minlength=len(sources))
        return np.divide(1.0, sums * walk.inverse_out[sources], out=np.zeros(len(sources)), where=sums > 0)


def step_of(graph: EntityGraph, node: int) -> Step:
    """A node by its name."""
    count = len(graph.passages)
    return Step("passage", graph.passages[node]) if node < count else Step("entity", graph.entities[node - count])
