"""Changes beside an index's arrays: a log of what came and left, walked with them until both are merged.

A change costs what it touches. The arrays stay as they are, most of them in files; passages and entities that come get
rows behind those there are, passages that leave keep theirs, which nothing leads to. Of the prepared edges only the
rows of nodes that a change touches are made anew. Weights that depend on how many passages there are, and on how many
mention an entity, are worked out when an edge is walked, so that a search finds what it would in a graph built anew,
but for the rounding of sums in another order, and for the untouched entities that became too common, or no longer are,
only by the number of passages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from phasegraph._support.packed import ChangedNames, ChangedRows, NameRows
from phasegraph._support.shared import lazy_property
from phasegraph._support.typing import BoolArray, Float32Array, FloatArray, Int32Array, IntArray
from phasegraph.graph.index.records import PassageRecord, PassageRecords
from phasegraph.graph.model.building import texts_of
from phasegraph.graph.model.entity_graph import (
    HOME_TITLE,
    EntityGraph,
    across_weights,
    count_records,
    count_weights,
    entries_of,
    home_weights,
    kept_entities,
    least_and_greatest,
    rarity_weights,
)
from phasegraph.graph.model.rules import title_names
from phasegraph.graph.model.words import Gazetteer, word_texts
from phasegraph.lexical import ChangedWords, LexicalIndex
from phasegraph.pagerank import WalkOperator
from phasegraph.pagerank.push import ranges
from phasegraph.pagerank.workspace import WorkspacePool

Facts = Counter[tuple[str, str]]
Counted = tuple[Mapping[str, int], Mapping[str, int], Facts]
_TABLE = 65_536
"""Frequencies for which the weight is kept in a table."""


class LoggedGraph(EntityGraph):
    """The graph of an index with a log: searches walk its `view`; whatever else is asked merges both first.

    It is, to the bit, the graph that is built of the passages there are, and worked out at the first look at a field.
    """

    def __new__(cls, *args: Any, **given: Any) -> Any:
        """A plain graph of these fields: what a copy is."""
        return EntityGraph(*args, **given)

    @classmethod
    def of(cls, log: ChangeLog, merged: Callable[[], EntityGraph]) -> LoggedGraph:
        """The graph of base and log; `merged` makes one of both."""
        made: LoggedGraph = object.__new__(cls)
        vars(made).update(_log=log, _merged=merged)
        return made

    @lazy_property
    def whole(self) -> EntityGraph:
        """The merged graph."""
        graph: EntityGraph = vars(self)["_merged"]()
        return graph

    @property
    def view(self) -> EntityGraph:
        """What a search by lists walks."""
        log: ChangeLog = vars(self)["_log"]
        return log.view

    @property
    def count(self) -> int:
        """How many passages there are."""
        return self.view.count

    @property
    def mapped(self) -> tuple[Any, ...]:
        """Arrays in files: the base's."""
        found: tuple[Any, ...] = vars(self)["_log"].base.mapped
        return found

    def __repr__(self) -> str:
        return f"<EntityGraph of {self.count:,} passages, some of them in a log>"

    def __reduce__(self) -> Any:
        return self.whole.__reduce__()


def _of_whole(name: str) -> Any:
    return property(lambda self: getattr(self.whole, name))


for _one in (*(each.name for each in fields(EntityGraph) if each.init), "operator", "frequency", "anchored"):
    setattr(LoggedGraph, _one, _of_whole(_one))


@dataclass(frozen=True, eq=False)
class ChangeLog:
    """What came to an index and left it since its arrays were made; every change makes a new one.

    Of the passages of `base` there are `records`, and `words` as names are made of them; `gone` are those that left,
    with their rows, and `left` their words; `again` those that stay and were read again. `came` are others, in their
    order, with `vectors`, and with words as queries (`lexical`) and as names have them (`name_words`).
    """

    base: EntityGraph
    records: PassageRecords
    words: LexicalIndex
    gone: Mapping[str, int]
    came: Mapping[str, PassageRecord]
    again: Mapping[str, PassageRecord]
    vectors: Float32Array | None
    lexical: LexicalIndex
    name_words: LexicalIndex
    left: LexicalIndex
    counted: Mapping[str, Counted] = field(default_factory=dict)
    lost: Mapping[str, Facts] = field(default_factory=dict)
    _known: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, base: EntityGraph, records: PassageRecords, words: LexicalIndex) -> ChangeLog:
        """A log without changes; the graph has words and no synonyms."""
        tokenizer: Any = None if base.lexical is None else base.lexical.tokenizer
        none = LexicalIndex.of((), tokenizer)
        vectors = None if base.embeddings is None else base.embeddings[:0]
        return cls(base, records, words, {}, {}, {}, vectors, none, LexicalIndex.of((), word_texts), none)

    def changed(
        self,
        gone: Collection[str],
        came: Mapping[str, PassageRecord],
        again: Mapping[str, PassageRecord],
        vectors: Float32Array | None,
    ) -> ChangeLog:
        """The log with a change: passages leave, others come, and some are read `again`."""
        stay = [row for row, name in enumerate(self.came) if name not in gone]
        now = {name: again.get(name, one) for name, one in self.came.items() if name not in gone} | dict(came)
        leave = {name: self.base.passage_rows[name] for name in gone if name not in self.came}
        read = {name: one for name, one in {**self.again, **again}.items() if name not in gone and name not in now}
        kept = np.array([*stay, *[-1] * len(came)], dtype=np.int64)
        fresh = list(came.values())
        rows = [(one.id, one.title, one.text) for one in fresh]
        old = [self.records[name] for name in leave]
        before = [*range(len(self.left.lengths)), *[-1] * len(old)]
        counted = {
            name: self.counted[name] if one is self.came.get(name, self.again.get(name)) else _counted(one)
            for name, one in {**now, **read}.items()
        }
        if vectors is not None and self.vectors is not None:
            vectors = np.concatenate([self.vectors[stay], vectors])
        elif self.vectors is not None:
            vectors = self.vectors[stay]
        return ChangeLog(
            self.base, self.records, self.words, {**self.gone, **leave}, now, read, vectors,
            self.lexical.replaced(kept, dict(enumerate(texts_of(rows), len(stay)))),
            self.name_words.replaced(kept, {row: one.text for row, one in enumerate(fresh, len(stay))}),
            self.left.replaced(
                np.array(before, dtype=np.int64),
                {row: one.content for row, one in enumerate(old, len(self.left.lengths))},
            ),
            counted,
            {
                name: self.lost[name] if name in self.lost else _counted(self.records[name])[2]
                for name in (*self.gone, *leave, *read)
            },
            self._known,
        )  # fmt: skip

    @lazy_property
    def rows(self) -> Mapping[str, int]:
        """The row of each passage there is; in their order."""
        first = len(self.base.passages)
        return ChangedRows(self.base.passage_rows, self.gone, {name: first + at for at, name in enumerate(self.came)})

    @lazy_property
    def _titled(self) -> Mapping[str, Collection[str]]:
        """By name, the passages in the log whose title gives it."""
        found: dict[str, set[str]] = {}
        for name, one in {**self.came, **self.again}.items():
            for form in title_names(one.title):
                found.setdefault(form, set()).add(name)
        return found

    def give(self, name: str, *, without: Collection[str] = ()) -> bool:
        """Whether a title gives the name, those of the passages `without` left out."""
        if any(one not in without for one in self._titled.get(name, ())):
            return True
        column = self._base_row(name)
        if column < 0 or not self.base.anchored[column]:
            return False
        rows, _ = self._homes_of(np.array([column]), HOME_TITLE)
        ids = (self.base.passages[row] for row in rows.tolist())
        return any(
            one not in without
            and one not in self.gone
            and one not in self.again
            and (one not in self.records.retitled or name in title_names(self.records[one].title))
            for one in ids
        )

    def standing_in(self, texts: Iterable[str]) -> set[str]:
        """Names that titles give and that stand in one of these texts."""
        known = [
            Gazetteer.of_rows(NameRows(self.base.entities)),
            Gazetteer(self._titled, matcher="python", normalised=True),
        ]
        split = [word_texts(text) for text in texts]
        return {name for name in {one for each in known for words in split for one in each.standing_in(words)}
                if self.give(name)}  # fmt: skip

    def with_words(self, words: Collection[str]) -> list[str]:
        """Ids of the passages that have all of these words."""
        ids = [self.base.passages[row] for row in self.words.passages_with(words).tolist()]
        came = list(self.came)
        return [name for name in ids if name not in self.gone] + [
            came[row] for row in self.name_words.passages_with(words).tolist()
        ]

    def _base_row(self, name: str) -> int:
        """The row of an entity of the base; -1 where it is none."""
        row = self._known.get(name)
        if row is None:
            row = self._known[name] = self.base.entity_rows.get(name, -1)
        return row

    def _homes_of(self, columns: IntArray, least: int = 1) -> tuple[IntArray, IntArray]:
        """Rows of the base's passages that are about these entities, and the place of each one's entity among them.

        Read from their edges: an entity that a passage is about has one to every passage that mentions it.
        """
        rows, place, _ = _edges(self.base.operator, columns + len(self.base.passages))
        there = rows < len(self.base.passages)
        rows, place = rows[there], place[there]
        homes = self.base.homes
        counts = (homes.indptr[rows + 1] - homes.indptr[rows]).astype(np.int64)
        at = ranges(homes.indptr[rows].astype(np.int64), counts)
        owner = np.repeat(np.arange(len(rows)), counts)
        same = owner[(homes.indices[at] == columns[place[owner]]) & (homes.data[at] >= least)]
        return rows[same], place[same]

    @lazy_property
    def view(self) -> EntityGraph:
        """Base and log as one graph for searches that compare those listed; see :class:`LoggedView`."""
        return LoggedView.of(self)


def _counted(record: PassageRecord) -> Counted:
    mentioned, homes, facts = count_records((record.id,), {record.id: record.extractions})
    return mentioned[0], homes[0], facts


def _edges(walk: WalkOperator, nodes: IntArray) -> tuple[IntArray, IntArray, Float32Array]:
    """Target, place of the source among these nodes, and weight of their edges."""
    counts = walk.out_degrees.take(nodes).astype(np.int64)
    edges = ranges(walk.indptr.take(nodes), counts)
    weights: Any = walk.weights.take(edges)
    return walk.indices.take(edges).astype(np.int64), np.repeat(np.arange(len(nodes)), counts), weights


class LoggedView(EntityGraph):
    """What a search by lists walks: the rows of the base, then those of what came.

    Passages that left still have rows, and entities their old ones, in no order of names beyond the base's.
    """

    _gone: IntArray
    _base: EntityGraph
    _titles: IntArray

    @classmethod
    def of(cls, log: ChangeLog) -> LoggedView:
        """Base and log as one."""
        base, made = log.base, object.__new__(cls)
        lexical: Any = base.lexical
        gone = np.array(sorted(log.gone.values()), dtype=np.int64)
        found = _Changes(log)
        entities = _Texts(base.entities, tuple(found.names))
        vectors = None if base.embeddings is None else _Stacked(base.embeddings, log.vectors)
        vars(made).update(
            passages=_Texts(base.passages, tuple(log.came)), entities=entities, weights=base.weights,
            embeddings=vectors, lexical=ChangedWords(lexical, log.lexical, log.left, gone), passage_rows=log.rows,
            entity_rows=ChangedNames(base.entities, found.names, found.vanished), frequency=found.frequency,
            anchored=found.anchored, operator=found.operator, size=found.operator.size, count=len(log.rows),
            _gone=gone, _base=base, _titles=found.titles(), mapped=base.mapped,
        )  # fmt: skip
        return made

    def rows_at(self, places: IntArray) -> IntArray:
        """Rows of the passages at these places among those there are."""
        found: IntArray = places + np.searchsorted(self._gone - np.arange(len(self._gone)), places, side="right")
        return found

    def places_of(self, rows: IntArray) -> IntArray:
        """Places of these passages, none of which left, among those there are."""
        found: IntArray = rows - np.searchsorted(self._gone, rows)
        return found

    def titles_at(self, rows: IntArray) -> IntArray:
        """As :meth:`EntityGraph.titles_at`: those of the base's passages, and of passages that came."""
        first = len(self._base.passages)
        found = np.empty((len(rows), 2), dtype=np.int64)
        old = rows < first
        found[old] = self._base.titles_at(rows[old])
        found[~old] = self._titles[rows[~old] - first]
        return found


class _Texts(Sequence[str]):
    """Texts, and others behind them."""

    def __init__(self, first: Sequence[str], more: tuple[str, ...]) -> None:
        self._first, self._more = first, more

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return tuple(self[each] for each in range(*row.indices(len(self))))
        return self._first[row] if row < len(self._first) else self._more[row - len(self._first)]

    def __len__(self) -> int:
        return len(self._first) + len(self._more)


class _Stacked:
    """Rows of one array, then those of another."""

    def __init__(self, first: Any, more: Any) -> None:
        self._first, self._more = first, more
        self.shape, self.dtype = (len(first) + len(more), first.shape[1]), first.dtype

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: Any) -> Any:
        wanted, count = np.asarray(rows), len(self._first)
        if not wanted.ndim:
            return self._first[wanted] if wanted < count else self._more[wanted - count]
        out = np.empty((len(wanted), self.shape[1]), dtype=self.dtype)
        old = wanted < count
        out[old], out[~old] = self._first[wanted[old]], self._more[wanted[~old] - count]
        return out

    def __matmul__(self, vector: Any) -> Any:
        return np.concatenate([self._first @ vector, self._more @ vector])


class _Taken:
    """What is worked out for the places that are asked for, where an array holds it for all."""

    def __init__(self, take: Callable[[Any], Any]) -> None:
        self.take = take

    def __getitem__(self, places: Any) -> Any:
        return self.take(np.asarray(places))


def _patched(base: Any, slots: Int32Array, values: Any, moved: Callable[[Any], Any] = lambda places: places) -> _Taken:
    """The array `base` at the places that others have `moved` from, but `values[s - 1]` where their slot s is not 0."""

    def take(places: Any) -> Any:
        slot = slots.take(places)
        own = slot > 0
        if own.all():
            return values.take(slot - 1)
        out = base.take(np.where(own, 0, moved(places)))
        out[own] = values.take(slot[own] - 1)
        return out

    return _Taken(take)


@dataclass(slots=True)
class _Entries:
    """Mentions: row of the passage, row of the entity, count, and what the passage is to it as in the homes matrix."""

    rows: IntArray
    columns: IntArray
    counts: IntArray
    homes: IntArray

    def weights(self, given: Any, kept: BoolArray) -> Float32Array:
        """What the edges from the entities weigh; those that are too common have none."""
        out: Float32Array = count_weights(self.counts, given) * kept + home_weights(self.homes, given)
        return out


class _Changes:
    """What a log changes of the base's arrays."""

    def __init__(self, log: ChangeLog) -> None:
        base = self._base = log.base
        self._log, self._passages, self._entities = log, len(base.passages), len(base.entities)
        self.names: dict[str, int] = {}
        touched = np.array(sorted([*log.gone.values(), *(base.passage_rows[one] for one in log.again)]), dtype=np.int64)
        before, after = self._of_base(touched), self._of_log()
        self._touched = touched
        facts = self._facts()
        self._count_again(before, after)
        self._make_rows(before, after, facts)

    def titles(self) -> IntArray:
        """Of the passages that came, what :meth:`EntityGraph.titles_at` says."""
        named = [
            (place, self.column(entity))
            for place, name in enumerate(self._log.came)
            for entity, kind in self._log.counted[name][1].items()
            if kind == HOME_TITLE
        ]
        owners, columns = np.array(named, dtype=np.int64).reshape(-1, 2).T
        return least_and_greatest(owners, columns, len(self._log.came))

    def column(self, name: str) -> int:
        """The row of an entity, a new one behind those there are."""
        row = self._log._base_row(name)
        return self.names.setdefault(name, self._entities + len(self.names)) if row < 0 else row

    def _of_base(self, rows: IntArray) -> _Entries:
        """What the base holds of its passages."""
        mentions, homes = self._base.mentions, self._base.homes
        owner, columns, counts = entries_of(mentions, rows)
        at_home, home_columns, kinds = entries_of(homes, rows)
        keys, sought = owner * self._entities + columns, at_home * self._entities + home_columns
        values = np.zeros(len(keys), dtype=np.int64)
        if len(keys):
            place = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
            same = keys[place] == sought
            values[place[same]] = kinds[same]
        return _Entries(rows[owner], columns, counts.astype(np.int64), values)

    def _of_log(self) -> _Entries:
        """What came, and what was read again."""
        log = self._log
        found: list[tuple[int, int, int, int]] = []
        for name in (*log.came, *log.again):
            row = log.rows[name]
            mentioned, homes, _ = log.counted[name]
            found += [(row, self.column(one), count, homes.get(one, 0)) for one, count in mentioned.items()]
        return _Entries(*np.array(found, dtype=np.int64).reshape(-1, 4).T)

    def _count_again(self, before: _Entries, after: _Entries) -> None:
        """How many passages mention each entity, and which has one about it."""
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
        rows, at = self._log._homes_of(touched[lost])
        still = np.bincount(at[~np.isin(rows, self._touched)], minlength=len(lost)) > 0
        home[lost] = still | np.isin(touched[lost], after.columns[after.homes > 0])
        slots = np.zeros(self._entities + len(self.names), dtype=np.int32)
        slots[touched] = np.arange(1, len(touched) + 1)
        self.frequency = _patched(base.frequency, slots, now.astype(np.int32))
        self.anchored = _patched(base.anchored, slots, home)
        self.vanished = frozenset(base.entities[row] for row in touched[old & (now == 0)].tolist())
        self.changed, self._count = touched, count
        self._was_kept, _ = kept_entities(was, was_home, self._passages, base.weights)
        self._kept, rare = kept_entities(now, home, count, base.weights)
        turned = (self._was_kept & (was > 1)) != (rare > 0)
        self._turned = touched[turned & old]
        self._common = touched[old & ~self._was_kept & self._kept]

    def _facts(self) -> Mapping[tuple[int, int], int]:
        """By rows of two entities, how many facts joined them come or go."""
        found: Facts = Counter()
        for _, _, facts in self._log.counted.values():
            found.update(facts)
        for facts in self._log.lost.values():
            found.subtract(facts)
        return {(self.column(one), self.column(other)): count for (one, other), count in found.items() if count}

    def _scanned(self, columns: IntArray) -> _Entries:
        """The base's mentions of entities that were too common for edges: the one pass over all of them."""
        mentions = self._base.mentions
        at = np.flatnonzero(np.isin(mentions.indices, columns)) if len(columns) else np.empty(0, dtype=np.int64)
        rows = np.searchsorted(mentions.indptr, at, side="right") - 1
        found = mentions.indices[at].astype(np.int64), mentions.data[at].astype(np.int64)
        return _Entries(rows.astype(np.int64), *found, np.zeros(len(at), np.int64))

    def _make_rows(self, before: _Entries, after: _Entries, facts: Mapping[tuple[int, int], int]) -> None:
        base, came = self._base, len(self._log.came)
        first = self._passages + came  # node of the first entity
        joined = np.unique(np.array([one for pair in facts for one in pair], dtype=np.int64))
        columns = np.union1d(self.changed, joined)
        parts = [self._entity_rows(columns, after, first), self._across(columns, joined, facts, first)]
        common = self._scanned(self._common)
        parts.append(self._inward(common, first))
        rows, _, _ = _edges(base.operator, self._turned[self._turned < self._entities] + self._passages)
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
        """Weights of edges from passages to these entities, which have some."""
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

    def _entity_rows(self, columns: IntArray, after: _Entries, first: int) -> tuple[Any, Any, Any]:
        """Edges from these entities to passages: those of the base but to the passages that changed, and theirs."""
        old = columns[columns < self._entities]
        targets, place, weights = _edges(self._base.operator, old + self._passages)
        stay = (targets < self._passages) & ~np.isin(targets, self._touched) & self._edges_of(old)[0][place]
        new = after.weights(self._base.weights, self._edges_of(after.columns)[0])
        nodes = np.concatenate([old[place[stay]], after.columns]) + first
        return nodes, np.concatenate([targets[stay], after.rows]), np.concatenate([weights[stay], new])

    def _edges_of(self, columns: IntArray) -> tuple[BoolArray, Float32Array]:
        """Which of these entities have edges, and the weight of those to each."""
        often, home = self.frequency.take(columns), self.anchored.take(columns)
        return kept_entities(often, home, self._count, self._base.weights)

    def _inward(self, common: _Entries, first: int) -> tuple[Any, Any, Any]:
        """Edges to the base's passages from entities that were too common for them."""
        stay = ~np.isin(common.rows, self._touched)
        return common.columns[stay] + first, common.rows[stay], count_weights(common.counts[stay], self._base.weights)

    def _across(
        self, columns: IntArray, joined: IntArray, facts: Mapping[tuple[int, int], int], first: int
    ) -> tuple[Any, Any, Any]:
        """Edges from these entities to others: the base's, and counted anew where facts came or went."""
        old = columns[columns < self._entities]
        targets, place, weights = _edges(self._base.operator, old + self._passages)
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


class LoggedOperator:
    """The prepared edges of a base, of which some rows are others, for walks by :class:`ListedTransitions`.

    `came` passages stand behind the base's: an entity's node there is so many less. The rows of `nodes`, ascending, are
    others; `ends` (m + 1,) says where their edges start and end among `targets` and `weights`. `rarity` gives the
    weights of the base's edges from passages to some entities.
    """

    edges = 2**62
    """No round is dense."""

    def __init__(
        self,
        base: WalkOperator,
        passages: int,
        came: int,
        size: int,
        nodes: IntArray,
        ends: IntArray,
        targets: Int32Array,
        weights: Float32Array,
        rarity: Callable[[IntArray], Float32Array],
    ) -> None:
        self._base, self._passages, self._came, self.size = base, passages, came, size
        self._own_targets, self._own_weights, self._rarity = targets, weights, rarity
        self._held, self._outward = base.edges, int(base.indptr[passages])
        slots = np.zeros(size, dtype=np.int32)
        slots[nodes] = np.arange(1, len(nodes) + 1)
        starts, degrees = ends[:-1] + self._held, np.diff(ends)
        self.indptr, self.out_degrees, self.costs = (
            _patched(old, slots, new, lambda nodes: np.where(nodes < passages, nodes, nodes - came))
            for old, new in (
                (base.indptr, starts), (base.out_degrees, degrees), (base.costs, np.maximum(degrees, 1)),
            )
        )  # fmt: skip
        self.indices, self.weights = _Taken(self._targets), _Taken(self._weights)
        self.inverse_out = _Taken(self._inverse)

    @lazy_property
    def pool(self) -> WorkspacePool:
        """Scratch memory for walks."""
        return WorkspacePool(self.size)

    def _targets(self, edges: IntArray) -> Int32Array:
        own = edges >= self._held
        if not self._held:
            return self._own_targets.take(edges)
        out: Int32Array = self._base.indices.take(np.where(own, 0, edges))
        out[out >= self._passages] += self._came
        out[own] = self._own_targets.take(edges[own] - self._held)
        return out

    def _weights(self, edges: IntArray) -> Float32Array:
        if not self._held:
            return self._own_weights.take(edges)
        own, outward = edges >= self._held, edges < self._outward
        out: Any = self._base.weights.take(np.where(own, 0, edges))
        out[outward] = self._rarity(self._base.indices.take(edges[outward]).astype(np.int64) - self._passages)
        out[own] = self._own_weights.take(edges[own] - self._held)
        found: Float32Array = out
        return found

    def _inverse(self, nodes: IntArray) -> FloatArray:
        counts = self.out_degrees.take(nodes).astype(np.int64)
        weights = self._weights(ranges(self.indptr.take(nodes), counts))
        owner = np.repeat(np.arange(len(nodes)), counts)
        sums = np.bincount(owner, weights=weights.astype(np.float64), minlength=len(nodes))
        return np.divide(1.0, sums, out=np.zeros(len(nodes)), where=sums > 0)
