"""A part of a stored graph, and the edges that queries fetched, kept in arrays until the corpus changes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
from scipy import sparse

from phasegraph._support.shared import fork_safe_lock, lazy_property
from phasegraph._support.typing import BoolArray, Float32Array, FloatArray, Int32Array, IntArray
from phasegraph.graph.model.entity_graph import EntityGraph
from phasegraph.pagerank import WalkOperator
from phasegraph.pagerank.push import RelevanceTransitions, StaticTransitions, Transitions, ranges

UNBOUNDED = np.iinfo(np.int32).max  # what pushing a node costs whose edges are not here
LEAST_TOLERANCE = 1e-9  # times UNBOUNDED, more than all the mass there is
_NEVER = 2**62


@dataclass(frozen=True, eq=False)
class PartialOperator(WalkOperator):
    """The edges that are here, prepared for walks; ``here[node]`` says whether a node's edges are."""

    here: BoolArray = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    @lazy_property
    def costs(self) -> Int32Array:
        """As of a whole graph; `UNBOUNDED` for nodes whose edges are not here."""
        costs: Int32Array = np.where(self.here, np.maximum(self.out_degrees, 1), UNBOUNDED).astype(np.int32)
        costs.flags.writeable = False
        return costs

    def rows(self, node_weights: FloatArray | None) -> Transitions:
        """How a push reads the edges, with or without node_weights."""
        return _Static(self) if node_weights is None else _Relevant(self, node_weights)


class _Static(StaticTransitions):
    @property
    def dense_edges(self) -> int:
        """No round is dense: it would push nodes below their thresholds, and those whose edges are not here."""
        return _NEVER

    @property
    def stationary(self) -> None:
        """Unknown: part of the edges are missing."""
        return


class _Relevant(RelevanceTransitions):
    @property
    def dense_edges(self) -> int:
        """As for fixed weights."""
        return _NEVER


@dataclass(frozen=True, eq=False)
class PartialGraph:
    """Some nodes of a stored graph, with as much of `EntityGraph` as linking, walking and evidence look at."""

    passages: Sequence[Any]  # ids, nodes 0 to P - 1; a range where only their number counts
    entities: tuple[str, ...]  # names, nodes P to P + E - 1
    passage_rows: Mapping[str, int]
    entity_rows: Mapping[str, int]
    frequency: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))  # as of the whole corpus
    anchored: Any = field(default_factory=lambda: np.empty(0, dtype=bool))  # whether some passage is about an entity
    adjacency: Any = None  # edges fetched so far
    here: Any = None  # (P + E,) bool: nodes whose edges were fetched
    embeddings: None = None

    def check_files(self) -> None:
        """As :meth:`~phasegraph.graph.EntityGraph.check_files`: there are none."""

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.passages) + len(self.entities)

    @property
    def count(self) -> int:
        """How many passages there are."""
        return len(self.passages)

    @lazy_property
    def operator(self) -> PartialOperator:
        """The edges, prepared for walks."""
        return self.walkable(self.here)

    def walkable(self, here: BoolArray) -> PartialOperator:
        """The edges, prepared for a walk that pushes these nodes at most."""
        plain = WalkOperator.from_adjacency(self.adjacency)
        return PartialOperator(plain.indptr, plain.indices, plain.weights, plain.inverse_out, here=here)

    def rows_of(self, passages: Sequence[str], entities: Sequence[str]) -> IntArray:
        """Nodes of these ids and names, which must all be here."""
        first = len(self.passages)
        rows = [self.passage_rows[name] for name in passages]
        rows += [first + self.entity_rows[name] for name in entities]
        return np.array(rows, dtype=np.intp)

    def names_of(self, nodes: IntArray) -> tuple[list[str], list[str]]:
        """Ids of the passages and names of the entities among nodes."""
        first = len(self.passages)
        ids = [self.passages[node] for node in nodes[nodes < first].tolist()]
        return ids, [self.entities[node - first] for node in nodes[nodes >= first].tolist()]

    def as_graph(self) -> EntityGraph:
        """Typed as the graph whose attributes it has."""
        return cast(EntityGraph, self)


Codes: TypeAlias = Int32Array
"""Nodes, the same whatever is added: an entity by its row, a passage by -1 less its row."""


class KnownEdges:
    """Nodes by name, in the order of arrival, and the out-edges of some of them; grows, one query at a time."""

    def __init__(self) -> None:
        self.passages: dict[str, int] = {}
        self.entities: dict[str, int] = {}
        self._owners = np.empty(0, dtype=np.int32)
        self._counts = np.empty(0, dtype=np.int32)
        self._ends = np.empty(0, dtype=np.int32)
        self._weights = np.empty(0, dtype=np.float32)
        self._used = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        """How many edges and nodes with known edges there are."""
        return len(self._ends) + len(self._owners)

    def copy(self) -> KnownEdges:
        """One that may grow while others walk over this one."""
        made = KnownEdges()
        made.passages, made.entities = dict(self.passages), dict(self.entities)
        made._owners, made._counts, made._ends = self._owners, self._counts, self._ends
        made._weights, made._used = self._weights, self._used
        return made

    def lacks(self, passages: Iterable[str], entities: Iterable[str]) -> bool:
        """Whether one of these has no row."""
        return any(name not in self.passages for name in passages) or any(
            name not in self.entities for name in entities
        )

    def codes(self, is_passage: bool, names: Iterable[str]) -> Codes:
        """Nodes of these names; new names get the next rows."""
        rows = self.passages if is_passage else self.entities
        found = np.array([rows.setdefault(name, len(rows)) for name in names], dtype=np.int32)
        self.__dict__.pop("graph", None)
        return -1 - found if is_passage else found

    def add(self, owners: Codes, counts: Int32Array, ends: Codes, weights: Float32Array) -> None:
        """Add the edges of nodes that had none so far: `counts` of them for each."""
        self._owners = np.concatenate([self._owners, owners])
        self._counts = np.concatenate([self._counts, counts])
        self._ends = np.concatenate([self._ends, ends])
        self._weights = np.concatenate([self._weights, weights])
        self._used = np.concatenate([self._used, np.zeros(len(owners), dtype=np.int64)])
        self.__dict__.pop("graph", None)

    @lazy_property
    def graph(self) -> PartialGraph:
        """All of it, entities after passages."""
        first = len(self.passages)
        size = first + len(self.entities)
        owners = _nodes(self._owners, first)
        here = np.zeros(size, dtype=np.bool_)
        here[owners] = True
        indptr = np.zeros(size + 1, dtype=np.int64)
        indptr[owners + 1] = self._counts
        np.cumsum(indptr, out=indptr)
        edges = np.empty(len(self._ends), dtype=np.int64)
        edges[ranges(indptr[owners], self._counts.astype(np.int64))] = np.arange(len(edges))
        matrix = sparse.csr_array((self._weights[edges], _nodes(self._ends, first)[edges], indptr), shape=(size, size))
        return PartialGraph(
            tuple(self.passages),
            tuple(self.entities),
            self.passages,
            self.entities,
            adjacency=matrix,
            here=here,
        )

    def touch(self, nodes: BoolArray, clock: int) -> None:
        """Note that a walk needed the edges of these nodes of its graph."""
        owners = _nodes(self._owners, len(self.passages))
        self._used[nodes[owners]] = clock

    def part(self, limit: int) -> KnownEdges:
        """The nodes used last, with `limit` edges at most."""
        order = np.argsort(-self._used, kind="stable")
        kept = np.sort(order[np.cumsum(self._counts[order] + 1) <= limit])
        starts = np.cumsum(self._counts, dtype=np.int64) - self._counts
        edges = ranges(starts[kept], self._counts[kept].astype(np.int64))
        made = KnownEdges()
        ids, names = tuple(self.passages), tuple(self.entities)
        codes = np.concatenate([self._owners[kept], self._ends[edges]])
        distinct, place = np.unique(codes, return_inverse=True)
        fresh = np.empty(len(distinct), dtype=np.int32)
        here = distinct < 0
        fresh[here] = made.codes(True, [ids[row] for row in (-1 - distinct[here]).tolist()])
        fresh[~here] = made.codes(False, [names[row] for row in distinct[~here].tolist()])
        codes = fresh[place]
        made.add(codes[: len(kept)], self._counts[kept], codes[len(kept) :], self._weights[edges])
        made._used = self._used[kept]
        return made


class KeptEdges:
    """What is known of a corpus, for one set of weights: `limit` edges at most. Thread-safe.

    Past the limit half of them stay, those of the nodes used last.
    """

    def __init__(self, limit: int = 500_000) -> None:
        self._limit = limit
        self._lock = fork_safe_lock()
        self._stamp: object = None
        self._held = KnownEdges()
        self._clock = itertools.count(1)

    def __len__(self) -> int:
        """How many edges are kept."""
        return len(self._held)

    def known(self, stamp: object) -> KnownEdges:
        """What is kept of the corpus as it is; to be copied before it grows."""
        with self._lock:
            if stamp != self._stamp:
                self._held, self._stamp = KnownEdges(), stamp
            return self._held

    def keep(self, stamp: object, known: KnownEdges, needed: BoolArray) -> None:
        """Keep what a query has come to know, unless the corpus's stamp is another by now.

        `known` is what the method of that name returned, or a copy that has grown (of two that ran at once the larger
        is kept); `needed` says of which nodes of its graph the walk needed the edges.
        """
        with self._lock:
            if stamp != self._stamp:
                return
            known.touch(needed, next(self._clock))
            if len(known) > len(self._held):
                self._held = known if len(known) <= self._limit else known.part(self._limit // 2)


def _nodes(codes: Codes, first: int) -> IntArray:
    """Nodes of a graph whose entities start at `first`."""
    nodes: IntArray = np.where(codes < 0, -1 - codes, codes + first).astype(np.intp)
    return nodes


def merged(owners: Sequence[int] | IntArray, ends: Codes, values: Float32Array) -> tuple[IntArray, Codes, Float32Array]:
    """Parallel edges as one, with the sum of their values, by owner and end."""
    keys = np.asarray(owners, dtype=np.int64) * 2**32 + ends.astype(np.int64)
    distinct, place = np.unique(keys, return_inverse=True)
    summed = np.bincount(place, weights=values, minlength=len(distinct)).astype(np.float32)
    return (distinct // 2**32).astype(np.intp), (distinct % 2**32).astype(np.int32), summed
