"""A part of a graph in Neo4j, and a cache of the edges that queries fetched; a changed corpus empties the cache."""

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

UNBOUNDED = np.iinfo(np.int32).max  # cost of pushing a node whose edges were not fetched
LEAST_TOLERANCE = 1e-9  # its product with UNBOUNDED exceeds the total mass
_NEVER = 2**62


@dataclass(frozen=True, eq=False)
class PartialOperator(WalkOperator):
    """The edges that were fetched from Neo4j, prepared for walks.

    ``here[node]`` is True if the out-edges of a node were fetched; a walk pushes only these nodes.
    """

    here: BoolArray = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    @lazy_property
    def costs(self) -> Int32Array:
        """The cost of pushing each node: its number of edges, or `UNBOUNDED` if its edges were not fetched."""
        costs: Int32Array = np.where(self.here, np.maximum(self.out_degrees, 1), UNBOUNDED).astype(np.int32)
        costs.flags.writeable = False
        return costs

    def rows(self, node_weights: FloatArray | None) -> Transitions:
        """Return the transitions of a walk over these edges.

        `node_weights` are factors for the weights of edges into each node; None leaves the weights unchanged.
        """
        return _Static(self) if node_weights is None else _Relevant(self, node_weights)


class _Static(StaticTransitions):
    @property
    def dense_edges(self) -> int:
        """A limit that no round of a walk reaches, so that no round multiplies with the whole matrix.

        Such a multiplication would also push nodes below their thresholds, and nodes whose edges were not fetched.
        """
        return _NEVER

    @property
    def stationary(self) -> None:
        """None, because the stationary distribution is unknown if edges are missing."""
        return


class _Relevant(RelevanceTransitions):
    @property
    def dense_edges(self) -> int:
        """A limit that no round of a walk reaches, so that no round multiplies with the whole matrix."""
        return _NEVER


@dataclass(frozen=True, eq=False)
class PartialGraph:
    """A part of a graph in Neo4j, with the attributes of `EntityGraph` that seeds, walks and paths need.

    `adjacency` contains the fetched edges, and ``here[node]`` is True if the edges of a node were fetched. `frequency`
    counts passages of the whole corpus.
    """

    passages: Sequence[Any]  # ids of nodes 0 to P - 1; a range if only their number is used
    entities: tuple[str, ...]  # names of nodes P to P + E - 1
    passage_rows: Mapping[str, int]
    entity_rows: Mapping[str, int]
    frequency: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))  # in the whole corpus
    anchored: Any = field(default_factory=lambda: np.empty(0, dtype=bool))  # True: it has a home passage
    adjacency: Any = None  # the edges that were fetched so far
    here: Any = None  # (P + E,) bool: True if the edges of a node were fetched
    embeddings: None = None

    def check_files(self) -> None:
        """Do nothing, because this graph has no files; see :meth:`~phasegraph.graph.EntityGraph.check_files`."""

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.passages) + len(self.entities)

    @property
    def count(self) -> int:
        """The number of passages."""
        return len(self.passages)

    @lazy_property
    def operator(self) -> PartialOperator:
        """The fetched edges, prepared for walks."""
        return self.walkable(self.here)

    def walkable(self, here: BoolArray) -> PartialOperator:
        """Return the edges, prepared for a walk that pushes only nodes for which ``here[node]`` is True."""
        plain = WalkOperator.from_adjacency(self.adjacency)
        return PartialOperator(plain.indptr, plain.indices, plain.weights, plain.inverse_out, here=here)

    def rows_of(self, passages: Sequence[str], entities: Sequence[str]) -> IntArray:
        """Return the nodes of the given passage ids, then of the given entity names; all must be in the graph."""
        first = len(self.passages)
        rows = [self.passage_rows[name] for name in passages]
        rows += [first + self.entity_rows[name] for name in entities]
        return np.array(rows, dtype=np.intp)

    def names_of(self, nodes: IntArray) -> tuple[list[str], list[str]]:
        """Return the ids of the passages and the names of the entities among `nodes`."""
        first = len(self.passages)
        ids = [self.passages[node] for node in nodes[nodes < first].tolist()]
        return ids, [self.entities[node - first] for node in nodes[nodes >= first].tolist()]

    def as_graph(self) -> EntityGraph:
        """Return this object with the static type `EntityGraph`."""
        return cast(EntityGraph, self)


Codes: TypeAlias = Int32Array
"""Codes of nodes, which do not change when nodes are added: row for an entity, ``-1 - row`` for a passage."""


class KnownEdges:
    """A growing collection of nodes, and of the out-edges of some of these nodes.

    `passages` and `entities` map ids and names to rows, in the order of insertion. Only a single query may change the
    collection.
    """

    def __init__(self) -> None:
        self.passages: dict[str, int] = {}
        self.entities: dict[str, int] = {}
        self._owners = np.empty(0, dtype=np.int32)
        self._counts = np.empty(0, dtype=np.int32)
        self._ends = np.empty(0, dtype=np.int32)
        self._weights = np.empty(0, dtype=np.float32)
        self._used = np.empty(0, dtype=np.int64)

    def __len__(self) -> int:
        """Return the number of edges plus the number of nodes with known edges."""
        return len(self._ends) + len(self._owners)

    def copy(self) -> KnownEdges:
        """Return a copy that may grow while other queries walk over this object."""
        made = KnownEdges()
        made.passages, made.entities = dict(self.passages), dict(self.entities)
        made._owners, made._counts, made._ends = self._owners, self._counts, self._ends
        made._weights, made._used = self._weights, self._used
        return made

    def lacks(self, passages: Iterable[str], entities: Iterable[str]) -> bool:
        """Return True if any of the passages or entities is not in the collection."""
        return any(name not in self.passages for name in passages) or any(
            name not in self.entities for name in entities
        )

    def codes(self, is_passage: bool, names: Iterable[str]) -> Codes:
        """Return the codes (:data:`Codes`) of the nodes `names`; add nodes that are not in the collection.

        The names are passage ids if `is_passage` is True, and otherwise entity names.
        """
        rows = self.passages if is_passage else self.entities
        found = np.array([rows.setdefault(name, len(rows)) for name in names], dtype=np.int32)
        self.__dict__.pop("graph", None)
        return -1 - found if is_passage else found

    def add(self, owners: Codes, counts: Int32Array, ends: Codes, weights: Float32Array) -> None:
        """Add the out-edges of the nodes `owners`, whose edges are not known yet.

        `counts` is the number of edges of each owner; `ends` and `weights` are the target and weight of each edge.
        """
        self._owners = np.concatenate([self._owners, owners])
        self._counts = np.concatenate([self._counts, counts])
        self._ends = np.concatenate([self._ends, ends])
        self._weights = np.concatenate([self._weights, weights])
        self._used = np.concatenate([self._used, np.zeros(len(owners), dtype=np.int64)])
        self.__dict__.pop("graph", None)

    @lazy_property
    def graph(self) -> PartialGraph:
        """The nodes and edges as a graph, in which the nodes of entities follow the nodes of passages."""
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
        """Record `clock` as the time of the last use for the nodes in the boolean array `nodes`."""
        owners = _nodes(self._owners, len(self.passages))
        self._used[nodes[owners]] = clock

    def part(self, limit: int) -> KnownEdges:
        """Return a collection of the most recently used nodes with their edges.

        The number of its edges plus the number of its nodes with known edges is at most `limit`.
        """
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
    """A thread-safe cache of the edges of a corpus, for fixed edge weights.

    Its size is the number of edges plus the number of nodes with known edges. If the size exceeds `limit`, the edges of
    the most recently used nodes remain, with a size of at most `limit` // 2.
    """

    def __init__(self, limit: int = 500_000) -> None:
        self._limit = limit
        self._lock = fork_safe_lock()
        self._stamp: object = None
        self._held = KnownEdges()
        self._clock = itertools.count(1)

    def __len__(self) -> int:
        """Return the number of cached edges plus the number of nodes with known edges."""
        return len(self._held)

    def known(self, stamp: object) -> KnownEdges:
        """Return the edges that were cached for the corpus state `stamp`; empty the cache if the state is new.

        Copy the result before you add edges.
        """
        with self._lock:
            if stamp != self._stamp:
                self._held, self._stamp = KnownEdges(), stamp
            return self._held

    def keep(self, stamp: object, known: KnownEdges, needed: BoolArray) -> None:
        """Cache the edges that a query fetched, unless the corpus has changed from the state `stamp`.

        `known` is the result of :meth:`known`, or a copy of it with more edges. If two queries ran at the same time,
        the larger copy is cached. `needed` is a boolean array of the nodes whose edges the walk needed.
        """
        with self._lock:
            if stamp != self._stamp:
                return
            known.touch(needed, next(self._clock))
            if len(known) > len(self._held):
                self._held = known if len(known) <= self._limit else known.part(self._limit // 2)


def _nodes(codes: Codes, first: int) -> IntArray:
    """Convert codes (:data:`Codes`) to nodes of a graph in which the first entity is the node `first`."""
    nodes: IntArray = np.where(codes < 0, -1 - codes, codes + first).astype(np.intp)
    return nodes


def merged(owners: Sequence[int] | IntArray, ends: Codes, values: Float32Array) -> tuple[IntArray, Codes, Float32Array]:
    """Merge edges with the same start node (owner) and end node, and add their values.

    Returns the owners, ends and values of the merged edges, sorted by owner, then by end.
    """
    keys = np.asarray(owners, dtype=np.int64) * 2**32 + ends.astype(np.int64)
    distinct, place = np.unique(keys, return_inverse=True)
    summed = np.bincount(place, weights=values, minlength=len(distinct)).astype(np.float32)
    return (distinct // 2**32).astype(np.intp), (distinct % 2**32).astype(np.int32), summed
