"""Compute the weighted edges for walks over the entity graph of all shards, for a range of nodes at a time.

A node is a passage (0 to P - 1) or an entity (P to P + E - 1). The edges equal the result of :func:`adjacency` for the
whole graph. Each shard contributes the edges of its passages. Facts and synonyms link entities of any shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from phasegraph._support.serialization import StreamedArray
from phasegraph.distributed.array_files import Part, Spool, blocks, weighted_ranges
from phasegraph.graph.model.entity_graph import EdgeWeights, across_weights, count_weights, home_weights, kept_entities
from phasegraph.pagerank import WalkOperator
from phasegraph.pagerank.operator import prepared
from phasegraph.pagerank.push import ranges


class Links(NamedTuple):
    """A symmetric sparse matrix of links between entities (facts or synonyms), whose rows are read in ranges.

    `values` and `columns` contain the entries, row by row; `ends` contains 0 and the end of each row.
    """

    values: Spool | NDArray[Any]
    columns: Spool | NDArray[Any]
    ends: NDArray[Any]

    def rows(self, first: int, last: int) -> Any:
        """Return the rows `first` to `last` - 1 as a CSR array."""
        start, stop = self.ends[[first, last]].tolist()
        values, columns = (
            array.array(start, stop) if isinstance(array, Spool) else array[start:stop]
            for array in (self.values, self.columns)
        )
        shape = (last - first, len(self.ends) - 1)
        return sparse.csr_array((values, columns, self.ends[first : last + 1] - start), shape=shape)


class _ToPassages(NamedTuple):
    """The edges from the entities of a part to its passages, entity by entity.

    `passages` and `weights` have an entry per edge; `starts` contains the first edge of each entity, and the number of
    edges.
    """

    passages: Spool
    weights: Spool
    starts: Spool


class _Edges(NamedTuple):
    """Edges that leave some entities, entity by entity.

    `entities` are positions in a range of entities; `degrees` contains the number of edges of each of these entities.
    `targets` and `weights` have an entry per edge; a target is a node.
    """

    entities: NDArray[Any]
    degrees: NDArray[Any]
    targets: NDArray[Any]
    weights: NDArray[Any]


@dataclass(frozen=True, slots=True)
class WalkEdges:
    """The computation of the edges of an index; temporary arrays are in the folder `scratch`.

    `tables` contains, for each part, the new column of each of its entities. `firsts` contains, for each part, the row
    of its first passage in the index. `passages` is the number of all passages.
    """

    parts: Sequence[Part]
    tables: Sequence[Spool]
    firsts: Sequence[int]
    passages: int
    weights: EdgeWeights
    scratch: Path

    def arrays(self, facts: Links, synonyms: Links) -> dict[str, Any]:
        """Return, by name, the arrays of the edges, and of the number of passages that mention each entity."""
        entities = len(facts.ends) - 1
        frequency, homes = self._passage_counts("mentions", entities), self._passage_counts("homes", entities)
        kept, to_entity = np.empty(entities, dtype=np.bool_), np.empty(entities, dtype=np.float32)
        for block in blocks(entities):
            kept[block], to_entity[block] = kept_entities(frequency[block], homes[block], self.passages, self.weights)
        matrix = _EdgeMatrix(self.scratch)
        for part, table in zip(self.parts, self.tables, strict=True):
            self._add_passages(matrix, part, table.array(), to_entity)
        to_passages = [self._edges_to_passages(number, kept) for number in range(len(self.parts))]
        for first, last in weighted_ranges(self._degrees(facts, synonyms, to_passages)):
            edges = [
                self._edges_of_range(number, to_passages[number], first, last) for number in range(len(self.parts))
            ]
            edges.append(self._edges_to_entities(facts, synonyms, first, last))
            matrix.add(*_joined(edges, last - first))
        return {
            **matrix.arrays(entities + self.passages), "frequency": frequency, "anchored": (homes > 0).view(np.int8)
        }  # fmt: skip

    def _passage_counts(self, name: str, entities: int) -> NDArray[np.int32]:
        """Count the passages of each entity in the matrix `name` (mentions or homes) of all parts."""
        counts = np.zeros(entities, dtype=np.int32)
        for part, spool in zip(self.parts, self.tables, strict=True):
            table = spool.array()
            counts[table] += np.bincount(part.array(f"{name}_indices"), minlength=len(table)).astype(np.int32)
        return counts

    def _add_passages(
        self, matrix: _EdgeMatrix, part: Part, table: NDArray[Any], to_entity: NDArray[np.float32]
    ) -> None:
        """Append the edges that leave the passages of a part; `to_entity` has the weight of an edge to each entity."""
        entities = table[part.array("mentions_indices")]
        weights = to_entity[entities]
        is_edge = weights != 0
        edges_before = np.concatenate([[0], np.cumsum(is_edge)])
        degrees = np.diff(edges_before[part.array("mentions_indptr")])
        matrix.add(degrees, entities[is_edge] + self.passages, weights[is_edge])

    def _edges_to_passages(self, number: int, kept: NDArray[np.bool_]) -> _ToPassages:
        """Compute the edges from entities to the passages of part `number`; `kept` is True for entities with edges."""
        part, table = self.parts[number], self.tables[number].array()
        columns, rows = part.array("mentions_indices"), _row_numbers(part.array("mentions_indptr"))
        weights = count_weights(part.array("mentions_data"), self.weights)
        weights *= kept[table[columns]]
        home_cells = _row_numbers(part.array("homes_indptr")) * len(table) + part.array("homes_indices")
        homes = np.searchsorted(rows * len(table) + columns, home_cells)  # each home passage also has a mention
        weights[homes] += home_weights(part.array("homes_data"), self.weights)
        order = np.argsort(columns, kind="stable")
        order = order[weights[order] != 0]
        edges = _ToPassages(*(
            Spool(self.scratch / f"inward-{kind}-{number:06d}", dtype)
            for kind, dtype in (("rows", np.int32), ("values", np.float32), ("starts", np.int64))
        ))  # fmt: skip
        edges.passages.add(rows[order] + self.firsts[number])
        edges.weights.add(weights[order])
        edges.starts.add(np.concatenate([[0], np.cumsum(np.bincount(columns[order], minlength=len(table)))]))
        return edges

    def _degrees(self, facts: Links, synonyms: Links, to_passages: Sequence[_ToPassages]) -> NDArray[Any]:
        """Return an upper bound of the number of edges that leave each entity."""
        degrees = np.diff(facts.ends)
        degrees += np.diff(synonyms.ends).astype(degrees.dtype)
        for table, edges in zip(self.tables, to_passages, strict=True):
            degrees[table.array()] += np.diff(edges.starts.array())
        return degrees

    def _edges_of_range(self, number: int, edges: _ToPassages, first: int, last: int) -> _Edges:
        """Return the edges from the entities `first` to `last` - 1 to the passages of part `number`."""
        table = self.tables[number].array()
        start, stop = np.searchsorted(table, [first, last]).tolist()
        ends = edges.starts.array(start, stop + 1)
        limits = int(ends[0]), int(ends[-1])
        return _Edges(
            table[start:stop] - first, np.diff(ends), edges.passages.array(*limits), edges.weights.array(*limits)
        )

    def _edges_to_entities(self, facts: Links, synonyms: Links, first: int, last: int) -> _Edges:
        """Return the edges from the entities `first` to `last` - 1 to entities."""
        links = across_weights(facts.rows(first, last), synonyms.rows(first, last), self.weights).tocsr()
        links.eliminate_zeros()
        links.sort_indices()
        return _Edges(np.arange(last - first), np.diff(links.indptr), links.indices + self.passages, links.data)


def _row_numbers(ends: NDArray[Any]) -> NDArray[Any]:
    """Return the row of each entry of a sparse matrix; `ends` contains 0 and the end of each row."""
    return np.repeat(np.arange(len(ends) - 1), np.diff(ends))


def _joined(groups: Sequence[_Edges], count: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Join groups of edges of `count` entities; an entity's edges are in the order of the groups.

    Returns the number of edges of each entity, and the targets and the weights of the edges.
    """
    degrees = np.zeros(count, dtype=np.int64)
    for group in groups:
        degrees[group.entities] += group.degrees
    edges = int(degrees.sum())
    targets, weights = np.empty(edges, dtype=np.int32), np.empty(edges, dtype=np.float32)
    next_place = np.concatenate([[0], np.cumsum(degrees)])[:-1]
    for group in groups:
        places = ranges(next_place[group.entities], group.degrees)
        targets[places], weights[places] = group.targets, group.weights
        next_place[group.entities] += group.degrees
    return degrees, targets, weights


class _EdgeMatrix:
    """The matrix of edge weights for walks, to which the rows of nodes are appended; its files are in `scratch`."""

    def __init__(self, scratch: Path) -> None:
        self._data, self._indices = Spool(scratch / "walk_data", np.float32), Spool(scratch / "walk_indices", np.int32)
        self._degrees, self._inverse = Spool(scratch / "walk_degrees", np.int32), Spool(scratch / "walk_inverse", float)

    def add(self, degrees: NDArray[Any], indices: NDArray[Any], weights: NDArray[Any]) -> None:
        """Append rows; `degrees` contains the number of entries in each row.

        `indices` and `weights` contain the columns and the values of the entries.
        """
        ends = np.concatenate([[0], np.cumsum(degrees, dtype=np.int64)])
        self._inverse.add(WalkOperator(*prepared(ends, indices, weights)).inverse_out)
        self._degrees.add(degrees)
        self._indices.add(indices)
        self._data.add(weights)

    def arrays(self, nodes: int) -> dict[str, Any]:
        """Return the arrays in which an index stores the matrix, by name; `nodes` is the number of its rows."""
        degrees = self._degrees.streamed()

        def ends() -> Iterator[NDArray[Any]]:
            last = np.zeros(1, dtype=np.int64)
            yield last
            for each in degrees.parts():
                yield (found := last + np.cumsum(each, dtype=np.int64))
                last = found[-1:]

        return {
            "walk_data": self._data.streamed(), "walk_indices": self._indices.streamed(),
            "walk_indptr": StreamedArray(np.dtype(np.int64), (nodes + 1,), ends),
            "walk_inverse_out": self._inverse.streamed(), "walk_out_degrees": degrees,
            "walk_costs": StreamedArray(degrees.dtype, (nodes,), lambda: (np.maximum(n, 1) for n in degrees.parts())),
        }  # fmt: skip
