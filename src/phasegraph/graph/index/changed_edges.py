"""Compute the edges and entity counts that a change log changes in its base graph (the graph of the stored arrays)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasegraph._support.typing import BoolArray, Float32Array, IntArray
from phasegraph.graph.index.change_log import ChangeLog, Facts, edges_from
from phasegraph.graph.index.combined_arrays import patched
from phasegraph.graph.index.logged_operator import LoggedOperator
from phasegraph.graph.model.entity_graph import (
    HOME_TITLE,
    across_weights,
    count_weights,
    entries_of,
    home_weights,
    kept_entities,
    least_and_greatest,
    rarity_weights,
)

_TABLE = 65_536
"""Number of frequencies, from 0, whose edge weights are in a table; greater frequencies are computed."""


@dataclass(slots=True)
class Mentions:
    """Mentions of entities in passages, as arrays with an entry per pair of passage and entity.

    `rows` are passages, `columns` are entities, and `counts` are numbers of mentions. `homes` are values of the matrix
    of home passages; 0 means that the passage is not about the entity.
    """

    rows: IntArray
    columns: IntArray
    counts: IntArray
    homes: IntArray

    def weights(self, given: Any, kept: BoolArray) -> Float32Array:
        """Compute, for each mention, the weight of the edge from the entity to the passage.

        `kept` is True for each mention of an entity that may have edges. `given` are the :class:`EdgeWeights`.
        """
        out: Float32Array = count_weights(self.counts, given) * kept + home_weights(self.homes, given)
        return out


class ChangedEdges:
    """The edges and entity counts of a base graph after the changes in a change log; unchanged edges are not copied."""

    def __init__(self, log: ChangeLog) -> None:
        base = self._base = log.base
        self._log, self._passages, self._entities = log, len(base.passages), len(base.entities)
        self.names: dict[str, int] = {}
        touched = np.array(sorted([*log.gone.values(), *(base.passage_rows[one] for one in log.again)]), dtype=np.int64)
        before, after = self._of_base(touched), self._of_log()
        self._touched = touched
        facts = self._facts()
        self._count_again(before, after)
        self._make_rows(after, facts)

    def titles(self) -> IntArray:
        """Return the pair of numbers that identifies each new passage's title; see :meth:`EntityGraph.titles_at`."""
        named = [
            (place, self.column(entity))
            for place, name in enumerate(self._log.came)
            for entity, kind in self._log.counted[name][1].items()
            if kind == HOME_TITLE
        ]
        owners, columns = np.array(named, dtype=np.int64).reshape(-1, 2).T
        return least_and_greatest(owners, columns, len(self._log.came))

    def column(self, name: str) -> int:
        """Return the row of the entity `name`, which is its column in mention matrices; a new entity gets a new row."""
        row = self._log.base_row(name)
        return self.names.setdefault(name, self._entities + len(self.names)) if row < 0 else row

    def _of_base(self, rows: IntArray) -> Mentions:
        """Return the mentions in the passages `rows` of the base graph, as they were before the changes."""
        mentions, homes = self._base.mentions, self._base.homes
        owner, columns, counts = entries_of(mentions, rows)
        at_home, home_columns, kinds = entries_of(homes, rows)
        keys, sought = owner * self._entities + columns, at_home * self._entities + home_columns
        values = np.zeros(len(keys), dtype=np.int64)
        if len(keys):
            place = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
            same = keys[place] == sought
            values[place[same]] = kinds[same]
        return Mentions(rows[owner], columns, counts.astype(np.int64), values)

    def _of_log(self) -> Mentions:
        """Return the mentions in new passages and in passages with new extractions."""
        log = self._log
        found: list[tuple[int, int, int, int]] = []
        for name in (*log.came, *log.again):
            row = log.rows[name]
            mentioned, homes, _ = log.counted[name]
            found += [(row, self.column(one), count, homes.get(one, 0)) for one, count in mentioned.items()]
        return Mentions(*np.array(found, dtype=np.int64).reshape(-1, 4).T)

    def _count_again(self, before: Mentions, after: Mentions) -> None:
        """Update the number of passages that mention each entity, and whether each entity has a home passage.

        A home passage of an entity is a passage that has the entity's name as its title or begins with this name.
        `before` are the old mentions of the changed passages, and `after` their new mentions.
        """
        base, count = self._base, len(self._log.rows)
        columns = np.concatenate([before.columns, after.columns])
        signs = np.repeat([-1, 1], [len(before.columns), len(after.columns)])
        touched, place = np.unique(columns, return_inverse=True)
        old = touched < self._entities
        was, was_home = np.zeros(len(touched), np.int64), np.zeros(len(touched), np.bool_)
        was[old], was_home[old] = base.frequency.take(touched[old]), base.anchored.take(touched[old])
        now = was + np.bincount(place, weights=signs, minlength=len(touched)).astype(np.int64)
        home = was_home | np.isin(touched, after.columns[after.homes > 0])
        lost = np.flatnonzero(was_home & np.isin(touched, before.columns[before.homes > 0]))
        rows, at = self._log.homes_of(touched[lost])
        still = np.bincount(at[~np.isin(rows, self._touched)], minlength=len(lost)) > 0
        home[lost] = still | np.isin(touched[lost], after.columns[after.homes > 0])
        slots = np.zeros(self._entities + len(self.names), dtype=np.int32)
        slots[touched] = np.arange(1, len(touched) + 1)
        self.frequency = patched(base.frequency, slots, now.astype(np.int32))
        self.anchored = patched(base.anchored, slots, home)
        self.vanished = frozenset(base.entities[row] for row in touched[old & (now == 0)].tolist())
        self.changed, self._count = touched, count
        self._was_kept, _ = kept_entities(was, was_home, self._passages, base.weights)
        self._kept, rare = kept_entities(now, home, count, base.weights)
        turned = (self._was_kept & (was > 1)) != (rare > 0)
        self._turned = touched[turned & old]
        self._common = touched[old & ~self._was_kept & self._kept]

    def _facts(self) -> Mapping[tuple[int, int], int]:
        """Return the change in the number of facts between two entities, by pair of entity rows.

        Pairs without a change are left out.
        """
        found: Facts = Counter()
        for _, _, facts in self._log.counted.values():
            found.update(facts)
        for facts in self._log.lost.values():
            found.subtract(facts)
        return {(self.column(one), self.column(other)): count for (one, other), count in found.items() if count}

    def _scanned(self, columns: IntArray) -> Mentions:
        """Return the base graph's mentions of entities that had no edges, because too many passages mention them.

        `columns` are the rows of these entities. No other step of a change reads all mentions.
        """
        mentions = self._base.mentions
        at = np.flatnonzero(np.isin(mentions.indices, columns)) if len(columns) else np.empty(0, dtype=np.int64)
        rows = np.searchsorted(mentions.indptr, at, side="right") - 1
        found = mentions.indices[at].astype(np.int64), mentions.data[at].astype(np.int64)
        return Mentions(rows.astype(np.int64), *found, np.zeros(len(at), np.int64))

    def _make_rows(self, after: Mentions, facts: Mapping[tuple[int, int], int]) -> None:
        base, came = self._base, len(self._log.came)
        first = self._passages + came  # node of the first entity
        joined = np.unique(np.array([one for pair in facts for one in pair], dtype=np.int64))
        columns = np.union1d(self.changed, joined)
        parts = [self._entity_rows(columns, after, first), self._across(columns, joined, facts, first)]
        common = self._scanned(self._common)
        parts.append(self._inward(common, first))
        rows, _, _ = edges_from(base.operator, self._turned[self._turned < self._entities] + self._passages)
        there = np.unique(np.concatenate([rows[rows < self._passages], common.rows]))
        there = there[~np.isin(there, self._touched)]
        for one in (self._of_base(there), after):
            parts.append((one.rows, one.columns + first, self._edges_of(one.columns)[1]))
        nodes, targets, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
        held = weights > 0
        nodes, targets, weights = nodes[held], targets[held], weights[held].astype(np.float32)
        order = np.lexsort((targets, nodes))
        own = np.unique(np.concatenate([columns + first, there, self._touched, np.arange(self._passages, first)]))
        ends = np.searchsorted(nodes[order], own, side="right").astype(np.int64)
        self.operator: Any = LoggedOperator(
            base.operator, self._passages, came, first + self._entities + len(self.names), own,
            np.concatenate([[0], ends]), targets[order].astype(np.int32), weights[order], self._rarity,
        )  # fmt: skip

    @property
    def _rarity(self) -> Callable[[IntArray], Float32Array]:
        """A function that returns, for each entity row, the weight of an edge from a passage to this entity.

        The function may be called only with entities that have edges.
        """
        weights, count, frequency = self._base.weights, self._count, self.frequency
        table = rarity_weights(np.arange(_TABLE), count, weights).astype(np.float32)

        def found(columns: IntArray) -> Float32Array:
            often = frequency.take(columns)
            out: Float32Array = table.take(often, mode="clip")
            many = often >= _TABLE
            if many.any():
                out[many] = rarity_weights(often[many], count, weights)
            return out

        return found

    def _entity_rows(self, columns: IntArray, after: Mentions, first: int) -> tuple[Any, Any, Any]:
        """Return the edges from some entities to passages: unchanged base edges, and edges to changed passages.

        `columns` are the rows of the entities, and `first` is the node of the first entity. `after` contains the
        mentions in changed passages. The result is three arrays: source node, target node, and weight.
        """
        old = columns[columns < self._entities]
        targets, place, weights = edges_from(self._base.operator, old + self._passages)
        stay = (targets < self._passages) & ~np.isin(targets, self._touched) & self._edges_of(old)[0][place]
        new = after.weights(self._base.weights, self._edges_of(after.columns)[0])
        nodes = np.concatenate([old[place[stay]], after.columns]) + first
        return nodes, np.concatenate([targets[stay], after.rows]), np.concatenate([weights[stay], new])

    def _edges_of(self, columns: IntArray) -> tuple[BoolArray, Float32Array]:
        """Return, for each entity in `columns`, whether it has edges, and its weight, as two arrays.

        The weight of an entity is the weight of an edge from a passage to the entity.
        """
        often, home = self.frequency.take(columns), self.anchored.take(columns)
        return kept_entities(often, home, self._count, self._base.weights)

    def _inward(self, common: Mentions, first: int) -> tuple[Any, Any, Any]:
        """Return the new edges to unchanged passages, from entities that had no edges before the change.

        `common` contains the mentions of these entities. `first` and the result are as in :meth:`_entity_rows`.
        """
        stay = ~np.isin(common.rows, self._touched)
        return common.columns[stay] + first, common.rows[stay], count_weights(common.counts[stay], self._base.weights)

    def _across(
        self, columns: IntArray, joined: IntArray, facts: Mapping[tuple[int, int], int], first: int
    ) -> tuple[Any, Any, Any]:
        """Return the edges from some entities to other entities: base edges, with new weights where facts changed.

        `columns` are the rows of the entities. `joined` are the entities with changed facts, and `facts` the changes in
        the numbers of facts. `first` and the result are as in :meth:`_entity_rows`.
        """
        old = columns[columns < self._entities]
        targets, place, weights = edges_from(self._base.operator, old + self._passages)
        stay = (targets >= self._passages) & ~np.isin(old, joined)[place]
        parts = [(old[place[stay]], targets[stay] - self._passages, weights[stay])]
        again = joined[joined < self._entities]
        owner, others, counts = entries_of(self._base.facts, again)
        number = {(int(one), int(other)): int(count)
                  for one, other, count in zip(again[owner], others, counts, strict=True)}  # fmt: skip
        for (one, other), count in facts.items():
            for pair in ((one, other), (other, one)):
                number[pair] = number.get(pair, 0) + count
        pairs = np.array([pair for pair, count in number.items() if count > 0], dtype=np.int64).reshape(-1, 2)
        kept = np.array([count for count in number.values() if count > 0], dtype=np.int32)
        again_weights = across_weights(kept, np.zeros(len(kept), np.float32), self._base.weights)
        parts.append((pairs[:, 0], pairs[:, 1], again_weights))
        nodes, ends, values = (np.concatenate(each) for each in zip(*parts, strict=True))
        return nodes + first, ends + first, values
